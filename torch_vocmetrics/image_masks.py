"""Masks of the objects of one image: packed bits, or run lengths as they came."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import overload

import numpy as np
import torch
from torch import Tensor

from .ops import rle
from .ops.masks import mask_areas
from .ops.run_lengths import pixel_counts
from .transfer import to_device


class BitMasks:
    """N masks as bits.

    Attributes:
        size: height and width.
        words: [N, H, ceil(W / 64)] int64, see :mod:`ops.masks`.
        has_nan: [N] bool, whether the probabilities behind a mask have a NaN; None if none has.
    """

    def __init__(
        self,
        size: tuple[int, int],
        words: Tensor,
        has_nan: Tensor | None = None,
        areas: Tensor | None = None,
    ) -> None:
        self.size, self.words, self.has_nan = size, words, has_nan
        if areas is not None:
            self.areas = areas

    def __len__(self) -> int:
        return int(self.words.shape[0])

    def where(self, keep: Tensor) -> BitMasks:
        """The masks where ``keep`` [N] bool, on the host, is set."""
        rows = keep.nonzero().squeeze(1).to(self.words.device)
        nan = None if self.has_nan is None else self.has_nan.index_select(0, rows)
        areas = vars(self).get("areas")  # if they are known
        areas = None if areas is None else areas.index_select(0, rows)
        return BitMasks(self.size, self.words.index_select(0, rows), nan, areas)

    @property
    def num_bytes(self) -> int:
        """Memory of the bits."""
        return 8 * self.words.numel()

    @cached_property
    def areas(self) -> Tensor:
        """[N] int64 pixels."""
        return mask_areas(self.words)

    def without_bits(self) -> BitMasks:
        """The same masks of which only the areas are kept."""
        return BitMasks(self.size, self.words.new_empty((len(self), 0, 0)), None, self.areas)


class RleMasks(Sequence[rle.Rle]):
    """N masks as COCO's compressed run lengths, checked, on the host; they cannot be changed.

    Attributes:
        size: height and width.
        texts: the run lengths of each.
    """

    def __init__(
        self, size: tuple[int, int], texts: Sequence[bytes], areas: Tensor | None = None
    ) -> None:
        self.size, self.texts = size, tuple(texts)
        if areas is not None:
            self.areas = areas

    def __len__(self) -> int:
        return len(self.texts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and [*self] == [*other]

    __hash__ = None  # type: ignore[assignment]

    @overload
    def __getitem__(self, index: int) -> rle.Rle: ...

    @overload
    def __getitem__(self, index: slice) -> list[rle.Rle]: ...

    def __getitem__(self, index: int | slice) -> rle.Rle | list[rle.Rle]:
        """The run lengths of a mask as pycocotools takes them."""
        if isinstance(index, slice):
            return [self._rle(text) for text in self.texts[index]]
        return self._rle(self.texts[index])

    def _rle(self, text: bytes) -> rle.Rle:
        return {"size": [*self.size], "counts": text}

    def as_arguments(self) -> list[rle.Rle]:
        """All of them for pycocotools; they hold nothing that the garbage collector looks at."""
        return [{"size": self.size, "counts": text} for text in self.texts]

    def where(self, keep: Tensor) -> RleMasks:
        """The masks where ``keep`` [N] bool, on the host, is set."""
        chosen = [one for one, kept in zip(self.texts, keep.tolist(), strict=True) if kept]
        return RleMasks(self.size, chosen)

    @property
    def num_bytes(self) -> int:
        """Memory of the run lengths."""
        return sum(map(len, self.texts))

    @cached_property
    def areas(self) -> Tensor:
        """[N] int64 pixels."""
        pixels = np.full(len(self), self.size[0] * self.size[1])
        return torch.from_numpy(pixel_counts(self.texts, pixels))

    def decoded(self) -> BitMasks:
        """The same masks as bits."""
        return BitMasks(self.size, rle.decode(self.as_arguments(), *self.size))


ImageMasks = BitMasks | RleMasks


def masks_on(masks: Sequence[ImageMasks], device: torch.device) -> tuple[ImageMasks, ...]:
    """The same masks, bits and their areas on the device, all in one copy."""
    moved = [one for one in masks if isinstance(one, BitMasks) and one.words.device != device]
    columns = to_device([column for one in moved for column in (one.words, one.areas)], device)
    placed = {
        id(one): BitMasks(one.size, words, one.has_nan, areas)
        for one, words, areas in zip(moved, columns[::2], columns[1::2], strict=True)
    }
    return tuple(placed.get(id(one), one) for one in masks)


def areas_of(masks: tuple[ImageMasks, ...], device: torch.device) -> Tensor:
    """[N] float64: pixels of the masks of all images, on ``device``."""
    areas = [one.areas.to(device) for one in masks if len(one)]
    none = torch.zeros(0, dtype=torch.int64, device=device)
    return torch.cat([none, *areas]).to(torch.float64)
