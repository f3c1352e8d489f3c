"""Masks of the objects of one image: packed bits, or run lengths as they came."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from .ops import rle
from .ops.masks import mask_areas


class BitMasks:
    """N masks as bits.

    Attributes:
        size: height and width.
        words: [N, H, ceil(W / 64)] int64, see :mod:`ops.masks`.
        has_nan: [N] bool, whether the probabilities behind a mask have a NaN; None if none has.
    """

    def __init__(self, size: tuple[int, int], words: Tensor, has_nan: Tensor | None = None) -> None:
        self.size, self.words, self.has_nan = size, words, has_nan

    def __len__(self) -> int:
        return int(self.words.shape[0])

    def where(self, keep: Tensor) -> BitMasks:
        """The masks where ``keep`` [N] bool, on the host, is set."""
        rows = keep.nonzero().squeeze(1).to(self.words.device)
        nan = None if self.has_nan is None else self.has_nan.index_select(0, rows)
        return BitMasks(self.size, self.words.index_select(0, rows), nan)

    @property
    def num_bytes(self) -> int:
        """Memory of the bits."""
        return 8 * self.words.numel()

    @cached_property
    def areas(self) -> Tensor:
        """[N] int64 pixels."""
        return mask_areas(self.words)


class RleMasks:
    """N masks as COCO's compressed run lengths, on the host.

    Attributes:
        size: height and width.
        rles: N dicts of ``size`` and ``counts``.
    """

    def __init__(
        self, size: tuple[int, int], rles: list[rle.Rle], areas: Tensor | None = None
    ) -> None:
        self.size, self.rles = size, rles
        if areas is not None:
            self.areas = areas

    def __len__(self) -> int:
        return len(self.rles)

    def where(self, keep: Tensor) -> RleMasks:
        """The masks where ``keep`` [N] bool, on the host, is set."""
        chosen = [one for one, kept in zip(self.rles, keep.tolist(), strict=True) if kept]
        return RleMasks(self.size, chosen)

    @property
    def num_bytes(self) -> int:
        """Memory of the run lengths."""
        return sum(len(one["counts"]) for one in self.rles)

    @cached_property
    def areas(self) -> Tensor:
        """[N] int64 pixels."""
        return rle.areas(self.rles)

    def decoded(self) -> BitMasks:
        """The same masks as bits."""
        return BitMasks(self.size, rle.decode(self.rles, *self.size))


ImageMasks = BitMasks | RleMasks


def areas_of(masks: tuple[ImageMasks, ...], device: torch.device) -> Tensor:
    """[N] float64: pixels of the masks of all images, on ``device``."""
    areas = [one.areas.to(device) for one in masks if len(one)]
    none = torch.zeros(0, dtype=torch.int64, device=device)
    return torch.cat([none, *areas]).to(torch.float64)
