"""Caltech's 18 experiments on as many images as its test set has, from tensors, on one thread.

    python benchmarks/caltech_subsets.py

Prints the best of three runs and its parts, compares the result with the plain loops of the
reference bit by bit, and fails above 3 seconds or at any difference.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from typing import Any

import numpy as np
import torch

from torch_vocmetrics import LogAverageMissRate, reference
from torch_vocmetrics.protocols import MissRateProtocol, load_protocol

LIMIT_SECONDS = 3.0
IMAGES, BATCH = 4024, 64


def make_images(count: int, seed: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """About two objects and ten detections an image, as in Caltech's test set."""
    rng = np.random.default_rng(seed)
    predictions, targets = [], []
    for image in range(count):
        number = int(rng.poisson(1.9))
        height = np.exp(rng.uniform(np.log(15), np.log(200), number))
        corner = np.stack([rng.uniform(0, 600, number), rng.uniform(100, 300, number)], 1)
        ratio = rng.normal(0.41, 0.06, number)
        boxes = np.concatenate([corner, (ratio * height)[:, None], height[:, None]], 1)
        seen = boxes * np.array([1, 1, 1, 0.6])
        seen[rng.random(number) < 0.7] = 0
        near = boxes[rng.random(number) < 0.8]
        near = near + rng.normal(0, 0.06, near.shape) * near[:, [2, 3, 2, 3]]
        false = int(rng.poisson(8.5))
        size = np.exp(rng.uniform(np.log(20), np.log(150), false))
        far = np.stack(
            [rng.uniform(0, 600, false), rng.uniform(0, 400, false), 0.41 * size, size], 1
        )
        rows = np.abs(np.concatenate([near, far]))
        scores = np.concatenate([rng.beta(4, 2, len(near)), rng.beta(2, 4, false)])
        predictions.append(
            {
                "boxes": torch.from_numpy(rows).float(),
                "scores": torch.from_numpy(scores).float(),
                "labels": torch.zeros(len(rows), dtype=torch.int64),
            }
        )
        targets.append(
            {
                "boxes": torch.from_numpy(boxes).float(),
                "visible_boxes": torch.from_numpy(seen).float(),
                "labels": torch.zeros(number, dtype=torch.int64),
                "ignore": torch.from_numpy(rng.random(number) < 0.3),
                "image_id": image,
            }
        )
    return predictions, targets


def run(
    protocol: MissRateProtocol, predictions: list[dict[str, Any]], targets: list[dict[str, Any]]
) -> tuple[Any, float, float]:
    """The result, seconds of all updates, seconds of compute."""
    start = time.perf_counter()
    metric = LogAverageMissRate(protocol, box_format="xywh")
    for first in range(0, len(targets), BATCH):
        metric.update(predictions[first : first + BATCH], targets[first : first + BATCH])
    updated = time.perf_counter()
    result = metric.compute()
    return result, updated - start, time.perf_counter() - updated


def differing(one: Any, other: Any) -> list[str]:
    """Tensors of two results that are not equal to the last bit."""
    names = [field.name for field in dataclasses.fields(one)]
    tensors = [name for name in names if isinstance(getattr(one, name), torch.Tensor)]
    found = [
        name
        for name in tensors
        if not np.array_equal(getattr(one, name), getattr(other, name), equal_nan=True)
    ]
    for s, (a, b) in enumerate(zip(one.curves, other.curves, strict=True)):
        for name in ("fppi", "recall", "precision"):
            if not np.array_equal(getattr(a, name), getattr(b, name), equal_nan=True):
                found.append(f"curves[{s}].{name}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--images", type=int, default=IMAGES)
    parser.add_argument("--without-parity", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    protocol = load_protocol("miss_rate/caltech2012", MissRateProtocol)
    predictions, targets = make_images(args.images, 2012)
    timed = [run(protocol, predictions, targets) for _ in range(3)]
    result, updates, compute = min(timed, key=lambda row: row[1] + row[2])
    total = updates + compute
    print(
        f"{args.images:,} images, {result.num_detections:,} detections, "
        f"{len(protocol.subsets)} subsets, one thread: {total:.2f} s "
        f"(update {updates:.2f}, compute {compute:.2f}), limit {LIMIT_SECONDS:g} s"
    )
    found: list[str] = []
    if not args.without_parity:
        start = time.perf_counter()
        plain = reference.evaluate(protocol, predictions, targets, box_format="xywh")
        found = differing(result, plain)
        spent = time.perf_counter() - start
        print(f"parity with the plain loops ({spent:.1f} s): {', '.join(found) or 'every bit'}")
    return int(bool(found) or total > LIMIT_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
