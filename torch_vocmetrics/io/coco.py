"""Reading COCO's JSON: instances files with ground truth, results files with detections.

As pycocotools does, annotations of images or categories that the file does not list are ignored,
and results of categories that the ground truth does not have; so are faults of classes that are not
kept. An annotation with an empty ``segmentation`` and an empty or infinite box has no shape and is
ignored too. An image may be named by its file where that is unambiguous. Categories of equal names
are told apart as ``name#id``.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import FileFormatError, VocMetricsWarning
from ..limits import MAX_JSON_BYTES
from .class_names import near_names
from .entry_log import EntryLog
from .image_names import ImageIndex
from .json_rows import IDENTIFIER, INTEGER, STRING, Rows, difficult_flags, load_json, read_list
from .segmentations import read_segmentations
from .tables import (
    DetectionFile,
    Floats,
    GroundTruthFile,
    Integers,
    RowOrigins,
    add_lists,
    count_labels,
    known_size,
    split_by_image,
    with_images,
)
from .voc_boxes import box_reading, corners_of

INSTANCES_FORM = "an instances file has the lists images, annotations and categories"
_RESULTS_FORM = "results are a list of {image_id, category_id, bbox, score}"


class Instances(NamedTuple):
    """The lists of an instances file, and what it says under ``info``."""

    images: Rows
    annotations: Rows
    categories: Rows
    info: dict[str, Any]


def read_instances(path: Path, *, max_bytes: int = MAX_JSON_BYTES) -> Instances:
    """Read an instances file.

    Raises:
        FileFormatError: if it is none.
        OSError: if there is no such file or it may not be read.
    """
    content = load_json(path, max_bytes=max_bytes)
    if not isinstance(content, dict):
        raise _wrong_type(path, "an instances file", content, INSTANCES_FORM)
    images, annotations, categories = (
        read_list(path, content, name, INSTANCES_FORM)
        for name in ("images", "annotations", "categories")
    )
    info = content.get("info")
    return Instances(images, annotations, categories, info if isinstance(info, dict) else {})


class ImageList(NamedTuple):
    """The images of an instances file by rising id.

    Attributes:
        ids: I ids.
        sizes: height and width of each, None where the file does not say them.
        file_names: the name of the file of each, empty where the file does not say it.
    """

    ids: tuple[int, ...] | tuple[str, ...]
    sizes: list[tuple[int, int] | None]
    file_names: tuple[str, ...]

    @classmethod
    def of(cls, images: Rows) -> ImageList:
        """Read the list ``images``.

        Raises:
            FileFormatError: if there is no image, or an id is missing or not the only one.
        """
        ids = images.ids("id", IDENTIFIER)
        if not ids:
            raise FileFormatError("the list is empty", where=images.where(), remedy="list images")
        order = sorted(range(len(ids)), key=ids.__getitem__)
        rows = [images.rows[row] for row in order]
        return cls(
            tuple(ids[row] for row in order),
            [known_size(row.get("height"), row.get("width")) for row in rows],
            tuple(map(file_name_of, rows)),
        )

    def find(self, values: Sequence[Any]) -> list[int | None]:
        """The index of the image that each value names by id or file; None for no image."""
        return ImageIndex(self.ids, self.file_names).find(values)


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
    path, log = Path(path), EntryLog(path, on_fault)
    listed, rows, categories, info = read_instances(path, max_bytes=max_bytes)
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
        FileFormatError: naming the element, for a malformed row or an unknown image.
        OSError: if there is no such file or it may not be read.

    Warns:
        VocMetricsWarning: of results that are left out; if masks are read and the results carry
            boxes whose area pycocotools would take.
    """
    path, log = Path(path), EntryLog(path, on_fault)
    rows = results_rows(path, load_json(path, max_bytes=max_bytes))
    index, columns = _result_columns(rows, ground_truths, boxes=boxes)
    if file_order:
        columns["order"] = np.arange(len(rows), dtype=np.int64)
    selected = np.isin(columns["labels"], ground_truths.label_ids)
    sizes = [target.get("image_size") for target in ground_truths.targets]
    values = read_segmentations(rows, index, sizes, selected, log) if masks else None
    keep = rows.report(selected, log)
    log.finish()
    if masks and not boxes:
        _warn_of_boxes(rows)
    return DetectionFile(
        predictions=_by_image(index, columns, values, keep, len(ground_truths.image_ids)),
        num_detections=count_labels(columns["labels"][keep], ground_truths.label_ids),
        origins=RowOrigins.of(rows, index, keep),
    )


def _by_image(
    image_index: Integers,
    columns: Mapping[str, NDArray[Any]],
    masks: Sequence[Any] | None,
    keep: NDArray[np.bool_],
    num_images: int,
) -> list[dict[str, Any]]:
    """The rows that are kept, as one dict per image."""
    kept = {key: column[keep] for key, column in columns.items()}
    images: list[dict[str, Any]] = [*split_by_image(image_index[keep], num_images, kept)]
    if masks is not None:
        add_lists("masks", images, image_index[keep], masks, keep)
    return images


def results_rows(path: Path, content: object) -> Rows:
    """The rows of a results file, or of an instances file whose annotations have a score.

    Raises:
        FileFormatError: for a file of another form.
    """
    if isinstance(content, dict) and isinstance(content.get("annotations"), list):
        return Rows(path, "annotations", content["annotations"], _RESULTS_FORM)
    if not isinstance(content, list):
        raise _wrong_type(path, "a results file", content, _RESULTS_FORM)
    return Rows(path, "", content, _RESULTS_FORM)


def _wrong_type(path: Path, what: str, content: object, remedy: str) -> FileFormatError:
    got = f"a JSON {type(content).__name__}"
    return FileFormatError(f"not {what}", where=str(path), got=got, remedy=remedy)


