"""Ground truth of the Caltech toolbox: its own text form, and XML of VOC and of ImageNet.

Source: Piotr's toolbox, detector/bbGt.m bbLoad and detector/acfTest.m.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ..errors import FileFormatError, InputError
from ..limits import MAX_TEXT_BYTES, MAX_XML_BYTES
from . import bb_apply
from .files import read_text
from .number_rows import read_number_rows
from .tables import DetectionFile, Floats, GroundTruthFile, split_by_image
from .voc_annotations import read_annotation

HEADER = "% bbGt version=3"
_FIELDS = ("label", "x", "y", "w", "h", "occluded", "vx", "vy", "vw", "vh", "ignore", "angle")

Range = tuple[float, float]

PARAMETERS = {
    "lbls": "labels", "ilbls": "ignored_labels", "squarify": "squarify", "ellipse": "ellipse",
    "hRng": "height_range", "wRng": "width_range", "aRng": "area_range", "arRng": "ratio_range",
    "oRng": "angle_range", "xRng": "x_range", "yRng": "y_range", "vRng": "visibility_range",
    "format": "form",
}  # fmt: skip
"""What bbLoad calls the fields of :class:`Conditions`."""


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """Which objects are kept and which of them count: the parameters of bbLoad.

    Attributes:
        labels, ignored_labels: objects of these labels are kept, those of the latter ignored; both
            empty keeps all.
        squarify: how, and the ratio of width to height (see :func:`bb_apply.squarify`), for objects
            that count; () leaves them.
        ellipse: whether a rotated object is an ellipse, else a rectangle, of which the extent is
            taken.
        height_range, width_range, area_range, ratio_range, angle_range, visibility_range: closed
            ranges in which objects count; angles are in degrees, -180 to 180.
        x_range, y_range: closed ranges that must hold both sides of a box.
        form: 0 for bbGt text, 1 for XML of VOC, 2 for XML of ImageNet.
    """

    labels: tuple[str, ...] = ()
    ignored_labels: tuple[str, ...] = ()
    squarify: tuple[int, float] | tuple[()] = ()
    ellipse: bool = True
    height_range: Range | None = None
    width_range: Range | None = None
    area_range: Range | None = None
    ratio_range: Range | None = None
    angle_range: Range | None = None
    visibility_range: Range | None = None
    x_range: Range | None = None
    y_range: Range | None = None
    form: int = 0

    @classmethod
    def parse(cls, text: str) -> Conditions:
        """Read ``"lbls=person; ilbls=people,person?; hRng=50,inf"``, by bbLoad's names.

        Raises:
            InputError: for an unknown name or values that do not fit it.
        """
        fields: dict[str, object] = {}
        for part in filter(None, map(str.strip, text.split(";"))):
            name, _, values = part.partition("=")
            words = [word.strip() for word in values.split(",")]
            if name.strip() not in PARAMETERS:
                known = ", ".join(PARAMETERS)
                raise InputError(
                    "not a parameter of bbLoad", where=part, remedy=f"there are {known}"
                )
            field = PARAMETERS[name.strip()]
            fields[field] = _parameter(field, words, part)
        return cls(**fields)  # type: ignore[arg-type]


def _parameter(field: str, words: list[str], where: str) -> object:
    if field in ("labels", "ignored_labels"):
        return tuple(words)
    try:
        numbers = tuple(float(word) for word in words)
    except ValueError:
        numbers = ()
    if field == "ellipse" and numbers in ((0.0,), (1.0,)):
        return bool(numbers[0])
    if field == "form" and len(numbers) == 1 and numbers[0] in range(3):
        return int(numbers[0])
    if field == "squarify" and len(numbers) == 2 and 0 < numbers[1] < math.inf:
        if numbers[0] in range(5):
            return int(numbers[0]), numbers[1]
    elif field.endswith("_range") and len(numbers) == 2 and not any(map(math.isnan, numbers)):
        return numbers
    raise InputError("values do not fit the parameter", where=where)


class BbGtObjects(NamedTuple):
    """Objects of one image.

    Attributes:
        labels: N labels.
        annotated: [N, 4] float64 boxes x, y, width, height as the file has them.
        boxes: [N, 4] likewise, after rotation and squarifying.
        visible_boxes: [N, 4] visible parts, zeros where nothing is said.
        occluded, ignored: [N] bool; ``ignored`` says what the conditions make of it.
        angles: [N] degrees in [0, 360).
    """

    labels: tuple[str, ...]
    annotated: Floats
    boxes: Floats
    visible_boxes: Floats
    occluded: NDArray[np.bool_]
    ignored: NDArray[np.bool_]
    angles: Floats


def read_bb_gt_objects(
    path: str | Path, conditions: Conditions | None = None, *, max_bytes: int | None = None
) -> BbGtObjects:
    """Read the objects of one image.

    Args:
        path: the file.
        conditions: which objects are kept and which of them count; None keeps and counts all.
        max_bytes: the largest file that is read; None for 1 GiB of text or 4 MiB of XML.

    Raises:
        FileFormatError: naming file and line or element, for what cannot be understood.
        OSError: if there is no such file or it may not be read.
    """
    chosen = conditions or Conditions()
    path = Path(path)
    if chosen.form == 0:
        rows = _read_text(path, MAX_TEXT_BYTES if max_bytes is None else max_bytes)
    else:
        rows = _read_xml(path, chosen.form, MAX_XML_BYTES if max_bytes is None else max_bytes)
    known = {*chosen.labels, *chosen.ignored_labels}
    rows = [row for row in rows if not known or row.label in known]
    table = np.array([row.numbers for row in rows], np.float64).reshape(-1, 11)
    annotated, visible = table[:, :4], table[:, 5:9]
    angles = table[:, 10] % 360
    occluded = table[:, 4] != 0
    ignored = np.array([row.label in chosen.ignored_labels for row in rows], np.bool_)
    ignored |= (table[:, 9] != 0) | ~_holds(chosen, annotated, visible, occluded, angles)
    boxes = annotated.copy()
    for row in np.flatnonzero(angles):
        boxes[row] = extent(annotated[row], float(angles[row]), ellipse=chosen.ellipse)
    if chosen.squarify and len(boxes):
        boxes[~ignored] = bb_apply.squarify(boxes[~ignored], *chosen.squarify)
    labels = tuple(row.label for row in rows)
    return BbGtObjects(labels, annotated, boxes, visible, occluded, ignored, angles)


class _Row(NamedTuple):
    """An object: its label, and box, occluded, visible box, ignore and angle as 11 numbers."""

    label: str
    numbers: list[float]


def _read_text(path: Path, max_bytes: int) -> list[_Row]:
    lines = read_text(path, max_bytes=max_bytes).split("\n")
    if lines[0].strip() != HEADER:
        raise FileFormatError(
            "not a bbGt file of version 3",
            where=f"{path}, line 1",
            got=repr(lines[0][:60]),
            remedy=f"the first line must be {HEADER!r}",
        )
    rows = []
    for number, line in enumerate(lines[1:], 2):
        fields = line.split()
        if not fields:
            continue
        where = f"{path}, line {number}"
        if len(fields) != len(_FIELDS):
            raise FileFormatError(
                "not an object",
                where=where,
                got=f"{len(fields)} columns",
                remedy=f"a row is {', '.join(_FIELDS)}",
            )
        try:
            numbers = [float(field) for field in fields[1:]]
        except ValueError:
            numbers = [math.nan]
        if not all(map(math.isfinite, numbers)):
            raise FileFormatError("not a finite number", where=where, got=repr(line))
        rows.append(_Row(fields[0], numbers))
    return rows


def _read_xml(path: Path, form: int, max_bytes: int) -> list[_Row]:
    rows = []
    for one in read_annotation(path, max_bytes=max_bytes).objects:
        x1, y1, x2, y2 = one.box
        box = [x1, y1, x2 - x1, y2 - y1]
        hidden = form == 1 and (one.occluded or one.truncated)
        visible = box if hidden else [0.0] * 4
        ignore = float(form == 1 and one.difficult)
        rows.append(_Row(one.name, [*box, float(hidden), *visible, ignore, 0.0]))
    return rows


def _holds(
    chosen: Conditions,
    boxes: Floats,
    visible: Floats,
    occluded: NDArray[np.bool_],
    angles: Floats,
) -> NDArray[np.bool_]:
    """[N]: whether the annotated boxes meet all conditions."""
    x, y, w, h = boxes.T
    with np.errstate(divide="ignore", invalid="ignore"):
        part = visible[:, 2] * visible[:, 3] / (w * h)
        ratio = w / h
    part = np.where((visible == boxes).all(axis=1), 0.0, part)
    part = np.where(~occluded | ~visible.any(axis=1), 1.0, part)
    turned = np.where(angles > 180, angles - 360, angles)
    holds = np.ones(len(boxes), np.bool_)
    for limits, values in (
        (chosen.height_range, (h,)),
        (chosen.width_range, (w,)),
        (chosen.area_range, (w * h,)),
        (chosen.ratio_range, (ratio,)),
        (chosen.angle_range, (turned,)),
        (chosen.visibility_range, (part,)),
        (chosen.x_range, (x, x + w)),
        (chosen.y_range, (y, y + h)),
    ):
        if limits is not None:
            for value in values:
                holds &= (value >= limits[0]) & (value <= limits[1])
    return holds


def extent(box: Floats, angle: float, *, ellipse: bool) -> Floats:
    """The upright box around a rotated one, or around the ellipse in it.

    Args:
        box: x, y, width, height before the rotation.
        angle: in degrees, clockwise as the image's y axis points down.
        ellipse: whether the ellipse is meant.
    """
    centre = box[:2] + box[2:] / 2
    c, s = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    turn = np.abs(np.array([[c, s], [s, c]]))
    half = box[2:] / 2
    reach = np.sqrt((turn**2) @ half**2) if ellipse else turn @ half
    return np.concatenate([centre - reach, 2 * reach])


def read_bb_gt_ground_truths(
    folder: str | Path,
    conditions: Conditions | None = None,
    *,
    max_bytes: int | None = None,
) -> GroundTruthFile:
    """Read a folder of files, one an image, in the order of their names.

    Targets hold ``boxes`` (x, y, width, height), ``labels`` (all 0), ``ignore`` and ``image_id``,
    the name of the file without its ending.

    Args:
        folder: the folder.
        conditions: see :class:`Conditions`.
        max_bytes: the largest file that is read; None for 1 GiB of text or 4 MiB of XML.

    Raises:
        FileFormatError: naming file and line or element, or if the folder holds no such files.
        OSError: if a file may not be read.
    """
    chosen, folder = conditions or Conditions(), Path(folder)
    ending = ".txt" if chosen.form == 0 else ".xml"
    paths = sorted(path for path in folder.iterdir() if path.suffix == ending)
    if not paths:
        raise FileFormatError(f"no {ending} files", where=str(folder))
    targets = []
    for path in paths:
        objects = read_bb_gt_objects(path, chosen, max_bytes=max_bytes)
        targets.append(
            {
                "boxes": torch.from_numpy(objects.boxes),
                "labels": torch.zeros(len(objects.labels), dtype=torch.int64),
                "ignore": torch.from_numpy(objects.ignored),
                "image_id": path.stem,
            }
        )
    return GroundTruthFile(
        image_ids=tuple(path.stem for path in paths),
        class_names=("person",),
        label_ids=(0,),
        box_format="xywh",
        targets=targets,
    )


def read_indexed_detections(
    path: str | Path, ground_truths: GroundTruthFile, *, max_bytes: int = MAX_TEXT_BYTES
) -> DetectionFile:
    """Read rows ``<image index from 1> x y width height score``, with blanks or commas between.

    acfTest writes its detections so, and KAIST's results have the same form.

    Args:
        path: the file.
        ground_truths: the images, by whose order the index counts.
        max_bytes: the largest file that is read.

    Raises:
        FileFormatError: naming file and line, for another number of columns, what is no number, or
            an index outside the set.
        OSError: if there is no such file or it may not be read.
    """
    columns = ("image index", "x", "y", "width", "height", "score")
    rows = read_number_rows(Path(path), columns, max_bytes=max_bytes)
    indices = rows.indices(0, 1, len(ground_truths.image_ids), "the image index")
    return detection_file(indices, rows.boxes(1), rows.values[:, 5], len(ground_truths.image_ids))


def detection_file(
    indices: NDArray[np.int64],
    boxes: Floats,
    scores: Floats,
    num_images: int,
    *,
    with_order: bool = False,
) -> DetectionFile:
    """Detections of one class out of columns.

    Args:
        indices: [N] the image of each.
        boxes: [N, 4] x, y, width, height.
        scores: [N].
        num_images: how many images there are.
        with_order: add ``order``, by image and row, where ids do not sort as the images come.
    """
    columns: dict[str, NDArray[Any]] = {
        "boxes": np.ascontiguousarray(boxes),
        "scores": scores,
        "labels": np.zeros(len(indices), np.int64),
    }
    if with_order:
        columns["order"] = np.argsort(np.argsort(indices, kind="stable"))
    return DetectionFile(
        predictions=split_by_image(indices, num_images, columns),
        num_detections=(len(indices),),
    )
