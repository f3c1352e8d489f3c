"""CrowdHuman's ``.odgt``: one JSON object a line, for ground truth and for detections.

Source: CrowdHuman annotations; CrowdDet lib/evaluate, image.py and database.py.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..errors import FileFormatError
from ..limits import MAX_TEXT_BYTES
from .bb_gt import detection_file
from .files import read_text
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
    sizes: Mapping[str, tuple[int, int]],
    *,
    max_bytes: int = MAX_TEXT_BYTES,
) -> GroundTruthFile:
    """Read the full boxes of an annotation file, images in the order of the file.

    Targets hold ``boxes`` (x, y, width, height), ``labels`` (all 0), ``ignore`` (another tag than
    person, or ``extra.ignore``), ``image_id`` and ``image_size``.

    Args:
        path: the file.
        sizes: height and width of each image, of :func:`read_crowdhuman_sizes`: the annotations do
            not say them.
        max_bytes: the largest file that is read.

    Raises:
        FileFormatError: naming file and line, for what cannot be understood or an image without a
            size.
        OSError: if there is no such file or it may not be read.
    """
    targets = []
    images = read_odgt(path, max_bytes=max_bytes)
    for name, image in images.items():
        where = f"{path}, line {image['line']}"
        if name not in sizes:
            raise FileFormatError("the size of the image is not known", where=where, got=name)
        objects = _objects(image, "gtboxes", where)
        boxes = [_box(one, "fbox", where) for one in objects]
        ignore = [one.get("tag") != "person" or _ignored(one, where) for one in objects]
        targets.append(
            {
                "boxes": torch.tensor(boxes, dtype=torch.float64).reshape(-1, 4),
                "labels": torch.zeros(len(boxes), dtype=torch.int64),
                "ignore": torch.tensor(ignore, dtype=torch.bool),
                "image_id": name,
                "image_size": sizes[name],
            }
        )
    return GroundTruthFile(
        image_ids=tuple(images),
        class_names=("person",),
        label_ids=(0,),
        box_format="xywh",
        targets=targets,
    )


def read_crowdhuman_sizes(
    path: str | Path, *, max_bytes: int = MAX_TEXT_BYTES
) -> dict[str, tuple[int, int]]:
    """Height and width of each image, as a detection file says them.

    Raises:
        FileFormatError: naming file and line.
        OSError: if there is no such file or it may not be read.
    """
    sizes = {}
    for name, image in read_odgt(path, max_bytes=max_bytes).items():
        size = known_size(image.get("height"), image.get("width"))
        if size is None:
            got = f"{image.get('height')!r}, {image.get('width')!r}"
            where = f"{path}, line {image['line']}"
            raise FileFormatError("no height and width", where=where, got=got, remedy=_FORM)
        sizes[name] = size
    return sizes


def read_crowdhuman_detections(
    path: str | Path, ground_truths: GroundTruthFile, *, max_bytes: int = MAX_TEXT_BYTES
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
    places: dict[Any, int] = {name: i for i, name in enumerate(ground_truths.image_ids)}
    index, boxes, scores = [], [], []
    for name, image in read_odgt(path, max_bytes=max_bytes).items():
        where = f"{path}, line {image['line']}"
        if name not in places:
            raise FileFormatError("not an image of the ground truth", where=where, got=repr(name))
        for one in _objects(image, "dtboxes", where):
            index.append(places[name])
            boxes.append(_box(one, "box", where))
            scores.append(_score(one.get("score"), where))
    table = np.array(boxes, np.float64).reshape(-1, 4)
    return detection_file(
        np.array(index, np.int64),
        table,
        np.array(scores, np.float64),
        len(places),
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
