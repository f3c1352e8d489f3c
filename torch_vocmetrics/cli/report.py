"""What ``vocmetrics evaluate`` shows: a table for people, plain data for programs."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import InputError
from ..io import DetectionFile, GroundTruthFile
from ..protocols import protocol_title
from ..results import DetectionResult


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
        average = shown(float(result.average_precision[k]))
        rows.append((name, *(str(int(count)) for count in counts), average))
    rows += [(name, "", "", "", "", "not entered") for name in inputs.not_entered]
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


def aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Rows with the first column to the left and the others to the right."""
    rows = [tuple(cell if cell.isprintable() else ascii(cell) for cell in row) for row in rows]
    first, *others = (max(map(len, column)) for column in zip(*rows, strict=True))
    return [
        "  ".join([row[0].ljust(first), *map(str.rjust, row[1:], others)]).rstrip() for row in rows
    ]


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
        InputError: if the folder of the JSON file does not exist.
    """
    if args.json is not None:
        check_json_folder(args.json)
        numbers = json.dumps(content, indent=2, allow_nan=False) + "\n"
        if args.json == "-":
            sys.stdout.write(numbers)
        else:
            Path(args.json).write_text(numbers, encoding="utf-8")
    if not args.quiet and args.json != "-":
        sys.stdout.write(text + "\n")


def check_json_folder(path: str | None) -> None:
    """Raise InputError if a JSON file could not be written for want of its folder."""
    if path not in (None, "-") and not Path(str(path)).absolute().parent.is_dir():
        raise InputError("the folder does not exist", where=f"--json {path}")
