"""evalRes, compOas, compRoc and acfTest of the Caltech toolbox, value by value."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.pedestrians import bbgt_fixture, each_evaluator, each_outcome, found, true
from helpers.support import (
    Problem,
    load_cases,
    load_extra,
    load_fixture,
    matlab_vector,
    name_of,
    same,
)

from torch_vocmetrics import io, load_protocol
from torch_vocmetrics.io import bb_apply
from torch_vocmetrics.io.bb_gt import PARAMETERS
from torch_vocmetrics.ops.boxes import (
    box_columns,
    intersection_over_area,
    intersection_over_union,
    pair_intersections,
)
from torch_vocmetrics.protocols import MissRateProtocol

CASES = load_fixture("bbgt")
WHOLE = {key: load_extra("bbgt", key) for key in ("acfTest", "bbLoad", "bbApply")}
PR_LEVELS: list[Any] = load_extra("bbgt", "ref_pr")
ACF = load_protocol("miss_rate/caltech_acftest", MissRateProtocol)


def acf(threshold: float, mul: int, levels: list[float] | None = None) -> MissRateProtocol:
    """acfTest with other thresholds, ``mul``, and recall levels."""
    return dataclasses.replace(
        ACF,
        subsets=(ACF.subsets[0]._replace(iou_threshold=float(threshold)),),
        used_objects="ignore_detection" if mul else "next_best",
        recall_levels=tuple(map(float, levels or ())),
    )


@each_evaluator
@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_curves_and_averages(case: dict[str, Any], evaluate: Any) -> None:
    expected, problem = case["expected"], bbgt_fixture(case)
    rules = acf(case["thr"], case["mul"], PR_LEVELS)
    result = evaluate(rules, *problem[:2], **problem.kwargs)
    curve = result.curves[0]
    if len(curve.fppi):
        assert same(curve.fppi, expected["roc_fppi"])
        assert same(curve.recall, expected["roc_tpr"])
        assert same(curve.recall, expected["pr_recall"])
        assert same(curve.precision, expected["pr_precision"])
        assert same(curve.scores, expected["roc_score"])
    else:  # the toolbox has one point of zeros where nothing is left
        assert expected["roc_fppi"] in (0, [0])
    assert same(result.miss_rate[0], 1 - np.array(expected["roc_at_ref"]))
    precisions = np.array(expected["pr_at_ref"], dtype=float)
    assert same(result.mean_precision[0], np.add.accumulate(precisions)[-1] / precisions.size)
    assert same(result.log_average_miss_rate[0], expected["lamr"])
    bare = evaluate(dataclasses.replace(rules, miss_rate_floor=0.0), *problem[:2], **problem.kwargs)
    assert same(bare.log_average_miss_rate[0], expected["lamr_nofloor"])


@each_outcome
@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_outcomes_of_every_image(case: dict[str, Any], outcomes_of: Any) -> None:
    outcomes, counts = outcomes_of(acf(case["thr"], case["mul"]), bbgt_fixture(case))
    expected = case["expected"]
    flags = [[row[5] for row in rows] for rows in expected.get("dt", [])] or expected["dt_match"]
    marks = [[row[4] for row in rows] for rows in expected.get("gt", [])] or expected["gt_match"]
    assert outcomes[0] == [[flag for flag in row if flag != -1] for row in flags]
    assert counts[0] == [sum(mark != -1 for mark in row) for row in marks]


@pytest.mark.parametrize("case", [case for case in CASES if "oa" in case["expected"]], ids=name_of)
def test_overlaps(case: dict[str, Any]) -> None:
    """Over the union for objects, over the detection's area for ignored ones."""
    compared = 0
    for gt, dt, oa in zip(case["gt"], case["dt"], case["expected"]["oa"], strict=True):
        if not (gt and dt):
            continue
        first = box_columns(torch.tensor(dt, dtype=torch.float64)[:, :4], "xywh", inclusive=False)
        second = box_columns(torch.tensor(gt, dtype=torch.float64)[:, :4], "xywh", inclusive=False)
        for d in range(len(dt)):
            row = torch.full((len(gt),), d)
            shared = pair_intersections(first.rows(row), second, inclusive=False)
            union = intersection_over_union(shared, first.rows(row).area, second.area)
            area = intersection_over_area(shared, first.rows(row).area)
            ignored = torch.tensor([bool(one[4]) for one in gt])
            assert same(torch.where(ignored, area, union), oa[d])
            compared += 1
    assert compared == sum(len(d) for d, g in zip(case["dt"], case["gt"], strict=True) if g)


