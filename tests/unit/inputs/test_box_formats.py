"""Formats of boxes: of either side, and as fractions of the image."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
import torch
from helpers.fake_cuda import fake_cuda
from helpers.generator import random_problem
from torch import Tensor

from torch_vocmetrics import DetectionAP, InputError, LogAverageMissRate, load_protocol, reference
from torch_vocmetrics.inputs.box_formats import ALL_FORMATS, in_pixels, read_box_formats
from torch_vocmetrics.metrics import recorded

FORMATS = ("xyxy", "xywh", "cxcywh")
COCO = load_protocol("coco2017")


def of_format(boxes: Tensor, box_format: str) -> Tensor:
    """Corners of whole pixels in another format, exactly."""
    x1, y1, x2, y2 = boxes.double().unbind(1)
    columns = {
        "xyxy": (x1, y1, x2, y2),
        "xywh": (x1, y1, x2 - x1, y2 - y1),
        "cxcywh": ((x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1),
    }
    return torch.stack(columns[box_format], dim=1)


def scenes(seed: int, count: int = 5) -> tuple[list[Any], list[Any]]:
    """Corners in whole pixels of images of 64 x 128 or 32 x 256, so that fractions are exact."""
    rng = torch.Generator().manual_seed(seed)
    found, true = [], []
    for image in range(count):
        corner = torch.randint(0, 12, (6, 2), generator=rng)
        rows = torch.cat([corner, corner + torch.randint(8, 20, (6, 2), generator=rng)], 1).float()
        labels = torch.randint(0, 2, (6,), generator=rng)
        scores = torch.randint(0, 9, (6,), generator=rng) / 8
        size = (64, 128) if image % 2 else (32, 256)
        found.append({"boxes": rows, "scores": scores, "labels": labels})
        near = rows[: image + 1] + torch.randint(-1, 2, (image + 1, 4), generator=rng)
        true.append({"boxes": near, "labels": labels[: image + 1], "image_size": size})
    return found, true


def changed(images: list[Any], box_format: str, sizes: list[tuple[int, int]]) -> list[Any]:
    """The boxes of all images in another format, also in fractions."""
    pixels = box_format.removesuffix("n")
    out = []
    for rows, (height, width) in zip(images, sizes, strict=True):
        boxes = of_format(rows["boxes"], pixels)
        if pixels != box_format:
            boxes /= torch.tensor([width, height, width, height])
        out.append(rows | {"boxes": boxes.float()})
    return out


@pytest.mark.parametrize("of_targets", ALL_FORMATS)
@pytest.mark.parametrize("of_predictions", ALL_FORMATS)
def test_each_side_has_a_format_of_its_own(of_predictions: str, of_targets: str) -> None:
    found, true = scenes(3)
    sizes = [rows["image_size"] for rows in true]
    wanted = reference.evaluate(COCO, found, true, num_classes=2)
    metric = DetectionAP(COCO, num_classes=2, box_format=(of_predictions, of_targets))
    metric.update(changed(found, of_predictions, sizes), changed(true, of_targets, sizes))
    assert repr(metric.compute().to_dict()) == repr(wanted.to_dict())
    assert 0.1 < wanted.headline < 0.9


@pytest.mark.parametrize("pixels", FORMATS)
@pytest.mark.parametrize("seed", range(5))
def test_fractions_are_multiplied_exactly(pixels: str, seed: int) -> None:
    """Of float32 fractions the pixels are rational numbers, which the reference is given."""
    problem = random_problem(seed, COCO, pixels)
    found, true = problem.detections, problem.ground_truths
    sizes = [(331 + 7 * i, 517 + 13 * i) for i in range(len(true))]
    fractions, exact = [], []
    for side in (found, true):
        small, large = [], []
        for rows, (height, width) in zip(side, sizes, strict=True):
            sides = torch.tensor([width, height, width, height])
            boxes = rows["boxes"].reshape(-1, 4)
            part = (boxes.double() / sides).float()
            products = [
                [
                    float(Fraction(value) * size)
                    for value, size in zip(row, sides.tolist(), strict=True)
                ]
                for row in part.tolist()
            ]
            small.append(rows | {"boxes": part})
            large.append(rows | {"boxes": torch.tensor(products, dtype=torch.float64)})
        fractions.append(small)
        exact.append(large)
    true_with_sizes = [r | {"image_size": s} for r, s in zip(fractions[1], sizes, strict=True)]
    options = problem.kwargs | {"box_format": f"{pixels}n"}
    metric = DetectionAP(COCO, **options).update(fractions[0], true_with_sizes)
    wanted = reference.evaluate(COCO, *exact, **problem.kwargs)
    assert repr(metric.compute().to_dict()) == repr(wanted.to_dict())


def test_packed_and_dense_fractions() -> None:
    """What a DETR gives: dense boxes; sizes as a tensor."""
    found, true = scenes(1)
    sizes = [rows["image_size"] for rows in true]
    wanted = repr(DetectionAP(COCO, num_classes=2).update(found, true).compute().to_dict())
    found, true = changed(found, "cxcywhn", sizes), changed(true, "cxcywhn", sizes)
    dense = {key: torch.stack([rows[key] for rows in found]) for key in found[0]}
    packed = {key: torch.cat([rows[key] for rows in true]) for key in ("boxes", "labels")}
    packed |= {"counts": [len(rows["labels"]) for rows in true]}
    for given in (sizes, torch.tensor(sizes)):
        metric = DetectionAP(COCO, num_classes=2, box_format="cxcywhn")
        metric.update(dense, packed | {"image_size": given})
        assert repr(metric.compute().to_dict()) == wanted


def test_fractions_do_not_wait_for_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded, "fault_on_host", lambda batch: None)
    with fake_cuda():
        found, true = scenes(1)
        found = [{k: torch.empty_like(v, device="cuda") for k, v in r.items()} for r in found]
        metric = DetectionAP(COCO, num_classes=2, box_format="cxcywhn").update(found, true)
        boxes = metric._accumulated.pending[0].detections.boxes
        assert (boxes.device.type, boxes.dtype) == ("cuda", torch.float64)


def test_in_pixels_by_hand() -> None:
    boxes = torch.tensor([[0.5, 0.25, 0.1, 0.2], [1.0, 1.0, 0.5, 0.5], [0.5, 0.5, 1.0, 1.0]])
    pixels = in_pixels(boxes, [1, 0, 2], "cxcywhn", [(10, 20), (5, 5), (100, 200)])
    tenth, fifth = float(torch.tensor(0.1)), float(torch.tensor(0.2))
    assert pixels.tolist() == [
        [10.0, 2.5, 20 * tenth, 10 * fifth],
        [200.0, 100.0, 100.0, 50.0],
        [100.0, 50.0, 200.0, 100.0],
    ]
    assert in_pixels(boxes, [3], "cxcywh", None) is boxes
    assert in_pixels(boxes[:0], [0], "xyxyn", None).shape == (0, 4)


def test_the_size_of_the_image_is_needed() -> None:
    metric = DetectionAP(COCO, num_classes=2, box_format=("xyxyn", "xyxy"))
    rows = {"boxes": torch.tensor([[0.1, 0.1, 0.2, 0.2]]), "labels": [0]}
    with pytest.raises(InputError, match=r"key 'image_size': boxes are fractions .*\(xyxyn\)"):
        metric.update([rows | {"scores": [0.9]}], [rows])
    metric.update([None], [rows])
    assert metric.num_images == 1


def test_pixels_are_no_fractions() -> None:
    metric = DetectionAP(COCO, num_classes=2, box_format="xyxyn")
    inside = {"boxes": torch.tensor([[0.1, 0.1, 1.2, 0.2]]), "labels": [0]}
    size = {"image_size": (30, 30)}
    metric.update([inside | {"scores": [0.9]}], [inside | size])
    pixels = {
        "boxes": torch.tensor([[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 20.0, 2.0]]),
        "labels": [0, 0],
    }
    with pytest.raises(InputError, match="target 0, row 1: the box is no fraction of the image"):
        metric.update([None], [pixels | size])
    assert metric.num_images == 1


def test_boxes_of_torchvision_say_their_own_format() -> None:
    tv_tensors = pytest.importorskip(
        "torchvision.tv_tensors", reason="torchvision is not installed"
    )
    found, true = scenes(2)
    for rows in found:
        rows["boxes"] = tv_tensors.BoundingBoxes(
            of_format(rows["boxes"], "xywh"), format="XYWH", canvas_size=(64, 64)
        )
    sizes = [rows["image_size"] for rows in true]
    wanted = repr(reference.evaluate(COCO, *scenes(2), num_classes=2).to_dict())
    metric = DetectionAP(COCO, num_classes=2, box_format="cxcywhn")
    metric.update(found, changed(true, "cxcywhn", sizes))
    assert repr(metric.compute().to_dict()) == wanted


def test_visible_boxes_are_fractions_too() -> None:
    box = torch.tensor([[0.25, 0.25, 0.25, 0.5]])
    target = {"boxes": box, "visible_boxes": box * torch.tensor([1, 1, 1, 0.3]), "labels": [0]}
    target |= {"image_size": (400, 800)}
    metric = LogAverageMissRate("caltech2012", box_format="xywhn").update([None], [target])
    pixels = {"boxes": torch.tensor([[200.0, 100.0, 200.0, 200.0]]), "labels": [0]}
    pixels |= {"visible_boxes": pixels["boxes"] * torch.tensor([1, 1, 1, 0.3])}
    wanted = LogAverageMissRate("caltech2012", box_format="xywh").update([None], [pixels])
    counts = metric.compute().num_positives.tolist()
    assert counts == wanted.compute().num_positives.tolist()
    assert counts[:2] == [0, 1]  # hidden too much for "Reasonable", not for "All"


def test_formats_that_there_are() -> None:
    assert read_box_formats("xywhn") == ("xywhn", "xywhn")
    assert read_box_formats(["xyxy", "cxcywh"]) == ("xyxy", "cxcywh")
    for wrong in ("xyx", "XYXY", None, 3, (), ("xyxy",), ("xyxy", "xyxy", "xyxy"), ("xyxy", None)):
        with pytest.raises(InputError, match=r"box_format: must be one of xyxy, .*cxcywhn, or"):
            read_box_formats(wrong)  # type: ignore[arg-type]
