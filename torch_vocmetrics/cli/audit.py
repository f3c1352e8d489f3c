"""``vocmetrics audit``: which protocol or deviation gives a number that was read elsewhere."""

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path

from ..analysis import audit
from ..protocols import DetectionProtocol, load_protocol
from .detection import read_inputs
from .outputs import check_json_file, write_json
from .progress import Progress
from .streams import show

USUAL = ("voc2007", "voc2012", "coco2017")


def run(args: argparse.Namespace) -> None:
    """Read, evaluate in many ways, and show what explains the number."""
    check_json_file(args.json)
    of_folder = args.ground_truth.is_dir()
    names = args.protocols or (USUAL if of_folder else tuple(reversed(USUAL)))
    protocols = [load_protocol(name, DetectionProtocol) for name in names]
    with Progress(quiet=args.quiet) as progress:
        # Files are read once, as the first protocol reads them.
        inputs = read_inputs(args, protocols[0], progress)
        truth = inputs.ground_truths
        found = audit(
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
    numbers = json.dumps(found.to_dict(), indent=2, allow_nan=False)
    if args.json == "-":
        show(numbers)
    elif args.json is not None:
        write_json(Path(args.json), numbers)
    if not args.quiet and args.json != "-":
        show(str(found))
