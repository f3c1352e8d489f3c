"""PASCAL Annotation Version 1.00: the text form of VOC2006, INRIA, Penn-Fudan and others.

The class of an object is in the quoted PASCAL label; the original label beside it, such as
``"UprightPerson"``, is the name that the data set gave it before.

Source: ``PASreadrecord.m`` of VOC2006.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

from ..errors import FileFormatError
from .tables import known_size
from .voc_objects import VocAnnotation, VocObject, parse_number

# A label is PAS, class, view and the marks: PAScarRearTruncDifficult.
_SIZE = re.compile(r"Image size \(X x Y x C\) : (\d{1,9}) x (\d{1,9})\b")
_COUNT = re.compile(r"Objects with ground truth : (\d{1,9})\b")
_LABEL = re.compile(r'Original label for object (\d{1,9}) "([^"]*)" : "[^"]*"')
_BOX = re.compile(
    r'Bounding box for object (\d{1,9}) "[^"]*" \(Xmin, Ymin\) - \(Xmax, Ymax\) : (.*)'
)
_CORNERS = re.compile(r"\(([^,()]+),([^,()]+)\) - \(([^,()]+),([^,()]+)\)")
_PARTS = re.compile(
    r"PAS(?P<name>[^A-Z]+)(?P<view>(?:(?!Trunc|Difficult)[A-Z][^A-Z]*)*)"
    r"(?P<truncated>Trunc)?(?P<difficult>Difficult)?"
)


def parse_text_form(path: Path, text: str) -> VocAnnotation:
    """The annotation that a text says.

    Raises:
        FileFormatError: naming file and line, if it cannot be understood.
    """
    labels: dict[int, VocObject] = {}
    boxes: dict[int, tuple[float, float, float, float]] = {}
    size: tuple[int, int] | None = None
    count: int | None = None
    for number, line in _statements(text):
        where = f"{path}, line {number}"
        if found := _SIZE.match(line):
            size = known_size(int(found[2]), int(found[1]))
        elif found := _COUNT.match(line):
            count = int(found[1])
        elif found := _LABEL.match(line):
            labels[int(found[1])] = _parse_label(found[2], where)
        elif found := _BOX.match(line):
            boxes[int(found[1])] = _parse_corners(found[2], where)
    numbers = list(range(1, len(boxes) + 1))
    if count != len(boxes) or sorted(boxes) != numbers or sorted(labels) != numbers:
        raise FileFormatError(
            "not a complete PASCAL annotation",
            where=str(path),
            got=f"{count or 0} objects announced, {len(labels)} labels, {len(boxes)} boxes",
            remedy="each object needs its 'Original label' and its 'Bounding box' line",
        )
    objects = (dataclasses.replace(labels[k], box=boxes[k]) for k in numbers)
    return VocAnnotation(image_size=size, objects=tuple(objects))


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Give number and text of the lines that are neither blank nor a comment."""
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if stripped and not stripped.startswith("#"):
            yield number, stripped


def _parse_label(label: str, where: str) -> VocObject:
    """Read what a label says of its object; the box comes from another line."""
    found = _PARTS.fullmatch(label)
    if not found:
        raise FileFormatError(
            "not a PASCAL label",
            where=where,
            got=repr(label[:60]),
            remedy="a label reads like PAScarRearTruncDifficult",
        )
    return VocObject(
        name=found["name"],
        box=(0.0, 0.0, 0.0, 0.0),
        difficult=found["difficult"] is not None,
        truncated=found["truncated"] is not None,
        view=found["view"],
    )


def _parse_corners(text: str, where: str) -> tuple[float, float, float, float]:
    """Read the box between two corners, whichever of them comes first."""
    found = _CORNERS.fullmatch(text.strip())
    if not found:
        raise FileFormatError(
            "not a bounding box",
            where=where,
            got=repr(text[:60]),
            remedy="a box reads like (186, 271) - (344, 322)",
        )
    x1, y1, x2, y2 = (parse_number(part.strip(), where) for part in found.groups())
    return min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2)
