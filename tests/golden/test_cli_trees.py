"""The command on the very folders that the development kits were run on, file formats and all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.support import existing, load_fixture, name_of, same, shared_tree

from torch_vocmetrics.cli import main
from torch_vocmetrics.protocols import load_protocol

CASES = load_fixture("voc_det")
# Both sum in the official order; the fixture's numbers are exact doubles.
TOLERANCE = 0.0
GRIDS = {"": "", "t_exact_tenths": "_exact_tenths", "t_matlab_colon": "_matlab_colon"}


@pytest.fixture(scope="session")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder ``det`` of trees.zip."""
    return shared_tree(tmp_path_factory.mktemp("trees"), "det/") / "det"


def rule_sets(case: dict[str, Any]) -> dict[str, int]:
    """One protocol of each distinct rule set among the years of a case, with the year."""
    by_rules: dict[str, tuple[str, int]] = {}
    for year in case["years"]:
        fingerprint = load_protocol(f"detection/voc{year}").fingerprint
        by_rules.setdefault(fingerprint, (f"voc{year}", year))
    return dict(by_rules.values())


def wanted(entries: dict[str, Any], year: int) -> dict[str, Any]:
    """What the kit of the year answers: the entry of the newest kit up to it."""
    return entries[str(max(int(key) for key in entries if int(key) <= year))]


def evaluate(tree: Path, protocol: str, case: dict[str, Any], out: Path) -> dict[str, Any]:
    argv = ["evaluate", f"detection/{protocol}", "--ground-truth", str(tree), "--quiet"]
    argv += ["--detections", str(tree / "results" / "comp3_det_test_{class}.txt")]
    argv += ["--classes", ",".join(case["classes"]), "--json", str(out)]
    assert main([*argv, "--iou-thresholds", repr(case["minoverlap"])]) == 0
    return json.loads(out.read_text())


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_average_precision(case: dict[str, Any], trees: Path, tmp_path: Path) -> None:
    tree = existing(trees / name_of(case))
    for protocol, year in rule_sets(case).items():
        got = evaluate(tree, protocol, case, tmp_path / "out.json")
        assert [entry["class_name"] for entry in got["classes"]] == case["classes"]
        assert got["num_images"] == len(case["images"])
        for entry in got["classes"]:
            name = entry["class_name"]
            answer = wanted(case["expected"][name], year)
            value = entry["average_precision"]
            nan = float("nan")
            assert same(nan if value is None else value, answer["ap"], TOLERANCE), (protocol, name)
            assert entry["num_detections"] == len(case["detections"].get(name, []))


@pytest.mark.parametrize(
    "case", [case for case in CASES if "ap_if" in json.dumps(case["expected"])], ids=name_of
)
def test_other_recall_levels(case: dict[str, Any], trees: Path, tmp_path: Path) -> None:
    tree = existing(trees / name_of(case))
    for protocol, year in rule_sets(case).items():
        if year >= 2010:
            continue
        for grid, suffix in GRIDS.items():
            got = evaluate(tree, protocol + suffix, case, tmp_path / "out.json")
            for entry in got["classes"]:
                answer = wanted(case["expected"][entry["class_name"]], year)
                value = answer.get("ap_if", {}).get(grid, answer["ap"])
                assert same(entry["average_precision"], value, TOLERANCE), (protocol, grid)


def test_the_text_form_of_2006_says_what_the_xml_says(trees: Path, tmp_path: Path) -> None:
    """Every folder of 2006 evaluates to the same numbers from its text annotations alone."""
    cases = [case for case in CASES if 2006 in case["years"] and (trees / name_of(case)).is_dir()]
    if not cases:
        pytest.skip("no case of 2006")
    case = max(cases, key=lambda one: len(one["images"]))
    tree = trees / name_of(case)
    before = evaluate(tree, "voc2006", case, tmp_path / "out.json")
    files = list((tree / "Annotations").glob("*.xml"))
    assert len(files) == len(list((tree / "Annotations").glob("*.txt"))) == len(case["images"])
    hidden = [path.rename(path.with_suffix(".off")) for path in files]
    try:
        assert evaluate(tree, "voc2006", case, tmp_path / "out.json") == before
    finally:
        for path in hidden:
            path.rename(path.with_suffix(".xml"))
