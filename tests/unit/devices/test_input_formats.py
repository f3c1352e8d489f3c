"""Formats of boxes, tensors of rows and unknown labels on a stand-in for a device with values."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers.host_backed_cuda import host_backed_cuda, moved

from torch_vocmetrics import DetectionAP, InputError, MeanIoU, VocMetricsWarning

K = 3
COLUMNS = ("boxes", "scores", "labels")
SIZE = (128, 256)


def scenes(count: int = 4) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Images whose boxes are whole pixels, with labels 0 .. 3, of which 3 is no class."""
    rng = torch.Generator().manual_seed(8)
    found, true = [], []
    for _ in range(count):
        near = torch.randint(0, 60, (6, 2), generator=rng)
        boxes = torch.cat([near, near + torch.randint(8, 60, (6, 2), generator=rng)], 1).float()
        labels = torch.randint(0, K + 1, (6,), generator=rng)
        found.append({"boxes": boxes, "scores": torch.rand(6, generator=rng), "labels": labels})
        true.append({"boxes": boxes.roll(1, 0), "labels": labels.roll(1, 0), "image_size": SIZE})
    return found, true


def fractions(images: list[dict[str, Any]]) -> list[dict[str, Any]]:
    height, width = SIZE
    sides = torch.tensor([width, height, width, height])
    return [rows | {"boxes": rows["boxes"] / sides} for rows in images]


def numbers(metric: Any) -> str:
    return repr(metric.compute().to_dict())


def wanted() -> str:
    """On the host, in pixels, with the rows of no class left out by hand."""
    sides = [
        [{k: v[r["labels"] < K] if k != "image_size" else v for k, v in r.items()} for r in side]
        for side in scenes()
    ]
    return numbers(DetectionAP("coco2017", num_classes=K).update(*sides))


def new(**options: Any) -> Any:
    return DetectionAP("coco2017", num_classes=K, unknown_labels="drop", **options)


@pytest.mark.parametrize("targets_there", [False, True])
def test_fractions_and_unknown_labels(targets_there: bool) -> None:
    found, true = map(fractions, scenes())
    with host_backed_cuda():
        metric = new(box_format="xyxyn")
        metric.update(moved(found), moved(true) if targets_there else true)
        assert metric._accumulated.device.type == "cuda"
        assert numbers(metric) == wanted()


def test_columns_on_several_devices() -> None:
    found, true = scenes()
    with host_backed_cuda():
        mixed = [rows | {"boxes": moved(rows["boxes"])} for rows in found]
        assert numbers(new().update(mixed, true)) == wanted()


@pytest.mark.parametrize("flat", [False, True])
def test_tensors_of_rows(flat: bool) -> None:
    found, true = scenes()
    rows = [torch.cat([r["boxes"], r["scores"][:, None], r["labels"][:, None]], 1) for r in found]
    if flat:
        parts = [torch.cat([torch.full((len(r), 1), i), r], 1) for i, r in enumerate(rows)]
        given, columns = torch.cat(parts), ("image", *COLUMNS)
    else:
        given, columns = rows, COLUMNS
    with host_backed_cuda():
        metric = new(prediction_columns=columns).update(moved(given), true)
        assert numbers(metric) == wanted()


def test_whole_floats_as_labels() -> None:
    found, true = scenes()
    with host_backed_cuda():
        for rows in found:
            rows["labels"] = rows["labels"].float()
        assert numbers(new().update(moved(found), true)) == wanted()
        found[2]["labels"][1] = 0.5
        metric = DetectionAP("coco2017", num_classes=K + 1).update(moved(found), true)
        with pytest.raises(InputError, match=r"2, row 1: the label is unknown, .* fraction"):
            metric.compute()


def test_class_agnostic() -> None:
    found, true = scenes()
    options: dict[str, Any] = {"num_classes": K + 1, "class_agnostic": True}
    on_host = numbers(DetectionAP("coco2017", **options).update(found, true))
    with host_backed_cuda():
        assert numbers(DetectionAP("coco2017", **options).update(moved(found), true)) == on_host


def test_pixels_where_fractions_are_meant() -> None:
    found, true = scenes()
    with host_backed_cuda():
        metric = DetectionAP("coco2017", num_classes=K + 1, box_format=("xyxy", "xyxyn"))
        with pytest.raises(InputError, match="target 0, row 0: the box is no fraction"):
            metric.update(moved(found), moved(true)).compute()


def test_inverted_boxes_are_counted() -> None:
    boxes = torch.tensor([[50.0, 60, 20, 30]]).repeat(25, 1)
    rows = {"boxes": boxes, "labels": torch.zeros(25, dtype=torch.int64)}
    with host_backed_cuda():
        metric = DetectionAP("voc2007", num_classes=1)
        metric.update([moved(rows | {"scores": torch.rand(25)})], [None])
        with pytest.warns(VocMetricsWarning, match="25 boxes of predictions and 0 of targets"):
            metric.compute()


def test_masks_of_black_and_white() -> None:
    target = torch.tensor([[[0] * 100, [255] * 100]])
    with host_backed_cuda():
        metric = MeanIoU("voc2012_present_classes", num_classes=2)
        metric.update(moved(torch.zeros_like(target)), moved(target))
        with pytest.warns(VocMetricsWarning, match="hold 0 and 255 alone"):
            metric.compute()
        maps = torch.rand(1, 5, 6)
        binary = MeanIoU("voc2012", num_classes=2, binary_threshold=0.5)
        binary.update(moved(maps), moved((maps > 0.5).long()))
        assert binary.compute().headline == 1


def test_a_first_batch_without_predictions_follows() -> None:
    found, true = scenes()
    on_host = new().update([None, *found[1:]], true)
    with host_backed_cuda():
        metric = new().update([None], true[:1]).update(moved(found[1:]), moved(true[1:]))
        assert metric._accumulated.device.type == "cuda"
        assert numbers(metric) == numbers(on_host)
