"""The operating points of each class and of all classes pooled: one at each distinct score."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..ops.selection import rows_where
from ..ops.sums import sums_before
from .lane_view import LaneView

POOLED = "all"
"""The name of the group in which all classes are pooled."""


@dataclass(frozen=True, eq=False)
class ScorePoints:
    """What is kept when detections below a score are dropped, for every distinct score.

    Group k is class k; the last group pools all classes. Points of a group stand together, by
    falling score. A score keeps the detections that have it, so tied detections are one point.

    Attributes:
        names: G names, the classes and "all".
        starts: [G + 1] int64, points starts[g] .. starts[g + 1] are of group g.
        score: [P] as the detections have them.
        true_positives, false_positives: [P] int64, among the detections kept.
        num_positives: [G] int64.
        rows: [n] int64, detections of the groups, not ignored, by falling score.
        last: [P] int64, the last of ``rows`` that is kept.
        first: [P] int64, where the group begins in ``rows``.
    """

    names: tuple[str, ...]
    starts: Tensor
    score: Tensor
    true_positives: Tensor
    false_positives: Tensor
    num_positives: Tensor
    rows: Tensor
    last: Tensor
    first: Tensor

    @classmethod
    def of(cls, view: LaneView) -> ScorePoints:
        """The points of a lane; sums of whole numbers, the same on every device."""
        kept = rows_where(~view.ignored)
        label, pooled = view.records.detections.label[kept], view.num_classes
        # Every detection stands in two groups: its class, and all classes.
        group = torch.cat([label, torch.full_like(label, pooled)])
        rows = kept.repeat(2)
        order = view.falling(group, pooled + 1, rows)
        group, rows = group[order], rows[order]
        score = view.records.detections.score[rows]
        ends = torch.ones_like(group, dtype=torch.bool)
        ends[:-1] = (group[1:] != group[:-1]) | (score[1:] != score[:-1])
        last = rows_where(ends)
        sizes = torch.bincount(group, minlength=pooled + 1)
        first = sums_before(sizes)[group[last]]
        hits = sums_before(view.true_positive[rows])
        true = hits[last + 1] - hits[first]
        return cls(
            names=(*view.class_names, POOLED),
            starts=sums_before(torch.bincount(group[last], minlength=pooled + 1)),
            score=score[last],
            true_positives=true,
            false_positives=last + 1 - first - true,
            num_positives=torch.cat([view.num_positives, view.num_positives.sum().unsqueeze(0)]),
            rows=rows,
            last=last,
            first=first,
        )

    @property
    def group(self) -> Tensor:
        """[P] int64: the group of each point."""
        return torch.repeat_interleave(self.starts.diff(), output_size=self.score.shape[0])

    def sums(self, values: Tensor) -> Tensor:
        """[P] int64: the sum over the detections kept of whole ``values`` [N]."""
        total = sums_before(values[self.rows])
        return total[self.last + 1] - total[self.first]
