"""Memory over many epochs of ``update``, ``compute``, ``reset`` and a state file: it stays flat.

Prints the slope of the resident size by least squares, after the first fifth of the epochs, and
exits with 1 if it is above ``LIMIT`` bytes an epoch. With ``--ranks`` the epochs are those of a
process group, whose ranks compute by turns from all records and class by class.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import spawn

from torch_vocmetrics import DetectionAP, Metric

from .sharding import WAYS, resident
from .sync import scenes

EPOCHS, IMAGES, LIMIT = 500, 20, 4096


def soak(epochs: int, folder: str, rank: int = 0) -> list[int]:
    """The resident size after each epoch."""
    metric: Metric[Any] = DetectionAP(["coco2017", "voc2007"], num_classes=80)
    found, true = scenes(rank, IMAGES)
    sizes, path = [], f"{folder}/state{rank}.npz"
    for epoch in range(epochs):
        for start in range(0, IMAGES, 4):
            metric.update(found[start : start + 4], true[start : start + 4])
        metric.save_state(path)
        metric.compute(shard_by=WAYS[epoch % 2])
        metric.reset().load_state(path).reset()
        release()
        sizes.append(resident())
    return sizes


def release() -> None:
    """Give freed memory back, where the C library can, so that only what is held is measured."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


def run(rank: int, ranks: int, epochs: int, folder: str) -> None:
    torch.set_num_threads(1)
    if ranks > 1:
        store = f"file://{folder}/store"
        dist.init_process_group("gloo", init_method=store, rank=rank, world_size=ranks)
    torch.save(soak(epochs, folder, rank), f"{folder}/sizes{rank}")
    if ranks > 1:
        dist.destroy_process_group()


def slope(sizes: list[int]) -> float:
    """Bytes an epoch, without the first fifth, in which caches are filled."""
    later = np.array(sizes[len(sizes) // 5 :], dtype=np.float64)
    return float(np.polyfit(np.arange(len(later)), later, 1)[0])


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--ranks", type=int, default=1)
    args = parser.parse_args(arguments)
    # gloo's threads allocate too, each from an arena of its own, which the C library keeps: that
    # grows in steps of some MiB whatever the number of epochs, and would hide a leak.
    os.environ.setdefault("MALLOC_ARENA_MAX", "1")
    with tempfile.TemporaryDirectory() as folder:
        spawn(run, (args.ranks, args.epochs, folder), args.ranks)
        every = [torch.load(Path(folder, f"sizes{rank}")) for rank in range(args.ranks)]
    good = True
    for rank, sizes in enumerate(every):
        bytes_an_epoch = slope(sizes)
        holds = bytes_an_epoch <= LIMIT
        good &= holds
        first, last = (size / 2**20 for size in (sizes[len(sizes) // 5], sizes[-1]))
        print(f"rank {rank}: {args.epochs} epochs, {first:.1f} MiB after a fifth, {last:.1f} MiB "
              f"at the end, slope {bytes_an_epoch:.0f} bytes an epoch (limit {LIMIT}): "
              f"{'flat' if holds else 'GROWS'}")  # fmt: skip
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
