"""Hugging Face Accelerate: each process updates by what it has, and nothing is gathered by hand.

``torchrun --nproc-per-node 2 -m torch_vocmetrics.examples.train_with_accelerate``, or by
``accelerate launch``.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from accelerate import Accelerator
from torch import nn

from torch_vocmetrics import DetectionAP, DetectionResult

from .loaders import LossModel, scene_loader, share_buffers
from .scenes import CLASS_NAMES, make_scenes


@torch.inference_mode()
def validate(model: nn.Module, loader: Iterable[Any]) -> DetectionResult:
    """The result over the images of all processes; every process must call this.

    ``gather_for_metrics`` has no place here. Images that the loader repeats to even out the
    processes are recognised by their ``image_id``, and counted once.
    """
    metric = DetectionAP("voc2007", class_names=CLASS_NAMES)
    model.eval()
    for images, targets in loader:
        metric.update(model(images), targets)
    return metric.compute()


def run(options: argparse.Namespace) -> tuple[nn.Module, DetectionResult]:
    """Train for an epoch and validate."""
    torch.manual_seed(0)
    accelerator = Accelerator(cpu=not torch.cuda.is_available())
    model = LossModel()
    optimizer = torch.optim.AdamW(model.parameters(), 2e-3)
    train = scene_loader(make_scenes(options.train_scenes, seed=(0, 1)))
    validation = scene_loader(make_scenes(options.validation_scenes, seed=(0, 0)))
    prepared, optimizer, train, validation = accelerator.prepare(
        model, optimizer, train, validation
    )
    prepared.train()
    for images, targets in train:
        optimizer.zero_grad()
        accelerator.backward(prepared(images, targets))
        optimizer.step()

    share_buffers(model)
    result = validate(accelerator.unwrap_model(prepared), validation)
    where = f"process {accelerator.process_index} of {accelerator.num_processes}"
    print(f"{where}: {result.num_images} images, mAP {result.headline!r}")
    accelerator.end_training()
    return model, result


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--train-scenes", type=int, default=400)
    parser.add_argument("--validation-scenes", type=int, default=101)
    run(parser.parse_args(arguments))


if __name__ == "__main__":
    main()
