"""Lanes: each pair of a subset (area range) and an IoU threshold is one bit of an int64 word.

All lanes are matched in one pass; 63 of them fit a word, so that words are never negative. Columns
of bits are [N, words].
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..protocols import FLAGS, DetectionProtocol

BITS = 63


@dataclass(frozen=True)
class Lanes:
    """Which lane stands for which (area range, threshold); area ranges vary slowest.

    Attributes:
        num_areas, num_thresholds: their product is the number of lanes.
    """

    num_areas: int
    num_thresholds: int

    @classmethod
    def of(cls, protocol: DetectionProtocol) -> Lanes:
        """The lanes of a protocol."""
        return cls(len(protocol.area_ranges), len(protocol.iou_thresholds))

    @property
    def words(self) -> int:
        """Words that hold all lanes."""
        return -(-self.num_areas * self.num_thresholds // BITS)

    def place(self, area: int, threshold: int) -> tuple[int, int]:
        """Word and bit of a lane."""
        return divmod(area * self.num_thresholds + threshold, BITS)

    def mask(self, lanes: list[tuple[int, int]]) -> list[int]:
        """Words with the bits of the given (area, threshold) lanes set."""
        words = [0] * self.words
        for area, threshold in lanes:
            word, bit = self.place(area, threshold)
            words[word] |= 1 << bit
        return words

    def area_bits(self, area: int) -> list[int]:
        """Words with all lanes of an area range."""
        return self.mask([(area, threshold) for threshold in range(self.num_thresholds)])

    def threshold_bits(self) -> list[list[int]]:
        """Entry n: words with the lanes of the n lowest thresholds, n = 0 .. num_thresholds."""
        areas = range(self.num_areas)
        return [
            self.mask([(area, threshold) for area in areas for threshold in range(n)])
            for n in range(self.num_thresholds + 1)
        ]


def column(bits: Tensor, place: tuple[int, int]) -> Tensor:
    """[N] bool: one lane of ``bits`` [N, words]."""
    word, bit = place
    return (bits[:, word] >> bit) & 1 == 1


def has_flag(flags: Tensor, names: tuple[str, ...]) -> Tensor:
    """[M] bool: objects with any of the named flags."""
    wanted = sum(1 << FLAGS.index(name) for name in names)
    return flags & wanted != 0


def in_range_bits(area: Tensor, protocol: DetectionProtocol, lanes: Lanes) -> Tensor:
    """[N, words] int64: the lanes whose closed area range holds ``area`` [N]."""
    bits = torch.zeros((area.shape[0], lanes.words), dtype=torch.int64, device=area.device)
    for number, limits in enumerate(protocol.area_ranges):
        inside = (area >= limits.lower) & (area <= limits.upper)
        words = torch.tensor(lanes.area_bits(number), device=area.device)
        bits = bits | torch.where(inside.unsqueeze(1), words, 0)
    return bits


def passing_bits(overlap: Tensor, protocol: DetectionProtocol, lanes: Lanes) -> Tensor:
    """[P, words] int64: the lanes whose threshold ``overlap`` [P] float64 reaches."""
    thresholds = torch.tensor(protocol.thresholds, dtype=torch.float64, device=overlap.device)
    # right=True counts the thresholds <= overlap, right=False those < overlap.
    reached = torch.searchsorted(thresholds, overlap, right=protocol.comparison == ">=")
    table = torch.tensor(lanes.threshold_bits(), device=overlap.device)
    return table.index_select(0, reached)