def conditions(params: dict[str, Any]) -> io.Conditions:
    """Parameters of bbLoad as the fixture has them."""
    fields = {
        PARAMETERS[key]: tuple(value) if isinstance(value, list) else value
        for key, value in params.items()
    }
    if "ellipse" in fields:
        fields["ellipse"] = bool(fields["ellipse"])
    return io.Conditions(**fields)


def acf_problem(case: dict[str, Any], folder: Path) -> Problem:
    """Ground truth texts and detection rows as acfTest reads them."""
    for number, text in enumerate(case["gt_texts"]):
        (folder / f"I{number:05d}.txt").write_text(text)
    read = io.read_bb_gt_ground_truths(folder, conditions(case["params"]))
    targets = [{k: v for k, v in one.items() if k != "image_id"} for one in read.targets]
    rows: list[list[list[float]]] = [[] for _ in targets]
    for image, *row in case["dets"]:
        rows[int(image) - 1].append(row)
    return Problem([found(one) for one in rows], targets, {"box_format": "xywh"})


@each_evaluator
@pytest.mark.parametrize("case", WHOLE["acfTest"], ids=name_of)
def test_acf_test_end_to_end(case: dict[str, Any], evaluate: Any, tmp_path: Path) -> None:
    references = (ACF.references[0]._replace(fppi=tuple(map(float, case["ref"]))),)
    rules = dataclasses.replace(acf(case["thr"], case["mul"]), references=references)
    problem = acf_problem(case, tmp_path)
    result = evaluate(rules, *problem[:2], **problem.kwargs)
    assert same(result.log_average_miss_rate[0], case["miss"])
    curve = result.curves[0]
    table = torch.stack([curve.scores, curve.fppi, curve.recall], dim=1)
    assert same(table, case["roc"])


@each_outcome
@pytest.mark.parametrize("case", WHOLE["acfTest"], ids=name_of)
def test_acf_test_outcomes(case: dict[str, Any], outcomes_of: Any, tmp_path: Path) -> None:
    problem = acf_problem(case, tmp_path)
    outcomes, counts = outcomes_of(acf(case["thr"], case["mul"]), problem)
    assert outcomes[0] == [[flag for flag in row if flag != -1] for row in case["dt_match"]]
    assert counts[0] == [sum(mark != -1 for mark in row) for row in case["gt_match"]]


LINES = load_cases("Caltech LAMR")
TEN_DIGITS = 5e-11  # to which the decimals of a case are rounded


def line_rules(given: dict[str, Any], name: str) -> MissRateProtocol:
    """The rules behind an expected number: what the case itself says, and what its name says."""
    rules = ACF if "floor" in name else dataclasses.replace(ACF, miss_rate_floor=0.0)
    chosen: dict[str, Any] = {}
    if "height_range" in given:
        low, high = map(float, given["height_range"])
        expansion = float(given.get("expand", 1.25))
        chosen = {"height": (low, high), "filter_expansion": expansion}
        rules = dataclasses.replace(
            rules,
            detection_filter="before_matching",
            least_height="product",
            height_interval="half_open",
        )
    ratio = given.get("aspect_ratio", 0.41 if "standard" in " ".join((name, *given)) else 0.0)
    if ratio:
        rules = dataclasses.replace(
            rules, standard_aspect_ratio=float(ratio), standardised=("detections", "objects")
        )
    return dataclasses.replace(rules, subsets=(ACF.subsets[0]._replace(**chosen),))


