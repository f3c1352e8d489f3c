"""The best overlap of every detection: with an object of its class, and with any other object."""

from __future__ import annotations

import torch
from torch import Tensor

from ..ops.selection import rows_where
from ..ragged import Detections, GroundTruths
from .fused import pair_overlaps, pairs_that_meet
from .overlaps import OVERLAPS
from .pairs import PairRuns, Pairs
from .problem import MatchProblem, MatchSetup

NO_OBJECT = torch.iinfo(torch.int32).max


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
        index: [N] rows of the recorded detections; image by image unless boxes are compared.
    """
    detections, objects = setup.detections, setup.ground_truths
    image = detections.image.index_select(0, index).long()
    came = detections.row.index_select(0, index)
    labels = rows[0].labels.index_select(0, came)
    owner = torch.where(objects.excused, -1, objects.image.long())
    size, runs = index.shape[0], PairRuns.of(image, owner)
    # The first half is about the detection's own class, the second half about all others.
    best_overlap = torch.zeros(2 * size, dtype=torch.float64, device="cpu")
    best_object = torch.full((2 * size,), NO_OBJECT, dtype=torch.int32, device="cpu")
    for part in runs.portions():
        pairs, overlap = runs.pairs(part, torch.int32), None
        if overlap_of == "boxes":
            some = problem.of_detections(part)
            pairs = pairs_that_meet(pairs, some, setup.rules)
            overlap = pair_overlaps(some, setup.rules, pairs)[0]
        pairs = Pairs(pairs.detection.long() + part.start, pairs.ground_truth.long())
        if overlap is None:
            as_they_came = Pairs(came.index_select(0, pairs.detection), pairs.ground_truth)
            over_area = objects.over_area.index_select(0, pairs.ground_truth)
            overlap = OVERLAPS[overlap_of](*rows, as_they_came, over_area)
        true_labels = rows[1].labels.index_select(0, pairs.ground_truth)
        other = labels.index_select(0, pairs.detection) != true_labels
        slot = pairs.detection.add_(other, alpha=size)
        _take_best(best_overlap, best_object, slot, overlap, pairs.ground_truth)
    best_object.masked_fill_(best_object == NO_OBJECT, -1)
    columns = {}
    for n, whose in enumerate(("best", "best_other")):
        half = slice(n * size, (n + 1) * size)
        for name, column in (("overlap", best_overlap.float()), ("ground_truth", best_object)):
            placed = torch.empty_like(column[half])
            columns[f"{whose}_{name}"] = placed.index_copy_(0, index, column[half])
    return columns


def _take_best(
    best_overlap: Tensor, best_object: Tensor, slot: Tensor, overlap: Tensor, ground_truth: Tensor
) -> None:
    """Take in pairs [P] of which a slot has all in one call; the first of equal overlaps counts."""
    best_overlap.scatter_reduce_(0, slot, overlap, "amax")
    best = rows_where((overlap > 0) & (overlap == best_overlap.index_select(0, slot)))
    rows = ground_truth.index_select(0, best).to(torch.int32)
    best_object.scatter_reduce_(0, slot.index_select(0, best), rows, "amin")
