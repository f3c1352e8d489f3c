"""``vocmetrics audit``: which protocol or deviation gives a number that was read elsewhere."""

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path

from .. import io
from ..analysis.audit_result import Audit
from ..analysis.deviation_search import audit
from ..analysis.label_map_search import USUAL_SEGMENTATION, audit_label_maps
from ..errors import InputError
from ..protocols import DetectionProtocol, load_protocol
from .detection import read_inputs
from .outputs import check_json_file, write_json
from .progress import Progress
from .streams import show

USUAL = ("voc2007", "voc2012", "coco2017")


def run(args: argparse.Namespace) -> None:
    """Read, evaluate in many ways, and show what explains the number."""
    check_json_file(args.json)
    with Progress(quiet=args.quiet) as progress:
        of_maps = Path(args.detections).is_dir()
        found = _label_maps(args) if of_maps else _detections(args, progress)
    numbers = json.dumps(found.to_dict(), indent=2, allow_nan=False)
    if args.json == "-":
        show(numbers)
    elif args.json is not None:
        write_json(Path(args.json), numbers)
    if not args.quiet and args.json != "-":
        show(str(found))


def _detections(args: argparse.Namespace, progress: Progress) -> Audit:
    """Audit boxes; files are read once, as the first protocol reads them."""
    usual = USUAL if args.ground_truth.is_dir() else tuple(reversed(USUAL))
    protocols = [load_protocol(name, DetectionProtocol) for name in args.protocols or usual]
    inputs = read_inputs(args, protocols[0], progress)
    truth = inputs.ground_truths
    return audit(
        inputs.detections.predictions,
        truth.targets,
        args.reported,
        class_names=truth.class_names,
        label_ids=truth.label_ids,
        box_format=truth.box_format,
        protocols=protocols,
        number=args.number,
        most_deviations=args.deviations,
        progress=partial(progress, "sets of images evaluated"),
    )


def _label_maps(args: argparse.Namespace) -> Audit:
    """Audit folders of label images."""
    if args.number is not None:
        raise InputError("label images have the mean IoU alone", where="--number")
    pairs = io.pair_label_images(args.ground_truth, args.detections, args.image_set or "test")
    maps = [
        (found, truth) for _, found, truth in io.read_label_pairs(pairs, on_fault=args.on_fault)
    ]
    return audit_label_maps(
        [found for found, _ in maps],
        [truth for _, truth in maps],
        args.reported,
        class_names=args.classes,
        protocols=args.protocols or USUAL_SEGMENTATION,
        most_deviations=args.deviations,
    )