def line_problem(given: dict[str, Any]) -> Problem:
    targets, detections = [], []
    for image in range(1, given["images"] + 1):
        gt = [one for one in given["gt"] if one["image"] == image]
        dt = [one for one in given["dt"] if one["image"] == image]
        targets.append(true([one["box_xywh"] for one in gt], [one["ignore"] for one in gt]))
        detections.append(found([[*one["box_xywh"], one["score"]] for one in dt]))
    return Problem(detections, targets, {"box_format": "xywh"})


@each_evaluator
@pytest.mark.parametrize("case", LINES, ids=name_of)
def test_lines_from_bug_reports(case: dict[str, Any], evaluate: Any) -> None:
    problem, expected = line_problem(case["input"]), case["expected"]
    names = [name for name in expected if name.startswith("lamr")]
    assert names
    for name in names:
        rules = line_rules(case["input"], name)
        result = evaluate(rules, *problem[:2], **problem.kwargs)
        assert same(result.headline, expected[name], TEN_DIGITS), name
        if "miss_at_9_fppi" in expected and name in ("lamr_dbEval", names[0]):
            missed = matlab_vector(expected["miss_at_9_fppi"])
            assert same(result.miss_rate[0], missed, TEN_DIGITS), name


# Files and geometry -------------------------------------------------------------------------------

ACTIONS = {
    "squarify": bb_apply.squarify,
    "resize": bb_apply.resize,
    "intersect": bb_apply.intersect,
    "union": bb_apply.union,
    "area": bb_apply.area,
    "getCenter": bb_apply.centre,
    "shift": bb_apply.shift,
}
# cos and sin of two C libraries: a few units in the last place of some hundred pixels.
TRIGONOMETRY = 2e-13


@pytest.mark.parametrize("number", range(len(WHOLE["bbApply"])))
def test_bb_apply(number: int) -> None:
    case = WHOLE["bbApply"][number]
    boxes, *arguments = case["args"]
    result = ACTIONS[case["action"]](np.array(boxes, dtype=float), *arguments)
    assert same(np.asarray(result).reshape(np.shape(case["result"])), case["result"])


@pytest.mark.parametrize("number", range(len(WHOLE["bbLoad"])))
def test_bb_load(number: int, tmp_path: Path) -> None:
    case = WHOLE["bbLoad"][number]
    path = tmp_path / ("one.xml" if case["params"].get("format") else "one.txt")
    path.write_text(case["text"])
    got = io.read_bb_gt_objects(path, conditions(case["params"]))
    assert list(got.labels) == [one["lbl"] for one in case["objs"]]
    assert same(got.annotated, [one["bb"] for one in case["objs"]])
    assert same(got.visible_boxes, [one["bbv"] for one in case["objs"]])
    assert got.occluded.tolist() == [bool(one["occ"]) for one in case["objs"]]
    assert got.ignored.tolist() == [bool(one["ign"]) for one in case["objs"]]
    assert same(got.angles, [one["ang"] for one in case["objs"]])
    rotated = bool(got.angles.any())
    boxes = np.array(case["bbs"], dtype=float).reshape(-1, 5)
    assert same(got.boxes, boxes[:, :4], TRIGONOMETRY if rotated else 0.0)
    assert same(got.ignored.astype(float), boxes[:, 4])


def test_height_of_tensors_is_scaled_as_the_toolbox_does() -> None:
    boxes = np.array([[58.486, 18.146, 152.428, 100.925], [5.0, 5.0, 41.0, 100.0]])
    wanted = bb_apply.resize(boxes, 100 / 128, 1)
    got = io.scale_height(torch.from_numpy(boxes), 100 / 128, "xywh")
    assert same(got, wanted)
    corners = np.concatenate([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], axis=1)
    far = io.scale_height(torch.from_numpy(corners), 100 / 128).numpy()
    # Corners are rounded once more.
    assert same(far[:, 3] - far[:, 1], wanted[:, 3], 1e-13)
    centres = np.concatenate([boxes[:, :2] + boxes[:, 2:] / 2, boxes[:, 2:]], axis=1)
    middle = io.scale_height(torch.from_numpy(centres), 100 / 128, "cxcywh")
    assert same(middle[:, 3], wanted[:, 3])
    assert same(middle[:, :3], centres[:, :3])
