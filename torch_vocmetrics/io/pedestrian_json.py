"""CityPersons and KAIST: annotations in COCO's JSON with pedestrian keys, and MATLAB's ``anno_*``.

Source: CityPersons evaluation/eval_script coco.py and annotations; KAIST evaluation_script.py.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..errors import FileFormatError, warn
from ..limits import MAX_JSON_BYTES, MAX_MATLAB_BYTES
from .bb_gt import detection_file
from .coco_lists import ImageList, results_rows
from .entry_log import EntryLog
from .image_names import ImageIndex
from .json_rows import INTEGER, REQUIRED, Rows, load_json, read_list
from .matlab import load_matlab
from .tables import DetectionFile, GroundTruthFile, RowOrigins, split_by_image, with_images

PEDESTRIAN = 1
"""The category that is evaluated, in both benchmarks; other categories do not exist."""

_FORM = "the file needs the lists images (id) and annotations (image_id, category_id, bbox)"


def read_pedestrian_json(
    path: str | Path, *, on_fault: str = "error", max_bytes: int = MAX_JSON_BYTES
) -> GroundTruthFile:
    """Read annotations of category 1, images by rising id.

    Targets hold ``boxes`` (x, y, width, height), ``labels`` (all 0), ``ignore``, ``visibility``
    where the file has ``vis_ratio``, ``occlusion`` where it has that, ``image_id`` and
    ``image_size``. Annotations of images that the file does not list are ignored.

    Args:
        path: the file.
        on_fault: ``"error"``, or ``"skip"`` to leave annotations at fault out with a warning.
        max_bytes: the largest file that is read.

    Raises:
        FileFormatError: naming list and element, for what cannot be understood.
        OSError: if there is no such file or it may not be read.

    Warns:
        VocMetricsWarning: of annotations that are left out, and of those of category 0.
    """
    path = Path(path)
    log = EntryLog(path, on_fault)
    content = load_json(path, max_bytes=max_bytes)
    images, objects = (read_list(path, content, name, _FORM) for name in ("images", "annotations"))
    listed = ImageList.of(images)
    index = objects.lookup("image_id", listed.find, "among the images of the file", outside=True)
    selected = _are_pedestrians(objects)
    columns: dict[str, Any] = {
        "boxes": objects.boxes("bbox"),
        "labels": np.zeros(len(objects), np.int64),
        "ignore": objects.flags("ignore"),
    }
    if any("vis_ratio" in row for row in objects.rows):
        columns["visibility"] = objects.numbers("vis_ratio")
    if any("occlusion" in row for row in objects.rows):
        columns["occlusion"] = objects.integers("occlusion")
    keep = objects.report(selected, log)
    log.finish()
    targets = split_by_image(
        index[keep], len(listed.ids), {key: column[keep] for key, column in columns.items()}
    )
    truth = _truth(listed.ids, with_images(targets, listed.ids, listed.sizes))
    origins = RowOrigins.of(objects, index, keep)
    return dataclasses.replace(truth, file_names=listed.file_names, origins=origins)


def _are_pedestrians(rows: Rows, default: object = REQUIRED) -> NDArray[np.bool_]:
    """[N] whether a row is of the evaluated category; rows of category 0 are pointed out."""
    categories: list[Any] = []

    def keep(values: list[Any]) -> list[int]:
        categories.extend(values)
        return [int(value == PEDESTRIAN) for value in values]

    evaluated = rows.lookup("category_id", keep, "a category", kind=INTEGER, default=default)
    zeros = [i for i, value in enumerate(categories) if value == 0 and i not in rows.faults]
    if zeros:
        warn(
            f"{rows.where(zeros[0])}: category_id 0, and {len(zeros) - 1:,} more like it, are not "
            f"evaluated: pedestrians are category {PEDESTRIAN}; add 1 if ids count from 0"
        )
    return np.equal(evaluated, 1)


def _truth(image_ids: tuple[Any, ...], targets: list[dict[str, Any]]) -> GroundTruthFile:
    return GroundTruthFile(
        image_ids=image_ids,
        class_names=("person",),
        label_ids=(0,),
        box_format="xywh",
        targets=targets,
    )


def read_citypersons_mat(path: str | Path, *, max_bytes: int = MAX_MATLAB_BYTES) -> GroundTruthFile:
    """Read ``anno_train.mat`` or ``anno_val.mat``; images are numbered from 1, as in the JSON.

    Objects of class 1 (pedestrian) count, those of the other classes (ignore region, rider,
    sitting, other, group) are ignored. ``visibility`` is area(visible) / area(box).

    Args:
        path: the file.
        max_bytes: the largest file that is read.

    Raises:
        FileFormatError: naming file and image, for what cannot be understood.
        OSError: if there is no such file or it may not be read.
    """
    content = load_matlab(Path(path), max_bytes=max_bytes)
    table = next(iter(content.values())) if len(content) == 1 else None
    if not isinstance(table, np.ndarray) or not table.dtype.hasobject:
        raise FileFormatError("not an annotation of CityPersons", where=str(path))
    targets = []
    for number, cell in enumerate(table.ravel(), 1):
        try:
            rows = cell.ravel()[0]["bbs"].astype(np.float64).reshape(-1, 10)
            if not np.isfinite(rows).all():
                raise ValueError("a number that is not finite")
        except (IndexError, KeyError, ValueError, TypeError, AttributeError) as error:
            raise FileFormatError(
                "an image needs bbs of 10 columns",
                where=f"{path}, image {number}",
                got=str(error),
            ) from None
        with np.errstate(divide="ignore", invalid="ignore"):
            visible = rows[:, 8] * rows[:, 9] / (rows[:, 3] * rows[:, 4])
        targets.append(
            {
                "boxes": torch.from_numpy(rows[:, 1:5].copy()),
                "labels": torch.zeros(len(rows), dtype=torch.int64),
                "ignore": torch.from_numpy(rows[:, 0] != PEDESTRIAN),
                "visibility": torch.from_numpy(visible),
                "image_id": number,
            }
        )
    return _truth(tuple(range(1, len(targets) + 1)), targets)


def read_pedestrian_detections(
    path: str | Path,
    ground_truths: GroundTruthFile,
    *,
    on_fault: str = "error",
    max_bytes: int = MAX_JSON_BYTES,
) -> DetectionFile:
    """Read a results file, a list of {image_id, category_id, bbox, score}; category 1 only.

    Args:
        path: the file; an empty list is no detection at all.
        ground_truths: the images.
        on_fault: ``"error"``, or ``"skip"`` to leave results at fault out with a warning.
        max_bytes: the largest file that is read.

    Raises:
        FileFormatError: naming the element, for a malformed row or an unknown image; if there are
            results and none is of a pedestrian.
        OSError: if there is no such file or it may not be read.

    Warns:
        VocMetricsWarning: of results that are left out, and of those of category 0.
    """
    path = Path(path)
    log = EntryLog(path, on_fault)
    rows = results_rows(path, load_json(path, max_bytes=max_bytes))
    images = ImageIndex(ground_truths.image_ids, ground_truths.file_names)
    index = rows.lookup("image_id", images.find, "among the images of the ground truth")
    selected = _are_pedestrians(rows, default=PEDESTRIAN)
    boxes, scores = rows.boxes("bbox"), rows.scores("score")
    keep = rows.report(selected, log)
    log.finish()
    if len(rows) and not selected.any():
        raise FileFormatError(
            "no result is of the category of pedestrians",
            where=str(path),
            remedy=f"pedestrians have category_id {PEDESTRIAN}",
        )
    found = detection_file(index[keep], boxes[keep], scores[keep], len(ground_truths.image_ids))
    return dataclasses.replace(found, origins=RowOrigins.of(rows, index, keep))
