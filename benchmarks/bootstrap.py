"""Time and memory of 1,000 bootstrap resamples, on one thread.

Real detections on VOC2007's test set (where the data are beside this checkout), and COCO-shaped
images with 500,000 detections at ten IoU thresholds. Processor time is counted: unlike the clock it
does not grow while others use the machine. The numbers of the images as they are must be those of
``compute``. Exit code 1 if a limit is missed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks import machine
from benchmarks.competitors import PeakMemory
from benchmarks.detection import MEBI, Verdict
from benchmarks.workloads import COCO_IMAGES, Workload, coco_shaped, voc2007_detections
from torch_vocmetrics import DetectionAP
from torch_vocmetrics.analysis import bootstrap

RESAMPLES = 1000
MOST_SECONDS = {"voc2007": 10.0, "voc2012": 10.0, "coco2017": 120.0}
MOST_MEBI = 500.0


def measure(workload: Workload, protocol: str, resamples: int) -> dict[str, Any]:
    """One data set under one protocol."""
    metric: Any = DetectionAP(protocol, num_classes=workload.num_classes)
    for predictions, targets in workload.batches(workload.batch):
        metric.update(predictions, targets)
    headline, records = metric.compute().headline, metric.records()
    bootstrap(records, num_resamples=2)
    peak, start = PeakMemory(), time.process_time()
    found = bootstrap(records, num_resamples=resamples)
    seconds = time.process_time() - start
    interval = found[found.name[0]]
    return {
        "workload": workload.name,
        "protocol": protocol,
        "detections": workload.num_detections,
        "resamples": resamples,
        "seconds": seconds,
        "peak_bytes": peak.above(),
        "estimate": interval.estimate,
        "lower": interval.lower,
        "upper": interval.upper,
        "difference": abs(interval.estimate - headline),
    }


def verdicts(row: dict[str, Any]) -> list[Verdict]:
    """Time, memory and equality of one measurement."""
    what = f"{row['protocol']}, {row['detections']:,} detections, {row['resamples']} resamples"
    return [
        Verdict(f"processor time, {what}", row["seconds"], MOST_SECONDS[row["protocol"]], "s"),
        Verdict(f"peak memory, {what}", row["peak_bytes"] / MEBI, MOST_MEBI, "MiB"),
        Verdict(f"difference to compute, {what}", row["difference"], 1e-12, ""),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--resamples", type=int, default=RESAMPLES)
    parser.add_argument("--images", type=int, default=COCO_IMAGES, help="COCO-shaped images")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    cases = [(coco_shaped(options.images), "coco2017")]
    real = voc2007_detections()
    if real is not None:
        cases += [(real, "voc2007"), (real, "voc2012")]
    rows, found = [], []
    for workload, protocol in cases:
        rows.append(measure(workload, protocol, options.resamples))
        found += verdicts(rows[-1])
        for verdict in found[-3:]:
            print(verdict.line(), flush=True)
    content = {
        "machine": machine.description(),
        "rows": rows,
        "verdicts": [verdict.as_dict() for verdict in found],
    }
    machine.save(options.json or machine.results_path("bootstrap", "cpu"), content)
    return int(any(verdict.passed is False for verdict in found))


if __name__ == "__main__":
    sys.exit(main())
