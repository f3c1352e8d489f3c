"""VOC2007's evaluation as a plain Python loop over detections: what many projects copied."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchmarks.workloads import Packed

MIN_OVERLAP = 0.5
LEVELS = np.arange(0.0, 1.1, 0.1)

Floats = NDArray[np.float64]


def voc_loop(packed: Packed) -> list[float]:
    """The mean, then the 11-point average precision of every class."""
    found, true = packed.predictions, packed.targets
    rows = list(
        zip(
            found["labels"].tolist(),
            found["scores"].tolist(),
            found["order"].tolist(),
            np.repeat(np.arange(len(found["counts"])), found["counts"]).tolist(),
            found["boxes"].numpy(),
            strict=True,
        )
    )
    starts = np.cumsum(true["counts"])[:-1]
    columns = [np.split(true[key].numpy(), starts) for key in ("labels", "boxes", "difficult")]
    values = [
        _average_precision(
            [row for row in rows if row[0] == label],
            {
                image: (boxes[mine], difficult[mine])
                for image, (labels, boxes, difficult) in enumerate(zip(*columns, strict=True))
                if (mine := labels == label).any()
            },
        )
        for label in range(packed.num_classes)
    ]
    return [float(np.mean(values)), *values]


def _average_precision(
    rows: list[tuple[int, float, int, int, Floats]],
    objects: dict[int, tuple[Floats, NDArray[np.bool_]]],
) -> float:
    rows.sort(key=lambda row: (-row[1], row[2]))
    used = {image: np.zeros(len(hard), dtype=bool) for image, (_, hard) in objects.items()}
    positives = sum(int((~hard).sum()) for _, hard in objects.values())
    true, false = np.zeros(len(rows)), np.zeros(len(rows))
    for place, (_, _, _, image, box) in enumerate(rows):
        if image not in objects:
            false[place] = 1
            continue
        boxes, hard = objects[image]
        overlap = _overlaps(box, boxes)
        best = int(np.argmax(overlap))
        if overlap[best] < MIN_OVERLAP:
            false[place] = 1
        elif not hard[best]:
            (false if used[image][best] else true)[place] = 1
            used[image][best] = True
    with np.errstate(divide="ignore", invalid="ignore"):
        recall = np.cumsum(true) / positives
        precision = np.cumsum(true) / (np.cumsum(true) + np.cumsum(false))
    total = 0.0
    for level in LEVELS:
        reached = precision[recall >= level]
        total += (float(np.fmax.reduce(reached)) if reached.size else 0.0) / LEVELS.size
    return total


def _overlaps(box: Floats, boxes: Floats) -> Floats:
    """Intersection over union of one box with several; boxes include their last pixel."""
    low = np.maximum(box[:2], boxes[:, :2])
    high = np.minimum(box[2:], boxes[:, 2:])
    sides = np.maximum(high - low + 1, 0)
    inter = sides[:, 0] * sides[:, 1]
    own = (box[2] - box[0] + 1) * (box[3] - box[1] + 1)
    others = (boxes[:, 2] - boxes[:, 0] + 1) * (boxes[:, 3] - boxes[:, 1] + 1)
    return inter / (own + others - inter)
