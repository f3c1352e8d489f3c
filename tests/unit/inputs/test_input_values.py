"""Values that no metric can take: refused in ``update`` on the host, at the flush on a device."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from helpers.fake_cuda import fake_cuda

from torch_vocmetrics import (
    ClassificationAP,
    DetectionAP,
    InputError,
    LayoutAP,
    LogAverageMissRate,
    MeanIoU,
)
from torch_vocmetrics.inputs import faults, images, per_image
from torch_vocmetrics.metrics.mask_quality import MaskQuality

NAN, INF = float("nan"), float("inf")
BOX = torch.tensor([[10.0, 10.0, 50.0, 50.0]])


def prediction(**changes: Any) -> dict[str, Any]:
    rows = {"boxes": BOX, "scores": torch.tensor([0.9]), "labels": torch.tensor([0])}
    return rows | changes


def target(**changes: Any) -> dict[str, Any]:
    return {"boxes": BOX, "labels": torch.tensor([0])} | changes


def refused(metric: Any, first: Any, second: Any, sentence: str) -> str:
    """What is said of an image that is refused with one sentence; the state stays."""
    before = str(metric.state_dict())
    with pytest.raises(InputError, match=sentence) as caught:
        metric.update([first], [second])
    assert "\n" not in str(caught.value)
    assert str(metric.state_dict()) == before
    return str(caught.value)


SIZES = [
    (480, NAN), (INF, 5), (2**31, 1), "ab", (None, 5), (480.5, 2), (-1, 3), (0, 3), (True, 2),
    (10**9, 10**9), (2**70, 1), (1,), (1, 2, 3), 5, ((1, 2), (3, 4)), {"a": 1}, None,
    torch.tensor([480.5, 2]), torch.tensor([1, 2, 3]), np.array([NAN, 1]), torch.tensor([1j, 2]),
]  # fmt: skip


@pytest.mark.parametrize("size", SIZES, ids=repr)
def test_a_size_on_the_host_is_checked_at_once(size: Any) -> None:
    for metric in (DetectionAP("coco2017", num_classes=1), LogAverageMissRate("citypersons2017")):
        metric.update([prediction()], [target(image_size=(99, 99))])
        refused(metric, prediction(), target(image_size=size), r"target 0, key 'image_size'")
        assert metric.compute().num_images == 1


@pytest.mark.parametrize(
    "size",
    [
        (480, 640), [480, 640], (480.0, 640.0), np.array([480.0, 640]), torch.tensor([480, 640]),
        (torch.tensor(480), torch.tensor([640])), (np.int32(480), np.float32(640)),
        torch.tensor([480, 640], dtype=torch.uint16),
    ],
    ids=repr,
)  # fmt: skip
def test_every_form_of_a_size_is_read(size: Any) -> None:
    metric = DetectionAP("coco2017", num_classes=1)
    metric.update([prediction()] * 2, [target(image_size=(480, 640)), target(image_size=size)])
    assert metric.state_dict()["records"][0]["image_sizes"].tolist() == [[480, 640]] * 2


def on_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the CPU pass for a device: nothing is read in ``update``."""
    monkeypatch.setattr(faults, "on_host", lambda values: False)
    monkeypatch.setattr(images, "on_host", lambda values: False)
    read_later = "torch_vocmetrics.metrics.recorded."
    monkeypatch.setattr(f"{read_later}fault_on_host", lambda batch: None)
    monkeypatch.setattr(
        f"{read_later}suspects_on_device",
        lambda batch, before: [one._replace(images_before=before) for one in batch.suspects],
    )


def test_sizes_on_a_device_are_checked_at_the_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    on_device(monkeypatch)
    sizes = {"bad": torch.tensor([[480, 640], [0, 640]]), "good": torch.tensor([[480, 640]] * 2)}
    metric = DetectionAP("coco2017", num_classes=1)
    metric.update([prediction()], [target(image_id="a", image_size=(1, 2))])
    monkeypatch.setattr(images, "image_sizes_of", lambda side: sizes[chosen])
    chosen = "bad"
    metric.update([prediction()] * 2, [target(image_id="b"), target(image_id="c")])
    for _ in range(2):
        with pytest.raises(InputError, match=r"target 2 \(image_id 'c'\): the size is not .*640"):
            metric.compute()
    assert len(metric._accumulated.pending) == 2
    chosen = "good"
    metric.reset().update([prediction()] * 2, [target(image_id="b"), target(image_id="c")])
    assert metric.state_dict()["records"][0]["image_sizes"].tolist() == [[480, 640]] * 2


