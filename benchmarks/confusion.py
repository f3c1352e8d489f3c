"""mIoU against index + void + ``numpy.bincount``: seconds for 512 x 512 maps, and for logits.

Ours and the other run in turn in one process and give the same matrix. Limits: uint8 maps 1.0 of
NumPy; logits, argmax included, 1.2 of ``logits.argmax(1)`` alone. Exit code 1 if one is missed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import torch

from benchmarks import machine
from benchmarks.competitors import PeakMemory
from torch_vocmetrics import MeanIoU

K, SIDE, VOID, BATCH = 21, 512, 255, 8
MAPS_LIMIT, LOGITS_LIMIT = 1.0, 1.2


def scene(number: int) -> tuple[np.ndarray, np.ndarray]:
    """Truth with regions and void borders, and a prediction that is right in most places."""
    rng = np.random.default_rng([number, 3])
    truth = np.zeros((SIDE, SIDE), dtype=np.uint8)
    for _ in range(12):
        top, left = rng.integers(0, SIDE - 60, 2)
        height, width = rng.integers(20, 250, 2)
        truth[top : top + height, left : left + width] = rng.integers(1, K)
    predicted = np.roll(truth, tuple(rng.integers(-6, 7, 2)), (0, 1))
    predicted = np.where(rng.random(truth.shape) < 0.03, rng.integers(0, K, truth.shape), predicted)
    edges = (np.diff(truth.astype(int), axis=0, prepend=0) != 0) | (
        np.diff(truth.astype(int), axis=1, prepend=0) != 0
    )
    truth[edges] = VOID
    return predicted.astype(np.uint8), truth


def by_numpy(pairs: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """The form that toolboxes use: choose what is not void, index, count."""
    total = np.zeros((K, K), dtype=np.int64)
    for predicted, truth in pairs:
        known = truth != VOID
        index = truth[known].astype(np.int64) * K + predicted[known]
        total += np.bincount(index, minlength=K * K).reshape(K, K)
    return total


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = run()
    return time.perf_counter() - start, result


def in_turn(first: Callable[[], Any], second: Callable[[], Any], rounds: int) -> dict[str, Any]:
    """Medians of both and the median of their ratios; results of the last round."""
    times: list[tuple[float, float]] = []
    results: tuple[Any, Any] = (None, None)
    for _ in range(rounds + 1):
        a, b = timed(first), timed(second)
        times.append((a[0], b[0]))
        results = (a[1], b[1])
    times = times[1:]  # the first round warms up
    return {
        "ours_seconds": statistics.median(a for a, _ in times),
        "seconds": statistics.median(b for _, b in times),
        "ratio": statistics.median(a / b for a, b in times),
        "results": results,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    torch.set_num_threads(1)
    pairs = [scene(number) for number in range(args.images)]
    predicted = torch.from_numpy(np.stack([one[0] for one in pairs]))
    truth = torch.from_numpy(np.stack([one[1] for one in pairs]))

    def ours() -> np.ndarray:
        metric = MeanIoU("voc2012", num_classes=K)
        for start in range(0, args.images, BATCH):
            part = slice(start, start + BATCH)
            metric.update(predicted[part], truth[part])
        return metric.compute().confusion_matrix.numpy()

    maps = in_turn(ours, lambda: by_numpy(pairs), args.rounds)
    equal = np.array_equal(*maps.pop("results"))
    memory = PeakMemory()
    ours()
    peak = memory.above()

    logits = torch.randn(BATCH, K, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    some = truth[:BATCH]

    def from_logits() -> np.ndarray:
        metric = MeanIoU("voc2012", num_classes=K).update(logits, some)
        return metric.compute().confusion_matrix.numpy()

    scores = in_turn(from_logits, lambda: logits.argmax(1), args.rounds)
    mine, labels = scores.pop("results")
    chosen = [(a.astype(np.uint8), b) for a, b in zip(labels.numpy(), some.numpy(), strict=True)]
    equal = equal and np.array_equal(mine, by_numpy(chosen))
    for what, entry, limit in (
        (f"{args.images} maps of {SIDE} x {SIDE}, numpy.bincount", maps, MAPS_LIMIT),
        (f"logits {BATCH} x {K} x {SIDE} x {SIDE}, argmax alone", scores, LOGITS_LIMIT),
    ):
        print(
            f"{what}: ours {1e3 * entry['ours_seconds']:.1f} ms, theirs "
            f"{1e3 * entry['seconds']:.1f} ms, ratio {entry['ratio']:.3f} (limit {limit})"
        )
    print(f"peak memory above the maps: {peak / 2**20:.1f} MiB")
    print(f"matrices equal: {equal}")
    content = machine.description() | {"maps": maps, "logits": scores, "peak_bytes": peak}
    machine.save(machine.results_path("confusion", "cpu"), content | {"equal": equal})
    fine = equal and maps["ratio"] <= MAPS_LIMIT and scores["ratio"] <= LOGITS_LIMIT
    return int(not fine)


if __name__ == "__main__":
    sys.exit(main())
