"""The development kit's detector: train, write comp3 results, evaluate files and tensors.

``python -m torch_vocmetrics.examples.devkit_detector --output VOC2007``
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch

from torch_vocmetrics import DetectionAP

from . import devkit
from .scenes import CLASS_NAMES, make_scenes


def program(folder: Path, options: argparse.Namespace) -> tuple[dict[str, float], dict[str, float]]:
    """The numbers of the command and those of the metric object."""
    model = devkit.train_detector(make_scenes(options.train_scenes, seed=(0, 1)), options.epochs)
    scenes = make_scenes(options.scenes, seed=(0, 0))
    with torch.inference_mode():
        detections = model(torch.stack([scene.image for scene in scenes]))
    for one in detections:
        one["boxes"] = devkit.voc_boxes(one["boxes"])

    devkit.write_kit(folder, scenes)
    pattern = folder / "results" / "comp3_det_test_{class}.txt"
    devkit.write_detections(pattern, detections, devkit.image_ids(scenes))
    files = devkit.evaluate_files(
        "detection/voc2007",
        *("--ground-truth", folder, "--detections", pattern, "--classes", devkit.CLASSES),
    )

    targets = [
        scene.target | {"boxes": devkit.voc_boxes(torch.as_tensor(scene.target["boxes"]))}
        for scene in scenes
    ]
    metric = DetectionAP("voc2007", class_names=CLASS_NAMES)
    return files, metric.update(detections, targets).compute().to_dict()


def main(arguments: Sequence[str] | None = None) -> dict[str, float]:
    """Run, and exit with an error if files and tensors differ."""
    return devkit.run_program(__doc__, program, arguments)


if __name__ == "__main__":
    main()
