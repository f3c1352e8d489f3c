"""Geometry of the Caltech toolbox: boxes [N, >= 4] of left, top, width, height, and what follows.

The order of operations is the toolbox's, since it decides the last bit of a result.

Source: Piotr's toolbox, detector/bbApply.m.
"""

from __future__ import annotations

import math

import numpy as np
from torch import Tensor

from ..errors import InputError
from .tables import Floats


def resize(boxes: Floats, height: float, width: float, ratio: float = 0.0) -> Floats:
    """Scale boxes about their centres.

    Args:
        boxes: [N, >= 4].
        height, width: factors; 0 takes the side from the other one and ``ratio``, both 0 keep the
            area.
        ratio: width over height, used where a factor is 0.

    Raises:
        InputError: if a factor is 0 and no ratio is given.
    """
    if not ((height > 0 and width > 0) or ratio > 0):
        raise InputError("a factor of 0 needs a ratio", where="resize", got=(height, width, ratio))
    boxes = np.array(boxes, np.float64)
    if height == 0 and width == 0:
        side, root = np.sqrt(boxes[:, 2] * boxes[:, 3]), math.sqrt(ratio)
        _grow(boxes, 0, side * root - boxes[:, 2])
        _grow(boxes, 1, side / root - boxes[:, 3])
        return boxes
    if height != 0:
        _grow(boxes, 1, (height - 1) * boxes[:, 3])
    if width != 0:
        _grow(boxes, 0, (width - 1) * boxes[:, 2])
    if height == 0:
        _grow(boxes, 1, boxes[:, 2] / ratio - boxes[:, 3])
    if width == 0:
        _grow(boxes, 0, boxes[:, 3] * ratio - boxes[:, 2])
    return boxes


def _grow(boxes: Floats, axis: int, more: Floats) -> None:
    """Make boxes wider (axis 0) or higher (1) by ``more`` [N], the centre kept."""
    boxes[:, axis] = boxes[:, axis] - more / 2
    boxes[:, axis + 2] = boxes[:, axis + 2] + more


def squarify(boxes: Floats, how: int, ratio: float = 1.0) -> Floats:
    """Give all boxes one ratio of width to height, about their centres.

    Args:
        boxes: [N, >= 4].
        how: 0 grows them, 1 shrinks them, 2 keeps the width, 3 the height, 4 the area. A box that
            has the ratio already keeps its height under 0 and 1.
        ratio: width over height.

    Raises:
        InputError: if ``how`` is none of these.
    """
    if how not in range(5):
        raise InputError("must be 0, 1, 2, 3 or 4", where="squarify", got=how)
    if how == 4:
        return resize(boxes, 0, 0, ratio)
    boxes = np.array(boxes, np.float64)
    wide, narrow = boxes[:, 2] > boxes[:, 3] * ratio, boxes[:, 2] < boxes[:, 3] * ratio
    keeps_width = {0: wide, 1: narrow, 2: np.ones_like(wide), 3: np.zeros_like(wide)}[how]
    boxes[keeps_width] = resize(boxes[keeps_width], 0, 1, ratio)
    boxes[~keeps_width] = resize(boxes[~keeps_width], 1, 0, ratio)
    return boxes


def scale_height(boxes: Tensor, factor: float, box_format: str = "xyxy") -> Tensor:
    """Scale the height of boxes about their centres, as for detectors that frame with a margin.

    Caltech's evaluation multiplies the height by 100/128 for such detectors and then gives all
    boxes the standard width; this is the first step, the second is the protocol's.

    Args:
        boxes: [N, 4] tensor.
        factor: for example 100 / 128.
        box_format: ``"xyxy"``, ``"xywh"`` or ``"cxcywh"``.

    Source: dbEval.m loadDt, where an algorithm is flagged ``resize``.

    Example:
        >>> import torch
        >>> scale_height(torch.tensor([[0.0, 0.0, 41.0, 128.0]]), 100 / 128, "xywh").tolist()
        [[0.0, 14.0, 41.0, 100.0]]
    """
    boxes = boxes.clone()
    if box_format == "xyxy":
        more = (factor - 1) * (boxes[:, 3] - boxes[:, 1])
        boxes[:, 1] -= more / 2
        boxes[:, 3] += more / 2
        return boxes
    more = (factor - 1) * boxes[:, 3]
    if box_format == "xywh":
        boxes[:, 1] -= more / 2
    boxes[:, 3] += more
    return boxes


def intersect(first: Floats, second: Floats) -> Floats:
    """Intersections [N, 4], zeros where boxes do not meet; one box on a side goes with all.

    Boxes that touch give a box without width or height. Without boxes on either side N is 0.
    """
    first, second = _paired(first, second)
    low = np.maximum(first[:, :2], second[:, :2])
    high = np.minimum(first[:, :2] + first[:, 2:4], second[:, :2] + second[:, 2:4])
    boxes = np.concatenate([low, high - low], axis=1)
    return np.where((high < low).any(axis=1, keepdims=True), 0.0, boxes)


def union(first: Floats, second: Floats) -> Floats:
    """The smallest boxes [N, 4] that hold both; one box on a side goes with all.

    Without boxes on either side N is 0.
    """
    first, second = _paired(first, second)
    low = np.minimum(first[:, :2], second[:, :2])
    high = np.maximum(first[:, :2] + first[:, 2:4], second[:, :2] + second[:, 2:4])
    return np.concatenate([low, high - low], axis=1)


def _paired(first: Floats, second: Floats) -> tuple[Floats, Floats]:
    count = max(len(first), len(second)) if len(first) and len(second) else 0
    return (
        np.broadcast_to(np.asarray(first, np.float64)[:count, :4], (count, 4)),
        np.broadcast_to(np.asarray(second, np.float64)[:count, :4], (count, 4)),
    )


def area(boxes: Floats) -> Floats:
    """Width times height [N]."""
    boxes = np.asarray(boxes, np.float64)
    return np.asarray(boxes[:, 2] * boxes[:, 3])


def centre(boxes: Floats) -> Floats:
    """Centres [N, 2]."""
    boxes = np.asarray(boxes, np.float64)
    return np.asarray(boxes[:, :2] + boxes[:, 2:4] / 2)


def shift(boxes: Floats, right: float, down: float) -> Floats:
    """Move the origin of the coordinates: boxes move left and up by as much."""
    boxes = np.array(boxes, np.float64)
    boxes[:, 0] -= right
    boxes[:, 1] -= down
    return boxes
