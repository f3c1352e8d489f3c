"""Wrong input gets one clear sentence and loses nothing; odd input is taken exactly."""

from __future__ import annotations

import copy
from collections import UserDict
from typing import Any

import numpy as np
import pytest
import torch
from helpers.fake_cuda import fake_cuda

from torch_vocmetrics import (
    DetectionAP,
    InputError,
    ProtocolError,
    VocMetricsError,
    VocMetricsWarning,
)
from torch_vocmetrics.inputs.images import pack

BOX = [[10.0, 10.0, 50.0, 50.0]]


def prediction(**changes: Any) -> dict[str, Any]:
    rows = {
        "boxes": torch.tensor(BOX),
        "scores": torch.tensor([0.9]),
        "labels": torch.tensor([0]),
    }
    rows |= changes
    return {key: value for key, value in rows.items() if value is not None}


def target(**changes: Any) -> dict[str, Any]:
    rows = {"boxes": torch.tensor(BOX), "labels": torch.tensor([0])} | changes
    return {key: value for key, value in rows.items() if value is not None}


NAN, INF = float("nan"), float("inf")
EMPTY = torch.zeros(0)

FAULTY: list[tuple[str, Any, Any, str]] = [
    ("missing key", prediction(scores=None), target(), "prediction 0: key 'scores' is missing"),
    ("missing in target", prediction(), target(labels=None), "target 0: key 'labels' is missing"),
    (
        "near key",
        prediction(boxes=None, bbox=BOX),
        target(),
        "'bbox' is not known; name it 'boxes'",
    ),
    (
        "near label",
        prediction(labels=None, category_id=[1]),
        target(),
        "'category_id' is not known; name it 'labels'",
    ),
    (
        "near optional key",
        prediction(),
        target(difficulties=[0]),
        "target 0: key 'difficulties' is not known; name it 'difficult'",
    ),
    (
        "typo",
        prediction(scores=None, scors=[0.5]),
        target(),
        "'scors' is not known; name it 'scores'",
    ),
    (
        "box shape",
        prediction(boxes=torch.zeros(1, 5)),
        target(),
        r"prediction 0, key 'boxes': must have shape \[N, 4\], got \(1, 5\)",
    ),
    ("flat boxes", prediction(boxes=torch.zeros(4)), target(), r"got \(4,\)"),
    (
        "empty rows of no boxes",
        prediction(boxes=torch.zeros(3, 0), scores=torch.zeros(3), labels=torch.zeros(3).long()),
        target(),
        r"got \(3, 0\)",
    ),
    (
        "length",
        prediction(scores=torch.tensor([0.1, 0.2])),
        target(),
        r"key 'scores': must have one entry per box, got shape \(2,\) beside 1 boxes",
    ),
    ("scores in a column", prediction(scores=torch.zeros(1, 1)), target(), r"got shape \(1, 1\)"),
    ("scores in a row", prediction(scores=torch.zeros(1, 2)), target(), r"shape \(1, 2\) beside 1"),
    (
        "one score of no axis",
        prediction(scores=torch.tensor(0.5)),
        target(),
        r"shape \(\) beside 1",
    ),
    ("scores of no box", prediction(boxes=EMPTY, labels=EMPTY), target(), "beside 0 boxes"),
    (
        "fractions as labels",
        prediction(labels=torch.tensor([0.5])),
        target(),
        "the label is unknown, got .* or a fraction",
    ),
    ("bool labels", prediction(labels=torch.tensor([True])), target(), "must be integers"),
    ("bool scores", prediction(scores=torch.tensor([True])), target(), "must be real numbers"),
    ("no numbers", prediction(scores=["a"]), target(), "'scores': must be a tensor of numbers"),
    (
        "NaN box",
        prediction(boxes=[[0, 0, NAN, 1]]),
        target(),
        "prediction 0, row 0: the box is not",
    ),
    (
        "infinite box",
        prediction(),
        target(boxes=[[0, 0, INF, 1.0]]),
        "target 0, row 0: the box is not",
    ),
    ("NaN score", prediction(scores=[NAN]), target(), "row 0: the score is NaN, got nan"),
    ("high label", prediction(labels=[2]), target(), "the label is unknown, got 2; labels are 0"),
    (
        "negative label",
        prediction(),
        target(labels=[-1]),
        "target 0, row 0: the label is unknown, got -1",
    ),
    (
        "negative area",
        prediction(),
        target(area=[-1.0]),
        "the area is negative or infinite, got -1.0",
    ),
    ("infinite area", prediction(), target(area=[INF]), "negative or infinite, got inf"),
    ("least area", prediction(), target(area=[-INF]), "negative or infinite, got -inf"),
    ("inverted", prediction(boxes=[[5.0, 5, 1, 9]]), target(), "box is inverted, got .*xyxy"),
    ("id of float", prediction(), target(image_id=1.5), "'image_id': must be an int or a str"),
    ("id of bool", prediction(), target(image_id=True), "must be an int or a str"),
    ("image size", prediction(), target(image_size=(3, 4, 5)), r"must be \(height, width\)"),
]


