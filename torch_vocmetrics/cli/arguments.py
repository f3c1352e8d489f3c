"""The arguments of the command and of its subcommands; nothing here needs torch.

Each subcommand names the function that runs it. Its module, which loads torch, is imported after
the arguments are read: help and usage errors answer at once.
"""

from __future__ import annotations

import argparse
import inspect
import math
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from torch_vocmetrics import __version__

from ..protocols import PAINTINGS, SET_TASKS
from .option_groups import (
    add_device,
    add_ground_truth,
    add_inputs,
    add_max_file_size,
    add_max_pixels,
    add_on_fault,
    add_pedestrians,
    add_save_state,
    add_shown,
    distinct_names,
    names,
    whole_number,
)


def command_parser() -> argparse.ArgumentParser:
    """The parser of ``vocmetrics``; ``run`` of what it gives is ``module:function`` of the package.

    Without a subcommand ``run`` is None.
    """
    parser = argparse.ArgumentParser(
        prog="vocmetrics",
        description="Official numbers from the files that the official tools read.",
        epilog="vocmetrics COMMAND --help explains a command and shows an example.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    parser.set_defaults(run=None)
    commands = parser.add_subparsers(metavar="command")
    for name, subcommand in SUBCOMMANDS.items():
        added = commands.add_parser(
            name,
            help=subcommand.summary,
            description=inspect.cleandoc(subcommand.add_arguments.__doc__ or ""),
            epilog=f"Example:\n{textwrap.indent(subcommand.example, '  ')}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
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
        example: a command line, which the help ends with.
    """

    summary: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: str
    example: str


def _evaluate(parser: argparse.ArgumentParser) -> None:
    """Evaluate results by a protocol, and show the official numbers."""
    add_inputs(parser)
    add_shown(parser)
    add_save_state(parser)


def _audit(parser: argparse.ArgumentParser) -> None:
    """Find the protocol, or the known deviations from one, that give a number read elsewhere.

    The files are evaluated under several protocols, then with one known deviation (another
    comparison of overlaps, rounded scores, difficult objects that count, ...), then with two, until
    something gives the number to all its digits.
    """
    add = parser.add_argument
    add("reported", help="the number with all its digits: a fraction, or percent above 1")
    add_ground_truth(parser)
    add(
        "--detections",
        required=True,
        metavar="PATH",
        help="VOC: results files, with {class} where the class stands; COCO: a results .json; "
        "segmentation: a folder of label images",
    )
    add("--classes", type=distinct_names, metavar="A,B", help="evaluate only these classes")
    add(
        "--protocols",
        type=distinct_names,
        metavar="A,B",
        help="to begin with [voc2007,voc2012,coco2017; COCO files: coco2017,voc2012,voc2007]",
    )
    add("--number", metavar="NAME", help="which number it is, such as AP75 or AP/cat [headline]")
    add(
        "--deviations",
        type=int,
        choices=(0, 1, 2),
        default=2,
        help="at most so many at a time [2]",
    )
    add("--json", metavar="FILE", help="write all that was tried to a file; - is standard output")
    add("--quiet", action="store_true", help="show neither the answer nor progress")
    add_max_file_size(parser)
    add_on_fault(parser)


def _protocols(parser: argparse.ArgumentParser) -> None:
    """List all protocols, or show the rules of one and where each rule comes from."""
    parser.add_argument("name", nargs="?", help="such as detection/voc2007, or a TOML file")
    parser.add_argument("--json", action="store_true", help="JSON in place of text")


def _statistics(parser: argparse.ArgumentParser) -> None:
    """Images and objects of a data set, per class.

    VOC folders are counted as the tables of the kits count them: an object counts unless it is
    difficult, and an image counts for a class if it has such an object. For Layout, persons count:
    those with parts where the set lists images, else those that it lists.

    Of COCO files and pedestrian benchmarks, sizes, shapes and occlusion are shown too. Objects that
    are difficult, crowds or ignored are counted apart.
    """
    parser.add_argument(
        "folder",
        type=Path,
        metavar="PATH",
        help="a folder with Annotations and ImageSets (VOC), an instances .json (COCO), or the "
        "ground truth of a pedestrian benchmark",
    )
    parser.add_argument(
        "--pedestrians",
        action="store_true",
        help="the .json is of CityPersons or KAIST, and has their keys",
    )
    parser.add_argument(
        "--image-set", nargs="+", metavar="NAME", help="lists of the task [all of the folder]"
    )
    parser.add_argument(
        "--task", choices=SET_TASKS, default="Main", help="folder in ImageSets [Main]"
    )
    parser.add_argument("--json", action="store_true", help="JSON in place of a table")
    add_max_file_size(parser)


def _report(parser: argparse.ArgumentParser) -> None:
    """Evaluate results and write one HTML page on them.

    The page has numbers with intervals over images, curves, a table of classes that sorts, errors
    by kind, confused classes, the best and worst images, and every rule with its source. It loads
    nothing from elsewhere. It needs the extra report (jinja2 and matplotlib).
    """
    add_inputs(parser)
    _page(parser)
    parser.add_argument("--title", help="heading of the page [protocol and results]")


def _compare(parser: argparse.ArgumentParser) -> None:
    """Evaluate two detectors on the same images and write one HTML page on their difference.

    Differences are second minus first, with intervals and p-values of a paired bootstrap over the
    images, and with the classes and images that changed most. It needs the extra report.
    """
    add_inputs(parser, two=True)
    _page(parser)


def _page(parser: argparse.ArgumentParser) -> None:
    """Options of commands that write a page."""
    parser.set_defaults(diagnostics=True, save_state=None)
    add = parser.add_argument_group("the page").add_argument
    add("--output", required=True, type=Path, metavar="FILE", help="the .html to write")
    add("--images", type=Path, metavar="FOLDER", help="where the images are, to draw some of them")
    add(
        "--resamples",
        type=whole_number,
        default=500,
        metavar="N",
        help="resamples of the images behind intervals [500]",
    )
    add("--force", action="store_true", help="overwrite what exists")
    add("--quiet", action="store_true", help="show no progress")


def _view(parser: argparse.ArgumentParser) -> None:
    """Draw annotations, detections or their outcomes on the images, as PNG files.

    Annotations and detections have a colour per class, true objects beside detections are dashed.
    With --outcomes true positives are green, false positives red, missed objects yellow and what
    is ignored grey. Images that are missing are named, and the rest goes on.
    """
    add = parser.add_argument
    add(
        "ground_truth",
        metavar="source",
        type=Path,
        help="a folder with Annotations and ImageSets (VOC), an instances .json (COCO), label "
        "images, or the files of a pedestrian benchmark",
    )
    add("--output", required=True, type=Path, metavar="FOLDER", help="where the PNG files go")
    add(
        "--protocol",
        metavar="NAME",
        help="what is drawn and what is true: such as segmentation/voc2012, layout/voc2012, "
        "miss_rate/kaist [voc2012 for folders, coco2017 for files]",
    )
    add(
        "--detections",
        metavar="PATH",
        help="results files, with {class} where the class stands, or what else evaluate takes",
    )
    add("--image-folder", type=Path, metavar="FOLDER", help="where the images are [the source]")
    add("--image-set", metavar="NAME", help="VOC: a list of images in ImageSets [test]")
    add("--classes", type=distinct_names, metavar="A,B", help="only these classes [all]")
    add("--images", metavar="ID,ID", help="only these images of the list")
    add("--min-score", type=float, default=float("-inf"), help="leave out lower scores")
    add("--outcomes", action="store_true", help="colour by outcome in place of class")
    add("--truth", action="store_true", help="draw true objects beside the detections")
    add("--true-positives", action="store_true", help="of the detections draw these only")
    add("--force", action="store_true", help="overwrite what exists")
    add_device(parser)
    add_max_file_size(parser)
    add_max_pixels(parser)
    add_on_fault(parser)
    add_pedestrians(parser)


def _convert(parser: argparse.ArgumentParser) -> None:
    """Convert PASCAL VOC annotations to COCO JSON, or back.

    Corners are copied: x = xmin, y = ymin, width = xmax - xmin, height = ymax - ymin.
    """
    add = parser.add_argument
    add("source", type=Path, help="a folder of VOC annotations, or a COCO .json")
    add("target", type=Path, help="the .json to write, or the folder")
    add("--image-set", metavar="NAME", help="list in ImageSets/Main [test]")
    add(
        "--classes",
        type=distinct_names,
        metavar="A,B",
        help="these classes in this order [all, by name]",
    )
    add("--force", action="store_true", help="overwrite what exists")
    add_max_file_size(parser)
    add_on_fault(parser)


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
        type=names,
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
    add_max_file_size(parser)
    add_max_pixels(parser)


def _merge(parser: argparse.ArgumentParser) -> None:
    """One result from the state files of many ``vocmetrics evaluate --save-state``.

    Each shard of a data set is evaluated on its own, by whatever starts commands; its state file
    holds arrays and text only. Images that are in several files count once. States of other
    protocols or classes, damaged files and other files are refused.
    """
    parser.add_argument(
        "states", nargs="+", type=Path, metavar="FILE", help="state files of all shards"
    )
    add_device(parser)
    add_shown(parser)
    add_save_state(parser)


SUBCOMMANDS = {
    "evaluate": Subcommand(
        "evaluate results by a protocol",
        _evaluate,
        "evaluate:run",
        "vocmetrics evaluate detection/voc2007 --ground-truth VOC2007 \\\n"
        "    --detections 'results/comp4_det_test_{class}.txt' --sort AP --top 5",
    ),
    "audit": Subcommand(
        "find the rules behind a number read elsewhere",
        _audit,
        "audit:run",
        "vocmetrics audit 72.19 --ground-truth VOC2007 \\\n"
        "    --detections 'results/comp4_det_test_{class}.txt'",
    ),
    "report": Subcommand(
        "evaluate results and write an HTML page on them",
        _report,
        "report:run",
        "vocmetrics report detection/voc2007 --ground-truth VOC2007 --output report.html \\\n"
        "    --detections 'results/comp4_det_test_{class}.txt' --images VOC2007/JPEGImages",
    ),
    "compare": Subcommand(
        "compare two detectors in an HTML page",
        _compare,
        "report:compare",
        "vocmetrics compare coco2017 first.json second.json --ground-truth instances.json \\\n"
        "    --output compare.html",
    ),
    "protocols": Subcommand(
        "list the protocols, or show the rules of one",
        _protocols,
        "protocols:run",
        "vocmetrics protocols detection/coco2017",
    ),
    "statistics": Subcommand(
        "count the images and objects of a data set",
        _statistics,
        "statistics:run",
        "vocmetrics statistics VOC2007 --image-set train val test",
    ),
    "view": Subcommand(
        "draw annotations or detections on images",
        _view,
        "view:run",
        "vocmetrics view VOC2007 --output drawn --outcomes --min-score 0.5 \\\n"
        "    --detections 'results/comp4_det_test_{class}.txt'",
    ),
    "convert": Subcommand(
        "VOC annotations to COCO JSON, or back",
        _convert,
        "convert:run",
        "vocmetrics convert VOC2007 voc2007_test.json --image-set test",
    ),
    "paint": Subcommand(
        "label images from the boxes of a detector",
        _paint,
        "segmentation:paint",
        "vocmetrics paint --images VOC2007 --output painted \\\n"
        "    --detections 'results/comp4_det_test_{class}.txt'",
    ),
    "merge": Subcommand(
        "one result from the states of many shards",
        _merge,
        "merge:run",
        "vocmetrics merge shard0.npz shard1.npz --json whole.json",
    ),
}
