"""Forms and keys of the input: near names, unknown keys, ids of both sides, missing images."""

from __future__ import annotations

import warnings
from collections import UserDict
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from torch_vocmetrics import (
    ClassificationAP,
    DetectionAP,
    InputError,
    LayoutAP,
    LogAverageMissRate,
    MeanIoU,
    VocMetricsWarning,
)
from torch_vocmetrics.inputs.keys import DETECTION, TARGET, check_keys, keys_of, meant_by
from torch_vocmetrics.metrics.mask_quality import MaskQuality

BOX = [[10.0, 10.0, 50.0, 50.0]]
KEYS = keys_of(DETECTION, TARGET)
PARTS = {"part_boxes": [[30, 1, 60, 40]] * 3, "part_labels": [0, 1, 1], "part_counts": [3]}


def prediction(**more: Any) -> dict[str, Any]:
    return {"boxes": BOX, "scores": [0.9], "labels": [0]} | more


def target(**more: Any) -> dict[str, Any]:
    return {"boxes": BOX, "labels": [0]} | more


def new(**classes: Any) -> Any:
    return DetectionAP("voc2007", **(classes or {"num_classes": 1}))


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("isCrowd", "iscrowd"),
        ("is_crowd", "iscrowd"),
        ("IsCrowd", "iscrowd"),
        ("crowd_flag", "iscrowd"),
        ("isdifficult", "difficult"),
        ("Difficult", "difficult"),
        ("is_difficult", "difficult"),
        ("difficult_flags", "difficult"),
        ("dificult", "difficult"),
        ("gt_ignore", "ignore"),
        ("IGNORE", "ignore"),
        ("imageId", "image_id"),
        ("Image-Size", "image_size"),
        ("Area", "area"),
        ("bbox", "boxes"),
        ("truncated", None),
        ("license", None),
        ("orig_size", None),
        ("image_path", None),
        ("file_name", None),
        ("keypoints", None),
        ("occluded", None),
        ("id", None),
        ("flag", None),
        ("", None),
    ],
)
def test_names_that_look_like_keys(name: str, key: str | None) -> None:
    assert meant_by(name, KEYS.near) == key


@pytest.mark.parametrize("name", ["isCrowd", "isdifficult", "Difficult", "crowd_flag"])
def test_near_names_of_targets_are_errors_in_every_form(name: str) -> None:
    key = meant_by(name, KEYS.near)
    sentence = f"target 1: key '{name}' is not known; name it '{key}'"
    with pytest.raises(InputError, match=sentence):
        new().update([prediction()] * 2, [target(**{key: [0]}), target(**{name: [1]})])
    packed = {"boxes": torch.tensor(BOX), "labels": torch.tensor([0]), "counts": [1]}
    with pytest.raises(InputError, match=f"targets: key '{name}' is not known"):
        new().update(
            packed | {"scores": torch.tensor([0.5])}, packed | {name: torch.tensor([True])}
        )


def test_a_near_name_beside_the_key_is_only_unread() -> None:
    rows = target(difficult=[0], is_difficult=[0])
    with pytest.warns(VocMetricsWarning, match="ignored: 'is_difficult'"):
        new().update([prediction()], [rows])


def test_unread_keys_of_targets_are_named_once() -> None:
    metric = new()
    with pytest.warns(VocMetricsWarning, match="ignored: 'license', 'pose'$"):
        metric.update([prediction(embedding=[1])] * 2, [target(license=3), target(pose=["left"])])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metric.update([prediction()], [target(license=3)])
        metric.reset().update([prediction()], [target(pose=1, masks=None, visibility=[0.5])])
    with pytest.warns(VocMetricsWarning, match="ignored: 'truncated'$"):
        metric.update([prediction()], [target(license=3, truncated=[0])])


