"""What results say: by key, as JSON, of classes that are not in the mean, field by field."""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
from typing import Any, get_args

import pytest
import torch

import torch_vocmetrics
from torch_vocmetrics import (
    ClassificationAP,
    CocoDetectionResult,
    DetectionAP,
    InputError,
    LayoutAP,
    LogAverageMissRate,
    MeanIoU,
    VocDetectionResult,
    load_protocol,
    protocol_names,
    reference,
    results,
)
from torch_vocmetrics.metrics.detection import CocoName, VocName
from torch_vocmetrics.metrics.mask_quality import MaskQualityResult

BOX = [[10.0, 10.0, 50.0, 50.0]]
CAT = {"boxes": BOX, "labels": [0]}
BOTH = {"boxes": BOX * 2, "labels": [0, 1], "scores": [0.9, 0.8]}
PARTS = {"part_boxes": [[30, 1, 60, 40]] * 2, "part_labels": [0, 0], "part_counts": [2]}
NAMES = ["cat", "dog"]
RESULTS = [
    value
    for value in vars(results).values()
    if inspect.isclass(value) and dataclasses.is_dataclass(value)
]


def all_metrics() -> list[Any]:
    person = PARTS | {"object_index": [1]}
    return [
        DetectionAP("voc2007", class_names=NAMES).update([BOTH], [CAT]),
        DetectionAP("coco2017", class_names=NAMES).update([BOTH], [CAT]),
        ClassificationAP("voc2007", class_names=NAMES).update([[0.9, 0.8]], [[1, -1]]),
        LayoutAP("voc2012").update([person | {"scores": [0.5]}], [person]),
        LogAverageMissRate("caltech2012").update([BOTH | {"labels": [0, 0]}], [CAT]),
        LogAverageMissRate("crowdhuman2018").update(
            [BOTH | {"labels": [0, 0]}], [CAT | {"image_size": (99, 99)}]
        ),
        MeanIoU("voc2012_present_classes", class_names=NAMES).update([[[0, 1]]], [[[0, 1]]]),
    ]


METRICS = all_metrics()
each_metric = pytest.mark.parametrize("metric", METRICS, ids=[repr(one) for one in METRICS])


@pytest.mark.parametrize("year", range(2006, 2013))
def test_a_class_without_objects_is_undefined_wherever_it_is_shown(year: int) -> None:
    for rows in (BOTH, CAT | {"scores": [0.9]}):  # with and without detections of the class
        metric = DetectionAP(f"voc{year}", class_names=NAMES)
        result: Any = metric.update([rows], [CAT]).compute()
        assert result.is_averaged.tolist() == [True, False]
        assert result.num_classes_averaged == 1
        assert math.isnan(result["AP/dog"])
        assert json.loads(result.to_json())["AP/dog"] is None
        numbers = result.to_dict()
        assert numbers["mAP"] == numbers["AP/cat"]
        plain: Any = reference.evaluate(f"voc{year}", [rows], [CAT], class_names=NAMES)
        assert str(plain.to_dict()) == str(numbers)


def test_a_class_without_objects_in_other_metrics() -> None:
    for result in (METRICS[1].compute(), METRICS[2].compute()):
        assert result.is_averaged.tolist() == [True, False]
        assert math.isnan(result["AP/dog"])
    layout = METRICS[3].compute()
    assert layout.is_averaged.tolist() == [True, False, False]
    assert layout["AP/foot"] == 0.0  # the official code reports every part
    area = ClassificationAP("voc2006", num_classes=2).update([[0.9, 0.8]], [[1, -1]]).compute()
    assert math.isnan(area["AUC/1"])


def test_rules_that_average_defined_values_leave_out_undefined_ones() -> None:
    rules = dataclasses.replace(load_protocol("voc2007"), mean_over="defined_values")
    result: Any = DetectionAP(rules, class_names=NAMES).update([BOTH], [CAT]).compute()
    assert result.is_averaged.tolist() == [True, True]
    assert result["AP/dog"] == 0.0
    assert result.headline == 0.5000000000000001


@each_metric
def test_numbers_by_key(metric: Any) -> None:
    result = metric.compute()
    numbers = result.to_dict()
    assert str(dict(result)) == str(numbers)
    assert list(result) == result.keys() == list(numbers)
    key = next(iter(numbers))
    assert key in result
    assert "AP51" not in result
    assert str(result[key]) == str(numbers[key])
    with pytest.raises(InputError, match="the result has no number 'AP51'; it has "):
        result["AP51"]


@each_metric
def test_json_says_protocol_counts_and_versions(metric: Any) -> None:
    result = metric.compute()
    content = json.loads(result.to_json())
    assert content["protocol"] == f"{result.protocol.task}/{result.protocol.name}"
    assert content["fingerprint"] == result.protocol.fingerprint
    assert content["counts"]["num_images"] == 1
    assert content["versions"]["torch_vocmetrics"] == torch_vocmetrics.__version__
    assert content["versions"]["torch"] == torch.__version__
    for key, value in result.to_dict().items():
        assert content[key] == (value if math.isfinite(value) else None)


def test_counts_of_classes_in_json() -> None:
    assert json.loads(METRICS[1].compute().to_json())["counts"] == {
        "num_classes_averaged": 1,
        "num_positives": {"cat": 1, "dog": 0},
        "num_images": 1,
        "num_detections": 2,
        "num_detections_by_class": {"cat": 1, "dog": 1},
    }


@each_metric
def test_the_representation_says_classes_and_images(metric: Any) -> None:
    count = len(metric.class_names)
    classes = "1 class" if count == 1 else f"{count} classes"
    assert repr(metric).endswith(f"; {classes}, 1 image)")
    assert (metric.num_classes, metric.num_images) == (count, 1)
    assert metric.cpu() is metric
    twice = type(metric)._of(
        [metric.protocol] if hasattr(metric, "protocol") else metric.protocols,
        metric.class_names,
        metric.label_ids,
    )
    assert twice.num_images == 0
    twice.merge(metric, metric)
    assert twice.num_images == 2


def test_images_of_pending_batches_are_counted() -> None:
    metric = DetectionAP("voc2007", class_names=NAMES)
    for count in (1, 2, 3):
        assert metric.update([BOTH], [CAT]).num_images == count
    assert metric.compute().num_images == 3
    assert metric.num_images == 3
    assert metric.reset().num_images == 0


@pytest.mark.parametrize("kind", [*RESULTS, MaskQualityResult], ids=lambda kind: kind.__name__)
def test_every_field_is_documented(kind: Any) -> None:
    described = "".join(base.__doc__ or "" for base in kind.__mro__[:-1])
    fields = described.partition("Attributes:")[2]
    for field in dataclasses.fields(kind):
        assert f" {field.name}" in fields, field.name


def test_names_of_protocols_give_the_type_of_their_result() -> None:
    coco, voc = set(get_args(CocoName)), set(get_args(VocName))
    for name in protocol_names("detection"):
        assert (name in coco) != (name in voc), name
        wanted = CocoDetectionResult if name in coco else VocDetectionResult
        result = reference.evaluate(name, [], [], num_classes=1)
        assert type(result) is wanted or load_protocol(name).uses_masks
    for name in coco | voc:
        assert name.removeprefix("detection/") in protocol_names("detection")


def test_the_package_shows_its_public_names_only() -> None:
    assert sorted(dir(torch_vocmetrics)) == sorted([*torch_vocmetrics.__all__, "__version__"])
    assert all(hasattr(torch_vocmetrics, name) for name in dir(torch_vocmetrics))
