"""Rules given to a metric as keywords: short for a protocol with these rules."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.generator import random_problem

from torch_vocmetrics import (
    AreaRange,
    DetectionAP,
    InputError,
    MeanIoU,
    Metric,
    ProtocolError,
    load_protocol,
    reference,
)

COCO = load_protocol("coco2017")
SMALL, LARGE = AreaRange("small", 0, 1024), AreaRange("large", 1024, 1e10)
CHANGES: list[dict[str, Any]] = [
    {"iou_thresholds": [0.3, 0.5]},
    {"max_detections": [300, 1, 10]},
    {"max_detections": ()},
    {"area_ranges": [["all", None, None], ("tiny", 0, 256)]},
    {"area_ranges": [SMALL, LARGE], "headline_area": "large"},
    {"headline_area": "small"},
    {"recall_levels": torch.linspace(0, 1, 11, dtype=torch.float64)},
    {"class_agnostic": True},
    {"class_agnostic": True, "iou_thresholds": (0.5,), "max_detections": [2]},
]
IDS = [", ".join(change) for change in CHANGES]


@pytest.mark.parametrize("change", CHANGES, ids=IDS)
def test_a_keyword_is_a_rule(change: dict[str, Any], tmp_path: Path) -> None:
    """Same rules, same numbers, and a state that says so."""
    variant = dataclasses.replace(COCO, **change)
    problem = random_problem(11, variant)
    metric = DetectionAP("coco2017", **change, **problem.kwargs)
    assert metric.protocols == (variant,)
    assert metric.protocols[0].fingerprint == variant.fingerprint
    assert repr(metric).startswith("DetectionAP(detection/coco2017 (own rules); ")
    metric.update(*problem[:2])
    wanted = reference.evaluate(variant, *problem[:2], **problem.kwargs)
    assert str(metric.compute()) == str(wanted)
    assert repr(metric.compute().to_dict()) == repr(wanted.to_dict())
    metric.save_state(tmp_path / "state.npz")
    again: Any = Metric.from_states(tmp_path / "state.npz")
    assert again.protocols == (variant,)
    assert repr(again.compute().to_dict()) == repr(wanted.to_dict())
    other = DetectionAP("coco2017", **problem.kwargs)
    with pytest.raises(RuntimeError, match="different protocols"):
        other.merge(metric)


def test_no_keyword_leaves_the_rules() -> None:
    metric = DetectionAP("coco2017", num_classes=1, iou_thresholds=None, class_agnostic=None)
    assert metric.protocols == (COCO,)
    assert "(own rules)" not in repr(metric)
    assert "(own rules)" not in repr(DetectionAP(COCO, num_classes=1, max_detections=[1, 10, 100]))
    own = dataclasses.replace(COCO, class_agnostic=True)
    assert DetectionAP(own, num_classes=1).protocols == (own,)
    assert DetectionAP(own, num_classes=1, class_agnostic=False).protocols == (COCO,)


def test_keywords_are_for_every_protocol_of_a_list() -> None:
    metric: Any = DetectionAP(["coco2017", "voc2007"], num_classes=1, iou_thresholds=[0.3])
    assert [entry.iou_thresholds for entry in metric.protocols] == [(0.3,), (0.3,)]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"iou_thresholds": [0.5, 0.3]}, "iou_thresholds must be a list of 1 or more rising"),
        ({"iou_thresholds": 0.5}, "iou_thresholds must be a list"),
        ({"max_detections": 100}, "max_detections must be distinct positive integers"),
        ({"class_agnostic": "yes"}, "class_agnostic must be true or false, got 'yes'"),
        ({"class_agnostic": 1}, "class_agnostic must be true or false, got 1"),
        (
            {"headline_area": "tiny"},
            "headline_area must be the name of an area range, all or ",
        ),
        ({"area_ranges": [SMALL, LARGE]}, "area range, small or large, got 'all'"),
        ({"headline_area": ""}, "headline_area must be a name, got ''"),
    ],
)
def test_wrong_keywords(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ProtocolError, match=sentence):
        DetectionAP("coco2017", num_classes=1, **change)


def _rows(*boxes: tuple[float, ...], labels: list[int], **more: Any) -> dict[str, Any]:
    return {"boxes": torch.tensor(boxes), "labels": torch.tensor(labels), **more}


TINY, WIDE = (0.0, 0.0, 10.0, 10.0), (50.0, 0.0, 150.0, 100.0)


@pytest.mark.parametrize("protocol", ["coco2017", "voc2012"])
def test_the_headline_is_the_area_range_that_the_protocol_names(protocol: str) -> None:
    """The tiny object is missed, and the wide one is found."""
    metric: Any = DetectionAP(
        protocol,
        class_names=["cat"],
        area_ranges=[SMALL, LARGE],
        headline_area="large",
        iou_thresholds=[0.5],
    )
    target = _rows(TINY, WIDE, labels=[0, 0])
    result = metric.update([_rows(WIDE, labels=[0], scores=[0.9])], [target]).compute()
    assert result.headline == pytest.approx(1)
    assert result.num_positives.tolist() == [1]
    assert result.true_positives.tolist() == [[1]]
    small: Any = DetectionAP(
        protocol,
        class_names=["cat"],
        area_ranges=[LARGE, SMALL],
        headline_area="small",
        iou_thresholds=[0.5],
    )
    result = small.update([_rows(WIDE, labels=[0], scores=[0.9])], [target]).compute()
    assert (result.headline, result.num_positives.tolist()) == (0, [1])
    assert result.true_positives.tolist() == result.false_positives.tolist() == [[0]]


def test_summaries_name_the_other_area_ranges() -> None:
    metric = DetectionAP(
        "coco2017", num_classes=1, area_ranges=[SMALL, LARGE], headline_area="large"
    )
    target = _rows(TINY, WIDE, labels=[0, 0])
    result = metric.update([_rows(WIDE, labels=[0], scores=[0.9])], [target]).compute()
    numbers = result.to_dict()
    assert [numbers[key] for key in ("AP", "AP50", "AR100")] == pytest.approx([1, 1, 1])
    assert numbers["APs"] == numbers["ARs"] == 0
    assert "APl" not in numbers
    assert result.mean_precision(area="large") == result.mean_precision() == result["AP"]


def test_class_agnostic_by_hand() -> None:
    """A dog that is called a cat is found, and the limit counts all classes of an image."""
    target = _rows(TINY, WIDE, labels=[0, 1])
    found = _rows(WIDE, TINY, labels=[0, 0], scores=torch.tensor([0.9, 0.8]))
    names = ["cat", "dog"]
    each = DetectionAP("coco2017", class_names=names).update([found], [target]).compute()
    assert each["AP/dog"] == 0
    metric = DetectionAP("coco2017", class_names=names, class_agnostic=True)
    together = metric.update([found], [target]).compute()
    assert together.class_names == ("all",)
    assert together["AP/all"] == together.headline == pytest.approx(1)
    assert (together["AR1"], together["AR10"]) == (0.5, 1.0)
    assert (together.num_positives.tolist(), together.num_detections) == ([2], 2)
    with pytest.raises(InputError, match="the label is unknown, got 2"):
        metric.update([found], [_rows(TINY, labels=[2])])


def test_class_agnostic_beside_the_same_rules_with_classes(tmp_path: Path) -> None:
    """One pass, two protocols whose classes differ, through a state file and ``merge``."""
    agnostic = dataclasses.replace(COCO, name="agnostic", class_agnostic=True)
    problem = random_problem(5, COCO)

    def new() -> Any:
        return DetectionAP([agnostic, COCO], **problem.kwargs)

    whole = new().update(*problem[:2])
    halves = [new().update(problem.detections[i::2], problem.ground_truths[i::2]) for i in (0, 1)]
    for number, half in enumerate(halves):
        half.save_state(tmp_path / f"{number}.npz")
    read: Any = Metric.from_states(tmp_path / "0.npz", tmp_path / "1.npz")
    assert [protocol.class_agnostic for protocol in read.protocols] == [True, False]
    for name, result in read.compute().items():
        protocol = agnostic if name == "agnostic" else COCO
        wanted = reference.evaluate(protocol, *problem[:2], **problem.kwargs)
        assert repr(result.to_dict()) == repr(wanted.to_dict())
        assert repr(whole.compute()[name].to_dict()) == repr(wanted.to_dict())


def test_ignore_index() -> None:
    prediction, target = torch.tensor([[[0, 1, 1, 1]]]), torch.tensor([[[0, 1, 7, 9]]])
    given = {"class_names": ["background", "cat"]}
    for labels in ([7, 9], (9, 7)):
        metric = MeanIoU("voc2012_present_classes", ignore_index=labels, **given)
        assert metric.update(prediction, target).compute().headline == 1
        assert "(own rules)" in repr(metric)
    one = MeanIoU("voc2012_present_classes", ignore_index=7, **given)
    assert one.protocol.void_labels == (7,)
    with pytest.raises(InputError, match="the true label is unknown, got 9"):
        one.update(prediction, target)
    assert MeanIoU("voc2012", **given, ignore_index=255).protocol == load_protocol(
        "segmentation/voc2012"
    )
    assert MeanIoU("voc2012", ignore_index=[], **given).protocol.void_labels == ()
    with pytest.raises(InputError, match="none of the protocol's void labels"):
        MeanIoU("voc2012", ignore_index=0, **given)
    with pytest.raises(ProtocolError, match="void_labels must be a list of distinct integers"):
        MeanIoU("voc2012", ignore_index=1.5, **given)  # type: ignore[arg-type]


def test_ignore_index_of_training_labels() -> None:
    """Cityscapes as most loaders give it: 19 training ids, and 255 for what is not evaluated."""
    metric = MeanIoU("cityscapes", label_ids=range(19), ignore_index=255)
    truth = torch.tensor([[[0, 18, 255]]])
    result = metric.update(torch.tensor([[[0, 18, 3]]]), truth).compute()
    assert result.class_names[-1] == "bicycle"
    assert result.headline == 1
    assert math.isnan(result.to_dict()["IoU/rider"])
