"""CrowdHuman's toolkit: MR-2, MR-4, AP and the Jaccard index."""

from __future__ import annotations

from typing import Any

import pytest
from helpers.pedestrians import crowdhuman_fixture, each_evaluator, each_outcome
from helpers.support import load_fixture, name_of, same

from torch_vocmetrics import load_protocol
from torch_vocmetrics.protocols import MissRateProtocol

CASES = load_fixture("crowdhuman")
RULES = load_protocol("miss_rate/crowdhuman2018", MissRateProtocol)
# The official order of this mean depends on how its processes finish: some other order gives every
# value to the last bit, and no one order gives all of them.
ANY_ORDER = 2e-16


@each_evaluator
@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_every_number(case: dict[str, Any], evaluate: Any) -> None:
    problem, expected = crowdhuman_fixture(case), case["expected"]
    result = evaluate(RULES, *problem[:2], **problem.kwargs)
    summary = result.to_dict()
    assert list(summary) == ["MR-2", "MR-4", "AP", "JI"]
    assert same(summary["MR-2"], expected["mr_2"])
    assert same(summary["MR-4"], expected["mr_4"])
    assert same(summary["AP"], expected["ap"])
    assert int(result.num_positives[0]) == expected["n_gt"]
    if "fppi" in expected:
        assert same(result.curves[0].fppi, expected["fppi"])
        assert same(result.curves[0].miss_rate, expected["missrate"])
    counts = [[row["k"], row["n"], row["m"]] for row in expected["ji"]]
    assert result.jaccard_counts.sum(dim=0).tolist() == counts
    assert same(result.jaccard_by_score, [row["ji"] for row in expected["ji"]], ANY_ORDER)
    assert same(summary["JI"], expected["ji_max"], ANY_ORDER)
    assert list(RULES.jaccard_scores) == [row["thr"] for row in expected["ji"]]


@each_outcome
@pytest.mark.parametrize(
    "case", [case for case in CASES if case["expected"]["ranked"]], ids=name_of
)
def test_outcomes(case: dict[str, Any], outcomes_of: Any) -> None:
    outcomes, _ = outcomes_of(RULES, crowdhuman_fixture(case))
    for place, image in enumerate(case["images"]):
        ranked = [int(tp) for image_id, tp in case["expected"]["ranked"] if image_id == image["id"]]
        assert outcomes[0][place] == ranked