def _count_names(labels: Integers, names: dict[int, str]) -> dict[str, int]:
    """How many objects each class has, of those that have any."""
    counts = zip(names.values(), count_labels(labels, list(names)), strict=True)
    return {name: count for name, count in counts if count}


def file_name_of(row: dict[str, Any]) -> str:
    """The name of the file of an image, empty if the list does not say it."""
    name = row.get("file_name")
    return name if isinstance(name, str) else ""


def category_names(categories: Rows) -> dict[int, str]:
    """Name by category id, by rising id; equal names are told apart as ``name#id``.

    Raises:
        FileFormatError: if a name or an id is missing, or an id is not the only one.
    """
    ids, names = categories.ids("id", INTEGER), categories.column("name", STRING)
    categories.require_sound()
    copies = Counter(names)
    return {
        label: f"{name}#{label}" if copies[name] > 1 else name
        for label, name in sorted(zip(ids, names, strict=True))
    }


def choose_categories(
    categories: Rows, class_names: Sequence[str] | None
) -> tuple[dict[int, str], dict[int, str]]:
    """Name by category id of the classes asked for and of all others.

    Raises:
        FileFormatError: for a class that no category has, with the near names.
    """
    unique = category_names(categories)
    if class_names is None:
        return unique, {}
    labels = {name: label for label, name in unique.items()}
    for name in class_names:
        if name not in labels:
            raise FileFormatError(
                f"no category {name!r}",
                where=categories.where(),
                remedy=near_names(name, list(labels)),
            )
    kept = {labels[name]: name for name in class_names}
    return kept, {label: name for label, name in unique.items() if label not in kept}


def _annotation_columns(
    annotations: Rows, images: ImageList, categories: set[int], *, boxes: bool, masks: bool
) -> tuple[Integers, dict[str, NDArray[Any]]]:
    """Image and columns of all annotations; ``annotations`` keeps what is wrong with them."""
    image_index = annotations.lookup(
        "image_id", images.find, "among the images of the file", outside=True
    )
    labels = _labels(annotations, categories, "among the categories")
    _put_shapeless_outside(annotations)
    columns: dict[str, NDArray[Any]] = {"labels": labels}
    own_area: Floats = np.full(len(annotations), np.nan)
    if boxes:
        columns["boxes"] = annotations.boxes("bbox", optional=masks)
        if not masks:  # Else the area of the mask is meant, which nobody knows yet.
            own_area = columns["boxes"][:, 2] * columns["boxes"][:, 3]
    columns["iscrowd"] = annotations.flags("iscrowd")
    columns["difficult"] = difficult_flags(annotations)
    columns["area"] = annotations.areas("area", own_area)
    if any("ignore" in row for row in annotations.rows):
        columns["ignore"] = annotations.flags("ignore")
    return image_index, columns


def _result_columns(
    rows: Rows, ground_truths: GroundTruthFile, *, boxes: bool
) -> tuple[Integers, dict[str, NDArray[Any]]]:
    """Image and columns of all results; ``rows`` keeps what is wrong with them."""
    images = ImageIndex(ground_truths.image_ids, ground_truths.file_names)
    categories = {*ground_truths.label_ids, *ground_truths.other_label_ids}
    labels = _labels(rows, categories, "a known category")
    image_index = rows.lookup("image_id", images.find, "among the images of the ground truth")
    columns: dict[str, NDArray[Any]] = {"scores": rows.scores("score"), "labels": labels}
    if boxes:
        columns["boxes"] = rows.boxes("bbox")
        if ground_truths.box_reading:
            columns["boxes"] = corners_of(columns["boxes"], ground_truths.box_reading)
    return image_index, columns


def _labels(rows: Rows, categories: set[int], expected: str) -> Integers:
    return rows.lookup(
        "category_id",
        lambda values: [value if value in categories else None for value in values],
        expected,
        kind=INTEGER,
        outside=True,
    )


def _put_shapeless_outside(annotations: Rows) -> None:
    """An annotation without any shape has no box: tools write the extremes of no points at all."""
    for index, row in enumerate(annotations.rows):
        if row.get("segmentation") == []:
            box = row.get("bbox")
            if box == [] or (isinstance(box, list) and any(value in _EXTREMES for value in box)):
                annotations.put_outside(index, "the annotation has no shape", box)


_EXTREMES = (float("inf"), float("-inf"))


def _warn_of_ids(annotations: Rows) -> None:
    ids = [row.get("id") for row in annotations.rows]
    zero = next((index for index, one in enumerate(ids) if one == 0), None)
    if zero is not None:
        _warn(
            f"{annotations.where(zero)}: annotation id 0, which pycocotools takes for "
            "'no match', is counted here like any other"
        )
    times = Counter(one for one in ids if isinstance(one, int | str) and one)
    repeated = [one for one, count in times.items() if count > 1]
    if repeated:
        first = ids.index(repeated[0])
        _warn(
            f"{annotations.where(first)}: annotation id {repeated[0]} is given "
            f"{times[repeated[0]]} times, and {len(repeated) - 1:,} more ids likewise: pycocotools "
            "takes the last annotation for all of them, each is counted here"
        )


def _warn_of_boxes(rows: Rows) -> None:
    first = next((index for index, row in enumerate(rows.rows) if row.get("bbox")), None)
    if first is not None:
        _warn(
            f"{rows.where(first)}: the results carry bbox, whose area pycocotools takes for that "
            "of a detection in APs, APm, APl; here it is that of the mask: take the protocol "
            "coco2017_segm_box_area for pycocotools' numbers"
        )


def _warn(sentence: str) -> None:
    warnings.warn(sentence, VocMetricsWarning, stacklevel=4)
