"""Sweeps against plain loops, and against evaluating again with other flags or images."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
from helpers.generator import random_problem
from helpers.support import Problem
from unit.analysis.problems import many, recorded

from torch_vocmetrics import DetectionAP, InputError, StateError, load_protocol, reference
from torch_vocmetrics.analysis import (
    image_scores,
    sweep_area_ranges,
    sweep_images,
    sweep_iou,
    sweep_objects,
    sweep_smallest_size,
)
from torch_vocmetrics.reference.sweeps import restricted_average_precision

SEEDS = range(60)
VOC = load_protocol("detection/voc2012")
COCO = load_protocol("detection/coco2017")
EDGES = (-1.0, 300.0, 1024.0, 1e9)


def close(got: torch.Tensor, wanted: object) -> None:
    np.testing.assert_allclose(got.numpy(), np.asarray(wanted), rtol=0, atol=1e-12)


def of_classes(result: object, t: int = 0, area: int = 0) -> torch.Tensor:
    """[K] AP at a threshold, NaN without objects."""
    if hasattr(result, "average_precision_by_threshold"):
        values = result.average_precision_by_threshold[t]
        return torch.where(result.num_positives > 0, values, math.nan)
    return result.precision[t, :, :, area, -1].mean(dim=0)


def test_thresholds_and_area_ranges_are_those_of_the_result() -> None:
    for given in many(SEEDS, headline=True):
        result = reference.evaluate(given.rules, *given.problem[:2], **given.problem.kwargs)
        names = [entry.name for entry in given.rules.area_ranges]
        headline = names.index(given.rules.headline_area)
        sweep = sweep_iou(given.records)
        assert list(sweep.value) == list(given.rules.iou_thresholds)
        for t in range(len(sweep.value)):
            wanted = of_classes(result, t, headline)
            close(sweep.average_precision[t], wanted)
            averaged = wanted[result.num_positives > 0]
            if given.rules.mean_over == "defined_values":
                averaged = averaged[~averaged.isnan()]
            close(sweep.mean[t], averaged.mean() if averaged.numel() else math.nan)
            assert torch.equal(sweep.num_positives[t], result.num_positives)
        if given.rules.interpolation != "recall_grid":
            continue
        t = given.rules.iou_thresholds.index(given.iou_threshold)
        sweep = sweep_area_ranges(given.records, iou_threshold=given.iou_threshold)
        assert list(sweep.value) == names
        for area in range(len(names)):
            close(sweep.average_precision[area], of_classes(result, t, area))


def test_small_objects_of_voc_become_difficult() -> None:
    limits = [0.0, 150.0, 401.0, 3000.0]
    for seed in range(40):
        problem = random_problem(seed, VOC)
        for one in problem.ground_truths:
            one.pop("area", None)
        records = recorded(VOC, problem)
        sweep = sweep_smallest_size(records, limits)
        for point, limit in enumerate(limits):
            area, start = records.ground_truths.area, 0
            there = []
            for one in problem.ground_truths:
                small = area[start : start + one["labels"].shape[0]] < limit
                start += one["labels"].shape[0]
                difficult = one.get("difficult", torch.zeros_like(small))
                there.append(one | {"difficult": difficult | small})
            result = reference.evaluate(VOC, problem.detections, there, **problem.kwargs)
            close(sweep.average_precision[point], of_classes(result))
            assert torch.equal(sweep.num_positives[point], result.num_positives)


def test_objects_left_out_are_those_of_plain_loops() -> None:
    compared = 0
    for given in many(SEEDS, headline=True):
        areas = given.records.ground_truths.area
        sweep = sweep_objects(given.records, areas, EDGES, iou_threshold=given.iou_threshold)
        for point in range(3):
            for k in range(len(sweep.class_names)):
                wanted = restricted_average_precision(
                    given.judged,
                    given.rules,
                    given.iou_threshold,
                    lambda one, p=point: EDGES[p] <= one.area < EDGES[p + 1],
                    k,
                )
                close(sweep.average_precision[point, k], math.nan if wanted is None else wanted)
                compared += 1
    assert compared > 50


def test_images_are_evaluated_apart() -> None:
    compared = 0
    for given in many(SEEDS, headline=True):
        problem = given.problem
        values = [float(number % 2) for number in range(len(problem.detections))]
        sweep = sweep_images(given.records, values, iou_threshold=given.iou_threshold)
        t = given.rules.iou_thresholds.index(given.iou_threshold)
        names = [entry.name for entry in given.rules.area_ranges]
        headline = names.index(given.rules.headline_area)
        for point, value in enumerate(sweep.value):
            rows = [number for number, one in enumerate(values) if one == value]
            result = reference.evaluate(
                given.rules,
                [problem.detections[row] for row in rows],
                [problem.ground_truths[row] for row in rows],
                **problem.kwargs,
            )
            close(sweep.average_precision[point], of_classes(result, t, headline))
            compared += 1
    assert compared > 50


def test_values_by_image_id_and_shares_of_the_image() -> None:
    box = torch.tensor([[0.0, 0, 9, 9], [20, 0, 39, 39]])
    metric = DetectionAP("voc2012", class_names=["cat"], diagnostics=True)
    for image_id, score in ((7, 0.9), (3, 0.8)):
        found = {"boxes": box, "scores": [score, score / 2], "labels": [0, 0]}
        there = {"boxes": box, "labels": [0, 0], "image_id": image_id, "image_size": (100, 100)}
        metric.update([found], [there])
    sweep = sweep_objects(metric, {3: [0.0, 1.0], 7: [2.0, 1.0]}, property="truncation")
    assert sweep.value == (0.0, 1.0, 2.0)
    assert sweep.num_positives.tolist() == [[1], [2], [1]]
    assert list(sweep.to_pandas().columns) == ["truncation", "mean", "average_precision_cat"]
    shares = sweep_smallest_size(metric, [0.0, 0.02, 0.5], relative=True)
    assert shares.num_positives.tolist() == [[4], [2], [0]]
    assert shares.mean.tolist()[:2] == [1.0, 1.0]
    assert math.isnan(shares.mean[2])
    objects = sweep_images(metric, edges=[0, 2, 5])
    assert objects.value == ("[0, 2)", "[2, 5)")
    assert objects.num_positives.tolist() == [[0], [4]]


def test_wrong_values() -> None:
    problem = random_problem(3, VOC)
    records = recorded(VOC, problem)
    for call, sentence in (
        (lambda: sweep_objects(records, [1.0]), "must be a number for each of the .* objects"),
        (lambda: sweep_images(records, {"x": 1.0}), "has no entry for an image"),
        (lambda: sweep_images(records, edges=[2, 1]), "must be at least two rising numbers"),
        (lambda: sweep_smallest_size(records, [0.1], relative=True), "size of every image"),
        (lambda: sweep_iou("voc"), "must be a detection metric"),
    ):
        with pytest.raises(InputError, match=sentence):
            call()
    with pytest.raises(StateError, match="leaving out objects under this protocol needs"):
        sweep_smallest_size(recorded(VOC, problem, diagnostics=False), [1e9])
    rules = dataclasses.replace(COCO, iou_thresholds=[0.5])
    assert sweep_smallest_size(recorded(rules, problem, diagnostics=False), [1e9]).mean.isnan()


def test_ignored_detections_alone_are_undefined_under_eleven_points() -> None:
    """VOC's kit has a precision of 0/0 then, at recall 0."""
    box = torch.tensor([[0.0, 0, 9, 9]])
    found = {"boxes": box.repeat(2, 1), "scores": [0.9, 0.8], "labels": torch.tensor([0, 1])}
    boxes = torch.cat([box, box + 100, box])
    there = {"boxes": boxes, "labels": torch.tensor([0, 0, 1]), "difficult": [1, 0, 0]}
    for name in ("voc2007", "voc2012", "coco2017"):
        rules = load_protocol(f"detection/{name}")
        problem = Problem([found], [there], {"num_classes": 2})
        result = reference.evaluate(rules, *problem[:2], **problem.kwargs)
        records = recorded(rules, problem)
        sweep = sweep_iou(records)
        close(sweep.average_precision[0], of_classes(result))
        assert bool(sweep.average_precision[0, 0].isnan()) == (name == "voc2007")
        if name != "coco2017":
            close(sweep.mean[0], result.mean_average_precision)
            close(image_scores(records).average_precision, [result.mean_average_precision])
