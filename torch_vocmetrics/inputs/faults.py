"""Values that no metric can take: checked on their device, explained when the host may read.

A check is a bool for each row. On the host a few reductions show that all is well; elsewhere the
first fault and the values of its row are gathered on the device, and read at the next flush.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import InputError
from ..limits import MAX_BOX_COORDINATE, MAX_IMAGE_SIDE
from ..protocols import FLAGS
from ..ragged import Detections, GroundTruths
from .numbers import WRONG_FLAG, on_host

NO_FAULT = -1
WIDTH = 15
"""Numbers that :class:`Suspect` keeps, whatever was checked."""

LABEL_LIMIT = 2**62
"""A label that stands for no class is moved below 0 by this, where it can still be named."""


class Check(NamedTuple):
    """What may be wrong with a row.

    Attributes:
        what, remedy: of the sentence.
        shows: the values that it names.
    """

    what: str
    remedy: str
    shows: str = ""


NOT_FINITE = Check("the box is not finite", "check the model's output", "box")
TOO_LARGE = Check(
    f"a coordinate of the box is beyond {MAX_BOX_COORDINATE:.1e}, the largest float32",
    "check the model's output",
    "box",
)
INVERTED = Check("the box is inverted", "the far corner must not be before the near one", "box")
NOT_FRACTIONS = Check(
    "the box is no fraction of the image, as box_format says",
    "leave out the 'n' of the format if boxes are pixels",
    "box",
)
BAD_SCORE = Check(
    "the score is NaN", "scores must be numbers; infinite scores rank first or last", "number"
)
BAD_LABEL = Check("the label is unknown", "", "label")
BAD_AREA = Check("the area is negative or infinite", "give square pixels", "number")
BAD_FLAG = Check("the flag is neither 0 nor 1", "convert with .bool()", "flag")
BAD_VISIBLE_BOX = Check(
    f"the visible box is inverted, not finite, or beyond {MAX_BOX_COORDINATE:.1e}",
    "leave it out or make it all NaN",
    "visible box",
)
BAD_VISIBILITY = Check(
    "the visibility is outside 0 .. 1", "give a fraction, or NaN for unknown", "visibility"
)
BAD_MASK = Check("a mask has NaN probabilities", "check the model's output")
BAD_SIZE = Check(
    f"the size is not (height, width) in whole pixels from 1 to {MAX_IMAGE_SIDE:,}",
    "give the size of the image",
    "size",
)

Found = list[tuple[Check, Tensor]]


class Subject(NamedTuple):
    """What was checked.

    Attributes:
        side: such as ``"prediction"``.
        counts: rows of each image; None where a row is an image.
        image_ids: of the images, if they have ids.
        box_format: of the boxes.
        num_labels: K where labels are 0 .. K-1; 0 where the user says which they are.
    """

    side: str
    counts: tuple[int, ...] | None
    image_ids: Sequence[object] | Tensor | None
    box_format: str = ""
    num_labels: int = 0

    def where(self, row: int, images_before: int) -> str:
        """The words for a row: its image, by number and id, and its number in the image."""
        image, shown_row = row, ""
        if self.counts is not None:
            image = 0
            while row >= self.counts[image]:
                row -= self.counts[image]
                image += 1
            shown_row = f", row {row}"
        name = ""
        if self.image_ids is not None:
            shown = self.image_ids[image]
            name = f" (image_id {int(shown) if isinstance(shown, Tensor) else shown!r})"
        return f"{self.side} {images_before + image}{name}{shown_row}"


class Suspect(NamedTuple):
    """The first row of one side that breaks a rule, still on its device.

    Attributes:
        details: [WIDTH] float64: a code (row * number of checks + check, or -1), then the values
            of that row.
        checks: what was checked, in the order of the code.
        places: where the values of each name are in ``details``.
        subject: whose rows were checked.
        images_before: added to the number of the image in the sentence.
    """

    details: Tensor
    checks: tuple[Check, ...]
    places: dict[str, slice]
    subject: Subject
    images_before: int = 0

    def error(self, details: list[float]) -> InputError | None:
        """The error that the details, read from the device, stand for; None if there is none."""
        if details[0] == NO_FAULT:
            return None
        row, fault = divmod(int(details[0]), len(self.checks))
        check, where = self.checks[fault], self.subject.where(row, self.images_before)
        values = details[self.places[check.shows]] if check.shows else []
        got: object = values[0] if len(values) == 1 else values or None
        remedy = check.remedy
        if check == INVERTED:
            remedy = f"boxes must be {self.subject.box_format}, {remedy}"
        elif check == BAD_LABEL:
            got = label = _label_of(*values)
            remedy = _label_remedy(label, self.subject.num_labels)
            if not -LABEL_LIMIT < label < LABEL_LIMIT - 1:
                got = "an absolute value of 2**62 or more, or a fraction"
        elif check == BAD_FLAG:
            bits, got = int(values[0]) // WRONG_FLAG, None
            where += f", key {next(key for bit, key in enumerate(FLAGS) if bits >> bit & 1)!r}"
        return InputError(check.what, where=where, got=got, remedy=remedy)

    def read(self) -> InputError | None:
        """The error, read from the device; None if there is none."""
        return self.error(self.details.tolist())


def _label_remedy(label: int, num_labels: int) -> str:
    """What labels must be; the first label too many is a sign that they begin at 1."""
    if not num_labels:
        return "labels must be among label_ids"
    allowed = f"labels are 0 .. {num_labels - 1}"
    if label != num_labels:
        return f"{allowed}, unless label_ids= says others"
    ids = str([1, 2][:num_labels]) if num_labels < 3 else f"[1, ..., {num_labels}]"
    return f"{allowed}; if yours are 1 .. {num_labels}, give label_ids={ids}"


def suspects_of_rows(
    rows: Detections | GroundTruths,
    side: str,
    image_ids: Sequence[object] | Tensor | None,
    num_labels: int,
    *,
    inverted_boxes: bool,
    doubtful: Collection[str] = ("labels", "flags", "area"),
) -> list[Suspect]:
    """Check the values of packed rows; waits for no device.

    Args:
        rows: of one side, on one device.
        side: such as ``"prediction"``.
        image_ids, num_labels: see :class:`Subject`.
        inverted_boxes: whether boxes of negative width or height are taken.
        doubtful: which of labels, flags and areas are not yet known to be sound.

    Returns:
        Nothing where it is plain that all is well.
    """
    if not rows.labels.shape[0] or (on_host(rows.boxes) and _sound(rows, inverted_boxes, doubtful)):
        return []
    values = {"box": rows.boxes, "label": _halves(rows.labels)}
    if isinstance(rows, Detections):
        found = _box_checks(rows, inverted_boxes)
        found += [(BAD_SCORE, rows.scores.isnan()), (BAD_LABEL, rows.labels < 0)]
        values["number"] = rows.scores
    else:
        found = _box_checks(rows, inverted_boxes)
        bad_area = (rows.area < 0) | torch.isinf(rows.area)  # NaN stands for the box's own area
        found += [(BAD_LABEL, rows.labels < 0), (BAD_AREA, bad_area)]
        found.append((BAD_FLAG, rows.flags >= WRONG_FLAG))
        values |= {"number": rows.area, "flag": rows.flags}
        if rows.visible_boxes is not None:
            found.append((BAD_VISIBLE_BOX, _bad_visible_boxes(rows.visible_boxes, rows.box_format)))
            values["visible box"] = rows.visible_boxes
        if rows.visibility is not None:
            found.append((BAD_VISIBILITY, _bad_visibility(rows.visibility)))
            values["visibility"] = rows.visibility
    subject = Subject(side, rows.counts, image_ids, rows.box_format, num_labels)
    return [suspect(found, values, subject)]


def suspect(found: Found, values: dict[str, Tensor], subject: Subject) -> Suspect:
    """Gather what a sentence about the first fault needs; waits for nothing.

    Args:
        found: checks, with [N] bool whether a row fails; N is at least 1.
        values: [N] or [N, k] by name, which a sentence may show.
        subject: whose rows they are.
    """
    faults = torch.stack([failed for _, failed in found], dim=1).flatten()
    code = torch.where(faults.any(), faults.to(torch.uint8).argmax(), NO_FAULT).reshape(1)
    row = code.clamp(min=0).div(len(found), rounding_mode="floor")
    places, parts, end = {}, [code.double()], 1
    for name, column in values.items():
        parts.append(column.index_select(0, row).double().flatten())
        width = column.shape[1] if column.dim() > 1 else 1
        places[name] = slice(end, end + width)
        end += width
    parts.append(parts[0].new_zeros(WIDTH - end))
    checks = tuple(check for check, _ in found)
    return Suspect(torch.cat(parts), checks, places, subject)


def _sound(
    rows: Detections | GroundTruths, inverted_boxes: bool, doubtful: Collection[str]
) -> bool:
    """Whether it is plain that no value of rows on the host is at fault, in few passes.

    A corner that is not finite makes an extent of xyxy infinite or NaN, and a number that is not
    finite makes a sum so. Huge numbers may do the same and leave it open.
    """
    # A batch has few rows, and a call of NumPy costs a third of a call of torch.
    boxes = np.ascontiguousarray(rows.boxes.numpy())
    wide = boxes.dtype == np.float64
    # A corner as one complex number: columns of numbers are subtracted faster than rows of pairs.
    corners: NDArray[Any] = boxes.view(np.complex128 if wide else np.complex64)
    with np.errstate(over="ignore", invalid="ignore"):  # of numbers that are not finite
        extent = corners[:, 1] - corners[:, 0] if rows.box_format == "xyxy" else corners[:, 1]
        total = complex(np.add.reduce(extent if rows.box_format == "xyxy" else corners, axis=None))
        if isinstance(rows, Detections):
            total += float(np.add.reduce(rows.scores.numpy()))
    if not cmath.isfinite(total):
        return False
    if not inverted_boxes and np.minimum.reduce(_parts(extent)) < 0:
        return False
    if wide and np.abs(boxes).max() > MAX_BOX_COORDINATE:
        return False
    if "labels" in doubtful and np.minimum.reduce(rows.labels.numpy()) < 0:
        return False
    if isinstance(rows, Detections):
        return True
    if "area" in doubtful and not _sound_areas(rows.area.numpy()):
        return False
    if "flags" in doubtful and np.maximum.reduce(rows.flags.numpy()) >= WRONG_FLAG:
        return False
    visible, fraction = rows.visible_boxes, rows.visibility
    if visible is not None and bool(_bad_visible_boxes(visible, rows.box_format).any()):
        return False
    return fraction is None or not bool(_bad_visibility(fraction).any())


def _parts(numbers: NDArray[Any]) -> NDArray[Any]:
    """[2 N]: the real and the imaginary parts of [N] complex numbers."""
    return np.ascontiguousarray(numbers).view(numbers.real.dtype)


def _sound_areas(area: NDArray[Any]) -> bool:
    """Whether all areas [M] may be taken; NaN stands for the box's own area."""
    lowest, highest = np.minimum.reduce(area), np.maximum.reduce(area)
    if math.isnan(lowest):
        lowest, highest = np.fmin.reduce(area), np.fmax.reduce(area)
    return not (lowest < 0 or highest == math.inf)


