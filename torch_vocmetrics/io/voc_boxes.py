"""How the corners of VOC's boxes and COCO's x, y, width, height stand for each other.

``vocmetrics convert`` copies corners: x = xmin, y = ymin, width = xmax - xmin and height = ymax -
ymin. So a box has the same corners in both files, and every protocol makes the same overlaps of
them: COCO's rules take corners as points, VOC's count the last pixel, whatever the file. The file
says so under ``info``. Files of version 0.1 do not; they have x = xmin - 1 and width = xmax - xmin
+ 1.

Sums and differences are taken in decimals, so that corners with decimals keep every bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

import numpy as np

from ..errors import warn
from .json_rows import Rows
from .plain_rows import PlainRows
from .tables import Floats
from .voc_objects import Box

CONVENTION_KEY = "box_convention"
CORNERS = "x = xmin, y = ymin, width = xmax - xmin, height = ymax - ymin"
PIXELS = "x = xmin - 1, y = ymin - 1, width = xmax - xmin + 1, height = ymax - ymin + 1"

KEYS_OF_CONVERT = ("difficult", "truncated", "occluded", "view")


def box_convention(info: Mapping[str, object], annotations: Rows | PlainRows) -> str:
    """The convention of a file that ``vocmetrics convert`` made; empty for other files.

    Args:
        info: what the file says under that key.
        annotations: of the file.
    """
    said = info.get(CONVENTION_KEY)
    if said in (CORNERS, PIXELS):
        return str(said)
    made_by_convert = all(annotations.has(key).all() for key in KEYS_OF_CONVERT)
    return PIXELS if made_by_convert and len(annotations) else ""


def box_reading(info: Mapping[str, object], annotations: Rows | PlainRows) -> str:
    """The convention by which rules that count the last pixel read the boxes of a file.

    Warns:
        VocMetricsWarning: how the boxes are read, if the file does not say it.
    """
    convention = box_convention(info, annotations)
    if CONVENTION_KEY not in info:
        words = f"as version 0.1 converted them, {PIXELS}" if convention else f"as {CORNERS}"
        warn(
            f"{annotations.path}: the protocol counts the last pixel of a box, and the file does "
            f"not say how its boxes stand for VOC's corners: they are read {words}"
        )
    return convention


def corners_of(boxes: Floats, reading: str) -> Floats:
    """VOC's corners [N, 4] of boxes [N, 4] x, y, width, height in one of the two conventions."""
    if not boxes.size or (boxes == np.floor(boxes)).all():
        near = boxes[:, :2] + (reading == PIXELS)
        return np.concatenate([near, boxes[:, :2] + boxes[:, 2:]], axis=1)
    return np.array([voc_box(box, reading) for box in boxes.tolist()], np.float64)


def voc_box(box: Sequence[float], reading: str = CORNERS) -> Box:
    """The inverse of :func:`coco_box`, or of that of version 0.1."""
    x, y, w, h = (Decimal(repr(float(value))) for value in box)
    shift = int(reading == PIXELS)
    return float(x + shift), float(y + shift), float(x + w), float(y + h)


def coco_box(box: Box) -> tuple[float, float, float, float]:
    """x, y, width and height of the corners xmin, ymin, xmax, ymax."""
    x1, y1, x2, y2 = (Decimal(repr(float(value))) for value in box)
    return _number(x1), _number(y1), _number(x2 - x1), _number(y2 - y1)


def _number(value: Decimal) -> float:
    """An int where the value is whole, as annotations are written."""
    return int(value) if value == int(value) else float(value)
