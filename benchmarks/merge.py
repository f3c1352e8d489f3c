"""Time and memory of merging state files that together are larger than the memory allowed.

Files of generated detections are written, then evaluated in a new process: ``Metric.from_states``
reads and checks each file once, ``compute`` reads them again class by class. The limits are 1 GiB
for the whole process, torch included, and three times the time of the first pass. Beside them
stands the time of reading the bytes with their SHA-256 and nothing else. With ``--whole`` the same
files are held in memory, for comparison.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch.multiprocessing.spawn import spawn

from torch_vocmetrics import DetectionAP, Metric
from torch_vocmetrics.metrics import base

from .generated_records import generated_state
from .sharding import CLASSES, PER_IMAGE, forget_peak, resident

FILES, DETECTIONS = 20, 5_000_000
PEAK_LIMIT, TIME_LIMIT = 2**30, 3.0


def write(_: int, first: int, last: int, detections: int, protocol: str, folder: str) -> None:
    """Some of the files; in processes of their own, which end and leave no memory behind."""
    torch.set_num_threads(1)
    images = detections // PER_IMAGE
    for number in range(first, last):
        metric = DetectionAP(protocol, num_classes=CLASSES, label_ids=range(1, CLASSES + 1))
        state = generated_state(metric, images, PER_IMAGE, number, number * images)
        metric.load_state_dict(state).save_state(f"{folder}/{number:03}.npz")


def merge(_: int, folder: str, whole: bool) -> None:
    """Evaluate the files; seconds of both passes, the peak and the headline go into a file."""
    torch.set_num_threads(1)
    paths = sorted(Path(folder).glob("*.npz"))
    if whole:
        base.IN_MEMORY_BYTES = 2**62
    forget_peak()
    seconds = [time.perf_counter()]
    metric = Metric.from_states(*paths)
    seconds.append(time.perf_counter())
    result = metric.compute()
    seconds.append(time.perf_counter())
    found = [seconds[1] - seconds[0], seconds[2] - seconds[1], resident(peak=True)]
    torch.save([*found, result.headline, result.num_detections], f"{folder}/found")


def seconds_of_bytes(paths: list[Path]) -> float:
    start = time.perf_counter()
    for path in paths:
        with path.open("rb") as file:
            hashlib.file_digest(file, "sha256")
    return time.perf_counter() - start


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=FILES)
    parser.add_argument("--detections", type=int, default=DETECTIONS, help="of each file")
    parser.add_argument("--protocol", default="coco2017", help="one with COCO's area ranges")
    parser.add_argument("--whole", action="store_true", help="also hold all files in memory")
    args = parser.parse_args(arguments)
    print(f"{args.files} files x {args.detections:,} detections of {CLASSES} classes, "
          f"{args.protocol}")  # fmt: skip
    print("| way | files MiB | bytes and SHA-256 s | read and check s | compute s | total / read | "
          "peak MiB | holds |")  # fmt: skip
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    good, headlines = True, set()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(args.files):
            spawn(write, (number, number + 1, args.detections, args.protocol, folder))
        paths = sorted(Path(folder).glob("*.npz"))
        size = sum(path.stat().st_size for path in paths)
        for whole in (False, True) if args.whole else (False,):
            plain = seconds_of_bytes(paths)
            spawn(merge, (folder, whole))
            read, compute, peak, headline, count = torch.load(f"{folder}/found")
            headlines.add(headline)
            holds = peak < PEAK_LIMIT and read + compute <= TIME_LIMIT * read
            holds &= count == args.files * args.detections and len(headlines) == 1
            good &= holds or whole
            cells = [
                "in memory" if whole else "class by class",
                f"{size / 2**20:.0f}",
                f"{plain:.1f}",
                f"{read:.1f}",
                f"{compute:.1f}",
                f"{(read + compute) / read:.2f}",
                f"{peak / 2**20:.0f}",
                "-" if whole else "yes" if holds else "NO",
            ]
            print(f"| {' | '.join(cells)} |", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
