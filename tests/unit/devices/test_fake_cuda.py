"""The guard itself: it lets through what does not wait and refuses what does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers.fake_cuda import WaitError, fake_cuda

PLANTED: dict[str, Callable[[Any], Any]] = {
    "item": lambda t: t.sum().item(),
    "int": lambda t: int(t.sum()),
    "tolist": lambda t: t.tolist(),
    "if": lambda t: bool((t > 0).any()),
    "boolean index": lambda t: t[t > 0],
    "boolean assignment": lambda t: t.__setitem__(t > 0, torch.zeros((), device="cuda")),
    "host index": lambda t: t[torch.zeros(1, dtype=torch.int64)],
    "list index": lambda t: t[[0, 1]],
    "nonzero": lambda t: t.nonzero(),
    "unique": lambda t: t.unique(),
    "bincount": lambda t: torch.bincount(t.long(), minlength=9),
    "repeat_interleave": lambda t: torch.repeat_interleave(t, t.long()),
    "cpu": lambda t: t.cpu(),
    "to cpu": lambda t: t.to("cpu", non_blocking=True),
    "numpy": lambda t: t.numpy(),
    "mixed devices": lambda t: t + torch.zeros(4),
    "factory without device": lambda t: torch.stack([t, torch.zeros(4)]),
    "tensor of a list": lambda t: torch.tensor([1.0], device="cuda"),
    "as_tensor": lambda t: torch.as_tensor([1.0], device="cuda"),
    "blocking copy": lambda t: torch.zeros(4).to("cuda"),
    "copy from pageable memory": lambda t: torch.zeros(4).to("cuda", non_blocking=True),
    "copy_ from the host": lambda t: t.copy_(torch.zeros(4)),
}


@pytest.mark.parametrize("name", PLANTED)
def test_what_waits_is_refused(name: str) -> None:
    with fake_cuda():
        values = torch.ones(4, device="cuda")
        with pytest.raises((WaitError, RuntimeError, TypeError)):
            PLANTED[name](values)


def test_what_does_not_wait_passes() -> None:
    with fake_cuda() as guard:
        values = torch.ones(4, device="cuda")
        staging = torch.empty(4, pin_memory=True)
        staging.copy_(torch.zeros(4))
        values = values + staging.to("cuda", non_blocking=True)
        values = torch.where(values > 0, values, 0).index_select(0, values.long())
        torch.repeat_interleave(values, values.long(), output_size=7)
        assert values.device.type == "cuda"
        assert guard.copies == 1
        assert guard.calls > 5
