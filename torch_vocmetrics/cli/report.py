"""What ``vocmetrics evaluate`` shows: a table for people, plain data for programs."""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import InputError, printable
from ..protocols import protocol_title
from .streams import show

if TYPE_CHECKING:  # torch is not needed for reports of other commands
    from ..io import DetectionFile, GroundTruthFile
    from ..results import DetectionResult

_WIDEST = 80  # letters of a cell of a table


class Inputs(NamedTuple):
    """What was evaluated, and the classes that have no results file."""

    ground_truths: GroundTruthFile
    detections: DetectionFile
    not_entered: tuple[str, ...]


def report(result: DetectionResult, inputs: Inputs) -> dict[str, Any]:
    """Give all numbers for programs, by the names of the result; undefined is None."""
    return {
        "protocol": protocol_title(result.protocol),
        "fingerprint": result.protocol.fingerprint,
        "num_images": result.num_images,
        "num_detections": result.num_detections,
        "mean_average_precision": defined(result.mean_average_precision),
        "num_classes_averaged": result.num_classes_averaged,
        "not_entered": list(inputs.not_entered),
        "summary": {key: defined(value) for key, value in result.to_dict().items()},
        "iou_thresholds": list(result.protocol.iou_thresholds),
        "classes": [
            {
                "class_name": name,
                "average_precision": defined(float(result.average_precision[k])),
                "num_positives": int(result.num_positives[k]),
                "num_detections": inputs.detections.num_detections[k],
                "true_positives": result.true_positives[:, k].tolist(),
                "false_positives": result.false_positives[:, k].tolist(),
            }
            for k, name in enumerate(result.class_names)
        ],
    }


def defined(value: float) -> float | None:
    """A number for JSON, None for NaN."""
    return None if math.isnan(value) else value


def table(result: DetectionResult, inputs: Inputs) -> str:
    """Give a table for people: a row per class, the mean, and what else the protocol publishes."""
    threshold = result.protocol.iou_thresholds[0]
    rows: list[tuple[str, ...]] = [
        ("class", "positives", "detections", f"TP@{threshold:g}", f"FP@{threshold:g}", "AP")
    ]
    for k, name in enumerate(result.class_names):
        counts = (
            result.num_positives[k],
            inputs.detections.num_detections[k],
            result.true_positives[0, k],
            result.false_positives[0, k],
        )
        average = shown_if(result.is_averaged[k], result.average_precision[k])
        rows.append((name, *(str(int(count)) for count in counts), average))
    rows.append(
        (
            f"mean over {result.num_classes_averaged} classes",
            *("", "", "", ""),
            shown(result.mean_average_precision),
        )
    )
    summary = {key: v for key, v in result.to_dict().items() if not key.startswith("AP/")}
    lines = [
        protocol_title(result.protocol),
        f"{result.num_images} images, {result.num_detections} detections",
        "",
        *aligned(rows),
    ]
    if len(summary) > 1:
        lines += ["", *aligned([(key, shown(value)) for key, value in summary.items()])]
    return "\n".join(lines)


def shown(value: float) -> str:
    """Four decimals, or a word for NaN."""
    return "undefined" if math.isnan(value) else f"{value:.4f}"


def shown_if(averaged: Any, value: Any) -> str:
    """The number of a class or part, or that the mean does not run over it."""
    return shown(float(value)) if averaged else "not in the mean"


def aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Rows with the first column to the left and the others to the right."""
    rows = [tuple(_cell(text) for text in row) for row in rows]
    first, *others = (max(map(len, column)) for column in zip(*rows, strict=True))
    return [
        "  ".join([row[0].ljust(first), *map(str.rjust, row[1:], others)]).rstrip() for row in rows
    ]


def _cell(text: str) -> str:
    """A text from a file as a cell: nothing that steers a terminal, and not of any width."""
    return printable(text if len(text) <= _WIDEST else f"{text[:_WIDEST]}...")


def as_json(value: Any) -> Any:
    """Make a rule JSON data; JSON has no infinity, so that is the string ``inf`` or ``-inf``."""
    if isinstance(value, dict):
        return {key: as_json(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(entry) for entry in value]
    return str(value) if isinstance(value, float) and math.isinf(value) else value


def publish(args: argparse.Namespace, content: dict[str, Any], text: str) -> None:
    """Write the numbers where ``--json`` says, and the table unless it is not wanted.

    Raises:
        InputError: if the JSON file cannot be written there.
        OSError: if the disk is full, or standard output fails.
    """
    if args.json is not None:
        check_json_file(args.json)
        numbers = json.dumps(content, indent=2, allow_nan=False)
        if args.json == "-":
            show(numbers)
        else:
            write_json(Path(args.json), numbers)
    if not args.quiet and args.json != "-":
        show("\n".join(map(printable, text.split("\n"))))


def write_json(path: Path, numbers: str) -> None:
    """Write a JSON text and a line end.

    Raises:
        OSError: naming the file.
    """
    try:
        path.write_text(numbers + "\n", encoding="utf-8")
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def check_json_file(path: str | None) -> None:
    """Raise InputError if ``--json`` names a file that cannot be written."""
    if path is not None and path != "-":
        check_output_file(Path(path), "--json")


def check_output_file(path: Path, option: str) -> None:
    """Refuse a file that cannot be written, before the work of which it shall keep the result.

    Raises:
        InputError: if it is a folder, its folder does not exist, or its rights forbid writing.
    """
    where, folder = f"{option} {path}", path.absolute().parent
    if path.is_dir():
        raise InputError("is a folder", where=where, remedy="give the name of a file")
    if not folder.is_dir():
        raise InputError("the folder does not exist", where=where)
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise InputError("may not be written", where=where, remedy="give another file")


def refuse_to_overwrite(paths: Iterable[Path], *, force: bool) -> None:
    """Refuse to write over files, unless that is asked for.

    Raises:
        InputError: naming the first of those that exist.
    """
    existing = [path for path in paths if path.exists()]
    if existing and not force:
        raise InputError(
            "the file exists",
            where=str(existing[0]),
            got=f"{len(existing):,} such files",
            remedy="give another output, or --force to overwrite them",
        )


def check_output_folder(path: Path, option: str) -> None:
    """Refuse a folder that cannot be made, before the work of which it shall keep the result.

    Raises:
        InputError: if it, or the nearest folder above that exists, is none or may not be written.
    """
    nearest = next(place for place in (path, *path.absolute().parents) if place.exists())
    if not nearest.is_dir():
        raise InputError("is not a folder", where=f"{option} {path}", got=str(nearest))
    if not os.access(nearest, os.W_OK):
        raise InputError("may not be written", where=f"{option} {path}", remedy="give another")
