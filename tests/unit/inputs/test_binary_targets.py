"""True masks of black and white under rules that make white void."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from helpers.fake_cuda import fake_cuda
from torch import Tensor

from torch_vocmetrics import MeanIoU, VocMetricsWarning
from torch_vocmetrics.inputs.binary_targets import (
    LEAST_PIXELS,
    MOST_STACKS,
    MOST_STACKS_ON_DEVICE,
    WhitePixels,
)

SENTENCE = "hold 0 and 255 alone, and 255 is void here, so that only label 0 is evaluated"


def maps(black: int, white: int, other: int = 0, dtype: torch.dtype = torch.uint8) -> Tensor:
    values = [0] * black + [255] * white + [1] * other
    return torch.tensor([[values]], dtype=dtype)


def new(**options: Any) -> MeanIoU:
    return MeanIoU("voc2012_present_classes", **({"num_classes": 2} | options))


def warned(metric: MeanIoU, *targets: Tensor) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for target in targets:
            metric.update(torch.zeros_like(target, dtype=torch.int64), target)
        metric.compute()
        metric.compute()
    return [str(one.message) for one in caught]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32, torch.int64])
def test_black_and_white_are_pointed_out_once(dtype: torch.dtype) -> None:
    said = warned(new(), maps(120, 60, dtype=dtype), maps(7, 80, dtype=dtype))
    assert len(said) == 1
    assert SENTENCE in said[0]
    assert "label_ids=[0, 255] with ignore_index=-1" in said[0]


@pytest.mark.parametrize(
    ("options", "targets"),
    [
        ({}, [maps(200, 200, 1)]),
        ({}, [maps(200, 200), maps(0, 0, 1)]),
        ({}, [maps(1, 0, 1), maps(200, 200)]),
        ({}, [maps(500, LEAST_PIXELS - 1)]),
        ({}, [maps(LEAST_PIXELS - 1, 500)]),
        ({}, [maps(500, 0)]),
        ({}, [maps(0, 500)]),
        ({"label_ids": [0, 255], "ignore_index": -1}, [maps(200, 200)]),
        ({"label_ids": [1, 2], "ignore_index": [0, 255]}, [maps(200, 200)]),
    ],
)
def test_other_targets_say_nothing(options: Any, targets: list[Tensor]) -> None:
    metric = new(**options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for target in targets:
            metric.update(torch.full_like(target, metric.label_ids[0], dtype=torch.int64), target)
        assert metric.compute().num_images == metric.num_images > 0


def test_the_remedy_of_the_sentence_works() -> None:
    target = maps(200, 100)
    metric = new(label_ids=[0, 255], ignore_index=-1)
    assert metric.update(target.long(), target).compute().headline == 1


def test_a_device_is_read_by_compute() -> None:
    """A CPU that passes for a device: what was counted is read with the result."""
    seen = WhitePixels(unread=(torch.tensor(60), torch.tensor(60)))
    with pytest.warns(VocMetricsWarning, match="hold 0 and 255 alone"):
        assert seen.warn_of_binary_targets(100, 0)
    for black, others in ((99, 0), (100, 1)):
        assert not seen.warn_of_binary_targets(black, others)
    assert not WhitePixels(unread=(torch.tensor(99),)).warn_of_binary_targets(100, 0)


def test_updates_do_not_wait() -> None:
    with fake_cuda():
        seen = WhitePixels()
        labels = torch.zeros(2, 8, 8, dtype=torch.int64, device="cuda")
        for _ in range(5):
            seen = seen.after([labels])
        assert len(seen.unread) == MOST_STACKS_ON_DEVICE


def test_only_the_first_targets_are_looked_at() -> None:
    seen = WhitePixels()
    for _ in range(MOST_STACKS + 5):
        seen = seen.after([maps(3, 2)])
    assert seen == WhitePixels(0, 2 * MOST_STACKS)


def test_types_that_are_not_compared() -> None:
    labels = maps(200, 200, dtype=torch.int64).to(torch.int8)
    assert WhitePixels().after([labels]) == WhitePixels()
