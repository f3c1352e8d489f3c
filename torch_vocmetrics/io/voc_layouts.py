"""Results of person layout: one XML file for all classes and images, read and written."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, SubElement

import numpy as np
import torch
from torch import Tensor

from ..errors import FileFormatError, warn
from ..limits import MAX_XML_BYTES
from ..protocols import LayoutProtocol
from .entry_log import EntryLog
from .names import path_inside
from .safe_xml import parse_xml
from .voc_annotations import parse_annotation, xml_box
from .voc_folder import image_set_path, read_image_set
from .voc_objects import Box, VocObject, VocPart, parse_number
from .voc_sets import read_object_set
from .voc_writers import add_box, add_text, write_xml


@dataclass(frozen=True, kw_only=True)
class VocLayout:
    """One estimate of the parts of a person.

    Attributes:
        image_id: the image.
        confidence: its score.
        parts: in the order of the file.
        object_index: whom it is about, from 1 in the image (2008 on); None in 2007.
        box: the person, which 2007 detects as well; None later.
    """

    image_id: str
    confidence: float
    parts: tuple[VocPart, ...]
    object_index: int | None = None
    box: Box | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class LayoutFile:
    """Layouts and persons of an image set, ready for ``LayoutAP.update``.

    Attributes:
        image_ids: I ids.
        layouts, persons: I dicts each.
        num_layouts: how many layouts the results file has.
        num_unknown: how many of them are of persons or images that are not in the set.
    """

    image_ids: tuple[str, ...]
    layouts: list[dict[str, Any]]
    persons: list[dict[str, Any]]
    num_layouts: int
    num_unknown: int


def read_layouts(
    path: str | Path, *, on_fault: str = "error", max_bytes: int = MAX_XML_BYTES
) -> list[VocLayout]:
    """Read the results XML of person layout, ``comp5_layout_<set>.xml`` and the like.

    Args:
        path: the file.
        on_fault: ``"error"``, or ``"skip"`` to leave layouts at fault out with a warning.
        max_bytes: the largest file that is read.

    Raises:
        FileFormatError: naming file and layout, for what cannot be understood.
        OSError: if there is no such file or it may not be read.

    Warns:
        VocMetricsWarning: of layouts that are left out.

    Source: ``VOCevallayout.m`` and the manuals of the development kits.
    """
    log = EntryLog(path, on_fault)
    found = _placed_layouts(Path(path), log, max_bytes)
    log.finish()
    return [layout for _, layout in found]


def _placed_layouts(path: Path, log: EntryLog, max_bytes: int) -> list[Placed]:
    root = parse_xml(path, max_bytes=max_bytes)
    if root.tag != "results":
        raise FileFormatError(
            "not a results file of person layout",
            where=str(path),
            got=f"a root element <{root.tag}>",
            remedy="its root element must be <results>",
        )
    found = []
    for position, node in enumerate(root.findall("layout")):
        with log.guard():
            found.append((position, _layout(node, f"{path}, layout {position + 1}")))
    return found


def _layout(node: Element, where: str) -> VocLayout:
    image_id = (node.findtext("image") or "").strip()
    if not image_id:
        raise FileFormatError("no <image> in the layout", where=where, remedy="name its image")
    index = node.findtext("object")
    number = None if index is None else parse_number(index.strip(), f"{where}, object")
    if number is not None and (number < 1 or number != math.floor(number)):
        raise FileFormatError(
            "not an object index", where=f"{where}, object", got=index, remedy="they count from 1"
        )
    return VocLayout(
        image_id=image_id,
        confidence=parse_number(
            (node.findtext("confidence") or "").strip(), f"{where}, confidence", infinite=True
        ),
        parts=tuple(
            VocPart(
                name=(part.findtext("class") or "").strip(),
                box=xml_box(part, f"{where}, part {number}"),
            )
            for number, part in enumerate(node.findall("part"), 1)
        ),
        object_index=None if number is None else int(number),
        box=None if node.find("bndbox") is None else xml_box(node, where),
    )


def write_layouts(path: str | Path, layouts: Iterable[VocLayout]) -> None:
    """Write the results XML of person layout, every digit kept."""
    root = Element("results")
    for one in layouts:
        node = SubElement(root, "layout")
        add_text(node, "image", one.image_id)
        if one.object_index is not None:
            add_text(node, "object", str(one.object_index))
        add_text(node, "confidence", repr(one.confidence))
        if one.box is not None:
            add_box(node, one.box)
        for part in one.parts:
            entry = SubElement(node, "part")
            add_text(entry, "class", part.name)
            add_box(entry, part.box)
    write_xml(path, root)


def read_voc_layouts(
    folder: str | Path,
    image_set: str,
    results: str | Path,
    protocol: LayoutProtocol,
    *,
    on_fault: str = "error",
    max_bytes: int | None = None,
) -> LayoutFile:
    """Read persons and layouts of an image set of a development kit.

    Args:
        folder: the kit's data, with ``Annotations`` and ``ImageSets/Layout``.
        image_set: a list in ``ImageSets/Layout``: images where the protocol detects persons, images
            and object indices where it gives them.
        results: the results XML.
        protocol: the rules.
        on_fault: ``"error"``, or ``"skip"`` to leave layouts at fault, and images whose annotation
            is at fault, out with a warning.
        max_bytes: the largest results file that is read; None for 4 MiB.

    Raises:
        FileFormatError: naming file and element, for what cannot be understood, and for an unknown
            image where persons are detected.
        OSError: for a file that does not exist or may not be read.

    Warns:
        VocMetricsWarning: if layouts are of persons that are not in the set; they are skipped. Of
            what is left out.
    """
    folder, given = Path(folder), protocol.persons == "given"
    results_log = EntryLog(results, on_fault)
    found = _placed_layouts(Path(results), results_log, max_bytes or MAX_XML_BYTES)
    listed = image_set_path(folder / "ImageSets" / "Layout", image_set)
    pairs = read_object_set(listed) if given else ()
    image_ids = tuple(dict.fromkeys(i for i, _ in pairs)) if given else read_image_set(listed)
    wanted: dict[str, list[int]] = {}
    for image_id, index in pairs:
        wanted.setdefault(image_id, []).append(index)
    by_image, unknown = _by_image(
        found, image_ids, wanted if given else None, results_log, protocol
    )
    results_log.finish()
    wanted_of = dict.fromkeys(image_ids) | wanted
    persons = _read_persons(folder / "Annotations", wanted_of, protocol, EntryLog(folder, on_fault))
    if unknown:
        warn(f"{results}: {unknown} layouts of unknown persons are skipped")
    layouts = [_layout_rows(by_image[image_id], protocol) for image_id in persons]
    return LayoutFile(
        image_ids=tuple(persons),
        layouts=layouts,
        persons=list(persons.values()),
        num_layouts=len(found),
        num_unknown=unknown,
    )


Placed = tuple[int, VocLayout]
"""A layout and its place in the file."""


def _by_image(
    found: Sequence[Placed],
    image_ids: Sequence[str],
    wanted: Mapping[str, Sequence[int]] | None,
    log: EntryLog,
    protocol: LayoutProtocol,
) -> tuple[dict[str, list[Placed]], int]:
    """Layouts of each image of the set, and how many are of no wanted person."""
    by_image: dict[str, list[Placed]] = {image_id: [] for image_id in image_ids}
    unknown = 0
    for position, layout in found:
        where = f"{log.source}, layout {position + 1}"
        with log.guard():
            _check_layout(layout, where, protocol)
            if layout.image_id in by_image:
                by_image[layout.image_id].append((position, layout))
                unknown += wanted is not None and layout.object_index not in wanted[layout.image_id]
            elif wanted is not None:
                unknown += 1
            else:
                got = repr(layout.image_id[:60])
                raise FileFormatError("the image is not in the image set", where=where, got=got)
    return by_image, unknown


def _check_layout(layout: VocLayout, where: str, protocol: LayoutProtocol) -> None:
    """A layout has what the protocol needs, and no strange parts."""
    missing = layout.object_index is None if protocol.persons == "given" else layout.box is None
    if missing:
        tag = "object" if protocol.persons == "given" else "bndbox"
        raise FileFormatError(
            f"no <{tag}> in the layout", where=where, remedy=f"{protocol.name} needs it"
        )
    _check_parts(layout.parts, where, protocol)


def _check_parts(parts: Sequence[VocPart], where: str, protocol: LayoutProtocol) -> None:
    for part in parts:
        if part.name not in protocol.parts:
            raise FileFormatError(
                "unknown part",
                where=where,
                got=repr(part.name[:40]),
                remedy=f"parts are {', '.join(protocol.parts)}",
            )


def _read_persons(
    folder: Path,
    wanted: Mapping[str, Sequence[int] | None],
    protocol: LayoutProtocol,
    log: EntryLog,
) -> dict[str, dict[str, Any]]:
    """Persons by image id, out of a folder of annotations; None wants all persons of an image."""
    persons = {}
    for image_id, indices in wanted.items():
        path = path_inside(folder, f"{image_id}.xml")
        with log.guard():
            people = _people(path, indices, log)
            persons[image_id] = _person_rows(path, people, protocol) | {"image_id": image_id}
    log.finish()
    return persons


def _people(path: Path, wanted: Sequence[int] | None, log: EntryLog) -> list[tuple[int, VocObject]]:
    """Persons of an image with their object indices: the wanted ones, or all."""
    parsed = parse_annotation(path)
    for error in parsed.empty:
        log.ignore(error)
    for name, error in parsed.faults:
        # Object indices count all objects; without them, those of other classes do not matter.
        if wanted is not None or name in ("", "person"):
            raise error
        log.ignore(error)
    objects = parsed.annotation.objects
    if wanted is None:
        return [(k, one) for k, one in enumerate(objects, 1) if one.name == "person"]
    for index in wanted:
        if index > len(objects):
            raise FileFormatError(
                "the image set asks for an object that is not there",
                where=str(path),
                got=f"object {index} of {len(objects)}",
            )
    return [(index, objects[index - 1]) for index in wanted]


def _person_rows(
    path: Path, people: list[tuple[int, VocObject]], protocol: LayoutProtocol
) -> dict[str, Any]:
    for index, one in people:
        _check_parts(one.parts, f"{path}, object {index}", protocol)
    rows = _part_columns([one.parts for _, one in people], protocol)
    rows["difficult"] = torch.tensor([one.difficult for _, one in people], dtype=torch.bool)
    if protocol.persons == "given":
        return rows | {"object_index": _integers([index for index, _ in people])}
    return rows | {"boxes": _boxes([one.box for _, one in people])}


def _layout_rows(found: Sequence[Placed], protocol: LayoutProtocol) -> dict[str, Any]:
    rows = _part_columns([one.parts for _, one in found], protocol)
    rows["scores"] = torch.tensor([one.confidence for _, one in found], dtype=torch.float64)
    rows["order"] = _integers([position for position, _ in found])
    if protocol.persons == "given":
        return rows | {"object_index": _integers([one.object_index or 0 for _, one in found])}
    return rows | {"boxes": _boxes([one.box for _, one in found if one.box is not None])}


def _part_columns(
    owners: Sequence[Sequence[VocPart]], protocol: LayoutProtocol
) -> dict[str, Tensor]:
    parts = [part for owner in owners for part in owner]
    return {
        "part_boxes": _boxes([part.box for part in parts]),
        "part_labels": _integers([protocol.parts.index(part.name) for part in parts]),
        "part_counts": _integers([len(owner) for owner in owners]),
    }


def _boxes(boxes: Sequence[Box]) -> Tensor:
    return torch.from_numpy(np.array(boxes, np.float64).reshape(-1, 4))


def _integers(values: Sequence[int]) -> Tensor:
    return torch.tensor(values, dtype=torch.int64)
