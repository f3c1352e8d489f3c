"""What is special about the quick way of small batches on the host."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from torch_vocmetrics import DetectionAP, InputError

BOXES = torch.tensor([[10.0, 20, 30, 40], [50, 60, 70, 80], [1, 2, 30, 4]])


def prediction(boxes: Tensor = BOXES) -> dict[str, Any]:
    rows = boxes.shape[0]
    return {"boxes": boxes, "scores": torch.ones(rows), "labels": torch.zeros(rows).long()}


def target(boxes: Tensor = BOXES, **more: Any) -> dict[str, Any]:
    return {"boxes": boxes, "labels": torch.zeros(boxes.shape[0]).long(), **more}


def metric() -> DetectionAP[Any]:
    return DetectionAP("coco2017", num_classes=2)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_box_inverted_along_either_axis_is_refused(axis: int, dtype: torch.dtype) -> None:
    boxes = BOXES.to(dtype, copy=True)
    boxes[2, axis] = 100.0
    with pytest.raises(InputError, match="row 2"):
        metric().update([prediction(boxes)], [target()])


@pytest.mark.parametrize("lacks", ["boxes", "scores"])
def test_numbers_that_are_not_finite_together_are_no_overflow(lacks: str) -> None:
    boxes, scores = BOXES.clone(), torch.ones(3)
    (boxes if lacks == "boxes" else scores)[1] = torch.nan
    with pytest.raises(InputError, match="prediction 0, row 1"):
        metric().update([prediction(boxes) | {"scores": scores}], [target()])


def test_infinite_scores_rank_first_and_last() -> None:
    scores = torch.tensor([torch.inf, 0.5, -torch.inf])
    result = metric().update([prediction() | {"scores": scores}], [target()]).compute()
    assert result.headline == 1.0


def test_packed_boxes_may_be_a_transposed_view() -> None:
    rows = prediction(BOXES.t().contiguous().t()) | {"counts": [3]}
    assert metric().update(rows, [target()]).compute().headline == 1.0


@pytest.mark.parametrize("bad", [-1.0, torch.inf])
def test_an_area_is_checked_beside_areas_that_are_not_given(bad: float) -> None:
    area = torch.tensor([torch.nan, 5.0, bad])
    with pytest.raises(InputError, match="target 0, row 2"):
        metric().update([prediction()], [target(area=area)])
    metric().update([prediction()], [target(area=torch.tensor([torch.nan, 5.0, 0.0]))])


@pytest.mark.parametrize("bad", [-1, 2, -(2**40)])
def test_labels_on_either_side_of_the_classes_are_refused(bad: int) -> None:
    labels = torch.tensor([0, 1, bad])
    with pytest.raises(InputError, match="row 2"):
        metric().update([prediction() | {"labels": labels}], [target()])


def test_images_may_have_their_keys_in_any_order_and_differ_in_them() -> None:
    first = prediction()
    turned = dict(reversed(first.items()))
    flags = torch.tensor([False, True, False])
    targets = [target(), target(iscrowd=flags), target(ignore=flags)]
    state = metric().update([first, turned, first], targets)
    flags_of_rows = state._accumulated.pending[0].ground_truths.flags
    assert flags_of_rows.tolist() == [0, 0, 0, 0, 2, 0, 0, 4, 0]
    assert state.compute().headline == 1.0
    with pytest.raises(InputError, match="prediction 1: key 'scores' is missing"):
        metric().update([first, target() | {"masks": None}], targets[:2])


@pytest.mark.parametrize("name", ["difficult", "iscrowd", "ignore"])
@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8])
def test_a_flag_reaches_its_own_bit(name: str, dtype: torch.dtype) -> None:
    flags = {"difficult": 1, "iscrowd": 2, "ignore": 4}
    state = metric().update([prediction()], [target(**{name: torch.tensor([0, 1, 0]).to(dtype)})])
    assert state._accumulated.pending[0].ground_truths.flags.tolist() == [0, flags[name], 0]
