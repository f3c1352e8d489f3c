"""The development kit's classifier: an image shows a class as surely as its best detection says.

``python -m torch_vocmetrics.examples.devkit_classifier --output VOC2007``
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from torch_vocmetrics import ClassificationAP, io

from . import devkit
from .scenes import CLASS_NAMES, Scene, make_scenes


def labels_of(scene: Scene) -> Tensor:
    """[K] 1 where the class is there, -1 where not, 0 where only difficult objects of it are."""
    labels, difficult = (torch.as_tensor(scene.target[key]) for key in ("labels", "difficult"))
    found = torch.full((len(CLASS_NAMES),), -1)
    found[labels[difficult]] = 0
    found[labels[~difficult]] = 1
    return found


def scores_of(detections: Sequence[dict[str, Tensor]]) -> Tensor:
    """[B, K] the score of the best detection of each class, -inf without any."""
    scores = torch.full((len(detections), len(CLASS_NAMES)), -torch.inf)
    for row, one in zip(scores, detections, strict=True):
        row.scatter_reduce_(0, one["labels"], one["scores"], "amax")
    return scores


def program(folder: Path, options: argparse.Namespace) -> tuple[dict[str, float], dict[str, float]]:
    """The numbers of the command and those of the metric object."""
    model = devkit.train_detector(make_scenes(options.train_scenes, seed=(0, 1)), options.epochs)
    scenes = make_scenes(options.scenes, seed=(0, 0))
    ids = devkit.image_ids(scenes)
    with torch.inference_mode():
        scores = scores_of(model(torch.stack([scene.image for scene in scenes])))
    labels = torch.stack([labels_of(scene) for scene in scenes])

    devkit.write_kit(folder, scenes)
    for k, name in enumerate(CLASS_NAMES):
        listed = folder / "ImageSets" / "Main" / f"{name}_test.txt"
        io.write_class_set(listed, dict(zip(ids, labels[:, k].tolist(), strict=True)))
        results = folder / "results" / f"comp1_cls_test_{name}.txt"
        io.write_scores(results, dict(zip(ids, scores[:, k].tolist(), strict=True)))
    files = devkit.evaluate_files(
        "classification/voc2007",
        *("--ground-truth", folder, "--classes", devkit.CLASSES),
        *("--detections", folder / "results" / "comp1_cls_test_{class}.txt"),
    )

    metric = ClassificationAP("voc2007", class_names=CLASS_NAMES, target_format="signed")
    return files, metric.update(scores, labels, ids).compute().to_dict()


def main(arguments: Sequence[str] | None = None) -> dict[str, float]:
    """Run, and exit with an error if files and tensors differ."""
    return devkit.run_program(__doc__, program, arguments)


if __name__ == "__main__":
    main()
