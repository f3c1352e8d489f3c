"""The development kit's layout predictor: where head, hands and feet of given persons are.

``python -m torch_vocmetrics.examples.devkit_layout --output VOC2012``
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from torch_vocmetrics import LayoutAP, io

from . import devkit
from .persons import LABELS, SIZE, make_persons, train

PARTS = ("head", "hand", "foot")  # of the protocol, in its order


def as_rows(boxes: Tensor, there: Tensor) -> dict[str, Any]:
    """The parts of the one person of an image, as ``LayoutAP`` takes them."""
    parts = {"part_boxes": boxes[there], "part_labels": LABELS[there]}
    return parts | {"object_index": [1], "part_counts": [int(there.sum())]}


def as_parts(rows: dict[str, Any]) -> tuple[io.VocPart, ...]:
    """The same for the writers of files."""
    columns = (rows["part_boxes"].tolist(), rows["part_labels"].tolist())
    return tuple(
        io.VocPart(name=PARTS[label], box=tuple(box)) for box, label in zip(*columns, strict=True)
    )


def write_kit(folder: Path, persons: dict[str, dict[str, Any]]) -> None:
    """Write an annotation for each image of one person, and the image set."""
    for name in ("Annotations", "results", "ImageSets/Layout"):
        (folder / name).mkdir(parents=True)
    io.write_image_set(folder / "ImageSets/Layout/test.txt", [(name, 1) for name in persons])
    for image_id, rows in persons.items():
        box = (1.0, 1.0, float(SIZE), float(SIZE))
        person = io.VocObject(name="person", box=box, parts=as_parts(rows))
        annotation = io.VocAnnotation(image_size=(SIZE, SIZE), objects=(person,))
        io.write_annotation(folder / "Annotations" / f"{image_id}.xml", annotation)


def program(folder: Path, options: argparse.Namespace) -> tuple[dict[str, float], dict[str, float]]:
    """The numbers of the command and those of the metric object."""
    model = train(make_persons(options.train_scenes, seed=(0, 1)), options.epochs)
    given = make_persons(options.scenes, seed=(0, 0))
    persons = {f"{k:06d}": as_rows(one.boxes, one.present) for k, one in enumerate(given)}
    with torch.inference_mode():
        boxes, logits = model(torch.stack([one.image for one in given]))
    confidences = (logits.sigmoid() - 0.5).abs().mean(dim=1)
    layouts = [
        as_rows(box, logit > 0) | {"scores": confidence[None]}
        for box, logit, confidence in zip(boxes, logits, confidences, strict=True)
    ]

    write_kit(folder, persons)
    results = folder / "results" / "comp7_layout_test.xml"
    io.write_layouts(
        results,
        [
            io.VocLayout(
                image_id=name,
                confidence=float(rows["scores"]),
                parts=as_parts(rows),
                object_index=1,
            )
            for name, rows in zip(persons, layouts, strict=True)
        ],
    )
    files = devkit.evaluate_files(
        "layout/voc2012", "--ground-truth", folder, "--detections", results
    )

    truth = [rows | {"image_id": image_id} for image_id, rows in persons.items()]
    return files, LayoutAP("voc2012").update(layouts, truth).compute().to_dict()


def main(arguments: Sequence[str] | None = None) -> dict[str, float]:
    """Run, and exit with an error if files and tensors differ."""
    return devkit.run_program(__doc__, program, arguments)


if __name__ == "__main__":
    main()
