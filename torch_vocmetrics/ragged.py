"""Packed rows of many images: flat tensors and how many rows each image has."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain, pairwise
from operator import add
from typing import Any, Self, cast

import torch
from torch import Tensor

from .image_masks import ImageMasks, masks_on
from .ops.sums import sums_before
from .transfer import from_host, to_device

Ids = tuple[int | str, ...]
"""The ids of images, all int or all str."""

BOX_FORMATS = ("xyxy", "xywh", "cxcywh")


class _ImageRows:
    """What rows of images have in common: tensors with a row each, beside ``counts``, ``masks``."""

    counts: tuple[int, ...]
    masks: tuple[ImageMasks, ...] | None
    extra: Mapping[str, Tensor]

    def _columns(self) -> dict[str, Tensor]:
        """The tensors by name; those of ``extra`` have a point before their name."""
        columns = {name: one for name, one in vars(self).items() if isinstance(one, Tensor)}
        return columns | {f".{name}": one for name, one in self.extra.items()}

    @property
    def is_cpu(self) -> bool:
        """Whether all columns are on the CPU."""
        # A loop over all attributes, since this is asked for every batch.
        for value in vars(self).values():
            if isinstance(value, Tensor) and not value.is_cpu:
                return False
        return True

    def to(self, device: torch.device) -> Self:
        """The same rows on a device; from the host to CUDA in copies that do not wait."""
        if device.type == "cpu" and self.is_cpu:
            return self
        columns = self._columns()
        if all(column.device == device for column in columns.values()):
            return self
        masks = None if self.masks is None else masks_on(self.masks, device)
        moved = zip(columns, to_device([*columns.values()], device), strict=True)
        return self._with(moved, masks=masks)

    def with_masks(self, masks: tuple[ImageMasks, ...] | None) -> Self:
        """The same rows with other masks."""
        return self._with((), masks=masks)

    def images(self, part: slice) -> Self:
        """The rows of some images, one after the other; no copies."""
        first = sum(self.counts[: part.start])
        rows = slice(first, first + sum(self.counts[part]))
        return self._with(
            ((name, column[rows]) for name, column in self._columns().items()),
            counts=self.counts[part],
            masks=None if self.masks is None else self.masks[part],
        )

    def where(self, keep: Tensor) -> Self:
        """The rows where ``keep`` [N] bool is set, masks included; waits for the device."""
        kept = keep.nonzero().squeeze(1)
        parts = torch.split(keep.cpu(), list(self.counts))
        masks = self.masks
        if masks is not None:
            masks = tuple(one.where(part) for one, part in zip(masks, parts, strict=True))
        columns = self._columns().items()
        return self._with(
            ((name, column.index_select(0, kept)) for name, column in columns),
            counts=tuple(int(part.sum()) for part in parts),
            masks=masks,
        )

    def of_one_class(self) -> Self:
        """The same rows, all of class 0."""
        labels = self._columns()["labels"]
        return self._with([("labels", torch.zeros_like(labels))])

    def _with(self, columns: Iterable[tuple[str, Tensor]], **more: Any) -> Self:
        by_name = dict(columns)
        extra = {name: by_name.pop(f".{name}", one) for name, one in self.extra.items()}
        copy: Self = replace(cast(Any, self), **by_name, extra=extra, **more)
        return copy


@dataclass(frozen=True, eq=False)
class Detections(_ImageRows):
    """Detections of B images.

    Attributes:
        counts: rows of each image, known on the host.
        boxes: [N, 4] floating point, in ``box_format``.
        scores: [N] floating point.
        labels: [N] int64 class indices.
        order: [N] int64 that breaks ties of score in place of the row, or None.
        masks: those of each image, or None where no protocol needs them; already in place.
        extra: columns of keys that were registered from outside.
    """

    counts: tuple[int, ...]
    boxes: Tensor
    scores: Tensor
    labels: Tensor
    order: Tensor | None
    box_format: str
    masks: tuple[ImageMasks, ...] | None = None
    extra: Mapping[str, Tensor] = field(default_factory=dict)

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
            _cat_extra(parts),
        )


@dataclass(frozen=True, eq=False)
class GroundTruths(_ImageRows):
    """Objects of B images.

    Attributes:
        counts: rows of each image, known on the host.
        boxes: [M, 4] floating point, in ``box_format``.
        labels: [M] int64 class indices.
        flags: [M] uint8, bit i set where the flag ``protocols.FLAGS[i]`` is.
        area: [M] floating point, NaN where the area of the mask, or else of the box, is meant.
        visible_boxes: [M, 4] in ``box_format``, NaN where not given; or None.
        visibility: [M] visible fraction, NaN where not given; or None.
        occlusion: [M] int64 level, 0 where not given; or None.
        masks: those of each image, or None where no protocol needs them; already in place.
        extra: columns of keys that were registered from outside.
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
    extra: Mapping[str, Tensor] = field(default_factory=dict)

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
            extra=_cat_extra(parts),
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


def _cat_extra(parts: Sequence[Detections | GroundTruths]) -> dict[str, Tensor]:
    """Registered columns of all images, one part after the other."""
    names = [name for name in parts[0].extra if all(name in part.extra for part in parts)]
    return {name: torch.cat([part.extra[name] for part in parts]) for name in names}


def _cat_masks(parts: Sequence[Detections | GroundTruths]) -> tuple[ImageMasks, ...] | None:
    """Masks of all images; None where no part has masks."""
    given = [part.masks for part in parts if part.masks is not None]
    return tuple(chain.from_iterable(given)) if given else None


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
    return sums_before(from_host(counts, torch.int64, device))


def index_in_image(counts: Sequence[int], device: torch.device) -> Tensor:
    """[N] int64: the index of each row in its image."""
    rows = torch.arange(sum(counts), device=device)
    starts = starts_of_images(counts, device)
    return rows - starts.index_select(0, image_of_row(counts, device))
