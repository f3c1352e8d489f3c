"""``vocmetrics evaluate``: detection; other tasks have modules of their own."""

from __future__ import annotations

import argparse
import dataclasses
import math
import sys
import time
from functools import partial

import torch

from torch_vocmetrics import DetectionAP

from .. import io
from ..errors import FileFormatError, InputError
from ..protocols import DetectionProtocol, load_dataset, load_protocol
from ..results import DetectionResult
from . import merge, tasks
from .protocols import full_name
from .report import Inputs, check_json_file, publish, report, table
from .streams import write_error

_CHUNK = 512  # images of one update: enough to be fast, few enough to show progress


def run(args: argparse.Namespace) -> None:
    """Read, evaluate, and show."""
    device = _device(args.device)
    check_json_file(args.json)
    merge.check_state_file(args)
    named = load_protocol(full_name(args.protocol))
    if named.task in tasks.EVALUATORS:
        tasks.EVALUATORS[named.task](args, named, device)
        return
    protocol = _protocol(args)
    progress = _Progress(quiet=args.quiet)
    try:
        inputs = _read(args, protocol, progress)
        metric = _updated(protocol, inputs, device, progress)
        result = metric.compute()
    finally:
        progress.close()
    merge.keep_state(args, metric)
    assert isinstance(result, DetectionResult), "one protocol gives one result"
    publish(args, report(result, inputs), table(result, inputs))


def _read(args: argparse.Namespace, protocol: DetectionProtocol, progress: _Progress) -> Inputs:
    """Read folder or file: what the ground truth is decides, not the protocol."""
    limit = {} if args.max_file_size is None else {"max_bytes": args.max_file_size * 2**20}
    # VOC's tools break ties by the rows of a file, pycocotools goes image by image.
    file_order = protocol.interpolation != "recall_grid"
    path = args.ground_truth
    if path.is_dir():
        early = protocol.name.startswith("voc2006")
        names = args.classes or load_dataset("voc2006" if early else "voc2007").class_names
        files = io.find_results(args.detections, names)
        ground_truths = io.read_voc_ground_truths(
            path,
            args.image_set,
            class_names=list(files),
            text_form=early,
            progress=partial(progress, "annotations read"),
            **limit,
        )
        detections = io.read_voc_detections(files, ground_truths, file_order=file_order, **limit)
        return Inputs(ground_truths, detections, tuple(name for name in names if name not in files))
    if path.suffix.lower() != ".json":
        raise FileFormatError(
            "neither a folder nor a .json file",
            where=f"--ground-truth {path}",
            remedy="give a folder with Annotations and ImageSets, or a COCO instances file",
        )
    masks = protocol.uses_masks
    ground_truths = io.read_coco_ground_truths(
        path,
        class_names=args.classes,
        boxes=protocol.uses_boxes,
        masks=masks,
        inclusive_pixels=protocol.coordinates == "inclusive_pixels",
        **limit,
    )
    detections = io.read_coco_detections(
        args.detections,
        ground_truths,
        file_order=file_order,
        boxes=protocol.uses_boxes,
        masks=masks,
        **limit,
    )
    return Inputs(ground_truths, detections, ())


def _updated(
    protocol: DetectionProtocol, inputs: Inputs, device: torch.device, progress: _Progress
) -> DetectionAP[DetectionResult]:
    truth, predictions = inputs.ground_truths, inputs.detections.predictions
    metric = DetectionAP(
        protocol,
        class_names=truth.class_names,
        label_ids=truth.label_ids,
        box_format=truth.box_format,
    )
    for start in range(0, len(predictions), _CHUNK):
        part = slice(start, start + _CHUNK)
        there = [
            {key: v.to(device) if isinstance(v, torch.Tensor) else v for key, v in one.items()}
            for one in predictions[part]
        ]
        metric.update(there, truth.targets[part])
        progress("images matched", start + len(there), len(predictions))
    return metric


class _Progress:
    """How far the work is, on standard error: at once on a terminal, else after some seconds."""

    def __init__(self, *, quiet: bool) -> None:
        self._shown, self._terminal = False, sys.stderr.isatty()
        self._pause = math.inf if quiet else 0.2 if self._terminal else 5.0
        self._next = time.monotonic() + self._pause

    def __call__(self, what: str, done: int, total: int) -> None:
        if time.monotonic() < self._next:
            return
        self._next, self._shown = time.monotonic() + self._pause, True
        start, end = ("\r\033[K", "") if self._terminal else ("", "\n")
        write_error(f"{start}{done} of {total} {what}{end}")

    def close(self) -> None:
        if self._shown and self._terminal:
            write_error("\r\033[K")


def _protocol(args: argparse.Namespace) -> DetectionProtocol:
    changes = {
        key: getattr(args, key)
        for key in ("iou_thresholds", "max_detections")
        if getattr(args, key) is not None
    }
    return dataclasses.replace(load_protocol(args.protocol, DetectionProtocol), **changes)


def _device(name: str) -> torch.device:
    try:
        device = torch.device(name)
    except RuntimeError:
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda"):
        raise InputError("must be cpu, cuda or cuda:N", where="--device", got=repr(name))
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        got = f"{name!r} among {torch.cuda.device_count()} CUDA devices"
        raise InputError("no such device", where="--device", got=got, remedy="try --device cpu")
    return device
