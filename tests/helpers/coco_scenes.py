"""Annotations with masks, and outputs of a model for their images, by seed."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from pycocotools import mask as api
from pycocotools.coco import COCO

from helpers.coco_pairs import as_coco

SIZE = (48, 64)
CATEGORIES = [{"id": 3, "name": "cat"}, {"id": 7, "name": "dog"}, {"id": 8, "name": "cow"}]


def blob(rng: np.random.Generator, mask: Any = None) -> np.ndarray:
    """A rectangle with a hole, or a mask moved a little."""
    if mask is not None:
        return np.roll(mask, rng.integers(-2, 3, 2), axis=(0, 1))
    shape = np.zeros(SIZE, dtype=np.uint8)
    top, left = rng.integers(0, 24, 2)
    height, width = rng.integers(6, 24, 2)
    shape[top : top + height, left : left + width] = 1
    shape[top + 2 : top + 4, left + 2 : left + 4] = 0
    return shape


def corners(mask: np.ndarray) -> list[float]:
    left, top, width, height = api.toBbox(api.encode(np.asfortranarray(mask))).tolist()
    return [left, top, left + width, top + height]


def scene(seed: int = 0, images: int = 9) -> tuple[COCO, dict[int, dict[str, torch.Tensor]]]:
    """Annotations, and outputs of a model by image id: one class of them is of no category."""
    rng = np.random.default_rng(seed)
    annotations, outputs = [], {}
    ids = (rng.permutation(60)[:images] + 1).tolist()
    for image_id in ids:
        masks = [blob(rng) for _ in range(int(rng.integers(0, 5)))]
        for mask in masks:
            left, top, right, bottom = corners(mask)
            annotations.append(
                {
                    "id": len(annotations) + 1, "image_id": image_id,
                    "category_id": int(rng.choice([3, 7])), "iscrowd": int(rng.random() < 0.15),
                    "bbox": [left, top, right - left, bottom - top], "area": float(mask.sum()),
                    "segmentation": api.encode(np.asfortranarray(mask)),
                }
            )  # fmt: skip
        seen = [blob(rng, mask) for mask in masks for _ in range(2)] + [blob(rng)]
        outputs[image_id] = {
            "boxes": torch.tensor([corners(one) for one in seen]) + 0.3,
            "scores": torch.from_numpy(
                rng.choice([0.3, 0.5, 0.9, rng.random()], len(seen))
            ).float(),
            "labels": torch.from_numpy(
                rng.choice([3, 7, 8, 99], len(seen), p=[0.4, 0.4, 0.1, 0.1])
            ),
            "masks": torch.tensor(np.array(seen))[:, None] * 0.4 + 0.3,
        }
    listed = [{"id": one, "height": SIZE[0], "width": SIZE[1]} for one in ids]
    return as_coco(listed, CATEGORIES, annotations), outputs
