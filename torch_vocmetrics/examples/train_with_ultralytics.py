"""Ultralytics: a callback that sees every validated batch and adds COCO's numbers to the trainer's.

``python -m torch_vocmetrics.examples.train_with_ultralytics``
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torchvision.utils import save_image
from ultralytics import YOLO
from ultralytics.utils import ops

from torch_vocmetrics import DetectionAP, Metric

from .scenes import CLASS_NAMES, SIZE, Scene, make_scenes


class MetricCallback:
    """Updates a metric while a trainer validates; ``add_to`` a model before ``train``."""

    def __init__(self, metric: Metric[Any]) -> None:
        self.metric = metric
        self.history: list[dict[str, float]] = []

    def add_to(self, model: YOLO) -> None:
        """Register with the events of a model's trainer and validator."""
        model.add_callback("on_val_start", self.on_val_start)
        model.add_callback("on_fit_epoch_end", self.on_fit_epoch_end)

    def on_val_start(self, validator: Any) -> None:
        """No event passes predictions on, so look in where the validator takes them."""
        self.metric.reset()
        original = type(validator).update_metrics

        def update_metrics(predictions: list[dict[str, Tensor]], batch: dict[str, Any]) -> None:
            self.metric.update(*in_original_pixels(predictions, batch))
            original(validator, predictions, batch)

        validator.update_metrics = update_metrics

    def on_fit_epoch_end(self, trainer: Any) -> None:
        """Every rank comes by here, as a collective must have it."""
        numbers = self.metric.compute().to_dict()
        self.history.append(numbers)
        trainer.metrics |= {f"coco/{key}": number for key, number in numbers.items()}


def in_original_pixels(
    predictions: list[dict[str, Tensor]], batch: dict[str, Any]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """A validator's predictions and its batch, both back in the pixels of the image files."""
    height, width = shape = batch["img"].shape[2:]
    corners = ops.xywh2xyxy(batch["bboxes"]) * batch["bboxes"].new_tensor([width, height] * 2)
    detections, targets = [], []
    for row, one in enumerate(predictions):
        back = (batch["ori_shape"][row], batch["ratio_pad"][row])
        boxes = ops.scale_boxes(shape, one["bboxes"].clone(), *back)
        detections.append({"boxes": boxes, "scores": one["conf"], "labels": one["cls"].long()})
        mine = batch["batch_idx"] == row
        target = {"boxes": ops.scale_boxes(shape, corners[mine], *back)}
        labels = batch["cls"][mine].squeeze(-1).long()
        targets.append(target | {"labels": labels, "image_id": batch["im_file"][row]})
    return detections, targets


def write_scenes(scenes: Sequence[Scene], folder: Path, part: str) -> None:
    """Images and labels as files: class and box (centre and size as shares of the image)."""
    for kind in ("images", "labels"):
        (folder / kind / part).mkdir(parents=True)
    for number, scene in enumerate(scenes):
        save_image(scene.image, folder / "images" / part / f"{number:05d}.png")
        boxes = ops.xyxy2xywh(scene.target["boxes"]) / SIZE
        rows = zip(scene.target["labels"].tolist(), boxes.tolist(), strict=True)  # type: ignore[union-attr]
        lines = [f"{label} {' '.join(f'{value:.6f}' for value in box)}" for label, box in rows]
        (folder / "labels" / part / f"{number:05d}.txt").write_text("\n".join(lines))


def run(options: argparse.Namespace) -> list[dict[str, float]]:
    """Train for some epochs and return the callback's numbers of each validation."""
    callback = MetricCallback(DetectionAP("coco2017", class_names=CLASS_NAMES))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_scenes(make_scenes(options.train_scenes, seed=(0, 1)), folder, "train")
        write_scenes(make_scenes(options.validation_scenes, seed=(0, 0)), folder, "val")
        parts = {"train": "images/train", "val": "images/val"}
        data = {"path": str(folder), **parts, "names": dict(enumerate(CLASS_NAMES))}
        (folder / "data.yaml").write_text(json.dumps(data))  # JSON is YAML
        model = YOLO(options.model)
        callback.add_to(model)
        device = 0 if torch.cuda.is_available() else "cpu"
        fixed = {"imgsz": SIZE, "workers": 0, "plots": False, "project": name, "device": device}
        model.train(data=str(folder / "data.yaml"), epochs=options.epochs, **fixed)
    print(f"AP {callback.history[-1]['AP']!r}, AP50 {callback.history[-1]['AP50']!r}")
    return callback.history


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--model", default="yolo11n.yaml", help="a .yaml starts from nothing")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--train-scenes", type=int, default=64)
    parser.add_argument("--validation-scenes", type=int, default=33)
    run(parser.parse_args(arguments))


if __name__ == "__main__":
    main()
