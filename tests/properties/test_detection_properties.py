"""Fast path = reference = pycocotools on random edge cases, to the last bit; and laws that hold.

``VOCMETRICS_FUZZ=N`` compares N cases for each set of rules in place of the suite's few.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers import oracle
from helpers.generator import random_coco_protocol, random_problem, random_protocol
from helpers.support import Evaluator, Problem, differences, each_evaluator, evaluate_by_metric

from torch_vocmetrics import DetectionAP, reference
from torch_vocmetrics.errors import InputError
from torch_vocmetrics.matching import greedy
from torch_vocmetrics.protocols import DetectionProtocol, load_protocol

FUZZ = int(os.environ.get("VOCMETRICS_FUZZ", "0"))
CASES = FUZZ or 300

# Random labels may leave out the first class.
pytestmark = [
    pytest.mark.filterwarnings("ignore:label 0 never occurred"),
    pytest.mark.filterwarnings("ignore:.* are inverted"),
]

Rules = Callable[[int], DetectionProtocol]


def shipped(name: str) -> Rules:
    protocol = load_protocol(f"detection/{name}")
    return lambda seed: protocol


RULES: dict[str, Rules] = {
    **{name: shipped(name) for name in ("voc2006", "voc2007", "voc2010", "coco2017")},
    "any rules": random_protocol,
}


def report(count: int, what: str) -> None:
    if FUZZ:
        print(f"\n{count} cases compared: {what}")


@pytest.mark.parametrize("name", RULES)
def test_metric_is_reference(name: str) -> None:
    for seed in range(CASES):
        protocol = RULES[name](seed)
        problem = random_problem(seed, protocol)
        fast = evaluate_by_metric(protocol, *problem[:2], **problem.kwargs)
        plain = reference.evaluate(protocol, *problem[:2], **problem.kwargs)
        assert not differences(fast, plain), f"seed {seed}, rules {protocol}"
    report(CASES, f"metric = reference, {name}")


@pytest.mark.parametrize("name", RULES)
def test_metric_is_reference_image_by_image(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """``compute`` after every image, and no case is small enough for a plain loop."""
    monkeypatch.setattr(greedy, "SEQUENTIAL_BELOW", 0)
    count = max(CASES // 6, 50)
    for seed in range(count):
        protocol = RULES[name](seed)
        problem = random_problem(seed, protocol)
        metric = DetectionAP(protocol, **problem.kwargs)
        for image in range(len(problem.detections)):
            metric.update(*(side[image : image + 1] for side in problem[:2]))
            fast = metric.compute()
        plain = reference.evaluate(protocol, *problem[:2], **problem.kwargs)
        assert not differences(fast, plain), f"seed {seed}, rules {protocol}"
    report(count, f"metric image by image = reference, {name}")


@pytest.mark.parametrize("rules", [shipped("coco2017"), random_coco_protocol], ids=["coco", "any"])
def test_metric_is_pycocotools(rules: Rules) -> None:
    for seed in range(CASES):
        protocol = rules(seed)
        problem = random_problem(seed, protocol, "xywh")
        result: Any = evaluate_by_metric(protocol, *problem[:2], **problem.kwargs)
        for array, wanted in oracle.judge_problem(protocol, problem).items():
            found = getattr(result, array).numpy()
            assert np.array_equal(found, wanted, equal_nan=True), f"seed {seed}: {array}"
    report(CASES, "metric = pycocotools")


# Laws ---------------------------------------------------------------------------------------------


def parts_of(problem: Problem, rng: np.random.Generator) -> list[tuple[Any, Any]]:
    """The images cut into batches, some of which are empty."""
    count = len(problem.detections)
    cuts = np.sort(rng.integers(0, count + 1, int(rng.integers(0, 4))))
    bounds = [0, *cuts.tolist(), count]
    return [
        (problem.detections[a:b], problem.ground_truths[a:b]) for a, b in itertools.pairwise(bounds)
    ]


@pytest.mark.parametrize("name", RULES)
def test_splits_merges_and_image_order_change_nothing(name: str) -> None:
    moved = 0
    for seed in range(max(CASES // 4, 50)):
        rng = np.random.default_rng([seed, 4])
        protocol = RULES[name](seed)
        problem = random_problem(seed, protocol)
        whole = evaluate_by_metric(protocol, *problem[:2], **problem.kwargs)

        def metric(
            batches: list[tuple[Any, Any]],
            protocol: DetectionProtocol = protocol,
            kwargs: dict[str, Any] = problem.kwargs,
        ) -> DetectionAP:
            made = DetectionAP(protocol, **kwargs)
            for batch in batches:
                made.update(*batch)
            return made

        batches = parts_of(problem, rng)
        ways = {"split": metric(batches)}
        ways["merged"] = metric(batches[:1]).merge(*(metric([batch]) for batch in batches[1:]))
        if "image_id" in problem.ground_truths[0]:
            moved += 1
            order = rng.permutation(len(problem.detections)).tolist()
            other = Problem(*([side[i] for i in order] for side in problem[:2]), problem.kwargs)
            pieces = [metric([batch]) for batch in parts_of(other, rng)]
            ways["shuffled"] = metric(parts_of(other, rng))
            ways["merged backwards"] = pieces[-1].merge(*pieces[-2::-1])
        for way, made in ways.items():
            assert not differences(whole, made.compute()), f"seed {seed}, {way}, rules {protocol}"
    assert moved


def test_all_points_is_the_mean_of_the_best_precision_at_each_recall() -> None:
    """AP = sum over k of max(precision at recall >= k / M) / M, M the number of positives."""
    compared = 0
    for seed in range(CASES):
        protocol = load_protocol("detection/voc2010")
        problem = random_problem(seed, protocol)
        result: Any = evaluate_by_metric(protocol, *problem[:2], **problem.kwargs)
        for curve, ap, positives in zip(
            result.curves[0], result.average_precision, result.num_positives.tolist(), strict=True
        ):
            if not positives or bool(curve.precision.isnan().any()):
                continue
            compared += 1
            best = [
                max(curve.precision[curve.recall >= k / positives].tolist(), default=0.0)
                for k in range(1, positives + 1)
            ]
            # Both sum at most a few hundred terms of at most 1, each rounded to 1e-16.
            assert abs(sum(best) / positives - float(ap)) < 1e-13, f"seed {seed}"
    assert compared > CASES // 4


# Both evaluators refuse the same -----------------------------------------------------------------


def one_image(**changes: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """One detection and one object; a change named after a key of the target begins with ``t_``."""
    found: dict[str, Any] = {"boxes": [[0.0, 0.0, 9.0, 9.0]], "scores": [0.5], "labels": [0]}
    there: dict[str, Any] = {"boxes": [[0.0, 0.0, 9.0, 9.0]], "labels": [0]}
    for key, value in changes.items():
        (there if key.startswith("t_") else found)[key.removeprefix("t_")] = value
    return found, there


FAULTS: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = {
    "box of NaN": [one_image(boxes=[[0.0, 0.0, math.nan, 9.0]])],
    "infinite box": [one_image(t_boxes=[[0.0, 0.0, math.inf, 9.0]])],
    "boxes of five": [one_image(boxes=[[0.0] * 5])],
    "score of NaN": [one_image(scores=[math.nan])],
    "more scores than boxes": [one_image(scores=[0.5, 0.5])],
    "unknown label": [one_image(labels=[7])],
    "unknown label of an object": [one_image(t_labels=[-1])],
    "more flags than objects": [one_image(t_iscrowd=[0, 1])],
    "inverted box": [one_image(boxes=[[9.0, 0.0, 0.0, 9.0]])],
    "inverted object": [one_image(t_boxes=[[0.0, 9.0, 9.0, 0.0]])],
    "ids of two kinds": [one_image(t_image_id=1), one_image(t_image_id="1")],
    "order in one image only": [one_image(order=[0]), one_image()],
}


@each_evaluator
@pytest.mark.parametrize("name", FAULTS)
def test_faulty_input_is_refused(name: str, evaluate: Evaluator) -> None:
    found, there = map(list, zip(*FAULTS[name], strict=True))
    with pytest.raises(InputError):
        evaluate("coco2017", found, there, num_classes=2)


@each_evaluator
def test_both_sides_need_every_image(evaluate: Evaluator) -> None:
    found, _ = one_image()
    with pytest.raises(InputError):
        evaluate("voc2007", [found], [], num_classes=1)


@each_evaluator
@pytest.mark.parametrize(
    "classes",
    [{}, {"num_classes": 2, "class_names": ["a"]}, {"num_classes": 2, "label_ids": [3, 3]}],
    ids=["none", "disagreeing", "repeated"],
)
def test_classes_must_be_said_once(classes: dict[str, Any], evaluate: Evaluator) -> None:
    own = dataclasses.replace(load_protocol("voc2007"), name="own")
    with pytest.raises(InputError):
        evaluate(own, *map(list, zip(one_image(), strict=True)), **classes)


def test_the_reference_refuses_an_image_that_comes_twice() -> None:
    found, there = map(list, zip(*[one_image(t_image_id=1)] * 2, strict=True))
    with pytest.raises(InputError):
        reference.evaluate("voc2007", found, there, num_classes=1)


# The generator finds what is broken ---------------------------------------------------------------

BOTH, VOC, COCO = ("voc2007", "coco2017"), ("voc2007",), ("coco2017",)
# "small" without its upper end.
OPEN_AREAS = tuple(
    area._replace(upper=1023.0) if area.name == "small" else area
    for area in load_protocol("detection/coco2017").area_ranges
)
MUTATIONS: list[tuple[tuple[str, ...], dict[str, Any]]] = [
    (VOC, {"equal_overlaps": "last"}),
    (COCO, {"equal_overlaps": "first"}),
    (BOTH, {"comparison": ">"}),
    (VOC, {"candidates": "all"}),
    (COCO, {"candidates": "best"}),
    (BOTH, {"reusable_flags": ()}),
    (BOTH, {"ignored_flags": ()}),
    (BOTH, {"ignored_flags": ("ignore",)}),
    (VOC, {"coordinates": "continuous"}),
    (VOC, {"overlap_of_detection_area_flags": ("difficult",)}),
    (COCO, {"overlap_of_detection_area_flags": ()}),
    (COCO, {"area_ranges": OPEN_AREAS}),
    (COCO, {"max_detections": (1, 10, 12)}),
    (COCO, {"recall_levels": tuple(i / 100 for i in range(101))}),
    (VOC, {"recall_levels": tuple(i / 10 for i in range(11))}),
    (VOC, {"interpolation": "all_points"}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "change"),
    [(name, change) for names, change in MUTATIONS for name in names],
    ids=lambda value: value if isinstance(value, str) else next(iter(value)),
)
def test_a_broken_rule_is_noticed(name: str, change: dict[str, Any]) -> None:
    protocol = load_protocol(f"detection/{name}")
    broken = dataclasses.replace(protocol, **change)

    def told_apart(seed: int) -> bool:
        problem = random_problem(seed, protocol)
        good = reference.evaluate(protocol, *problem[:2], **problem.kwargs)
        bad = reference.evaluate(broken, *problem[:2], **problem.kwargs)
        return bool(set(differences(good, bad)) - {"protocol"})

    assert any(map(told_apart, range(300))), f"no case tells {change} from the rules of {name}"
