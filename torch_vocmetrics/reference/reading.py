"""From per-image dicts to rows of Python floats, one at a time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from operator import index
from typing import Any, NamedTuple

import numpy as np

from ..errors import InputError
from ..limits import MAX_BOX_COORDINATE, MAX_CLASSES, MAX_IMAGE_ID
from ..protocols import FLAGS, DetectionProtocol, LayoutProtocol
from .masks import Mask, read_masks

BOX_FORMATS = ("xyxy", "xywh", "cxcywh")


BoxRules = DetectionProtocol | LayoutProtocol
"""Protocols that say how a box is to be read."""


class Box(NamedTuple):
    """Corners, and the area under the protocol's coordinates."""

    x1: float
    y1: float
    x2: float
    y2: float
    area: float


class Detection(NamedTuple):
    """A box with a score; among equal scores the smaller ``order`` comes first.

    The box has the area that the protocol ranges by; ``mask`` is None where boxes are compared.
    """

    box: Box
    score: float
    order: int
    mask: Mask | None = None


class GroundTruth(NamedTuple):
    """An object, and what the protocol makes of its flags."""

    box: Box
    area: float
    ignored: bool
    reusable: bool
    over_detection_area: bool
    mask: Mask | None = None


class Image(NamedTuple):
    """Detections and objects of one image: a list per class."""

    detections: list[list[Detection]]
    ground_truths: list[list[GroundTruth]]


def read_classes(
    num_classes: int | None, class_names: Sequence[str] | None, label_ids: Sequence[int] | None
) -> tuple[tuple[str, ...], dict[int, int]]:
    """Names of the K classes, and the class of each label.

    Raises:
        InputError: if nothing says how many classes there are, or two arguments disagree.
    """
    counts = [len(given) for given in (class_names, label_ids) if given is not None]
    counts += [] if num_classes is None else [whole(num_classes, "num_classes")]
    if not counts or min(counts) != max(counts) or not 1 <= counts[0] <= MAX_CLASSES:
        raise InputError(
            "num_classes, class_names and label_ids must agree on the number of classes, which is "
            f"from 1 to {MAX_CLASSES:,}",
            where="evaluate",
            got=counts or "none of them",
        )
    ids = (
        range(counts[0])
        if label_ids is None
        else [whole(value, "label_ids") for value in label_ids]
    )
    if len(set(ids)) != len(ids):
        raise InputError("two classes have the same label", where="label_ids", got=list(ids))
    names = map(str, range(counts[0])) if class_names is None else class_names
    return tuple(names), {label: k for k, label in enumerate(ids)}


def whole(value: object, where: str) -> int:
    """A value as an int; 1.2 is none."""
    try:
        return index(value)  # type: ignore[arg-type]
    except TypeError:
        raise InputError("must be integers", where=where, got=repr(value)) from None


def check_images(
    detections: Sequence[object], ground_truths: Sequence[object], box_format: str
) -> None:
    """Raise InputError unless both sides have as many images, in a known box format."""
    if box_format not in BOX_FORMATS:
        raise InputError(
            f"must be one of {', '.join(BOX_FORMATS)}", where="box_format", got=box_format
        )
    if len(detections) != len(ground_truths):
        raise InputError(
            "as many images are needed on both sides",
            where="evaluate",
            got=(len(detections), len(ground_truths)),
        )


def read_images(
    rules: DetectionProtocol,
    detections: Sequence[Mapping[str, Any]],
    ground_truths: Sequence[Mapping[str, Any]],
    classes: Mapping[int, int],
    box_format: str,
) -> list[Image]:
    """Put the images in the order of their ids, or as listed where not all have one.

    Raises:
        InputError: naming the argument and the image.
    """
    check_images(detections, ground_truths, box_format)
    with_order = {"order" in one for one in detections if column(one, "scores")}
    if len(with_order) > 1:
        raise InputError("order must be given for all images or for none", where="detections")
    return [
        Image(
            read_detections(
                {**detections[i], "image_size": ground_truths[i].get("image_size")},
                rules,
                classes,
                box_format,
                f"detections[{i}]",
            ),
            read_ground_truths(ground_truths[i], rules, classes, box_format, f"ground_truths[{i}]"),
        )
        for i in positions(ground_truths)
    ]


