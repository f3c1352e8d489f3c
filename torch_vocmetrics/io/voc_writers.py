"""Writing what the PASCAL VOC kits read: annotations, and results of detection."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from ..errors import FileFormatError
from .names import check_row_name
from .voc_objects import CORNERS, Box, VocAnnotation, VocObject

_TAG = re.compile(r"[^\W\d][\w.-]*")
_UNQUOTABLE = re.compile(r'["\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]')
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_annotation(path: str | Path, annotation: VocAnnotation) -> None:
    """Write an annotation: ``.txt`` in the text form of 2006, all else as XML.

    What :func:`read_annotation` reads of the file equals what was written. The text form holds no
    parts, actions, points or occlusion, and no fields of the image but its size, name and database.

    Raises:
        FileFormatError: if the text form cannot hold the annotation.
    """
    path = Path(path)
    if path.suffix.lower() == ".txt":
        path.write_text(_text_form(path, annotation), encoding="utf-8")
        return
    root = Element("annotation")
    for tag in ("folder", "filename"):
        add_text(root, tag, getattr(annotation, tag))
    source = SubElement(root, "source")
    for tag in ("database", "annotation", "image"):
        add_text(source, tag, getattr(annotation, tag))
    if annotation.image_size is not None:
        size = SubElement(root, "size")
        height, width = annotation.image_size
        for tag, value in (("width", width), ("height", height), ("depth", annotation.depth)):
            if value is not None:
                add_text(size, tag, str(value))
    add_text(root, "segmented", str(int(annotation.segmented)))
    for one in annotation.objects:
        _add_object(root, one)
    write_xml(path, root)


def _add_object(root: Element, one: VocObject) -> None:
    node = SubElement(root, "object")
    add_text(node, "name", one.name)
    add_text(node, "pose", one.view or "Unspecified")
    add_text(node, "truncated", str(int(one.truncated)))
    if one.occluded:
        add_text(node, "occluded", "1")
    add_text(node, "difficult", str(int(one.difficult)))
    add_box(node, one.box)
    for part in one.parts:
        entry = SubElement(node, "part")
        add_text(entry, "name", part.name)
        add_box(entry, part.box)
    if one.actions is not None:
        actions = SubElement(node, "actions")
        for name, performed in one.actions.items():
            add_text(actions, name, str(int(performed)))
    if one.point is not None:
        point = SubElement(node, "point")
        for tag, value in zip("xy", one.point, strict=True):
            add_text(point, tag, shortest(value))


def add_text(node: Element, tag: str, text: str) -> None:
    """Add a child element that holds a text.

    Raises:
        FileFormatError: if the tag is no name or the text has a letter that XML cannot hold.
    """
    letter = _NOT_XML.search(text)
    if letter or not _TAG.fullmatch(tag):
        raise FileFormatError(
            "XML cannot hold this tag or text",
            where=f"<{tag[:60]}>",
            got=repr(letter[0] if letter else tag[:60]),
            remedy="rename it",
        )
    SubElement(node, tag).text = text


def add_box(node: Element, box: Box) -> None:
    """Add a ``<bndbox>``."""
    bounds = SubElement(node, "bndbox")
    for corner, value in zip(CORNERS, box, strict=True):
        add_text(bounds, corner, shortest(value))


def write_xml(path: str | Path, root: Element) -> None:
    """Write an element indented by tabs, without a declaration, as the kits do."""
    ElementTree.indent(root, space="\t")
    text = ElementTree.tostring(root, encoding="unicode", short_empty_elements=False)
    Path(path).write_text(text + "\n", encoding="utf-8")


def shortest(value: float) -> str:
    """A number in the fewest digits that give it back, whole ones without a point."""
    return str(int(value)) if value == int(value) else repr(float(value))


def write_detections(path: str | Path, rows: Iterable[tuple[str, float, Sequence[float]]]) -> None:
    """Write ``comp3_det_<set>_<class>.txt``: image id, confidence and box of each detection."""
    lines = (
        " ".join(
            [
                check_row_name(image_id, str(path)),
                repr(float(score)),
                *(shortest(float(value)) for value in box),
            ]
        )
        for image_id, score, box in rows
    )
    Path(path).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _text_form(path: Path, annotation: VocAnnotation) -> str:
    height, width = annotation.image_size or (0, 0)
    labels = [one.label(2006) for one in annotation.objects]
    if any(not one.name.islower() or one.parts or one.actions for one in annotation.objects):
        raise FileFormatError(
            "the text form of 2006 holds no parts, actions or class names with capitals",
            where=str(path),
            remedy="write XML",
        )
    if any(map(_UNQUOTABLE.search, (annotation.filename, annotation.database, *labels))):
        raise FileFormatError(
            "the text form of 2006 holds no names with quotes or control characters",
            where=str(path),
            remedy="write XML",
        )
    quoted = " ".join(f'"{label}"' for label in labels)
    lines = [
        "# PASCAL Annotation Version 1.00",
        "",
        f'Image filename : "{annotation.filename}"',
        f"Image size (X x Y x C) : {width} x {height} x {annotation.depth or 3}",
        f'Database : "{annotation.database}"',
        f"Objects with ground truth : {len(labels)} {{ {quoted} }}",
    ]
    for number, (label, one) in enumerate(zip(labels, annotation.objects, strict=True), 1):
        x1, y1, x2, y2 = map(shortest, one.box)
        which = f'for object {number} "{label}"'
        lines += [
            "",
            f'# Details for object {number} ("{label}")',
            f'Original label {which} : "{label}"',
            f"Bounding box {which} (Xmin, Ymin) - (Xmax, Ymax) : ({x1}, {y1}) - ({x2}, {y2})",
        ]
    return "\n".join(lines) + "\n"
