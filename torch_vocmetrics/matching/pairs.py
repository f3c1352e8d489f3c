"""Candidate pairs: detections in their order, and every object of their image and class."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from ..ops.ordering import stable_order

MOST_PAIRS = 2**20
"""Pairs that are made at once, about 200 bytes each while they are compared: 200 MiB at most.

A single detection with more objects than that is one portion all the same.
"""

TABLE_PER_ROW = 4
"""Groups per row up to which a table of all groups is cheaper than a search for each row."""


class Pairs(NamedTuple):
    """P pairs, ordered by detection, then by object."""

    detection: Tensor
    ground_truth: Tensor

    def rows(self, index: Tensor) -> Pairs:
        """The pairs at ``index``."""
        return Pairs(*(column.index_select(0, index) for column in self))


class PairRuns(NamedTuple):
    """Every pair of equal groups, before the pairs are made: those of a detection are a run.

    Attributes:
        by_group: [M] int64, ground truths by group, then in row order.
        first: [N] int64, where the run of each detection begins in ``by_group``.
        sizes: [N] int64, how long it is.
    """

    by_group: Tensor
    first: Tensor
    sizes: Tensor

    @classmethod
    def of(cls, detection_group: Tensor, ground_truth_group: Tensor) -> Self:
        """The runs for groups of detections [N] and of ground truths [M], both int64."""
        by_group = stable_order(ground_truth_group)
        groups = ground_truth_group.index_select(0, by_group)
        return cls(by_group, *_runs(groups, detection_group))

    def portions(self) -> list[slice]:
        """Consecutive detections of up to ``MOST_PAIRS`` pairs, or single ones; at least one."""
        ends = torch.cumsum(self.sizes, dim=0)
        size, before = ends.shape[0], 0
        if not size or int(ends[-1]) <= MOST_PAIRS:
            return [slice(0, size)]
        portions, start = [], 0
        while start < size:
            fitting = int(torch.searchsorted(ends, before + MOST_PAIRS, right=True))
            end = max(fitting, start + 1)
            portions.append(slice(start, end))
            start, before = end, int(ends[end - 1])
        return portions

    def pairs(self, detections: slice, dtype: torch.dtype = torch.int64) -> Pairs:
        """The pairs of some detections, numbered from 0; ``dtype`` as there may be many."""
        first, sizes = self.first[detections], self.sizes[detections]
        ends = torch.cumsum(sizes, dim=0)
        total = int(ends[-1]) if ends.numel() else 0
        detection = torch.repeat_interleave(sizes.to(dtype), output_size=total)
        positions = (first - ends + sizes).to(dtype).index_select(0, detection)
        positions += torch.arange(total, dtype=dtype, device=positions.device)
        return Pairs(detection, self.by_group.to(dtype).index_select(0, positions))


def candidate_pairs(detection_group: Tensor, ground_truth_group: Tensor) -> Pairs:
    """Every pair of equal groups, for groups [N] and [M] int64 in any order."""
    runs = PairRuns.of(detection_group, ground_truth_group)
    return runs.pairs(slice(0, detection_group.shape[0]))


def is_among(groups: Tensor, wanted: Tensor) -> Tensor:
    """[N] bool: which of ``groups`` [N] are any of ``wanted`` [M], both int64 on the host."""
    # NumPy sorts values ten times as fast.
    return _runs(torch.from_numpy(np.sort(wanted.numpy())), groups)[1].bool()


def _runs(groups: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """[N] each: where the run of each ``wanted`` [N] group begins in rising ``groups``; its size.

    What begins an empty run means nothing.
    """
    if groups.numel() == 0:
        return torch.zeros_like(wanted), torch.zeros_like(wanted)
    lowest, highest = int(groups[0]), int(groups[-1])
    if highest - lowest > TABLE_PER_ROW * (groups.shape[0] + wanted.shape[0]):
        first = torch.searchsorted(groups, wanted)
        return first, torch.searchsorted(groups, wanted, right=True) - first
    # The table begins and ends with an empty group, for those that are outside.
    sizes = torch.bincount(groups - (lowest - 1), minlength=highest - lowest + 3)
    slot = (wanted - (lowest - 1)).clamp_(0, sizes.shape[0] - 1)
    first = torch.cumsum(sizes, dim=0) - sizes
    return first.index_select(0, slot), sizes.index_select(0, slot)
