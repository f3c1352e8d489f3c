"""CityPersons and KAIST: annotations in COCO's JSON with pedestrian keys, and MATLAB's ``anno_*``.

Source: CityPersons evaluation/eval_script coco.py and annotations; KAIST evaluation_script.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..errors import FileFormatError
from ..limits import MAX_JSON_BYTES, MAX_MATLAB_BYTES
from .bb_gt import detection_file
from .json_rows import IDENTIFIER, Rows, load_json
from .matlab import load_matlab
from .tables import DetectionFile, GroundTruthFile, known_size, split_by_image, with_images

PEDESTRIAN = 1
"""The category that is evaluated, in both benchmarks; other categories do not exist."""

_FORM = "the file needs the lists images (id) and annotations (image_id, category_id, bbox)"


def read_pedestrian_json(path: str | Path, *, max_bytes: int = MAX_JSON_BYTES) -> GroundTruthFile:
    """Read annotations of category 1, images by rising id.

    Targets hold ``boxes`` (x, y, width, height), ``labels`` (all 0), ``ignore``, ``visibility``
    where the file has ``vis_ratio``, ``occlusion`` where it has that, ``image_id`` and
    ``image_size``.

    Args:
        path: the file.
        max_bytes: the largest file that is read.

    Raises:
        FileFormatError: naming list and element, for what cannot be understood.
        OSError: if there is no such file or it may not be read.
    """
    path = Path(path)
    content = load_json(path, max_bytes=max_bytes)
    images, objects = (_list(path, content, name) for name in ("images", "annotations"))
    ids = images.ids("id", IDENTIFIER)
    order = sorted(range(len(ids)), key=ids.__getitem__)
    places = {ids[row]: place for place, row in enumerate(order)}
    index = objects.lookup("image_id", places, "among the images of the file")
    category = objects.integers("category_id")
    columns: dict[str, Any] = {
        "boxes": objects.boxes("bbox"),
        "labels": np.zeros(len(objects.rows), np.int64),
        "ignore": objects.flags("ignore"),
    }
    if any("vis_ratio" in row for row in objects.rows):
        columns["visibility"] = objects.numbers("vis_ratio")
    if any("occlusion" in row for row in objects.rows):
        columns["occlusion"] = objects.integers("occlusion")
    keep = category == PEDESTRIAN
    targets = split_by_image(
        index[keep], len(ids), {key: column[keep] for key, column in columns.items()}
    )
    rows = [images.rows[row] for row in order]
    sizes = [known_size(row.get("height"), row.get("width")) for row in rows]
    image_ids = tuple(ids[row] for row in order)
    return _truth(image_ids, with_images(targets, image_ids, sizes))


def _list(path: Path, content: object, name: str) -> Rows:
    rows = content.get(name) if isinstance(content, dict) else None
    if not isinstance(rows, list):
        raise FileFormatError(
            f"{name!r} is no list", where=str(path), got=type(rows).__name__, remedy=_FORM
        )
    return Rows(path, name, rows, _FORM)


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
    path: str | Path, ground_truths: GroundTruthFile, *, max_bytes: int = MAX_JSON_BYTES
) -> DetectionFile:
    """Read a results file, a list of {image_id, category_id, bbox, score}; category 1 only.

    Args:
        path: the file; an empty list is no detection at all.
        ground_truths: the images.
        max_bytes: the largest file that is read.

    Raises:
        FileFormatError: naming the element, for a malformed row or an unknown image.
        OSError: if there is no such file or it may not be read.
    """
    path = Path(path)
    content = load_json(path, max_bytes=max_bytes)
    form = "results are a list of {image_id, category_id, bbox, score}"
    if not isinstance(content, list):
        got = type(content).__name__
        raise FileFormatError("not a results file", where=str(path), got=got, remedy=form)
    rows = Rows(path, "", content, form)
    places = {image_id: place for place, image_id in enumerate(ground_truths.image_ids)}
    index = rows.lookup("image_id", places, "among the images of the ground truth")
    category = rows.integers("category_id", default=PEDESTRIAN)
    keep = category == PEDESTRIAN
    boxes, scores = rows.boxes("bbox")[keep], rows.scores("score")[keep]
    return detection_file(index[keep], boxes, scores, len(places))
