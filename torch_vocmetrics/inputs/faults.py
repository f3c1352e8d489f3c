"""Values that no metric can take: found on the device by one fused check, explained on the host."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..errors import InputError
from ..ragged import Detections, GroundTruths

FAULTS = (
    "the box is not finite",
    "the box is inverted",
    "the score is NaN",
    "the label is unknown",
    "the area is negative or infinite",
)
NO_FAULT = -1
UNKNOWN_LABEL = -(2**62)
"""Added to a label that stands for no class, so that it is negative and can still be named."""


def first_fault(
    rows: Detections | GroundTruths, *, inverted_boxes: bool, labels_known: bool = False
) -> Tensor | None:
    """0-d int64: ``row * len(FAULTS) + kind`` of the first row at fault, or -1; waits for nothing.

    Args:
        rows: packed rows of one side.
        inverted_boxes: whether boxes of negative width or height are taken.
        labels_known: whether the labels have been checked before.

    Returns:
        None where the host has seen at once that no value is at fault.
    """
    boxes, labels = rows.boxes, rows.labels
    if boxes.shape[0] == 0 or (on_host(boxes) and _sound(rows, inverted_boxes, labels_known)):
        return None
    none = torch.full((), NO_FAULT, dtype=torch.int64, device=boxes.device)
    fine = torch.zeros_like(labels, dtype=torch.bool)
    bad_score = rows.scores.isnan() if isinstance(rows, Detections) else fine
    bad_area = fine
    if isinstance(rows, GroundTruths):  # NaN stands for the box's own area
        bad_area = (rows.area < 0) | torch.isinf(rows.area)
    inverted = fine if inverted_boxes else (_extent(rows) < 0).any(dim=1)
    found = [~torch.isfinite(boxes).all(dim=1), inverted, bad_score, labels < 0, bad_area]
    faults = torch.stack(found, dim=1).flatten()
    return torch.where(faults.any(), faults.to(torch.uint8).argmax(), none)


def on_host(values: Tensor) -> bool:
    """Whether values can be read at once; fake tensors, which have none, are of another type."""
    return values.device.type == "cpu" and type(values) is Tensor


def _sound(rows: Detections | GroundTruths, inverted_boxes: bool, labels_known: bool) -> bool:
    """Whether it is plain that no value is at fault, in few passes; reads the device.

    A corner that is not finite makes an extent of xyxy infinite or NaN, and a number that is not
    finite makes a sum so. Huge numbers may do the same and leave it open.
    """
    lowest, highest = (end.item() for end in torch.aminmax(_extent(rows)))
    if not (math.isfinite(lowest) and math.isfinite(highest)) or (
        lowest < 0 and not inverted_boxes
    ):
        return False
    if rows.box_format != "xyxy" and not math.isfinite(rows.boxes.sum().item()):
        return False
    if isinstance(rows, Detections):
        sound = math.isfinite(rows.scores.sum().item())
    else:
        lowest, highest = (end.item() for end in torch.aminmax(rows.area))
        if math.isnan(lowest):  # stands for the box's own area
            lowest = rows.area.nan_to_num(0.0, posinf=-1.0).min().item()
        sound = lowest >= 0 and highest != math.inf
    return sound and (labels_known or rows.labels.min().item() >= 0)


def _extent(rows: Detections | GroundTruths) -> Tensor:
    """[N, 2] widths and heights."""
    far = rows.boxes[:, 2:]
    return far - rows.boxes[:, :2] if rows.box_format == "xyxy" else far


class Suspect(NamedTuple):
    """What :func:`first_fault` found and where, still on its device.

    Attributes:
        details: [7] float64: the code, the box, score or area, label of the row at fault.
        kind: ``"prediction"`` or ``"target"``.
        counts, box_format, image_ids: of the rows that were checked.
        images_before: added to the number of the image in the sentence.
        num_labels: K where labels are 0 .. K-1; 0 where the user says which they are.
    """

    details: Tensor
    kind: str
    counts: tuple[int, ...]
    box_format: str
    image_ids: Sequence[object] | None
    images_before: int
    num_labels: int

    def error(self, details: list[float]) -> InputError | None:
        """The error that the details, read from the device, stand for; None if there is none."""
        if details[0] == NO_FAULT:
            return None
        row, fault = divmod(int(details[0]), len(FAULTS))
        image = 0
        while row >= self.counts[image]:
            row -= self.counts[image]
            image += 1
        name = ""
        if self.image_ids is not None:
            shown = self.image_ids[image]
            name = f" (image_id {int(shown) if isinstance(shown, Tensor) else shown!r})"
        where = f"{self.kind} {self.images_before + image}{name}, row {row}"
        number, label = details[5], int(details[6])
        got, remedy = (
            (details[1:5], "check the model's output"),
            (details[1:5], f"boxes must be {self.box_format}, the far corner not before the near"),
            (number, "scores must be numbers; infinite scores rank first or last"),
            (label, _label_remedy(label, self.num_labels)),
            (number, "give square pixels"),
        )[fault]
        return InputError(FAULTS[fault], where=where, got=got, remedy=remedy)


def _label_remedy(label: int, num_labels: int) -> str:
    """What labels must be; the first label too many is a sign that they begin at 1."""
    if not num_labels:
        return "labels must be among label_ids"
    allowed = f"labels are 0 .. {num_labels - 1}"
    if label != num_labels:
        return f"{allowed}, unless label_ids= says others"
    ids = str([1, 2][:num_labels]) if num_labels < 3 else f"[1, ..., {num_labels}]"
    return f"{allowed}; if yours are 1 .. {num_labels}, give label_ids={ids}"


def suspect(
    fault: Tensor,
    rows: Detections | GroundTruths,
    kind: str,
    image_ids: Sequence[object] | None,
    images_before: int,
    num_labels: int,
) -> Suspect:
    """Keep what a sentence about the fault needs, so that the rows can go; waits for nothing."""
    if rows.boxes.shape[0]:
        place = torch.clamp(fault, min=0).div(len(FAULTS), rounding_mode="floor").reshape(1)
        number = rows.scores if isinstance(rows, Detections) else rows.area
        columns = [
            fault.to(rows.boxes.device).double().reshape(1),
            rows.boxes.index_select(0, place.to(rows.boxes.device)).double().flatten(),
            number.index_select(0, place.to(number.device)).double(),
            (rows.labels.index_select(0, place.to(rows.labels.device)) - UNKNOWN_LABEL).double(),
        ]
        details = torch.cat(columns)
    else:
        details = torch.full((7,), float(NO_FAULT), dtype=torch.float64, device=rows.boxes.device)
    return Suspect(
        details, kind, rows.counts, rows.box_format, image_ids, images_before, num_labels
    )


def explain(
    fault: Tensor | None,
    rows: Detections | GroundTruths,
    kind: str,
    image_ids: Sequence[object] | None,
    images_before: int,
    num_labels: int,
) -> InputError | None:
    """The error that :func:`first_fault` found, or None; reads the device."""
    if fault is None or int(fault) == NO_FAULT:
        return None
    found = suspect(fault, rows, kind, image_ids, images_before, num_labels)
    return found.error(found.details.tolist())
