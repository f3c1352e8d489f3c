"""Time and memory of ``compute`` over ranks: all records on all ranks against class by class.

Every rank holds the same number of generated detections of 80 classes. Both ways run by turns, each
time in new processes; the median counts, and of the ranks the slowest and the largest. The peak is
the largest resident size during ``compute`` above that of the process before it had any state, so
that it contains the state; buffers are mapped one by one, so that freed ones do not count. Both
ways must give the same numbers.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import spawn

from torch_vocmetrics import DetectionAP
from torch_vocmetrics.testing import differences

from .generated_records import bytes_of, generated_state

RANKS, RUNS, CLASSES, PER_IMAGE = (1, 2, 4), 3, 80, 100
DETECTIONS = 2_500_000
PEAK_LIMIT, TIME_LIMIT = 2.5, 0.6
WAYS = ("none", "class")


def resident(peak: bool = False) -> int:
    """Bytes of this process in memory, or the most since :func:`forget_peak`."""
    key = "VmHWM:" if peak else "VmRSS:"
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def new_metric() -> DetectionAP[Any]:
    return DetectionAP("coco2017", num_classes=CLASSES, label_ids=range(1, CLASSES + 1))


def write(rank: int, detections: int, folder: str) -> None:
    """The state of a rank, in a process of its own, so that nothing of the generator is left."""
    images, metric = detections // PER_IMAGE, new_metric()
    state = generated_state(metric, images, PER_IMAGE, rank, rank * images)
    metric.load_state_dict(state).save_state(f"{folder}/{rank}.npz")
    if rank == 0:
        torch.save([bytes_of(state), state["records"][0]["class_counts"]], f"{folder}/size")


def run(rank: int, ranks: int, way: str, folder: str) -> None:
    """Compute once; the slowest time, the largest peak and the numbers go into a file."""
    torch.set_num_threads(1)
    store = f"file://{folder}/store"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=ranks)
    metric = new_metric()
    metric.load_state_dict(generated_state(metric, 10, PER_IMAGE, rank, rank * 10))
    metric.compute(shard_by=way)  # whatever is made once
    metric.reset()
    before = resident()
    metric.load_state(f"{folder}/{rank}.npz")
    dist.barrier()
    forget_peak()
    start = time.perf_counter()
    result = metric.compute(shard_by=way)
    found = torch.tensor([time.perf_counter() - start, resident(peak=True) - before])
    dist.all_reduce(found, dist.ReduceOp.MAX)
    if rank == 0:
        torch.save([*found.tolist(), result.to_dict()], f"{folder}/found")
    dist.barrier()
    dist.destroy_process_group()


def measured(ranks: int, runs: int, folder: str) -> tuple[dict[str, float], dict[str, float], bool]:
    """Seconds and peak of each way, and whether the numbers are the same."""
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    peaks: dict[str, list[float]] = {way: [] for way in WAYS}
    numbers = []
    for _ in range(runs):
        for way in WAYS:
            spawn(run, (ranks, way, folder), ranks)
            Path(folder, "store").unlink(missing_ok=True)
            elapsed, peak, found = torch.load(f"{folder}/found")
            seconds[way].append(elapsed)
            peaks[way].append(peak)
            numbers.append(found)
    same = all(not list(differences(numbers[0], one)) for one in numbers)
    medians = {way: statistics.median(column) for way, column in seconds.items()}
    return medians, {way: max(column) for way, column in peaks.items()}, same


def row(ranks: int, detections: int, runs: int, folder: str) -> tuple[str, bool]:
    """A line of the table, and whether the limits hold."""
    seconds, peaks, good = measured(ranks, runs, folder)
    state, counts = torch.load(f"{folder}/size")
    limit = PEAK_LIMIT * state + state * ranks * int(counts.max()) / detections
    share = seconds["class"] / seconds["none"]
    if ranks > 2:  # fewer ranks have no limits
        good &= share <= TIME_LIMIT and peaks["class"] <= limit
    sizes = [f"{size / 2**20:.0f}" for size in (state, peaks["none"], peaks["class"], limit)]
    times = [f"{value:.2f}" for value in (seconds["none"], seconds["class"], share)]
    cells = [str(ranks), sizes[0], *times, *sizes[1:], "yes" if good else "NO"]
    return f"| {' | '.join(cells)} |", good


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--detections", type=int, default=DETECTIONS, help="of each rank")
    parser.add_argument("--ranks", type=int, nargs="+", default=RANKS)
    parser.add_argument("--runs", type=int, default=RUNS)
    args = parser.parse_args(arguments)
    print(f"{args.detections:,} detections of {CLASSES} classes a rank, gloo, MiB and seconds")
    print("| ranks | state | gather s | by class s | ratio | gather peak | by class peak | limit | "
          "holds |")  # fmt: skip
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    os.environ["MALLOC_MMAP_THRESHOLD_"] = str(2**17)  # the C library's default, but kept
    good = True
    with tempfile.TemporaryDirectory() as folder:
        spawn(write, (args.detections, folder), max(args.ranks))
        for ranks in args.ranks:
            line, holds = row(ranks, args.detections, args.runs, folder)
            print(line, flush=True)
            good &= holds
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