@pytest.mark.parametrize(
    ("wrong", "true", "sentence"), [row[1:] for row in FAULTY], ids=[row[0] for row in FAULTY]
)
def test_wrong_input_is_told_and_loses_nothing(wrong: Any, true: Any, sentence: str) -> None:
    metric = DetectionAP("coco2017", num_classes=2)
    metric.update([prediction()], [target()])
    before = metric.compute().to_dict()
    with pytest.raises(InputError, match=sentence) as caught:
        metric.update([wrong], [true])
    assert isinstance(caught.value, VocMetricsError)
    assert isinstance(caught.value, ValueError)
    assert "\n" not in str(caught.value)
    assert str(metric.compute().to_dict()) == str(before)
    assert metric.compute().num_images == 1


@pytest.mark.parametrize(
    ("predictions", "targets", "sentence"),
    [
        (prediction(), [target()], "wrap a single image in a list"),
        ([prediction()], [target(), target()], "one entry per image each, got 1 and 2"),
        ([prediction()], ["x"], r"targets\[0\]: must be a dict, got str"),
        ([prediction()], None, "targets: must be a list"),
        (
            [prediction(), prediction()],
            [target(image_id=1), target()],
            "some targets have an image_id",
        ),
        (
            [prediction(), prediction()],
            [target(image_id=1), target(image_id="a")],
            "all int or all str",
        ),
        (
            [prediction(), prediction(labels=None)],
            [target(), target()],
            "prediction 1: key 'labels' is missing",
        ),
        (
            [prediction(), prediction(boxes=torch.zeros(4))],
            [target(), target()],
            r"prediction 1, key 'boxes': must have shape \[N, 4\], got \(4,\)",
        ),
        (  # as many scores as boxes, but not in each image
            [prediction(scores=torch.zeros(2)), prediction(scores=EMPTY)],
            [target(), target()],
            r"prediction 0, key 'scores': .* got shape \(2,\) beside 1 boxes",
        ),
        (  # joined, they would be integers
            [prediction(), prediction(labels=torch.tensor([True]))],
            [target(), target()],
            "predictions, key 'labels': must be integers, got torch.bool",
        ),
        (
            [prediction(order=[1]), prediction()],
            [target(), target()],
            "'order' is given for some images only",
        ),
        (
            [
                prediction(),
                prediction(boxes=[[0.0, 0, 1, 1]] * 2, scores=[0.5, NAN], labels=[0, 0]),
            ],
            [target(image_id="a"), target(image_id="b")],
            r"prediction 1 \(image_id 'b'\), row 1: the score is NaN",
        ),
    ],
)
def test_wrong_batches(predictions: Any, targets: Any, sentence: str) -> None:
    metric = DetectionAP("voc2007", num_classes=2)
    with pytest.raises(InputError, match=sentence):
        metric.update(predictions, targets)
    assert metric.state_dict()["updated"] is False


@pytest.mark.parametrize(
    ("second", "sentence"),
    [
        (([prediction()], [target()]), "image ids must be of one kind in all batches"),
        (([prediction()], [target(image_id="b")]), "of one kind"),
        (([prediction(order=[3])], [target(image_id=2)]), "'order': must be given in all"),
    ],
)
@pytest.mark.parametrize("matched", [False, True])
def test_conventions_hold_across_batches(second: Any, sentence: str, matched: bool) -> None:
    metric = DetectionAP("voc2007", num_classes=1)
    metric.update([prediction()], [target(image_id=1)])
    if matched:
        metric.compute()
    with pytest.raises(InputError, match=sentence):
        metric.update(*second)
    assert metric.compute().num_images == 1


def test_voc_takes_inverted_boxes_and_they_match_nothing() -> None:
    inverted = [[50.0, 10.0, 10.0, 50.0]]
    result = (
        DetectionAP("voc2012", num_classes=1)
        .update([prediction(boxes=inverted)], [target(boxes=inverted)])
        .compute()
    )
    assert result.true_positives.tolist() == [[0]]
    assert result.false_positives.tolist() == [[1]]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"num_classes": 1, "box_format": "xyx"}, "box_format: must be one of xyxy, xywh, cxcywh"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        DetectionAP("voc2007", **arguments)


