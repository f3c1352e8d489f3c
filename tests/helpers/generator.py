"""Random inputs that aim at the edges of the rules, and random rules, by seed."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from helpers.support import Problem
from torch_vocmetrics.protocols import AreaRange, DetectionProtocol, load_protocol

Rng = np.random.Generator

# Cutting a box of twenty columns to n columns gives an IoU of n/20: COCO's thresholds and more.
COLUMNS = 20
FLAGS = ("difficult", "iscrowd", "ignore")
TIED_SCORES = (0.0, -0.0, 0.1, 0.25, 0.5, 0.5, 0.9, 1.0, -1.0)
# On the bounds of COCO's area ranges, and beside them.
AREAS = (0.0, 1.0, 1023.0, 1024.0, 1025.0, 9216.0, 9217.0, 1e5)
SIZES = ((20, 10), (20, 20), (40, 7), (32, 32), (96, 96), (60, 60), (100, 100), (1, 1), (2, 1))


def random_problem(
    seed: int, protocol: DetectionProtocol, box_format: str | None = None
) -> Problem:
    """Detections and objects of a few images, for the protocol's coordinates."""
    rng = np.random.default_rng([seed, 1])
    num_classes = int(rng.integers(1, 5))
    style = {
        "inclusive": protocol.coordinates == "inclusive_pixels",
        "inverted": protocol.inverted_boxes == "accept" and rng.random() < 0.2,
        "format": box_format or str(rng.choice(["xyxy", "xywh", "cxcywh"])),
        "step": float(rng.choice([1.0, 1.0, 0.1, 1 / 3, 0.25])),
        "dtypes": _dtypes(rng),
        "ties": rng.random() < 0.6,
        "flags": [flag for flag in FLAGS if rng.random() < 0.6],
        "area": rng.random() < 0.5,
        "crowded": rng.random() < 0.02,
    }
    label_ids = rng.choice(np.arange(1, 91), num_classes, replace=False)
    label_ids = sorted(label_ids.tolist()) if rng.random() < 0.5 else list(range(num_classes))
    images = [_image(rng, style, label_ids) for _ in range(int(rng.integers(1, 7)))]
    problem = Problem(
        [found for found, _ in images],
        [there for _, there in images],
        {"label_ids": label_ids, "box_format": style["format"]},
    )
    _add_ids(rng, problem)
    if rng.random() < 0.15 and box_format is None:
        _add_order(rng, problem)
    return problem


def _image(rng: Rng, style: dict[str, Any], labels: list[int]) -> tuple[Any, Any]:
    # Sometimes every class, sometimes one, so that classes lack either side.
    pool = labels if rng.random() < 0.7 else labels[:1]
    many = (80, 200) if style["crowded"] and rng.random() < 0.5 else (7, 12)
    objects = [_object(rng) for _ in range(int(rng.integers(0, many[0])) * (rng.random() < 0.9))]
    object_labels = [int(rng.choice(pool)) for _ in objects]
    found, found_labels = [], []
    for _ in range(int(rng.integers(0, many[1])) * (rng.random() < 0.9)):
        if objects and rng.random() < 0.75:
            like = int(rng.integers(len(objects)))
            found.append(_near(rng, objects[like]))
            found_labels.append(object_labels[like] if rng.random() < 0.9 else rng.choice(pool))
        else:
            found.append(_object(rng))
            found_labels.append(rng.choice(labels))
    if found and rng.random() < 0.3:
        found.append(found[int(rng.integers(len(found)))])
        found_labels.append(found_labels[-1])
    if rng.random() < 0.3:
        # A box midway between two objects, and one on the first or the second of them.
        left, top, width, height = _object(rng)
        apart = float(rng.integers(1, 3))
        label = int(rng.choice(pool))
        pair = [(left, top, width, height), (left + 2 * apart, top, width, height)]
        objects, object_labels = objects + pair, object_labels + [label] * 2
        found = [*found, (left + apart, top, width, height), pair[int(rng.integers(2))]]
        found_labels += [label] * 2
    count = len(objects)
    there: dict[str, Any] = {
        "boxes": _boxes(rng, objects, style),
        "labels": torch.tensor(object_labels, dtype=torch.int64),
    }
    for flag in style["flags"]:
        there[flag] = torch.from_numpy(rng.random(count) < rng.choice([0.15, 0.5]))
    if style["area"] and rng.random() < 0.8:
        area = np.where(rng.random(count) < 0.3, math.nan, rng.choice(AREAS, count))
        there["area"] = torch.from_numpy(area)
    return {
        "boxes": _boxes(rng, found, style),
        "scores": _scores(rng, len(found), style),
        "labels": torch.tensor(np.array(found_labels, dtype=np.int64)),
    }, there


