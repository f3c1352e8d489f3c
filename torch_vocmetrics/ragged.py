"""Packed rows of many images: flat tensors and how many rows each image has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Self

import torch
from torch import Tensor

from .transfer import to_device

BOX_FORMATS = ("xyxy", "xywh", "cxcywh")


@dataclass(frozen=True, eq=False)
class Detections:
    """Detections of B images.

    Attributes:
        counts: rows of each image, known on the host.
        boxes: [N, 4] floating point, in ``box_format``.
        scores: [N] floating point.
        labels: [N] int64 class indices.
        order: [N] int64 that breaks ties of score in place of the row, or None.
    """

    counts: tuple[int, ...]
    boxes: Tensor
    scores: Tensor
    labels: Tensor
    order: Tensor | None
    box_format: str

    def to(self, device: torch.device) -> Self:
        """The same rows on a device; from the host to CUDA in one copy that does not wait."""
        columns = [self.boxes, self.scores, self.labels]
        if self.order is not None:
            columns.append(self.order)
        boxes, scores, labels, *order = to_device(columns, device)
        return replace(
            self, boxes=boxes, scores=scores, labels=labels, order=order[0] if order else None
        )

    @classmethod
    def cat(cls, parts: Sequence[Self]) -> Self:
        """One after the other; all parts with rows must have ``order`` or none."""
        orders = [part.order for part in parts if part.order is not None]
        return cls(
            tuple(count for part in parts for count in part.counts),
            torch.cat([part.boxes for part in parts]),
            torch.cat([part.scores for part in parts]),
            torch.cat([part.labels for part in parts]),
            torch.cat(orders) if orders else None,
            parts[0].box_format,
        )


@dataclass(frozen=True, eq=False)
class GroundTruths:
    """Objects of B images.

    Attributes:
        counts: rows of each image, known on the host.
        boxes: [M, 4] floating point, in ``box_format``.
        labels: [M] int64 class indices.
        flags: [M] uint8, bit i set where the flag ``protocols.FLAGS[i]`` is.
        area: [M] float64, NaN where the box's own area is meant.
    """

    counts: tuple[int, ...]
    boxes: Tensor
    labels: Tensor
    flags: Tensor
    area: Tensor
    box_format: str

    def to(self, device: torch.device) -> Self:
        """The same rows on a device; from the host to CUDA in one copy that does not wait."""
        columns = [self.boxes, self.labels, self.flags, self.area]
        boxes, labels, flags, area = to_device(columns, device)
        return replace(self, boxes=boxes, labels=labels, flags=flags, area=area)

    @classmethod
    def cat(cls, parts: Sequence[Self]) -> Self:
        """One after the other."""
        return cls(
            tuple(count for part in parts for count in part.counts),
            torch.cat([part.boxes for part in parts]),
            torch.cat([part.labels for part in parts]),
            torch.cat([part.flags for part in parts]),
            torch.cat([part.area for part in parts]),
            parts[0].box_format,
        )


def image_of_row(counts: Sequence[int], device: torch.device) -> Tensor:
    """[N] int64: the image of each row, for images of ``counts`` rows."""
    sizes = torch.tensor(counts, dtype=torch.int64, device=device)
    images = torch.arange(len(counts), device=device)
    return torch.repeat_interleave(images, sizes, output_size=sum(counts))


def index_in_image(counts: Sequence[int], device: torch.device) -> Tensor:
    """[N] int64: the place of each row in its image."""
    starts = torch.tensor([0, *accumulate(counts)][:-1], dtype=torch.int64, device=device)
    rows = torch.arange(sum(counts), device=device)
    return rows - starts.index_select(0, image_of_row(counts, device))