def test_wrong_protocols() -> None:
    with pytest.raises(ProtocolError, match=r"unknown protocol .*near names: .*voc2007"):
        DetectionAP("voc207", num_classes=1)
    with pytest.raises(InputError, match="distinct names"):
        DetectionAP(["voc2007", "voc2007"], num_classes=1)
    with pytest.raises(InputError, match="distinct names"):
        DetectionAP([], num_classes=1)
    with pytest.raises(ProtocolError, match=r"protocol: must be the name of a protocol.*got None"):
        DetectionAP(None, num_classes=1)  # type: ignore[call-overload]
    with pytest.raises(ProtocolError, match="of the task detection is needed, got layout/voc2007"):
        DetectionAP("layout/voc2007", num_classes=1)


def test_label_ids_name_the_classes() -> None:
    metric = DetectionAP("voc2012", class_names=["dog", "cat"], label_ids=[7, 3])
    result = metric.update([prediction(labels=[3])], [target(labels=[3])]).compute()
    assert result.num_positives.tolist() == [0, 1]
    with pytest.raises(InputError, match="label is unknown, got 0"):
        metric.update([prediction(labels=[0])], [target(labels=[3])])


@pytest.mark.parametrize("empty", [torch.zeros(0), torch.zeros(0, 4), np.zeros((0, 4)), []])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_both_shapes_of_nothing(empty: Any, dtype: torch.dtype) -> None:
    nothing = torch.zeros(0, dtype=dtype)
    metric = DetectionAP("coco2017", num_classes=1)
    metric.update([{"boxes": empty, "scores": nothing, "labels": nothing}], [target()])
    metric.update([prediction()], [{"boxes": empty, "labels": nothing}])
    result = metric.compute()
    assert (result.num_images, result.num_positives.tolist()) == (2, [1])
    assert result.false_positives[0].tolist() == [1]


@pytest.mark.parametrize(
    "convert",
    [
        lambda t: t.double(),
        lambda t: t.half(),
        lambda t: t.bfloat16(),
        lambda t: t.int(),
        lambda t: t.numpy(),
        lambda t: t.tolist(),
        lambda t: t.clone().requires_grad_(),
    ],
    ids=["float64", "float16", "bfloat16", "int32", "numpy", "lists", "with a gradient"],
)
def test_every_number_type_gives_the_same(convert: Any) -> None:
    boxes = torch.tensor([[10.0, 10, 50, 50], [0, 0, 30, 100]])
    wanted = DetectionAP("coco2017", num_classes=1)
    labels, scores = torch.zeros(2, dtype=torch.int64), torch.tensor([0.5, 0.25])
    rows = {"boxes": boxes + 4, "scores": scores, "labels": labels}
    wanted.update([rows], [{"boxes": boxes, "labels": labels}])
    metric = DetectionAP("coco2017", num_classes=1)
    metric.update(
        [rows | {"boxes": convert(boxes + 4)}], [{"boxes": convert(boxes), "labels": labels}]
    )
    torch.testing.assert_close(
        metric.compute().precision, wanted.compute().precision, rtol=0, atol=0, equal_nan=True
    )


def test_mixed_number_types_in_a_batch_lose_nothing() -> None:
    fine = 16_777_217.0  # not a float32
    wide = torch.tensor([[fine, 0.0, fine + 1, 1.0]], dtype=torch.float64)
    whole = torch.tensor([[16_777_217, 0, 16_777_218, 1]])
    narrow = torch.tensor([[0.0, 0, 1, 1]])
    metric = DetectionAP("coco2017", num_classes=1)
    metric.update(
        [prediction(boxes=wide), prediction(boxes=narrow), prediction(boxes=whole)],
        [target(boxes=whole), target(boxes=narrow), target(boxes=wide)],
    )
    assert metric.compute().headline > 0.999


@pytest.mark.parametrize("odd", [torch.zeros(0, 4), torch.zeros(0, 1), torch.zeros(0).long(), []])
def test_columns_without_rows_have_any_shape_and_type(odd: Any) -> None:
    nothing = prediction(boxes=torch.zeros(0, 4), scores=odd, labels=odd)
    no_object = target(boxes=torch.zeros(0, 4), labels=odd, iscrowd=odd, area=odd)
    metric = DetectionAP("coco2017", num_classes=1)
    true = target(iscrowd=torch.tensor([False]), area=torch.tensor([1600.0]))
    metric.update([nothing, prediction(), nothing], [no_object, true, no_object])
    batch = metric._accumulated.pending[0]
    assert (batch.detections.counts, batch.ground_truths.counts) == ((0, 1, 0), (0, 1, 0))
    assert batch.detections.scores.dtype == torch.float32
    assert metric.compute().headline > 0.999


