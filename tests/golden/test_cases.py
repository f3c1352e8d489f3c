"""The detection lines of cases.jsonl; of several answers to one case ours is the wanted one."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import math
import re
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from helpers import oracle
from helpers.support import (
    Evaluator,
    answers_of,
    coco_case,
    coco_case_parts,
    coco_problem,
    coco_protocol,
    each_evaluator,
    evaluate_by_metric,
    load_cases,
    matlab_vector,
    name_of,
    nan_for_minus_one,
    same,
    voc_case,
)

import torch_vocmetrics
from torch_vocmetrics import reference
from torch_vocmetrics.errors import VocMetricsWarning
from torch_vocmetrics.protocols import load_protocol

TOLERANCE = 5e-11  # the decimals of a case are rounded to ten digits
OFFICIAL = "pycocotools_2.0.11"
COCO, VOC, RANKS = map(load_cases, ("COCO bbox", "VOC detection", "COCO bbox, 2 ranks"))


def coco_number(result: Any, name: str) -> Any:
    """What a result has under pycocotools' name; None for a name that says no number of ours."""
    limits, thresholds = result.protocol.max_detections, result.protocol.iou_thresholds
    if name == "AP":
        return result.mean_average_precision
    if name == "AP_per_class":
        return dict(zip(result.class_names, result.average_precision.tolist(), strict=True))
    if name in ("AR1", "AR10", "AR100"):
        return result.mean_recall(max_detections=limits[("AR1", "AR10", "AR100").index(name)])
    if area := re.fullmatch("A([PR])([sml])", name):
        mean = result.mean_precision if area[1] == "P" else result.mean_recall
        return mean(area={"s": "small", "m": "medium", "l": "large"}[area[2]])
    if threshold := re.fullmatch(r"AP(\d\d)", name):
        value = next((t for t in thresholds if math.isclose(t, int(threshold[1]) / 100)), None)
        return math.nan if value is None else result.mean_precision(iou_threshold=value)
    return None


def differing(result: Any, wanted: dict[str, Any]) -> list[str]:
    """Names of wanted numbers that a result has, but other ones."""
    names, compared = [], 0
    for name, value in wanted.items():
        found = coco_number(result, name)
        if found is None:
            continue  # a remark, such as the answer of another package
        compared += 1
        if isinstance(value, dict):
            found, value = [found[key] for key in value], list(value.values())  # noqa: PLW2901
        if not same(found, nan_for_minus_one(value), TOLERANCE):
            names.append(name)
    assert compared
    return names


def check_coco(result: Any, case: dict[str, Any]) -> None:
    """A result is one of the answers that a case allows."""
    wrong = [differing(result, wanted) for wanted in answers_of(case)]
    assert [] in wrong, wrong


@each_evaluator
@pytest.mark.parametrize("case", COCO, ids=name_of)
def test_coco(case: dict[str, Any], evaluate: Evaluator) -> None:
    problem = coco_case(case)
    protocol = coco_protocol(case["input"].get("params", {}))
    result = evaluate(protocol, *problem[:2], **problem.kwargs)
    check_coco(result, case)


@pytest.mark.parametrize("case", COCO, ids=name_of)
def test_live_pycocotools_says_so(case: dict[str, Any]) -> None:
    """Each official answer, also where ours is another one, is what pycocotools gives today."""
    parts = coco_case_parts(copy.deepcopy(case["input"]))
    judge = oracle.run_cocoeval(*parts, case["input"].get("params"))
    stats = oracle.stats(judge)
    official = case["expected"].get(OFFICIAL, case["expected"])
    for name in official.keys() & stats.keys():
        assert same(stats[name], official[name], TOLERANCE), name