def positions(ground_truths: Sequence[Mapping[str, Any]]) -> list[int]:
    """Places in the list in the order of the image ids: integers by value, strings by letters.

    Raises:
        InputError: for ids of both kinds, or an id that comes twice.
    """
    if not all("image_id" in one for one in ground_truths):
        return list(range(len(ground_truths)))
    ids = [plain(one["image_id"]) for one in ground_truths]
    ids = [one[0] if isinstance(one, list) and len(one) == 1 else one for one in ids]
    kinds = {type(one) for one in ids}
    if len(kinds) > 1 or not kinds <= {int, str}:
        raise InputError("must be all int or all str", where="image_id", got=ids)
    if kinds == {int} and not all(-MAX_IMAGE_ID - 1 <= one <= MAX_IMAGE_ID for one in ids):
        raise InputError("must be integers of 64 bits or str", where="image_id", got=ids)
    if len(set(ids)) != len(ids):
        raise InputError(
            "an image comes twice",
            where="image_id",
            got=sorted({one for one in ids if ids.count(one) > 1}),
            remedy="pass each image once",
        )
    return sorted(range(len(ids)), key=lambda i: ids[i])


def read_detections(
    one: Mapping[str, Any],
    rules: DetectionProtocol,
    classes: Mapping[int, int],
    box_format: str,
    where: str,
) -> list[list[Detection]]:
    """Split the detections of one image by class, each class in the order given."""
    labels = read_labels(one, classes, where)
    masks = read_rows_masks(one, rules, len(labels), where)
    boxes = read_boxes(with_boxes(one, rules), rules, box_format, where)
    scores = [float(value) for value in column(one, "scores")]
    order = [int(value) for value in column(one, "order")] if "order" in one else [0] * len(boxes)
    same_length(where, boxes=boxes, labels=labels, scores=scores, order=order)
    if any(math.isnan(score) for score in scores):
        raise InputError("scores must not be NaN", where=where, got=scores)
    by_class: list[list[Detection]] = [[] for _ in classes]
    for box, score, label, place, mask in zip(boxes, scores, labels, order, masks, strict=True):
        ranged = box
        if mask is not None and rules.detection_area == "mask":
            ranged = box._replace(area=float(mask.sum()))
        by_class[label].append(Detection(ranged, score, place, mask))
    return by_class


def read_ground_truths(
    one: Mapping[str, Any],
    rules: DetectionProtocol,
    classes: Mapping[int, int],
    box_format: str,
    where: str,
) -> list[list[GroundTruth]]:
    """Split the objects of one image by class, each class in the order given."""
    labels = read_labels(one, classes, where)
    masks = read_rows_masks(one, rules, len(labels), where)
    boxes = read_boxes(with_boxes(one, rules), rules, box_format, where)
    areas = [float(value) for value in column(one, "area")] if "area" in one else None
    areas = [math.nan] * len(boxes) if areas is None else areas
    flags = {flag: read_flags(one, flag, len(boxes), where) for flag in FLAGS}
    same_length(where, boxes=boxes, labels=labels, area=areas, **flags)
    by_class: list[list[GroundTruth]] = [[] for _ in classes]
    for i, (box, label, area, mask) in enumerate(zip(boxes, labels, areas, masks, strict=True)):
        own = box.area if mask is None else float(mask.sum())
        raised = {flag for flag in FLAGS if flags[flag][i]}
        by_class[label].append(
            GroundTruth(
                box,
                own if math.isnan(area) else area,
                ignored=not raised.isdisjoint(rules.ignored_flags),
                reusable=not raised.isdisjoint(rules.reusable_flags),
                over_detection_area=not raised.isdisjoint(rules.overlap_of_detection_area_flags),
                mask=mask,
            )
        )
    return by_class


