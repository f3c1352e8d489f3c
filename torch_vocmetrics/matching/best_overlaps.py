"""The best overlap of every detection: with an object of its class, and with any other object."""

from __future__ import annotations

import torch
from torch import Tensor

from ..ragged import Detections, GroundTruths
from .fused import pair_overlaps
from .overlaps import OVERLAPS
from .pairs import PairRuns, Pairs
from .problem import MatchProblem, MatchSetup


def best_overlaps(
    overlap_of: str,
    rows: tuple[Detections, GroundTruths],
    setup: MatchSetup,
    problem: MatchProblem,
    index: Tensor,
) -> dict[str, Tensor]:
    """Columns [N] of recorded detections; pairs of different classes are made here alone.

    Ground truths that a flag excuses (crowd, difficult, ignore) are left out. Among equal overlaps
    the first ground truth is named.

    Args:
        overlap_of: name of the overlap.
        rows: detections and ground truths of the chunk as they came, on the host.
        setup: the chunk as the protocol takes it.
        problem: of all detections, in the order of ``index``.
        index: [N] rows of the recorded detections, image by image.
    """
    detections, objects = setup.detections, setup.ground_truths
    image = detections.image.index_select(0, index).long()
    came = detections.row.index_select(0, index)
    labels = rows[0].labels.index_select(0, came)
    owner = torch.where(objects.excused, -1, objects.image.long())
    best = _Best(index.shape[0]), _Best(index.shape[0])
    runs = PairRuns.of(image, owner)
    for part in runs.portions():
        pairs = runs.pairs(part)
        i = pairs.detection + part.start
        if overlap_of == "boxes":
            overlap = pair_overlaps(problem.of_detections(part), setup.rules, pairs)[0]
        else:
            as_they_came = Pairs(came.index_select(0, i), pairs.ground_truth)
            over_area = objects.over_area.index_select(0, pairs.ground_truth)
            overlap = OVERLAPS[overlap_of](*rows, as_they_came, over_area)
        same = labels.index_select(0, i) == rows[1].labels.index_select(0, pairs.ground_truth)
        for one, of_class in zip(best, (same, ~same), strict=True):
            one.add(i, pairs.ground_truth, torch.where(of_class, overlap, 0.0))
    own, other = (one.columns(index) for one in best)
    return {
        "best_overlap": own[0],
        "best_ground_truth": own[1],
        "best_other_overlap": other[0],
        "best_other_ground_truth": other[1],
    }


class _Best:
    """The largest overlap of each of N detections, over portions of pairs."""

    def __init__(self, size: int) -> None:
        self._overlap = torch.zeros(size, dtype=torch.float64, device="cpu")
        self._object = torch.full((size,), -1, dtype=torch.int64, device="cpu")

    def add(self, detection: Tensor, ground_truth: Tensor, overlap: Tensor) -> None:
        """Take in pairs, of which a detection has all in one portion; ground truths rise."""
        self._overlap.scatter_reduce_(0, detection, overlap, "amax")
        best = (overlap > 0) & (overlap == self._overlap.index_select(0, detection))
        rows = best.nonzero().squeeze(1).flip(0)  # of equal ones the first is written last
        self._object[detection.index_select(0, rows)] = ground_truth.index_select(0, rows)

    def columns(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Overlap [N] float32 and ground truth [N] int32, in the order of ``index``."""
        overlap, ground_truth = self._overlap.float(), self._object.to(torch.int32)
        return (
            torch.empty_like(overlap).index_copy_(0, index, overlap),
            torch.empty_like(ground_truth).index_copy_(0, index, ground_truth),
        )
