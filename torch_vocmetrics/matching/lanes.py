"""Lanes: each pair of a subset (area range) and an IoU threshold is one bit of an int64 word.

All lanes are matched in one pass; 63 of them fit a word, so that words are never negative. Columns
of bits are [N, words].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor

from ..protocols import FLAGS, DetectionProtocol, MissRateProtocol
from ..transfer import from_host

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
    def of(cls, protocol: DetectionProtocol | MissRateProtocol) -> Lanes:
        """The lanes of a protocol."""
        return cls(*protocol.lane_shape)

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

    def every(self) -> list[int]:
        """Words with all lanes."""
        areas, thresholds = range(self.num_areas), range(self.num_thresholds)
        return self.mask([(area, threshold) for area in areas for threshold in thresholds])

    def threshold_bits(self, threshold: int) -> list[int]:
        """Words with all lanes of a threshold."""
        return self.mask([(area, threshold) for area in range(self.num_areas)])


def column(bits: Tensor, place: tuple[int, int]) -> Tensor:
    """[N] bool: one lane of ``bits`` [N, words]."""
    word, bit = place
    return (bits[:, word] >> bit) & 1 == 1


def columns(bits: Tensor, places: Sequence[tuple[int, int]]) -> Tensor:
    """[L, N] bool: several lanes of ``bits`` [N, words]."""
    return torch.stack([column(bits, place) for place in places])


def has_flag(flags: Tensor, names: tuple[str, ...]) -> Tensor:
    """[M] bool: objects with any of the named flags."""
    wanted = sum(1 << FLAGS.index(name) for name in names)
    return flags & wanted != 0


def in_range_bits(area: Tensor, protocol: DetectionProtocol, lanes: Lanes) -> Tensor:
    """[N, words] int64: the lanes whose closed area range holds ``area`` [N]."""
    masks = [lanes.area_bits(number) for number in range(lanes.num_areas)]
    words = from_host(list(chain(*masks)), torch.int64, area.device).reshape(-1, lanes.words)
    bits = torch.zeros((area.shape[0], lanes.words), dtype=torch.int64, device=area.device)
    for limits, mask in zip(protocol.area_ranges, words, strict=True):
        inside = (area >= limits.lower) & (area <= limits.upper)
        bits = bits | torch.where(inside.unsqueeze(1), mask, 0)
    return bits
