"""``vocmetrics convert``: PASCAL VOC annotations to COCO JSON and back."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from .. import io
from ..errors import InputError
from ..io.names import check_word, path_inside
from ..protocols import load_dataset
from .report import check_output_file, check_output_folder, write_json
from .streams import say


def run(args: argparse.Namespace) -> None:
    """Convert in the direction that the source says."""
    if args.source.is_dir():
        check_output_file(args.target, "target")
        names = load_dataset("voc2007").class_names
        if args.classes:
            names = tuple(name.strip() for name in args.classes.split(","))
        count = voc_to_coco(args.source, args.image_set, args.target, names)
    elif args.source.suffix.lower() == ".json":
        check_output_folder(args.target, "target")
        count = coco_to_voc(args.source, args.target, args.image_set)
    else:
        raise InputError("must be a folder or a .json file", where=str(args.source))
    say(f"{count} images written to {args.target}")


def voc_to_coco(folder: Path, image_set: str, target: Path, class_names: Sequence[str]) -> int:
    """Write the annotations of an image set as a COCO instances file; gives the images written."""
    image_ids = io.read_image_set(folder / "ImageSets" / "Main" / f"{image_set}.txt")
    read = [
        (image_id, io.read_annotation(path_inside(folder / "Annotations", f"{image_id}.xml")))
        for image_id in image_ids
    ]
    content = io.coco_from_voc(read, class_names)
    write_json(target, json.dumps(content))
    return len(read)


def coco_to_voc(source: Path, folder: Path, image_set: str) -> int:
    """Write a COCO instances file as annotations and an image set; gives the images written.

    Raises:
        InputError: if two images would get the same file.
    """
    annotations = io.voc_from_coco(source)
    ids = [image_id for image_id, _ in annotations]
    if len(set(ids)) < len(ids):
        raise InputError("two images have the same file name", where=str(source))
    for part in ("Annotations", "ImageSets/Main"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    # All names are checked before the first file is written.
    listed = path_inside(folder / "ImageSets" / "Main", f"{image_set}.txt", to_write=True)
    names = [f"{check_word(image_id, str(source))}.xml" for image_id in ids]
    paths = [path_inside(folder / "Annotations", name, to_write=True) for name in names]
    for path, (_, annotation) in zip(paths, annotations, strict=True):
        io.write_annotation(path, annotation)
    io.write_image_set(listed, ids)
    return len(ids)
