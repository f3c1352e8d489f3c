"""Random pedestrian problems on a coarse grid: ties and overlaps at a threshold are common."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import torch

from helpers.support import Problem
from torch_vocmetrics.protocols import MissRateProtocol, load_protocol, protocol_names

SIZE = 640
HEIGHTS = (0, 10, 16, 20, 24, 30, 40, 48, 50, 60, 75, 80, 100, 120)


def shipped(name: str) -> MissRateProtocol:
    return load_protocol(f"miss_rate/{name}", MissRateProtocol)


def random_protocol(seed: int) -> MissRateProtocol:
    """A shipped protocol with some rules exchanged for any others."""
    rng = np.random.default_rng([seed, 1])
    names = protocol_names("miss_rate")
    base = shipped(names[int(rng.integers(len(names)))])

    def pick(*values: Any) -> Any:
        return values[int(rng.integers(len(values)))]

    changes: dict[str, Any] = {
        "height_interval": pick("half_open", "closed"),
        "unoccluded_visibility": pick(math.inf, 1.0),
        "zero_visible_box": pick("unoccluded", "area_ratio"),
        "bounds": pick((), (5.0, 5.0, 635.0, 475.0)),
        "undetected_images": pick("count", "drop_objects"),
        "detection_filter": pick("before_matching", "after_matching", "none"),
        "least_height": pick("quotient", "product"),
        "ranked_boxes": pick("own", "permuted_twice"),
        "max_detections": pick((), (1,), (3,)),
        "comparison": pick(">=", ">"),
        "equal_overlaps": pick("first", "last"),
        "used_objects": pick("next_best", "ignore_detection"),
        "curve_reading": pick("last_from_zero", "last_or_final", "first_or_final"),
        "miss_rate_floor": pick(0.0, 1e-10),
        "without_positives": pick("as_computed", "undefined"),
        "sums": pick("in_sequence", "numpy"),
        "overlap_epsilon": pick(0.0, 1e-6),
        "num_images": 0,
        "inverted_boxes": "error",
    }
    if base.clipping == "none":
        changes["standard_aspect_ratio"] = pick(0.41, 0.5)
        kinds = ("detections", "objects", "ignored_objects")
        changes["standardised"] = tuple(kind for kind in kinds if rng.random() < 0.5)
    chosen = rng.permutation(list(changes))[: int(rng.integers(1, len(changes)))]
    kept = {key: value for key, value in changes.items() if key in chosen}
    kept["num_images"], kept["inverted_boxes"] = 0, "error"
    if kept.get("standardised") and "standard_aspect_ratio" not in kept:
        kept["standard_aspect_ratio"] = 0.41
    if "standard_aspect_ratio" not in kept and not base.standard_aspect_ratio:
        kept.pop("standardised", None)
    subsets = []
    for subset in base.subsets:
        if rng.random() < 0.5:
            subset = subset._replace(  # noqa: PLW2901
                iou_threshold=pick(0.0, 0.25, 0.5, 0.75, 1.0),
                filter_expansion=pick(1.0, 1.25, 1.5),
                height=pick((50.0, math.inf), (30.0, 80.0), (0.0, 60.0), (20.0, math.inf)),
                images=pick((), ((0, 2),), ((1, 2), (3, 9))),
            )
        subsets.append(subset)
    return dataclasses.replace(base, subsets=tuple(subsets), **kept)


def random_problem(seed: int, protocol: MissRateProtocol) -> Problem:
    """0 to 6 images, some empty, some without detections."""
    rng = np.random.default_rng([seed, 2])
    count = int(rng.choice([0, 1, 1, 2, 3, 4, 6]))
    with_ids = rng.random() < 0.5
    ids = rng.permutation(100)[:count].tolist()
    visible = str(rng.choice(["none", "boxes", "fraction"]))
    pairs = [_image(rng, visible, protocol) for _ in range(count)]
    for (_, target), image_id in zip(pairs, ids, strict=True):
        if with_ids:
            target["image_id"] = image_id
    kwargs = {"box_format": "xywh"}
    return Problem([one for one, _ in pairs], [one for _, one in pairs], kwargs)


def _boxes(rng: np.random.Generator, count: int) -> np.ndarray:
    heights = rng.choice(HEIGHTS, count).astype(float)
    widths = np.where(rng.random(count) < 0.5, 0.5 * heights, rng.choice(HEIGHTS, count))
    corners = rng.choice([-10, 0, 5, 10, 20, 40, 600], (count, 2)).astype(float)
    return np.concatenate([corners, widths[:, None], heights[:, None]], axis=1)


def _image(
    rng: np.random.Generator, visible: str, protocol: MissRateProtocol
) -> tuple[dict[str, Any], dict[str, Any]]:
    objects = _boxes(rng, int(rng.integers(0, 6)))
    if len(objects) > 1 and rng.random() < 0.5:  # a large region around the others
        objects[0] = [0, 0, 200, 200]
    found = _boxes(rng, int(rng.integers(0, 8)))
    if len(objects) and len(found):  # near or on objects, shifted by parts of their width
        chosen = objects[rng.integers(0, len(objects), len(found))].copy()
        chosen[:, 0] += chosen[:, 2] * rng.choice([0, 0, 1 / 3, 0.5, 1.0], len(found))
        found = np.where(rng.random((len(found), 1)) < 0.7, chosen, found)
    if rng.random() < 0.4:  # two objects, equally far from a first detection, a second on one
        x, w = float(rng.choice([5, 20, 40])), 40.0
        side = np.array([[x, 20, w, 80], [x + w / 2, 20, w, 80]])
        objects = np.concatenate([objects, side])
        between = [x + w / 4, 20, w, 80]
        found = np.concatenate([found, [between, between, side[int(rng.integers(2))]]])
    target: dict[str, Any] = {
        "boxes": torch.from_numpy(objects),
        "labels": torch.zeros(len(objects), dtype=torch.int64),
        "ignore": torch.from_numpy(rng.random(len(objects)) < 0.3),
        "image_size": (480, SIZE),
    }
    if rng.random() < 0.8:
        target["occlusion"] = torch.from_numpy(rng.integers(0, 3, len(objects)))
    if visible == "boxes":
        part = objects.copy()
        part[:, 3] *= rng.choice([0.1, 0.2, 0.5, 0.65, 0.9, 1.0], len(part))
        part[rng.random(len(part)) < 0.4] = 0
        target["visible_boxes"] = torch.from_numpy(part)
    elif visible == "fraction":
        values = rng.choice([0.1, 0.2, 0.5, 0.65, 0.9, 1.0, np.nan], len(objects))
        target["visibility"] = torch.from_numpy(values)
    scores = rng.choice([0.05, 0.1, 0.25, 0.3, 0.5, 0.75, 0.9, 0.95], len(found))
    prediction = {
        "boxes": torch.from_numpy(found),
        "scores": torch.from_numpy(scores),
        "labels": torch.zeros(len(found), dtype=torch.int64),
    }
    return prediction, target