def test_sizes_ids_and_padding_on_a_device_do_not_wait() -> None:
    with fake_cuda() as guard:
        whole = {"boxes": torch.empty(2, 3, 4), "labels": torch.empty(2, 3, dtype=torch.int64)}
        whole = {key: torch.empty_like(value, device="cuda") for key, value in whole.items()}
        found = whole | {"scores": torch.empty(2, 3, device="cuda"), "counts": [1, 3]}
        ids = torch.empty(2, dtype=torch.int64, device="cuda")
        sizes = torch.empty(2, 2, device="cuda")
        flags = torch.empty(2, 3, dtype=torch.int64, device="cuda")
        metric = DetectionAP("coco2017", num_classes=1)
        guard.copies = 0
        more = {"iscrowd": flags, "image_id": ids, "image_size": sizes, "counts": [2, 2]}
        metric.update(found, whole | more)
        assert guard.copies == 2  # which rows are valid, once a side
        batch = metric._accumulated.pending[0]
        assert batch.detections.boxes.shape == (4, 4)
        assert {batch.image_ids.device.type, batch.image_sizes.device.type} == {"cuda"}
        rows = [{key: value[i] for key, value in whole.items()} for i in (0, 1)]
        listed = [
            row | {"image_id": ids[i], "image_size": (sizes[i, 0], sizes[i, 1])}
            for i, row in enumerate(rows)
        ]
        found = [row | {"scores": torch.empty(3, device="cuda")} for row in rows]
        metric.update(found, listed)
        assert metric._accumulated.pending[1].image_sizes.shape == (2, 2)
        ClassificationAP("voc2007", num_classes=1).update(
            torch.empty(2, 1, device="cuda"),
            torch.empty(2, 1, dtype=torch.int64, device="cuda"),
            ids,
        )


def test_ids_on_a_device_are_read_at_the_flush() -> None:
    """The CPU passes for a device; classification keeps such ids apart."""
    metric = ClassificationAP("voc2007", num_classes=1)
    ids = torch.tensor([4, 3])
    metric.update([[0.5], [0.5]], [[1], [-1]])
    last = metric._accumulated.pending[0]
    metric._accumulated = metric._accumulated.__class__(
        metric._accumulated.tables, updated=True, pending=(last._replace(ids_on_device=ids),)
    )
    assert metric._accumulated.pending[0].kind_of_ids == "int"
    assert metric.state_dict()["image_ids"] == [4, 3]


@pytest.mark.parametrize("label", [2**62, 2**62 + 1, 2**63 - 1, -(2**62), -(2**63)])
def test_huge_labels_are_unknown(label: int) -> None:
    for label_ids in (None, [3, 7]):
        metric = DetectionAP("coco2017", num_classes=2, label_ids=label_ids)
        sentence = "prediction 0, row 0: the label is unknown, got an absolute value of 2"
        assert refused(
            metric, prediction(labels=torch.tensor([label])), target(labels=[3]), sentence
        )


def test_unknown_labels_are_named_exactly() -> None:
    metric = DetectionAP("coco2017", num_classes=2, label_ids=[5, 6])
    for label in (0, 4, -9, 2**60 + 1, -(2**60) - 1):
        assert refused(
            metric, prediction(labels=[label]), target(labels=[5]), f"unknown, got {label};"
        )


def test_unsigned_labels_keep_their_value() -> None:
    wide = torch.tensor([2**64 - 1], dtype=torch.uint64)
    metric = DetectionAP("coco2017", label_ids=[-1, 0])
    for labels in (wide, wide.numpy()):
        refused(metric, prediction(labels=labels), target(), "the label is unknown")
    for kind in (torch.uint8, torch.uint16, torch.uint32, torch.uint64):
        zero = torch.zeros(1, dtype=kind)
        metric.update([prediction(labels=zero)], [target(labels=zero)])
    assert metric.compute().num_positives.tolist() == [0, 4]


FLAGS: list[Any] = [[-1], [2], [NAN], [0.5], torch.tensor([255], dtype=torch.uint8), [2**40]]


