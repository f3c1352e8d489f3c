"""From per-image dicts to pedestrians: boxes in the shapes in which they are compared."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..errors import InputError
from ..protocols import MissRateProtocol
from .arithmetic import quotient
from .reading import (
    check_images,
    column,
    corners,
    plain,
    positions,
    read_flags,
    read_labels,
    same_length,
)


class Rect(NamedTuple):
    """Corners and sides; the area is the product of the sides."""

    x1: float
    y1: float
    x2: float
    y2: float
    width: float
    height: float

    @property
    def area(self) -> float:
        """Width times height."""
        return self.width * self.height


class Scored(NamedTuple):
    """A detection in the shape in which it is compared."""

    box: Rect
    score: float
    order: int


class Pedestrian(NamedTuple):
    """An object: as annotated, as compared where it counts, as compared where it is ignored."""

    box: Rect
    standard: Rect
    region: Rect
    ignored: bool
    visibility: float
    occlusion: int


class Picture(NamedTuple):
    """Detections and objects of one image."""

    detections: list[Scored]
    objects: list[Pedestrian]


def read_pictures(
    rules: MissRateProtocol,
    detections: Sequence[Mapping[str, Any]],
    ground_truths: Sequence[Mapping[str, Any]],
    classes: Mapping[int, int],
    box_format: str,
) -> list[Picture]:
    """Put the images in the order of their ids, or as listed where not all have one.

    Raises:
        InputError: naming the argument and the image.
    """
    check_images(detections, ground_truths, box_format)
    return [
        read_picture(rules, detections[i], ground_truths[i], classes, box_format, f"image {i}")
        for i in positions(ground_truths)
    ]


def read_picture(
    rules: MissRateProtocol,
    found: Mapping[str, Any],
    true: Mapping[str, Any],
    classes: Mapping[int, int],
    box_format: str,
    where: str,
) -> Picture:
    """Read one image."""
    size = None
    if rules.clipping == "image":
        if "image_size" not in true:
            raise InputError("boxes are clipped, which needs image_size", where=where)
        size = [float(side) for side in plain(true["image_size"])]
    boxes = [
        standardise(box, rules, "detections")
        for box in read_rects(found["boxes"], rules, box_format, size, where)
    ]
    scores = [float(score) for score in column(found, "scores")]
    order = [int(v) for v in column(found, "order")] if "order" in found else [0] * len(boxes)
    same_length(where, boxes=boxes, scores=scores, order=order)
    read_labels(found, classes, where)
    return Picture(
        [Scored(*row) for row in zip(boxes, scores, order, strict=True)],
        read_objects(rules, true, classes, box_format, size, where),
    )


def read_objects(
    rules: MissRateProtocol,
    true: Mapping[str, Any],
    classes: Mapping[int, int],
    box_format: str,
    size: list[float] | None,
    where: str,
) -> list[Pedestrian]:
    """Read the objects of one image with all that is said of them."""
    boxes = read_rects(true["boxes"], rules, box_format, size, where)
    read_labels(true, classes, where)
    none = [0] * len(boxes)
    ignore = read_flags(true, "ignore", len(boxes), where)
    occlusion = column(true, "occlusion") if "occlusion" in true else none
    visibility = [math.nan] * len(boxes)
    if "visible_boxes" in true:
        parts = read_rects(true["visible_boxes"], rules, box_format, None, where)
        same_length(where, boxes=boxes, visible_boxes=parts)
        visibility = [
            visible_fraction(part, box, rules) for part, box in zip(parts, boxes, strict=True)
        ]
    elif "visibility" in true:
        visibility = [float(value) for value in column(true, "visibility")]
        visibility = [rules.unoccluded_visibility if math.isnan(v) else v for v in visibility]
    else:
        visibility = [rules.unoccluded_visibility] * len(boxes)
    same_length(where, boxes=boxes, ignore=ignore, occlusion=occlusion, visibility=visibility)
    return [
        Pedestrian(
            box,
            standardise(box, rules, "objects"),
            standardise(box, rules, "ignored_objects"),
            ignore[i],
            visibility[i],
            int(occlusion[i]),
        )
        for i, box in enumerate(boxes)
    ]


def visible_fraction(part: Rect, box: Rect, rules: MissRateProtocol) -> float:
    """Area of the visible box over that of the whole.

    Source: dbEval.m loadGt, where a visible box of zeros means that nothing is hidden.
    """
    nothing = not any((part.x1, part.y1, part.width, part.height))
    if nothing and rules.zero_visible_box == "unoccluded":
        return rules.unoccluded_visibility
    return quotient(part.area, box.area)


def read_rects(
    values: Any,
    rules: MissRateProtocol,
    box_format: str,
    size: list[float] | None,
    where: str,
) -> list[Rect]:
    """Boxes of one image, clipped to ``size`` (height, width) where that is given."""
    rows = corners(values, where)
    rects = [read_rect(row, box_format) for row in rows]
    inverted = any(rect.width < 0 or rect.height < 0 for rect in rects)
    if rules.inverted_boxes == "error" and inverted:
        raise InputError("a box must not end before it begins", where=where, got=rows)
    return rects if size is None else [clip(rect, *size) for rect in rects]


def read_rect(row: list[float], box_format: str) -> Rect:
    """One box without a conversion there and back.

    Source: bbGt.m compOas: corners x + w, areas w * h.
    """
    a, b, c, d = row
    if box_format == "xyxy":
        return Rect(a, b, c, d, c - a, d - b)
    if box_format == "xywh":
        return Rect(a, b, a + c, b + d, c, d)
    return Rect(a - c / 2, b - d / 2, a + c / 2, b + d / 2, c, d)


def clip(rect: Rect, height: float, width: float) -> Rect:
    """Near corners go to [0, size - 1], far ones to [0, size].

    Source: CrowdDet lib/evaluate, image.py clip_all_boader.
    """
    x1, y1 = min(max(rect.x1, 0), width - 1), min(max(rect.y1, 0), height - 1)
    x2, y2 = min(max(rect.x2, 0), width), min(max(rect.y2, 0), height)
    return Rect(x1, y1, x2, y2, x2 - x1, y2 - y1)


def standardise(rect: Rect, rules: MissRateProtocol, what: str) -> Rect:
    """Give a box the standard width about its centre, if the protocol does so to its kind.

    Source: bbApply.m resize(bb, 1, 0, ratio), whose order of operations decides the last bit.
    """
    if what not in rules.standardised:
        return rect
    more = rect.height * rules.standard_aspect_ratio - rect.width
    x1, width = rect.x1 - more / 2, rect.width + more
    return Rect(x1, rect.y1, x1 + width, rect.y2, width, rect.height)
