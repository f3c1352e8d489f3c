"""Generated scenes of discs, squares and triangles, with the flags that VOC and COCO annotate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

CLASS_NAMES = ("disc", "square", "triangle")
SIZE = 64  # height and width of a scene in pixels
GROUP_SHARE = 0.1  # share of the scenes with a group annotated by one box, COCO's crowd
SMALLEST_VISIBLE = 12  # pixels; what shows less is not annotated
DIFFICULT_SHARE, DIFFICULT_AREA = 0.45, 50  # difficult: shows less of itself, or fewer pixels


class Scene(NamedTuple):
    """One image and its annotation.

    Attributes:
        image: [3, SIZE, SIZE] float32 in [0, 1].
        target: what detection models and metrics take: ``boxes`` [M, 4] float32, xyxy in pixels
            around what is visible (x2 and y2 are edges, as COCO has them); ``labels`` [M] int64;
            ``difficult`` and ``iscrowd`` [M] bool, a group is both; ``image_id`` int.
        owner: [SIZE, SIZE] int64, the row of ``target`` that a pixel shows, -1 for background.
    """

    image: Tensor
    target: dict[str, Tensor | int]
    owner: Tensor


def make_scenes(count: int, *, seed: int | Sequence[int]) -> list[Scene]:
    """``count`` scenes with image ids from 0; the same seed gives the same scenes."""
    rng = np.random.default_rng(seed)
    return [_make_scene(rng, image_id) for image_id in range(count)]


def _make_scene(rng: np.random.Generator, image_id: int) -> Scene:
    canvas = _background(rng)
    owner = np.full((SIZE, SIZE), -1)
    labels = rng.integers(len(CLASS_NAMES), size=rng.integers(1, 6))
    is_group = np.zeros(len(labels), dtype=bool)
    is_group[0] = rng.random() < GROUP_SHARE
    full_area = np.zeros(len(labels))
    for row, label in enumerate(labels):
        mask = _group(rng, label) if is_group[row] else _single(rng, label)
        _paint(rng, canvas, mask)
        owner[mask] = row
        full_area[row] = mask.sum()

    visible = np.array([(owner == row).sum() for row in range(len(labels))])
    kept = np.flatnonzero(visible >= SMALLEST_VISIBLE)
    hidden = (visible < DIFFICULT_SHARE * full_area) | (visible < DIFFICULT_AREA)
    target: dict[str, Tensor | int] = {
        "boxes": torch.tensor([_box(owner == row) for row in kept]).float().reshape(-1, 4),
        "labels": torch.from_numpy(labels[kept]),
        "difficult": torch.from_numpy((hidden | is_group)[kept]),
        "iscrowd": torch.from_numpy(is_group[kept]),
        "image_id": image_id,
    }
    new_row = np.full(len(labels) + 1, -1)  # the last entry keeps the background at -1
    new_row[kept] = np.arange(len(kept))
    image = torch.from_numpy(canvas.clip(0, 1).astype(np.float32))
    return Scene(image, target, torch.from_numpy(new_row[owner]))


def _background(rng: np.random.Generator) -> NDArray[np.float64]:
    """A colour gradient with noise, [3, SIZE, SIZE]."""
    ramp = np.linspace(-0.15, 0.15, SIZE)
    slope = rng.uniform(-1, 1, (3, 2, 1, 1))
    gradient = slope[:, 0] * ramp[:, None] + slope[:, 1] * ramp
    return rng.uniform(0.2, 0.8, (3, 1, 1)) + gradient + rng.normal(0, 0.03, (3, SIZE, SIZE))


def _single(rng: np.random.Generator, label: int) -> NDArray[np.bool_]:
    radius = rng.uniform(3, 5) if rng.random() < 0.08 else rng.uniform(6, 14)
    return _shape(label, rng.uniform(radius, SIZE - radius, 2), radius, rng.uniform(0, 2 * np.pi))


def _group(rng: np.random.Generator, label: int) -> NDArray[np.bool_]:
    """Six small shapes of one class side by side."""
    middle = rng.uniform(16, SIZE - 16, 2)
    places = [(row * 9 + 5, column * 9) for row in (-1, 0) for column in (-1, 0, 1)]
    shapes = [
        _shape(label, middle + place + rng.uniform(-1, 1, 2), 4.0, rng.uniform(0, 2 * np.pi))
        for place in places
    ]
    return np.asarray(np.any(shapes, axis=0))


def _shape(
    label: int, centre: NDArray[np.float64], radius: float, angle: float
) -> NDArray[np.bool_]:
    """Pixels of a shape inside the circle of this radius, [SIZE, SIZE]."""
    down, right = np.mgrid[:SIZE, :SIZE] + 0.5 - centre[:, None, None]
    if label == 0:
        return np.asarray(down**2 + right**2 <= radius**2)
    sides = {1: 4, 2: 3}[label]
    normals = angle + 2 * np.pi * np.arange(sides)[:, None, None] / sides
    reach = (np.cos(normals) * right + np.sin(normals) * down).max(axis=0)
    return np.asarray(reach <= radius * np.cos(np.pi / sides))


def _paint(rng: np.random.Generator, canvas: NDArray[np.float64], mask: NDArray[np.bool_]) -> None:
    """Fill the mask with a colour that stands out and with stripes."""
    under = canvas[:, mask].mean(axis=1)
    colours = rng.uniform(0, 1, (8, 3))
    colour = colours[np.abs(colours - under).sum(axis=1).argmax()]
    wave = rng.uniform(-1.5, 1.5, 2)
    down, right = np.nonzero(mask)
    canvas[:, mask] = colour[:, None] + 0.1 * np.sin(wave[0] * down + wave[1] * right)


def _box(mask: NDArray[np.bool_]) -> tuple[int, int, int, int]:
    down, right = np.nonzero(mask)
    return int(right.min()), int(down.min()), int(right.max()) + 1, int(down.max()) + 1