def read_flags(one: Mapping[str, Any], key: str, count: int, where: str) -> list[bool]:
    """Flags of one image; all are off where the key is missing."""
    flags = column(one, key) if key in one else [0] * count
    if not all(flag in (0, 1) for flag in flags):
        raise InputError("flags must be 0 or 1", where=f"{where}, key {key!r}", got=flags)
    return [bool(flag) for flag in flags]


def read_rows_masks(
    one: Mapping[str, Any], rules: DetectionProtocol, count: int, where: str
) -> Sequence[Mask | None]:
    """Masks where the protocol compares them, else None for each row."""
    return read_masks(one, count, where) if rules.overlap_of == "masks" else [None] * count


def with_boxes(one: Mapping[str, Any], rules: DetectionProtocol) -> Mapping[str, Any]:
    """Rows with boxes, which may be missing where nothing is read off them."""
    if "boxes" in one or rules.overlap_of == "boxes" or rules.detection_area == "box":
        return one
    return {**one, "boxes": [[0.0] * 4 for _ in column(one, "labels")]}


def read_boxes(one: Mapping[str, Any], rules: BoxRules, box_format: str, where: str) -> list[Box]:
    """Boxes of one image, without a conversion there and back."""
    return [read_box(row, rules, box_format, where) for row in corners(one["boxes"], where)]


def corners(values: Any, where: str) -> list[list[float]]:
    """Four numbers for each box, in whichever format."""
    rows = np.asarray(plain(values), dtype=np.float64)
    rows = rows.reshape(0, 4) if rows.size == 0 else rows
    if rows.ndim != 2 or rows.shape[1] != 4:
        raise InputError("boxes must be [N, 4]", where=where, got=rows.shape)
    if not (np.abs(rows) <= MAX_BOX_COORDINATE).all():
        raise InputError(
            f"boxes must be finite and within {MAX_BOX_COORDINATE:.1e}",
            where=where,
            got=rows.tolist(),
        )
    found: list[list[float]] = rows.tolist()
    return found


def read_box(row: list[float], rules: BoxRules, box_format: str, where: str) -> Box:
    """Corners and area: of w and h where those are given, else of the corners.

    Source: maskApi.c bbIou (area w * h, corners x + w); VOCevaldet.m (areas of corners, + 1).
    """
    first, second, third, fourth = row
    if box_format == "xyxy":
        corners, width, height = (first, second, third, fourth), third - first, fourth - second
    elif box_format == "xywh":
        corners, width, height = (first, second, first + third, second + fourth), third, fourth
    else:
        left, top = first - third / 2, second - fourth / 2
        corners = (left, top, first + third / 2, second + fourth / 2)
        width, height = third, fourth
    if rules.inverted_boxes == "error" and (width < 0 or height < 0):
        raise InputError("a box must not end before it begins", where=where, got=row)
    if rules.coordinates == "inclusive_pixels":
        x1, y1, x2, y2 = corners
        return Box(*corners, area=(x2 - x1 + 1) * (y2 - y1 + 1))
    return Box(*corners, area=width * height)


def read_labels(one: Mapping[str, Any], classes: Mapping[int, int], where: str) -> list[int]:
    """Translate labels into classes, 0 .. K - 1."""
    labels = column(one, "labels")
    for label in labels:
        if label not in classes:
            raise InputError(
                "unknown label", where=where, got=label, remedy=f"known: {list(classes)}"
            )
    return [classes[label] for label in labels]


def same_length(where: str, **columns: Sequence[Any]) -> None:
    """Raise InputError unless all columns have one length."""
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise InputError("rows must be as many everywhere", where=where, got=lengths)


def column(one: Mapping[str, Any], key: str) -> list[Any]:
    """Take a flat list of Python numbers."""
    values = np.asarray(plain(one[key]))
    if values.ndim != 1:
        raise InputError("must have one dimension", where=key, got=values.shape)
    return list(values.tolist())


def plain(value: Any) -> Any:
    """Turn a tensor (of any type, on any device), an array or a list into lists of numbers."""
    return value.tolist() if hasattr(value, "tolist") else value
