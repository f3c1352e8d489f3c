"""Every value of the segmentation fixtures and cases, from the metric and from plain loops."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.support import (
    existing,
    load_cases,
    load_fixture,
    matlab_vector,
    name_of,
    same,
    shared_file,
    shared_tree,
)

from torch_vocmetrics import InputError, MeanIoU, load_protocol, reference
from torch_vocmetrics.cli import main

CASES = load_fixture("voc_seg")
LINES = load_cases("VOC segmentation")
YEARS = {"2007": ["voc2007"], "2008": ["voc2008", "voc2009", "voc2010", "voc2011", "voc2012"]}
TEN_DIGITS = 5e-13  # of a percentage, to which the decimals of a case are rounded
# The official numbers are percentages, 100 * count / total; ours are count / total.
PERCENT = 1e-15


def percent(value: float | None) -> float:
    """A percentage as a fraction; null and -1 are undefined."""
    return math.nan if value is None or value == -1 else value / 100


def by_metric(protocol: Any, predictions: list[Any], targets: list[Any], **kwargs: Any) -> Any:
    return MeanIoU(protocol, **kwargs).update(predictions, targets).compute()


each_evaluator = pytest.mark.parametrize(
    "evaluate",
    [by_metric, reference.evaluate_segmentation],
    ids=["metric", "reference"],
)
Evaluator = Callable[..., Any]


def maps(case: dict[str, Any]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    arrays = np.load(existing(shared_file("fixtures", "voc_seg.npz")))
    sides = ("pred", "gt")
    found, true = (
        [arrays[f"{name_of(case)}/{side}/{k}"] for k in range(case["n"])] for side in sides
    )
    return found, true


@each_evaluator
@pytest.mark.parametrize("year", YEARS)
@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_official_values(case: dict[str, Any], year: str, evaluate: Evaluator) -> None:
    found, true = maps(case)
    wanted, K = case["expected"][year], case["nclasses"] + 1
    for protocol in YEARS[year]:
        if "error" in wanted:
            with pytest.raises(InputError):
                evaluate(protocol, found, true, num_classes=K)
            continue
        result = evaluate(protocol, found, true, num_classes=K)
        check(result, wanted, case["expected"]["2007"]["rawcounts"])


def check(result: Any, wanted: dict[str, Any], rawcounts: Any) -> None:
    assert np.array_equal(result.confusion_matrix.numpy(), rawcounts)
    assert not result.missed.any()
    per_class = result.pixel_recall if "printed_overall" in wanted else result.iou
    assert same(per_class, np.array(wanted["accuracies"]) / 100, PERCENT)
    assert same(result.headline, wanted["avacc"] / 100, PERCENT)
    if "printed_overall" in wanted:
        printed = f"{100 * result.pixel_accuracy:.3f}".replace("nan", "NaN")
        assert printed == wanted["printed_overall"]
    rows = result.normalized_confusion_matrix
    if "conf" in wanted:
        assert same(rows, np.array(wanted["conf"]) / 100, PERCENT)
    else:
        assert same(rows.sum(1), np.array(wanted["conf_rowsums"]) / 100, 2 * PERCENT)
        assert same(rows.diagonal(), np.array(wanted["conf_diag"]) / 100, PERCENT)


@each_evaluator
@pytest.mark.parametrize("case", LINES, ids=name_of)
def test_cases(case: dict[str, Any], evaluate: Evaluator) -> None:
    given, wanted = case["input"], case["expected"]
    found, true = ([np.array(image[side]) for image in given["images"]] for side in ("pred", "gt"))
    older, newer = (
        evaluate(
            dataclasses.replace(load_protocol(name), void_labels=(given["void"],)),
            found,
            true,
            num_classes=given["num_classes"],
        )
        for name in ("segmentation/voc2007", "segmentation/voc2012")
    )
    for key, got in (
        ("mean_pixel_recall_percent_voc2007", older.headline),
        ("mean_iou_percent_voc2008plus", newer.headline),
    ):
        if key in wanted:
            assert same(got, percent(wanted[key]), TEN_DIGITS), key
    if "iou_percent" in wanted:
        assert same(newer.iou, [percent(v) for v in matlab_vector(wanted["iou_percent"])], PERCENT)
    not_wanted = wanted.get("per_image_mean_not_wanted")
    assert not_wanted is None or not math.isclose(newer.headline, not_wanted, rel_tol=1e-3)


@each_evaluator
def test_absent_classes_by_protocol(evaluate: Evaluator) -> None:
    """Class 2 is nowhere: 0 and in the mean, NaN and so is the mean, or left out of it."""
    found, true = [np.array([[0, 1, 1, 1]])], [np.array([[0, 0, 1, 255]])]
    means = {"voc2007": 0.5, "voc2012": math.nan, "voc2012_present_classes": 0.5}
    averaged = {"voc2007": 3, "voc2012": 3, "voc2012_present_classes": 2}
    for protocol, mean in means.items():
        result = evaluate(protocol, found, true, num_classes=3)
        assert same(result.headline, mean), protocol
        assert result.num_classes_averaged == averaged[protocol]
        values = [0.5, 0.5, 0.0 if protocol == "voc2007" else math.nan]
        assert same(result.iou, values)
        assert same(result.pixel_accuracy, 2 / 3)
        assert same(result.pixel_precision[:2], [1.0, 0.5])
        assert same(result.frequency_weighted_iou, (2 * 0.5 + 1 * 0.5) / 3)


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_the_command_on_the_folders_of_the_kits(case: dict[str, Any], tmp_path: Path) -> None:
    prefix = f"seg/{name_of(case)}/"
    tree, out = shared_tree(tmp_path, prefix) / prefix, tmp_path / "out.json"
    names = ",".join(f"class {k}" for k in range(case["nclasses"] + 1))
    for year, protocols in YEARS.items():
        argv = ["evaluate", f"segmentation/{protocols[0]}", "--ground-truth", str(tree)]
        argv += ["--detections", str(tree / "results" / "Segmentation" / "comp5_test_cls")]
        wanted = case["expected"][year]
        code = main([*argv, "--classes", names, "--json", str(out), "--quiet"])
        assert code == (2 if "error" in wanted else 0)
        if "error" in wanted:
            continue
        got = json.loads(out.read_text())
        assert got["confusion_matrix"] == case["expected"]["2007"]["rawcounts"]
        assert got["num_images"] == case["n"]
        key = "pixel_recall" if year == "2007" else "iou"
        values = [math.nan if one[key] is None else one[key] for one in got["classes"]]
        assert same(values, np.array(wanted["accuracies"]) / 100, PERCENT)
        headline = math.nan if got["headline"] is None else got["headline"]
        assert same(headline, wanted["avacc"] / 100, PERCENT)


def test_to_dict_and_json() -> None:
    metric = MeanIoU("voc2012", class_names=["background", "cat"])
    result = metric.update(torch.zeros(1, 2, 2, dtype=torch.uint8), torch.zeros(1, 2, 2).long())
    shown = result.compute().to_dict()
    assert {"mIoU", "mean_accuracy", "pixel_accuracy", "IoU/background", "IoU/cat"} < shown.keys()
    assert math.isnan(shown["mIoU"])
    assert '"mIoU": null' in result.compute().to_json()
