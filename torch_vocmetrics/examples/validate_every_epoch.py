"""Train a tiny detector on generated scenes and validate it after every epoch, in about a minute.

:func:`validate` is the part to copy: one pass over the images gives the numbers of every protocol.
With ``--report FILE`` it ends with an HTML page on the detector that it trained.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from torch_vocmetrics import DetectionAP, DetectionResult
from torch_vocmetrics.report import report
from torch_vocmetrics.report.pictures import Images, outcome_pictures

from .detector import TinyDetector
from .scenes import CLASS_NAMES, Scene, make_scenes

COLUMNS = "epoch     loss  mAP voc2007  mAP voc2012  AP coco2017     AP50  train s  eval s"
ROW = "{:5d}  {:7.4f}  {:11.4f}  {:11.4f}  {:11.4f}  {:7.4f}  {:7.1f}  {:6.1f}"
BATCH_SIZE, LEARNING_RATE = 16, 5e-3
Batch = tuple[Tensor, list[dict[str, Any]]]
Results = dict[str, DetectionResult]
Validation = DetectionAP[Results]


def validate(
    model: TinyDetector, scenes: Sequence[Scene], metric: Validation, device: torch.device
) -> Results:
    """The result of each protocol of ``metric``, which is reused from epoch to epoch."""
    model.eval()
    metric.reset()
    with torch.inference_mode():
        for images, targets in batches(scenes, device):
            metric.update(model(images), targets)
    return metric.compute()


def train_epoch(
    model: TinyDetector,
    scenes: Sequence[Scene],
    optimizer: torch.optim.Optimizer,
    schedule: torch.optim.lr_scheduler.LRScheduler,
    device: torch.device,
) -> float:
    """One pass over the scenes; the mean loss of its batches."""
    model.train()
    losses = []
    for images, targets in batches(scenes, device):
        loss = model.loss(images, targets)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
        losses.append(loss.detach())
    return float(torch.stack(losses).mean())


def batches(scenes: Sequence[Scene], device: torch.device) -> Iterator[Batch]:
    """Images [B, 3, H, W] and B targets, on the device."""
    for start in range(0, len(scenes), BATCH_SIZE):
        chosen = scenes[start : start + BATCH_SIZE]
        targets = [
            {k: v.to(device) if isinstance(v, Tensor) else v for k, v in scene.target.items()}
            for scene in chosen
        ]
        yield torch.stack([scene.image for scene in chosen]).to(device), targets


def write_report(
    model: TinyDetector, scenes: Sequence[Scene], device: torch.device, path: Path
) -> None:
    """A page on the trained detector: classes, errors, and images with what was found there."""
    metric: Any = DetectionAP("voc2012", class_names=CLASS_NAMES, diagnostics=True)
    predictions = list[dict[str, Tensor]]()
    model.eval()
    with torch.inference_mode():
        for images, targets in batches(scenes, device):
            predictions += model(images)
            metric.update(predictions[-len(targets) :], targets)
    both = Images(
        ids=[int(scene.target["image_id"]) for scene in scenes],
        predictions=predictions,
        targets=[scene.target for scene in scenes],
        class_names=CLASS_NAMES,
        label_ids=tuple(range(len(CLASS_NAMES))),
        box_format="xyxy",
    )

    def load(index: int) -> Image.Image:
        pixels = scenes[index].image.mul(255).byte().permute(1, 2, 0)
        return Image.fromarray(pixels.numpy())

    picture = outcome_pictures(metric, both, load)
    path.parent.mkdir(parents=True, exist_ok=True)
    report(metric, path, title="A tiny detector on generated scenes", picture=picture)


def run(options: argparse.Namespace) -> list[float]:
    """Train, print one row per epoch, and return the mAP of voc2007 of each."""
    torch.manual_seed(options.seed)
    torch.set_num_threads(options.threads)
    torch.backends.cudnn.deterministic = True
    device = torch.device(options.device)
    model = TinyDetector(len(CLASS_NAMES)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=1e-3)
    steps = options.epochs * len(range(0, options.train_scenes, BATCH_SIZE))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, steps, pct_start=0.4)
    metric = DetectionAP(["voc2007", "voc2012", "coco2017"], class_names=CLASS_NAMES)
    validation = make_scenes(options.validation_scenes, seed=(options.seed, 0))
    history = []
    print(COLUMNS)
    for epoch in range(1, options.epochs + 1):
        start = time.perf_counter()
        scenes = make_scenes(options.train_scenes, seed=(options.seed, epoch))
        loss = train_epoch(model, scenes, optimizer, schedule, device)
        trained = time.perf_counter()
        results = validate(model, validation, metric, device)
        seconds = trained - start, time.perf_counter() - trained
        voc2007, voc2012, coco2017 = (result.headline for result in results.values())
        ap50 = results["coco2017"].to_dict()["AP50"]
        print(ROW.format(epoch, loss, voc2007, voc2012, coco2017, ap50, *seconds), flush=True)
        history.append(voc2007)
    if options.report is not None:
        write_report(model, validation, device, options.report)
        print(f"report: {options.report}")
    return history


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and run; exits with an error if the mAP did not rise."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--epochs", type=_positive, default=6)
    parser.add_argument("--train-scenes", type=_positive, default=2500, help="new ones each epoch")
    parser.add_argument("--validation-scenes", type=_positive, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--threads", type=_positive, default=1, help="2 is faster on idle cores")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write an HTML page there")
    history = run(parser.parse_args(arguments))
    if len(history) > 1 and not history[-1] > history[0]:
        raise SystemExit(f"error: the mAP did not rise: {history[0]:.4f} to {history[-1]:.4f}")


def _positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {number}")
    return number


if __name__ == "__main__":
    main()
