"""Boxes of annotations in the form that the development kits and most tools write, without a tree.

Patterns read such a file from its first to its last byte: plain ASCII, no attributes, elements in
the usual order, numbers in plain digits. All else is left to the parser of XML: a file matches only
if the parser would give the same boxes, and no fault.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from .safe_xml import parse_xml_bytes
from .tables import known_size
from .voc_annotations import ParsedAnnotation, parse_xml_annotation
from .voc_objects import CORNERS

_BLANK = r"[ \t\r\n]*+"
_TEXT = r"[ \t\r\n!-%'-;=?-~]*+"
_NUMBER = r"-?[0-9]{1,9}+(?:\.[0-9]{1,16}+)?+"  # below the limit on coordinates


def _element(name: str, content: str) -> str:
    return f"<{name}>{content}</{name}>{_BLANK}"


def _any_of(names: str) -> str:
    """Elements that hold text and decide nothing, in any order."""
    return f"(?:{'|'.join(_element(name, _TEXT) for name in names.split())})*+"


def _box(number: str) -> str:
    return _element("bndbox", _BLANK + "".join(_element(one, number) for one in CORNERS))


_FLAG = f"(?:{_element('difficult', '([01])')})?+"
_PARTS = f"(?:{_element('part', _BLANK + _element('name', _TEXT) + _box(_NUMBER))})*+"
_OBJECT = re.compile(
    _element(
        "object",
        _BLANK
        + _element("name", "([!-%'-;=?-~][ !-%'-;=?-~]*+)")
        + _any_of("pose truncated occluded")
        + _FLAG
        + _PARTS
        + _box(f"({_NUMBER})")
        + _any_of("truncated occluded")
        + _FLAG
        + _PARTS,
    ).encode()
)
_SIDES = "".join(_element(side, f"({_NUMBER})") for side in ("width", "height"))
_SIZE = _element("size", _BLANK + _SIDES + _any_of("depth"))
_SOURCE = _element("source", _BLANK + _any_of("database annotation image flickrid"))
_OWNER = _element("owner", _BLANK + _any_of("flickrid name"))
_START = re.compile(
    (
        rf'(?:<\?xml version="1\.0"(?: encoding="(?:utf|UTF)-8")?+\?>{_BLANK})?+'
        f"<annotation>{_BLANK}{_any_of('folder filename path')}"
        f"(?:{_SOURCE})?+(?:{_OWNER})?+(?:{_SIZE})?+{_any_of('segmented')}"
    ).encode()
)
_END = re.compile(f"</annotation>{_BLANK}".encode())


class PlainAnnotation(NamedTuple):
    """What the evaluation of boxes needs of an image, and the bytes that hold the rest.

    Attributes:
        path, data: the file and what it holds.
        image_size: height and width in pixels, None if the file does not say.
        names: the class of each object, in the order of the file.
        difficult: whether each is marked so.
        corners: xmin, ymin, xmax, ymax of the first, then of the second, and so on.
    """

    path: Path
    data: bytes
    image_size: tuple[int, int] | None
    names: list[str]
    difficult: list[bool]
    corners: list[float]

    def parsed(self) -> ParsedAnnotation:
        """All that the file says."""
        return parse_xml_annotation(
            self.path, parse_xml_bytes(self.path, self.data, max_tags=len(self.data))
        )


def match_plain_annotation(path: Path, data: bytes) -> PlainAnnotation | None:
    """The boxes of an annotation, None if it has any other form than the plain one."""
    start = _START.match(data)
    if start is None:
        return None
    names: list[str] = []
    flags: list[bool] = []
    numbers: list[bytes] = []
    index = start.end()
    while found := _OBJECT.match(data, index):
        name, before, x1, y1, x2, y2, after = found.groups()
        names.append(name.decode().rstrip())
        flags.append((before or after) == b"1")
        numbers += x1, y1, x2, y2
        index = found.end()
    if _END.fullmatch(data, index) is None:
        return None
    width, height = start.groups()
    size = None if width is None else known_size(float(height), float(width))
    return PlainAnnotation(path, data, size, names, flags, list(map(float, numbers)))
