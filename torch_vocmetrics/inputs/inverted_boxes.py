"""Counts boxes that end before they begin, where a protocol takes them, as VOC's do.

Such boxes match nothing. A few are slips of a data set or a detector; many are x, y, width and
height that are read as corners.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from ..errors import warn
from ..ragged import Detections, GroundTruths
from .numbers import on_host

LEAST_BOXES = 20
LEAST_PART = 0.25
"""So many boxes must be inverted before it is said, and so large a part of the boxes of the batches
that have any."""


def num_inverted(detections: Detections, ground_truths: GroundTruths) -> Tensor | None:
    """Count the inverted boxes of a batch; waits for no device.

    Returns:
        [3] int64: inverted boxes of predictions and of targets, and all boxes; None where it is
        plain that none is inverted.
    """
    sides, counts = (detections, ground_truths), list[int | Tensor]()
    for side in sides:
        if on_host(side.boxes) and not _any_on_host(side):
            counts.append(0)
        else:
            far = side.boxes[:, 2:]
            near = side.boxes[:, :2] if side.box_format == "xyxy" else torch.zeros_like(far)
            counts.append((far < near).any(dim=1).sum())
    if not any(isinstance(count, Tensor) for count in counts):
        return None
    none = torch.zeros((), dtype=torch.int64, device=detections.boxes.device)
    numbers = (*counts, sum(side.boxes.shape[0] for side in sides))
    return torch.stack([none + number for number in numbers])


def _any_on_host(rows: Detections | GroundTruths) -> bool:
    """Whether any box is inverted; by NumPy, which is the faster on few rows."""
    boxes = rows.boxes.numpy()
    near = boxes[:, :2] if rows.box_format == "xyxy" else 0
    # A difference of huge coordinates would overflow.
    return bool(np.logical_or.reduce(boxes[:, 2:] < near, axis=None))


def warn_if_many(counts: Sequence[Tensor]) -> bool:
    """Say how many boxes are inverted, if they are many.

    Args:
        counts: on the host, those of batches that have any, see :func:`num_inverted`.

    Returns:
        Whether it was said.
    """
    found = [one for one in map(Tensor.tolist, counts) if one[0] or one[1]]
    predicted, true, boxes = map(sum, zip((0, 0, 0), *found, strict=True))
    if predicted + true < max(LEAST_BOXES, LEAST_PART * boxes):
        return False
    warn(
        f"{predicted:,} boxes of predictions and {true:,} of targets are inverted (they end before "
        "they begin): the protocol takes such boxes, which match nothing; box_format= says "
        "whether boxes are xyxy, xywh or cxcywh"
    )
    return True
