"""The command ``vocmetrics``: official numbers from the files that the official tools read."""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch

from torch_vocmetrics import DetectionAP, __version__

from .. import io
from ..errors import FileFormatError, InputError, VocMetricsError, VocMetricsWarning, printable
from ..protocols import (
    TASKS,
    DetectionProtocol,
    ProtocolFile,
    load_dataset,
    load_protocol,
    protocol_file,
    protocol_names,
)
from ..results import DetectionResult
from . import convert, merge, miss_rate, segmentation, statistics, tasks, view
from .report import Inputs, as_json, check_json_file, publish, report, table
from .streams import replace_closed_streams, say, show, write_error

_CHUNK = 512  # images of one update: enough to be fast, few enough to show progress


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and give its exit code: 0, or 2 after one sentence on standard error.

    Args:
        argv: the arguments; None takes those of the process.

    Example:
        >>> main(["protocols", "voc2007"])  # doctest: +ELLIPSIS
        detection/voc2007: PASCAL VOC 2007-2009 detection, 11-point average precision
        ...
    """
    replace_closed_streams()
    try:
        args = _parser().parse_args(argv)
    except SystemExit as stop:  # argparse has said what is wrong, or printed its help
        return int(stop.code or 0)
    with warnings.catch_warnings():
        warnings.simplefilter("always", VocMetricsWarning)
        warnings.showwarning = _show_warning  # type: ignore[assignment]
        try:
            args.run(args)
        except BrokenPipeError:  # whoever reads the table has seen enough
            return 0
        except OSError as error:
            place = f"{error.filename}: " if error.filename else ""
            return _fail(f"{place}{error.strerror or error}")
        except UnicodeEncodeError as error:
            return _fail(f"the terminal cannot show all letters ({error.reason}); set PYTHONUTF8=1")
        except VocMetricsError as error:
            return _fail(str(error))
        except MemoryError:
            return _fail("the memory is not enough for these files")
        except KeyboardInterrupt:
            return 130
    return 0


def _fail(sentence: str) -> int:
    say(f"vocmetrics: error: {sentence}")
    return 2


def _show_warning(message: Warning | str, *_: object) -> None:
    say(f"vocmetrics: warning: {message}")


# Arguments ----------------------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="vocmetrics", description=__doc__)
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")
    evaluate = commands.add_parser("evaluate", help="evaluate results by a protocol")
    _add_evaluate_arguments(evaluate)
    evaluate.set_defaults(run=_evaluate)
    protocols = commands.add_parser(
        "protocols", help="list the protocols, or show one with sources"
    )
    protocols.add_argument("name", nargs="?", help="such as detection/voc2007, or a TOML file")
    protocols.add_argument("--json", action="store_true", help="JSON in place of text")
    protocols.set_defaults(run=_protocols)
    for name, module, words in (
        ("statistics", statistics, "count images and objects of VOC image sets"),
        ("view", view, "draw annotations or detections on images"),
        ("convert", convert, "VOC annotations to COCO JSON, or back"),
        ("paint", segmentation, "label images from the boxes of a detector"),
        ("merge", merge, "one result from the states of many shards"),
    ):
        module.add_arguments(commands.add_parser(name, help=words, description=module.__doc__))
    return parser


def _add_evaluate_arguments(parser: argparse.ArgumentParser) -> None:
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
        default="test",
        metavar="NAME",
        help="VOC: list of the task in ImageSets [test]",
    )
    add("--classes", type=_names, metavar="A,B", help="evaluate these classes only")
    add("--iou-thresholds", type=_list_of(float), metavar="T,T", help="in place of the protocol's")
    add("--max-detections", type=_list_of(int), metavar="N,N", help="in place of the protocol's")
    add("--device", default="cpu", help="where to evaluate: cpu or cuda [cpu]")
    add("--json", metavar="FILE", help="write all numbers there; - is stdout, without the table")
    add("--quiet", action="store_true", help="no table and no progress")
    add("--max-file-size", type=_mebibytes, metavar="MIB", help="read files up to this size")
    miss_rate.add_evaluate_arguments(parser)
    merge.add_save_argument(parser)


def _list_of(kind: Callable[[str], float]) -> Callable[[str], tuple[float, ...]]:
    def numbers(text: str) -> tuple[float, ...]:
        try:
            return tuple(kind(word) for word in text.split(","))
        except ValueError:
            raise argparse.ArgumentTypeError(f"numbers with commas between, got {text!r}") from None

    return numbers


def _mebibytes(text: str) -> int:
    count = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0
    if count < 1:
        raise argparse.ArgumentTypeError(f"a whole number from 1 to 999999999, got {text[:40]!r}")
    return count


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names) or len(set(names)) != len(names):
        raise argparse.ArgumentTypeError(f"distinct names with commas between, got {text!r}")
    return names


def _full_name(name: str) -> str:
    """``task/name``: the task may be left out, as it may in ``DetectionAP``."""
    return name if "/" in name or name.endswith(".toml") else f"detection/{name}"


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


# vocmetrics evaluate ------------------------------------------------------------------------------


def _evaluate(args: argparse.Namespace) -> None:
    device = _device(args.device)
    check_json_file(args.json)
    merge.check_state_file(args)
    named = load_protocol(_full_name(args.protocol))
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


# vocmetrics protocols -----------------------------------------------------------------------------


def _protocols(args: argparse.Namespace) -> None:
    if args.name is None:
        names = [f"{task}/{name}" for task in TASKS for name in protocol_names(task)]
        titles = {name: protocol_file(name).title for name in names}
        listed = [{"name": name, "title": title} for name, title in titles.items()]
        width = max(map(len, names))
        lines = [f"{name.ljust(width)}  {title}" for name, title in titles.items()]
        show(json.dumps(listed, indent=2) if args.json else "\n".join(lines))
        return
    name = _full_name(args.name)
    own = name.endswith(".toml")
    content = ProtocolFile.read(Path(name)) if own else protocol_file(name)
    protocol = content.protocol(content.names[0] if own else name.split("/")[1])
    if args.json:
        shown = {
            "name": f"{content.task}/{protocol.name}",
            "title": content.title,
            "fingerprint": protocol.fingerprint,
            "rules": as_json(protocol.rules),
            "sources": content.sources,
        }
        show(json.dumps(shown, indent=2, allow_nan=False))
        return
    lines = [f"{content.task}/{protocol.name}: {content.title}"]
    lines.append(f"fingerprint {protocol.fingerprint}")
    for rule, value in protocol.rules.items():
        lines += ["", f"{rule} = {json.dumps(as_json(value))}", f"    {content.sources[rule]}"]
    show("\n".join(map(printable, lines)))


if __name__ == "__main__":
    sys.exit(main())
