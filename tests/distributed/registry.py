"""Every metric once, with generated images; each law and each test of ranks runs over all.

A new metric gets a line in ``SUBJECTS``: a factory and a function that makes the arguments of one
``update`` of one image, with or without an id.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torch_vocmetrics import (
    ClassificationAP,
    DetectionAP,
    LayoutAP,
    LogAverageMissRate,
    MaskQuality,
    MeanIoU,
    Metric,
    load_protocol,
)

Image = tuple[Any, ...]
"""Arguments of ``update`` for one image."""


class Subject(NamedTuple):
    """A metric, what it takes, and what ranks may disagree about.

    Attributes:
        new: gives a metric.
        image: arguments of ``update`` for image number i; with ids if asked.
        other_rules: gives a metric that no state of ``new`` may be mixed with.
        other_truth: arguments for the same image with other ground truth.
        noisy: arguments for the same image with other predictions.
    """

    new: Callable[[], Metric]
    image: Callable[..., Image]
    other_rules: Callable[[], Metric]
    other_truth: Callable[[int], Image]
    noisy: Callable[[int], Image]


def images(subject: Subject, count: int, *, ids: bool) -> list[Image]:
    return [subject.image(number, ids=ids) for number in range(count)]


def _rng(number: int) -> torch.Generator:
    return torch.Generator().manual_seed(number)


def _whole(low: int, high: int, shape: tuple[int, ...], rng: torch.Generator) -> Tensor:
    return torch.randint(low, high, shape, generator=rng)


def _boxes(count: int, rng: torch.Generator) -> Tensor:
    corner = _whole(0, 20, (count, 2), rng).float()
    return torch.cat([corner, corner + _whole(4, 30, (count, 2), rng)], 1)


def _name(number: int) -> int:
    """Ids that do not rise with the number of the image."""
    return (number * 7) % 101


def _detections(
    number: int, *, ids: bool = True, truth: int = 0, noise: float = 0.0, wide: bool = False
) -> Image:
    """Crowded boxes of two classes and few distinct scores; some images are empty."""
    rng = _rng(number)
    n, m = (int(_whole(0, 9, (1,), rng)) if number % 4 else number % 8 for _ in range(2))
    scores = _whole(0, 5, (n,), rng) / 4
    found = {
        "boxes": _boxes(n, rng),
        "scores": (scores.double() if wide else scores) + noise,
        "labels": _whole(0, 2, (n,), rng),
    }
    true = {
        "boxes": _boxes(m, rng),
        "labels": (_whole(0, 2, (m,), rng) + truth) % 2,
        "difficult": torch.rand(m, generator=rng) < 0.2,
        "iscrowd": torch.rand(m, generator=rng) < 0.2,
    }
    return [found], [true | ({"image_id": _name(number)} if ids else {})]


def _found(
    number: int, *, ids: bool = True, truth: int = 0, noise: float = 0.0, order: bool = False
) -> Image:
    """Objects of five classes, most of which are found, some twice, with many ties of score."""
    rng = _rng(number)
    m = int(_whole(0, 7, (1,), rng)) if number % 5 else 0
    boxes, labels = _boxes(m, rng), _whole(0, 5, (m,), rng)
    rows = _whole(0, max(m, 1), (2 * m,), rng)
    found = {
        "boxes": boxes[rows] + _whole(-2, 3, (2 * m, 4), rng),
        "scores": _whole(0, 4, (2 * m,), rng) / 4 + noise,
        "labels": (labels[rows] + (torch.rand(2 * m, generator=rng) < 0.2)) % 5,
    }
    if order:
        found["order"] = 1000 - 20 * number - torch.arange(2 * m)
    true = {"boxes": boxes, "labels": (labels + truth) % 5, "iscrowd": labels == 3}
    return [found], [true | ({"image_id": f"img{_name(number)}"} if ids else {})]


def _ordered(number: int, **options: Any) -> Image:
    """Detections with the line of a results file, and ids that are text."""
    (found,), (true,) = _detections(number, **options)
    lines = torch.arange(len(found["labels"])) * 50 + number
    if "image_id" in true:
        true["image_id"] = f"img{true['image_id']}"
    return [found | {"order": lines}], [true]


def _masked_side(boxes: Tensor) -> Tensor:
    """[N, 52, 52] bool: masks that fill whole boxes."""
    rows = torch.arange(52)
    x1, y1, x2, y2 = boxes.long().T[..., None]
    return ((rows >= y1) & (rows < y2))[:, :, None] & ((rows >= x1) & (rows < x2))[:, None]


def _masked(number: int, **options: Any) -> Image:
    (found,), (true,) = _detections(number, **options)
    for side in (found, true):
        side["masks"] = _masked_side(side.pop("boxes"))
    true.pop("difficult")
    return [found], [true]


def _boxed_masks(number: int, **options: Any) -> Image:
    """Boxes beside masks that are some columns narrower."""
    sides = [rows[0] for rows in _detections(number, **options)]
    for side in sides:
        side["masks"] = _masked_side(side["boxes"] - torch.tensor([0, 0, number % 3, 0]))
    sides[1].pop("difficult")
    return [sides[0]], [sides[1]]


def _pedestrians(number: int, *, ids: bool = True, truth: int = 0, noise: float = 0.0) -> Image:
    rng = _rng(number)
    n, m = (int(_whole(0, 8, (1,), rng)) if number % 5 else 0 for _ in range(2))

    def tall(count: int) -> Tensor:
        corner = _whole(0, 60, (count, 2), rng).float()
        size = torch.tensor([[41.0, 100.0]]) * _whole(3, 6, (count, 1), rng) / 4
        return torch.cat([corner, corner + size], 1)

    found = {
        "boxes": tall(n),
        "scores": _whole(0, 9, (n,), rng) / 8 + noise,
        "labels": torch.zeros(n, dtype=torch.int64),
    }
    true = {
        "boxes": tall(m),
        "labels": torch.zeros(m, dtype=torch.int64),
        "ignore": torch.rand(m, generator=rng) < (0.9 if truth else 0.2),
        "image_size": (300, 300),
    }
    return [found], [true | ({"image_id": _name(number)} if ids else {})]


def _scores(
    number: int, *, ids: bool = True, truth: int = 0, noise: float = 0.0, pairs: bool = False
) -> Image:
    rng = _rng(number)
    scores = _whole(0, 4, (1, 3), rng).float() / 4 + noise
    if number == 2:
        scores[0, 1] = -torch.inf
    targets = _whole(-1, 2, (1, 3), rng)
    name: Any = (f"img{_name(number) // 2}", number % 2) if pairs else _name(number)
    return (
        scores,
        targets if not truth else -targets - (targets == 0).long(),
        [name] if ids else None,
    )


def _layouts(
    number: int, *, ids: bool = True, truth: int = 0, noise: float = 0.0, given: bool = True
) -> Image:
    """Persons with a head, a hand and a foot, and layouts some pixels off.

    Other truth is one person more: match records keep no boxes, only how many objects there are.
    """
    rng = _rng(number)
    m = int(_whole(0, 4, (1,), rng))
    n = int(_whole(0, 3, (1,), rng)) + m if m else 0
    who = _whole(0, max(m, 1), (n,), rng)
    m += truth
    index = torch.arange(m) + 1
    parts = torch.tensor([[40.0, 1, 60, 30], [1, 120, 20, 140], [20, 270, 40, 299]])
    true_parts = parts.repeat(m, 1, 1) + 10 * torch.arange(m)[:, None, None]
    found_parts = true_parts[who] + _whole(-9, 10, (n, 3, 4), rng)
    boxes = torch.tensor([[1.0, 1, 100, 300]]).repeat(m, 1) + 150 * torch.arange(m)[:, None]
    sides = []
    for rows, count, place, name in ((found_parts, n, boxes[who], who + 1),
                                     (true_parts, m, boxes, index)):  # fmt: skip
        where = {"object_index": name} if given else {"boxes": place}
        sides.append(
            where
            | {
                "part_boxes": rows.reshape(-1, 4),
                "part_labels": torch.tensor([0, 1, 2]).repeat(count),
                "part_counts": torch.full((count,), 3),
            }
        )
    sides[0]["scores"] = _whole(0, 4, (n,), rng) / 4 + noise
    return [sides[0]], [sides[1] | ({"image_id": _name(number)} if ids else {})]


def _maps(number: int, *, ids: bool = True, truth: int = 0, noise: float = 0.0) -> Image:
    rng = _rng(number)
    size = (1, 6 + number % 3, 8)
    predicted, true = _whole(0, 3, size, rng), _whole(0, 3, size, rng)
    true[0, 0, : number % 4] = 255
    true = torch.where(true == 255, true, (true + truth) % 3)
    if noise:
        predicted = (predicted + 1) % 3
    return list(predicted), list(true), [_name(number)] if ids else None


def subject(
    new: Callable[[], Metric], image: Callable[..., Image], other_rules: Callable[[], Metric]
) -> Subject:
    return Subject(new, image, other_rules, partial(image, truth=1), partial(image, noise=0.0625))


TWO = {"class_names": ["a", "b"]}
AREAS = dataclasses.replace(
    load_protocol("segmentation/voc2012"), void_predictions="miss", name="voc2012_missed"
)
AGNOSTIC = dataclasses.replace(load_protocol("coco2017"), class_agnostic=True, name="agnostic")

SUBJECTS: dict[str, Subject] = {
    "detection": subject(
        partial(DetectionAP, ["voc2007", "voc2012", "coco2017"], **TWO),
        _detections,
        partial(DetectionAP, ["voc2007", "voc2010", "coco2017"], class_names=["a", "c"]),
    ),
    "detection_float64": subject(
        partial(DetectionAP, "coco2017", **TWO),
        partial(_detections, wide=True),
        partial(DetectionAP, "voc2007", **TWO),
    ),
    "detection_found": subject(
        partial(DetectionAP, ["coco2017", "voc2012"], num_classes=5, label_ids=range(5)),
        _found,
        partial(DetectionAP, ["coco2017", "voc2012"], num_classes=6),
    ),
    "detection_file_order": subject(
        partial(DetectionAP, "voc2006", **TWO), _ordered, partial(DetectionAP, "voc2007", **TWO)
    ),
    "detection_class_agnostic": subject(
        partial(DetectionAP, ["coco2017", AGNOSTIC], **TWO),
        _detections,
        partial(DetectionAP, "coco2017", **TWO),
    ),
    "detection_masks": subject(
        partial(DetectionAP, "coco2017_segm", **TWO),
        _masked,
        partial(DetectionAP, "coco2017", **TWO),
    ),
    "mask_quality": subject(
        partial(MaskQuality, **TWO), _boxed_masks, partial(MaskQuality, iou_threshold=0.6, **TWO)
    ),
    "miss_rate": subject(
        partial(LogAverageMissRate, "caltech2012"),
        _pedestrians,
        partial(LogAverageMissRate, "citypersons2017"),
    ),
    "crowdhuman": subject(
        partial(LogAverageMissRate, "crowdhuman2018"),
        _pedestrians,
        partial(LogAverageMissRate, "crowdhuman2018", class_name="head"),
    ),
    "classification": subject(
        partial(ClassificationAP, "voc2012", num_classes=3, target_format="signed"),
        _scores,
        partial(ClassificationAP, "voc2007", num_classes=3),
    ),
    "action": subject(
        partial(ClassificationAP, "action/voc2012", num_classes=3, target_format="signed"),
        partial(_scores, pairs=True),
        partial(ClassificationAP, "voc2012", num_classes=3),
    ),
    "layout_2007": subject(
        partial(LayoutAP, "voc2007"), partial(_layouts, given=False), partial(LayoutAP, "voc2008")
    ),
    "layout_2009": subject(partial(LayoutAP, "voc2009"), _layouts, partial(LayoutAP, "voc2010")),
    "layout_2012": subject(partial(LayoutAP, "voc2012"), _layouts, partial(LayoutAP, "voc2009")),
    "segmentation": subject(
        partial(MeanIoU, "voc2012", num_classes=3),
        _maps,
        partial(MeanIoU, AREAS, num_classes=3),
    ),
}  # fmt: skip
