"""Every value of the VOC development kits' fixture: curves, counts, average precision."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
from helpers.support import Evaluator, each_evaluator, load_fixture, name_of, same, voc_fixture

from torch_vocmetrics.protocols import load_protocol

CASES = load_fixture("voc_det")
# The official values are exact doubles and every sum here has the official order.
EXACT = 0.0
GRIDS = {"t_exact_tenths": "exact_tenths", "t_matlab_colon": "matlab_colon"}
each_case = pytest.mark.parametrize("case", CASES, ids=name_of)


def rules(name: str, case: dict[str, Any]) -> Any:
    protocol = load_protocol(f"detection/{name}")
    return dataclasses.replace(protocol, iou_thresholds=(case["minoverlap"],))


def answers(case: dict[str, Any], year: int) -> dict[str, dict[str, Any]]:
    """Per class what the kit of the year says: kits of equal results share one entry.

    Kits that share their matching share ``rec`` and ``prec``, which the older entry then has.
    """
    found = {}
    for name, by_year in case["expected"].items():
        known = sorted(int(key) for key in by_year if int(key) <= year)
        # VOC 2006 has rules of its own, so it lends nothing to later years.
        known = [key for key in known if (key == 2006) == (year == 2006)]
        if known:
            merged: dict[str, Any] = {}
            for key in known:
                merged.pop("ap_if", None)
                merged |= by_year[str(key)]
            found[name] = merged
    return found


@each_evaluator
@each_case
def test_curves_counts_and_average_precision(case: dict[str, Any], evaluate: Evaluator) -> None:
    detections, ground_truths, kwargs = voc_fixture(case)
    for year in case["years"]:
        result: Any = evaluate(rules(f"voc{year}", case), detections, ground_truths, **kwargs)
        for k, name in enumerate(case["classes"]):
            wanted = answers(case, year)[name]
            where = f"{name} {year}"
            if "error" in wanted:
                continue
            curve = result.curves[0][k]
            assert same(curve.recall, wanted["rec"], EXACT), where
            assert same(curve.precision, wanted["prec"], EXACT), where
            assert same(result.average_precision[k], wanted["ap"], EXACT), where
            assert same(curve.scores, sorted(curve.scores.tolist(), reverse=True)), where
            check_counts(result, k, wanted["rec"], wanted["prec"])


def check_counts(result: Any, k: int, recall: list[float], precision: list[float]) -> None:
    """Counts are exact wherever the last point of the curve tells them."""
    true = int(result.true_positives[0, k])
    false = int(result.false_positives[0, k])
    positives = int(result.num_positives[k])
    if not recall:
        assert true == false == 0
    elif positives:
        assert true == round(recall[-1] * positives)
        if true:
            assert false == round(true / precision[-1]) - true
    else:
        assert true == 0
        assert (false == 0) == math.isnan(precision[-1])


@each_evaluator
@each_case
def test_average_precision_on_other_grids(case: dict[str, Any], evaluate: Evaluator) -> None:
    detections, ground_truths, kwargs = voc_fixture(case)
    for year in (year for year in case["years"] if year < 2010):
        for key, suffix in GRIDS.items():
            protocol = rules(f"voc{year}_{suffix}", case)
            result = evaluate(protocol, detections, ground_truths, **kwargs)
            for k, name in enumerate(case["classes"]):
                wanted = answers(case, year)[name]
                # A grid that gives the same value is not listed.
                value = wanted.get("ap_if", {}).get(key, wanted.get("ap"))
                if "error" not in wanted:
                    assert same(result.average_precision[k], value, EXACT), f"{name} {year} {key}"


@each_evaluator
def test_mean_runs_over_the_classes_with_positives(evaluate: Evaluator) -> None:
    for case in CASES:
        detections, ground_truths, kwargs = voc_fixture(case)
        result = evaluate(rules("voc2010", case), detections, ground_truths, **kwargs)
        chosen = result.average_precision[result.num_positives > 0].tolist()
        total = 0.0
        for value in chosen:
            total = total + value
        wanted = total / len(chosen) if chosen else math.nan
        assert same(result.mean_average_precision, wanted)
        assert result.num_classes_averaged == len(chosen)
