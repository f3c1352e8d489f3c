"""Masks as run lengths, which results files have, against faster-coco-eval: CPU seconds in turn.

    python -m benchmarks.run_lengths

Prints a row for each size of images, and fails if numbers differ or a limit is missed.
"""

# ruff: noqa: PLC0415 - the peer may be missing
from __future__ import annotations

import argparse
import contextlib
import copy
import io
import itertools
import statistics
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks import machine
from benchmarks.competitors import NUMBERS
from benchmarks.masks import apart
from torch_vocmetrics import DetectionAP

LIMIT, BATCH = 0.6, 8
FORMS = ("run lengths", "uncompressed", "polygons")
"""In which form the masks of the ground truth come; results have compressed run lengths."""
POLYGON_CORNERS = 24


class Scenes(NamedTuple):
    """Ellipses in images of a size; each detection lies about an object."""

    height: int
    width: int
    found: int
    true: int
    classes: int
    images: int

    def rows(self, seed: int = 0) -> tuple[list[Any], list[Any]]:
        """Predictions and targets with compressed run lengths."""
        rng = np.random.default_rng(seed)
        sides: tuple[list[Any], list[Any]] = ([], [])
        for _ in range(self.images):
            for rows, side in zip(sides, self._image(rng), strict=True):
                rows.append(side)
        return sides

    def _image(self, rng: np.random.Generator) -> tuple[dict[str, Any], dict[str, Any]]:
        size = np.array((self.height, self.width))
        centres = rng.uniform((20, 20), size - 20, (self.true, 2))
        radii = np.exp(rng.normal(np.log(self.height / 12), 0.6, (self.true, 2)))
        radii = radii.clip(4, self.height / 2.5)
        labels = rng.integers(0, self.classes, self.true)
        owner, noise = rng.integers(0, self.true, self.found), rng.random(self.found) * 0.6
        spread = rng.normal(0, 0.3, (2, self.found, 2)) * noise[:, None]
        near = (centres[owner] + spread[0] * radii[owner]).clip(1, size - 2)
        guess = np.where(
            rng.random(self.found) < 0.85,
            labels[owner],
            rng.integers(0, self.classes, self.found),
        )
        scores = 0.5 * rng.random(self.found) + 0.5 * (1 - noise)
        sizes = radii[owner] * np.exp(spread[1])
        found = [self._ellipse(*one) for one in zip(near, sizes, strict=True)]
        true = [self._ellipse(*one) for one in zip(centres, radii, strict=True)]
        return (
            {
                "masks": found,
                "scores": torch.from_numpy(scores.astype(np.float32)),
                "labels": torch.from_numpy(guess),
            },
            {
                "masks": true,
                "labels": torch.from_numpy(labels),
                "image_size": (self.height, self.width),
            },
        )

    def _ellipse(self, centre: np.ndarray, radii: np.ndarray) -> dict[str, Any]:
        from pycocotools import mask as api

        mask = np.zeros((self.height, self.width), np.uint8, order="F")
        low = np.maximum(centre - radii, 0).astype(int)
        high = np.minimum(centre + radii + 1, mask.shape).astype(int)
        y, x = np.ogrid[low[0] : high[0], low[1] : high[1]]
        inside = ((y - centre[0]) / radii[0]) ** 2 + ((x - centre[1]) / radii[1]) ** 2 <= 1
        mask[low[0] : high[0], low[1] : high[1]] = inside
        encoded: dict[str, Any] = api.encode(mask)
        return encoded


SIZES = (
    Scenes(1080, 1920, 50, 20, 5, 24),
    Scenes(480, 640, 30, 7, 5, 150),
    Scenes(512, 512, 200, 60, 3, 16),
)


def in_form(masks: list[Any], form: str) -> list[Any]:
    """Masks of compressed run lengths in another form; polygons are ellipses in the same boxes."""
    from pycocotools import mask as api

    if form == "uncompressed":
        return [{"size": [*one["size"]], "counts": _runs(api.decode(one))} for one in masks]
    if form == "polygons":
        angles = np.linspace(0, 2 * np.pi, POLYGON_CORNERS, endpoint=False)
        circle = np.stack([np.cos(angles), np.sin(angles)], axis=1) / 2 + 0.5
        boxes = [api.toBbox(one) for one in masks]
        outlines = [np.round(box[:2] + circle * box[2:], 2) for box in boxes]
        return [[outline.reshape(-1).tolist()] for outline in outlines]
    return masks


def _runs(mask: np.ndarray) -> list[int]:
    """Lengths of the runs of a mask column by column, the first of them outside."""
    pixels = mask.reshape(-1, order="F")
    changes = np.flatnonzero(pixels[1:] != pixels[:-1]) + 1
    runs = np.diff(np.concatenate([[0], changes, [pixels.size]])).tolist()
    return [0, *runs] if pixels[0] else runs


