"""``vocmetrics statistics``: images and objects per class, as the tables of the kits count them.

An object counts unless it is difficult, and an image counts for a class if it has such an object.
For Layout, persons count: those with parts where the set lists images, else those that it lists.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .. import io
from ..errors import InputError
from ..io.files import read_text
from .data_sets import is_pedestrian_folder, show_statistics
from .options import size_limit
from .render import aligned
from .streams import show


class SetCounts(NamedTuple):
    """One image set: how many images it has, and images and objects by class."""

    num_images: int
    images: Counter[str]
    objects: Counter[str]


def run(args: argparse.Namespace) -> None:
    """Count and print."""
    if not args.folder.is_dir() or is_pedestrian_folder(args.folder):
        show_statistics(args)
        return
    place = args.folder / "ImageSets" / args.task
    sets = args.image_set or _sets_of(place)
    read: dict[str, io.VocAnnotation] = {}
    limit = size_limit(args)
    counts = {name or "all": count_set(args.folder, args.task, name, read, limit) for name in sets}
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
    rows = [("class", *(f"{name} {what}" for name in counts for what in ("images", "objects")))]
    for entry in classes:
        cells = ((one.images[entry], one.objects[entry]) for one in counts.values())
        rows.append((entry, *(str(cell) for pair in cells for cell in pair)))
    totals = ((one.num_images, one.objects.total()) for one in counts.values())
    rows.append(("total", *(str(cell) for pair in totals for cell in pair)))
    show("\n".join(aligned(rows)))


def count_set(
    folder: Path,
    task: str,
    name: str | None,
    read: dict[str, io.VocAnnotation],
    limit: Mapping[str, Any],
) -> SetCounts:
    """Count an image set; ``read`` keeps annotations for other sets of the same folder.

    ``limit`` has the argument ``max_bytes`` of readers, or nothing.

    Raises:
        FileFormatError: naming file and element, for what cannot be understood.
    """
    listed = folder / "ImageSets" / task / f"{name}.txt"
    is_of_pairs = task == "Layout" and _has_pairs(listed, limit)
    pairs = io.read_object_set(listed, **limit) if is_of_pairs else None
    if pairs is None:
        images_of_set = io.find_voc_images(folder, name, task=task, **limit)
    else:
        ids = tuple(dict.fromkeys(image_id for image_id, _ in pairs))
        images_of_set = io.VocImages(ids, folder / "Annotations")
    wanted = None if pairs is None else set(pairs)
    images: Counter[str] = Counter()
    objects: Counter[str] = Counter()
    for image_id in images_of_set.ids:
        if image_id not in read:
            read[image_id] = io.read_annotation(images_of_set.path(image_id), **limit)
        found = Counter(
            one.name
            for index, one in enumerate(read[image_id].objects, 1)
            if _counts(one, task, wanted is None or (image_id, index) in wanted)
        )
        objects += found
        images.update(found.keys())
    return SetCounts(len(images_of_set.ids), images, objects)


def _counts(one: io.VocObject, task: str, is_listed: bool) -> bool:
    if task != "Layout":
        return not one.difficult
    return is_listed and one.name == "person" and bool(one.parts)


def _has_pairs(path: Path, limit: Mapping[str, Any]) -> bool:
    """Whether a layout set lists images with object indices; 2007's list images alone."""
    first = read_text(path, **limit).split("\n", maxsplit=1)[0].split()
    return len(first) == 2 and first[1].isdecimal()


def _sets_of(place: Path) -> Sequence[str | None]:
    """Image sets of a folder, without the lists ``<class>_<set>.txt``; None for a flat folder."""
    names = sorted(path.stem for path in place.glob("*.txt"))
    sets = [name for name in names if "_" not in name]
    if not sets and place.name == "Main" and not place.is_dir():
        return [None]
    if not sets:
        raise InputError("no image sets in the folder", where=str(place))
    return sets