def _box_checks(rows: Detections | GroundTruths, inverted_boxes: bool) -> Found:
    found = [(NOT_FINITE, ~torch.isfinite(rows.boxes).all(dim=1))]
    if rows.boxes.dtype == torch.float64:
        found.append((TOO_LARGE, (rows.boxes.abs() > MAX_BOX_COORDINATE).any(dim=1)))
    if not inverted_boxes:
        found.append((INVERTED, (_extent(rows.boxes, rows.box_format) < 0).any(dim=1)))
    return found


def _extent(boxes: Tensor, box_format: str) -> Tensor:
    """[N, 2] widths and heights."""
    far = boxes[:, 2:]
    return far - boxes[:, :2] if box_format == "xyxy" else far


def _bad_visible_boxes(boxes: Tensor, box_format: str) -> Tensor:
    """[N] bool; a box that is all NaN is not given."""
    sound = (boxes.abs() <= MAX_BOX_COORDINATE).all(dim=1)
    sound &= (_extent(boxes, box_format) >= 0).all(dim=1)
    return ~(sound | boxes.isnan().all(dim=1))


def _bad_visibility(fraction: Tensor) -> Tensor:
    """[N] bool; NaN is not given."""
    return (fraction < 0) | (fraction > 1)


def unknown_label(labels: Tensor) -> Tensor:
    """What stands for labels of no class: negative, and the label can still be told from it."""
    return labels.clamp(-LABEL_LIMIT, LABEL_LIMIT - 1) - LABEL_LIMIT


def _halves(labels: Tensor) -> Tensor:
    """[N, 2] high and low 32 bits of each label, since float64 does not hold every int64."""
    return torch.stack([labels >> 32, labels & 0xFFFFFFFF], dim=1)


def _label_of(high: float, low: float) -> int:
    """The label that :func:`unknown_label` moved, out of its halves."""
    return (int(high) << 32) + int(low) + LABEL_LIMIT
