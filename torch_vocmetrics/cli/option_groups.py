"""Groups of options that several commands share, and types of arguments; nothing needs torch."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from ..errors import ON_FAULT
from ..limits import MAX_PIXELS
from ..protocols import CALTECH_FRAME_STEP, CALTECH_SETS

FORMATS = ("table", "json", "csv", "markdown")
"""How ``--format`` shows results; the first is the default."""


def add_inputs(parser: argparse.ArgumentParser, *, two: bool = False) -> None:
    """What is evaluated, and by which rules; ``two`` takes the results of two detectors."""
    parser.set_defaults(diagnostics=False)
    add = parser.add_argument
    add("protocol", help="a name such as detection/voc2007, or a TOML file with your own rules")
    results = (
        "VOC: results files, with {class} where the class stands in the name, or the XML of "
        "person layout; COCO: a results .json; segmentation: a folder of label images"
    )
    if two:
        add("first", help=f"results of the first detector. {results}")
        add("second", help="results of the second detector")
    add_ground_truth(parser)
    if not two:
        add("--detections", required=True, metavar="PATH", help=results)
    add("--classes", type=distinct_names, metavar="A,B", help="evaluate only these classes")
    add(
        "--iou-thresholds",
        type=list_of(float),
        metavar="T,T",
        help="IoU thresholds in place of the protocol's",
    )
    add(
        "--max-detections",
        type=list_of(int),
        metavar="N,N",
        help="limits of detections per image in place of the protocol's",
    )
    add_device(parser)
    add_max_file_size(parser)
    add_max_pixels(parser)
    add_on_fault(parser)
    _segmentation(parser)
    add_pedestrians(parser)


def add_ground_truth(parser: argparse.ArgumentParser) -> None:
    """``--ground-truth`` and ``--image-set``."""
    parser.add_argument(
        "--ground-truth",
        required=True,
        type=Path,
        metavar="PATH",
        help="the true annotations: a folder with Annotations and ImageSets (VOC), an instances "
        ".json (COCO), or the files of a pedestrian benchmark",
    )
    parser.add_argument(
        "--image-set",
        metavar="NAME",
        help="VOC: a list of images in the folder ImageSets [test; all annotations of a folder "
        "without lists]",
    )


def add_device(parser: argparse.ArgumentParser) -> None:
    """``--device``, which ``options.device_of`` reads."""
    parser.add_argument("--device", default="cpu", help="evaluate on cpu, cuda or cuda:N [cpu]")


def add_shown(parser: argparse.ArgumentParser) -> None:
    """How ``render.publish`` shows results."""
    add = parser.add_argument_group("what is shown").add_argument
    add(
        "--format",
        choices=FORMATS,
        default=FORMATS[0],
        help="csv has the rows alone, json all numbers [table]",
    )
    add("--sort", metavar="COLUMN", help="sort rows by a column such as AP, largest first")
    add("--ascending", action="store_true", help="with --sort: smallest first")
    add("--top", type=whole_number, metavar="N", help="show the first N rows only")
    add("--json", metavar="FILE", help="write all numbers to a file as JSON; - is standard output")
    add("--quiet", action="store_true", help="show neither the table nor progress")


def add_max_file_size(parser: argparse.ArgumentParser) -> None:
    """``--max-file-size``, which ``options.size_limit`` reads."""
    parser.add_argument(
        "--max-file-size", type=whole_number, metavar="MIB", help="read files up to this size"
    )


def add_max_pixels(parser: argparse.ArgumentParser) -> None:
    """``--max-pixels``, for larger images than the limit."""
    parser.add_argument(
        "--max-pixels",
        type=whole_number,
        default=MAX_PIXELS,
        metavar="N",
        help=f"read images up to this size [{MAX_PIXELS}]",
    )


def _segmentation(parser: argparse.ArgumentParser) -> None:
    """Options that only label images have."""
    add = parser.add_argument_group("label images (segmentation)").add_argument
    add(
        "--label-colors",
        type=Path,
        metavar="FILE",
        help="colours of the classes, rows name:red,green,blue as in CVAT's labelmap.txt; colour "
        "images without a list have VOC's colours",
    )
    add("--label-ids", type=list_of(int), metavar="N,N", help="label of each class [0 .. K-1]")
    add("--void", type=list_of(int), metavar="N,N", help="void labels in place of the protocol's")
    add(
        "--reduce-zero-label",
        action="store_true",
        help="true label 0 is void and the others move down by one; predictions stay as they are",
    )


def add_pedestrians(parser: argparse.ArgumentParser) -> None:
    """Options that only pedestrian benchmarks have."""
    add = parser.add_argument_group("pedestrian benchmarks (miss_rate)").add_argument
    add(
        "--scale-height",
        type=float,
        default=1.0,
        metavar="F",
        help="scale the height of detections about their centre, such as 0.78125 (100/128)",
    )
    names = ", ".join(name for name in CALTECH_SETS if not name.startswith("fold"))
    add(
        "--sets",
        metavar="S,S",
        help=f"Caltech: numbers of sets, {names}, fold0-train, fold0-test, ... [all]",
    )
    add(
        "--frame-step",
        type=int,
        default=CALTECH_FRAME_STEP,
        metavar="N",
        help=f"Caltech: evaluate every Nth frame [{CALTECH_FRAME_STEP}]",
    )
    add(
        "--load",
        default="",
        metavar="K=V;K=V",
        help="bbGt files: bbLoad's parameters, such as 'lbls=person; ilbls=people; hRng=50,inf'",
    )


def add_on_fault(parser: argparse.ArgumentParser) -> None:
    """``--on-fault``, the argument of readers."""
    parser.add_argument(
        "--on-fault",
        choices=ON_FAULT,
        default=ON_FAULT[0],
        help="skip leaves entries at fault out, with a warning that counts them [error]",
    )


def add_save_state(parser: argparse.ArgumentParser) -> None:
    """``--save-state``, which ``merge.keep_state`` follows."""
    parser.add_argument(
        "--save-state",
        type=Path,
        metavar="FILE",
        help="write what was evaluated there, for vocmetrics merge",
    )


# Types of arguments -------------------------------------------------------------------------------


def list_of(kind: Callable[[str], float]) -> Callable[[str], tuple[float, ...]]:
    """Numbers with commas between."""

    def numbers(text: str) -> tuple[float, ...]:
        try:
            return tuple(kind(word) for word in text.split(","))
        except ValueError:
            raise argparse.ArgumentTypeError(f"numbers with commas between, got {text!r}") from None

    return numbers


def whole_number(text: str) -> int:
    """A whole number from 1 to 999999999."""
    count = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0
    if count < 1:
        raise argparse.ArgumentTypeError(f"a whole number from 1 to 999999999, got {text[:40]!r}")
    return count


def distinct_names(text: str) -> tuple[str, ...]:
    """Names with commas between, none twice."""
    names = tuple(name.strip() for name in text.split(","))
    if not all(names) or len(set(names)) != len(names):
        raise argparse.ArgumentTypeError(f"distinct names with commas between, got {text!r}")
    return names


def names(text: str) -> tuple[str, ...]:
    """Names with commas between."""
    return tuple(name.strip() for name in text.split(","))
