"""Laws of analyses: order and batches of images do not matter; counts fit together."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from helpers.generator import random_problem, random_protocol
from helpers.mask_problems import mask_problem
from helpers.support import Problem

from torch_vocmetrics import DetectionAP, analysis, load_protocol
from torch_vocmetrics.protocols import DetectionProtocol
from torch_vocmetrics.records import Records

SEEDS = range(40)


def recorded(rules: DetectionProtocol, problem: Problem, images: list[int], parts: int) -> Records:
    """The records of a metric that saw the images in an order and in so many batches."""
    metric = DetectionAP(rules, diagnostics=True, **problem.kwargs)
    for batch in np.array_split(images, parts):
        if batch.size:
            found, there = ([side[image] for image in batch] for side in problem[:2])
            metric.update(found, there)
    return metric.records()


def with_ids(seed: int, rules: DetectionProtocol) -> Problem:
    problem = random_problem(seed, rules)
    for number, one in enumerate(problem.ground_truths):
        one["image_id"] = number
    return problem


def numbers(records: Records, threshold: float) -> dict[str, Any]:
    """What must not depend on the order of images."""
    tables = {
        "curves": analysis.score_curves(records, iou_threshold=threshold),
        "confusion": analysis.confusion_matrix(records, score=0.2, iou_threshold=threshold),
        "errors": analysis.error_kinds(records, iou_threshold=threshold, background_threshold=0.02),
        "iou": analysis.sweep_iou(records),
        "false": analysis.false_positives(
            records, iou_threshold=threshold, background_threshold=0.02
        ),
    }
    if threshold < 1:
        tables["lrp"] = analysis.optimal_lrp(records, iou_threshold=threshold)
    return {name: table.to_dict() for name, table in tables.items()}


@pytest.mark.parametrize("seed", SEEDS)
def test_order_and_batches_of_images_do_not_matter(seed: int) -> None:
    rules = random_protocol(seed)
    problem = with_ids(seed, rules)
    threshold = rules.iou_thresholds[seed % len(rules.iou_thresholds)]
    images = list(range(len(problem.detections)))
    wanted = numbers(recorded(rules, problem, images, 1), threshold)
    shuffled = np.random.default_rng(seed).permutation(images).tolist()
    got = numbers(recorded(rules, problem, shuffled, 3), threshold)
    assert repr(got) == repr(wanted)


@pytest.mark.parametrize("seed", SEEDS)
def test_counts_fit_together(seed: int) -> None:
    rules = random_protocol(seed)
    # As in every shipped protocol; else an object that counts may have several true positives.
    reusable = tuple(flag for flag in rules.reusable_flags if flag in rules.ignored_flags)
    rules = dataclasses.replace(rules, reusable_flags=reusable)
    problem = with_ids(seed, rules)
    records = recorded(rules, problem, list(range(len(problem.detections))), 1)
    threshold = rules.iou_thresholds[0]
    score = 0.3
    point = analysis.score_curves(records, iou_threshold=threshold).at(score)
    images = analysis.image_scores(records, iou_threshold=threshold, score=score)
    matrix = analysis.confusion_matrix(records, iou_threshold=threshold, score=score)
    missed = analysis.missed_objects(records, iou_threshold=threshold, score=score)
    for name in ("true_positives", "false_positives", "false_negatives"):
        whole = getattr(point, name)
        assert int(whole[:-1].sum()) == int(whole[-1]) == int(getattr(images, name).sum())
    classes = matrix.counts[:-1, :-1]
    assert torch.equal(classes.diagonal(), point.true_positives[:-1])
    seen = point.true_positives + point.false_positives
    assert torch.equal(matrix.counts[:, :-1].sum(dim=0), seen[:-1])
    assert int(point.false_negatives[-1]) == missed.area.shape[0]
    lost = matrix.counts[:-1].sum(dim=1) - classes.diagonal()
    assert torch.equal(lost, point.false_negatives[:-1])
    errors = analysis.error_kinds(records, iou_threshold=threshold, background_threshold=0.01)
    false = analysis.false_positives(records, iou_threshold=threshold, background_threshold=0.01)
    for kind, count in zip(errors.kind[:-1], errors.count.tolist(), strict=False):
        assert false.kind.count(kind) == count
    assert errors.false_positives == len(false.kind)
    assert errors.count[-1] <= errors.false_negatives
    assert not errors.false_positive_cost < -1e-12


def test_masks_are_analysed_as_boxes() -> None:
    rules = load_protocol("detection/coco2017_segm")
    problem = mask_problem(3)
    metric = DetectionAP(rules, diagnostics=True, **problem.kwargs)
    metric.update(problem.detections, problem.ground_truths)
    errors = analysis.error_kinds(metric)
    point = analysis.score_curves(metric).at(-1e9)
    assert errors.false_positives == int(point.false_positives[-1])
    assert errors.false_negatives == int(point.false_negatives[-1])
