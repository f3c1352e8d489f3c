"""The arguments of the command and of its subcommands; nothing here needs torch.

Each subcommand names the function that runs it. Its module, which loads torch, is imported after
the arguments are read: help and usage errors answer at once.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from torch_vocmetrics import __version__

from ..errors import ON_FAULT
from ..limits import MAX_PIXELS
from ..protocols import CALTECH_FRAME_STEP, CALTECH_SETS, PAINTINGS, SET_TASKS


def command_parser() -> argparse.ArgumentParser:
    """The parser of ``vocmetrics``; ``run`` of what it gives is ``module:function`` of the package.

    Without a subcommand ``run`` is None.
    """
    parser = argparse.ArgumentParser(
        prog="vocmetrics",
        description="Official numbers from the files that the official tools read.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    parser.set_defaults(run=None)
    commands = parser.add_subparsers(metavar="command")
    for name, subcommand in SUBCOMMANDS.items():
        added = commands.add_parser(
            name, help=subcommand.summary, description=subcommand.add_arguments.__doc__
        )
        subcommand.add_arguments(added)
        added.set_defaults(run=subcommand.run)
    return parser


class Subcommand(NamedTuple):
    """What ``vocmetrics --help`` says of a subcommand, its arguments, and what runs it.

    Attributes:
        summary: a line.
        add_arguments: declares the arguments; its docstring is the description.
        run: ``module:function``, the module in ``torch_vocmetrics.cli``.
    """

    summary: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: str


def _evaluate(parser: argparse.ArgumentParser) -> None:
    """Evaluate results by a protocol, and show the official numbers."""
    add = parser.add_argument
    add("protocol", help="such as detection/voc2007, or a TOML file with rules of your own")
    add(
        "--ground-truth",
        required=True,
        type=Path,
        metavar="PATH",
        help="a folder with Annotations and ImageSets (VOC), or an instances .json (COCO)",
    )
    add(
        "--detections",
        required=True,
        metavar="PATH",
        help="VOC: results files, with {class} in place of the class, or the XML of layouts; "
        "COCO: a results .json",
    )
    add(
        "--image-set",
        metavar="NAME",
        help="VOC: list of the task in ImageSets [test; all annotations of a folder without lists]",
    )
    add("--classes", type=_names, metavar="A,B", help="evaluate these classes only")
    add("--iou-thresholds", type=_list_of(float), metavar="T,T", help="in place of the protocol's")
    add("--max-detections", type=_list_of(int), metavar="N,N", help="in place of the protocol's")
    add("--device", default="cpu", help="where to evaluate: cpu or cuda [cpu]")
    add("--json", metavar="FILE", help="write all numbers there; - is stdout, without the table")
    add("--quiet", action="store_true", help="no table and no progress")
    _max_file_size(parser)
    _max_pixels(parser)
    _on_fault(parser)
    _segmentation(parser)
    _miss_rate(parser)
    _save_state(parser)


def _max_file_size(parser: argparse.ArgumentParser) -> None:
    """``--max-file-size``, which ``options.size_limit`` reads."""
    parser.add_argument(
        "--max-file-size", type=_count, metavar="MIB", help="read files up to this size"
    )


def _max_pixels(parser: argparse.ArgumentParser) -> None:
    """``--max-pixels``, for larger images than the limit."""
    parser.add_argument(
        "--max-pixels",
        type=_count,
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
    add("--label-ids", type=_list_of(int), metavar="N,N", help="label of each class [0 .. K-1]")
    add("--void", type=_list_of(int), metavar="N,N", help="void labels in place of the protocol's")
    add(
        "--reduce-zero-label",
        action="store_true",
        help="true label 0 is void and the others move down by one; predictions stay as they are",
    )


def _miss_rate(parser: argparse.ArgumentParser) -> None:
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


def _on_fault(parser: argparse.ArgumentParser) -> None:
    """``--on-fault``, the argument of readers."""
    parser.add_argument(
        "--on-fault",
        choices=ON_FAULT,
        default=ON_FAULT[0],
        help="skip leaves entries at fault out, with a warning that counts them [error]",
    )


def _save_state(parser: argparse.ArgumentParser) -> None:
    """``--save-state``, which ``merge.keep_state`` follows."""
    parser.add_argument(
        "--save-state",
        type=Path,
        metavar="FILE",
        help="write what was evaluated there, for vocmetrics merge",
    )


def _protocols(parser: argparse.ArgumentParser) -> None:
    """List all protocols, or show the rules of one and where each rule comes from."""
    parser.add_argument("name", nargs="?", help="such as detection/voc2007, or a TOML file")
    parser.add_argument("--json", action="store_true", help="JSON in place of text")


def _statistics(parser: argparse.ArgumentParser) -> None:
    """Images and objects per class, as the tables of the kits count them.

    An object counts unless it is difficult, and an image counts for a class if it has such an
    object. For Layout, persons count: those with parts where the set lists images, else those that
    it lists.
    """
    parser.add_argument("folder", type=Path, help="a folder with Annotations and ImageSets (VOC)")
    parser.add_argument(
        "--image-set", nargs="+", metavar="NAME", help="lists of the task [all of the folder]"
    )
    parser.add_argument(
        "--task", choices=SET_TASKS, default="Main", help="folder in ImageSets [Main]"
    )
    parser.add_argument("--json", action="store_true", help="JSON in place of a table")
    _max_file_size(parser)


def _view(parser: argparse.ArgumentParser) -> None:
    """Draw annotations or detections on the images, as PNG files."""
    add = parser.add_argument
    add("folder", type=Path, help="a folder with Annotations, ImageSets and JPEGImages (VOC)")
    add("--output", required=True, type=Path, metavar="FOLDER", help="where the PNG files go")
    add("--detections", metavar="PATH", help="results files, with {class} in place of the class")
    add("--true-positives", action="store_true", help="of the detections draw these only")
    add("--protocol", default="voc2012", help="what makes a true positive [voc2012]")
    add("--image-set", metavar="NAME", help="list in ImageSets/Main [test]")
    add("--classes", type=_names, metavar="A,B", help="these classes only [all of the annotations]")
    add("--force", action="store_true", help="overwrite what exists")
    add("--images", metavar="ID,ID", help="these images of the list only")
    add("--min-score", type=float, default=float("-inf"), help="leave out lower scores")
    _max_file_size(parser)
    _max_pixels(parser)


def _convert(parser: argparse.ArgumentParser) -> None:
    """Convert PASCAL VOC annotations to COCO JSON, or back.

    Corners are copied: x = xmin, y = ymin, width = xmax - xmin, height = ymax - ymin.
    """
    add = parser.add_argument
    add("source", type=Path, help="a folder of VOC annotations, or a COCO .json")
    add("target", type=Path, help="the .json to write, or the folder")
    add("--image-set", metavar="NAME", help="list in ImageSets/Main [test]")
    add("--classes", type=_names, metavar="A,B", help="these classes in this order [all, by name]")
    add("--force", action="store_true", help="overwrite what exists")
    _max_file_size(parser)
    _on_fault(parser)


def _paint(parser: argparse.ArgumentParser) -> None:
    """Paint label images from the boxes of a detector, as VOC's baseline does.

    It reads results files and image sizes (of JPEGImages or SegmentationClass) and writes
    SegmentationClass and SegmentationObject.
    """
    add = parser.add_argument
    add(
        "--images",
        required=True,
        type=Path,
        metavar="FOLDER",
        help="with ImageSets/Segmentation and JPEGImages or SegmentationClass",
    )
    add("--detections", required=True, metavar="PATTERN", help="results files, with {class}")
    add("--output", required=True, type=Path, metavar="FOLDER", help="where to write")
    add("--image-set", default="test", metavar="NAME", help="list in ImageSets/Segmentation [test]")
    add(
        "--classes",
        type=_listed_names,
        metavar="A,B",
        help="in order of their numbers [VOC2007-2012]",
    )
    add(
        "--painting",
        choices=PAINTINGS,
        default=PAINTINGS[1],
        help="2008-2012: increasing_confidence [default]; 2007: class_order",
    )
    add("--force", action="store_true", help="overwrite what exists")
    add("--confidence", type=float, default=-math.inf, help="paint from this confidence on")
    add("--quiet", action="store_true", help="say nothing")
    _max_file_size(parser)
    _max_pixels(parser)


def _merge(parser: argparse.ArgumentParser) -> None:
    """One result from the state files of many ``vocmetrics evaluate --save-state``.

    Each shard of a data set is evaluated on its own, by whatever starts commands; its state file
    holds arrays and text only. Images that are in several files count once. States of other
    protocols or classes, damaged files and other files are refused.
    """
    add = parser.add_argument
    add("states", nargs="+", type=Path, metavar="FILE", help="state files of all shards")
    add("--json", metavar="FILE", help="write all numbers there; - is stdout, without the table")
    add("--quiet", action="store_true", help="no table")
    _save_state(parser)


SUBCOMMANDS = {
    "evaluate": Subcommand("evaluate results by a protocol", _evaluate, "evaluate:run"),
    "protocols": Subcommand(
        "list the protocols, or show one with sources", _protocols, "protocols:run"
    ),
    "statistics": Subcommand(
        "count images and objects of VOC image sets", _statistics, "statistics:run"
    ),
    "view": Subcommand("draw annotations or detections on images", _view, "view:run"),
    "convert": Subcommand("VOC annotations to COCO JSON, or back", _convert, "convert:run"),
    "paint": Subcommand("label images from the boxes of a detector", _paint, "segmentation:paint"),
    "merge": Subcommand("one result from the states of many shards", _merge, "merge:run"),
}

# Types of arguments -------------------------------------------------------------------------------


def _list_of(kind: Callable[[str], float]) -> Callable[[str], tuple[float, ...]]:
    def numbers(text: str) -> tuple[float, ...]:
        try:
            return tuple(kind(word) for word in text.split(","))
        except ValueError:
            raise argparse.ArgumentTypeError(f"numbers with commas between, got {text!r}") from None

    return numbers


def _count(text: str) -> int:
    count = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0
    if count < 1:
        raise argparse.ArgumentTypeError(f"a whole number from 1 to 999999999, got {text[:40]!r}")
    return count


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names) or len(set(names)) != len(names):
        raise argparse.ArgumentTypeError(f"distinct names with commas between, got {text!r}")
    return names


def _listed_names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(","))
