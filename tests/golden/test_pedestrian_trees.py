"""The command on the very files that the official pedestrian tools were run on."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from helpers.pedestrians import SCALED_IN_HEIGHT, crowdhuman_fixture
from helpers.support import (
    existing,
    load_extra,
    load_fixture,
    name_of,
    nan_for_minus_one,
    same,
    shared_tree,
)

from torch_vocmetrics import io
from torch_vocmetrics.cli import main
from torch_vocmetrics.protocols import config_root

CALTECH = load_fixture("caltech_dbeval")
ACF = load_extra("bbgt", "acfTest")
ANY_ORDER = 2e-16  # of CrowdHuman's Jaccard index, see test_crowdhuman


@pytest.fixture(scope="session")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folders of pedestrian benchmarks in trees.zip."""
    folder = tmp_path_factory.mktemp("trees")
    return shared_tree(folder, "bbgt/", "dbeval/", "city/", "crowd/")


def evaluate(
    out: Path, protocol: str | Path, ground_truth: Path, detections: Path, *more: str
) -> Any:
    name = str(protocol) if isinstance(protocol, Path) else f"miss_rate/{protocol}"
    argv = ["evaluate", name, "--ground-truth", str(ground_truth), "--quiet"]
    argv += ["--detections", str(detections), "--json", str(out), *more]
    assert main(argv) == 0
    return json.loads(out.read_text())


def only(cases: list[dict[str, Any]]) -> dict[str, Any]:
    """The case that a folder of trees.zip was made of; skips where the fixture lacks it."""
    if not cases:
        pytest.skip("the fixture lacks the case of this folder")
    (case,) = cases
    return case


def number(value: float | None) -> float:
    return math.nan if value is None else value


# Caltech ------------------------------------------------------------------------------------------


def caltech_tree(trees: Path, case: dict[str, Any] | None = None) -> tuple[Path, dict[str, Any]]:
    """The folder of a case, or of that with most frames; skips where there is none."""
    cases = [one for one in CALTECH if (trees / "dbeval" / name_of(one)).is_dir()]
    cases = [one for one in cases if case in (None, one)]
    if not cases:
        pytest.skip("no folder of a case of dbEval")
    chosen = max(cases, key=lambda one: len(one["frames"]))
    return trees / "dbeval" / name_of(chosen), chosen


@pytest.mark.parametrize("case", CALTECH, ids=name_of)
def test_caltech(case: dict[str, Any], trees: Path, tmp_path: Path) -> None:
    """Both versions of dbEval; the fixtures evaluate every frame."""
    tree, _ = caltech_tree(trees, case)
    border = case["variant"] == "usa"
    for algorithm in case["algs"]:
        more = ["--frame-step", "1"]
        if algorithm in SCALED_IN_HEIGHT:
            more += ["--scale-height", repr(100 / 128)]
        paths = (tree / "annotations", tree / "res" / algorithm)
        protocol = "caltech2012" if border else "caltech2012_no_border"
        got = evaluate(tmp_path / "out.json", protocol, *paths, *more)
        assert got["num_images"] == len(case["frames"])
        for entry in got["subsets"]:
            expected = case["expected"][algorithm][entry["name"]]
            assert same(number(entry["log_average_miss_rate"]), expected["lamr"])
            assert same([number(v) for v in entry["miss_rate"]], expected["miss_at_ref"])
            assert same(number(entry["mean_precision"]), expected["pr_mean"])
            assert entry["num_positives"] == expected["n_gt"]
        if border:
            older = evaluate(tmp_path / "out.json", "caltech2012_v300", *paths, *more)
            for entry in older["subsets"]:
                value = case["expected"][algorithm][entry["name"]]["lamr_v300"]
                stops = isinstance(value, dict)
                assert (entry["log_average_miss_rate"] is None) == stops
                assert stops or entry["log_average_miss_rate"] == value


@pytest.mark.parametrize("case", CALTECH, ids=name_of)
def test_vbb_holds_what_was_written(case: dict[str, Any], trees: Path) -> None:
    (path,) = caltech_tree(trees, case)[0].rglob("*.vbb")
    frames = io.read_vbb(path)
    assert len(frames) == len(case["frames"])
    for tracks, rows in zip(frames, case["frames"], strict=True):
        assert [one.number for one in tracks] == [row[0] for row in rows]
        assert [one.label for one in tracks] == [case["labels"][row[0] - 1] for row in rows]
        for one, row in zip(tracks, rows, strict=True):
            assert same(one.box, row[1:5])
            assert same(one.visible_box, row[5:9])