def test_unread_keys_in_other_metrics() -> None:
    mask = torch.ones(1, 60, 60, dtype=torch.bool)
    person = PARTS | {"object_index": [1]}
    with pytest.warns(VocMetricsWarning, match="ignored: 'pose'"):
        LayoutAP("voc2012").update([person | {"scores": [0.5]}], [person | {"pose": 1}])
    with pytest.warns(VocMetricsWarning, match="ignored: 'pose'"):
        MaskQuality(num_classes=1).update([prediction(masks=mask)], [target(masks=mask, pose=1)])


def test_required_keys_come_before_unread_ones() -> None:
    assert check_keys(["boxes", "labels", "pose"], KEYS, "here") == {"pose"}
    with pytest.raises(InputError, match="here: key 'boxes' is missing, got pose"):
        check_keys(["pose"], KEYS, "here")


# Ids of predictions -------------------------------------------------------------------------------


@pytest.mark.parametrize("wrap", [int, np.int64, torch.tensor, str])
def test_a_prediction_of_another_image_is_refused(wrap: Any) -> None:
    metric = new().update([prediction(image_id=wrap(1))], [target(image_id=wrap(1))])
    with pytest.raises(InputError, match=r"prediction 1, key 'image_id': differs .* '?2'? beside"):
        metric.update(
            [prediction(image_id=wrap(3)), prediction(image_id=wrap(2))],
            [target(image_id=wrap(3)), target(image_id=wrap(4))],
        )
    assert metric.compute().num_images == 1
    new().update([prediction(image_id=wrap(1))], [target()])  # nothing to compare with


def test_ids_on_a_device_are_compared_later(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch_vocmetrics.inputs import images  # noqa: PLC0415

    monkeypatch.setattr(images, "compare_ids", lambda own, ids: torch.tensor(True))
    metric = new().update([prediction(image_id=1)], [target(image_id=1)])
    for _ in range(2):
        with pytest.raises(InputError, match="predictions, key 'image_id': some differ"):
            metric.compute()
    monkeypatch.undo()
    assert metric.reset().update([prediction()], [target()]).compute().num_images == 1


# Images without rows, and other forms -------------------------------------------------------------


def numbers(metric: Any) -> Any:
    result = metric.compute()
    return result.num_images, result.num_detections, str(result.to_dict())


def test_none_is_an_image_without_rows() -> None:
    none = {"boxes": torch.zeros(0, 4), "labels": torch.zeros(0).long()}
    wanted = new().update(
        [prediction(), none | {"scores": torch.zeros(0)}, prediction()], [target(), target(), none]
    )
    given = new().update([prediction(), None, prediction()], [target(), target(), None])
    assert numbers(given) == numbers(wanted)
    assert numbers(given)[:2] == (3, 2)
    people = LogAverageMissRate("caltech2012").update([None, prediction()], [target(), None])
    assert people.compute().num_images == 2
    masks = DetectionAP("coco2017_segm", num_classes=1)
    mask = torch.ones(1, 60, 60, dtype=torch.bool)
    assert masks.update([None], [target(masks=mask)]).compute().headline == 0.0
    assert LayoutAP("voc2012").update([None], [None]).compute().num_images == 1
    with pytest.raises(InputError, match="some targets have an image_id and others have none"):
        new().update([prediction()] * 2, [target(image_id=1), None])


def test_iterators_and_tuples_are_lists() -> None:
    wanted = numbers(new().update([prediction()] * 2, [target()] * 2))
    rows = [prediction()] * 2, [target()] * 2
    for form in (iter, tuple, lambda images: (one for one in images), np.array):
        assert numbers(new().update(*map(form, rows))) == wanted
    assert numbers(new().update(map(UserDict, rows[0]), rows[1])) == wanted


@pytest.mark.parametrize(
    ("predictions", "sentence"),
    [
        (None, "predictions: must be a list with one dict per image.* got NoneType"),
        (torch.zeros(3, 6), "predictions: must be a list .* got Tensor"),
        ("images", "predictions: must be a list .* got str"),
        (3, "predictions: must be a list .* got int"),
        (
            [torch.zeros(3, 6)],
            r"predictions\[0\]: must be a dict, got Tensor; a metric takes tensors of rows",
        ),
        ([(BOX, [0.5], [0])], r"predictions\[0\]: must be a dict, got tuple; give a dict"),
        (
            [SimpleNamespace(pred_boxes=BOX)],
            r"predictions\[0\]: .* got SimpleNamespace; give a dict of its tensors: .*'pred_b",
        ),
        (
            SimpleNamespace(logits=1, pred_boxes=BOX),
            "predictions: .*post_process_object_detection",
        ),
        (UserDict(logits=[0], pred_boxes=BOX), "predictions: .*post_process_object_detection"),
    ],
)
def test_other_classes_are_told_what_to_give(predictions: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        new().update(predictions, [target()])


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (["cat"], "target 0, key 'labels': must be a tensor of numbers, got 'cat'; names of class"),
        (np.array(["cat"]), "must be a tensor of numbers, got 'cat'; names of classes"),
        ([None], "must be a tensor of numbers, got list$"),
        ([[1], [1, 2]], "must be a tensor of numbers, got list$"),
        (object(), "must be a tensor of numbers, got object$"),
        (np.array(["2020-01-01"], "M8[D]"), "must be a tensor of numbers, got ndarray$"),
    ],
)
def test_what_is_no_number_is_told_in_own_words(value: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence) as caught:
        new().update([prediction()], [target(labels=value)])
    assert "numpy" not in str(caught.value).lower()


