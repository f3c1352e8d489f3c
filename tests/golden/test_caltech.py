"""dbEval 3.2.1 and the curve of 3.0.0: every experiment of every algorithm."""

from __future__ import annotations

import dataclasses
import math
import warnings
from typing import Any

import pytest
from helpers.pedestrians import caltech_fixture, each_evaluator, each_outcome
from helpers.support import load_fixture, name_of, same

from torch_vocmetrics import VocMetricsWarning, load_protocol
from torch_vocmetrics.protocols import MissRateProtocol

CASES = load_fixture("caltech_dbeval")


def rules_of(case: dict[str, Any], version: str = "") -> MissRateProtocol:
    name = {"usa": "caltech2012", "inria": "caltech2012_no_border"}[case["variant"]]
    if not version:
        return load_protocol(f"miss_rate/{name}", MissRateProtocol)
    older = load_protocol(f"miss_rate/caltech2012_{version}", MissRateProtocol)
    return dataclasses.replace(older, bounds=rules_of(case).bounds)


@each_evaluator
@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_every_experiment(case: dict[str, Any], evaluate: Any) -> None:
    protocol = rules_of(case)
    for algorithm in case["algs"]:
        problem = caltech_fixture(case, algorithm)
        result = evaluate(protocol, *problem[:2], **problem.kwargs)
        assert result.num_images == len(case["frames"])
        for s, name in enumerate(protocol.subset_names):
            expected = case["expected"][algorithm][name]
            assert same(result.log_average_miss_rate[s], expected["lamr"]), (algorithm, name)
            assert same(result.miss_rate[s], expected["miss_at_ref"]), (algorithm, name)
            assert same(result.mean_precision[s], expected["pr_mean"]), (algorithm, name)
            assert int(result.num_positives[s]) == expected["n_gt"], (algorithm, name)
            for reference, rate in zip(
                protocol.references[0].fppi, expected["miss_at_ref"], strict=True
            ):
                assert same(result.miss_rate_at(reference, name), rate), (algorithm, name)
            if "fppi" in expected:
                assert same(result.curves[s].fppi, expected["fppi"]), (algorithm, name)
                assert same(result.curves[s].recall, expected["tpr"]), (algorithm, name)


@each_outcome
@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_outcomes_of_every_frame(case: dict[str, Any], outcomes_of: Any) -> None:
    protocol = rules_of(case)
    for algorithm in case["algs"]:
        outcomes, counts = outcomes_of(protocol, caltech_fixture(case, algorithm))
        for s, name in enumerate(protocol.subset_names):
            expected = case["expected"][algorithm][name]
            wanted = [[flag for flag in row if flag != -1] for row in expected["dt_match"]]
            assert outcomes[s] == wanted, (algorithm, name)
            there = [sum(flag != -1 for flag in row) for row in expected["gt_match"]]
            assert counts[s] == there, (algorithm, name)


@each_evaluator
@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_curve_of_3_0_0(case: dict[str, Any], evaluate: Any) -> None:
    protocol = rules_of(case, "v300")
    for algorithm in case["algs"]:
        problem = caltech_fixture(case, algorithm)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = evaluate(protocol, *problem[:2], **problem.kwargs)
        values = [case["expected"][algorithm][name]["lamr_v300"] for name in protocol.subset_names]
        wanted = [math.nan if isinstance(value, dict) else value for value in values]
        assert same(result.log_average_miss_rate, wanted), algorithm
        if evaluate.__name__ == "evaluate_by_metric":
            text = " ".join(
                str(w.message) for w in caught if issubclass(w.category, VocMetricsWarning)
            )
            named = [name for name in protocol.subset_names if f" {name}" in f" {text}"]
            stops = zip(protocol.subset_names, wanted, strict=True)
            assert named == [name for name, value in stops if math.isnan(value)], algorithm