def ours(predictions: list[Any], targets: list[Any], classes: int) -> list[float]:
    metric: Any = DetectionAP("coco2017_segm", num_classes=classes)
    for start in range(0, len(predictions), BATCH):
        part = slice(start, start + BATCH)
        metric.update(predictions[part], targets[part])
    numbers = metric.compute().to_dict()
    return [numbers[name] for name in NUMBERS]


def data_set(
    predictions: list[Any], targets: list[Any], classes: int
) -> tuple[dict[str, Any], list[Any]]:
    """The same as COCO's dicts, with areas, which our metric counts itself."""

    images, annotations, results = [], [], []
    for number, (found, true) in enumerate(zip(predictions, targets, strict=True), 1):
        height, width = true["image_size"]
        images.append({"id": number, "height": height, "width": width})
        areas = [rle_area(one, height, width) for one in true["masks"]]
        for mask, label, area in zip(true["masks"], true["labels"].tolist(), areas, strict=True):
            entry = {"id": len(annotations) + 1, "image_id": number, "category_id": label + 1}
            entry |= {"segmentation": mask, "area": area, "iscrowd": 0, "bbox": [0, 0, 1, 1]}
            annotations.append(entry)
        columns = found["masks"], found["scores"].tolist(), found["labels"].tolist()
        for mask, score, label in zip(*columns, strict=True):
            entry = {"image_id": number, "category_id": label + 1}
            results.append(entry | {"segmentation": mask, "score": score})
    categories = [{"id": k + 1, "name": str(k)} for k in range(classes)]
    return {"images": images, "annotations": annotations, "categories": categories}, results


def rle_area(mask: Any, height: int, width: int) -> int:
    from pycocotools import mask as api

    compressed = isinstance(mask, dict) and isinstance(mask["counts"], bytes)
    return int(np.sum(api.area(mask if compressed else api.frPyObjects(mask, height, width))))


def theirs(truth: dict[str, Any], results: list[Any]) -> list[float]:
    from faster_coco_eval import COCO, COCOeval_faster

    with contextlib.redirect_stdout(io.StringIO()):
        known = COCO(truth)
        judge = COCOeval_faster(known, known.loadRes(results), "segm")
        judge.evaluate()
        judge.accumulate()
        judge.summarize()
    return [float(value) for value in judge.stats[: len(NUMBERS)]]


def compare(scenes: Scenes, form: str, rounds: int) -> dict[str, Any]:
    """CPU seconds of both in turn, after a round that warms up."""
    predictions, targets = scenes.rows()
    for true in targets:
        true["masks"] = in_form(true["masks"], form)
    content = data_set(predictions, targets, scenes.classes)
    times, numbers = [], ([0.0], [0.0])
    for _ in range(rounds + 1):
        truth, results = copy.deepcopy(content)
        start = time.process_time()
        mine = ours(predictions, targets, scenes.classes)
        middle = time.process_time()
        numbers = mine, theirs(truth, results)
        times.append((middle - start, time.process_time() - middle))
    times = times[1:]
    return {
        "images": scenes._asdict(),
        "form": form,
        "ours_cpu_seconds": statistics.median(mine for mine, _ in times),
        "cpu_seconds": statistics.median(other for _, other in times),
        "ratio": statistics.median(mine / other for mine, other in times),
        "parity": apart(*numbers) <= 1e-12,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, help="at most so many of each size")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    print("| images | ground truth | ours, CPU s | faster-coco-eval, CPU s | ratio | numbers |")
    print("|---" * 6 + "|")
    for scenes, form in itertools.product(SIZES, FORMS):
        few = scenes._replace(images=min(options.images or scenes.images, scenes.images))
        row = compare(few, form, options.rounds)
        rows.append(row)
        print(
            f"| {few.images} of {few.height} x {few.width}, {few.found} x {few.true} masks "
            f"| {form} | {row['ours_cpu_seconds']:.3f} | {row['cpu_seconds']:.3f} "
            f"| {row['ratio']:.2f} | {'equal' if row['parity'] else 'DIFFER'} |",
            flush=True,
        )
    judged = options.images is None
    content = {"machine": machine.description(), "judged": judged, "limit": LIMIT, "rows": rows}
    machine.save(options.json or machine.results_path("run_lengths", "cpu"), content)
    parity = all(row["parity"] for row in rows)
    passed = not judged or all(row["ratio"] <= LIMIT for row in rows)
    print("equal numbers" if parity else "MISSED parity", "" if passed else "MISSED the limit")
    return 0 if parity and passed else 1


if __name__ == "__main__":
    sys.exit(main())
