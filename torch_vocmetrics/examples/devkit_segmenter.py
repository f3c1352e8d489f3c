"""The development kit's segmenter: boxes of a detector painted as label images.

``python -m torch_vocmetrics.examples.devkit_segmenter --output VOC2012``
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch

from torch_vocmetrics import MeanIoU, io

from . import devkit
from .scenes import CLASS_NAMES, SIZE, make_scenes

LABELS = ("background", *CLASS_NAMES)


def program(folder: Path, options: argparse.Namespace) -> tuple[dict[str, float], dict[str, float]]:
    """The numbers of the command and those of the metric object."""
    model = devkit.train_detector(make_scenes(options.train_scenes, seed=(0, 1)), options.epochs)
    scenes = make_scenes(options.scenes, seed=(0, 0))
    with torch.inference_mode():
        detections = model(torch.stack([scene.image for scene in scenes]))
    for one in detections:
        one["boxes"] = devkit.voc_boxes(one["boxes"])

    devkit.write_kit(folder, scenes)
    ids = devkit.image_ids(scenes)
    pattern = folder / "results" / "comp3_det_test_{class}.txt"
    devkit.write_detections(pattern, detections, ids)
    painted = io.create_segmentations_from_detections(
        io.find_results(str(pattern), CLASS_NAMES),
        dict.fromkeys(ids, (SIZE, SIZE)),
        class_names=CLASS_NAMES,
        confidence=0.3,  # the kit paints all; a heat map has a faint peak nearly everywhere
    )
    results = folder / "results" / "comp5_test_cls"
    results.mkdir(exist_ok=True)
    predicted = []
    for image in painted:
        io.write_label_map(results / f"{image.image_id}.png", image.classes)
        predicted.append(torch.from_numpy(image.classes))
    files = devkit.evaluate_files(
        "segmentation/voc2012",
        *("--ground-truth", folder, "--detections", results, "--classes", ",".join(LABELS)),
    )

    metric = MeanIoU("voc2012", class_names=LABELS)
    for image_id, label_map, scene in zip(ids, predicted, scenes, strict=True):
        metric.update(label_map[None], devkit.label_map(scene)[None], [image_id])
    return files, metric.compute().to_dict()


def main(arguments: Sequence[str] | None = None) -> dict[str, float]:
    """Run, and exit with an error if files and tensors differ."""
    return devkit.run_program(__doc__, program, arguments)


if __name__ == "__main__":
    main()
