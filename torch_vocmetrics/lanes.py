"""Lanes: each pair of a subset (area range) and an IoU threshold is one bit of an int64 word.

All lanes are matched in one pass; 63 of them fit a word, so that words are never negative. Columns
of lanes are [N, words]; columns of area ranges, which stand for all lanes of each, are [N, bytes].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, reduce
from itertools import chain, groupby
from operator import itemgetter

import torch
from torch import Tensor

from .ops.selection import take
from .protocols import FLAGS, DetectionProtocol, LayoutProtocol, MissRateProtocol
from .transfer import from_host, reads_are_free

BITS = 63
BYTE = 8


@dataclass(frozen=True)
class Lanes:
    """Which lane stands for which (area range, threshold); area ranges vary slowest.

    Attributes:
        num_areas, num_thresholds: their product is the number of lanes.
    """

    num_areas: int
    num_thresholds: int

    @classmethod
    def of(cls, protocol: DetectionProtocol | MissRateProtocol | LayoutProtocol) -> Lanes:
        """The lanes of a protocol."""
        return cls(*protocol.lane_shape)

    @property
    def words(self) -> int:
        """Words that hold all lanes."""
        return -(-self.num_areas * self.num_thresholds // BITS)

    @property
    def area_bytes(self) -> int:
        """Bytes that hold all area ranges."""
        return -(-self.num_areas // BYTE)

    def position(self, area: int, threshold: int) -> tuple[int, int]:
        """Word and bit of a lane."""
        return divmod(area * self.num_thresholds + threshold, BITS)

    def mask(self, lanes: list[tuple[int, int]]) -> list[int]:
        """Words with the bits of the given (area, threshold) lanes set."""
        words = [0] * self.words
        for area, threshold in lanes:
            word, bit = self.position(area, threshold)
            words[word] |= 1 << bit
        return words

    def area_bits(self, area: int) -> list[int]:
        """Words with all lanes of an area range."""
        return self.mask([(area, threshold) for threshold in range(self.num_thresholds)])

    def threshold_bits(self, threshold: int) -> list[int]:
        """Words with all lanes of a threshold."""
        return self.mask([(area, threshold) for area in range(self.num_areas)])


def column(bits: Tensor, position: tuple[int, int]) -> Tensor:
    """[N] bool: one column of ``bits`` [N, words or bytes]."""
    word, bit = position
    return (bits[:, word] >> bit) & 1 == 1


def columns(bits: Tensor, positions: Sequence[tuple[int, int]]) -> Tensor:
    """[L, N] bool: several columns of ``bits`` [N, words or bytes], from indices that rise."""
    found = []
    for word, run in groupby(positions, key=itemgetter(0)):
        masks = from_host([1 << bit for _, bit in run], bits.dtype, bits.device)
        found.append((bits[:, word] & masks.unsqueeze(1)) != 0)
    return found[0] if len(found) == 1 else torch.cat(found)


def has_flag(flags: Tensor, names: tuple[str, ...]) -> Tensor:
    """[M] bool: objects with any of the named flags."""
    wanted = sum(1 << FLAGS.index(name) for name in names)
    return flags & wanted != 0


def packed_areas(holds: Sequence[Tensor]) -> Tensor:
    """[N, bytes] uint8: area ranges ``a`` for which ``holds[a]`` [N] bool, eight in a byte."""
    packed = []
    for first in range(0, len(holds), BYTE):
        bits = (one.to(torch.uint8) << bit for bit, one in enumerate(holds[first : first + BYTE]))
        packed.append(reduce(torch.bitwise_or, bits))
    return torch.stack(packed, dim=1)


def area_position(area: int) -> tuple[int, int]:
    """Byte and bit of an area range."""
    return divmod(area, BYTE)


def in_area(areas: Tensor, area: int) -> Tensor:
    """[N] bool: one area range of ``areas`` [N, bytes]."""
    return column(areas, area_position(area))


def inside_areas(values: Tensor, protocol: DetectionProtocol) -> list[Tensor]:
    """For each closed area range, whether it holds ``values`` [N]."""
    ranges = protocol.area_ranges
    return [(values >= one.lower) & (values <= one.upper) for one in ranges]


def areas_holding(values: Tensor, protocol: DetectionProtocol, *, hold: bool = True) -> Tensor:
    """[N, bytes] uint8: the closed area ranges that hold ``values`` [N], or that do not."""
    ranges = protocol.area_ranges
    if reads_are_free(values.device) or len(ranges) > BYTE:
        inside = inside_areas(values, protocol)
        return packed_areas(inside if hold else [~one for one in inside])
    # All ranges at once, in a third of the launches.
    numbers = [[one.lower for one in ranges], [one.upper for one in ranges]]
    lower, upper = from_host(numbers, torch.float64, values.device)
    column = values.unsqueeze(1)
    held = (column >= lower) & (column <= upper)
    bits = from_host([1 << bit for bit in range(len(ranges))], torch.uint8, values.device)
    packed: Tensor = (bits * held).sum(1, keepdim=True, dtype=torch.uint8)
    return packed if hold else packed ^ (2 ** len(ranges) - 1)


def lanes_of_areas(areas: Tensor, lanes: Lanes) -> Tensor:
    """[N, words] int64: all lanes of the area ranges ``areas`` [N, bytes]."""
    return reduce(
        torch.bitwise_or,
        (
            take(
                from_host(table, torch.int64, areas.device).reshape(-1, lanes.words),
                areas[:, byte].int(),
            )
            for byte, table in enumerate(_tables(lanes))
        ),
    )


@cache
def _tables(lanes: Lanes) -> tuple[list[int], ...]:
    """For each byte of area ranges, the words of each value that it can have."""
    tables = []
    for first in range(0, lanes.num_areas, BYTE):
        rows = [[0] * lanes.words]
        for area in range(first, min(first + BYTE, lanes.num_areas)):
            bits = lanes.area_bits(area)
            rows += [[old | new for old, new in zip(row, bits, strict=True)] for row in rows]
        tables.append(list(chain.from_iterable(rows)))
    return tuple(tables)
