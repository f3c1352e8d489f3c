"""PyTorch-Ignite: a metric attached to an evaluator, its numbers in ``state.metrics``.

``python -m torch_vocmetrics.examples.train_with_ignite``
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import torch
from ignite.engine import Engine, Events
from torch import nn

from torch_vocmetrics import DetectionAP, Metric

from .loaders import Batch, LossModel, on_device, scene_loader
from .scenes import CLASS_NAMES, make_scenes


def attach(metric: Metric[Any], engine: Engine, prefix: str = "") -> None:
    """Reset, update and compute a metric with an engine whose output is (predictions, targets)."""

    def finish(engine: Engine) -> None:
        for key, number in metric.compute().to_dict().items():
            engine.state.metrics[prefix + key] = number

    engine.add_event_handler(Events.EPOCH_STARTED, metric.reset)
    engine.add_event_handler(
        Events.ITERATION_COMPLETED, lambda engine: metric.update(*engine.state.output)
    )
    engine.add_event_handler(Events.EPOCH_COMPLETED, finish)


def run(options: argparse.Namespace) -> tuple[nn.Module, dict[str, float]]:
    """Train for an epoch, evaluate at its end, and return the model and the numbers."""
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = LossModel().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 2e-3)

    def train_step(_: Engine, batch: Batch) -> float:
        images, targets = batch
        model.train()
        optimizer.zero_grad()
        loss = model(images.to(device), on_device(targets, device))
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    @torch.inference_mode()
    def evaluation_step(_: Engine, batch: Batch) -> tuple[Any, Any]:
        images, targets = batch
        model.eval()
        return model(images.to(device)), targets

    trainer, evaluator = Engine(train_step), Engine(evaluation_step)
    attach(DetectionAP("voc2007", class_names=CLASS_NAMES), evaluator)
    validation = scene_loader(make_scenes(options.validation_scenes, seed=(0, 0)))

    @trainer.on(Events.EPOCH_COMPLETED)
    def validate() -> None:
        evaluator.run(validation)

    trainer.run(scene_loader(make_scenes(options.train_scenes, seed=(0, 1))))
    print(f"mAP {evaluator.state.metrics['mAP']!r}")
    return model, evaluator.state.metrics


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--train-scenes", type=int, default=400)
    parser.add_argument("--validation-scenes", type=int, default=101)
    run(parser.parse_args(arguments))


if __name__ == "__main__":
    main()
