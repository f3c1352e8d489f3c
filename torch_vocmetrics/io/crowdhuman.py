"""CrowdHuman's ``.odgt``: one JSON object a line, for ground truth and for detections.

Source: CrowdHuman annotations; CrowdDet lib/evaluate, image.py and database.py.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..errors import FileFormatError
from ..limits import MAX_TEXT_BYTES
from .bb_gt import detection_file
from .entry_log import EntryLog
from .files import read_text
from .image_names import ImageIndex
from .tables import DetectionFile, GroundTruthFile, known_size

_FORM = (
    "a line is {ID, gtboxes: [{tag, fbox, extra}]} or {ID, height, width, dtboxes: [{box, score}]}"
)


def read_odgt(path: str | Path, *, max_bytes: int = MAX_TEXT_BYTES) -> dict[str, dict[str, Any]]:
    """Read the objects of a file by their ``ID``, each with its ``line``.

    Raises:
        FileFormatError: naming file and line, for what is no JSON object with an ID of its own.
        OSError: if there is no such file or it may not be read.
    """
    images: dict[str, dict[str, Any]] = {}
    for number, line in enumerate(read_text(Path(path), max_bytes=max_bytes).split("\n"), 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            image = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise FileFormatError("not JSON", where=where, got=str(error), remedy=_FORM) from None
        name = image.get("ID") if isinstance(image, dict) else None
        if not isinstance(name, str) or name in images:
            what = "the ID is given twice" if isinstance(name, str) else "no ID"
            raise FileFormatError(what, where=where, got=repr(name), remedy=_FORM)
        images[name] = image | {"line": number}
    return images


def read_crowdhuman_ground_truths(
    path: str | Path,
    sizes: Mapping[str, tuple[int, int] | None],
    *,
    on_fault: str = "error",
    max_bytes: int = MAX_TEXT_BYTES,
) -> GroundTruthFile:
    """Read the full boxes of an annotation file, images in the order of the file.

    Targets hold ``boxes`` (x, y, width, height), ``labels`` (all 0), ``ignore`` (another tag than
    person, or ``extra.ignore``), ``image_id`` and ``image_size``, which may be missing for images
    without results.

    Args:
        path: the file.
        sizes: height and width of each image that has results, of :func:`read_crowdhuman_sizes`;
            None for those that only the annotations may say.
        on_fault: ``"error"``, or ``"skip"`` to leave objects at fault out with a warning.
        max_bytes: the largest file that is read.

    Raises:
        FileFormatError: naming file and line, for what cannot be understood or an image without a
            size.
        OSError: if there is no such file or it may not be read.

    Warns:
        VocMetricsWarning: of objects that are left out.
    """
    images, log, targets = read_odgt(path, max_bytes=max_bytes), EntryLog(path, on_fault), []
    known, results = list(sizes.values()), ImageIndex(list(sizes))
    for name, image in images.items():
        where = f"{path}, line {image['line']}"
        boxes, ignore = [], []
        for one in _objects(image, "gtboxes", where):
            with log.guard():
                box, is_ignored = _box(one, "fbox", where), _ignored(one, where)
                boxes.append(box)
                ignore.append(one.get("tag") != "person" or is_ignored)
        (row,) = results.find([name])
        said = None if row is None else known[row]
        size = said or known_size(image.get("height"), image.get("width"))
        size = size or _size_around(boxes, where, has_results=row is not None)
        targets.append(
            {
                "boxes": torch.tensor(boxes, dtype=torch.float64).reshape(-1, 4),
                "labels": torch.zeros(len(boxes), dtype=torch.int64),
                "ignore": torch.tensor(ignore, dtype=torch.bool),
                "image_id": name,
                "image_size": size,
            }
        )
    log.finish()
    return GroundTruthFile(
        image_ids=tuple(images),
        class_names=("person",),
        label_ids=(0,),
        box_format="xywh",
        targets=targets,
    )


def _size_around(
    boxes: Sequence[Sequence[float]], where: str, *, has_results: bool
) -> tuple[int, int]:
    """Height and width of an image that holds all boxes, for an image without results.

    Raises:
        FileFormatError: if it has results, whose boxes would be clipped to the image.
    """
    if has_results:
        raise FileFormatError(
            "the size of the image is not known",
            where=where,
            remedy="give height and width in the annotations or the results",
        )
    height = max([1.0, *(y + h for _, y, _, h in boxes)])
    width = max([1.0, *(x + w for x, _, w, _ in boxes)])
    return math.ceil(height), math.ceil(width)


def read_crowdhuman_sizes(
    path: str | Path, *, max_bytes: int = MAX_TEXT_BYTES
) -> dict[str, tuple[int, int] | None]:
    """Height and width of each image of a detection file, None where it does not say them.

    Raises:
        FileFormatError: naming file and line.
        OSError: if there is no such file or it may not be read.
    """
    return {
        name: known_size(image.get("height"), image.get("width"))
        for name, image in read_odgt(path, max_bytes=max_bytes).items()
    }


def read_crowdhuman_detections(
    path: str | Path,
    ground_truths: GroundTruthFile,
    *,
    on_fault: str = "error",
    max_bytes: int = MAX_TEXT_BYTES,
) -> DetectionFile:
    """Read the detections of a file; boxes are x, y, width, height.

    Ties of score fall by the order of the annotations, which ``order`` says.

    An image that the file does not have is an image without detections.

    Args:
        path: the file.
        ground_truths: the images.
        max_bytes: the largest file that is read.

    Raises:
        FileFormatError: naming file and line, for a malformed row or an unknown image.
        OSError: if there is no such file or it may not be read.
    """
    log = EntryLog(path, on_fault)
    known = ImageIndex(ground_truths.image_ids)
    index, boxes, scores = [], [], []
    images = read_odgt(path, max_bytes=max_bytes)
    for (name, image), position in zip(images.items(), known.find(list(images)), strict=True):
        where = f"{path}, line {image['line']}"
        if position is None:
            log.add_faults(
                1,
                [FileFormatError("not an image of the ground truth", where=where, got=repr(name))],
            )
            continue
        for one in _objects(image, "dtboxes", where):
            with log.guard():
                box, score = _box(one, "box", where), _score(one.get("score"), where)
                index.append(position)
                boxes.append(box)
                scores.append(score)
    log.finish()
    table = np.array(boxes, np.float64).reshape(-1, 4)
    return detection_file(
        np.array(index, np.int64),
        table,
        np.array(scores, np.float64),
        len(ground_truths.image_ids),
        with_order=True,
    )


def _objects(image: dict[str, Any], key: str, where: str) -> list[dict[str, Any]]:
    rows = image.get(key)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise FileFormatError(f"no list {key!r} of objects", where=where, remedy=_FORM)
    return rows


def _box(one: dict[str, Any], key: str, where: str) -> list[float]:
    values = one.get(key)
    if not isinstance(values, list) or len(values) != 4:
        raise FileFormatError(f"{key} must hold 4 numbers", where=where, got=repr(values)[:60])
    box = [_number(value, where) for value in values]
    if box[2] < 0 or box[3] < 0:
        raise FileFormatError(f"{key} has a negative size", where=where, got=box)
    return box


def _ignored(one: dict[str, Any], where: str) -> bool:
    """The flag ``ignore`` of the table ``extra``; both may be missing."""
    extra = one.get("extra") or {}
    flag = extra.get("ignore", 0) if isinstance(extra, dict) else None
    if type(flag) not in (int, bool) or flag not in (0, 1):
        got = json.dumps(one.get("extra"))[:60]
        raise FileFormatError("extra.ignore must be 0 or 1", where=where, got=got, remedy=_FORM)
    return bool(flag)


def _number(value: object, where: str) -> float:
    try:
        number = float(value) if type(value) in (int, float) else math.nan  # type: ignore[arg-type]
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise FileFormatError("not a finite number", where=where, got=repr(value)[:60])
    return number


def _score(value: object, where: str) -> float:
    infinite = isinstance(value, float) and math.isinf(value)
    return float(value) if infinite else _number(value, where)  # type: ignore[arg-type]