def test_wide_integers_beside_floats_lose_nothing() -> None:
    """``torch.cat`` alone would make float32 of both, in which the two scores are one."""
    fine = torch.tensor([16_777_217])
    found = [prediction(scores=torch.tensor([16_777_216.0])), prediction(scores=fine)]
    metric = DetectionAP("coco2017", num_classes=1).update(found, [target(), target()])
    assert metric._accumulated.pending[0].detections.scores.tolist() == [16_777_216.0, 16_777_217.0]


def test_tensors_on_several_devices_join_off_the_host() -> None:
    rules = DetectionAP("coco2017", num_classes=1)._rules
    with fake_cuda():
        rows = prediction()
        on_cuda = {k: torch.empty(v.shape, dtype=v.dtype, device="cuda") for k, v in rows.items()}
        for images in ([rows, on_cuda], [on_cuda, rows]):
            batch = pack(images, [target(), target()], rules, None)
            columns = (batch.detections.scores, batch.detections.boxes, batch.ground_truths.boxes)
            assert {column.device.type for column in columns} == {"cuda"}


def test_flags_of_every_type_add_up() -> None:
    metric = DetectionAP("coco2017", num_classes=1)
    all_flags = {"difficult": torch.tensor([1]), "iscrowd": torch.tensor([True]), "ignore": [1.0]}
    metric.update([prediction()] * 2, [target(**all_flags), target(ignore=torch.tensor([True]))])
    assert metric._accumulated.pending[0].ground_truths.flags.tolist() == [7, 4]
    assert metric._accumulated.pending[0].ground_truths.flags.dtype == torch.uint8


def test_huge_values_are_no_fault() -> None:
    """Their sum, and the width of the box, are infinite in float32."""
    huge = torch.tensor([[-3e38, 0, 3e38, 3e38]])
    metric = DetectionAP("coco2017", num_classes=1)
    metric.update([prediction(boxes=huge, scores=torch.tensor([3e38]))] * 2, [target()] * 2)
    assert metric.compute().num_images == 2


def test_mappings_and_strange_keys_are_taken() -> None:
    found = UserDict(prediction(embedding=torch.zeros(1, 8)))
    with pytest.warns(VocMetricsWarning, match="license"):
        metric = DetectionAP("coco2017", num_classes=1).update([found], [target(license=3)])
    assert metric.compute().headline > 0.999


def test_inputs_are_neither_kept_nor_changed() -> None:
    given, true = prediction(), target(difficult=torch.tensor([False]))
    saved = copy.deepcopy((given, true))
    metric = DetectionAP("voc2007", num_classes=1).update([given], [true])
    before = metric.compute().to_dict()
    for rows, kept in zip((given, true), saved, strict=True):
        assert all(torch.equal(rows[key], kept[key]) for key in kept)
    metric = DetectionAP("voc2007", num_classes=1).update([given], [true])
    given["boxes"].zero_()
    given["scores"].zero_()
    true["difficult"].fill_(True)
    assert metric.compute().to_dict() == before


def test_lists_of_numbers_are_float64() -> None:
    """Two scores that float32 cannot tell apart: the larger one comes first."""
    near = [0.5, 0.5 + 1e-12]
    found = {"boxes": [[100.0, 0, 140, 40], BOX[0]], "scores": near, "labels": [0, 0]}
    result = DetectionAP("voc2012", num_classes=1).update([found], [target()]).compute()
    assert result.headline == 1.0


@pytest.mark.parametrize("box_format", ["xyxy", "xywh", "cxcywh"])
@pytest.mark.parametrize("column", range(4))
@pytest.mark.parametrize("value", [float("inf"), -float("inf"), float("nan")])
def test_no_corner_may_be_infinite(box_format: str, column: int, value: float) -> None:
    metric: Any = DetectionAP("coco2017", num_classes=1, box_format=box_format)
    rows = {"boxes": torch.tensor([[1.0, 1, 9, 9]]), "labels": torch.tensor([0])}
    found = rows | {"boxes": rows["boxes"].clone(), "scores": torch.ones(1)}
    found["boxes"][0, column] = value
    with pytest.raises(InputError, match="not finite"):
        metric.update([found], [rows])
