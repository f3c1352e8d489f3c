"""Plain PyTorch on several processes, validated by all of them and by one of them.

``torchrun --nproc-per-node 2 -m torch_vocmetrics.examples.train_with_torchrun``; without
``torchrun`` it runs on one process.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler

from torch_vocmetrics import DetectionAP, DetectionResult

from .loaders import LossModel, on_device, scene_loader, share_buffers
from .scenes import CLASS_NAMES, make_scenes


@torch.inference_mode()
def validate(
    model: nn.Module, loader: Iterable[Any], device: torch.device, *, sync: bool = True
) -> DetectionResult:
    """The result over all ranks' images: every rank must call this, and all get the same.

    With ``sync=False`` it is the result of one's own images, and one rank may call it alone.
    """
    metric = DetectionAP("voc2007", class_names=CLASS_NAMES)
    model.eval()
    for images, targets in loader:
        metric.update(model(images.to(device)), targets)
    return metric.compute(sync=sync)


def train(model: nn.Module, loader: Iterable[Any], device: torch.device) -> None:
    """One pass over this rank's share."""
    optimizer = torch.optim.AdamW(model.parameters(), 2e-3)
    model.train()
    for images, targets in loader:
        loss = model(images.to(device), on_device(targets, device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def run(options: argparse.Namespace) -> None:
    """Train, then validate twice: with every rank, and on rank 0 alone."""
    rank, ranks = distributed.get_rank(), distributed.get_world_size()
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)  # or every rank would also work on the first device
    torch.manual_seed(0)
    model = LossModel().to(device)
    own_device = None if device.index is None else [device.index]
    parallel = DistributedDataParallel(model, device_ids=own_device)
    train_scenes = make_scenes(options.train_scenes, seed=(0, 1))
    shuffled: DistributedSampler[int] = DistributedSampler(range(options.train_scenes))  # type: ignore[arg-type]
    train(parallel, scene_loader(train_scenes, sampler=shuffled), device)
    share_buffers(model)

    scenes = make_scenes(options.validation_scenes, seed=(0, 0))
    mine = scene_loader(scenes[rank::ranks])  # uneven shares and empty ones are fine
    result = validate(model, mine, device)
    print(f"rank {rank} of {ranks}: {result.num_images} images, mAP {result.headline!r}")
    if rank == 0:  # all images on one rank: compute must not wait for the others
        alone = validate(model, scene_loader(scenes), device, sync=False)
        print(f"rank 0 alone: {alone.num_images} images, mAP {alone.headline!r}")
    distributed.barrier()


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and run inside a process group."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--train-scenes", type=int, default=400)
    parser.add_argument("--validation-scenes", type=int, default=101)
    options = parser.parse_args(arguments)
    backend = "nccl" if torch.cuda.is_available() else "gloo"
    if "RANK" in os.environ:  # as torchrun sets it for each process
        distributed.init_process_group(backend)
    else:
        distributed.init_process_group(
            backend, init_method="tcp://127.0.0.1:0", rank=0, world_size=1
        )
    try:
        run(options)
    finally:
        distributed.destroy_process_group()


if __name__ == "__main__":
    main()
