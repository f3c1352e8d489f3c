"""Time of a sync of 500,000 match records over 4 gloo ranks, beside a raw all_gather.

Prints one line each and exits with 1 unless the median of 20 syncs is at most the larger of 50 ms
and twice the raw all_gather of the same padded bytes. Before each run there is a barrier; putting
the gathered images in order and ranking are timed apart. Where torchmetrics is installed, the sync
of its mAP on the same detections stands beside it, in the same processes; and both must count the
same detections. Then comes the table of :mod:`.sharding`: the gather against class by class.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import spawn

from torch_vocmetrics import DetectionAP
from torch_vocmetrics.distributed import sync
from torch_vocmetrics.states.plain import to_bytes

from . import sharding

RANKS, RUNS, LIMIT_S = 4, 20, 0.05
RECORDS, IMAGES, CLASSES = 500_000, 5_000, 80
TORCHMETRICS_RUNS, TORCHMETRICS_IMAGES = 3, 50  # images a rank: all of them take minutes


def scenes(rank: int, images: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Images of one rank: RECORDS / IMAGES detections and ten objects each."""
    rng = torch.Generator().manual_seed(rank)
    per_image = RECORDS // IMAGES

    def rows(count: int) -> dict[str, torch.Tensor]:
        corner = torch.rand(count, 2, generator=rng) * 500
        return {
            "boxes": torch.cat([corner, corner + 10 + torch.rand(count, 2, generator=rng) * 90], 1),
            "labels": torch.randint(0, CLASSES, (count,), generator=rng),
        }

    found = [
        rows(per_image) | {"scores": torch.rand(per_image, generator=rng)} for _ in range(images)
    ]
    true = [rows(10) | {"image_id": image * RANKS + rank} for image in range(images)]
    return found, true


def timed(runs: int, **works: Callable[[], Any]) -> dict[str, float]:
    """Seconds of each work, by turns so that a busy machine treats all alike."""
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(runs):
        for name, work in works.items():
            dist.barrier()
            start = time.perf_counter()
            work()
            seconds[name].append(time.perf_counter() - start)
    return {name: slowest_median(column) for name, column in seconds.items()}


def slowest_median(seconds: list[float]) -> float:
    """Median over the runs of the slowest rank."""
    gathered: list[Any] = [None] * RANKS
    dist.all_gather_object(gathered, seconds)
    return statistics.median(max(column) for column in zip(*gathered, strict=True))


def raw_all_gather(payload: torch.Tensor) -> Callable[[], None]:
    longest = torch.tensor([payload.numel()])
    dist.all_reduce(longest, dist.ReduceOp.MAX)
    padded = torch.zeros(int(longest), dtype=torch.uint8)
    padded[: payload.numel()] = payload
    out = list(torch.empty(RANKS, int(longest), dtype=torch.uint8).unbind())
    return lambda: dist.all_gather(out, padded)


def ours(rank: int) -> dict[str, float]:
    images = IMAGES // RANKS
    metric = DetectionAP("coco2017", num_classes=CLASSES)
    metric.update(*scenes(rank, images))
    metric.state_dict()  # matched now, so that the sync finds records
    payload = to_bytes(metric.state_dict())
    identity = metric._identity()
    seconds = timed(
        RUNS,
        raw=raw_all_gather(payload),
        sync=lambda: sync(metric.state_dict(), identity),
        union=lambda: metric._synced(None, None),
    )
    seconds |= timed(1, compute=metric.compute)
    detections = metric.compute().num_detections
    return seconds | {"bytes": payload.numel(), "detections": detections}


def theirs(rank: int) -> dict[str, float]:
    """torchmetrics' mAP on the first images of each rank."""
    from torchmetrics.detection import MeanAveragePrecision  # noqa: PLC0415 - may be missing

    found, true = scenes(rank, TORCHMETRICS_IMAGES)
    metric = MeanAveragePrecision()
    metric.update(found, [{key: one[key] for key in ("boxes", "labels")} for one in true])

    def work() -> None:
        metric.sync()
        metric.unsync()

    seconds = timed(TORCHMETRICS_RUNS, sync=work)
    metric.sync()
    return seconds | {"detections": sum(len(rows) for rows in metric.detection_scores)}


def run(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/s", rank=rank, world_size=RANKS)
    mine = ours(rank)
    try:
        peer = theirs(rank)
    except ImportError:
        peer = {}
    if rank == 0:
        torch.save([mine, peer], f"{folder}/found")
    dist.barrier()
    dist.destroy_process_group()


def main() -> int:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as folder:
        spawn(run, (folder,), RANKS)
        mine, peer = torch.load(f"{folder}/found")
    limit = max(LIMIT_S, 2 * mine["raw"])
    good = mine["sync"] <= limit and mine["detections"] == RECORDS
    print(f"{RANKS} gloo ranks, {RECORDS:,} records, {mine['bytes'] / 2**20:.1f} MiB a rank")
    print(f"raw all_gather of the padded bytes  {1e3 * mine['raw']:8.1f} ms  (median of {RUNS})")
    print(f"sync                                {1e3 * mine['sync']:8.1f} ms  limit "
          f"{1e3 * limit:.1f} ms: {'holds' if good else 'MISSED'}")  # fmt: skip
    print(f"sync, and one metric in order       {1e3 * mine['union']:8.1f} ms")
    print(f"compute, all of it, once            {1e3 * mine['compute']:8.1f} ms")
    if peer:
        share = peer["detections"] / RECORDS
        print(f"torchmetrics' mAP sync of {share:.0%} of them {1e3 * peer['sync']:8.1f} ms  "
              f"(median of {TORCHMETRICS_RUNS})")  # fmt: skip
        good &= peer["detections"] == RANKS * TORCHMETRICS_IMAGES * RECORDS // IMAGES
    else:
        print("torchmetrics is not installed")
    print()
    return max(0 if good else 1, sharding.main([]))


if __name__ == "__main__":
    sys.exit(main())
