"""A plugin of pytest that runs every test on the stand-in for a CUDA device.

``pytest -p helpers.on_stand_in tests/golden`` moves the tensors that any metric is given to the
stand-in, so that its device branches compute the numbers that the tests compare with official ones.
At the end it says how many updates there were and how many operators of the package were called.
"""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from helpers.host_backed_cuda import host_backed_cuda, moved
from torch_vocmetrics import Metric
from torch_vocmetrics.metrics.mask_quality import MaskQuality

TOTAL: Counter[str] = Counter()


def _there(value: Any) -> Any:
    """Numbers in arrays and lists as well, since tests often give those; ids and sizes stay."""
    if isinstance(value, dict):
        return {key: _column(key, one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_there(one) for one in value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return moved(torch.tensor(value))
    return moved(value)


def _column(key: str, value: Any) -> Any:
    if key in ("counts", "image_id", "image_size", "masks"):
        return value if key == "counts" else moved(value)
    if isinstance(value, list) and all(type(one) in (int, float) for one in value):
        return moved(torch.tensor(value)) if value else value
    return _there(value)


def _on_stand_in(update: Any) -> Any:
    @functools.wraps(update)
    def moving(self: Any, *arguments: Any, **named: Any) -> Any:
        TOTAL["updates"] += 1
        there = [_there(one) for one in arguments[:2]]
        TOTAL["on the device"] += "DeviceTensor" in str(
            {type(leaf) for leaf in torch.utils._pytree.tree_leaves(there)}
        )
        return update(self, *there, *arguments[2:], **named)

    return moving


def _subclasses(kind: type) -> Iterator[type]:
    yield kind
    for one in kind.__subclasses__():
        yield from _subclasses(one)


@pytest.fixture(autouse=True)
def on_stand_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for kind in (*_subclasses(Metric), MaskQuality):
        if "update" in vars(kind) and kind is not Metric:
            monkeypatch.setattr(kind, "update", _on_stand_in(vars(kind)["update"]))
    with host_backed_cuda() as counts:
        yield
    TOTAL["launches"] += counts.launches
    TOTAL["waits"] += len(counts.waits)
    for name, number in counts.operators.items():
        if name.startswith("torch_vocmetrics."):
            TOTAL[name] += number


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Keep one test in so many, as a launch takes a hundred times as long as on the host."""
    items[:] = items[:: int(os.environ.get("ON_STAND_IN_EVERY", "1"))]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    terminalreporter.write_line(f"on the stand-in: {dict(TOTAL)}")
