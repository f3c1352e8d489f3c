"""Annotations of one image as the PASCAL VOC kits store them: XML (2007 on) and text (2006)."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree.ElementTree import Element

from ..errors import FileFormatError
from ..limits import MAX_COORDINATE, MAX_XML_BYTES
from .files import read_text
from .safe_xml import parse_xml
from .tables import known_size

CORNERS = ("xmin", "ymin", "xmax", "ymax")

Box = tuple[float, float, float, float]


@dataclass(frozen=True, kw_only=True)
class VocPart:
    """A part of an object, such as a person's head: its type and its box."""

    name: str
    box: Box


@dataclass(frozen=True, kw_only=True)
class VocObject:
    """One annotated object.

    Attributes:
        name: its class.
        box: xmin, ymin, xmax, ymax in pixels from 1, ends included.
        difficult, truncated, occluded: the flags; what the file does not say is false.
        view: ``"Frontal"``, ``"Rear"`` and the like, empty if unspecified.
        parts: of persons in the layout sets.
        actions: which actions a person performs, None if the file does not say (2010 on).
        point: a point on a person, x and y, for boxless action classification (2012).
    """

    name: str
    box: Box
    difficult: bool = False
    truncated: bool = False
    occluded: bool = False
    view: str = ""
    parts: tuple[VocPart, ...] = ()
    actions: dict[str, bool] | None = None
    point: tuple[float, float] | None = None

    def label(self, year: int) -> str:
        """The label that the development kit of a year gives, such as ``PAScarRearTruncDiff``."""
        difficult = "Difficult" if year <= 2007 else "Diff"
        marks = (
            (self.truncated, "Trunc"),
            (self.occluded and year >= 2008, "Occ"),
            (self.difficult, difficult),
        )
        return f"PAS{self.name}{self.view}" + "".join(mark for is_set, mark in marks if is_set)


@dataclass(frozen=True, kw_only=True)
class VocAnnotation:
    """One annotated image.

    Attributes:
        image_size: height and width in pixels, None if the file does not say.
        objects: in the order of the file, which decides between equal overlaps.
        depth: channels of the image, None if the file does not say.
        segmented: whether the image has a segmentation.
        folder, filename, database, annotation, image: where it comes from, empty if not said.
    """

    image_size: tuple[int, int] | None
    objects: tuple[VocObject, ...]
    depth: int | None = None
    segmented: bool = False
    folder: str = ""
    filename: str = ""
    database: str = ""
    annotation: str = ""
    image: str = ""


def read_annotation(path: str | Path, *, max_bytes: int = MAX_XML_BYTES) -> VocAnnotation:
    """Read the annotation of an image: ``.txt`` is the text form of 2006, all else XML.

    Raises:
        FileFormatError: naming file and line or element, if the annotation cannot be understood.
        OSError: if there is no such file or it may not be read.

    Source:
        ``PASreadrecord.m`` and ``VOCreadrecxml.m`` of the development kits.
    """
    path = Path(path)
    if path.suffix.lower() == ".txt":
        return _parse_text(path, read_text(path, max_bytes=max_bytes))
    root = parse_xml(path, max_bytes=max_bytes)
    if root.tag != "annotation":
        raise FileFormatError(
            "not a VOC annotation",
            where=str(path),
            got=f"a root element <{root.tag}>",
            remedy="its root element must be <annotation>",
        )
    objects = (_xml_object(path, k, node) for k, node in enumerate(root.findall("object"), 1))
    source = root.find("source")
    said = {
        key: _text(node, key)
        for node, keys in ((root, ("folder", "filename")), (source, _SOURCE))
        for key in keys
    }
    depth = _text(root, "size/depth")
    return VocAnnotation(
        image_size=_xml_size(path, root),
        objects=tuple(objects),
        depth=int(depth) if depth.isascii() and depth.isdecimal() and len(depth) < 4 else None,
        segmented=_is_set(root, "segmented"),
        **said,
    )


_SOURCE = ("database", "annotation", "image")


def _text(node: Element | None, tag: str) -> str:
    return "" if node is None else (node.findtext(tag) or "").strip()


