"""Scores of images, false positives and missed objects, against plain loops and single images."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from unit.analysis.problems import Given, many

from torch_vocmetrics import InputError, LogAverageMissRate, reference
from torch_vocmetrics.analysis import false_positives, image_scores, missed_objects, score_curves
from torch_vocmetrics.reference import per_image as loops
from torch_vocmetrics.reference.error_kinds import kind_of
from torch_vocmetrics.reference.reading import positions

SEEDS = range(60)


def arrival(given: Given) -> list[int]:
    """Where the images of the judgement, which are in the order of ids, came."""
    return positions(given.problem.ground_truths)


def ids(given: Given, images: list[int]) -> list[object]:
    """The ids of images of the judgement; numbers in order of arrival where there are none."""
    there = given.problem.ground_truths
    rows = [arrival(given)[image] for image in images]
    if not all("image_id" in one for one in there):
        return rows
    found = [there[row]["image_id"] for row in rows]
    return [one.item() if isinstance(one, torch.Tensor) else one for one in found]


def average_precision_of(given: Given, at: int) -> float:
    """What the reference gives for one image alone."""
    rules = given.rules
    found, there = given.problem.detections[at], given.problem.ground_truths[at]
    result = reference.evaluate(rules, [found], [there], **given.problem.kwargs)
    t = rules.iou_thresholds.index(given.iou_threshold)
    if rules.interpolation == "recall_grid":
        values = result.precision[t, :, :, rules.area_ranges.index(area_of(given)), -1].mean(dim=0)
    else:
        values = result.average_precision_by_threshold[t]
        values = values[result.num_positives > 0]
    if rules.mean_over == "defined_values" or rules.interpolation == "recall_grid":
        values = values[~values.isnan()]
    return float(values.mean()) if values.numel() else math.nan


def area_of(given: Given) -> object:
    return next(entry for entry in given.rules.area_ranges if entry.name == given.area)


def test_counts_are_those_of_plain_loops() -> None:
    for given in many(SEEDS):
        for score in (-math.inf, 0.5):
            table = image_scores(
                given.records, score=score, iou_threshold=given.iou_threshold, area=given.area
            )
            order = list(arrival(given))
            came = [order.index(row) for row in range(len(order))]
            assert list(table.image_id) == ids(given, came)
            for image, number in enumerate(came):
                wanted = loops.image_counts(given.judged, number, score)
                assert int(table.true_positives[image]) == wanted.true_positives
                assert int(table.false_positives[image]) == wanted.false_positives
                assert int(table.false_negatives[image]) == wanted.false_negatives
                twice = 2 * wanted.true_positives
                errors = wanted.false_positives + wanted.false_negatives
                f_score = twice / (twice + errors) if twice + errors else math.nan
                np.testing.assert_equal(float(table.f_score[image]), f_score)


def test_average_precision_is_that_of_the_image_alone() -> None:
    for given in many(SEEDS, headline=True):
        table = image_scores(given.records, iou_threshold=given.iou_threshold)
        wanted = [average_precision_of(given, row) for row in range(given.judged.num_images)]
        np.testing.assert_allclose(table.average_precision, wanted, rtol=0, atol=1e-12)


def test_false_positives_and_missed_objects_are_those_of_plain_loops() -> None:
    for given in many(SEEDS, headline=True, mixed=True):
        missed = missed_objects(given.records, score=0.2, iou_threshold=given.iou_threshold)
        order = arrival(given)
        wanted = sorted(
            loops.missed_objects(given.judged, 0.2), key=lambda one: (order[one.image], one.row)
        )
        names = given.judged.class_names
        assert list(missed.image_id) == ids(given, [one.image for one in wanted])
        assert missed.ground_truth.tolist() == [one.row for one in wanted]
        assert list(missed.class_name) == [names[one.label] for one in wanted]
        assert missed.area.tolist() == [one.area for one in wanted]
        if given.iou_threshold <= 0.1:
            continue
        table = false_positives(given.records, score=0.2, iou_threshold=given.iou_threshold)
        rows = loops.false_positives(given.judged, 0.2)
        bar = min(given.iou_threshold, given.rules.iou_threshold_ceiling)
        strict = given.rules.comparison == ">"
        kinds = [kind_of(row, given.judged, bar, 0.1, strict=strict) for row in rows]
        assert list(table.image_id) == ids(given, [row.image for row in rows])
        assert table.detection.tolist() == [row.row for row in rows]
        assert table.score.tolist() == [row.score for row in rows]
        assert list(table.class_name) == [names[row.label] for row in rows]
        assert list(table.kind) == kinds
        about = [
            (row.other_object, row.other) if kind == "classification" else (row.own_object, row.own)
            for row, kind in zip(rows, kinds, strict=True)
        ]
        assert table.ground_truth.tolist() == [row for row, _ in about]
        np.testing.assert_allclose(table.overlap, [value for _, value in about], atol=1e-6)


def test_sizes_best_and_worst() -> None:
    given = next(one for one in many(SEEDS) if one.rules.name == "coco2017")
    missed = missed_objects(given.records, score=math.inf)
    assert missed.area.numel() > 3
    for area, size in zip(missed.area.tolist(), missed.size, strict=True):
        assert size == ("small" if area <= 1024 else "medium" if area <= 9216 else "large")
    table = image_scores(given.records)
    f_scores = table.f_score[~table.f_score.isnan()].tolist()
    assert table.best(2).f_score.tolist() == sorted(f_scores, reverse=True)[:2]
    worst = table.worst(3, by="average_precision")
    assert (
        worst.average_precision.tolist()
        == sorted(value for value in table.average_precision.tolist() if not math.isnan(value))[:3]
    )
    assert worst.to_pandas().columns[0] == "image_id"
    with pytest.raises(InputError, match="by: there is no column 'image_id'; use true_pos"):
        table.best(1, by="image_id")


def test_subsets_of_pedestrians() -> None:
    metric = LogAverageMissRate("caltech2012", box_format="xywh")
    found = {
        "boxes": torch.tensor([[100.0, 120, 41, 100], [400, 100, 30, 75]]),
        "scores": torch.tensor([0.9, 0.4]),
        "labels": torch.tensor([0, 0]),
    }
    there = {"boxes": torch.tensor([[102.0, 121, 38, 99], [300, 150, 25, 60]]), "labels": [0, 0]}
    metric.update([found], [there])
    missed = missed_objects(metric)
    assert missed.ground_truth.tolist() == [1]
    assert missed.size == ("",)
    best = score_curves(metric, area="Reasonable").best()
    assert best["all"]["precision"] == 1.0
    with pytest.raises(InputError, match="needs a protocol of average precision, got miss_rate/"):
        image_scores(metric)