def _object(rng: Rng) -> tuple[float, float, float, float]:
    """Left, top, columns and rows; few places and sizes, so that boxes repeat."""
    width, height = SIZES[int(rng.integers(len(SIZES)))]
    left, top = rng.integers(0, 5, 2) * rng.choice([1, 5, 40])
    return float(left), float(top), float(width), float(height)


def _near(rng: Rng, box: tuple[float, ...]) -> tuple[float, float, float, float]:
    """The same box, a part of it whose IoU is a threshold, or the box moved a little."""
    left, top, width, height = box
    kind = rng.random()
    if kind < 0.3:
        return left, top, width, height
    if kind < 0.65:
        part = float(rng.integers(4, COLUMNS + 1)) / COLUMNS
        return left, top, width * part, height
    if kind < 0.8:
        return left + float(rng.choice([-1, 1])) * width / 10, top, width, height
    shift = rng.integers(-5, 6, 2)
    return left + float(shift[0]), top + float(shift[1]), width, height


def _boxes(rng: Rng, extents: list[tuple[float, ...]], style: dict[str, Any]) -> Tensor:
    """Boxes in the style's format: inclusive ones end a pixel before their width is over."""
    rows = np.array(extents, dtype=np.float64).reshape(-1, 4) * style["step"]
    left, top, width, height = rows.T
    if style["inclusive"]:
        # Whole pixels, but for styles whose step is no whole number.
        width, height = width - 1, height - 1
    if style["inverted"]:
        width = np.where(rng.random(len(rows)) < 0.15, -width, width)
    elif style["inclusive"]:
        width, height = np.maximum(width, 0), np.maximum(height, 0)
    if style["format"] == "xyxy":
        columns = (left, top, left + width, top + height)
    elif style["format"] == "xywh":
        columns = (left, top, width, height)
    else:
        columns = (left + width / 2, top + height / 2, width, height)
    boxes = torch.from_numpy(np.stack(columns, axis=1))
    dtype = _pick(rng, style["dtypes"])
    # The metric warns of half boxes that are not whole pixels any more.
    far = len(rows) > 0 and float(boxes.abs().max()) > 100
    boxes = boxes.to(torch.float32 if far and dtype == torch.bfloat16 else dtype)
    return torch.zeros(0) if len(rows) == 0 and rng.random() < 0.5 else boxes


def _scores(rng: Rng, count: int, style: dict[str, Any]) -> Tensor:
    scores = rng.choice(TIED_SCORES, count) if style["ties"] else rng.random(count)
    values = torch.from_numpy(np.asarray(scores, dtype=np.float64))
    return values.to(_pick(rng, style["dtypes"]))


def _dtypes(rng: Rng) -> list[torch.dtype]:
    """The types of boxes and scores: mostly one for all, sometimes several side by side."""
    every = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
    return every if rng.random() < 0.1 else [every[int(rng.choice(4, p=[0.45, 0.45, 0.05, 0.05]))]]


def _pick(rng: Rng, dtypes: list[torch.dtype]) -> torch.dtype:
    return dtypes[int(rng.integers(len(dtypes)))]


def _add_ids(rng: Rng, problem: Problem) -> None:
    """No ids, integers or strings, in no order."""
    kind = str(rng.choice(["none", "int", "tensor", "text"]))
    ids = rng.choice(200, len(problem.ground_truths), replace=False).tolist()
    for one, image_id in zip(problem.ground_truths, ids, strict=True):
        if kind != "none":
            as_text = f"{image_id}.jpg" if kind == "text" else image_id
            one["image_id"] = torch.tensor([image_id]) if kind == "tensor" else as_text


def _add_order(rng: Rng, problem: Problem) -> None:
    """Every detection has a line of its own in the results file."""
    counts = [len(one["labels"]) for one in problem.detections]
    lines = rng.permutation(sum(counts))
    for one, part in zip(problem.detections, np.split(lines, np.cumsum(counts)[:-1]), strict=True):
        one["order"] = torch.from_numpy(part.copy())


