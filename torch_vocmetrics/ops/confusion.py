"""Counts of label pairs, pixel by pixel, without a look at the values beforehand.

A label is translated to an index by a table. On the CPU pairs of bytes are counted as they are and
the table is applied to the 65,536 counts; elsewhere every pixel is looked up and counted by
``scatter_add_``. Nothing depends on data, so nothing waits for a device.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

BYTES = 256
PIXELS_AT_ONCE = 2**22
"""Pixels that are looked up at once, so that 64-bit indices take 32 MiB whatever the images are."""


MOST_COPIES = 32
MOST_CELLS = 2**15
"""Copies of the counts of an image, and their cells altogether, where a device counts."""


class LabelTable(NamedTuple):
    """Index of every label, ``unknown`` for all that are not listed.

    Attributes:
        lowest: the label that the second entry stands for; the first is for all labels below.
        indices: [L] int64; the last entry is for all labels above.
        size: the number of indices, those of unknown labels included.
    """

    lowest: int
    indices: Tensor
    size: int

    @classmethod
    def of(cls, known: Mapping[int, int], unknown: int) -> LabelTable:
        """The table that maps ``known`` labels to their index and all others to ``unknown``."""
        lowest, highest = min(known), max(known)
        entries = [unknown] * (highest - lowest + 3)
        for label, index in known.items():
            entries[label - lowest + 1] = index
        return cls(lowest, torch.tensor(entries, device="cpu"), max(unknown, *entries) + 1)

    def look_up(self, labels: Tensor) -> Tensor:
        """Index of each of ``labels``, integers of any type on the device of the table."""
        if labels.dtype != torch.int64:
            narrow = labels.dtype in (
                torch.uint8,
                torch.int8,
                torch.int16,
                torch.uint16,
                torch.bool,
            )
            labels = labels.to(torch.int32 if narrow else torch.int64)
        position = labels.clamp(self.lowest - 1, self.lowest + self.indices.shape[0] - 2)
        position = position - (self.lowest - 1)
        return self.indices.index_select(0, position.reshape(-1)).reshape(labels.shape)

    def of_bytes(self) -> Tensor:
        """[256] int64: index of the labels 0 .. 255."""
        return self.look_up(torch.arange(BYTES, device=self.indices.device))

    def to(self, device: torch.device) -> LabelTable:
        """The same table on another device."""
        return self._replace(indices=self.indices.to(device))


def count_pairs(truth: Tensor, predicted: Tensor, rows: LabelTable, columns: LabelTable) -> Tensor:
    """How often each pair of indices occurs in each image.

    Args:
        truth, predicted: [B, H, W] integers, on the device of the tables.
        rows, columns: tables of R and C indices for ``truth`` and ``predicted``.

    Returns:
        [B, R, C] int64.
    """
    if truth.device.type == "cpu":
        first, second = as_bytes(truth), as_bytes(predicted)
        if first is not None and second is not None:
            return _count_bytes(first, second, rows, columns)
    cells = rows.size * columns.size
    # Neighbouring pixels are counted apart, since a device adds to one cell one after the other.
    copies = max(1, min(MOST_COPIES, MOST_CELLS // cells))
    shape = (truth.shape[0], cells * copies)
    counts = torch.zeros(shape, dtype=torch.int64, device=truth.device)
    one = torch.ones((1, 1), dtype=torch.int64, device=truth.device)
    pixels = max(truth[:1].numel(), 1)
    images = max(PIXELS_AT_ONCE // pixels, 1)
    for start in range(0, truth.shape[0], images):
        part = slice(start, start + images)
        for piece, other in zip(
            torch.split(truth[part].flatten(1), PIXELS_AT_ONCE, 1),
            torch.split(predicted[part].flatten(1), PIXELS_AT_ONCE, 1),
            strict=True,
        ):
            cell = rows.look_up(piece) * columns.size + columns.look_up(other)
            if copies > 1:
                cell = cell * copies + torch.arange(cell.shape[1], device=cell.device) % copies
            counts[part].scatter_add_(1, cell, one.expand_as(cell))
    return counts.reshape(-1, rows.size, columns.size, copies).sum(3)


def as_bytes(labels: Tensor) -> Tensor | None:
    """Integers on the CPU as uint8; None if some do not fit."""
    if labels.dtype in (torch.uint8, torch.bool):
        return labels.view(torch.uint8)
    if labels.numel() == 0:
        return labels.to(torch.uint8)
    if labels.dtype in (torch.uint16, torch.uint32, torch.uint64):
        labels = labels.to(torch.int64)
    lowest, highest = torch.aminmax(labels)
    fits = int(lowest) >= 0 and int(highest) < BYTES
    return labels.to(torch.uint8) if fits else None


def _count_bytes(truth: Tensor, predicted: Tensor, rows: LabelTable, columns: LabelTable) -> Tensor:
    row, column = rows.of_bytes(), columns.of_bytes()
    shape = (truth.shape[0], rows.size, columns.size)
    counts = torch.zeros(shape, dtype=torch.int64, device="cpu")
    # With predictions below 128 a pair fits 16 bits, and the bins fit the cache (measured: half).
    short = not predicted.numel() or int(predicted.max()) < BYTES // 2
    width, kind = (BYTES // 2, torch.int16) if short else (BYTES, torch.int32)
    for image, (first, second) in enumerate(zip(truth, predicted, strict=True)):
        pair = torch.add(second, first.to(kind), alpha=width).reshape(-1)
        raw = torch.bincount(pair, minlength=BYTES * width).reshape(BYTES, width)
        by_row = raw.new_zeros((rows.size, width)).index_add_(0, row, raw)
        counts[image].index_add_(1, column[:width], by_row)
    return counts
