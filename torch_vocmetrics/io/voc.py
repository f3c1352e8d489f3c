"""Reading what the PASCAL VOC kits read: image sets, annotations and results files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from ..errors import FileFormatError
from ..limits import MAX_TEXT_BYTES, MAX_XML_BYTES
from .files import read_text
from .names import path_inside
from .tables import DetectionFile, GroundTruthFile, count_labels, split_by_image, with_images
from .voc_annotations import VocAnnotation, VocObject, read_annotation
from .voc_results import DetectionRows, find_results, read_results

__all__ = [
    "DetectionRows",
    "VocAnnotation",
    "VocObject",
    "find_results",
    "read_annotation",
    "read_image_set",
    "read_results",
    "read_voc_detections",
    "read_voc_ground_truths",
]


def read_image_set(path: str | Path, *, max_bytes: int = MAX_TEXT_BYTES) -> tuple[str, ...]:
    """Read the image ids of ``ImageSets/Main/<set>.txt``, in file order.

    A flag beside an id, as in ``<class>_<set>.txt``, is passed over.

    Raises:
        FileFormatError: naming file and line, for another form, an id given twice or no id at all.
        OSError: if there is no such file or it may not be read.
    """
    lines: dict[str, int] = {}
    for number, line in enumerate(read_text(Path(path), max_bytes=max_bytes).split("\n"), 1):
        fields = line.split()
        where = f"{path}, line {number}"
        if len(fields) > 2:
            raise FileFormatError(
                "not a row of an image set",
                where=where,
                got=f"{len(fields)} columns",
                remedy="a row is an image id, or an id and a flag",
            )
        if fields and lines.setdefault(fields[0], number) != number:
            raise FileFormatError(
                f"image {fields[0]} is listed twice",
                where=where,
                got=f"the id of line {lines[fields[0]]}",
                remedy="list each image once",
            )
    if not lines:
        raise FileFormatError("the image set is empty", where=str(path), remedy="list image ids")
    return tuple(lines)


def read_voc_ground_truths(
    folder: str | Path,
    image_set: str,
    *,
    class_names: Sequence[str],
    text_form: bool = False,
    max_bytes: int = MAX_XML_BYTES,
    progress: Callable[[int, int], object] | None = None,
) -> GroundTruthFile:
    """Read the ground truth of an image set of a development kit.

    Targets hold ``boxes`` [M, 4] float64 (xmin, ymin, xmax, ymax), ``labels`` [M] int64,
    ``difficult`` [M] bool, ``image_id`` and, where the annotation says it, ``image_size``. Objects
    of classes that are not asked for are left out; images without objects stay.

    Args:
        folder: the kit's data, such as ``VOCdevkit/VOC2007``, with Annotations and ImageSets.
        image_set: a list in ``ImageSets/Main``, such as ``"test"``.
        class_names: K names; class k has label k.
        text_form: take ``Annotations/<id>.txt``, the form of 2006, where it exists.
        max_bytes: the largest annotation that is read.
        progress: called with the number of images read and their total.

    Raises:
        FileFormatError: naming file and line or element, for what cannot be understood.
        OSError: for a file that does not exist or may not be read.
    """
    folder = Path(folder)
    image_ids = read_image_set(folder / "ImageSets" / "Main" / f"{image_set}.txt")
    labels = {name: label for label, name in enumerate(class_names)}
    rows: list[tuple[int, int, bool, tuple[float, float, float, float]]] = []
    sizes: list[tuple[int, int] | None] = []
    for index, image_id in enumerate(image_ids):
        xml, text = (
            path_inside(folder / "Annotations", f"{image_id}.{form}") for form in ("xml", "txt")
        )
        chosen = text if text_form and text.exists() else xml
        annotation = read_annotation(chosen, max_bytes=max_bytes)
        sizes.append(annotation.image_size)
        rows.extend(
            (index, labels[entry.name], entry.difficult, entry.box)
            for entry in annotation.objects
            if entry.name in labels
        )
        if progress is not None:
            progress(index + 1, len(image_ids))
    columns = {
        "boxes": np.array([row[3] for row in rows], np.float64).reshape(-1, 4),
        "labels": np.array([row[1] for row in rows], np.int64),
        "difficult": np.array([row[2] for row in rows], np.bool_),
    }
    image_index = np.array([row[0] for row in rows], np.int64)
    targets = split_by_image(image_index, len(image_ids), columns)
    return GroundTruthFile(
        image_ids=image_ids,
        class_names=tuple(class_names),
        label_ids=tuple(range(len(class_names))),
        box_format="xyxy",
        targets=with_images(targets, image_ids, sizes),
    )


def read_voc_detections(
    files: Mapping[str, str | Path],
    ground_truths: GroundTruthFile,
    *,
    file_order: bool = True,
    max_bytes: int = MAX_TEXT_BYTES,
) -> DetectionFile:
    """Read the detections of one results file per class.

    Predictions hold ``boxes`` [N, 4] and ``scores`` [N] in float64, ``labels`` [N] int64 and, for
    the ties of the development kit, ``order`` [N] int64: the row of the results file.

    Args:
        files: results file of each class; a class without one has no detections.
        ground_truths: says which images and classes there are.
        file_order: leave ``order`` out if false: ties then fall by image, as COCO's do.
        max_bytes: the largest results file that is read.

    Raises:
        FileFormatError: naming file and line, for a malformed row or an unknown image.
        OSError: for a file that does not exist or may not be read.
    """
    index = {str(image_id): place for place, image_id in enumerate(ground_truths.image_ids)}
    empty = DetectionRows(
        image_index=np.empty(0, np.int64), scores=np.empty(0), boxes=np.empty((0, 4))
    )
    tables, labels, orders = [empty], [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for name, label in zip(ground_truths.class_names, ground_truths.label_ids, strict=True):
        if name in files:
            table = read_results(files[name], index, max_bytes=max_bytes)
            tables.append(table)
            labels.append(np.full(len(table.scores), label, np.int64))
            orders.append(np.arange(len(table.scores), dtype=np.int64))
    columns = {
        "boxes": np.concatenate([table.boxes for table in tables]),
        "scores": np.concatenate([table.scores for table in tables]),
        "labels": np.concatenate(labels),
    }
    if file_order:
        columns["order"] = np.concatenate(orders)
    image_index = np.concatenate([table.image_index for table in tables])
    return DetectionFile(
        predictions=split_by_image(image_index, len(ground_truths.image_ids), columns),
        num_detections=count_labels(columns["labels"], ground_truths.label_ids),
    )
