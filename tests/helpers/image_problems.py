"""Thousands of small images at once, each of which stands on an edge of the rules, by seed.

The columns of all images are drawn together: a draw for each image would take longer than to match
it. The rules are those of :mod:`generator` and :mod:`pedestrian_generator`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from helpers.generator import AREAS, COLUMNS, FLAGS, TIED_SCORES
from helpers.pedestrian_generator import HEIGHTS
from torch_vocmetrics.protocols import DetectionProtocol

Rng = np.random.Generator
Columns = dict[str, np.ndarray]

SIZES = ((20, 10), (20, 20), (40, 7), (32, 32), (96, 96), (100, 100), (1, 1), (2, 1), (0, 10))
STEPS = (1.0, 1.0, 1.0, 0.1, 1 / 3, 0.25, 1e-3, 2.0**-20, 1e4, 2.0**20)
"""Pixels of a unit; so boxes of less than a pixel and of more than a million are among them."""
OFFSETS = (0.0, 0.0, 0.0, -50.0, 1e4, 1e6)
FORMATS = ("xyxy", "xywh", "cxcywh")
IMAGE_SIZE = (480, 640)


@dataclass(frozen=True)
class ImageProblems:
    """Packed columns of B images, and what metric and reference are told of them.

    Attributes:
        detection_counts, target_counts: [B] rows of each image.
        detections, targets: by key, [N, ...] and [M, ...].
        kwargs: ``label_ids`` and ``box_format``.
    """

    detection_counts: np.ndarray
    detections: Columns
    target_counts: np.ndarray
    targets: Columns
    kwargs: dict[str, Any]

    def __len__(self) -> int:
        return len(self.detection_counts)

    def lists(self, part: slice = slice(None)) -> tuple[list[Any], list[Any]]:
        """A dict of tensors for each image, of detections and of targets."""
        detections = _images(self.detections, self.detection_counts, part)
        targets = _images(self.targets, self.target_counts, part)
        return detections, [{**target, "image_size": IMAGE_SIZE} for target in targets]

    def packed(self, part: slice = slice(None)) -> tuple[dict[str, Any], dict[str, Any]]:
        """One dict of packed tensors, of detections and of targets."""
        detections = _packed(self.detections, self.detection_counts, part)
        targets = _packed(self.targets, self.target_counts, part)
        sizes = torch.tensor([IMAGE_SIZE] * len(targets["counts"])).reshape(-1, 2)
        return detections, {**targets, "image_size": sizes}


def _rows(counts: np.ndarray, part: slice) -> slice:
    first, last, _ = part.indices(len(counts))
    return slice(int(counts[:first].sum()), int(counts[:last].sum()))


def _packed(columns: Columns, counts: np.ndarray, part: slice) -> dict[str, Any]:
    rows = _rows(counts, part)
    tensors = {key: torch.from_numpy(values[rows]) for key, values in columns.items()}
    return {**tensors, "counts": counts[part].tolist()}


def _images(columns: Columns, counts: np.ndarray, part: slice) -> list[dict[str, Any]]:
    packed = _packed(columns, counts, part)
    sizes = packed.pop("counts")
    split = [tensor.split(sizes) for tensor in packed.values()]
    return [dict(zip(packed, values, strict=True)) for values in zip(*split, strict=True)]


# Detection ----------------------------------------------------------------------------------------


def detection_images(
    seed: int, count: int, protocol: DetectionProtocol, box_format: str | None = None
) -> ImageProblems:
    """Images with up to 5 objects and 7 detections of up to 3 classes.

    With a box format that the caller names there is no ``order``, which pycocotools does not have.
    """
    rng = np.random.default_rng([seed, 41])
    num_classes = int(rng.integers(1, 4))
    label_ids = np.array([3, 7, 90] if rng.random() < 0.5 else [0, 1, 2])[:num_classes]
    format_is_given = box_format is not None
    box_format = box_format or str(rng.choice(FORMATS))
    objects, image, target_counts = _objects(rng, count)
    object_labels = rng.integers(num_classes, size=len(objects))
    found, found_image, like, detection_counts = _found(rng, count, objects, target_counts)
    found_labels = rng.integers(num_classes, size=len(found))
    if len(objects):
        as_object = (like >= 0) & (rng.random(len(found)) < 0.9)
        found_labels = np.where(as_object, object_labels[like], found_labels)
    steps, offsets = rng.choice(STEPS, count), rng.choice(OFFSETS, count)
    dtypes = rng.choice([np.float32, np.float64], 4)

    def boxes(rows: np.ndarray, of: np.ndarray, dtype: Any) -> np.ndarray:
        pixels = rows * steps[of, None]
        pixels[:, :2] += offsets[of, None]
        return _boxes(rng, pixels, box_format, protocol).astype(dtype)

    targets = {"boxes": boxes(objects, image, dtypes[0]), "labels": label_ids[object_labels]}
    for flag in FLAGS:
        if rng.random() < 0.6:
            targets[flag] = rng.random(len(objects)) < rng.choice([0.15, 0.5])
    if rng.random() < 0.5:
        missing = rng.random(len(objects)) < 0.3
        areas = np.where(missing, math.nan, rng.choice(AREAS, len(objects)))
        targets["area"] = areas.astype(dtypes[1])
    detections = {
        "boxes": boxes(found, found_image, dtypes[2]),
        "scores": _scores(rng, found_image, count).astype(dtypes[3]),
        "labels": label_ids[found_labels],
    }
    if not format_is_given:
        _add_order(rng, detections)
    kwargs = {"label_ids": label_ids.tolist(), "box_format": box_format}
    return ImageProblems(detection_counts, detections, target_counts, targets, kwargs)


def _counts(rng: Rng, count: int, most: int) -> np.ndarray:
    """Rows of each image; a sixth of the images have none."""
    return rng.integers(0, most + 1, count) * (rng.random(count) < 5 / 6)


def _objects(rng: Rng, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Extents [M, 4] left, top, columns, rows; image of each; rows of each image.

    Few positions and sizes, so that extents repeat; some are a copy, moved by 2 or 4 units, of the
    one before, so that one midway between them overlaps both alike.
    """
    counts = _counts(rng, count, 5)
    image = np.repeat(np.arange(count), counts)
    size = np.array(SIZES, dtype=float)[rng.integers(len(SIZES), size=len(image))]
    corner = rng.integers(0, 5, (len(image), 2)) * rng.choice([1.0, 5.0, 40.0], (len(image), 1))
    rows = np.concatenate([corner, size], axis=1)
    beside = np.roll(rows, 1, axis=0) + _moved(rng, len(rows), [2.0, 4.0])
    has_one_before = image == np.roll(image, 1)
    copied = has_one_before & (np.arange(len(rows)) > 0) & (rng.random(len(rows)) < 0.25)
    return np.where(copied[:, None], beside, rows), image, counts


