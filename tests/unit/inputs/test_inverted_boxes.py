"""Boxes that end before they begin, where the protocol takes them."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from helpers.fake_cuda import fake_cuda
from torch import Tensor

from torch_vocmetrics import DetectionAP
from torch_vocmetrics.inputs.inverted_boxes import LEAST_BOXES, num_inverted, warn_if_many
from torch_vocmetrics.ragged import Detections, GroundTruths

RIGHT, WRONG = [10.0, 10.0, 30.0, 40.0], [50.0, 60.0, 20.0, 30.0]


def rows(inverted: int, right: int = 0) -> dict[str, Any]:
    boxes = torch.tensor([WRONG] * inverted + [RIGHT] * right).reshape(-1, 4)
    return {"boxes": boxes, "labels": torch.zeros(len(boxes), dtype=torch.int64)}


def found(inverted: int, right: int = 0) -> dict[str, Any]:
    image = rows(inverted, right)
    return image | {"scores": torch.linspace(0, 1, len(image["labels"]))}


def said(metric: Any, *batches: tuple[Any, Any]) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for prediction, target in batches:
            metric.update([prediction], [target])
        metric.compute()
        metric.compute()
    return [str(one.message) for one in caught if "before" not in str(one.message)[:20]]


def test_many_are_told_once_with_their_count() -> None:
    metric = DetectionAP("voc2007", num_classes=1)
    (sentence,) = said(
        metric, (found(15), rows(2)), (found(9, 9), rows(0, 3)), (found(0, 50), None)
    )
    assert "24 boxes of predictions and 2 of targets are inverted" in sentence
    assert "box_format=" in sentence
    assert said(metric, (found(30), rows(30))) == []
    assert said(metric.reset(), (found(30), rows(30))) == []


@pytest.mark.parametrize(
    ("batches", "number"),
    [
        ([(found(LEAST_BOXES - 1), None)], 0),
        ([(found(LEAST_BOXES), None)], 1),
        ([(found(LEAST_BOXES // 2), rows(LEAST_BOXES // 2))], 1),
        ([(None, rows(LEAST_BOXES))], 1),
        ([(found(20, 60), None)], 1),
        ([(found(20, 61), None)], 0),
        ([(found(20, 10), rows(0, 51))], 0),
        ([(found(20), None), (found(0, 900), rows(0, 9))], 1),
    ],
)
def test_few_are_slips(batches: Any, number: int) -> None:
    assert len(said(DetectionAP("voc2007", num_classes=1), *batches)) == number


@pytest.mark.parametrize("box_format", ["xyxy", "xywh", "cxcywh"])
def test_counts_of_a_batch(box_format: str) -> None:
    """A negative width or height in any format; equal ends are no inversion."""
    if box_format == "xyxy":
        boxes = torch.tensor([[0.0, 0, 0, 0], [5, 0, 4, 9], [5, 9, 6, 8], [9, 9, 0, 0]])
    else:
        boxes = torch.tensor([[9.0, 9, 0, 0], [5, 0, -1, 9], [5, 9, 6, -8], [9, 9, -9, -9]])
    labels = torch.zeros(4, dtype=torch.int64)
    detections = Detections((4,), boxes, torch.ones(4), labels, None, box_format)

    def targets(boxes: Tensor) -> GroundTruths:
        count = len(boxes)
        flags, area = torch.zeros(count, dtype=torch.uint8), torch.ones(count)
        return GroundTruths((count,), boxes, labels[:count], flags, area, box_format)

    counts = num_inverted(detections, targets(boxes[:2]))
    assert counts is not None
    assert counts.tolist() == [3, 1, 6]
    sound = Detections((1,), boxes[:1], torch.ones(1), labels[:1], None, box_format)
    assert num_inverted(sound, targets(boxes[:1])) is None
    assert num_inverted(sound, targets(boxes[:0])) is None
    only = num_inverted(sound, targets(boxes))
    assert only is not None
    assert only.tolist() == [0, 3, 5]


def test_width_and_height_read_as_corners_are_noticed() -> None:
    rng = torch.Generator().manual_seed(2)
    near = torch.rand(60, 2, generator=rng) * 400
    boxes = torch.cat([near, 20 + torch.rand(60, 2, generator=rng) * 100], 1)
    image = {"boxes": boxes, "labels": torch.zeros(60, dtype=torch.int64)}
    batch = (image | {"scores": torch.rand(60)}, image)
    assert len(said(DetectionAP("voc2012", num_classes=1), batch)) == 1
    assert said(DetectionAP("voc2012", num_classes=1, box_format="xywh"), batch) == []


def test_a_device_is_not_read_by_update() -> None:
    with fake_cuda():
        one = {k: torch.empty(v.shape, dtype=v.dtype, device="cuda") for k, v in found(30).items()}
        metric = DetectionAP("voc2007", num_classes=1).update([one], [None])
        counts = metric._accumulated.pending[0].inverted
        assert (counts.shape, counts.device.type) == ((3,), "cuda")


def test_nothing_to_count() -> None:
    assert not warn_if_many([])
    assert not warn_if_many([torch.tensor([0, 0, 500])])
