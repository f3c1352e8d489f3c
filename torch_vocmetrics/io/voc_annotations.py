"""Reading the annotation of one image as the PASCAL VOC kits do: XML (2007 on) and text (2006)."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple
from xml.etree.ElementTree import Element

from ..errors import FileFormatError
from ..limits import MAX_COORDINATE, MAX_XML_BYTES
from .entry_log import EntryLog
from .files import read_text
from .safe_xml import parse_xml
from .tables import known_size
from .voc_objects import CORNERS, Box, VocAnnotation, VocObject, VocPart, parse_number
from .voc_text_form import parse_text_form


class ParsedAnnotation(NamedTuple):
    """An annotation and what is wrong with its objects.

    Attributes:
        annotation: the objects that can be understood.
        faults: class (empty if it has none) and error of each object at fault.
        empty: an error for each ``<object>`` without any content, which is no object.
    """

    annotation: VocAnnotation
    faults: tuple[tuple[str, FileFormatError], ...] = ()
    empty: tuple[FileFormatError, ...] = ()

    @property
    def image_size(self) -> tuple[int, int] | None:
        return self.annotation.image_size

    @property
    def names(self) -> list[str]:
        return [one.name for one in self.annotation.objects]

    @property
    def difficult(self) -> list[bool]:
        return [one.difficult for one in self.annotation.objects]

    @property
    def corners(self) -> list[float]:
        return [corner for one in self.annotation.objects for corner in one.box]

    def report(self, class_names: Collection[str] | None, log: EntryLog) -> None:
        """Log what was left out; faults of classes outside of ``class_names`` do not matter."""
        for error in self.empty:
            log.ignore(error)
        for name, error in self.faults:
            if not name or class_names is None or name in class_names:
                log.add_faults(1, [error])
            else:
                log.ignore(error)


def read_annotation(
    path: str | Path, *, on_fault: str = "error", max_bytes: int = MAX_XML_BYTES
) -> VocAnnotation:
    """Read the annotation of an image: ``.txt`` is the text form of 2006, all else XML.

    Args:
        path: the file.
        on_fault: ``"error"``, or ``"skip"`` to leave objects at fault out with a warning.
        max_bytes: the largest file that is read.

    Raises:
        FileFormatError: naming file and line or element, if the annotation cannot be understood.
        OSError: if there is no such file or it may not be read.

    Warns:
        VocMetricsWarning: of objects that are left out.

    Source:
        ``PASreadrecord.m`` and ``VOCreadrecxml.m`` of the development kits.
    """
    log = EntryLog(path, on_fault)
    parsed = parse_annotation(Path(path), max_bytes=max_bytes)
    parsed.report(None, log)
    log.finish()
    return parsed.annotation


def parse_annotation(path: Path, *, max_bytes: int = MAX_XML_BYTES) -> ParsedAnnotation:
    """Read what can be understood of an annotation.

    Raises:
        FileFormatError: if it is no annotation at all.
        OSError: if there is no such file or it may not be read.
    """
    if path.suffix.lower() == ".txt":
        return ParsedAnnotation(parse_text_form(path, read_text(path, max_bytes=max_bytes)))
    return parse_xml_annotation(path, parse_xml(path, max_bytes=max_bytes))


def parse_xml_annotation(path: Path, root: Element) -> ParsedAnnotation:
    """Read what can be understood of the tree of an annotation.

    Raises:
        FileFormatError: naming ``path``, if it is no annotation at all.
    """
    if root.tag != "annotation":
        raise FileFormatError(
            "not a VOC annotation",
            where=str(path),
            got=f"a root element <{root.tag}>",
            remedy="its root element must be <annotation>",
        )
    objects, faults, empty = _xml_objects(path, root)
    source = root.find("source")
    said = {
        key: _text(node, key)
        for node, keys in ((root, ("folder", "filename")), (source, _SOURCE))
        for key in keys
    }
    depth = _text(root, "size/depth")
    annotation = VocAnnotation(
        image_size=_xml_size(path, root),
        objects=tuple(objects),
        depth=int(depth) if depth.isascii() and depth.isdecimal() and len(depth) < 4 else None,
        segmented=_is_set(root, "segmented"),
        **said,
    )
    return ParsedAnnotation(annotation, tuple(faults), tuple(empty))


def _xml_objects(
    path: Path, root: Element
) -> tuple[list[VocObject], list[tuple[str, FileFormatError]], list[FileFormatError]]:
    objects, faults, empty = [], [], []
    for number, node in enumerate(root.findall("object"), 1):
        where = f"{path}, object {number}"
        if not len(node) and not (node.text or "").strip():
            empty.append(FileFormatError("the object is empty", where=where))
            continue
        try:
            objects.append(_xml_object(where, node))
        except FileFormatError as error:
            faults.append((_text(node, "name"), error))
    return objects, faults, empty


_SOURCE = ("database", "annotation", "image")


def _text(node: Element | None, tag: str) -> str:
    return "" if node is None else (node.findtext(tag) or "").strip()


def _view(node: Element) -> str:
    view = _text(node, "pose")
    return "" if view == "Unspecified" else view


def _xml_object(where: str, node: Element) -> VocObject:
    name = _text(node, "name")
    if not name:
        raise FileFormatError("no <name> in the object", where=where, remedy="name its class")
    where += f" ({name})"
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
        view=_view(node),
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