@pytest.mark.parametrize("key", ["difficult", "iscrowd", "ignore"])
@pytest.mark.parametrize("flag", FLAGS, ids=repr)
def test_flags_are_0_or_1(key: str, flag: Any) -> None:
    metric = DetectionAP("voc2007", num_classes=1)
    all_flags = {"difficult": [1], "iscrowd": [True], "ignore": [0.0]} | {key: flag}
    assert refused(
        metric, prediction(), target(**all_flags), f"row 0, key '{key}': the flag is neither"
    )
    parts = {"part_boxes": BOX, "part_labels": [0], "part_counts": [1], "object_index": [1]}
    person, sentence = parts | {"difficult": flag}, "person 0, row 0, key 'difficult': the flag"
    assert refused(LayoutAP("voc2012"), parts | {"scores": [0.5]}, person, sentence)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"visibility": [-0.1]}, "the visibility is outside 0 .. 1, got -0.1"),
        ({"visibility": [1.5]}, "the visibility is outside"),
        ({"visibility": [INF]}, "the visibility is outside 0 .. 1, got inf"),
        ({"visible_boxes": [[10.0, 10, 5, 20]]}, "the visible box is inverted, not finite, or"),
        ({"visible_boxes": [[0.0, 0, 1e200, 20]]}, r"beyond 3.4e\+38, got \[0.0, 0.0, 1e\+200, "),
        ({"visible_boxes": [[NAN, 1, 1, 1]]}, r"visible box is .* got \[nan, 1.0, 1.0, 1.0\]"),
        ({"visible_boxes": [[0.0, 0, INF, 1]]}, "the visible box is inverted, not finite, or"),
    ],
)
def test_visible_parts_are_checked(changes: dict[str, Any], sentence: str) -> None:
    metric = LogAverageMissRate("caltech2012")
    refused(metric, prediction(), target(**changes), sentence)
    metric.update([prediction()], [target(visibility=[NAN], visible_boxes=[[NAN] * 4])])
    assert metric.compute().num_images == 1


