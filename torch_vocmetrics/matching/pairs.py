"""Candidate pairs: detections in their order, and every object of their image and class."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Pairs(NamedTuple):
    """P pairs, ordered by detection, then by object."""

    detection: Tensor
    ground_truth: Tensor


def candidate_pairs(detection_group: Tensor, ground_truth_group: Tensor) -> Pairs:
    """Every pair of equal groups.

    Args:
        detection_group: [N] int64.
        ground_truth_group: [M] int64 in any order; of one group, objects come in row order.
    """
    by_group = torch.argsort(ground_truth_group, stable=True)
    groups = ground_truth_group.index_select(0, by_group)
    first = torch.searchsorted(groups, detection_group)
    count = torch.searchsorted(groups, detection_group, right=True) - first
    ends = torch.cumsum(count, dim=0)
    total = int(ends[-1]) if ends.numel() else 0
    rows = torch.arange(detection_group.shape[0], device=groups.device)
    detection = torch.repeat_interleave(rows, count, output_size=total)
    shift = (first - ends + count).index_select(0, detection)
    places = torch.arange(total, device=groups.device) + shift
    return Pairs(detection, by_group.index_select(0, places))
