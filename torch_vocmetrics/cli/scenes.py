"""What ``vocmetrics view`` draws on each image of a data set, task by task."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from torch_vocmetrics import DetectionAP, LogAverageMissRate, analysis

from .. import io
from ..drawing import Box, class_colors, corners_of
from ..errors import InputError
from ..io.names import path_inside
from ..io.voc_folder import image_set_path
from ..protocols import DetectionProtocol, LayoutProtocol, MissRateProtocol, Protocol
from ..report.pictures import Images, corners_in, outcome_boxes, values_of
from .detection import read_inputs
from .miss_rate import read_files as read_pedestrian_files
from .options import device_of, size_limit
from .progress import Progress
from .updates import Files, update_from_files

FLAGS = ("difficult", "iscrowd", "ignore")
DASH = 3
"""Of objects that do not count, and of true objects beside detections."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Scenes:
    """The images of a data set and what is drawn on each.

    Attributes:
        ids: I ids.
        boxes: gives the boxes of the image at an index.
        file_names: the name of the file of each image, empty where it is not known; () knows none.
    """

    ids: Sequence[int | str]
    boxes: Callable[[int], list[Box]]
    file_names: tuple[str, ...] = ()


def scenes_of(args: argparse.Namespace, protocol: Protocol) -> Scenes:
    """Read the files of a command and prepare its images.

    Raises:
        InputError: for a task whose images have no boxes.
        FileFormatError: for files at fault.
    """
    if isinstance(protocol, LayoutProtocol):
        return _layouts(args, protocol)
    if not isinstance(protocol, DetectionProtocol | MissRateProtocol):
        raise InputError("has no boxes to draw", where="--protocol", got=protocol.task)
    with Progress(quiet=False) as progress:
        if isinstance(protocol, MissRateProtocol):
            truth, detections = read_pedestrian_files(args)
        else:
            inputs = read_inputs(args, protocol, progress, every_class=True)
            truth, detections = inputs.ground_truths, inputs.detections
        files = Files(truth, detections, args.ground_truth, args.detections or "", args.on_fault)
        if not (args.outcomes or args.true_positives):
            images = Images.of(truth, detections.predictions, truth.targets)
            return _by_class(args, images)
        metric = _metric(protocol, truth).to(device_of(args.device))
        images = update_from_files(metric, files, partial(progress, "images matched"))
    score = args.min_score if args.detections else None
    outcomes = analysis.image_outcomes(metric, iou_threshold=None, score=score)
    return _by_outcome(args, images, outcomes)


def _metric(protocol: Any, truth: io.GroundTruthFile) -> Any:
    if isinstance(protocol, MissRateProtocol):
        return LogAverageMissRate(protocol, box_format=truth.box_format, diagnostics=True)
    return DetectionAP(
        protocol,
        class_names=truth.class_names,
        label_ids=truth.label_ids,
        box_format=truth.box_format,
        diagnostics=True,
    )


def _by_class(args: argparse.Namespace, images: Images) -> Scenes:
    """A colour per class; true objects are dashed where detections are drawn."""
    colors = dict(zip(images.label_ids, class_colors(len(images.label_ids)), strict=True))

    def boxes(index: int) -> list[Box]:
        target, rows = images.targets[index], images.predictions[index]
        found = list[Box]()
        if args.detections is None or args.truth:
            words = images.names(target["labels"])
            flagged = _flagged(target)
            labels = values_of(target["labels"])
            for row, corners in enumerate(corners_in(target, images)):
                dash = DASH if flagged[row] or args.detections is not None else 0
                found.append(Box(corners, words[row], colors[labels[row]], dash))
        if args.detections is not None:
            words, labels = images.names(rows["labels"]), values_of(rows["labels"])
            for row, corners in enumerate(corners_in(rows, images)):
                score = float(rows["scores"][row])
                if score >= args.min_score:
                    text = f"{words[row]} {score:.3g}"
                    found.append(Box(corners, text, colors[labels[row]]))
        return found

    return Scenes(ids=images.ids, boxes=boxes, file_names=images.file_names)


