"""CPU seconds of every kind of metric: idle, beside spinning processes, and with 16 threads.

    python -m benchmarks.situations

Each kind runs in a process of its own in each situation. Fails if a metric takes more than 1.3
times the CPU seconds that it takes idle with one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import machine
from benchmarks.caltech_subsets import make_images
from benchmarks.confusion import K, scene
from benchmarks.load import SITUATIONS, spinners
from benchmarks.run_lengths import SIZES, ours
from benchmarks.workloads import coco_shaped
from torch_vocmetrics import DetectionAP, LogAverageMissRate, MeanIoU, Metric

LIMIT = 1.3
ROOT = Path(__file__).resolve().parents[1]


def boxes(images: int) -> Callable[[], Any]:
    batches = coco_shaped(images).batches(32)

    def run() -> None:
        metric: Any = DetectionAP("coco2017", num_classes=80)
        for predictions, targets in batches:
            metric.update(predictions, targets)
        metric.compute().to_dict()

    return run


def masks(images: int) -> Callable[[], Any]:
    scenes = SIZES[1]._replace(images=max(images // 20, 1))
    predictions, targets = scenes.rows()
    return lambda: ours(predictions, targets, scenes.classes)


def label_maps(images: int) -> Callable[[], Any]:
    pairs = [scene(number) for number in range(max(images // 30, 1))]
    predicted, truth = (torch.from_numpy(np.stack(side)) for side in zip(*pairs, strict=True))
    return lambda: MeanIoU("voc2012", num_classes=K).update(predicted, truth).compute()


def miss_rate(images: int) -> Callable[[], Any]:
    rows = make_images(images, 0)
    return lambda: LogAverageMissRate("caltech2012", box_format="xywh").update(*rows).compute()


def states(images: int) -> Callable[[], Any]:
    """What a rank does to the states of all ranks."""
    metric: Any = DetectionAP("coco2017", num_classes=80)
    workload = coco_shaped(images)
    metric.update(workload.predictions, workload.targets)
    parts: list[Metric[Any]] = [metric] * 4
    return lambda: DetectionAP("coco2017", num_classes=80).merge(*parts).state_dict()


KINDS = {
    "boxes": boxes,
    "masks": masks,
    "mean IoU": label_maps,
    "miss rate": miss_rate,
    "merged states": states,
}


def measure(kind: str, images: int, threads: int) -> float:
    """Median of the CPU seconds of some runs in this process, after one that warms up."""
    torch.set_num_threads(threads)
    run = KINDS[kind](images)
    seconds = []
    for _ in range(4):
        start = time.process_time()
        run()
        seconds.append(time.process_time() - start)
    return statistics.median(seconds[1:])


def ask(kind: str, images: int, threads: int) -> float:
    """:func:`measure` in a process of its own."""
    arguments = ["--kind", kind, "--images", str(images), "--threads", str(threads)]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    command = [sys.executable, "-m", "benchmarks.situations", *arguments]
    ran = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return float(json.loads(ran.stdout))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--kind", choices=KINDS, help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, default=1, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.kind:
        print(json.dumps(measure(options.kind, options.images, options.threads)))
        return 0
    rows: dict[str, dict[str, float]] = {kind: {} for kind in KINDS}
    for name, situation in SITUATIONS.items():
        with spinners(situation.busy):
            for kind in KINDS:
                rows[kind][name] = ask(kind, options.images, situation.threads)
    print("| CPU seconds |", " | ".join(SITUATIONS), "| most over idle |")
    print("|---" * (len(SITUATIONS) + 2) + "|")
    worst = {kind: max(row.values()) / max(row["idle"], 1e-9) for kind, row in rows.items()}
    for kind, row in rows.items():
        print(f"| {kind} |", " | ".join(f"{row[name]:.3f}" for name in SITUATIONS), end=" ")
        print(f"| {worst[kind]:.2f} |")
    content = {"machine": machine.description(), "limit": LIMIT, "images": options.images}
    content |= {"cpu_seconds": rows, "most_over_idle": worst}
    machine.save(options.json or machine.results_path("situations_of_metrics", "cpu"), content)
    return 0 if max(worst.values()) <= LIMIT or options.images < 1000 else 1


if __name__ == "__main__":
    sys.exit(main())
