"""Overlaps other than that of boxes: a registry by the name that a protocol gives them.

Boxes are compared by the fused operator of :mod:`fused`. All other overlaps are computed here, for
candidate pairs in portions, and handed to the same matcher.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from ..protocols.overlaps import OVERLAP_NAMES
from ..ragged import Detections, GroundTruths
from .fused import candidates, match_candidates
from .greedy import Matches
from .masks import overlaps_of_masks
from .pairs import PairRuns, Pairs
from .problem import MatchProblem, MatchRules

Overlap = Callable[[Detections, GroundTruths, Pairs, Tensor], Tensor]
"""Overlaps [P] float64, not below 0, of candidate pairs.

Args: detections and ground truths of a chunk, P pairs of their rows as they came (images rise), and
``over_area`` [P] bool, pairs whose overlap is over the area of the detection (crowds).
"""

OVERLAPS: dict[str, Overlap] = {"masks": overlaps_of_masks}


def register_overlap(name: str, overlap: Overlap) -> None:
    """Make an overlap known, so that a protocol may say ``overlap_of = name``.

    Args:
        name: as protocols write it.
        overlap: the function, see :data:`Overlap`. It runs on the host, and gives the same values
            for the same pair whatever the other pairs are.

    Example:
        >>> def everything(detections, ground_truths, pairs, over_area):
        ...     return torch.ones(len(over_area), dtype=torch.float64)
        >>> register_overlap("everything", everything)
    """
    OVERLAP_NAMES.add(name)
    OVERLAPS[name] = overlap


class KnownOverlaps(NamedTuple):
    """Candidate pairs, ordered by detection, then ground truth, and their overlap [P] float64."""

    pairs: Pairs
    overlap: Tensor


def known_overlaps(
    overlap_of: str,
    rows: tuple[Detections, GroundTruths],
    groups: tuple[Tensor, Tensor],
    row: Tensor,
    present: Tensor,
    over_area: Tensor,
    least: float,
) -> KnownOverlaps:
    """Overlaps of all candidate pairs that reach the lowest threshold.

    Args:
        overlap_of: name of the overlap.
        rows: detections and ground truths as they came.
        groups: [N] of candidate detections, image by image, and [M] of ground truths.
        row: [N] int64 position in which each candidate came.
        present: [N] bool, candidates that exist at all.
        over_area: [M] bool, ground truths whose overlap is over the detection's area.
        least: the lowest threshold; pairs of smaller overlap are left out.

    On the host alone, where the number of pairs is known.
    """
    overlap, runs = OVERLAPS[overlap_of], PairRuns.of(*groups)
    detections, objects, overlaps = [], [], []
    for part in runs.portions():
        made = runs.pairs(part)
        pairs = made._replace(detection=made.detection + part.start)
        pairs = pairs.rows(present.index_select(0, pairs.detection).nonzero().squeeze(1))
        came = Pairs(row.index_select(0, pairs.detection), pairs.ground_truth)
        values = overlap(*rows, came, over_area.index_select(0, pairs.ground_truth))
        kept = (values >= least).nonzero().squeeze(1)
        detections.append(pairs.detection.index_select(0, kept))
        objects.append(pairs.ground_truth.index_select(0, kept))
        overlaps.append(values.index_select(0, kept))
    return KnownOverlaps(Pairs(torch.cat(detections), torch.cat(objects)), torch.cat(overlaps))


def match_by_overlaps(problem: MatchProblem, rules: MatchRules, known: KnownOverlaps) -> Matches:
    """:func:`fused.match_word` with known overlaps of some pairs, on the host."""
    found = candidates(problem, rules, known.pairs, known.overlap, known.overlap)
    return match_candidates(problem, rules, found, torch.zeros_like(problem.exclusive))
