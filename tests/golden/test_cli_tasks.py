"""The command on the folders that the kits' classification, action and layout code was run on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.challenges import GRIDS, PARTS, with_grid, years
from helpers.support import existing, load_fixture, name_of, same, shared_tree

from torch_vocmetrics.cli import main

CLASSIFICATION = load_fixture("voc_cls")
LAYOUT = load_fixture("voc_layout")


@pytest.fixture(scope="session")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folders of trees.zip for these tasks."""
    return shared_tree(tmp_path_factory.mktemp("trees"), "cls/", "action/", "layout/")


def evaluate(out: Path, protocol: str, tree: Path, results: str, *more: str) -> dict[str, Any]:
    argv = ["evaluate", protocol, "--ground-truth", str(tree), "--quiet", "--json", str(out)]
    assert main([*argv, "--detections", str(tree / "results" / results), *more]) == 0
    return json.loads(out.read_text())


def value_of(report: dict[str, Any], key: str = "average_precision") -> float:
    value = report["classes"][0][key]
    return float("nan") if value is None else value


@pytest.mark.parametrize("case", CLASSIFICATION, ids=name_of)
def test_classification(case: dict[str, Any], trees: Path, tmp_path: Path) -> None:
    tree = existing(trees / "cls" / name_of(case))
    expected, out = case["expected"], tmp_path / "out.json"
    more = ("--classes", case["class"])
    results = "comp1_cls_test_{class}.txt"
    for protocol, key in years("classification", ["2007", "2010"]).items():
        got = evaluate(out, protocol, tree, results, *more)
        assert same(value_of(got), expected[key]["ap"]), protocol
        assert got["num_images"] == len(case["labels"])
        for grid, suffix in GRIDS.items():
            name = with_grid(protocol, suffix)
            if name is not None:
                wanted = expected[key].get("ap_if", {}).get(grid, expected[key]["ap"])
                assert same(value_of(evaluate(out, name, tree, results, *more)), wanted), name
    roc = evaluate(out, "classification/voc2006", tree, results, *more)
    assert same(value_of(roc, "roc_area"), expected["2006_roc"]["auc"])


@pytest.mark.parametrize("case", CLASSIFICATION, ids=name_of)
def test_action(case: dict[str, Any], trees: Path, tmp_path: Path) -> None:
    tree = existing(trees / "action" / name_of(case))
    results = "comp9_action_test_{class}.txt"
    for year in (2010, 2011, 2012):
        protocol = f"action/voc{year}"
        got = evaluate(tmp_path / "out.json", protocol, tree, results)
        assert len(got["classes"]) == 1
        assert same(value_of(got), case["expected"]["action_2010"]["ap"]), protocol


@pytest.mark.filterwarnings("ignore::torch_vocmetrics.VocMetricsWarning")
@pytest.mark.parametrize("case", LAYOUT, ids=name_of)
def test_layout(case: dict[str, Any], trees: Path, tmp_path: Path, capsys: Any) -> None:
    for protocol, key in years("layout", ["2007", "2008", "2010"]).items():
        if key not in case["expected"]:
            continue
        tree, wanted = existing(trees / "layout" / f"{name_of(case)}_{key}"), case["expected"][key]
        (results,) = (path.name for path in (tree / "results").iterdir())
        out = tmp_path / "out.json"
        if "error" in wanted:
            argv = ["evaluate", protocol, "--ground-truth", str(tree), "--json", str(out)]
            assert main([*argv, "--detections", str(tree / "results" / results)]) == 2
            assert "a layout without parts" in capsys.readouterr().err
            continue
        got = evaluate(out, protocol, tree, results)
        answers = [wanted[part] for part in PARTS] if key == "2010" else [wanted]
        for entry, answer in zip(got["classes"], answers, strict=True):
            value = entry["average_precision"]
            assert same(float("nan") if value is None else value, answer["ap"]), protocol
        known = {tuple(one) for one in case["object_set"]}
        unknown = sum((one["image"], one["object"]) not in known for one in case["layouts"])
        assert got["num_layouts"] == len(case["layouts"])
        assert got["num_unknown"] == (0 if key == "2007" else unknown)
