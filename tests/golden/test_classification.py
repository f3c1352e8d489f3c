"""Classification and action fixtures, and the classification lines of cases.jsonl."""

from __future__ import annotations

import re
from typing import Any

import pytest
from helpers.challenges import GRIDS, Classifier, each_classifier, score_table, with_grid, years
from helpers.support import load_cases, load_fixture, matlab_vector, name_of, same

CASES = load_fixture("voc_cls")
LINES = load_cases("VOC classification")
CASE_TOLERANCE = 5e-11  # the decimals of a case are rounded to ten digits


def answers(case: dict[str, Any]) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """Protocol: what its kit answers, and the kit's curve (equal for all kits)."""
    expected = case["expected"]
    curve = expected["2007"]
    found = {}
    for protocol, year in years("classification", ["2007", "2010"]).items():
        found[protocol] = expected[year], curve
    for year in (2010, 2011, 2012):
        found[f"action/voc{year}"] = expected["action_2010"], curve
    return found


@each_classifier
@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_average_precision(case: dict[str, Any], evaluate: Classifier) -> None:
    table = score_table(case["labels"], case["results"])
    for protocol, (wanted, curve) in answers(case).items():
        result = evaluate(protocol, *table)
        assert same(result.average_precision, [wanted["ap"]]), protocol
        for name, values in (
            ("recall", curve.get("rec")),
            ("precision", curve.get("prec")),
        ):
            if values is not None:
                assert same(getattr(result.curves[0], name), values), (protocol, name)
        assert len(result.curves[0].scores) == result.num_images == len(case["labels"])


@each_classifier
@pytest.mark.parametrize(
    "case", [case for case in CASES if "ap_if" in case["expected"]["2007"]], ids=name_of
)
def test_other_recall_levels(case: dict[str, Any], evaluate: Classifier) -> None:
    table, wanted = score_table(case["labels"], case["results"]), case["expected"]["2007"]
    for year in (2007, 2008, 2009):
        for grid, suffix in GRIDS.items():
            protocol = with_grid(f"classification/voc{year}", suffix)
            value = wanted["ap_if"].get(grid, wanted["ap"])
            assert same(evaluate(protocol, *table).average_precision, [value]), protocol


@each_classifier
@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_roc(case: dict[str, Any], evaluate: Classifier) -> None:
    wanted = case["expected"]["2006_roc"]
    result = evaluate("classification/voc2006", *score_table(case["labels"], case["results"]))
    curve = result.roc_curves[0]
    if "fp" in wanted:
        assert same(curve.false_positive_rate, wanted["fp"])
        assert same(curve.true_positive_rate, wanted["tp"])
    # The official sum is a matrix product, whose order of adding is the machine's.
    assert same(curve.area, wanted["auc"], 0.0)
    positives = int(result.num_positives[0])
    assert same(result.headline, curve.area if positives else float("nan"))
    assert set(result.to_dict()) == {"mAUC", "AUC/0"}


@each_classifier
@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_pairs_of_image_and_object(case: dict[str, Any], evaluate: Classifier) -> None:
    """Actions are keyed by pairs, here in the order of the set, whatever order they come in."""
    scores, targets = score_table(case["labels"], case["results"])
    pairs = [tuple(case["action_key"][image]) for image, _ in case["labels"]]
    in_order = sorted(pairs) == pairs
    rows = list(range(len(pairs)))[:: -1 if in_order else 1]
    result = evaluate(
        "action/voc2012",
        [scores[i] for i in rows],
        [targets[i] for i in rows],
        image_ids=[pairs[i] for i in rows] if in_order else None,
        class_names=["running"],
    )
    assert same(result.average_precision, [case["expected"]["action_2010"]["ap"]])
    assert list(result.to_dict()) == ["mAP", "AP/running"]


@each_classifier
@pytest.mark.parametrize("case", LINES, ids=name_of)
def test_cases(case: dict[str, Any], evaluate: Classifier) -> None:
    labels = list(enumerate(case["input"]["labels_in_set_order"], 1))
    results = [(one["image"], one["confidence"]) for one in case["input"]["scores"]]
    compared = 0
    for name, value in case["expected"].items():
        year = re.match(r"AP_(voc\d{4})", name)
        if year is None:
            continue
        result = evaluate(f"classification/{year[1]}", *score_table(labels, results))
        # The mean over classes is undefined where the class has no positives.
        assert same(result.average_precision, [value], CASE_TOLERANCE), name
        for axis in {"recall", "precision"} & case["expected"].keys():
            curve = getattr(result.curves[0], axis)
            assert same(curve, matlab_vector(case["expected"][axis]), CASE_TOLERANCE), axis
        compared += 1
    assert compared
