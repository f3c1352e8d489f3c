"""Whole arrays of live pycocotools, bit for bit, with parameters of every kind."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch
from helpers import oracle
from helpers.generator import random_coco_protocol, random_problem
from helpers.support import Evaluator, Problem, coco_problem, coco_protocol, each_evaluator

from torch_vocmetrics.protocols import DetectionProtocol

SEEDS = range(40)


def check(evaluate: Evaluator, protocol: DetectionProtocol, problem: Problem, note: str) -> None:
    result: Any = evaluate(protocol, *problem[:2], **problem.kwargs)
    for name, wanted in oracle.judge_problem(protocol, problem).items():
        found = getattr(result, name).numpy()
        assert np.array_equal(found, wanted, equal_nan=True), f"{note}: {name}"


@each_evaluator
def test_default_parameters(evaluate: Evaluator) -> None:
    protocol = coco_protocol({})
    for seed in SEEDS:
        check(evaluate, protocol, random_problem(seed, protocol, "xywh"), f"seed {seed}")


@each_evaluator
def test_custom_parameters(evaluate: Evaluator) -> None:
    for seed in SEEDS:
        protocol = random_coco_protocol(seed)
        check(evaluate, protocol, random_problem(seed, protocol, "xywh"), f"seed {seed}")


@each_evaluator
def test_class_agnostic(evaluate: Evaluator) -> None:
    """``useCats = 0``, which puts the rows of an image in the order of categories first."""
    for seed in SEEDS:
        protocol = dataclasses.replace(random_coco_protocol(seed), class_agnostic=True)
        problem = random_problem(seed, protocol, "xywh")
        sides = [[_by_label(one) for one in side] for side in problem[:2]]
        check(evaluate, protocol, Problem(*sides, problem.kwargs), f"seed {seed}")


def _by_label(image: dict[str, Any]) -> dict[str, Any]:
    order = torch.sort(image["labels"], stable=True).indices
    rows = {key: value for key, value in image.items() if key != "image_id"}
    return image | {key: value[order] for key, value in rows.items() if len(value)}


def test_the_parameters_vary() -> None:
    protocols = [random_coco_protocol(seed) for seed in SEEDS]
    problems = [random_problem(s, p, "xywh") for s, p in zip(SEEDS, protocols, strict=True)]
    for field in ("max_detections", "iou_thresholds", "recall_levels", "area_ranges"):
        assert len({getattr(protocol, field) for protocol in protocols}) > 2, field
    targets = [one for problem in problems for one in problem.ground_truths]
    assert any("iscrowd" in one and bool(one["iscrowd"].any()) for one in targets)
    given = torch.cat([one["area"] for one in targets if "area" in one])
    assert bool(given.isnan().any())
    assert not bool(given.isnan().all())


IMAGES = [3, 1, 2]


def at(image: int, *box: float, category: int = 1, **more: Any) -> dict[str, Any]:
    return {"image_id": image, "category_id": category, "bbox": list(box)} | more


EDGES: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {
    "nothing": ([], []),
    "no detections": ([at(1, 0, 0, 10, 10)], []),
    "no objects": ([], [at(1, 0, 0, 10, 10, score=0.5)]),
    "only a crowd": ([at(1, 0, 0, 10, 10, iscrowd=1)], [at(1, 0, 0, 5, 5, score=0.5)]),
    "crowd between two objects": (
        [
            at(2, 0, 0, 10, 10),
            at(2, 0, 0, 40, 40, iscrowd=1, area=100.0),
            at(2, 1, 0, 10, 10, area=2000.0),
        ],
        [at(2, 0, 0, 10, 10, score=s) for s in (0.5, 0.5, 0.7)] + [at(2, 30, 30, 9, 9, score=0.9)],
    ),
    "empty boxes": (
        [at(1, 5, 5, 0, 0), at(1, 0, 0, 0, 10)],
        [at(1, 5, 5, 0, 0, score=0.5), at(1, 0, 0, 10, 10, score=0.5)],
    ),
    "ties over images": (
        [at(1, 0, 0, 10, 10), at(3, 0, 0, 10, 10)],
        [at(i, x, 0, 10, 10, score=0.0) for i in IMAGES for x in (0, 30)],
    ),
    "a tie of signed zeros": (
        [at(1, 0, 0, 10, 10)],
        [at(1, 30, 0, 10, 10, score=-0.0), at(1, 0, 0, 10, 10, score=0.0)],
    ),
    "ignored first": (
        [at(1, 0, 0, 50, 50, iscrowd=1), at(2, 0, 0, 10, 10)],
        [at(1, 0, 0, 9, 9, score=0.9), at(2, 0, 0, 10, 10, score=0.5)],
    ),
}


@each_evaluator
@pytest.mark.parametrize("limits", [[1, 10, 100], [1], [3, 2]])
@pytest.mark.parametrize("name", EDGES)
def test_edges(name: str, limits: list[int], evaluate: Evaluator) -> None:
    gt, dt = EDGES[name]
    protocol = coco_protocol({"maxDets": limits})
    check(evaluate, protocol, coco_problem(IMAGES, [1, 4], gt, dt), name)


@each_evaluator
@pytest.mark.parametrize("columns", range(1, 21))
def test_overlap_exactly_at_every_threshold(columns: int, evaluate: Evaluator) -> None:
    for scale in (1.0, 0.1, 1 / 3, 7.7):
        gt = [at(1, 0.3, 0.7, 20 * scale, 13.0)]
        dt = [at(1, 0.3, 0.7, columns * scale, 13.0, score=0.5)]
        protocol = coco_protocol({"iouThrs": [n / 20 for n in range(1, 21)]})
        check(evaluate, protocol, coco_problem([1], [1], gt, dt), f"{columns} x {scale}")


@each_evaluator
@pytest.mark.parametrize("found", [0, 1, 7, 35, 41, 57, 69, 70, 83, 95, 100])
def test_recall_exactly_at_a_level(found: int, evaluate: Evaluator) -> None:
    gt = [at(i, 0, 0, 10, 10) for i in range(1, 101)]
    dt = [at(i, 0, 0, 10, 10, score=1.0 - i / 1000) for i in range(1, found + 1)]
    problem = coco_problem(range(1, 101), [1], gt, dt)
    check(evaluate, coco_protocol({}), problem, f"{found} of 100")
    result = evaluate("coco2017", *problem[:2], **problem.kwargs)
    assert math.isclose(result.recall[0, 0, 0, -1], found / 100)
