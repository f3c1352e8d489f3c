"""Which classes a metric has, from the arguments that say so."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from torch_vocmetrics import (
    ClassificationAP,
    DetectionAP,
    InputError,
    MeanIoU,
    load_dataset,
    load_protocol,
)
from torch_vocmetrics.metrics.classes import read_classes
from torch_vocmetrics.metrics.mask_quality import MaskQuality

BOX = torch.tensor([[10.0, 10.0, 50.0, 50.0]])


@pytest.mark.parametrize(
    ("arguments", "names", "label_ids"),
    [
        ({"num_classes": 2}, ("0", "1"), None),
        ({"num_classes": np.int64(2)}, ("0", "1"), None),
        ({"class_names": ["b", "a"]}, ("b", "a"), None),
        ({"class_names": (name for name in "ba")}, ("b", "a"), None),
        ({"class_names": {2: "dog", 1: "cat"}}, ("cat", "dog"), (1, 2)),
        ({"class_names": {0: "cat", 1: "dog"}}, ("cat", "dog"), (0, 1)),
        ({"class_names": {1: "cat", 2: "dog"}, "label_ids": [2, 1]}, ("dog", "cat"), (2, 1)),
        ({"label_ids": torch.tensor([7, 3])}, ("0", "1"), (7, 3)),
        ({"label_ids": range(1, 3), "num_classes": 2}, ("0", "1"), (1, 2)),
    ],
)
def test_classes(arguments: Any, names: Any, label_ids: Any) -> None:
    given = {"num_classes": None, "class_names": None, "label_ids": None} | arguments
    assert read_classes(**given) == (names, label_ids)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({}, "the classes are missing; give num_classes=, class_names= or label_ids="),
        ({"num_classes": 0}, "num_classes: must be at least one class, got 0"),
        ({"num_classes": 2.0}, "num_classes: must be integers, got 2.0"),
        ({"num_classes": True}, "num_classes: must be integers, got True"),
        ({"class_names": []}, "class_names: must be at least one class"),
        ({"num_classes": 3, "class_names": ["a"]}, "num_classes, class_names must agree.*3, 1"),
        ({"class_names": ["a", "b", "a"]}, "class_names: names must be distinct, got 'a' twice"),
        ({"class_names": {1: "a", 2: "a"}}, "names must be distinct, got 'a' twice"),
        ({"class_names": "cat"}, "must be a list of names, or a dict {id: name}, got 'cat'"),
        ({"class_names": {"cat", "dog"}}, "must be a list of names"),
        ({"class_names": {"cat": 1}}, "the ids of class_names: must be integers, got 'cat'"),
        ({"class_names": [1, 2]}, "names must be strings, got 1"),
        ({"class_names": {1: "a"}, "label_ids": [2]}, "label_ids: must be the keys of class_names"),
        ({"label_ids": [1, 1]}, "label_ids: must be distinct"),
        ({"label_ids": [1.2, 1.7]}, "label_ids: must be integers, got 1.2"),
        ({"label_ids": torch.tensor([1.2])}, "label_ids: must be integers"),
        ({"label_ids": {1: "cat"}}, "label_ids: must be a list of integers"),
        ({"label_ids": 3}, "label_ids: must be a list of integers"),
    ],
)
def test_wrong_classes(arguments: Any, sentence: str) -> None:
    own = dataclasses.replace(load_protocol("voc2007"), name="own")
    for new in (lambda **given: DetectionAP(own, **given), MaskQuality):
        with pytest.raises(InputError, match=sentence):
            new(**arguments)


def test_classes_of_the_data_set_of_a_protocol() -> None:
    coco: Any = DetectionAP(["coco2017", "coco2017_segm"])
    assert (coco.class_names, coco.label_ids) == load_dataset("coco2017")[:2]
    for protocol in ("voc2007_matlab_colon", "voc2012", ["voc2007", "voc2012"]):
        metric: Any = DetectionAP(protocol)
        assert metric.class_names == load_dataset("voc2007").class_names
        assert metric.label_ids == tuple(range(20))
    assert DetectionAP("voc2006").class_names == load_dataset("voc2006").class_names
    variant = dataclasses.replace(load_protocol("coco2017"), max_detections=(300,))
    assert DetectionAP(variant).num_classes == 80
    for name, size in {
        "voc2012": 20,
        "voc2006": 10,
        "action/voc2010": 9,
        "action/voc2012": 11,
    }.items():
        assert ClassificationAP(name).num_classes == size
    with pytest.raises(InputError, match="the classes are missing"):
        DetectionAP(["coco2017", "voc2007"])


def test_classes_that_are_given_come_before_those_of_the_data_set() -> None:
    assert DetectionAP("coco2017", num_classes=80).label_ids == tuple(range(80))
    assert DetectionAP("coco2017", class_names=["cat"]).label_ids == (0,)
    assert DetectionAP("coco2017", label_ids=[7, 9]).class_names == ("0", "1")


def test_category_ids_of_coco_are_the_default_labels() -> None:
    target = {"boxes": BOX, "labels": [90]}
    result = DetectionAP("coco2017").update([target | {"scores": [0.5]}], [target]).compute()
    assert result["AP/toothbrush"] == pytest.approx(1)
    with pytest.raises(InputError, match="the label is unknown, got 12"):
        DetectionAP("coco2017").update(
            [target | {"scores": [0.5]}], [{"boxes": BOX, "labels": [12]}]
        )


def test_a_dict_names_the_labels_of_detections() -> None:
    metric = DetectionAP("voc2012", class_names={18: "dog", 17: "cat"})
    target = {"boxes": BOX, "labels": [18]}
    result = metric.update([target | {"scores": [0.5]}], [target]).compute()
    assert result.class_names == ("cat", "dog")
    assert result.num_positives.tolist() == [0, 1]
    with pytest.raises(InputError, match="label is unknown, got 0"):
        metric.update([target | {"scores": [0.5]}], [{"boxes": BOX, "labels": [0]}])


def test_a_dict_names_the_labels_of_label_maps() -> None:
    names = {7: "road", 0: "background"}
    result = MeanIoU("voc2012", class_names=names).update([[[0, 7]]], [[[0, 7]]]).compute()
    assert result.class_names == ("background", "road")
    assert result.confusion_matrix.tolist() == [[1, 0], [0, 1]]
    for new in (
        lambda **given: MeanIoU("voc2012", **given),
        lambda **given: ClassificationAP("voc2012", **given),
    ):
        with pytest.raises(InputError, match="names must be distinct"):
            new(class_names=["a", "a"])


def test_label_ids_are_never_replaced_by_those_of_the_data_set() -> None:
    cityscapes = MeanIoU("cityscapes")
    assert cityscapes.label_ids[0] == 7
    by_name = dict(enumerate(cityscapes.class_names))  # label 0 is void there
    for given in ({"label_ids": range(19)}, {"class_names": by_name}):
        with pytest.raises(InputError, match="none of the protocol's void labels"):
            MeanIoU("cityscapes", **given)  # type: ignore[arg-type]


def test_the_number_of_classes_is_bounded() -> None:
    with pytest.raises(InputError, match="num_classes: must be at most 1,048,576 classes"):
        read_classes(2**40, None, None)
    names = [str(number) for number in range(2**17)]  # in quadratic time this takes minutes
    assert read_classes(None, names, None).names == tuple(names)
    with pytest.raises(InputError, match="'7' twice"):
        read_classes(None, [*names, "7"], None)