def _by_outcome(args: argparse.Namespace, images: Images, outcomes: Any) -> Scenes:
    """Detections that are true, false or ignored, and objects that are missed, or all."""

    def boxes(index: int) -> list[Box]:
        return outcome_boxes(
            images,
            index,
            outcomes,
            min_score=args.min_score,
            truth=args.truth,
            only_true=args.true_positives,
        )

    return Scenes(ids=images.ids, boxes=boxes, file_names=images.file_names)


def _flagged(target: Mapping[str, Any]) -> list[bool]:
    """Whether each object is marked as one that does not count."""
    flags = [values_of(target[key]) for key in FLAGS if key in target]
    return [any(row) for row in zip(*flags, strict=True)] or [False] * len(target["labels"])


# Person layout ------------------------------------------------------------------------------------


def _layouts(args: argparse.Namespace, protocol: LayoutProtocol) -> Scenes:
    """Persons and their parts, a colour per kind of part; true ones are dashed beside estimates."""
    image_ids, annotations = _layout_images(args, protocol)
    by_image: dict[str, list[io.VocLayout]] = {}
    if args.detections is not None:
        for layout in io.read_layouts(args.detections, on_fault=args.on_fault, **size_limit(args)):
            by_image.setdefault(layout.image_id, []).append(layout)
    colors = dict(zip(("person", *protocol.parts), class_colors(9), strict=False))
    plain = class_colors(1)[0]

    def box(name: str, corners: Any, text: str, dash: int) -> Box:
        return Box(corners_of([corners], "xyxy", 1.0)[0], text, colors.get(name, plain), dash)

    def boxes(index: int) -> list[Box]:
        image_id, found = image_ids[index], list[Box]()
        if args.detections is None or args.truth:
            dash = 0 if args.detections is None else DASH
            path = path_inside(annotations, f"{image_id}.xml")
            annotation = io.read_annotation(path, **size_limit(args))
            for one in (one for one in annotation.objects if one.parts):
                found.append(box("person", one.box, "person", dash))
                found += [box(part.name, part.box, part.name, dash) for part in one.parts]
        for layout in by_image.get(image_id, ()):
            if layout.confidence < args.min_score:
                continue
            parts = layout.parts
            if layout.box is not None:
                found.append(box("person", layout.box, f"person {layout.confidence:.3g}", 0))
            words = [f"{part.name} {layout.confidence:.3g}" for part in parts]
            found += [
                box(part.name, part.box, text, 0) for part, text in zip(parts, words, strict=True)
            ]
        return found

    return Scenes(ids=image_ids, boxes=boxes)


def _layout_images(
    args: argparse.Namespace, protocol: LayoutProtocol
) -> tuple[tuple[str, ...], Path]:
    """The images of a set of persons or images, and the folder of their annotations."""
    listed = image_set_path(args.ground_truth / "ImageSets" / "Layout", args.image_set or "test")
    if protocol.persons == "given":
        pairs = io.read_object_set(listed, **size_limit(args))
        image_ids = tuple(dict.fromkeys(image_id for image_id, _ in pairs))
    else:
        image_ids = io.read_image_set(listed, **size_limit(args))
    return image_ids, args.ground_truth / "Annotations"


def only_images(scenes: Scenes, wanted: Sequence[str] | None) -> list[int]:
    """The indices of the images that are drawn: all, or those of ``--images``.

    Raises:
        InputError: for an image that is not in the data set.
    """
    known = {str(name): index for index, name in enumerate(scenes.ids)}
    if wanted is None:
        return list(range(len(scenes.ids)))
    unknown = sorted(set(wanted) - known.keys())
    if unknown:
        raise InputError("not in the image set", where="--images", got=unknown[0])
    return sorted(known[name] for name in set(wanted))