def test_meta_tensors_have_no_values() -> None:
    for side in (prediction(), target()):
        for key in side:
            rows = {name: torch.tensor(value) for name, value in side.items()}
            rows[key] = rows[key].to("meta")
            pair = ([rows], [target()]) if "scores" in side else ([prediction()], [rows])
            with pytest.raises(InputError, match=f"key '{key}': must have values.*meta"):
                new().update(*pair)
    meta = torch.zeros(1, 1, device="meta")
    with pytest.raises(InputError, match="scores: must have values"):
        ClassificationAP("voc2012", num_classes=1).update(meta, [[1]])
    with pytest.raises(InputError, match="predictions: must have values"):
        MeanIoU("voc2012").update(meta.long().unsqueeze(0), torch.zeros(1, 1, 1).long())


# Labels from 1 ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "ids"), [(1, r"\[1\]"), (2, r"\[1, 2\]"), (3, r"\[1, ..., 3\]")])
def test_the_first_label_too_many_names_label_ids(count: int, ids: str) -> None:
    sentence = rf"got {count}; labels are 0 .. {count - 1}; if yours are .*give label_ids={ids}$"
    with pytest.raises(InputError, match=sentence):
        new(num_classes=count).update([prediction()], [target(labels=[count])])
    with pytest.raises(InputError, match=r"got 7; labels are 0 .. \d, unless label_ids= says oth"):
        new(num_classes=count).update([prediction()], [target(labels=[7])])
    with pytest.raises(InputError, match="got 1; labels must be among label_ids"):
        new(label_ids=[5]).update([prediction(labels=[5])], [target(labels=[1])])


def evaluated(found: list[int], true: list[int], **classes: Any) -> list[str]:
    rows = [prediction(labels=[label]) for label in found], [target(labels=[k]) for k in true]
    metric = DetectionAP("coco2017", **classes)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        metric.update(*rows).compute()
    return [str(one.message) for one in caught]


def test_a_first_class_that_alone_never_occurs_is_pointed_out() -> None:
    (sentence,) = evaluated([1, 2], [2, 1], num_classes=3)
    assert sentence.startswith("label 0 never occurred, but all of 1 .. 2 did")
    assert "label_ids=" in sentence
    assert len(evaluated([1, 1], [2, 1], num_classes=3)) == 1  # on either side
    assert not evaluated([1], [1], num_classes=2)
    assert not evaluated([1, 1], [0, 2], num_classes=3)
    assert not evaluated([0, 1], [1, 2], num_classes=3)
    assert not evaluated([1, 1], [1, 1], num_classes=3)  # label 2 is absent as well
    assert not evaluated([2, 3], [2, 3], label_ids=[1, 2, 3])
    assert not evaluated([0], [0], num_classes=1)
