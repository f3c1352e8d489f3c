"""The Trainer of Hugging Face Transformers: ``compute_metrics`` batch by batch, nothing kept.

``python -m torch_vocmetrics.examples.train_with_transformers``
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from transformers import EvalPrediction, Trainer, TrainingArguments

from torch_vocmetrics import DetectionAP

from .detector import TinyDetector
from .scenes import CLASS_NAMES, Scene, make_scenes

PADDING = -100  # as the Trainer pads between processes
ROWS = ("boxes", "labels", "difficult", "iscrowd")


class ComputeMetrics:
    """Updates with every batch, and gives the numbers with the last one."""

    def __init__(self) -> None:
        self.metric = DetectionAP("voc2007", class_names=CLASS_NAMES)

    def __call__(self, batch: EvalPrediction, compute_result: bool) -> dict[str, float]:
        detections = dict(zip(("boxes", "scores", "labels"), batch.predictions, strict=True))
        self.metric.update(unpadded(detections), unpadded(batch.label_ids))
        if not compute_result:
            return {}
        numbers = self.metric.compute(sync=False).to_dict()  # the Trainer has gathered already
        self.metric.reset()
        return numbers


def padded(images: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Tensors [B, most rows, ...], padded: the Trainer cuts every tensor as if it had B rows."""
    return {
        key: pad_sequence([image[key] for image in images], batch_first=True, padding_value=PADDING)
        for key in images[0]
    }


def unpadded(batch: dict[str, Tensor]) -> list[dict[str, Tensor]]:
    """One dict an image, without the padding."""
    images = []
    for row, labels in enumerate(batch["labels"]):
        real = labels >= 0
        images.append({k: v[row] if v.dim() == 1 else v[row][real] for k, v in batch.items()})
    return images


class Model(nn.Module):
    """The detector as the Trainer wants it: a dict of the loss and of padded detections."""

    def __init__(self) -> None:
        super().__init__()
        self.detector = TinyDetector(len(CLASS_NAMES))

    def forward(self, images: Tensor, labels: dict[str, Tensor]) -> dict[str, Tensor]:
        """The loss, and in evaluation also boxes, scores and labels."""
        targets = [row | {"iscrowd": row["iscrowd"] > 0} for row in unpadded(labels)]
        output = {"loss": self.detector.loss(images, targets)}
        return output if self.training else output | padded(self.detector(images))


def collate(scenes: Sequence[Scene]) -> dict[str, Any]:
    """What the model's ``forward`` takes; flags are int64 since padding does not fit into bool."""
    rows = [{key: torch.as_tensor(scene.target[key]) for key in ROWS} for scene in scenes]
    labels = padded([{k: v if k == "boxes" else v.long() for k, v in row.items()} for row in rows])
    labels["image_id"] = torch.tensor([scene.target["image_id"] for scene in scenes])
    return {"images": torch.stack([scene.image for scene in scenes]), "labels": labels}


def run(options: argparse.Namespace) -> tuple[nn.Module, dict[str, float]]:
    """Train for an epoch, evaluate, and return the model and the Trainer's numbers."""
    torch.manual_seed(0)
    model = Model()
    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingArguments(
            output_dir=folder,
            num_train_epochs=1,
            learning_rate=2e-3,
            batch_eval_metrics=True,  # compute_metrics sees batches instead of the whole epoch
            remove_unused_columns=False,
            save_strategy="no",
            report_to="none",
            dataloader_pin_memory=torch.cuda.is_available(),
        )
        trainer = Trainer(
            model=model,
            args=settings,
            train_dataset=make_scenes(options.train_scenes, seed=(0, 1)),
            eval_dataset=make_scenes(options.validation_scenes, seed=(0, 0)),
            data_collator=collate,
            compute_metrics=ComputeMetrics(),
        )
        trainer.train()
        numbers = trainer.evaluate()
    print(f"mAP {numbers['eval_mAP']!r}")
    return model.detector, numbers


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--train-scenes", type=int, default=400)
    parser.add_argument("--validation-scenes", type=int, default=101)
    run(parser.parse_args(arguments))


if __name__ == "__main__":
    main()
