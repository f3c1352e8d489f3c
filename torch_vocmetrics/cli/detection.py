"""``vocmetrics evaluate`` for object detection and instance segmentation."""

from __future__ import annotations

import argparse
import dataclasses
from functools import partial
from typing import NamedTuple

import torch

from torch_vocmetrics import DetectionAP

from .. import io
from ..errors import FileFormatError
from ..protocols import DetectionProtocol
from ..results import DetectionResult
from .classes import choose_classes, find_result_files, usual_classes, warn_of_other_classes
from .evaluation import Evaluation
from .options import reader_options
from .progress import Progress
from .updates import Files, update_from_files


def evaluate_detection(
    args: argparse.Namespace, protocol: DetectionProtocol, device: torch.device
) -> Evaluation:
    """Evaluate the results of a detector on a VOC folder or a COCO file."""
    given = ("iou_thresholds", "max_detections")
    changes = {key: getattr(args, key) for key in given if getattr(args, key) is not None}
    protocol = dataclasses.replace(protocol, **changes)
    with Progress(quiet=args.quiet) as progress:
        inputs = read_inputs(args, protocol, progress)
        truth = inputs.ground_truths
        metric: DetectionAP[DetectionResult] = DetectionAP(
            protocol,
            class_names=truth.class_names,
            label_ids=truth.label_ids,
            box_format=truth.box_format,
            diagnostics=args.diagnostics,
        ).to(device)
        files = Files(truth, inputs.detections, args.ground_truth, args.detections, args.on_fault)
        images = update_from_files(metric, files, partial(progress, "images matched"))
        result = metric.compute()
    assert isinstance(result, DetectionResult), "one protocol gives one result"
    facts = {"not_entered": list(inputs.not_entered)}
    return Evaluation(metric=metric, result=result, facts=facts, images=images)


class Inputs(NamedTuple):
    """What is evaluated, and the classes that have no results file."""

    ground_truths: io.GroundTruthFile
    detections: io.DetectionFile
    not_entered: tuple[str, ...]


def read_inputs(
    args: argparse.Namespace,
    protocol: DetectionProtocol,
    progress: Progress,
    *,
    every_class: bool = False,
) -> Inputs:
    """Read folder or file: what the ground truth is decides, not the protocol.

    Args:
        args: of the command; without ``detections`` images have none.
        protocol: says what is read of the files.
        progress: told how many annotations are read.
        every_class: take all classes of the data, not those of the protocol's data set alone.

    Raises:
        FileFormatError: for files of another form, or at fault.
    """
    path = args.ground_truth
    if path.is_dir():
        return _read_voc(args, protocol, progress, every_class=every_class)
    if path.suffix.lower() != ".json":
        raise FileFormatError(
            "neither a folder nor a .json file",
            where=f"--ground-truth {path}",
            remedy="give a folder with Annotations and ImageSets, or a COCO instances file",
        )
    boxes, masks, options = protocol.uses_boxes, protocol.uses_masks, reader_options(args)
    ground_truths = io.read_coco_ground_truths(
        path,
        class_names=args.classes,
        boxes=boxes,
        masks=masks,
        inclusive_pixels=protocol.coordinates == "inclusive_pixels",
        **options,
    )
    num_objects = dict(ground_truths.other_objects) | {
        name: int(sum((target["labels"] == label).sum() for target in ground_truths.targets))
        for name, label in zip(ground_truths.class_names, ground_truths.label_ids, strict=True)
    }
    warn_of_other_classes(ground_truths.class_names, num_objects)
    if args.detections is None:
        return Inputs(ground_truths, no_detections(ground_truths), ())
    detections = io.read_coco_detections(
        args.detections,
        ground_truths,
        file_order=_in_file_order(protocol),
        boxes=boxes,
        masks=masks,
        **options,
    )
    return Inputs(ground_truths, detections, ())


def no_detections(truth: io.GroundTruthFile) -> io.DetectionFile:
    """The detections of a detector that finds nothing."""
    empty = {
        "boxes": torch.zeros(0, 4, dtype=torch.float64),
        "scores": torch.zeros(0, dtype=torch.float64),
        "labels": torch.zeros(0, dtype=torch.int64),
    }
    return io.DetectionFile(
        predictions=[dict(empty) for _ in truth.targets],
        num_detections=(0,) * len(truth.class_names),
    )


def _read_voc(
    args: argparse.Namespace,
    protocol: DetectionProtocol,
    progress: Progress,
    *,
    every_class: bool,
) -> Inputs:
    options, usual = reader_options(args), usual_classes(protocol)
    read = partial(progress, "annotations read")
    limit = {key: value for key, value in options.items() if key == "max_bytes"}
    found = io.read_voc_set(args.ground_truth, args.image_set, progress=read, **limit)
    num_objects = found.num_objects
    if every_class and args.classes is None:
        others = sorted(num_objects.keys() - set(usual))
        names = (*(name for name in usual if num_objects[name]), *others)
    else:
        names = choose_classes(args.classes, num_objects, usual)
    warn_of_other_classes(names, num_objects)
    ground_truths = found.ground_truths(names, on_fault=args.on_fault)
    if args.detections is None:
        return Inputs(ground_truths, no_detections(ground_truths), ())
    files = find_result_files(args.detections, names, num_objects, usual)
    detections = io.read_voc_detections(
        files, ground_truths, file_order=_in_file_order(protocol), **options
    )
    missing = tuple(name for name in names if name not in files)
    return Inputs(ground_truths, detections, missing)


def _in_file_order(protocol: DetectionProtocol) -> bool:
    """Whether the rows of a file break ties, as in VOC's tools; pycocotools goes image by image."""
    return protocol.interpolation != "recall_grid"