def _xml_object(path: Path, number: int, node: Element) -> VocObject:
    name = _text(node, "name")
    where = f"{path}, object {number}"
    if not name:
        raise FileFormatError("no <name> in the object", where=where, remedy="name its class")
    where += f" ({name})"
    view = _text(node, "pose")
    parts = (
        VocPart(name=_text(part, "name"), box=xml_box(part, f"{where}, part {k}"))
        for k, part in enumerate(node.findall("part"), 1)
    )
    actions = node.find("actions")
    point = node.find("point")
    return VocObject(
        name=name,
        box=xml_box(node, where),
        difficult=_is_set(node, "difficult"),
        truncated=_is_set(node, "truncated"),
        occluded=_is_set(node, "occluded"),
        view="" if view == "Unspecified" else view,
        parts=tuple(parts),
        actions=None
        if actions is None
        else {action.tag: (action.text or "").strip() == "1" for action in actions},
        point=None
        if point is None
        else (_xml_number(point, "x", where), _xml_number(point, "y", where)),
    )


def xml_box(node: Element, where: str) -> Box:
    """Read the ``<bndbox>`` of an object, a part or a layout.

    Raises:
        FileFormatError: naming ``where``, unless it has four coordinates that may be pixels.
    """
    bounds = node.find("bndbox")
    where += ", bndbox"
    if bounds is None:
        raise FileFormatError("no <bndbox> in the element", where=where, remedy="give its box")
    xmin, ymin, xmax, ymax = (_xml_number(bounds, corner, where) for corner in CORNERS)
    return xmin, ymin, xmax, ymax


def _is_set(node: Element, flag: str) -> bool:
    return _text(node, flag) == "1"


def _xml_number(node: Element, tag: str, where: str) -> float:
    text = node.findtext(tag)
    if text is None:
        raise FileFormatError(f"no <{tag}>", where=where, remedy="give all coordinates")
    value = parse_number(text.strip(), f"{where}/{tag}")
    if abs(value) > MAX_COORDINATE:
        raise FileFormatError(
            "not a coordinate of an image",
            where=f"{where}/{tag}",
            got=repr(text.strip()[:40]),
            remedy="give pixels",
        )
    return value


def _xml_size(path: Path, root: Element) -> tuple[int, int] | None:
    size = root.find("size")
    if size is None or size.find("width") is None or size.find("height") is None:
        return None
    height, width = (_xml_number(size, tag, f"{path}, size") for tag in ("height", "width"))
    return known_size(height, width)


def parse_number(text: str, where: str, *, infinite: bool = False) -> float:
    """Read a finite real number in ASCII digits, and ``Inf`` or ``-Inf`` if ``infinite``.

    Raises:
        FileFormatError: naming ``where``, for anything else.
    """
    try:
        value = float(text) if text.isascii() and "_" not in text else math.nan
    except ValueError:
        value = math.nan
    if math.isnan(value) or (math.isinf(value) and not infinite):
        raise FileFormatError(
            "not a number" if infinite else "not a finite number",
            where=where,
            got=repr(text[:40]),
            remedy="give a number",
        )
    return value


# The text form of 2006. A label is PAS, class, view and the marks: PAScarRearTruncDifficult.
_SIZE = re.compile(r"Image size \(X x Y x C\) : (\d{1,9}) x (\d{1,9})\b")
_COUNT = re.compile(r"Objects with ground truth : (\d{1,9})\b")
_LABEL = re.compile(r'Original label for object (\d{1,9}) "[^"]*" : "([^"]*)"')
_BOX = re.compile(
    r'Bounding box for object (\d{1,9}) "[^"]*" \(Xmin, Ymin\) - \(Xmax, Ymax\) : (.*)'
)
_CORNERS = re.compile(r"\(([^,()]+),([^,()]+)\) - \(([^,()]+),([^,()]+)\)")
_PARTS = re.compile(
    r"PAS(?P<name>[^A-Z]+)(?P<view>(?:(?!Trunc|Difficult)[A-Z][^A-Z]*)*)"
    r"(?P<truncated>Trunc)?(?P<difficult>Difficult)?"
)


def _parse_text(path: Path, text: str) -> VocAnnotation:
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
            "not a complete VOC2006 annotation",
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
            "not a VOC2006 label",
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