def _moved(rng: Rng, count: int, by: list[float]) -> np.ndarray:
    """Extents to be added, which move others to the side."""
    move = np.zeros((count, 4))
    move[:, 0] = rng.choice(by, count)
    return move


def _found(
    rng: Rng, count: int, objects: np.ndarray, object_counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Extents [N, 4] of detections, most of them like an object of the image.

    Returns:
        Extents, image of each, the object it is like or -1, rows of each image.
    """
    counts = _counts(rng, count, 7)
    image = np.repeat(np.arange(count), counts)
    size = np.array(SIZES, dtype=float)[rng.integers(len(SIZES), size=len(image))]
    corner = rng.integers(0, 5, (len(image), 2)) * 5.0
    rows = np.concatenate([corner, size], axis=1)
    if not len(objects):
        return rows, image, np.full(len(image), -1), counts
    starts = np.cumsum(object_counts) - object_counts
    available = object_counts[image]
    like = starts[image] + (rng.random(len(image)) * available).astype(int)
    like = np.where((available > 0) & (rng.random(len(image)) < 0.85), like, -1)
    near = objects[like].copy()
    kind = rng.random(len(rows))
    # A part of the columns, whose IoU is a threshold; a tenth of them to the side; a few units.
    part = rng.integers(4, COLUMNS + 1, len(rows)) / COLUMNS
    near[:, 2] *= np.where((kind >= 0.3) & (kind < 0.6), part, 1.0)
    tenth = rng.choice([-1.0, 1.0], len(rows)) * near[:, 2] / 10
    near[:, 0] += np.where((kind >= 0.6) & (kind < 0.7), tenth, 0.0)
    near += np.where((kind >= 0.7)[:, None], _moved(rng, len(rows), [-2.0, -1.0, 1.0, 2.0]), 0.0)
    return np.where((like >= 0)[:, None], near, rows), image, like, counts


def _boxes(
    rng: Rng, pixels: np.ndarray, box_format: str, protocol: DetectionProtocol
) -> np.ndarray:
    """Boxes in a format; inclusive ones end a pixel before their width is over."""
    left, top, width, height = pixels.T
    if protocol.coordinates == "inclusive_pixels":
        width, height = np.maximum(width - 1, 0), np.maximum(height - 1, 0)
    if protocol.inverted_boxes == "accept" and rng.random() < 0.2:
        width = np.where(rng.random(len(pixels)) < 0.15, -width, width)
    return _in_format((left, top, width, height), box_format)


def _in_format(extents: tuple[np.ndarray, ...], box_format: str) -> np.ndarray:
    left, top, width, height = extents
    formats = {
        "xyxy": (left, top, left + width, top + height),
        "xywh": (left, top, width, height),
        "cxcywh": (left + width / 2, top + height / 2, width, height),
    }
    return np.stack(formats[box_format], axis=1)


def _scores(rng: Rng, image: np.ndarray, count: int) -> np.ndarray:
    """In two of three images only few values, so that many are equal."""
    tied = rng.random(count) < 2 / 3
    return np.where(tied[image], rng.choice(TIED_SCORES, len(image)), rng.random(len(image)))


def _add_order(rng: Rng, detections: Columns) -> None:
    """Sometimes every detection has a line of its own in the results file."""
    if rng.random() < 0.15:
        detections["order"] = rng.permutation(len(detections["labels"]))


# Pedestrians --------------------------------------------------------------------------------------


def pedestrian_images(seed: int, count: int) -> ImageProblems:
    """Images with up to 5 objects and 7 detections, some objects as large as a region."""
    rng = np.random.default_rng([seed, 42])
    box_format, dtype = str(rng.choice(FORMATS)), rng.choice([np.float32, np.float64])
    target_counts = _counts(rng, count, 5)
    objects = _pedestrians(rng, int(target_counts.sum()))
    region = rng.random(len(objects)) < 0.1
    objects[region] = [0, 0, 200, 200]
    detection_counts = _counts(rng, count, 7)
    found = _pedestrians(rng, int(detection_counts.sum()))
    image = np.repeat(np.arange(count), detection_counts)
    if len(objects):
        starts, available = np.cumsum(target_counts) - target_counts, target_counts[image]
        like = starts[image] + (rng.random(len(image)) * available).astype(int)
        near = objects[np.minimum(like, len(objects) - 1)].copy()
        near[:, 0] += near[:, 2] * rng.choice([0, 0, 0.25, -0.25, 1 / 3, 0.5, 1.0], len(near))
        chosen = (available > 0) & (rng.random(len(near)) < 0.75)
        found = np.where(chosen[:, None], near, found)

    def boxes(rows: np.ndarray) -> np.ndarray:
        return _in_format(tuple(rows.T), box_format).astype(dtype)

    number = len(objects)
    targets = {
        "boxes": boxes(objects),
        "labels": np.zeros(number, dtype=np.int64),
        "ignore": rng.random(number) < np.where(region, 0.8, 0.25),
    }
    if rng.random() < 0.8:
        targets["occlusion"] = rng.integers(0, 3, number)
    targets |= _visible(rng, objects, boxes)
    detections = {
        "boxes": boxes(found),
        "scores": rng.choice([0.05, 0.1, 0.25, 0.3, 0.5, 0.75, 0.9, 0.95], len(found)),
        "labels": np.zeros(len(found), dtype=np.int64),
    }
    _add_order(rng, detections)
    kwargs = {"box_format": box_format}
    return ImageProblems(detection_counts, detections, target_counts, targets, kwargs)


def _pedestrians(rng: Rng, count: int) -> np.ndarray:
    """Extents on the bounds of ranges of heights; half of them have a pedestrian's shape.

    The second of two may stand half a width beside the first.
    """
    heights = rng.choice(HEIGHTS, count).astype(float)
    widths = np.where(rng.random(count) < 0.5, 0.5 * heights, rng.choice(HEIGHTS, count))
    corners = rng.choice([-10, 0, 5, 10, 20, 40, 600], (count, 2)).astype(float)
    rows = np.concatenate([corners, widths[:, None], heights[:, None]], axis=1)
    beside = np.roll(rows, 1, axis=0)
    beside[:, 0] += beside[:, 2] / 2
    return np.where(rng.random((count, 1)) < 0.3, beside, rows)


def _visible(rng: Rng, objects: np.ndarray, boxes: Any) -> Mapping[str, np.ndarray]:
    """What is seen of each object: nothing said, a box, or a fraction."""
    kind = rng.choice(["none", "boxes", "fraction"])
    fractions = rng.choice([0.1, 0.2, 0.5, 0.65, 0.9, 1.0], len(objects))
    unknown = rng.random(len(objects)) < 0.3
    if kind == "boxes":
        part = objects.copy()
        part[:, 3] *= fractions
        part[unknown] = 0
        return {"visible_boxes": boxes(part)}
    return {"visibility": np.where(unknown, math.nan, fractions)} if kind == "fraction" else {}
