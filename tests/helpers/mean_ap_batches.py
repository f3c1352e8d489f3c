"""Random batches and settings of torchmetrics' ``MeanAveragePrecision``, by seed.

Coordinates are whole and half pixels, so that its conversion of boxes in float32 is exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from helpers.mask_problems import _near, _shape

Rng = np.random.Generator
Batch = tuple[list[dict[str, Any]], list[dict[str, Any]]]

THRESHOLDS = np.linspace(0.5, 0.95, 10).tolist()
LEVELS = np.linspace(0, 1, 101).tolist()
SIZES = ((20, 10), (20, 20), (40, 8), (32, 32), (96, 96), (60, 60), (2, 2))
CANVASES = ((24, 20), (40, 64), (100, 120))


def random_settings(seed: int) -> dict[str, Any]:
    """Arguments of both classes, with thresholds and levels in float64."""
    rng = np.random.default_rng([seed, 51])
    kinds: tuple[Any, ...] = ("bbox", "bbox", "segm", ("bbox", "segm"))
    thresholds: list[Any] = [THRESHOLDS, [0.5], [0.3, 0.75], [0.6, 0.9, 0.95]]
    limits: list[Any] = [None, [1, 10, 100], [100, 2, 1], [1, 2, 3], [1, 100, 300]]
    return {
        "box_format": str(rng.choice(["xyxy", "xywh", "cxcywh"])),
        "iou_type": kinds[int(rng.integers(len(kinds)))],
        "iou_thresholds": thresholds[int(rng.integers(len(thresholds)))],
        "rec_thresholds": LEVELS if rng.random() < 0.7 else [0.0, 0.3, 0.7],
        "max_detection_thresholds": limits[int(rng.integers(len(limits)))],
        "class_metrics": bool(rng.random() < 0.4),
        "extended_summary": bool(rng.random() < 0.3),
        "average": "micro" if rng.random() < 0.2 else "macro",
    }


def random_batches(seed: int, settings: dict[str, Any]) -> list[Batch]:
    """One to three batches of a few images; labels have gaps and may come late."""
    rng = np.random.default_rng([seed, 52])
    pool = rng.choice([0, 1, 2, 3, 17, 90], int(rng.integers(1, 5)), replace=False).tolist()
    batches = []
    for _ in range(int(rng.integers(1, 4))):
        images = [_image(rng, settings, pool) for _ in range(int(rng.integers(1, 4)))]
        batches.append(([one for one, _ in images], [one for _, one in images]))
    return batches


def _image(rng: Rng, settings: dict[str, Any], pool: list[int]) -> tuple[Any, Any]:
    shapes = settings["iou_type"]
    masks = "segm" in shapes
    # torchmetrics leaves out images without masks of a side where only masks are compared.
    least = 1 if shapes == "segm" else 0
    size = CANVASES[int(rng.integers(len(CANVASES)))]
    make = (lambda: _shape(rng, size)) if masks else (lambda: _box(rng))
    near = (lambda one: _near(rng, one)) if masks else (lambda one: _near_box(rng, one))
    there = [make() for _ in range(int(rng.integers(least, 6)))]
    seen = [
        near(there[int(rng.integers(len(there)))]) if there and rng.random() < 0.8 else make()
        for _ in range(int(rng.integers(least, 9)))
    ]
    labels = [int(rng.choice(pool)) for _ in there]
    prediction = _rows(seen, settings, size) | {
        "labels": torch.tensor(
            [int(rng.choice([*labels, *pool])) for _ in seen], dtype=torch.int64
        ),
        "scores": torch.tensor(rng.choice([0.1, 0.5, 0.5, 0.9, rng.random()], len(seen))).float(),
    }
    target = _rows(there, settings, size) | {"labels": torch.tensor(labels, dtype=torch.int64)}
    if rng.random() < 0.5:
        target["iscrowd"] = torch.tensor(rng.random(len(there)) < 0.25).long()
    if rng.random() < 0.4:
        target["area"] = torch.tensor(rng.choice([0.0, 100.0, 1024.0, 9217.0], len(there)))
    return prediction, target


def _box(rng: Rng) -> tuple[float, ...]:
    width, height = SIZES[int(rng.integers(len(SIZES)))]
    left, top = rng.integers(0, 5, 2) * rng.choice([1, 5, 40])
    return float(left), float(top), float(width), float(height)


def _near_box(rng: Rng, box: tuple[float, ...]) -> tuple[float, ...]:
    """The same box, a part of it whose IoU is a threshold, or the box moved a little."""
    left, top, width, height = box
    kind = rng.random()
    if kind < 0.3:
        return box
    if kind < 0.65:
        return left, top, float(np.ceil(width * rng.integers(8, 21) / 20)), height
    shift = rng.integers(-4, 5, 2).tolist()
    return left + shift[0], top + shift[1], width, height


def _rows(shapes: list[Any], settings: dict[str, Any], size: tuple[int, int]) -> dict[str, Any]:
    rows: dict[str, Any] = {}
    boxes = shapes
    if "segm" in settings["iou_type"]:
        masks = np.array(shapes, dtype=bool).reshape(-1, *size)
        rows["masks"] = torch.from_numpy(masks)
        boxes = [_around(mask) for mask in masks]
    left, top, width, height = torch.tensor(boxes, dtype=torch.float32).reshape(-1, 4).unbind(1)
    columns = {
        "xyxy": (left, top, left + width, top + height),
        "xywh": (left, top, width, height),
        "cxcywh": (left + width / 2, top + height / 2, width, height),
    }[settings["box_format"]]
    if "bbox" in settings["iou_type"]:
        rows["boxes"] = torch.stack(columns, dim=1)
    return rows


def _around(mask: np.ndarray) -> tuple[float, ...]:
    rows, columns = np.nonzero(mask)
    if not rows.size:
        return 0.0, 0.0, 0.0, 0.0
    left, top = columns.min(), rows.min()
    return float(left), float(top), float(columns.max() + 1 - left), float(rows.max() + 1 - top)
