"""Person layout fixtures, and the layout lines of cases.jsonl."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from helpers.challenges import (
    GRIDS,
    PARTS,
    boxes_of,
    each_layouter,
    indices,
    layout_fixture,
    part_columns,
    with_grid,
    years,
)
from helpers.support import load_cases, load_fixture, matlab_vector, name_of, same

from torch_vocmetrics import InputError
from torch_vocmetrics.protocols import load_protocol

CASES = load_fixture("voc_layout")
LINES = [case for year in range(2007, 2013) for more in ("", "+")
         for case in load_cases(f"VOC person layout {year}{more}")]  # fmt: skip
CASE_TOLERANCE = 5e-11  # the decimals of a case are rounded to ten digits
Evaluate = Callable[..., Any]


def problems(case: dict[str, Any]) -> dict[str, str]:
    """Protocols that a case has an answer for: those whose kit has the key's rules."""
    found = years("layout", ["2007", "2008", "2010"])
    return {protocol: key for protocol, key in found.items() if key in case["expected"]}


@each_layouter
@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_fixture(case: dict[str, Any], evaluate: Evaluate) -> None:
    assert problems(case)
    for protocol, key in problems(case).items():
        wanted = case["expected"][key]
        inputs = layout_fixture(case, int(key))
        if "error" in wanted:
            with pytest.raises(InputError, match="without parts"):
                evaluate(protocol, *inputs)
            continue
        result = evaluate(protocol, *inputs)
        answers = [wanted[part] for part in PARTS] if key == "2010" else [wanted]
        assert same(result.average_precision, [one["ap"] for one in answers]), protocol
        for curve, answer in zip(result.curves, answers, strict=True):
            assert same(curve.recall, answer["rec"]), protocol
            assert same(curve.precision, answer["prec"]), protocol
        names = ["AP"] if key != "2010" else [f"AP/{part}" for part in PARTS]
        assert list(result.to_dict()) == names


@each_layouter
@pytest.mark.parametrize("case", [c for c in CASES if "ap_if" in json.dumps(c)], ids=name_of)
def test_other_recall_levels(case: dict[str, Any], evaluate: Evaluate) -> None:
    for protocol, key in problems(case).items():
        wanted = case["expected"][key]
        for grid, suffix in GRIDS.items():
            name = with_grid(protocol, suffix)
            if name is not None and "error" not in wanted:
                value = wanted.get("ap_if", {}).get(grid, wanted["ap"])
                result = evaluate(name, *layout_fixture(case, int(key)))
                assert same(result.average_precision, [value]), name


@each_layouter
@pytest.mark.parametrize("case", [c for c in CASES if "2008" in c["expected"]], ids=name_of)
def test_by_confidence(case: dict[str, Any], evaluate: Evaluate) -> None:
    """As the file order, once the file is sorted by confidence."""
    ordered = case | {"layouts": sorted(case["layouts"], key=lambda one: -one["confidence"])}
    by_file = evaluate("voc2008", *layout_fixture(ordered, 2008))
    by_confidence = evaluate("voc2009", *layout_fixture(case, 2008))
    assert same(by_confidence.average_precision, by_file.average_precision)
    assert same(by_confidence.curves[0].recall, by_file.curves[0].recall)
    assert same(by_confidence.curves[0].precision, by_file.curves[0].precision)


def line_inputs(given: dict[str, Any], detected: bool) -> tuple[list[Any], list[Any]]:
    layouts, persons = [], []
    for image in range(1, given["images"] + 1):
        found = [one for one in given["dt"] if one["image"] == image]
        true = [one for one in given["gt"] if one["image"] == image]
        layout = part_columns(found) | {"scores": [one["confidence"] for one in found]}
        person = part_columns(true) | {"difficult": [one.get("difficult", False) for one in true]}
        for side, rows in ((layout, found), (person, true)):
            if detected:
                side["boxes"] = boxes_of(rows)
            else:
                side["object_index"] = indices([one["object"] for one in rows])
        layouts.append(layout)
        persons.append(person | {"image_id": image})
    return layouts, persons


@each_layouter
@pytest.mark.parametrize("case", LINES, ids=name_of)
def test_cases(case: dict[str, Any], evaluate: Evaluate) -> None:
    year = case["protocol"].split()[-1].strip("+")
    rules = load_protocol(f"layout/voc{year}")
    result = evaluate(rules, *line_inputs(case["input"], rules.persons == "detected"))
    expected = case["expected"]
    found = result.to_dict()
    wanted = {key: value for key, value in expected.items() if key in (*PARTS, "AP")}
    for name, value in wanted.items():
        assert same(found[name if name == "AP" else f"AP/{name}"], value, CASE_TOLERANCE), name
    for axis in {"recall", "precision"} & expected.keys():
        curve = getattr(result.curves[0], axis)
        assert same(curve, matlab_vector(expected[axis]), CASE_TOLERANCE), axis
