"""Normalised and chance average precision by plain loops over the definition."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from helpers.generator import random_problem

from torch_vocmetrics import DetectionAP, InputError, LogAverageMissRate, load_protocol
from torch_vocmetrics.analysis import normalized_average_precision


def by_hand(
    hits: list[bool], positives: int, expected: float, levels: tuple[float, ...]
) -> tuple[float, float]:
    """Average precision over recall levels, or all points without levels; plain and normalised."""
    values = []
    for normalized in (False, True):
        points, true, false = [], 0, 0
        for hit in hits:
            true, false = true + hit, false + (not hit)
            found = true / positives * expected if normalized else true
            points.append((true / positives, found / (found + false) if found else 0.0))
        if levels:
            best = [max([p for r, p in points if r >= level], default=0.0) for level in levels]
            values.append(sum(best) / len(levels))
            continue
        total, last = 0.0, 0.0
        for recall, _ in points:
            total += (recall - last) * max(p for r, p in points if r >= recall)
            last = recall
        values.append(total)
    return values[0], values[1]


@pytest.mark.parametrize("name", ["voc2007", "voc2012", "coco2017"])
def test_the_definition(name: str) -> None:
    protocol = load_protocol(name)
    compared = 0
    for seed in range(30):
        problem = random_problem(seed, protocol)
        metric = DetectionAP(protocol, **problem.kwargs)
        metric.update(problem.detections, problem.ground_truths)
        result, records = metric.compute(), metric.records()
        if not bool((result.num_positives > 0).any()):
            continue
        found = normalized_average_precision(records, expected_positives=7.5)
        outcomes = records.outcomes(records.lane_index())
        for k, positives in enumerate(result.num_positives.tolist()):
            if not positives:
                assert math.isnan(found.normalized[k])
                continue
            rows = [
                (-float(score), int(image), row)
                for row, (score, image) in enumerate(
                    zip(records.detections.score, records.detections.image, strict=True)
                )
                if records.detections.label[row] == k and not outcomes.ignored[row]
            ]
            ids = records.image_ids
            if ids is not None:
                place = {
                    image: n for n, image in enumerate(sorted(range(len(ids)), key=ids.__getitem__))
                }
                rows = [(score, place[image], row) for score, image, row in rows]
            if records.match_records.order is not None:
                order = records.match_records.order.tolist()
                rows = [(score, order[row], row) for score, _, row in rows]
            hits = [bool(outcomes.true_positive[row]) for _, _, row in sorted(rows)]
            plain, normalized = by_hand(hits, positives, 7.5, protocol.recall_levels)
            assert found.average_precision[k].item() == pytest.approx(plain, abs=1e-12)
            assert found.normalized[k].item() == pytest.approx(normalized, abs=1e-12)
            compared += 1
        if name != "coco2017":
            averages = torch.where(result.is_averaged, result.average_precision, math.nan)
            np.testing.assert_allclose(
                found.average_precision.nan_to_num(0), averages.nan_to_num(0), atol=1e-12
            )
    assert compared > 30


def one_class(hits: list[bool], objects: int, protocol: str = "voc2012", **kwargs: Any) -> Any:
    """Objects in a row, hits in order, other detections far away."""
    boxes = [[30.0 * n, 0, 30 * n + 20, 20] for n in range(objects)]
    taken = iter(boxes)
    found = [
        next(taken) if hit else [0.0, 500 + 30 * n, 20, 520 + 30 * n] for n, hit in enumerate(hits)
    ]
    scores = [1 - n / 100 for n in range(len(hits))]
    metric = DetectionAP(protocol, class_names=["cat"])
    return metric.update(
        [{"boxes": found, "scores": scores, "labels": [0] * len(found)}],
        [{"boxes": boxes, "labels": [0] * objects}],
    )


def test_by_hand() -> None:
    """Two of four objects after one error: precision 1/2 and 2/3; with N = 12, 3/4 and 6/7."""
    metric = one_class([False, True, True], 4)
    found = normalized_average_precision(metric, expected_positives=12)
    assert found.average_precision.tolist() == pytest.approx([2 / 3 / 2])
    assert found.normalized.tolist() == pytest.approx([6 / 7 / 2])
    # In a random order two of three are hits, up to recall 1/2.
    assert found.chance.tolist() == pytest.approx([2 / 3 / 2])
    assert normalized_average_precision(metric).normalized.tolist() == pytest.approx([2 / 3 / 2])
    eleven = normalized_average_precision(one_class([False, True, True], 4, "voc2007"))
    assert eleven.chance.tolist() == pytest.approx([6 / 11 * 2 / 3])
    assert list(found.to_pandas()["class_name"]) == ["cat"]


def test_what_cannot_be_normalised() -> None:
    with pytest.raises(InputError, match="expected_positives: must be above 0, got 0"):
        normalized_average_precision(one_class([True], 1), expected_positives=0)
    metric = LogAverageMissRate("caltech2012")
    nothing = {"boxes": [], "labels": []}
    metric.update([{**nothing, "scores": []}], [nothing])
    with pytest.raises(InputError, match="must have a detection protocol, got miss_rate"):
        normalized_average_precision(metric)
