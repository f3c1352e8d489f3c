"""``vocmetrics convert``: PASCAL VOC annotations to COCO JSON and back.

Corners are copied: x = xmin, y = ymin, width = xmax - xmin, height = ymax - ymin.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from .. import io
from ..errors import InputError
from ..io.class_names import near_names
from ..io.names import check_row_name, path_inside
from .options import reader_options, size_limit
from .outputs import check_output_file, check_output_folder, refuse_to_overwrite, write_json
from .streams import say


def run(args: argparse.Namespace) -> None:
    """Convert in the direction that the source says."""
    if args.source.is_dir():
        check_output_file(args.target, "target")
        refuse_to_overwrite([args.target], force=args.force)
        count = voc_to_coco(args)
    elif args.source.suffix.lower() == ".json":
        check_output_folder(args.target, "target")
        count = coco_to_voc(args)
    else:
        raise InputError("must be a folder or a .json file", where=str(args.source))
    say(f"{count} images written to {args.target}")


def voc_to_coco(args: argparse.Namespace) -> int:
    """Write the annotations of an image set as a COCO instances file; gives the images written.

    Raises:
        InputError: for a class that no object has.
    """
    found = io.read_voc_set(args.source, args.image_set, **size_limit(args))
    num_objects = found.num_objects
    names = sorted(num_objects) if args.classes is None else list(args.classes)
    _check_classes(names, num_objects)
    annotations = found.annotations(names, on_fault=args.on_fault)
    write_json(args.target, json.dumps(io.coco_from_voc(list(annotations.items()), names)))
    kept = [
        one for image in annotations.values() for one in image.objects if one.name in set(names)
    ]
    _say_dropped(
        {
            "objects of other classes": num_objects.total() - sum(num_objects[n] for n in names),
            "parts": sum(len(one.parts) for one in kept),
            "lists of actions": sum(one.actions is not None for one in kept),
            "points": sum(one.point is not None for one in kept),
        }
    )
    return len(annotations)


def coco_to_voc(args: argparse.Namespace) -> int:
    """Write a COCO instances file as annotations and an image set; gives the images written.

    Raises:
        InputError: for a class that no category has, or files that exist.
    """
    folder: Path = args.target
    annotations, dropped = io.voc_from_coco(args.source, args.classes, **reader_options(args))
    # All names are checked before the first file is written.
    lists = folder / "ImageSets" / "Main"
    listed = path_inside(lists, f"{args.image_set or 'test'}.txt", to_write=True)
    names = [f"{check_row_name(image_id, str(args.source))}.xml" for image_id, _ in annotations]
    paths = [path_inside(folder / "Annotations", name, to_write=True) for name in names]
    refuse_to_overwrite([listed, *paths], force=args.force)
    for parent in dict.fromkeys(path.parent for path in (listed, *paths)):
        parent.mkdir(parents=True, exist_ok=True)
    for path, (_, annotation) in zip(paths, annotations, strict=True):
        io.write_annotation(path, annotation)
    io.write_image_set(listed, [image_id for image_id, _ in annotations])
    _say_dropped(dropped)
    return len(annotations)


def _check_classes(names: Sequence[str], num_objects: Counter[str]) -> None:
    for name in names:
        if name not in num_objects:
            remedy = near_names(name, sorted(num_objects))
            raise InputError(f"no object of class {name!r}", where="--classes", remedy=remedy)


def _say_dropped(counts: dict[str, int]) -> None:
    said = [f"{count:,} {what}" for what, count in counts.items() if count]
    if said:
        say(f"vocmetrics: warning: not converted: {', '.join(said)}")
