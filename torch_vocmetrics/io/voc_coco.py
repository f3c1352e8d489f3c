"""PASCAL VOC annotations as COCO JSON, and back: boxes, classes, sizes and flags.

VOC's pixels count from 1 and a box includes its last one: x = xmin - 1 and w = xmax - xmin + 1. The
differences are taken in decimals, so that boxes written with decimals come back to the same bits.
What COCO has no key for (view, truncated, occluded, difficult) stays under VOC's own names, and
``ignore`` says ``difficult`` as well. Parts, actions and points are not carried over.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from ..errors import FileFormatError
from .json_rows import FLAG, IDENTIFIER, INTEGER, STRING, Rows, load_json
from .tables import known_size
from .voc_annotations import Box, VocAnnotation, VocObject

FLAGS = ("difficult", "truncated", "occluded")


def coco_from_voc(
    annotations: Sequence[tuple[str, VocAnnotation]], class_names: Sequence[str]
) -> dict[str, Any]:
    """COCO instances of annotated images.

    Args:
        annotations: id and annotation of each image; image k has the COCO id k, from 1.
        class_names: class k has the category id k, from 1; other objects are left out.
    """
    category_ids = {name: number for number, name in enumerate(class_names, 1)}
    images: list[dict[str, Any]] = []
    objects: list[dict[str, Any]] = []
    for number, (image_id, one) in enumerate(annotations, 1):
        height, width = one.image_size or (0, 0)
        name = one.filename or f"{image_id}.jpg"
        images.append({"id": number, "file_name": name, "height": height, "width": width})
        for entry in one.objects:
            if entry.name not in category_ids:
                continue
            x, y, w, h = coco_box(entry.box)
            objects.append(
                {
                    "id": len(objects) + 1,
                    "image_id": number,
                    "category_id": category_ids[entry.name],
                    "bbox": [x, y, w, h],
                    "area": w * h,
                    "iscrowd": 0,
                    "ignore": int(entry.difficult),
                    **{flag: int(getattr(entry, flag)) for flag in FLAGS},
                    "view": entry.view,
                }
            )
    categories = [{"id": number, "name": name} for name, number in category_ids.items()]
    return {"images": images, "annotations": objects, "categories": categories}


def voc_from_coco(path: str | Path) -> list[tuple[str, VocAnnotation]]:
    """Id and annotation of each image of a COCO instances file; the id is the file's name.

    ``difficult`` is what the annotation says under that name, else ``ignore``, else ``iscrowd``.

    Raises:
        FileFormatError: naming list and element, for what cannot be understood.
        OSError: if there is no such file or it may not be read.
    """
    path = Path(path)
    content = load_json(path)
    lists = {}
    for name in ("images", "annotations", "categories"):
        rows = content.get(name) if isinstance(content, dict) else None
        if not isinstance(rows, list):
            raise FileFormatError(f"no list {name!r} in the file", where=str(path))
        lists[name] = Rows(
            path, name, rows, "an instances file has images, annotations, categories"
        )
    images, objects, categories = lists["images"], lists["annotations"], lists["categories"]
    names = dict(zip(categories.ids("id", INTEGER), categories.column("name", STRING), strict=True))
    ids = images.ids("id", IDENTIFIER)
    owners = objects.lookup("image_id", {one: k for k, one in enumerate(ids)}, "a known image")
    labels = objects.lookup("category_id", {one: one for one in names}, "a known category")
    boxes = objects.boxes("bbox").tolist()
    flags = {key: objects.column(key, FLAG, default=0) for key in (*FLAGS, "ignore", "iscrowd")}
    views = objects.column("view", STRING, default="")
    found: list[list[VocObject]] = [[] for _ in ids]
    for row, owner in enumerate(owners.tolist()):
        given = objects.rows[row]
        key = next((key for key in ("difficult", "ignore") if key in given), "iscrowd")
        found[owner].append(
            VocObject(
                name=names[int(labels[row])],
                box=voc_box(boxes[row]),
                difficult=bool(flags[key][row]),
                truncated=bool(flags["truncated"][row]),
                occluded=bool(flags["occluded"][row]),
                view=views[row],
            )
        )
    annotations = []
    for row, own in zip(images.rows, found, strict=True):
        name = str(row.get("file_name", row["id"]))
        annotation = VocAnnotation(
            image_size=known_size(row.get("height"), row.get("width")),
            objects=tuple(own),
            filename=name,
        )
        annotations.append((_stem(name, path), annotation))
    return annotations


def coco_box(box: Box) -> tuple[float, float, float, float]:
    """x, y, width and height, from 0, of xmin, ymin, xmax, ymax, from 1 and inclusive."""
    x1, y1, x2, y2 = (Decimal(repr(float(value))) for value in box)
    return _number(x1 - 1), _number(y1 - 1), _number(x2 - x1 + 1), _number(y2 - y1 + 1)


def voc_box(box: Sequence[float]) -> Box:
    """The inverse of :func:`coco_box`."""
    x, y, w, h = (Decimal(repr(float(value))) for value in box)
    return float(x + 1), float(y + 1), float(x + w), float(y + h)


def _number(value: Decimal) -> float:
    """An int where the value is whole, as annotations are written."""
    return int(value) if value == int(value) else float(value)


def _stem(name: str, path: Path) -> str:
    """The image id behind a file name; it may not lead out of a folder."""
    stem = Path(name.replace("\\", "/")).stem
    if not stem or stem in (".", ".."):
        raise FileFormatError("not a file name", where=f"{path}, images", got=repr(name[:60]))
    return stem