@each_evaluator
@pytest.mark.parametrize("case", VOC, ids=name_of)
def test_voc(case: dict[str, Any], evaluate: Evaluator) -> None:
    problem, expected = voc_case(case), case["expected"]
    threshold = case["input"].get("iou_threshold", 0.5)
    compared = 0
    for name, value in expected.items():
        year = re.match(r"AP_(voc\d{4})", name)
        if year is None:
            continue
        protocol = load_protocol(f"detection/{year[1]}")
        protocol = dataclasses.replace(protocol, iou_thresholds=(threshold,))
        result: Any = evaluate(protocol, *problem[:2], **problem.kwargs)
        by_class = dict(zip(result.class_names, result.average_precision.tolist(), strict=True))
        if isinstance(value, dict):
            assert same([by_class[key] for key in value], list(value.values()), TOLERANCE), name
        elif len(by_class) == 1:  # of a class without positives, too, where the mean has no class
            assert same(*by_class.values(), value, TOLERANCE), name
        else:
            assert same(result.mean_average_precision, value, TOLERANCE), name
        for axis in {"recall", "precision"} & expected.keys():
            curve = getattr(result.curves[0][0], axis)
            assert same(curve, matlab_vector(expected[axis]), TOLERANCE), axis
        compared += 1
    assert compared, expected.keys()


# Ranks --------------------------------------------------------------------------------------------


def sharded_images(ranks: list[Any]) -> list[tuple[Any, list[Any], list[Any]]]:
    """(image id, gt, dt) in the order of (place on its rank, rank): the order of a sampler."""
    placed = []
    for rank, batches in enumerate(ranks):
        ids = [(one, batch) for batch in batches for one in batch["image_ids"]]
        for place, (image_id, batch) in enumerate(ids):
            sides = [[r for r in batch[s] if r["image_id"] == image_id] for s in ("gt", "dt")]
            placed.append((place, rank, image_id, *sides))
    return [entry[2:] for entry in sorted(placed, key=lambda entry: entry[:2])]


def duplicates(ranks: list[Any]) -> bool:
    ids = [image_id for image_id, *_ in sharded_images(ranks)]
    return len(set(ids)) < len(ids)


def shardings() -> Iterator[Any]:
    for case in RANKS:
        given = case["input"]
        for i, ranks in enumerate([given["ranks"], *given.get("also_as_ranks", [])]):
            yield pytest.param(case, ranks, id=f"{name_of(case)}-{i}")


def one_image_problems(case: dict[str, Any], ranks: list[Any]) -> list[Any]:
    categories = sorted(case["input"]["category_ids"])
    return [
        coco_problem([image_id], categories, gt, dt) for image_id, gt, dt in sharded_images(ranks)
    ]


@pytest.mark.parametrize(("case", "ranks"), list(shardings()))
def test_union_of_ranks_by_metric(case: dict[str, Any], ranks: list[Any]) -> None:
    """The first copy of an image is kept and a warning says so; else there is no warning."""
    problems = one_image_problems(case, ranks)
    expect = contextlib.nullcontext()
    if duplicates(ranks):
        expect = pytest.warns(VocMetricsWarning)
    with warnings.catch_warnings(), expect:
        warnings.simplefilter("always" if duplicates(ranks) else "error", VocMetricsWarning)
        metric = torch_vocmetrics.DetectionAP("coco2017", **problems[0].kwargs)
        for problem in problems:
            metric.update(*problem[:2])
        result = metric.compute()
    check_coco(result, case)


@each_evaluator
@pytest.mark.parametrize(("case", "ranks"), list(shardings()))
def test_union_of_ranks(case: dict[str, Any], ranks: list[Any], evaluate: Evaluator) -> None:
    """The images of all ranks in one process, each once."""
    problems = {
        p.ground_truths[0]["image_id"]: p for p in reversed(one_image_problems(case, ranks))
    }
    detections = [problem.detections[0] for problem in problems.values()]
    ground_truths = [problem.ground_truths[0] for problem in problems.values()]
    kwargs = next(iter(problems.values())).kwargs
    check_coco(evaluate("coco2017", detections, ground_truths, **kwargs), case)


def test_repeat_would_count_without_ids() -> None:
    """Where a case says what a counted repeat gives, both evaluators give it without ids."""
    key = "AP_if_the_repeat_is_counted"
    for case in (case for case in RANKS if key in case["expected"]):
        problems = one_image_problems(case, case["input"]["ranks"])
        detections = [problem.detections[0] for problem in problems]
        ground_truths = [
            {k: v for k, v in problem.ground_truths[0].items() if k != "image_id"}
            for problem in problems
        ]
        for evaluate in (reference.evaluate, evaluate_by_metric):
            result = evaluate("coco2017", detections, ground_truths, **problems[0].kwargs)
            assert same(result.mean_average_precision, case["expected"][key], TOLERANCE)
