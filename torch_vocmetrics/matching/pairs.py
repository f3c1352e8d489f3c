"""Candidate pairs: detections in their order, and every object of their image and class."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..ops.ordering import stable_order

TABLE_PER_ROW = 4
"""Groups per row up to which a table of all groups is cheaper than a search for each row."""


class Pairs(NamedTuple):
    """P pairs, ordered by detection, then by object."""

    detection: Tensor
    ground_truth: Tensor

    def rows(self, index: Tensor) -> Pairs:
        """The pairs at ``index``."""
        return Pairs(*(column.index_select(0, index) for column in self))


def candidate_pairs(
    detection_group: Tensor, ground_truth_group: Tensor, dtype: torch.dtype = torch.int64
) -> Pairs:
    """Every pair of equal groups.

    Args:
        detection_group: [N] int64.
        ground_truth_group: [M] int64 in any order; of one group, objects come in row order.
        dtype: integers for the pairs; there may be many.
    """
    by_group = stable_order(ground_truth_group)
    first, count = _runs(ground_truth_group.index_select(0, by_group), detection_group)
    ends = torch.cumsum(count, dim=0)
    total = int(ends[-1]) if ends.numel() else 0
    detection = torch.repeat_interleave(count.to(dtype), output_size=total)
    places = (first - ends + count).to(dtype).index_select(0, detection)
    places += torch.arange(total, dtype=dtype, device=places.device)
    return Pairs(detection, by_group.to(dtype).index_select(0, places))


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
