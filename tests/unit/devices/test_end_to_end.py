"""Every metric from input to result on the stand-in: states and results have the host's bits."""

from __future__ import annotations

from typing import Any

import pytest
from distributed.registry import SUBJECTS, images
from helpers.host_backed_cuda import DeviceTensor, host_backed_cuda, moved
from torch import Tensor
from torch.utils._pytree import tree_leaves

pytestmark = pytest.mark.slow


def digits(value: Any) -> list[Any]:
    """Every number and text in nested values; tensors as bytes, wherever they lie."""
    found: list[Any] = []
    for leaf in tree_leaves(value):
        tensor = leaf.host if isinstance(leaf, DeviceTensor) else leaf
        if isinstance(tensor, Tensor):
            found.append((tensor.dtype, tuple(tensor.shape), tensor.numpy().tobytes()))
        else:
            found.append(repr(leaf))
    return found


def numbers(result: Any) -> list[Any]:
    parts = result.values() if isinstance(result, dict) else [result]
    return [repr(item) for part in parts for item in part.to_dict().items()]


@pytest.mark.parametrize("ids", [True, False])
@pytest.mark.parametrize("name", SUBJECTS)
def test_the_device_branches_have_the_bits_of_the_host(name: str, ids: bool) -> None:
    """Targets are now on the device, now on the host; no ``update`` waits."""
    subject = SUBJECTS[name]
    host, there = subject.new(), subject.new()
    with host_backed_cuda() as counts:
        for number, (first, *rest) in enumerate(images(subject, 9, ids=ids)):
            host.update(first, *rest)
            counts.reset()
            there.update(moved(first), *(moved(rest) if number % 2 else rest))
            assert counts.waits == []
        assert there._accumulated.device.type == "cuda"
        assert numbers(there.compute()) == numbers(host.compute())
        mine, theirs = host.state_dict(), there.state_dict()
        assert mine.keys() == theirs.keys()
        assert digits(theirs) == digits(mine)
        away = [one for one in tree_leaves(theirs) if isinstance(one, DeviceTensor)]
        assert away
