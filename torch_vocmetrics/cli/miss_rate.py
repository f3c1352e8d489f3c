"""``vocmetrics evaluate`` for pedestrian benchmarks.

The form of the ground truth says what is read: a folder of ``setXX/VXXX.vbb`` (Caltech) or of bbGt
files, a ``.json`` (CityPersons, KAIST), a ``.mat`` (CityPersons) or an ``.odgt`` (CrowdHuman).
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from torch_vocmetrics import LogAverageMissRate

from .. import io
from ..errors import FileFormatError, InputError
from ..protocols import CALTECH_SETS, MissRateProtocol
from .detection import no_detections
from .evaluation import Evaluation
from .options import reader_options, refuse_option, size_limit
from .progress import Progress
from .updates import Files, update_from_files


def evaluate_miss_rate(
    args: argparse.Namespace, protocol: MissRateProtocol, device: torch.device
) -> Evaluation:
    """Evaluate the files of a pedestrian benchmark."""
    if not 0 < args.scale_height < float("inf"):
        raise InputError("must be above 0", where="--scale-height", got=args.scale_height)
    if args.frame_step < 1:
        raise InputError("must be at least 1", where="--frame-step", got=args.frame_step)
    protocol = _changed(args, protocol)
    truth, detections = read_files(args)
    if args.scale_height != 1:
        for one in detections.predictions:
            one["boxes"] = io.scale_height(one["boxes"], args.scale_height, truth.box_format)
    metric = LogAverageMissRate(
        protocol, box_format=truth.box_format, diagnostics=args.diagnostics
    ).to(device)
    files = Files(truth, detections, args.ground_truth, args.detections, args.on_fault)
    with Progress(quiet=args.quiet) as progress:
        images = update_from_files(metric, files, partial(progress, "images matched"))
        return Evaluation(metric=metric, result=metric.compute(), images=images)


def _changed(args: argparse.Namespace, protocol: MissRateProtocol) -> MissRateProtocol:
    """The protocol with the threshold and the limit that the command gives."""
    changes: dict[str, Any] = {}
    if args.iou_thresholds is not None:
        if len(args.iou_thresholds) != 1:
            got = args.iou_thresholds
            raise InputError("must be one, for all subsets", where="--iou-thresholds", got=got)
        value = args.iou_thresholds[0]
        changes["subsets"] = tuple(s._replace(iou_threshold=value) for s in protocol.subsets)
    if args.max_detections is not None:
        changes["max_detections"] = args.max_detections
    return dataclasses.replace(protocol, **changes)


def read_files(args: argparse.Namespace) -> tuple[io.GroundTruthFile, io.DetectionFile]:
    """Read ground truth and detections, by the form of the former.

    Args:
        args: of the command; without ``detections`` images have none.

    Raises:
        InputError: for an option that files of this form do not have.
        FileFormatError: for files of another form, or at fault.
    """
    limit, options = size_limit(args), reader_options(args)
    path, found = args.ground_truth, None if args.detections is None else Path(args.detections)
    kind = "folder" if path.is_dir() else path.suffix.lower()
    row_by_row = kind == ".odgt" or (kind == ".json" and _suffix(found) in (".json", ""))
    if not row_by_row:
        refuse_option(args, "on_fault", "this form of files, whose rows are read all or not at all")
    if kind == ".odgt":
        if found is None:
            remedy = "give --detections, which have the sizes of the images"
            raise InputError("the file has no sizes of images", where=str(path), remedy=remedy)
        sizes = io.read_crowdhuman_sizes(found, **limit)
        truth = io.read_crowdhuman_ground_truths(path, sizes, **options)
        return truth, io.read_crowdhuman_detections(found, truth, **options)
    if kind == "folder" and any(path.glob("set*/*.vbb")):
        chosen = {"sets": _sets(args.sets), "step": args.frame_step, **limit}
        truth = io.read_caltech_ground_truths(path, **chosen)
        if found is None:
            return truth, no_detections(truth)
        return truth, io.read_caltech_detections(found, path, **chosen)
    truth = _read_truth(args, kind)
    if found is None:
        return truth, no_detections(truth)
    if kind != "folder" and _suffix(found) == ".json":
        return truth, io.read_pedestrian_detections(found, truth, **options)
    return truth, io.read_indexed_detections(found, truth, **limit)


def _suffix(path: Path | None) -> str:
    return "" if path is None else path.suffix.lower()


def _read_truth(args: argparse.Namespace, kind: str) -> io.GroundTruthFile:
    """Ground truth whose form does not depend on the detections."""
    path, limit = args.ground_truth, size_limit(args)
    if kind == "folder":
        return io.read_bb_gt_ground_truths(path, io.Conditions.parse(args.load), **limit)
    if kind == ".mat":
        return io.read_citypersons_mat(path, **limit)
    if kind == ".json":
        return io.read_pedestrian_json(path, **reader_options(args))
    raise FileFormatError(
        "no form of ground truth that is known",
        where=f"--ground-truth {path}",
        remedy="give a folder of .vbb or bbGt files, a .json, a .mat or an .odgt",
    )


def _sets(text: str | None) -> Sequence[int] | None:
    if text is None or text in CALTECH_SETS:
        return None if text is None else CALTECH_SETS[text]
    try:
        return tuple(int(word) for word in text.split(","))
    except ValueError:
        known = ", ".join(CALTECH_SETS)
        raise InputError(
            "must be numbers with commas between, or a name",
            where="--sets",
            got=repr(text),
            remedy=f"names are {known}",
        ) from None