def random_coco_protocol(seed: int) -> DetectionProtocol:
    """COCO's rules with other thresholds, levels, limits and areas, as a COCOeval may have them."""
    rng = np.random.default_rng([seed, 2])
    rules = {
        "iou_thresholds": _thresholds(rng),
        "recall_levels": _levels(rng),
        "max_detections": _limits(rng),
        "area_ranges": _areas(rng),
    }
    # pycocotools' summary is about the range "all", which may be missing here: take the first.
    headline = rules["area_ranges"][0].name
    return dataclasses.replace(load_protocol("detection/coco2017"), headline_area=headline, **rules)


def random_protocol(seed: int) -> DetectionProtocol:
    """Any rule with any other."""
    rng = np.random.default_rng([seed, 3])
    grid = rng.random() < 0.5
    pixels = bool(rng.random() < 0.5)
    rules: dict[str, Any] = {
        "coordinates": "inclusive_pixels" if pixels else "continuous",
        "inverted_boxes": "accept" if pixels else "error",
        "ignored_flags": _subset(rng),
        "reusable_flags": _subset(rng),
        "overlap_of_detection_area_flags": _subset(rng),
        "area_ranges": _areas(rng),
        "detection_area": "box",
        "iou_thresholds": _thresholds(rng),
        "overlap_of": "boxes",
        "iou_threshold_ceiling": float(rng.choice([math.inf, 1 - 1e-10, 0.8])),
        "comparison": str(rng.choice([">=", ">"])),
        "candidates": str(rng.choice(["best", "all"])),
        "equal_overlaps": str(rng.choice(["first", "last"])),
        "max_detections": () if rng.random() < 0.4 else _limits(rng),
        "interpolation": "recall_grid" if grid else str(rng.choice(["eleven_point", "all_points"])),
        "recall_levels": _levels(rng),
        "precision_epsilon": float(np.spacing(1)) if grid else 0.0,
        "mean_over": str(rng.choice(["defined_values", "classes_with_positives"])),
    }
    areas = rules["area_ranges"]
    rules["headline_area"] = areas[int(rng.integers(len(areas)))].name
    rules["class_agnostic"] = bool(rng.random() < 0.15)
    # The rules that are not drawn (masks) stay those of COCO's boxes.
    shipped = load_protocol("detection/coco2017")
    return dataclasses.replace(shipped, name=f"random{seed}", **rules)


def _subset(rng: Rng) -> tuple[str, ...]:
    return tuple(flag for flag in FLAGS if rng.random() < 0.4)


def _thresholds(rng: Rng) -> tuple[float, ...]:
    choices = [(0.5,), (0.5, 0.75), (0.3, 0.5, 0.7, 1.0), (0.05, 0.25, 0.8), (1.0,)]
    grid = tuple(np.linspace(0.5, 0.95, 10).tolist())
    # More lanes than one machine word has bits, once the area ranges are counted.
    fine = tuple(np.linspace(0.05, 1.0, 20).tolist())
    return (*choices, grid, fine)[int(rng.integers(len(choices) + 2))]


def _levels(rng: Rng) -> tuple[float, ...]:
    choices = [
        tuple(np.linspace(0.0, 1.0, 101).tolist()),
        tuple(np.arange(0, 1.1, 0.1).tolist()),
        (0.0, 0.5, 1.0),
        (0.25, 1 / 3, 0.5, 2 / 3),
    ]
    return choices[int(rng.integers(len(choices)))]


def _limits(rng: Rng) -> tuple[int, ...]:
    return ((1, 10, 100), (1,), (2, 5), (1, 2, 3, 1000), (300,))[int(rng.integers(5))]


def _areas(rng: Rng) -> tuple[AreaRange, ...]:
    shipped = load_protocol("detection/coco2017").area_ranges
    choices = [
        shipped,
        shipped[:1],
        (AreaRange("everything", -math.inf, math.inf),),
        (*shipped, AreaRange("tiny", 0.0, 400.0)),
        (AreaRange("unit", 1.0, 1.0), AreaRange("middle", 200.0, 1024.0)),
    ]
    return choices[int(rng.integers(len(choices)))]
