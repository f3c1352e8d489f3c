"""Random images with masks that aim at the edges of the rules, in every form of input, by seed."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from pycocotools import mask as api

from helpers.oracle import arrays, run_cocoeval
from helpers.support import Problem, as_nested_list
from torch_vocmetrics.protocols import DetectionProtocol

Rng = np.random.Generator

FORMS = ("bool", "uint8", "probabilities", "compressed", "text", "counts")
SIZES = ((24, 20), (17, 64), (40, 65), (9, 9), (100, 120))


def mask_problem(seed: int, *, forms: tuple[str, ...] = FORMS) -> Problem:
    """A few images; masks are rectangles, stripes of them, noise or nothing, and near copies."""
    rng = np.random.default_rng([seed, 11])
    labels = sorted(rng.choice(np.arange(1, 91), int(rng.integers(1, 4)), replace=False).tolist())
    detections, ground_truths = [], []
    ids = rng.permutation(50)[: int(rng.integers(1, 6))].tolist()
    for image_id in ids:
        size = SIZES[int(rng.integers(len(SIZES)))]
        true = [_shape(rng, size) for _ in range(int(rng.integers(0, 5)))]
        found = [
            _near(rng, true[int(rng.integers(len(true)))])
            if true and rng.random() < 0.7
            else _shape(rng, size)
            for _ in range(int(rng.integers(0, 9)))
        ]
        sides = []
        for masks in (found, true):
            form = str(rng.choice(forms))
            sides.append(
                {
                    "masks": as_form(masks, size, form),
                    "boxes": torch.tensor([_box(m) for m in masks], dtype=torch.float64),
                    "labels": torch.from_numpy(rng.choice(labels, len(masks)).astype(np.int64)),
                }
            )
        scores = rng.choice([0.1, 0.5, 0.5, 0.9, rng.random()], len(found))
        sides[0]["scores"] = torch.from_numpy(scores.astype(np.float64))
        sides[1] |= {"image_id": image_id, "image_size": size}
        if rng.random() < 0.7:
            sides[1]["iscrowd"] = torch.from_numpy(rng.random(len(true)) < 0.25)
        if rng.random() < 0.5:
            area = rng.choice([float("nan"), 100.0, 1024.0, 1025.0, 9216.0], len(true))
            sides[1]["area"] = torch.from_numpy(area)
        detections.append(sides[0])
        ground_truths.append(sides[1])
    return Problem(detections, ground_truths, {"label_ids": labels, "box_format": "xywh"})


def _shape(rng: Rng, size: tuple[int, int]) -> np.ndarray:
    mask = np.zeros(size, dtype=bool)
    kind = rng.random()
    if kind < 0.05:
        return mask
    if kind < 0.15:
        return rng.random(size) < rng.random()
    top, left = (int(rng.integers(side)) for side in size)
    height, width = (int(rng.integers(1, side + 1)) for side in size)
    mask[top : top + height, left : left + width] = True
    if kind < 0.3:
        mask[:: int(rng.integers(2, 4))] = False
    return mask


def _near(rng: Rng, mask: np.ndarray) -> np.ndarray:
    """The same, moved, with rows cut off, or with some pixels turned."""
    kind = rng.random()
    if kind < 0.3:
        return mask.copy()
    if kind < 0.6:
        return np.roll(mask, tuple(rng.integers(-2, 3, 2)), (0, 1))
    if kind < 0.8:
        rows = np.flatnonzero(mask.any(1))
        cut = mask.copy()
        cut[rows[: int(rng.integers(0, len(rows) // 2 + 1))]] = False
        return cut
    return mask ^ (rng.random(mask.shape) < 0.1)


def _box(mask: np.ndarray) -> list[float]:
    box = api.toBbox(api.encode(np.asfortranarray(mask.astype(np.uint8))))
    return [float(side) for side in box]


def run_lengths(mask: np.ndarray) -> dict[str, Any]:
    return api.encode(np.asfortranarray(mask.astype(np.uint8)))


def plain_counts(mask: np.ndarray) -> list[int]:
    """Run lengths down the columns, beginning with those outside."""
    flat = mask.T.reshape(-1)
    edges = np.concatenate(([0], np.flatnonzero(np.diff(flat)) + 1, [flat.size]))
    return ([0] if flat[0] else []) + np.diff(edges).tolist()


def as_form(masks: list[np.ndarray], size: tuple[int, int], form: str) -> Any:
    if form in ("compressed", "text", "counts"):
        rles = [run_lengths(mask) for mask in masks]
        if form == "text":
            return [{**rle, "counts": rle["counts"].decode()} for rle in rles]
        if form == "counts":
            return [{"size": list(size), "counts": plain_counts(mask)} for mask in masks]
        return rles
    stacked = np.stack(masks) if masks else np.zeros((0, *size), dtype=bool)
    if form == "bool":
        return torch.from_numpy(stacked)
    if form == "uint8":
        return stacked.astype(np.uint8) * 255
    return torch.from_numpy(np.where(stacked, 0.75, 0.5)).float().unsqueeze(1)


def of_form(value: Any) -> list[dict[str, Any]]:
    """Back to compressed run lengths."""
    if isinstance(value, list):
        return [
            api.frPyObjects(one, *one["size"]) if isinstance(one["counts"], list) else one
            for one in value
        ]
    masks = np.asarray(value)
    masks = masks[:, 0] > 0.5 if masks.ndim == 4 else masks != 0
    return [run_lengths(mask) for mask in masks]


def judge_masks(protocol: DetectionProtocol, problem: Problem) -> dict[str, np.ndarray]:
    """What pycocotools makes of the masks of a problem."""
    image_ids, gt, dt = [], [], []
    for found, there in zip(problem.detections, problem.ground_truths, strict=True):
        image_id = there["image_id"]
        image_ids.append(image_id)
        columns = (as_nested_list(found[key]) for key in ("boxes", "scores", "labels"))
        for rle, box, score, label in zip(of_form(found["masks"]), *columns, strict=True):
            area = float(api.area(rle)) if protocol.detection_area == "mask" else box[2] * box[3]
            entry = {"image_id": image_id, "segmentation": rle, "score": score, "area": area}
            dt.append(entry | {"bbox": box, "category_id": label})
        for j, rle in enumerate(of_form(there["masks"])):
            area = float(there["area"][j]) if "area" in there else float("nan")
            entry = {"image_id": image_id, "segmentation": rle, "bbox": [0, 0, 0, 0]}
            entry["category_id"] = int(there["labels"][j])
            entry["area"] = float(api.area(rle)) if np.isnan(area) else area
            entry["iscrowd"] = int(there["iscrowd"][j]) if "iscrowd" in there else 0
            gt.append(entry)
    categories = list(problem.kwargs["label_ids"])
    return arrays(run_cocoeval(image_ids, categories, gt, dt, iou_type="segm"))
