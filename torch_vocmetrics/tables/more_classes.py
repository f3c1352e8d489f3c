"""Match records among more classes than they were made for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from .records import MatchRecords


def among_classes(
    records: MatchRecords, positions: Sequence[int], num_classes: int
) -> MatchRecords:
    """The same records, class k of which is class ``positions[k]`` of ``num_classes``.

    The positions rise, so that detections stay ordered by class.
    """
    moved = torch.tensor(positions, dtype=torch.int64).to(records.device)
    counts = records.class_counts.new_zeros(num_classes)
    labels = moved.index_select(0, records.ground_truth_label.long())
    return replace(
        records,
        class_counts=counts.index_copy_(0, moved, records.class_counts),
        ground_truth_label=labels.to(records.ground_truth_label.dtype),
    )
