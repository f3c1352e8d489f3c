"""Values that no metric can take: found on the device by one fused check, explained on the host."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .errors import InputError
from .ragged import Detections, GroundTruths

FAULTS = (
    "the box is not finite",
    "the box is inverted",
    "the score is not finite",
    "the label is unknown",
    "the area is negative or infinite",
)
NO_FAULT = -1
UNKNOWN_LABEL = -(2**62)
"""Added to a label that stands for no class, so that it is negative and can still be named."""


def first_fault(rows: Detections | GroundTruths, *, inverted_boxes: bool) -> Tensor:
    """0-d int64: ``row * len(FAULTS) + kind`` of the first row at fault, or -1; waits for nothing.

    Args:
        rows: packed rows of one side.
        inverted_boxes: whether boxes of negative width or height are taken.
    """
    boxes, labels = rows.boxes, rows.labels
    none = torch.full((), NO_FAULT, dtype=torch.int64, device=boxes.device)
    if boxes.shape[0] == 0:
        return none
    sides = boxes[:, 2:] - boxes[:, :2] if rows.box_format == "xyxy" else boxes[:, 2:]
    fine = torch.zeros_like(labels, dtype=torch.bool)
    bad_score = ~torch.isfinite(rows.scores) if isinstance(rows, Detections) else fine
    bad_area = fine
    if isinstance(rows, GroundTruths):  # NaN stands for the box's own area
        bad_area = (rows.area < 0) | torch.isinf(rows.area)
    inverted = fine if inverted_boxes else (sides < 0).any(dim=1)
    found = [~torch.isfinite(boxes).all(dim=1), inverted, bad_score, labels < 0, bad_area]
    faults = torch.stack(found, dim=1).flatten()
    return torch.where(faults.any(), faults.to(torch.uint8).argmax(), none)


def explain(
    fault: Tensor,
    rows: Detections | GroundTruths,
    side: str,
    image_ids: Sequence[object] | None,
    images_before: int,
) -> InputError | None:
    """The error that :func:`first_fault` found, or None; reads the device."""
    code = int(fault)
    if code == NO_FAULT:
        return None
    packed, kind = divmod(code, len(FAULTS))
    image, row = 0, packed
    while row >= rows.counts[image]:
        row -= rows.counts[image]
        image += 1
    got, remedy = _details(kind, rows, packed)
    name = ""
    if image_ids is not None:
        shown = image_ids[image]
        name = f" (image_id {int(shown) if isinstance(shown, Tensor) else shown!r})"
    where = f"{side} {images_before + image}{name}, row {row}"
    return InputError(FAULTS[kind], where=where, got=got, remedy=remedy)


def _details(kind: int, rows: Detections | GroundTruths, row: int) -> tuple[object, str]:
    """What was found at a packed row, and what to do."""
    if kind == 0:
        return rows.boxes[row].tolist(), "check the model's output"
    if kind == 1:
        right = f"boxes must be {rows.box_format}, the far corner not before the near one"
        return rows.boxes[row].tolist(), right
    if kind == 3:
        label = int(rows.labels[row]) - UNKNOWN_LABEL
        return (
            label,
            "labels must be 0 .. num_classes - 1, or among label_ids where those are given",
        )
    if isinstance(rows, Detections):
        return rows.scores[row].item(), "scores must be finite"
    return rows.area[row].item(), "give square pixels"
