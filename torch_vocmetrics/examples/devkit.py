"""What the development kit programs share, and the check that files and tensors are equal."""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from torch_vocmetrics import io
from torch_vocmetrics.cli import command as cli

from .detector import TinyDetector
from .scenes import CLASS_NAMES, SIZE, Scene
from .validate_every_epoch import train_epoch

IMAGE_SET = "test"
CLASSES = ",".join(CLASS_NAMES)


def image_ids(scenes: Sequence[Scene]) -> list[str]:
    """Names of files: the image ids, so that their order is the scenes'."""
    return [f"{scene.target['image_id']:06d}" for scene in scenes]


def voc_boxes(boxes: Tensor) -> Tensor:
    """Edges in pixels from 0 as VOC's first and last pixel, which count from 1."""
    return torch.cat([boxes[:, :2] + 1, boxes[:, 2:]], dim=1)


def label_map(scene: Scene) -> Tensor:
    """[SIZE, SIZE] 0 for background, 1 to K for the classes."""
    numbers = torch.cat([torch.as_tensor(scene.target["labels"]) + 1, torch.zeros(1).long()])
    return numbers[scene.owner]  # owner is -1 for background, which takes the last


def write_kit(folder: Path, scenes: Sequence[Scene]) -> None:
    """Write Annotations, SegmentationClass and the image sets of these scenes."""
    for name in ("Annotations", "SegmentationClass", "results"):
        (folder / name).mkdir()
    for task in ("Main", "Segmentation"):
        (folder / "ImageSets" / task).mkdir(parents=True)
        io.write_image_set(folder / "ImageSets" / task / f"{IMAGE_SET}.txt", image_ids(scenes))
    for image_id, scene in zip(image_ids(scenes), scenes, strict=True):
        target: Mapping[str, Any] = scene.target
        columns = (voc_boxes(target["boxes"]), target["labels"], target["difficult"])
        objects = tuple(
            io.VocObject(name=CLASS_NAMES[label], box=tuple(box), difficult=difficult)
            for box, label, difficult in zip(*map(Tensor.tolist, columns), strict=True)
        )
        annotation = io.VocAnnotation(image_size=(SIZE, SIZE), depth=3, objects=objects)
        io.write_annotation(folder / "Annotations" / f"{image_id}.xml", annotation)
        io.write_label_map(folder / "SegmentationClass" / f"{image_id}.png", label_map(scene))


def train_detector(scenes: Sequence[Scene], epochs: int) -> TinyDetector:
    """A detector that has seen these scenes some times."""
    torch.manual_seed(0)
    model = TinyDetector(len(CLASS_NAMES))
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=1e-3)
    steps = epochs * -(-len(scenes) // 16)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 5e-3, steps, pct_start=0.4)
    for _ in range(epochs):
        train_epoch(model, scenes, optimizer, schedule, torch.device("cpu"))
    return model.eval()


def write_detections(
    pattern: Path, detections: Sequence[Mapping[str, Tensor]], ids: Sequence[str]
) -> None:
    """Write one results file a class; ``pattern`` holds ``{class}``."""
    keys = ("boxes", "scores", "labels")
    for label, name in enumerate(CLASS_NAMES):
        rows = [
            (image_id, score, box)
            for image_id, one in zip(ids, detections, strict=True)
            for box, score, found in zip(*(one[key].tolist() for key in keys), strict=True)
            if found == label
        ]
        io.write_detections(str(pattern).replace("{class}", name), rows)


def evaluate_files(*arguments: str | Path) -> dict[str, float]:
    """The summary of ``vocmetrics evaluate`` with these arguments, whose table is shown."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "numbers.json"
        command = ["evaluate", *map(str, arguments), "--image-set", IMAGE_SET]
        if code := cli.main([*command, "--json", str(path)]):
            raise SystemExit(code)
        summary = json.loads(path.read_text(encoding="utf-8"))["summary"]
    return {key: math.nan if value is None else value for key, value in summary.items()}


def run_program(
    description: str | None,
    program: Callable[[Path, argparse.Namespace], tuple[dict[str, float], dict[str, float]]],
    arguments: Sequence[str] | None,
) -> dict[str, float]:
    """Parse a command line, run a program in its folder and compare files with tensors."""
    parser = argparse.ArgumentParser(description=(description or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--output", type=Path, help="keep the kit's folder there [thrown away]")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--train-scenes", type=int, default=800)
    parser.add_argument("--scenes", type=int, default=150, help="to evaluate")
    parser.add_argument("--threads", type=int, default=1, help="2 is faster on idle cores")
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.output or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        files, tensors = program(folder, options)
    if repr(files) != repr(tensors):  # every bit, and NaN equals NaN
        raise SystemExit(f"error: files give {files}, tensors give {tensors}")
    print(f"equal from files and from tensors: {len(tensors)} numbers")
    return tensors
