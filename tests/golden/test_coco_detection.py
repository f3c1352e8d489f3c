"""Every value of the COCO fixture, made by pycocotools with its default parameters."""

from __future__ import annotations

from typing import Any

import pytest
from helpers.support import (
    Evaluator,
    coco_fixture,
    coco_protocol,
    each_evaluator,
    load_fixture,
    name_of,
    nan_for_minus_one,
    same,
)

CASES = load_fixture("coco")
each_case = pytest.mark.parametrize("case", CASES, ids=name_of)


def numbers(result: Any, limits: list[int]) -> dict[str, float]:
    """The twelve numbers by pycocotools' names: AR1, AR10, AR100 are first, second, third limit."""
    third = {"max_detections": limits[2]}
    found = {"AP50": result.mean_precision(iou_threshold=0.5, **third)}
    found["AP75"] = result.mean_precision(iou_threshold=0.75, **third)
    for letter, area in (("s", "small"), ("m", "medium"), ("l", "large")):
        found[f"AP{letter}"] = result.mean_precision(area=area, **third)
        found[f"AR{letter}"] = result.mean_recall(area=area, **third)
    for name, limit in zip(("AR1", "AR10", "AR100"), limits, strict=False):
        found[name] = result.mean_recall(max_detections=limit)
    if 100 in limits:
        found["AP"] = result.mean_precision(max_detections=100)
    return found


@each_evaluator
@each_case
def test_arrays_and_numbers(case: dict[str, Any], evaluate: Evaluator) -> None:
    problem, limits = coco_fixture(case), sorted(case["max_dets"])
    protocol = coco_protocol({"maxDets": limits})
    result: Any = evaluate(protocol, *problem[:2], **problem.kwargs)
    wanted = case["expected"]
    by_class = nan_for_minus_one(wanted["ap_per_category"])
    assert same(result.recall[:, :, 0, -1], nan_for_minus_one(wanted["recall_all_maxlast"]))
    assert same(result.average_precision, by_class)
    if "precision_all_maxlast" in wanted:
        precision = nan_for_minus_one(wanted["precision_all_maxlast"])
        assert same(result.precision[..., 0, -1].permute(0, 2, 1), precision)
    stats = dict(wanted["stats"])
    found = numbers(result, limits)
    if "AP" not in found:
        # The summary of pycocotools asks for a limit of 100 and finds none; ours takes the largest.
        assert stats.pop("AP") == -1
        assert same(result.mean_average_precision, result.mean_precision())
    for name, value in stats.items():
        assert same(found[name], nan_for_minus_one(value)), name
