"""Lightning: metrics of this package logged by name, on one process or several.

``python -m torch_vocmetrics.examples.train_with_lightning --devices 2``
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import lightning
import torch
from torch import Tensor
from torchmetrics import MetricCollection

from torch_vocmetrics import DetectionAP
from torch_vocmetrics.integrations.torchmetrics import TorchMetricsAdapter

from .detector import TinyDetector
from .loaders import Batch, scene_loader, share_buffers
from .scenes import CLASS_NAMES, make_scenes


class Detector(lightning.LightningModule):
    """A detector that logs one number by ``log`` and two by a collection."""

    def __init__(self) -> None:
        super().__init__()
        self.model = TinyDetector(len(CLASS_NAMES))
        coco = DetectionAP("coco2017", class_names=CLASS_NAMES)
        self.val_ap = TorchMetricsAdapter(coco)
        self.val_metrics = MetricCollection(
            {
                "mAP_2007": TorchMetricsAdapter(DetectionAP("voc2007", class_names=CLASS_NAMES)),
                "mAP_2012": TorchMetricsAdapter(DetectionAP("voc2012", class_names=CLASS_NAMES)),
            },
            prefix="val/",
        )

    def training_step(self, batch: Batch, _: int) -> Tensor:
        return self.model.loss(*batch)

    def on_validation_epoch_start(self) -> None:
        share_buffers(self.model)

    def validation_step(self, batch: Batch, _: int) -> None:
        images, targets = batch
        detections = self.model(images)
        self.val_ap.update(detections, targets)  # update, not forward: no value of the batch
        self.val_metrics.update(detections, targets)
        self.log("val/AP", self.val_ap)
        self.log_dict(self.val_metrics)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), 2e-3)


def run(options: argparse.Namespace) -> tuple[Detector, dict[str, float]]:
    """Train for an epoch, validate, and return the module and what it logged."""
    lightning.seed_everything(0, verbose=False)
    module = Detector()
    trainer = lightning.Trainer(
        accelerator="auto" if torch.cuda.is_available() else "cpu",
        devices=options.devices,
        strategy="ddp" if options.devices > 1 else "auto",
        max_epochs=1,
        num_sanity_val_steps=0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    train = scene_loader(make_scenes(options.train_scenes, seed=(0, 1)))
    validation = scene_loader(make_scenes(options.validation_scenes, seed=(0, 0)))
    trainer.fit(module, train, validation)
    logged: dict[str, Any] = trainer.callback_metrics
    numbers = {name: float(value) for name, value in logged.items()}
    print(f"rank {trainer.global_rank} of {trainer.world_size}: {numbers}")
    return module, numbers


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--train-scenes", type=int, default=400)
    parser.add_argument("--validation-scenes", type=int, default=101)
    run(parser.parse_args(arguments))


if __name__ == "__main__":
    main()