@pytest.mark.parametrize("fault", [
    {"labels": torch.tensor([2**62])}, {"iscrowd": torch.tensor([3])}, {"area": [-1.0]},
], ids=repr)  # fmt: skip
def test_values_on_a_device_are_told_at_the_flush(
    fault: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    on_device(monkeypatch)
    metric = DetectionAP("coco2017", num_classes=1)
    metric.update([prediction()], [target()]).update([prediction()], [target(**fault)])
    for _ in range(2):
        with pytest.raises(InputError, match="target 1, row 0"):
            metric.compute()
    assert len(metric._accumulated.pending) == 2


@pytest.mark.parametrize("home", ["host", "device"])
def test_probabilities_that_are_nan_are_no_mask(home: str, monkeypatch: Any) -> None:
    if home == "device":
        on_device(monkeypatch)
        monkeypatch.setattr("torch_vocmetrics.inputs.masks.on_host", lambda values: False)
    masks = torch.ones(3, 1, 4, 4)
    rows = {"scores": torch.rand(3), "labels": torch.zeros(3, dtype=torch.int64)}
    metric = DetectionAP("coco2017_segm", num_classes=1)
    metric.update([rows | {"masks": masks}], [rows | {"masks": masks}])
    bad = masks.clone()
    bad[1, 0, 2, 3] = NAN
    with pytest.raises(InputError, match=r"prediction \d, row 1: a mask has NaN probabilities"):
        metric.update([rows | {"masks": bad}], [rows | {"masks": masks}]).compute()
    assert len(metric._accumulated.pending) == (2 if home == "device" else 1)


@pytest.mark.parametrize("kind", [torch.float8_e4m3fn, torch.float8_e5m2, torch.complex64])
@pytest.mark.parametrize("key", ["boxes", "scores", "labels", "area", "iscrowd"])
def test_number_types_that_lose_values_are_refused(kind: torch.dtype, key: str) -> None:
    rows = target() | {"area": torch.ones(1), "iscrowd": torch.zeros(1)} | prediction()
    rows[key] = rows[key].to(kind)
    assert refused(
        DetectionAP("coco2017", num_classes=1), rows, rows, f"key '{key}': must be .*{kind}"
    )


ODD: dict[str, Any] = {
    "sparse": lambda t: t.to_sparse(),
    "quantized": lambda t: torch.quantize_per_tensor(t.float(), 1.0, 0, torch.qint8),
    "nested": lambda t: torch.nested.nested_tensor([t]),
    "meta": lambda t: t.to("meta"),
}


@pytest.mark.filterwarnings("ignore")  # torch on quantized and nested tensors
@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("key", ["boxes", "scores", "labels", "area", "iscrowd", "image_size"])
def test_tensors_without_plain_values_are_refused(odd: str, key: str) -> None:
    more = {"area": torch.ones(1), "iscrowd": torch.zeros(1), "image_size": torch.tensor([9, 9])}
    rows = target() | more | prediction()
    rows[key] = ODD[odd](rows[key])
    sentence = f"key '{key}': must (be a tensor of plain numbers|have values)"
    refused(DetectionAP("coco2017", num_classes=1), rows, rows, sentence)
    maps = ODD[odd](torch.zeros(1, 2, 2))
    with pytest.raises(InputError, match="predictions: must"):
        MeanIoU("voc2012", num_classes=2).update(maps, torch.zeros(1, 2, 2).long())


def test_boxes_of_any_size_have_finite_areas() -> None:
    metric = DetectionAP("voc2012", num_classes=1)
    huge = BOX.double() * 1e200
    refused(metric, prediction(boxes=huge), target(), "a coordinate of the box is beyond 3.4e")
    refused(metric, prediction(), target(boxes=-huge.flip(1)), "target 0, row 0: a coordinate")
    large = torch.tensor([[-3e38, -3e38, 3e38, 3e38]], dtype=torch.float64)
    for boxes in (large, large.float()):
        metric.reset().update([prediction(boxes=boxes)], [target(boxes=boxes)])
        assert metric.compute().headline > 0.99


def padded(counts: Any) -> dict[str, Any]:
    boxes = torch.zeros(2, 3, 4) + NAN  # what is behind the valid rows is never read
    boxes[0, :1], boxes[1, :2] = BOX, BOX
    scores = torch.tensor([[0.9, NAN, NAN], [0.8, 0.7, NAN]])
    labels = torch.tensor([[0, 99, 99], [0, 0, 99]])
    return {"boxes": boxes, "scores": scores, "labels": labels, "counts": counts}


@pytest.mark.parametrize("convert", [list, torch.tensor, np.array, tuple])
def test_counts_say_which_rows_of_dense_images_are_valid(convert: Any) -> None:
    metric = DetectionAP("voc2012", num_classes=1).update(padded(convert([1, 2])), [target()] * 2)
    result = metric.compute()
    assert (result.true_positives.tolist(), result.false_positives.tolist()) == ([[2]], [[1]])
    rows = {key: value for key, value in padded(convert([1, 2])).items() if key != "scores"}
    listed = [prediction(), prediction()]
    metric.reset().update(listed, rows | {"difficult": torch.zeros(2, 3, dtype=torch.bool)})
    assert metric.compute().num_positives.tolist() == [3]
    assert DetectionAP("voc2012", num_classes=1).update(padded([0, 0]), [target()] * 2)


@pytest.mark.parametrize(
    "counts", [[4, 1], [-1, 1], [1], [1, 1, 1], 4, "ab", [1.0, 1.0], [True, True], [[1], [1]],
               [None, 1], torch.tensor(2), [2**70, 0]], ids=repr
)  # fmt: skip
def test_wrong_counts_are_refused(counts: Any) -> None:
    metric = DetectionAP("coco2017", num_classes=1)
    with pytest.raises(InputError, match="predictions, key 'counts': must"):
        metric.update(padded(counts), [target()] * 2)
    flat = {key: value.flatten(0, 1) for key, value in padded([]).items() if key != "counts"}
    with pytest.raises(InputError, match="predictions, key 'counts': must"):
        metric.update(flat | {"counts": counts}, [target()] * 2)


BAD_IDS: list[Any] = [
    torch.tensor([1.2, 1.7]), np.array([1.2, 1.7]), torch.tensor([True, False]), [1.5, 2.5],
    [torch.tensor(1.2), torch.tensor(1.7)], [True, False], [b"a", b"b"], [None, None], "ab", 5,
    [1], [1, "a"], torch.tensor([[1], [2]]), torch.tensor(3), [1, 2, 3],
    [1, 2**63], [-(2**63) - 1, 1], np.array([1, 2**63], np.uint64), [np.uint64(2**63), 1],
    torch.tensor([1, 2**63], dtype=torch.uint64),
    [torch.tensor(2**63, dtype=torch.uint64), torch.tensor(1)],
]  # fmt: skip


@pytest.mark.parametrize("ids", BAD_IDS, ids=repr)
def test_wrong_ids_are_refused_by_every_metric(ids: Any) -> None:
    packed = {"boxes": BOX.repeat(2, 1), "labels": torch.zeros(2).long(), "counts": [1, 1]}
    with pytest.raises(InputError, match=r"image_?id"):
        DetectionAP("coco2017", num_classes=1).update(
            [prediction()] * 2, packed | {"image_id": ids}
        )
    maps = torch.zeros(2, 2, 2).long()
    with pytest.raises(InputError, match=r"image_?id"):
        MeanIoU("voc2012", num_classes=2).update(maps, maps, ids)
    with pytest.raises(InputError, match=r"image_?id"):
        ClassificationAP("voc2007", num_classes=1).update([[0.5]] * 2, [[1], [-1]], ids)


def test_pairs_of_ids_have_the_same_limit() -> None:
    metric = ClassificationAP("action/voc2012", num_classes=1)
    with pytest.raises(InputError, match=r"image_ids\[0\]"):
        metric.update([[0.5]], [[1]], [(2**63, 1)])
    assert metric.update([[0.5]], [[1]], [(2**63 - 1, -(2**63))]).num_images == 1


def test_ids_beyond_int64_on_a_device_are_refused_when_they_are_read() -> None:
    with pytest.raises(InputError, match="image id 1: must be an integer of 64 bits"):
        per_image.ids_on_host([torch.tensor([0, 2**63], dtype=torch.uint64)])


@pytest.mark.parametrize("packed", [False, True])
def test_faults_of_parts_name_their_own_keys(packed: bool) -> None:
    layout = {"scores": [0.9], "object_index": [1], "part_counts": [1]}
    parts = {"part_boxes": BOX, "part_labels": [0]}
    person = {"object_index": [1], "part_counts": [1]} | parts
    for key, value in (("part_labels", [True]), ("part_boxes", torch.ones(1, 4).to_sparse())):
        wrong = layout | parts | {key: value}
        sides = (
            (wrong | {"counts": [1]}, person | {"counts": [1]}) if packed else ([wrong], [person])
        )
        with pytest.raises(InputError, match=f"layout.* key '{key}'"):
            LayoutAP("voc2010").update(*sides)


@pytest.mark.parametrize(
    "ids", [torch.tensor([3, 2]), np.array([3, 2]), [np.int64(3), 2], (3, torch.tensor([2]))],
    ids=repr,
)  # fmt: skip
def test_every_form_of_ids_is_read_by_every_metric(ids: Any) -> None:
    packed = {"boxes": BOX.repeat(2, 1), "labels": torch.zeros(2).long(), "counts": [1, 1]}
    maps = torch.zeros(2, 2, 2).long()
    seen = [
        DetectionAP("coco2017", num_classes=1).update(
            [prediction()] * 2, packed | {"image_id": ids}
        ),
        MeanIoU("voc2012", num_classes=2).update(maps, maps, ids),
        ClassificationAP("voc2007", num_classes=1).update([[0.5]] * 2, [[1], [-1]], ids),
    ]
    for metric in seen:
        assert metric.state_dict()["image_ids"] == [3, 2]


def test_a_last_batch_without_images() -> None:
    nothing = {"boxes": torch.zeros(0, 4), "labels": torch.zeros(0).long(), "counts": []}
    for ids in ([], torch.zeros(0).long()):
        metric = DetectionAP("coco2017", num_classes=1)
        found = nothing | {"scores": torch.zeros(0)}
        metric.update(found, nothing | {"image_id": ids, "image_size": ids})
        metric.update([prediction()], [target(image_id="a")])
        metric.update(found, nothing | {"image_id": ids})
        assert metric.compute().num_images == 1
        parts = {"part_boxes": torch.zeros(0, 4), "part_labels": [], "part_counts": []}
        persons = parts | {"object_index": [], "counts": []}
        layouts = LayoutAP("voc2012").update(persons | {"scores": []}, persons | {"image_id": ids})
        assert layouts.compute().to_dict().keys()


def test_the_format_of_boxes_is_checked_by_every_metric() -> None:
    for make in (DetectionAP, LogAverageMissRate, MaskQuality):
        protocols = {DetectionAP: ["coco2017"], LogAverageMissRate: ["caltech2012"]}
        options = {} if make is LogAverageMissRate else {"num_classes": 1}
        with pytest.raises(InputError, match="box_format: must be one of xyxy"):
            make(*protocols.get(make, []), box_format="xyhw", **options)


@pytest.mark.parametrize("value", [-(2**63), 2**63 - 1, 2, 300, 257, -2])
def test_targets_of_classes_are_signs(value: int) -> None:
    metric = ClassificationAP("voc2007", num_classes=2, target_format="signed")
    with pytest.raises(InputError, match=rf"targets\[1, 0\].*got {value}"):
        metric.update([[0.5, 0.5]] * 2, torch.tensor([[1, -1], [value, 1]]))
    for kind in (torch.uint8, torch.uint16, torch.uint32, torch.uint64):
        if 0 < value <= torch.iinfo(kind).max:
            with pytest.raises(InputError, match=rf"targets\[0, 1\].*got {value}"):
                metric.update([[0.5, 0.5]], torch.tensor([[1, value]], dtype=kind))
    with pytest.raises(InputError, match=r"targets\[0, 1\]"):
        metric.update([[0.5, 0.5]], torch.tensor([[1, 2**64 - 1]], dtype=torch.uint64))


def test_faults_of_label_maps_name_the_image() -> None:
    good, bad = torch.zeros(2, 2).long(), torch.tensor([[0, 1], [7, 0]])
    for found in ([good, bad], torch.stack([good, bad])):
        metric = MeanIoU("voc2012", num_classes=2)
        sentence = r"prediction 1 \(image_id 'b'\), pixel \(row 1, column 0\).*got 7"
        with pytest.raises(InputError, match=sentence):
            metric.update(found, [good, good], ["a", "b"])
    with pytest.raises(InputError, match=r"predictions\[1\]: .* differ in size"):
        metric.update([good, good[:1]], [good, good])


def test_metrics_work_under_another_default_device() -> None:
    lists = [[0.9, 0.2], [0.8, 0.7], [0.8, 0.7]], [[1, -1], [-1, 1], [-1, 1]]
    maps = [[[0, 1], [1, 0]]] * 3
    parts = {"part_boxes": [[30, 1, 60, 40]], "part_labels": [0], "part_counts": [1]}
    layout = parts | {"object_index": [1], "scores": [0.9]}
    box, truth = prediction(), target(image_size=[9, 9])

    def numbers() -> list[float]:
        scores = ClassificationAP("voc2012", num_classes=2).update(*lists, ["b", "a", "a"])
        pixels = MeanIoU("voc2012", num_classes=2).update(maps, maps, [2, 1, 1])
        layouts = LayoutAP("voc2012")
        for image_id in (3, 3, 4):
            layouts.update([layout], [parts | {"object_index": [1], "image_id": image_id}])
        boxes = DetectionAP("coco2017", num_classes=1)
        for image_id in (3, 3, 4):
            boxes.update([box], [truth | {"image_id": image_id}])
        with pytest.warns(match="repeated images"):
            return [one.compute().headline for one in (scores, pixels, boxes)] + [
                layouts.compute().to_dict()["AP/head"]
            ]

    wanted = numbers()
    torch.set_default_device("meta")
    try:
        assert numbers() == wanted
    finally:
        torch.set_default_device("cpu")


def test_inputs_may_be_overwritten_after_update() -> None:
    """Sizes and ids as tensors, arrays and lists are copies; rows of dense images too."""
    metric = LogAverageMissRate("citypersons2017")
    size, ids = [100, 100], np.array([5, 6])
    sizes: list[Any] = [size, torch.tensor([100, 100])]
    rows = padded([1, 2])
    whole = {"boxes": rows["boxes"], "labels": rows["labels"], "counts": [1, 2]}
    given = whole | {"image_id": ids, "image_size": sizes}
    metric.update(rows, copy.copy(given))
    kept = metric._accumulated.pending[0]
    before = str((kept.image_sizes, kept.image_ids, kept.detections, kept.ground_truths))
    size[0] = 1
    sizes[1].zero_()
    ids[:] = 0
    for value in (rows["boxes"], rows["scores"], rows["labels"]):
        value.zero_()
    after = str((kept.image_sizes, kept.image_ids, kept.detections, kept.ground_truths))
    assert after == before
    assert per_image.ids_on_host([kept.image_ids]) == [[5, 6]]


def test_sizes_on_a_device_are_whole_and_positive() -> None:
    sizes = torch.tensor([[480.0, 640], [480.5, 640], [0, 640], [2**21, 2], [NAN, 2], [INF, 2]])
    assert per_image.bad_sizes(sizes).tolist() == [False, True, True, True, True, True]


def test_ids_on_a_device_are_copies() -> None:
    with fake_cuda():
        ids = torch.empty(2, dtype=torch.int64, device="cuda")
        assert per_image.read_ids(ids, "image_ids[{}]") is not ids
        sizes = torch.empty(2, 2, device="cuda")
        assert per_image.read_sizes(sizes, "image_sizes[{}]") is not sizes
