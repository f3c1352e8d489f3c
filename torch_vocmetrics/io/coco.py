"""Reading COCO's JSON: instances files with ground truth, results files with detections."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import FileFormatError, VocMetricsWarning
from ..limits import MAX_JSON_BYTES
from .json_rows import IDENTIFIER, INTEGER, STRING, Rows, load_json
from .tables import (
    DetectionFile,
    GroundTruthFile,
    Integers,
    add_lists,
    count_labels,
    known_size,
    split_by_image,
    with_images,
)

_INSTANCES_FORM = "an instances file has the lists images, annotations and categories"
_RESULTS_FORM = "results are a list of {image_id, category_id, bbox, score}"


def read_coco_ground_truths(
    path: str | Path,
    *,
    class_names: Sequence[str] | None = None,
    masks: bool = False,
    max_bytes: int = MAX_JSON_BYTES,
) -> GroundTruthFile:
    """Read the ground truth of an instances file, images and categories by rising id.

    Targets hold ``boxes`` [M, 4] float64 (x, y, width, height, as in the file), ``labels`` [M]
    int64 (category ids), ``iscrowd`` [M] bool, ``area`` [M] float64 (width * height where the
    annotation has none), ``ignore`` [M] bool if the file has that key, ``image_id`` and, where the
    file says it, ``image_size``. Categories of equal names are told apart as ``name#id``.

    Args:
        path: a file with the lists ``images``, ``annotations`` and ``categories``.
        class_names: the categories to keep, in this order; None keeps all.
        masks: read ``segmentation`` too: ``masks``, a list of M run lengths or polygons.
        max_bytes: the largest file that is read.

    Raises:
        FileFormatError: naming list and element, for what cannot be understood.
        OSError: if there is no such file or it may not be read.

    Warns:
        VocMetricsWarning: if an annotation has id 0, which pycocotools takes for "no match".
    """
    path = Path(path)
    content = load_json(path, max_bytes=max_bytes)
    if not isinstance(content, dict):
        raise _wrong_type(path, "an instances file", content, _INSTANCES_FORM)
    images = _list(path, content, "images")
    image_ids, order = _sorted_ids(images)
    categories = _list(path, content, "categories")
    kept, others = _choose(categories, class_names)
    annotations = _list(path, content, "annotations")
    _warn_of_zero_ids(annotations)
    places = {image_id: place for place, image_id in enumerate(image_ids)}
    image_index, columns, keep = _objects(annotations, places, kept, others, masks=masks)
    targets: list[dict[str, Any]] = [*split_by_image(image_index, len(image_ids), columns)]
    if masks:
        add_lists("masks", targets, image_index, annotations.segmentations(), keep)
    rows = [images.rows[place] for place in order]
    sizes = [known_size(row.get("height"), row.get("width")) for row in rows]
    return GroundTruthFile(
        image_ids=image_ids,
        class_names=tuple(kept.values()),
        label_ids=tuple(kept),
        other_label_ids=tuple(others),
        box_format="xywh",
        targets=with_images(targets, image_ids, sizes),
    )


def read_coco_detections(
    path: str | Path,
    ground_truths: GroundTruthFile,
    *,
    file_order: bool = False,
    boxes: bool = True,
    masks: bool = False,
    max_bytes: int = MAX_JSON_BYTES,
) -> DetectionFile:
    """Read the detections of a results file, a list of {image_id, category_id, bbox, score}.

    Predictions hold ``boxes`` [N, 4] float64 (x, y, width, height), ``scores`` [N] float64 and
    ``labels`` [N] int64 (category ids). Other keys of the rows are passed over.

    Args:
        path: the file; an empty list is no detection at all.
        ground_truths: of :func:`read_coco_ground_truths`.
        file_order: add ``order`` [N] int64, the row of the file: ties then fall as VOC's do.
        boxes: read ``bbox``; where masks are compared, results may have none.
        masks: read ``segmentation``: ``masks``, a list of N run lengths or polygons.
        max_bytes: the largest file that is read.

    Raises:
        FileFormatError: naming the element, for a malformed row or an unknown image or category.
        OSError: if there is no such file or it may not be read.
    """
    path = Path(path)
    content = load_json(path, max_bytes=max_bytes)
    if not isinstance(content, list):
        raise _wrong_type(path, "a results file", content, _RESULTS_FORM)
    rows = Rows(path, "", content, _RESULTS_FORM)
    places = {image_id: place for place, image_id in enumerate(ground_truths.image_ids)}
    known = {*ground_truths.label_ids, *ground_truths.other_label_ids}
    image_index = rows.lookup("image_id", places, "among the images of the ground truth")
    labels = rows.lookup("category_id", {label: label for label in known}, "a known category")
    columns: dict[str, NDArray[Any]] = {"scores": rows.scores("score"), "labels": labels}
    if boxes:
        columns["boxes"] = rows.boxes("bbox")
    if file_order:
        columns["order"] = np.arange(len(content), dtype=np.int64)
    keep = np.isin(labels, ground_truths.label_ids)
    image_index, columns = image_index[keep], {k: v[keep] for k, v in columns.items()}
    predictions: list[dict[str, Any]] = [*split_by_image(image_index, len(places), columns)]
    if masks:
        add_lists("masks", predictions, image_index, rows.segmentations(), keep)
    return DetectionFile(
        predictions=predictions,
        num_detections=count_labels(columns["labels"], ground_truths.label_ids),
    )


def _wrong_type(path: Path, what: str, content: object, remedy: str) -> FileFormatError:
    got = f"a JSON {type(content).__name__}"
    return FileFormatError(f"not {what}", where=str(path), got=got, remedy=remedy)


def _list(path: Path, content: dict[str, Any], name: str) -> Rows:
    rows = content.get(name)
    if not isinstance(rows, list):
        raise _wrong_type(
            path, f"an instances file: {name!r} must be a list", rows, _INSTANCES_FORM
        )
    return Rows(path, name, rows, _INSTANCES_FORM)


def _sorted_ids(images: Rows) -> tuple[tuple[int, ...] | tuple[str, ...], list[int]]:
    """Image ids by rising value, and the place of each in the file."""
    ids = images.ids("id", IDENTIFIER)
    if not ids:
        raise FileFormatError("the list is empty", where=images.where(), remedy="list images")
    order = sorted(range(len(ids)), key=ids.__getitem__)
    return tuple(ids[place] for place in order), order


def _choose(
    categories: Rows, class_names: Sequence[str] | None
) -> tuple[dict[int, str], dict[int, str]]:
    """Name by category id of the classes asked for and of all others."""
    ids, names = categories.ids("id", INTEGER), categories.column("name", STRING)
    copies = Counter(names)
    unique = {
        label: f"{name}#{label}" if copies[name] > 1 else name
        for label, name in sorted(zip(ids, names, strict=True))
    }
    if class_names is None:
        return unique, {}
    labels = {name: label for label, name in unique.items()}
    for name in class_names:
        if name not in labels:
            raise FileFormatError(
                f"no category {name!r}",
                where=categories.where(),
                remedy=f"it has {', '.join(labels)}",
            )
    kept = {labels[name]: name for name in class_names}
    return kept, {label: name for label, name in unique.items() if label not in kept}


def _objects(
    annotations: Rows,
    places: dict[Any, int],
    kept: dict[int, str],
    others: dict[int, str],
    *,
    masks: bool,
) -> tuple[Integers, dict[str, NDArray[Any]], NDArray[np.bool_]]:
    """Image place and columns of the annotations of the classes kept, and which those are."""
    image_index = annotations.lookup("image_id", places, "among the images of the file")
    labels = annotations.lookup(
        "category_id", {label: label for label in (*kept, *others)}, "among the categories"
    )
    boxes = annotations.boxes("bbox")
    columns: dict[str, NDArray[Any]] = {
        "boxes": boxes,
        "labels": labels,
        "iscrowd": annotations.flags("iscrowd"),
        # Without an area, that of the mask is meant, which nobody knows yet.
        "area": annotations.areas("area", np.full_like(boxes, np.nan) if masks else boxes),
    }
    if any("ignore" in row for row in annotations.rows):
        columns["ignore"] = annotations.flags("ignore")
    keep = np.isin(labels, list(kept))
    return image_index[keep], {key: column[keep] for key, column in columns.items()}, keep


def _warn_of_zero_ids(annotations: Rows) -> None:
    for place, row in enumerate(annotations.rows):
        if row.get("id") == 0:
            warnings.warn(
                f"{annotations.where(place)}: annotation id 0, which pycocotools takes for "
                "'no match', is counted here like any other",
                VocMetricsWarning,
                stacklevel=3,
            )
            return
