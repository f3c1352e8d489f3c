"""CityPersons' evaluation script: every setup, and every match of the small cases."""

from __future__ import annotations

from typing import Any

import pytest
from helpers.pedestrians import citypersons_fixture, each_evaluator, each_outcome
from helpers.support import load_fixture, name_of, nan_for_minus_one, same

from torch_vocmetrics import load_protocol
from torch_vocmetrics.protocols import MissRateProtocol

CASES = load_fixture("citypersons")
RULES = load_protocol("miss_rate/citypersons2017", MissRateProtocol)


@each_evaluator
@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_every_setup(case: dict[str, Any], evaluate: Any) -> None:
    problem = citypersons_fixture(case)
    result = evaluate(RULES, *problem[:2], **problem.kwargs)
    for s, name in enumerate(RULES.subset_names):
        expected = case["expected"][name]
        assert same(result.log_average_miss_rate[s], nan_for_minus_one(expected["mr"])), name
        recall = nan_for_minus_one(expected["recall_at_ref"])
        assert same(result.miss_rate[s], 1 - recall), name


@each_outcome
@pytest.mark.parametrize(
    "case", [case for case in CASES if "images" in case["expected"]["All"]], ids=name_of
)
def test_outcomes_of_every_image(case: dict[str, Any], outcomes_of: Any) -> None:
    outcomes, counts = outcomes_of(RULES, citypersons_fixture(case))
    for s, name in enumerate(RULES.subset_names):
        images = case["expected"][name]["images"]
        for place, image_id in enumerate(case["images"]):
            expected = images.get(str(image_id))
            if expected is None:
                assert outcomes[s][place] == []
                continue
            rows = zip(expected["dt_match"], expected["dt_ignore"], strict=True)
            assert outcomes[s][place] == [int(m > 0) for m, ignored in rows if not ignored]
            assert counts[s][place] == expected["gt_ignore"].count(0), (name, image_id)
