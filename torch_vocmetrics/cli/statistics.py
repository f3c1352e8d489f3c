"""``vocmetrics statistics``: images and objects per class, as the tables of the kits count them.

An object counts unless it is difficult, and an image counts for a class if it has such an object.
For Layout, persons count: those with parts where the set lists images, else those that it lists.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from .. import io
from ..errors import InputError
from ..io.files import read_text
from ..io.names import path_inside
from .report import aligned
from .streams import show


class SetCounts(NamedTuple):
    """One image set: how many images it has, and images and objects by class."""

    num_images: int
    images: Counter[str]
    objects: Counter[str]


def run(args: argparse.Namespace) -> None:
    """Count and print."""
    place = args.folder / "ImageSets" / args.task
    names = args.image_set or _sets_of(place)
    read: dict[str, io.VocAnnotation] = {}
    counts = {name: count_set(args.folder, args.task, name, read) for name in names}
    if args.json:
        content = {
            name: {
                "num_images": one.num_images,
                "num_objects": one.objects.total(),
                "images": dict(sorted(one.images.items())),
                "objects": dict(sorted(one.objects.items())),
            }
            for name, one in counts.items()
        }
        show(json.dumps(content, indent=2))
        return
    classes = sorted({name for one in counts.values() for name in one.images})
    rows = [("class", *(f"{name} {what}" for name in names for what in ("images", "objects")))]
    for entry in classes:
        cells = ((one.images[entry], one.objects[entry]) for one in counts.values())
        rows.append((entry, *(str(cell) for pair in cells for cell in pair)))
    totals = ((one.num_images, one.objects.total()) for one in counts.values())
    rows.append(("total", *(str(cell) for pair in totals for cell in pair)))
    show("\n".join(aligned(rows)))


def count_set(folder: Path, task: str, name: str, read: dict[str, io.VocAnnotation]) -> SetCounts:
    """Count an image set; ``read`` keeps annotations for other sets of the same folder.

    Raises:
        FileFormatError: naming file and element, for what cannot be understood.
    """
    listed = folder / "ImageSets" / task / f"{name}.txt"
    pairs = io.read_object_set(listed) if task == "Layout" and _has_pairs(listed) else None
    image_ids = io.read_image_set(listed) if pairs is None else dict.fromkeys(i for i, _ in pairs)
    wanted = None if pairs is None else set(pairs)
    images: Counter[str] = Counter()
    objects: Counter[str] = Counter()
    for image_id in image_ids:
        if image_id not in read:
            read[image_id] = io.read_annotation(
                path_inside(folder / "Annotations", f"{image_id}.xml")
            )
        found = Counter(
            one.name
            for index, one in enumerate(read[image_id].objects, 1)
            if _counts(one, task, wanted is None or (image_id, index) in wanted)
        )
        objects += found
        images.update(found.keys())
    return SetCounts(len(image_ids), images, objects)


def _counts(one: io.VocObject, task: str, is_listed: bool) -> bool:
    if task != "Layout":
        return not one.difficult
    return is_listed and one.name == "person" and bool(one.parts)


def _has_pairs(path: Path) -> bool:
    """Whether a layout set lists images with object indices; 2007's list images alone."""
    first = read_text(path).split("\n", maxsplit=1)[0].split()
    return len(first) == 2 and first[1].isdecimal()


def _sets_of(place: Path) -> list[str]:
    """Image sets of a folder, without the lists ``<class>_<set>.txt``."""
    names = sorted(path.stem for path in place.glob("*.txt"))
    sets = [name for name in names if "_" not in name]
    if not sets:
        raise InputError("no image sets in the folder", where=str(place))
    return sets
