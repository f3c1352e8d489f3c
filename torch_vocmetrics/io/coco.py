"""Reading COCO's JSON: instances files with ground truth, results files with detections.

As pycocotools does, annotations of images or categories that the file does not list are ignored,
and results of categories that the ground truth does not have; so are faults of classes that are not
kept. An annotation with an empty ``segmentation`` and an empty or infinite box has no shape and is
ignored too. An image may be named by its file where that is unambiguous. Categories of equal names
are told apart as ``name#id``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import FileFormatError, warn
from ..limits import MAX_JSON_BYTES
from .coco_lists import (
    ImageList,
    Instances,
    PlainInstances,
    choose_categories,
    parse_instances,
    parse_results,
    plain_instances,
    plain_results,
    use_either,
)
from .corner_boxes import warn_of_corners
from .entry_log import EntryLog
from .image_names import ImageIndex
from .json_rows import INTEGER, Rows, difficult_flags
from .plain_rows import FLAGS, PlainRows
from .segmentations import CheckedMasks, read_segmentations
from .tables import (
    DetectionFile,
    Floats,
    GroundTruthFile,
    Integers,
    RowOrigins,
    add_lists,
    count_labels,
    split_by_image,
    with_images,
)
from .voc_boxes import KEYS_OF_CONVERT, box_reading, corners_of


def read_coco_ground_truths(
    path: str | Path,
    *,
    class_names: Sequence[str] | None = None,
    boxes: bool = True,
    masks: bool = False,
    inclusive_pixels: bool = False,
    on_fault: str = "error",
    max_bytes: int = MAX_JSON_BYTES,
) -> GroundTruthFile:
    """Read the ground truth of an instances file, images and categories by rising id.

    Targets hold ``boxes`` [M, 4] float64 (x, y, width, height, as in the file), ``labels`` [M]
    int64 (category ids), ``iscrowd`` [M] bool, ``difficult`` [M] bool (the key of that name, else
    ``ignore``, else ``iscrowd``), ``area`` [M] float64 (width * height where the annotation has
    none), ``ignore`` [M] bool if the file has that key, ``image_id``, maybe ``image_size``.

    Args:
        path: a file with the lists ``images``, ``annotations`` and ``categories``.
        class_names: the categories to keep, in this order; None keeps all.
        boxes: read ``bbox``; with masks an annotation may have none.
        masks: read ``segmentation`` too: ``masks``, a list of M run lengths or polygons.
        inclusive_pixels: for rules that count the last pixel of a box, as VOC's do: a file that
            ``vocmetrics convert`` made gives the corners that VOC had, in the format ``"xyxy"``;
            a warning says how the boxes of other files are read.
        on_fault: ``"error"``, or ``"skip"`` to leave annotations at fault out with a warning.
        max_bytes: the largest file that is read.

    Raises:
        FileFormatError: naming list and element, for what cannot be understood.
        OSError: if there is no such file or it may not be read.

    Warns:
        VocMetricsWarning: of annotations left out, equal or zero ids, and empty segmentations.
    """
    log = EntryLog(path, on_fault)
    keys = ["image_id", "category_id", *_shape_keys(boxes, masks)]
    optional = ["id", "area", *FLAGS, *(KEYS_OF_CONVERT if inclusive_pixels else ())]

    def ground_truths(file: Instances | PlainInstances) -> GroundTruthFile:
        return _ground_truths(file, class_names, log, boxes, masks, inclusive_pixels)

    return use_either(
        Path(path),
        plain_instances(keys, optional),
        parse_instances,
        ground_truths,
        max_bytes=max_bytes,
    )


def _ground_truths(
    file: Instances | PlainInstances,
    class_names: Sequence[str] | None,
    log: EntryLog,
    boxes: bool,
    masks: bool,
    inclusive_pixels: bool,
) -> GroundTruthFile:
    listed, rows, categories, info = file
    images, (kept, others) = ImageList.of(listed), choose_categories(categories, class_names)
    index, columns = _annotation_columns(rows, images, {*kept, *others}, boxes=boxes, masks=masks)
    selected = np.isin(columns["labels"], list(kept))
    reading = box_reading(info, rows) if inclusive_pixels and boxes else ""
    columns |= {"boxes": corners_of(columns["boxes"], reading)} if reading else {}
    values = read_segmentations(rows, index, images.sizes, selected, log) if masks else None
    keep = rows.report(selected, log)
    log.finish()
    _warn_of_ids(rows)
    targets = _by_image(index, columns, values, keep, len(images.ids))
    return GroundTruthFile(
        image_ids=images.ids,
        class_names=tuple(kept.values()),
        label_ids=tuple(kept),
        other_label_ids=tuple(others),
        other_objects=_count_names(columns["labels"], others),
        box_format="xyxy" if reading else "xywh",
        box_reading=reading,
        file_names=images.file_names,
        targets=with_images(targets, images.ids, images.sizes),
        origins=RowOrigins.of(rows, index, keep),
    )


def read_coco_detections(
    path: str | Path,
    ground_truths: GroundTruthFile,
    *,
    file_order: bool = False,
    boxes: bool = True,
    masks: bool = False,
    on_fault: str = "error",
    max_bytes: int = MAX_JSON_BYTES,
) -> DetectionFile:
    """Read the detections of a results file, a list of {image_id, category_id, bbox, score}.

    Predictions hold ``boxes`` [N, 4] float64 (in the format of the ground truths), ``scores`` [N]
    float64 and ``labels`` [N] int64 (category ids). Other keys of the rows are passed over. A whole
    instances file is taken as well, if its annotations have a ``score``.

    Args:
        path: the file; an empty list is no detection at all.
        ground_truths: of :func:`read_coco_ground_truths`.
        file_order: add ``order`` [N] int64, the row of the file: ties then fall as VOC's do.
        boxes: read ``bbox``; where masks are compared, results may have none.
        masks: read ``segmentation``: ``masks``, a list of N run lengths or polygons.
        on_fault: ``"error"``, or ``"skip"`` to leave results at fault out with a warning.
        max_bytes: the largest file that is read.

    Raises:
        FileFormatError: naming the element, for a malformed row or an unknown image; if there are
            results and all of them are of unknown categories.
        OSError: if there is no such file or it may not be read.

    Warns:
        VocMetricsWarning: of results that are left out; of boxes that look like corners; if masks
            are read and the results carry boxes whose area pycocotools would take.
    """
    log = EntryLog(path, on_fault)
    keys = ["image_id", "category_id", "score", *_shape_keys(boxes, masks)]

    def detections(rows: Rows | PlainRows) -> DetectionFile:
        return _detections(rows, ground_truths, log, boxes, masks, file_order)

    return use_either(
        Path(path),
        plain_results(keys, ["bbox"] if masks and not boxes else []),
        parse_results,
        detections,
        max_bytes=max_bytes,
    )


def _detections(
    rows: Rows | PlainRows,
    ground_truths: GroundTruthFile,
    log: EntryLog,
    boxes: bool,
    masks: bool,
    file_order: bool,
) -> DetectionFile:
    index, columns = _result_columns(rows, ground_truths, boxes=boxes)
    if file_order:
        columns["order"] = np.arange(len(rows), dtype=np.int64)
    selected = np.isin(columns["labels"], ground_truths.label_ids)
    sizes = [target.get("image_size") for target in ground_truths.targets]
    values = read_segmentations(rows, index, sizes, selected, log) if masks else None
    _refuse_foreign_results(rows, ground_truths)
    keep = rows.report(selected, log)
    log.finish()
    if masks and not boxes:
        _warn_of_boxes(rows)
    return DetectionFile(
        predictions=_by_image(index, columns, values, keep, len(ground_truths.image_ids)),
        num_detections=count_labels(columns["labels"][keep], ground_truths.label_ids),
        origins=RowOrigins.of(rows, index, keep),
    )


def _refuse_foreign_results(rows: Rows | PlainRows, ground_truths: GroundTruthFile) -> None:
    """Raise FileFormatError if all results are of categories that the ground truth has not.

    Each of them alone would be ignored, and all classes would have an average precision of 0.
    """
    if isinstance(rows, PlainRows) or not rows.rows or len(rows.outside) < len(rows):
        return
    given = sorted({fault.value for fault in rows.outside.values() if type(fault.value) is int})
    known = sorted({*ground_truths.label_ids, *ground_truths.other_label_ids})
    raise FileFormatError(
        "no result is of a category of the ground truth",
        where=str(rows.path),
        got=f"category_id {_some(given)}",
        remedy=f"the ids of the categories are {_some(known)}; the number of a class is no id",
    )


MOST_SHOWN = 10
"""A sentence names so many ids at most."""


def _some(numbers: Sequence[int]) -> str:
    """The first numbers, and how many more there are."""
    more = len(numbers) - MOST_SHOWN
    return ", ".join(map(str, numbers[:MOST_SHOWN])) + (f" and {more} more" if more > 0 else "")


def _shape_keys(boxes: bool, masks: bool) -> list[str]:
    return [*(["bbox"] if boxes else []), *(["segmentation"] if masks else [])]


def _by_image(
    image_index: Integers,
    columns: Mapping[str, NDArray[Any]],
    masks: CheckedMasks | list[Any] | None,
    keep: NDArray[np.bool_],
    num_images: int,
) -> list[dict[str, Any]]:
    """The rows that are kept, as one dict per image."""
    if keep.all():  # Else every column would be copied.
        kept_index, kept = image_index, dict(columns)
    else:
        kept_index, kept = image_index[keep], {key: one[keep] for key, one in columns.items()}
    images: list[dict[str, Any]] = [*split_by_image(kept_index, num_images, kept)]
    if isinstance(masks, CheckedMasks):
        for one, own in zip(images, masks.by_image(image_index, num_images, keep), strict=True):
            one["masks"] = own
    elif masks is not None:
        add_lists("masks", images, image_index[keep], masks, keep)
    return images


def _count_names(labels: Integers, names: dict[int, str]) -> dict[str, int]:
    """How many objects each class has, of those that have any."""
    counts = zip(names.values(), count_labels(labels, list(names)), strict=True)
    return {name: count for name, count in counts if count}


def _annotation_columns(
    annotations: Rows | PlainRows,
    images: ImageList,
    categories: set[int],
    *,
    boxes: bool,
    masks: bool,
) -> tuple[Integers, dict[str, NDArray[Any]]]:
    """Image and columns of all annotations; ``annotations`` keeps what is wrong with them."""
    image_index = annotations.lookup(
        "image_id", images.find, "among the images of the file", outside=True
    )
    labels = _labels(annotations, categories, "among the categories")
    annotations.put_shapeless_outside()
    columns: dict[str, NDArray[Any]] = {"labels": labels}
    own_area: Floats = np.full(len(annotations), np.nan)
    if boxes:
        columns["boxes"] = annotations.boxes("bbox", optional=masks)
        if not masks:  # Else the area of the mask is meant, which nobody knows yet.
            own_area = columns["boxes"][:, 2] * columns["boxes"][:, 3]
    columns["iscrowd"] = annotations.flags("iscrowd")
    columns["difficult"] = difficult_flags(annotations)
    columns["area"] = annotations.areas("area", own_area)
    if annotations.has("ignore").any():
        columns["ignore"] = annotations.flags("ignore")
    return image_index, columns


def _result_columns(
    rows: Rows | PlainRows, ground_truths: GroundTruthFile, *, boxes: bool
) -> tuple[Integers, dict[str, NDArray[Any]]]:
    """Image and columns of all results; ``rows`` keeps what is wrong with them."""
    images = ImageIndex(ground_truths.image_ids, ground_truths.file_names)
    categories = {*ground_truths.label_ids, *ground_truths.other_label_ids}
    labels = _labels(rows, categories, "a known category")
    image_index = rows.lookup("image_id", images.find, "among the images of the ground truth")
    columns: dict[str, NDArray[Any]] = {"scores": rows.scores("score"), "labels": labels}
    if boxes:
        columns["boxes"] = rows.boxes("bbox")
        sizes = [target.get("image_size") for target in ground_truths.targets]
        warn_of_corners(rows.path, columns["boxes"], image_index, sizes)
        if ground_truths.box_reading:
            columns["boxes"] = corners_of(columns["boxes"], ground_truths.box_reading)
    return image_index, columns


def _labels(rows: Rows | PlainRows, categories: set[int], expected: str) -> Integers:
    return rows.lookup(
        "category_id",
        lambda values: [value if value in categories else None for value in values],
        expected,
        kind=INTEGER,
        outside=True,
    )


def _warn_of_ids(annotations: Rows | PlainRows) -> None:
    ids = annotations.given_ids()
    zero = next((index for index, one in enumerate(ids) if one == 0), None)
    if zero is not None:
        warn(
            f"{annotations.where(zero)}: annotation id 0, which pycocotools takes for "
            "'no match', is counted here like any other"
        )
    times = Counter(one for one in ids if isinstance(one, int | str) and one)
    repeated = [one for one, count in times.items() if count > 1]
    if repeated:
        first = ids.index(repeated[0])
        warn(
            f"{annotations.where(first)}: annotation id {repeated[0]} is given "
            f"{times[repeated[0]]} times, and {len(repeated) - 1:,} more ids likewise: pycocotools "
            "takes the last annotation for all of them, each is counted here"
        )


def _warn_of_boxes(rows: Rows | PlainRows) -> None:
    first = rows.first_with("bbox")
    if first is not None:
        warn(
            f"{rows.where(first)}: the results carry bbox, whose area pycocotools takes for that "
            "of a detection in APs, APm, APl; here it is that of the mask: take the protocol "
            "coco2017_segm_box_area for pycocotools' numbers"
        )
