"""Notices results whose ``bbox`` are corners, where COCO means x, y, width and height.

Read so, boxes reach beyond their images, and all of them lie inside as corners. No box is refused
for it: the numbers would only be poor, without a word why.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..errors import warn
from .tables import Floats, Integers

LEAST_BOXES = 10
"""So few boxes prove nothing."""
LEAST_BEYOND = 0.2
"""Of corners read as sizes, so large a part at least reaches beyond the image."""
LEAST_INSIDE = 0.98
"""As corners, so large a part at least lies in the image; the rest are the detector's mistakes."""
TOLERANCE = 2.0
"""Boxes of detectors reach a little beyond the image, in pixels."""


def warn_of_corners(
    path: Path,
    boxes: Floats,
    image_index: Integers,
    sizes: Sequence[tuple[int, int] | None],
) -> None:
    """Warn if boxes must be corners.

    Args:
        path: of the results.
        boxes: [N, 4] as the file has them.
        image_index: [N] the image of each box.
        sizes: (height, width) of each image, None where unknown.

    Warns:
        VocMetricsWarning: that the boxes are read as x, y, width and height.
    """
    if boxes.shape[0] < LEAST_BOXES:
        return
    unknown = (np.nan, np.nan)
    by_image = np.array([unknown if one is None else one[::-1] for one in sizes], np.float64)
    limits = by_image[image_index] + TOLERANCE
    known = ~np.isnan(limits[:, 0])
    near, far = boxes[known, :2], boxes[known, 2:]
    beyond = (near + far > limits[known]).any(axis=1)
    inside = ((far >= near) & (far <= limits[known])).all(axis=1)
    number, total = int(beyond.sum()), int(known.sum())
    if number >= max(LEAST_BEYOND * total, 1) and inside.mean() >= LEAST_INSIDE:
        warn(
            f"{path}: {number:,} of {total:,} boxes reach beyond their image as x, y, width, "
            "height, as COCO's bbox is read, and lie in it as x1, y1, x2, y2: write width and "
            "height, or give the metric box_format='xyxy'"
        )
