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
        pairs = runs.pairs(part, torch.int32)
        if overlap_of == "boxes":
            some = problem.of_detections(part)
            pairs = pairs_that_meet(pairs, some, setup.rules)
            overlap = pair_overlaps(some, setup.rules, pairs)[0]
            pairs = _shifted(pairs, part.start)
        else:
            pairs = _shifted(pairs, part.start)
            as_they_came = Pairs(came.index_select(0, pairs.detection), pairs.ground_truth)
            over_area = objects.over_area.index_select(0, pairs.ground_truth)
            overlap = OVERLAPS[overlap_of](*rows, as_they_came, over_area)
        true_labels = rows[1].labels.index_select(0, pairs.ground_truth)
        other = labels.index_select(0, pairs.detection) != true_labels
        slot = pairs.detection.add_(other, alpha=size)
        # A detection has all its pairs in one portion.
        best_overlap.scatter_reduce_(0, slot, overlap, "amax")
        best = (overlap > 0) & (overlap == best_overlap.index_select(0, slot))
        rows_of_best = rows_where(best)
        best_object.scatter_reduce_(
            0,
            slot.index_select(0, rows_of_best),
            pairs.ground_truth.index_select(0, rows_of_best).to(torch.int32),
            "amin",
        )
    best_object.masked_fill_(best_object == NO_OBJECT, -1)
    columns = {}
    for n, whose in enumerate(("best", "best_other")):
        half = slice(n * size, (n + 1) * size)
        for name, column in (("overlap", best_overlap.float()), ("ground_truth", best_object)):
            placed = torch.empty_like(column[half])
            columns[f"{whose}_{name}"] = placed.index_copy_(0, index, column[half])
    return columns


def _shifted(pairs: Pairs, start: int) -> Pairs:
    """Pairs of a portion as pairs of all detections."""
    return Pairs(pairs.detection.long() + start, pairs.ground_truth.long())
