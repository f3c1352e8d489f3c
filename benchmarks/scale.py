"""Time and memory from 10^5 to 10^7 detections, each size in a process of its own.

Blocks of 5,000 COCO-shaped images are fed again and again with scores that fall a little each time,
so that the inputs take the same memory at every size. Processor time on one thread is counted:
unlike the clock it does not grow while others use the machine. Exit code 1 if time is not linear
or memory goes beyond its limit.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks import machine
from benchmarks.competitors import BATCH, PeakMemory, first_images, ours
from benchmarks.detection import MEBI, Verdict
from benchmarks.workloads import BOXES_AN_IMAGE, COCO_IMAGES, coco_shaped
from torch_vocmetrics import DetectionAP

SIZES = (10**5, 10**6, 10**7)
MOST_GROWTH = 1.5
MOST_MEMORY = 2.0


def state_bytes(metric: Any) -> int:
    """Bytes of all tensors of the state."""
    tables = metric.state_dict()["records"]
    columns = [column for table in tables for column in table.values() if column is not None]
    return sum(column.numel() * column.element_size() for column in columns)


def measure(detections: int) -> dict[str, Any]:
    """One size, in this process."""
    torch.set_num_threads(1)
    images = detections // BOXES_AN_IMAGE
    block = min(images, COCO_IMAGES)
    workload = coco_shaped(block)
    batches = workload.batches(BATCH)
    ours(first_images(workload))
    metric: Any = DetectionAP("coco2017", num_classes=workload.num_classes)
    update_seconds = 0.0
    peak = PeakMemory()
    for _ in range(images // block):
        start = time.process_time()
        for predictions, targets in batches:
            metric.update(predictions, targets)
        update_seconds += time.process_time() - start
        for one in workload.predictions:
            one["scores"] *= 0.997
    update_peak = peak.above()
    start = time.process_time()
    result = metric.compute()
    compute_seconds = time.process_time() - start
    compute_peak = peak.above()
    state = state_bytes(metric)  # joins the state, which is no part of computing
    return {
        "detections": result.num_detections,
        "state_bytes": state,
        "update_seconds": update_seconds,
        "compute_seconds": compute_seconds,
        "update_peak_bytes": update_peak,
        "peak_bytes": compute_peak,
        "memory_is": peak.way,
        "average_precision": result.headline,
    }


def in_own_process(detections: int) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.scale", "--measure", str(detections)],
        cwd=Path(__file__).resolve().parents[1],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def row(found: dict[str, Any]) -> str:
    count, state = found["detections"], found["state_bytes"]
    million = count / 1e6
    return (
        f"{count:12,} {state / count:12.1f} {found['update_seconds'] / million:10.3f} "
        f"{found['compute_seconds'] / million:10.3f} {found['update_peak_bytes'] / MEBI:10.0f} "
        f"{found['peak_bytes'] / MEBI:10.0f} {found['update_peak_bytes'] / state:10.2f} "
        f"{found['peak_bytes'] / state:10.2f}"
    )


HEADER = (
    f"{'':>12} {'state bytes':>12} {'s/million':>10} {'s/million':>10} {'peak MiB':>10} "
    f"{'peak MiB':>10} {'peak/state':>10} {'peak/state':>10}\n"
    f"{'detections':>12} {'a detection':>12} {'update':>10} {'compute':>10} {'update':>10} "
    f"{'compute':>10} {'update':>10} {'compute':>10}"
)


def verdicts(rows: Sequence[dict[str, Any]]) -> list[Verdict]:
    """Of the largest size, beside the one before it."""
    each = [
        (found["update_seconds"] + found["compute_seconds"]) / found["detections"] for found in rows
    ]
    count = rows[-1]["detections"]
    memory = rows[-1]["peak_bytes"] / rows[-1]["state_bytes"]
    growth = each[-1] / each[-2] if len(each) > 1 else None
    return [
        Verdict(
            f"time a detection at {count:,} over that of the size before", growth, MOST_GROWTH, ""
        ),
        Verdict(f"peak memory of compute at {count:,} over the state", memory, MOST_MEMORY, ""),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES, help="detections")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.measure:
        print(json.dumps(measure(options.measure)))
        return 0
    print(HEADER)
    rows = []
    for size in options.sizes:
        rows.append(in_own_process(size))
        print(row(rows[-1]), flush=True)
    found = verdicts(rows)
    for verdict in found:
        print(verdict.line())
    judged = tuple(options.sizes) == SIZES
    if not judged:
        print("the limits are those of the whole run; here they are not judged")
    content = {
        "machine": machine.description(),
        "rows": rows,
        "judged": judged,
        "verdicts": [verdict.as_dict() for verdict in found],
    }
    machine.save(options.json or machine.results_path("scale", "cpu"), content)
    return int(judged and any(verdict.passed is False for verdict in found))


if __name__ == "__main__":
    sys.exit(main())
