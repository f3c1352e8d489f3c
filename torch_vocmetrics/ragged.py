"""Packed rows of many images: flat tensors and how many rows each image has."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, pairwise
from operator import add
from typing import Any, Self

import torch
from torch import Tensor

from .image_masks import ImageMasks
from .transfer import from_host, to_device

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
        masks: those of each image, or None where no protocol needs them; already in place.
    """

    counts: tuple[int, ...]
    boxes: Tensor
    scores: Tensor
    labels: Tensor
    order: Tensor | None
    box_format: str
    masks: tuple[ImageMasks, ...] | None = None

    def to(self, device: torch.device) -> Self:
        """The same rows on a device; from the host to CUDA in one copy that does not wait."""
        columns = [self.boxes, self.scores, self.labels]
        if self.order is not None:
            columns.append(self.order)
        if all(column.device == device for column in columns):
            return self
        boxes, scores, labels, *order = to_device(columns, device)
        return replace(
            self, boxes=boxes, scores=scores, labels=labels, order=order[0] if order else None
        )

    def images(self, part: slice) -> Self:
        """The rows of some images, one after the other; no copies."""
        rows = _rows_of(self.counts, part)
        return replace(
            self,
            counts=self.counts[part],
            boxes=self.boxes[rows],
            scores=self.scores[rows],
            labels=self.labels[rows],
            order=None if self.order is None else self.order[rows],
            masks=None if self.masks is None else self.masks[part],
        )

    @classmethod
    def cat(cls, parts: Sequence[Self]) -> Self:
        """One after the other; all parts with rows must have ``order`` or none."""
        if len(parts) == 1:
            return parts[0]
        orders = [part.order for part in parts if part.order is not None]
        return cls(
            tuple(count for part in parts for count in part.counts),
            torch.cat([part.boxes for part in parts]),
            torch.cat([part.scores for part in parts]),
            torch.cat([part.labels for part in parts]),
            torch.cat(orders) if orders else None,
            parts[0].box_format,
            _cat_masks(parts),
        )


@dataclass(frozen=True, eq=False)
class GroundTruths:
    """Objects of B images.

    Attributes:
        counts: rows of each image, known on the host.
        boxes: [M, 4] floating point, in ``box_format``.
        labels: [M] int64 class indices.
        flags: [M] uint8, bit i set where the flag ``protocols.FLAGS[i]`` is.
        area: [M] float64, NaN where the area of the mask, or else of the box, is meant.
        visible_boxes: [M, 4] in ``box_format``, NaN where not given; or None.
        visibility: [M] visible fraction, NaN where not given; or None.
        occlusion: [M] int64 level, 0 where not given; or None.
        masks: those of each image, or None where no protocol needs them; already in place.
    """

    counts: tuple[int, ...]
    boxes: Tensor
    labels: Tensor
    flags: Tensor
    area: Tensor
    box_format: str
    visible_boxes: Tensor | None = None
    visibility: Tensor | None = None
    occlusion: Tensor | None = None
    masks: tuple[ImageMasks, ...] | None = None

    def to(self, device: torch.device) -> Self:
        """The same rows on a device; from the host to CUDA in one copy that does not wait."""
        columns = [self.boxes, self.labels, self.flags, self.area]
        more = [name for name in OPTIONAL_COLUMNS if getattr(self, name) is not None]
        columns += [getattr(self, name) for name in more]
        if all(column.device == device for column in columns):
            return self
        boxes, labels, flags, area, *rest = to_device(columns, device)
        optional: dict[str, Any] = dict(zip(more, rest, strict=True))
        return replace(self, boxes=boxes, labels=labels, flags=flags, area=area, **optional)

    def images(self, part: slice) -> Self:
        """The rows of some images, one after the other; no copies."""
        rows = _rows_of(self.counts, part)
        given = [name for name in OPTIONAL_COLUMNS if getattr(self, name) is not None]
        optional: dict[str, Any] = {name: getattr(self, name)[rows] for name in given}
        return replace(
            self,
            counts=self.counts[part],
            boxes=self.boxes[rows],
            labels=self.labels[rows],
            flags=self.flags[rows],
            area=self.area[rows],
            masks=None if self.masks is None else self.masks[part],
            **optional,
        )

    @classmethod
    def cat(cls, parts: Sequence[Self]) -> Self:
        """One after the other."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            tuple(count for part in parts for count in part.counts),
            torch.cat([part.boxes for part in parts]),
            torch.cat([part.labels for part in parts]),
            torch.cat([part.flags for part in parts]),
            torch.cat([part.area for part in parts]),
            parts[0].box_format,
            **{name: _cat_optional(parts, name) for name in OPTIONAL_COLUMNS},
            masks=_cat_masks(parts),
        )


OPTIONAL_COLUMNS = ("visible_boxes", "visibility", "occlusion")


def _cat_optional(parts: Sequence[GroundTruths], name: str) -> Tensor | None:
    """One after the other; parts without the column get NaN or 0; None if all are without."""
    columns = [getattr(part, name) for part in parts]
    given = next((column for column in columns if column is not None), None)
    if given is None:
        return None
    missing = torch.nan if given.is_floating_point() else 0
    return torch.cat(
        [
            given.new_full((part.labels.shape[0], *given.shape[1:]), missing)
            if column is None
            else column
            for part, column in zip(parts, columns, strict=True)
        ]
    )


def _cat_masks(parts: Sequence[Detections | GroundTruths]) -> tuple[ImageMasks, ...] | None:
    """Masks of all images; None where no part has masks."""
    given = [part.masks for part in parts if part.masks is not None]
    return tuple(chain.from_iterable(given)) if given else None


def _rows_of(counts: Sequence[int], images: slice) -> slice:
    """The rows of images ``images.start`` .. ``images.stop``."""
    first = sum(counts[: images.start])
    return slice(first, first + sum(counts[images]))


def even_shares(first: Sequence[int], second: Sequence[int], parts: int) -> list[slice]:
    """Images, cut into at most ``parts`` runs of about as many rows of both kinds together."""
    before = list(accumulate(map(add, first, second), initial=0)) if parts > 1 else [0]
    cuts = [bisect_left(before, before[-1] * part / parts) for part in range(1, parts)]
    bounds = sorted({0, *cuts, len(first)})
    return [slice(first, end) for first, end in pairwise(bounds)]


def image_of_row(
    counts: Sequence[int], device: torch.device, dtype: torch.dtype = torch.int64
) -> Tensor:
    """[N] ``dtype``: the image of each row, for images of ``counts`` rows."""
    sizes = from_host(counts, torch.int64, device)
    images = torch.arange(len(counts), dtype=dtype, device=device)
    return torch.repeat_interleave(images, sizes, output_size=sum(counts))


def starts_of_images(counts: Sequence[int], device: torch.device) -> Tensor:
    """[B + 1] int64: the rows of image i are starts[i] .. starts[i + 1]."""
    return from_host([0, *accumulate(counts)], torch.int64, device)


def index_in_image(counts: Sequence[int], device: torch.device) -> Tensor:
    """[N] int64: the place of each row in its image."""
    rows = torch.arange(sum(counts), device=device)
    starts = starts_of_images(counts, device)
    return rows - starts.index_select(0, image_of_row(counts, device))
