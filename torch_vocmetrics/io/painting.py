"""Segmentations painted from the boxes of a detector, as VOC's baseline."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..limits import MAX_PIXELS, MAX_TEXT_BYTES
from ..protocols import PAINTINGS
from .image_names import ImageIndex
from .tables import Floats
from .voc_results import read_results


class PaintedImage(NamedTuple):
    """Label images of one image.

    Attributes:
        image_id: which image.
        classes: [H, W] uint8, number of the class from 1, 0 for background.
        instances: [H, W] uint8, number of the detection in its image, from 1.
    """

    image_id: str
    classes: NDArray[np.uint8]
    instances: NDArray[np.uint8]


def create_segmentations_from_detections(
    files: Mapping[str, str | Path],
    image_sizes: Mapping[str, tuple[int, int]],
    *,
    class_names: Sequence[str],
    painting: str = "increasing_confidence",
    image_ids: Sequence[str] | None = None,
    confidence: float = -math.inf,
    max_bytes: int = MAX_TEXT_BYTES,
    max_pixels: int = MAX_PIXELS,
) -> Iterator[PaintedImage]:
    """Paint the boxes of every image; later ones cover earlier ones.

    Coordinates are rounded, halves away from zero, and clamped to the image, so that a box outside
    paints the nearest border; a box that ends before it begins paints nothing.

    Args:
        files: results file of each class; a class without one has no detections.
        image_sizes: height and width of every image that the files name.
        class_names: class k of the list has number k + 1.
        painting: ``"increasing_confidence"`` (2008-2012): for every image of ``image_ids``, also
            those without detections, equal ones by class, then line of the file;
            ``"class_order"`` (2007): by class and line whatever the confidence, only for images
            with detections, whether in ``image_ids`` or not.
        image_ids: the segmentation set; None for all images with a size.
        max_bytes, max_pixels: the largest results file that is read, and image that is painted.
        confidence: detections below it are not painted, but keep their number.

    Raises:
        InputError: for an unknown painting, or an image size above ``max_pixels``.
        FileFormatError: naming file and line, for a malformed row or an image without a size.

    Source: VOCcode/create_segmentations_from_detections.m (2007; 2008-2012 equal).
    """
    if painting not in PAINTINGS:
        raise InputError(f"must be one of {', '.join(PAINTINGS)}", where="painting", got=painting)
    names = list(image_sizes)
    for name, (height, width) in image_sizes.items():
        if not (height > 0 and width > 0 and height * width <= max_pixels):
            what = f"sizes must be above 0 and of at most {max_pixels:,} pixels"
            where = f"image_sizes, image {name}"
            raise InputError(what, where=where, got=f"{height} x {width}")
    indices = {name: index for index, name in enumerate(names)}
    rows = _rows(files, class_names, ImageIndex(names), max_bytes)
    if painting == "class_order":
        chosen = np.unique(rows[0].astype(np.int64)).tolist()
    else:
        listed = names if image_ids is None else image_ids
        missing = next((name for name in listed if name not in indices), None)
        if missing is not None:
            raise InputError("an image has no size", where="image_ids", got=missing)
        chosen = [indices[name] for name in listed]
    for index in chosen:
        mine = np.flatnonzero(rows[0] == index)
        order = np.arange(mine.size)
        if painting == "increasing_confidence":
            order = np.argsort(rows[2][mine], kind="stable")
        order = order[rows[2][mine][order] >= confidence]
        yield _paint(names[index], image_sizes[names[index]], rows[:, mine], order)


def _rows(
    files: Mapping[str, str | Path],
    class_names: Sequence[str],
    images: ImageIndex,
    max_bytes: int,
) -> Floats:
    """[7, N]: image, class number, confidence and box, by class, then line."""
    parts = [np.zeros((7, 0))]
    for number, name in enumerate(class_names, 1):
        if name in files:
            table = read_results(files[name], images, max_bytes=max_bytes)
            head = [table.image_index, np.full(table.scores.size, number), table.scores]
            parts.append(np.vstack([*head, table.boxes.T]))
    return np.concatenate(parts, axis=1)


def _paint(
    image_id: str, size: tuple[int, int], rows: Floats, order: NDArray[np.int64]
) -> PaintedImage:
    height, width = size
    classes, instances = np.zeros((2, height, width), dtype=np.uint8)
    # The largest number below a half: adding a half itself would round some numbers up twice.
    boxes = np.trunc(rows[3:] + np.copysign(np.nextafter(0.5, 0.0), rows[3:]))
    boxes[0::2] = boxes[0::2].clip(1, width)
    boxes[1::2] = boxes[1::2].clip(1, height)
    for number in order.tolist():
        left, top, right, bottom = boxes[:, number].astype(np.int64).tolist()
        part = (slice(top - 1, bottom), slice(left - 1, right))
        classes[part] = min(int(rows[1, number]), 255)
        instances[part] = min(number + 1, 255)
    return PaintedImage(image_id, classes, instances)
