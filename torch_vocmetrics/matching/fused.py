"""Overlaps and matching as one operator: plain tensor operations on the CPU, one kernel on CUDA.

``torch_vocmetrics::match_word`` is a custom operator, so that it can be traced and faked. Where
Triton is missing, or an image holds more objects than the kernel's vector, the host matches: the
caller brings the rows there, which costs one wait a chunk.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..kernels.operators import operator
from ..kernels.support import triton_works
from ..ops.boxes import (
    BoxColumns,
    intersection_over_area,
    intersection_over_union,
    pair_intersections,
)
from ..ops.selection import rows_where
from ..ops.sums import sums_before
from . import greedy
from .greedy import CandidatePairs, Matches
from .pairs import PairRuns, Pairs
from .problem import MatchProblem, MatchRules

MOST_OBJECTS = 1024
"""Objects of one image that the kernel holds in one vector."""


def kernel_takes(largest: int, device: torch.device) -> bool:
    """Whether a CUDA device can match images of up to ``largest`` objects by itself."""
    return largest <= MOST_OBJECTS and triton_works(device)


def match_word(
    problem: MatchProblem, rules: MatchRules, largest: int, capacity: int
) -> tuple[Matches, Tensor]:
    """Match one word of lanes.

    Args:
        problem: detections and ground truths.
        rules: constants of the kernel.
        largest: ground truths of the fullest image.
        capacity: rows of the match table on a device, where the number of matches is not read; the
            host makes as many rows as there are matches.

    Returns:
        The matches, on a device with unused rows and maybe two rows of a pair; and [1] int32, not 0
        if the table of the device was too small.
    """
    *columns, overflow = _match_word(*problem, *rules, largest, capacity)
    return Matches(*columns), overflow


Outcome = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]


def _on_host(*arguments: Any) -> Outcome:
    """Candidate pairs, their overlaps, and the matcher of :mod:`greedy`."""
    problem, rules, *_ = _unpacked(arguments)
    runs = PairRuns.of(problem.group, problem.object_group)
    taken, found = torch.zeros_like(problem.exclusive), []
    for part in runs.portions():
        some = problem.of_detections(part)
        pairs = _candidates(some, rules, runs.pairs(part, torch.int32))
        matches = match_candidates(some, rules, pairs, taken)
        found.append(matches._replace(detection=matches.detection + part.start))
    return (*Matches.cat(found), torch.zeros(1, dtype=torch.int32))


def _candidates(problem: MatchProblem, rules: MatchRules, pairs: Pairs) -> CandidatePairs:
    if rules.known_overlaps:
        overlap = _known_overlaps(problem, pairs)
        return candidates(problem, rules, pairs, overlap, overlap)
    if not rules.two_shapes and (problem.thresholds > 0).all():
        pairs = pairs_that_meet(pairs, problem, rules)
    return candidates(problem, rules, pairs, *pair_overlaps(problem, rules, pairs))


def _known_overlaps(problem: MatchProblem, pairs: Pairs) -> Tensor:
    """[P] float64: overlaps of pairs, read from the table of all."""
    row, index = problem.came.index_select(0, pairs.detection), pairs.ground_truth.long()
    image = torch.searchsorted(problem.starts, row, right=True) - 1
    first, starts = problem.starts.index_select(0, image), problem.object_starts
    first_object, end = (starts.index_select(0, image + more) for more in (0, 1))
    pair = (row - first) * (end - first_object) + (index - first_object)
    pair += problem.overlap_starts.index_select(0, image)
    return problem.overlaps.index_select(0, pair)


def candidates(
    problem: MatchProblem, rules: MatchRules, pairs: Pairs, overlap: Tensor, ignore_overlap: Tensor
) -> CandidatePairs:
    """What the matcher is to know of pairs whose overlaps [P] float64 are known."""
    overlaps = [overlap] if ignore_overlap is overlap else [overlap, ignore_overlap]
    levels = [_thresholds_reached(problem, rules, values) for values in overlaps]
    # Drop the pairs below every threshold, which are most pairs, before more is computed of them.
    kept = rows_where((levels[0] | levels[-1]) != 0)
    pairs = Pairs(*(column.index_select(0, kept).long() for column in pairs))
    overlaps = [values.index_select(0, kept) for values in overlaps]
    # Entry n of the table: the lanes of the n lowest thresholds. They are disjoint, so that their
    # sum is their union.
    table = sums_before(problem.threshold_bits)
    passes = [table.index_select(0, level.index_select(0, kept).int()) for level in levels]
    present = problem.present.index_select(0, pairs.detection)
    counts = problem.counted.index_select(0, pairs.ground_truth)
    counted, ignored = passes[0] & present & counts, passes[-1] & present & ~counts
    return CandidatePairs(*pairs, overlaps[0], overlaps[-1], counted, ignored)


def match_candidates(
    problem: MatchProblem, rules: MatchRules, pairs: CandidatePairs, taken: Tensor
) -> Matches:
    """:func:`match_word` on the host, for known candidate pairs; ``taken`` as for the matcher."""
    return greedy.match(
        pairs,
        taken,
        group=problem.group,
        exclusive=problem.exclusive,
        best_only=rules.best_only,
        last_wins=rules.last_wins,
        used_matches=rules.used_matches,
    )


def _on_cuda(*arguments: Any) -> Outcome:
    """One kernel; Triton is loaded by those who need it."""
    from .greedy_cuda import launch  # noqa: PLC0415

    return launch(*_unpacked(arguments))


def _shapes(*arguments: Any) -> Outcome:
    """The output of the kernel for tensors without values."""
    problem, _, _, capacity = _unpacked(arguments)
    whole = problem.group.new_empty(capacity)
    overlap = torch.empty_like(whole, dtype=torch.float32)
    columns = (torch.empty_like(whole) for _ in range(4))
    detection, ground_truth, positive, ignored = columns
    overflow = whole.new_empty(1, dtype=torch.int32)
    return detection, ground_truth, overlap, positive, ignored, overflow


def _unpacked(arguments: tuple[Any, ...]) -> tuple[MatchProblem, MatchRules, int, int]:
    split = len(MatchProblem._fields)
    problem, rules = MatchProblem(*arguments[:split]), MatchRules(*arguments[split:-2])
    return problem, rules, arguments[-2], arguments[-1]


_match_word = operator(
    "match_word("
    + ", ".join(f"Tensor {name}" for name in MatchProblem._fields)
    + "".join(f", bool {name}" for name in MatchRules._fields)
    + ", int largest, int capacity) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    cpu=_on_host,
    cuda=_on_cuda,
    fake=_shapes,
)


def pairs_that_meet(pairs: Pairs, problem: MatchProblem, rules: MatchRules) -> Pairs:
    """The pairs of boxes that may meet: the others, most of them, reach no threshold above 0.

    Rounding to float32 keeps order but for ties, so that no pair that meets is lost.
    """
    first, second = _edges(problem.boxes, rules), _edges(problem.object_boxes, rules)
    for axis in (0, 1):
        near, far = (edges[axis].index_select(0, pairs.detection) for edges in first)
        torch.maximum(near, second[0][axis].index_select(0, pairs.ground_truth), out=near)
        torch.minimum(far, second[1][axis].index_select(0, pairs.ground_truth), out=far)
        # NumPy compares in a quarter of torch's time.
        pairs = pairs.rows(torch.from_numpy(np.flatnonzero(near.numpy() <= far.numpy())))
    return pairs


def _edges(boxes: Tensor, rules: MatchRules) -> tuple[Tensor, Tensor]:
    """[2, N] float32 each: where boxes start and where they end, on both axes."""
    ends = boxes[2:4] + 1 if rules.inclusive else boxes[2:4]
    return boxes[:2].float(), ends.float()


def _thresholds_reached(problem: MatchProblem, rules: MatchRules, overlap: Tensor) -> Tensor:
    """[P] int16: how many of the thresholds, which rise, each overlap reaches."""
    reaches = np.greater if rules.strict else np.greater_equal
    values, reached = overlap.numpy(), np.zeros(overlap.shape[0], dtype=np.int16)
    for threshold in problem.thresholds.numpy():
        reached += reaches(values, threshold)
    return torch.from_numpy(reached)


def pair_overlaps(problem: MatchProblem, rules: MatchRules, pairs: Pairs) -> tuple[Tensor, Tensor]:
    """[P] float64 each: overlap where the object counts, and where it is ignored."""
    first = BoxColumns(*problem.boxes).rows(pairs.detection)
    second = BoxColumns(*problem.object_boxes).rows(pairs.ground_truth)
    shared = pair_intersections(first, second, inclusive=rules.inclusive)
    overlap = intersection_over_union(shared, first.area, second.area, problem.epsilon)
    few = rows_where(problem.over_area.index_select(0, pairs.ground_truth))
    area = BoxColumns(*problem.boxes).area.index_select(0, pairs.detection.index_select(0, few))
    over_area = intersection_over_area(shared.index_select(0, few), area + problem.epsilon)
    overlap.index_copy_(0, few, over_area)
    if not rules.two_shapes:
        return overlap, overlap
    region = BoxColumns(*problem.regions).rows(pairs.ground_truth)
    covered = pair_intersections(first, region, inclusive=rules.inclusive)
    return overlap, intersection_over_area(covered, first.area + problem.epsilon)