def test_every_thirtieth_frame(trees: Path) -> None:
    tree, case = caltech_tree(trees)
    read = io.read_caltech_ground_truths(tree / "annotations")
    numbers = list(range(29, len(case["frames"]), 30))
    assert [int(name[-5:]) for name in read.image_ids] == numbers
    found = io.read_caltech_detections(tree / "res" / case["algs"][0], tree / "annotations")
    for place, frame in enumerate(numbers):
        rows = [row for row in case["dets"][case["algs"][0]] if row[0] == frame + 1]
        assert same(found.predictions[place]["scores"], [row[5] for row in rows])


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda rows: [*rows[:2], "1,2,3,4,5", *rows[2:]], r"V000\.txt, line 3: .*got 5 columns"),
        (lambda rows: [*rows[:1], "100000,1,2,3,4,0.5"], r"V000\.txt, line 2: the frame must be 1"),
        (lambda rows: ["1,2,3,4,x,0.5"], r"V000\.txt, line 1: not a finite number, got 'x'"),
        (lambda rows: ["1,2,3,-4,5,0.5"], r"V000\.txt, line 1: .*negative"),
    ],
    ids=["columns", "frame", "number", "size"],
)
def test_faults_name_file_and_line(
    change: Any, sentence: str, trees: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree, case = caltech_tree(trees)
    (source,) = (tree / "res" / case["algs"][0]).rglob("V000.txt")
    broken = tmp_path / source.parent.name / source.name
    broken.parent.mkdir()
    broken.write_text("\n".join(change(source.read_text().splitlines())))
    argv = ["evaluate", "miss_rate/caltech2012", "--quiet"]
    argv += ["--ground-truth", str(tree / "annotations"), "--detections", str(tmp_path)]
    assert main(argv) == 2
    assert re.search(sentence, capsys.readouterr().err)


def test_a_set_that_is_not_there(trees: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree, case = caltech_tree(trees)
    argv = ["evaluate", "miss_rate/caltech2012", "--ground-truth", str(tree / "annotations")]
    argv += ["--detections", str(tree / "res" / case["algs"][0])]
    assert main([*argv, "--sets", "test"]) == 2
    assert "no videos set07, set08, set09, set10/VXXX.vbb" in capsys.readouterr().err
    assert main([*argv, "--sets", "6", "--frame-step", "1", "--quiet"]) == 0


# acfTest ------------------------------------------------------------------------------------------


def load_option(params: dict[str, Any]) -> str:
    """Parameters of bbLoad as the command takes them."""
    parts = []
    for key, value in params.items():
        words = value if isinstance(value, list) else [value]
        parts.append(f"{key}={','.join(map(str, words))}")
    return ";".join(parts)


@pytest.mark.parametrize("case", ACF, ids=name_of)
def test_acf_test(case: dict[str, Any], trees: Path, tmp_path: Path) -> None:
    """Threshold, references and ``mul`` are rules of one's own."""
    text = (config_root() / "protocols" / "miss_rate" / "caltech_acftest.toml").read_text()
    before, rest = text.split("fppi = [", 1)
    text = f"{before}fppi = {[float(v) for v in case['ref']]}{rest.split(']', 1)[1]}"
    text = text.replace("iou_threshold = 0.5", f"iou_threshold = {float(case['thr'])}")
    if case["mul"]:
        text = text.replace('used_objects = "next_best"', 'used_objects = "ignore_detection"')
    own = tmp_path / "own.toml"
    own.write_text(text)
    tree = existing(trees / "bbgt" / case["name"])
    options = ("--load", load_option(case["params"]))
    got = evaluate(tmp_path / "out.json", own, tree / "gt", tree / "Dets.txt", *options)
    assert got["headline"] == case["miss"]
    assert got["num_images"] == len(case["gt_texts"])


# CityPersons and CrowdHuman -----------------------------------------------------------------------


def test_citypersons(trees: Path, tmp_path: Path) -> None:
    detections = json.loads(existing(trees / "city" / "dt.json").read_text())
    rows = [{k: one[k] for k in ("image_id", "bbox", "score")} for one in detections]
    case = only([one for one in load_fixture("citypersons") if one["dt"] == rows])
    got = evaluate(
        tmp_path / "out.json",
        "citypersons2017",
        trees / "city" / "gt.json",
        trees / "city" / "dt.json",
    )
    assert got["num_images"] == len(case["images"])
    for entry in got["subsets"]:
        expected = case["expected"][entry["name"]]
        assert same(number(entry["log_average_miss_rate"]), nan_for_minus_one(expected["mr"]))
        recall = nan_for_minus_one(expected["recall_at_ref"])
        assert same([number(value) for value in entry["miss_rate"]], 1 - recall)


def test_crowdhuman(trees: Path, tmp_path: Path) -> None:
    lines = existing(trees / "crowd" / "dt.odgt").read_text().splitlines()
    boxes = [[[*one["box"], one["score"]] for one in json.loads(line)["dtboxes"]] for line in lines]
    cases = load_fixture("crowdhuman")
    case = only([one for one in cases if [image["dt"] for image in one["images"]] == boxes])
    tree = trees / "crowd"
    got = evaluate(tmp_path / "out.json", "crowdhuman2018", tree / "gt.odgt", tree / "dt.odgt")
    expected = case["expected"]
    assert got["num_images"] == len(crowdhuman_fixture(case).detections)
    assert got["summary"]["MR-2"] == expected["mr_2"]
    assert got["summary"]["MR-4"] == expected["mr_4"]
    assert got["summary"]["AP"] == expected["ap"]
    assert same(got["summary"]["JI"], expected["ji_max"], ANY_ORDER)
    assert got["jaccard_counts"] == [[row["k"], row["n"], row["m"]] for row in expected["ji"]]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("{", "line 2: not JSON"),
        ('{"height": 1, "width": 1}', "line 2: no ID"),
        ('{"ID": "x", "dtboxes": []}', "line 2: not an image"),
        ('{"ID": "x", "height": 9, "width": 9, "dtboxes": []}', "line 2: not an image"),
    ],
)
def test_odgt_faults(
    line: str, sentence: str, trees: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = existing(trees / "crowd" / "dt.odgt").read_text().splitlines()
    broken = tmp_path / "dt.odgt"
    broken.write_text("\n".join([lines[0], line, *lines[1:]]))
    argv = ["evaluate", "miss_rate/crowdhuman2018", "--detections", str(broken)]
    assert main([*argv, "--ground-truth", str(trees / "crowd" / "gt.odgt")]) == 2
    assert f"dt.odgt, {sentence}" in capsys.readouterr().err
