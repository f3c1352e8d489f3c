"""PASCAL VOC annotations as COCO JSON, and back: boxes, classes, sizes and flags.

Corners are copied (:mod:`voc_boxes`). What COCO has no key for (view, truncated, occluded,
difficult) stays under VOC's own names, and ``ignore`` says ``difficult`` as well. Parts, actions
and points, and segmentations and keypoints on the way back, are not carried over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np

from ..errors import FileFormatError
from ..limits import MAX_JSON_BYTES
from .coco_lists import choose_categories, file_name_of, read_instances
from .entry_log import EntryLog
from .image_names import ImageIndex
from .json_rows import IDENTIFIER, INTEGER, STRING, Rows, difficult_flags
from .tables import Integers, known_size
from .voc_boxes import CONVENTION_KEY, CORNERS, box_convention, coco_box, voc_box
from .voc_objects import VocAnnotation, VocObject

FLAGS = ("difficult", "truncated", "occluded")


def coco_from_voc(
    annotations: Sequence[tuple[str, VocAnnotation]], class_names: Sequence[str]
) -> dict[str, Any]:
    """COCO instances of annotated images; ``info`` says how boxes stand for VOC's corners.

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
    return {
        "info": {"description": "PASCAL VOC annotations", CONVENTION_KEY: CORNERS},
        "images": images,
        "annotations": objects,
        "categories": [{"id": number, "name": name} for name, number in category_ids.items()],
    }


def voc_from_coco(
    path: str | Path,
    class_names: Sequence[str] | None = None,
    *,
    on_fault: str = "error",
    max_bytes: int = MAX_JSON_BYTES,
) -> tuple[list[tuple[str, VocAnnotation]], dict[str, int]]:
    """Id and annotation of each image of a COCO instances file, and what is not carried over.

    The id is the name of the image's file without suffix, with its folder where two images would
    else have one id. ``difficult`` is what the annotation says under that name, else ``ignore``,
    else ``iscrowd``. Categories of equal names are told apart as ``name#id``.

    Args:
        path: the file.
        class_names: the categories to keep; None keeps all.
        on_fault: ``"error"``, or ``"skip"`` to leave annotations at fault out with a warning.
        max_bytes: the largest file that is read.

    Returns:
        Pairs of id and annotation; and counts of what VOC has no place for, by what it is.

    Raises:
        FileFormatError: naming list and element, for what cannot be understood, or two images that
            would have one id.
        OSError: if there is no such file or it may not be read.

    Warns:
        VocMetricsWarning: of annotations that are left out.
    """
    path, log = Path(path), EntryLog(path, on_fault)
    images, annotations, categories, info = read_instances(path, max_bytes=max_bytes)
    ids = images.ids("id", IDENTIFIER)
    files = [file_name_of(row) or str(row["id"]) for row in images.rows]
    image_ids = _image_ids(files, path)
    owners = annotations.lookup(
        "image_id", ImageIndex(ids, files).find, "among the images of the file", outside=True
    )
    kept, others = choose_categories(categories, class_names)
    labels, objects = _objects(annotations, kept | others, info)
    selected = np.isin(labels, list(kept))
    keep = annotations.report(selected, log)
    log.finish()
    found: list[list[VocObject]] = [[] for _ in ids]
    for row in np.flatnonzero(keep).tolist():
        found[owners[row]].append(objects[row])
    annotated = [
        (image_id, _annotation(row, name, own))
        for image_id, name, row, own in zip(image_ids, files, images.rows, found, strict=True)
    ]
    return annotated, {
        "objects of other classes": int((~selected).sum()),
        **_without_equal(annotations, np.flatnonzero(keep).tolist()),
        "categories without objects": len(kept.keys() - set(labels[keep].tolist())),
    }


def _annotation(
    image: Mapping[str, Any], filename: str, objects: Sequence[VocObject]
) -> VocAnnotation:
    """The annotation of an image, of which the row of the images is given."""
    size = known_size(image.get("height"), image.get("width"))
    return VocAnnotation(image_size=size, objects=tuple(objects), filename=filename)


def _without_equal(annotations: Rows, kept: Sequence[int]) -> dict[str, int]:
    """Counts of what the kept annotations say and VOC has no words for, by what it is."""
    rows = [annotations.rows[row] for row in kept]
    return {
        "segmentations": sum(bool(row.get("segmentation")) for row in rows),
        "lists of keypoints": sum(bool(row.get("keypoints")) for row in rows),
    }


def _objects(
    annotations: Rows, names: dict[int, str], info: Mapping[str, object]
) -> tuple[Integers, list[VocObject]]:
    """Category and object of each annotation; ``annotations`` keeps what is wrong with them."""
    labels = annotations.lookup(
        "category_id",
        lambda values: [value if value in names else None for value in values],
        "among the categories",
        kind=INTEGER,
        outside=True,
    )
    boxes = annotations.boxes("bbox").tolist()
    flags = [annotations.flags(key).tolist() for key in ("truncated", "occluded")]
    difficult = difficult_flags(annotations).tolist()
    views = annotations.column("view", STRING, default="", substitute="")
    convention = box_convention(info, annotations) or CORNERS
    return labels, [
        VocObject(
            name=names.get(label, ""),
            box=voc_box(box, convention),
            difficult=is_difficult,
            truncated=truncated,
            occluded=occluded,
            view=view,
        )
        for label, box, is_difficult, truncated, occluded, view in zip(
            labels.tolist(), boxes, difficult, *flags, views, strict=True
        )
    ]


def _image_ids(files: Sequence[str], path: Path) -> list[str]:
    """An id for each image: the stem of its file, with the folder where stems are equal."""
    whole = [_without_suffix(name, path) for name in files]
    times = Counter(name.name for name in whole)
    ids = [name.name if times[name.name] == 1 else name.as_posix() for name in whole]
    first: dict[str, str] = {}
    for image_id, name in zip(ids, files, strict=True):
        other = first.setdefault(image_id.casefold(), name)
        if other is not name:
            raise FileFormatError(
                f"two images would have the annotation {image_id}.xml",
                where=f"{path}, images",
                got=f"{other!r} and {name!r}",
                remedy="give the files different names",
            )
    return ids


def _without_suffix(name: str, path: Path) -> PurePosixPath:
    """A relative name without its suffix; it may not lead out of a folder."""
    parts = PurePosixPath(name.replace("\\", "/").removeprefix("./"))
    leads_out = parts.is_absolute() or ".." in parts.parts or PureWindowsPath(name).drive
    if leads_out or not parts.name or "\0" in name:
        raise FileFormatError("not a file name", where=f"{path}, images", got=repr(name[:60]))
    return parts.with_suffix("")
