"""The greedy matcher: detections take ground truths in turn, in every lane at once.

The matcher knows lane bits and an order of preference, but no boxes, scores or protocols. A
detection goes through its candidate pairs: first those whose ground truth counts, then those whose
ground truth is ignored, each by falling overlap. It takes the ground truth in those lanes that the
pair may match in, that the detection has not matched in yet, and in which the ground truth is still
free. In all other lanes the detection stays unmatched.

It runs on the host, with NumPy where NumPy is faster than torch.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from ..ops.ordering import rank_in_group, stable_order
from ..ops.selection import rows_where

Bits = TypeVar("Bits", int, Tensor)

SEQUENTIAL_BELOW = 50
"""Pairs per step below which a Python loop beats a step of tensor operations (measured)."""


class CandidatePairs(NamedTuple):
    """P pairs, ordered by detection (in the order in which detections choose), then ground truth.

    Attributes:
        detection, ground_truth: [P] int64 rows.
        overlap: [P] preference where the ground truth counts.
        ignore_overlap: [P] preference where it is ignored.
        counted, ignored: [P] int64 lanes in which the pair may match and the ground truth counts,
            or is ignored.
    """

    detection: Tensor
    ground_truth: Tensor
    overlap: Tensor
    ignore_overlap: Tensor
    counted: Tensor
    ignored: Tensor

    def rows(self, index: Tensor) -> CandidatePairs:
        """The pairs at ``index``."""
        return CandidatePairs(*(column.index_select(0, index) for column in self))


class Matches(NamedTuple):
    """H pairs that are matched in at least one lane.

    Attributes:
        detection, ground_truth: [H] int64 rows; -1 in rows of a device table that are not used.
        overlap: [H] float32 overlap that decided.
        true_positive, ignored: [H] int64 lanes in which the match makes the detection a true
            positive, or makes it ignored.
    """

    detection: Tensor
    ground_truth: Tensor
    overlap: Tensor
    true_positive: Tensor
    ignored: Tensor

    @classmethod
    def cat(cls, parts: list[Matches]) -> Matches:
        """One part after the other."""
        return parts[0] if len(parts) == 1 else cls(*map(torch.cat, zip(*parts, strict=True)))


def match(
    pairs: CandidatePairs,
    taken: Tensor,
    *,
    group: Tensor,
    exclusive: Tensor,
    best_only: bool,
    last_wins: bool,
    used_matches: bool = False,
) -> Matches:
    """Match the detections of independent groups in one word of lanes.

    Args:
        pairs: the candidate pairs.
        taken: [M] int64, lanes in which ground truths were taken by detections of earlier calls;
            those of this call are added in place. So a group may be matched in several portions.
        group: [N] int64; detections of a group stand together, and no two groups share a ground
            truth.
        exclusive: [M] int64, lanes in which one match makes a ground truth unavailable.
        best_only: each detection considers the pair of largest overlap alone (VOC).
        last_wins: of pairs with equal overlap the later ground truth comes first (COCO), else the
            earlier one.
        used_matches: a detection matches a ground truth that is already taken all the same, and is
            then ignored, instead of going on to its next pair (bbGt.m evalRes with ``mul``).

    Returns:
        The matches, in the order of ``pairs``.
    """
    num_detections = group.shape[0]
    if best_only:
        pairs = pairs.rows(_best_pairs(pairs, num_detections, last_wins=last_wins))
    may_match = (pairs.counted | pairs.ignored) != 0
    if not may_match.all():
        pairs = pairs.rows(rows_where(may_match))
    positive, ignored = torch.zeros_like(pairs.counted), torch.zeros_like(pairs.counted)
    # Only a ground truth that some detection could swap for another one needs the matching step by
    # step. All others, most of them, have a closed form.
    choices = torch.bincount(pairs.detection, minlength=num_detections)
    multi_candidate = rows_where(choices.index_select(0, pairs.detection) > 1)
    contested = torch.zeros_like(exclusive, dtype=torch.bool)
    contested.index_fill_(0, pairs.ground_truth.index_select(0, multi_candidate), True)
    contested = contested.index_select(0, pairs.ground_truth)
    alone = rows_where(~contested)
    _match_single_candidates(pairs, alone, taken, exclusive, positive, ignored, used_matches)
    rest = rows_where(contested)
    if last_wins:  # the sort by overlap is stable, and ground truths rise within a detection
        rest = rest.flip(0)
    turns = _turns(pairs, rest, num_detections)
    _match_in_turn(turns, taken, group, exclusive, positive, ignored, used_matches)
    return _matches(pairs, positive, ignored)


def _matches(pairs: CandidatePairs, positive: Tensor, ignored: Tensor) -> Matches:
    """The pairs that matched in any lane."""
    matched = rows_where((positive | ignored) != 0)
    pairs = pairs.rows(matched)
    positive, ignored = positive.index_select(0, matched), ignored.index_select(0, matched)
    overlap = pairs.overlap
    if pairs.ignore_overlap is not overlap:
        decided_while_counted = (pairs.counted & (positive | ignored)) != 0
        overlap = torch.where(decided_while_counted, overlap, pairs.ignore_overlap)
    return Matches(pairs.detection, pairs.ground_truth, overlap.float(), positive, ignored)


def _best_pairs(pairs: CandidatePairs, num_detections: int, *, last_wins: bool) -> Tensor:
    """Rows of the pair of largest overlap of each detection that has one."""
    detection, overlap = pairs.detection, pairs.overlap
    largest = overlap.new_full((num_detections,), -1.0)
    largest = largest.scatter_reduce(0, detection, overlap, "amax")
    rows = rows_where(overlap == largest.index_select(0, detection))
    chosen = rows.new_full((num_detections,), -1 if last_wins else detection.shape[0])
    mode = "amax" if last_wins else "amin"
    chosen = chosen.scatter_reduce(0, detection.index_select(0, rows), rows, mode)
    return chosen.index_select(0, rows_where((chosen >= 0) & (chosen < detection.shape[0])))


def _match_single_candidates(
    pairs: CandidatePairs,
    alone: Tensor,
    taken: Tensor,
    exclusive: Tensor,
    positive: Tensor,
    ignored: Tensor,
    used_matches: bool,
) -> None:
    """Closed form for detections with one candidate, the pairs ``alone``.

    Which lanes of the ground truth are taken before a detection is an OR over earlier detections.
    """
    order = stable_order(pairs.ground_truth.index_select(0, alone))
    rows = alone.index_select(0, order)
    ground_truth, counts, ignores = (
        column.index_select(0, rows)
        for column in (pairs.ground_truth, pairs.counted, pairs.ignored)
    )
    offered = counts | ignores
    used = offered & exclusive.index_select(0, ground_truth)
    before = _or_of_earlier(used, ground_truth) | taken.index_select(0, ground_truth)
    last = torch.ones_like(ground_truth, dtype=torch.bool)
    last[:-1] = ground_truth[1:] != ground_truth[:-1]
    lasts = rows_where(last)
    objects = ground_truth.index_select(0, lasts)
    taken.index_copy_(0, objects, (before | used).index_select(0, lasts))
    free = ~before
    on_used = offered & before if used_matches else 0
    positive.index_copy_(0, rows, counts & free)
    ignored.index_copy_(0, rows, (ignores & free) | on_used)


def _or_of_earlier(bits: Tensor, group: Tensor) -> Tensor:
    """[P]: OR of ``bits`` over the earlier rows of the same group, by doubling; ``group`` rises."""
    runs, reach, step = group.numpy(), bits.numpy(), 1
    seen = np.zeros_like(reach)
    # ``reach`` holds the OR of ``step`` rows: first of the row itself, then of those before it.
    while (same := runs[step:] == runs[:-step]).any():
        seen[step:] |= reach[:-step] * same
        reach, step = seen, 2 * step if reach is seen else 1
    return torch.from_numpy(seen)


class _Turns(NamedTuple):
    """Attempts to match, in the order in which they are made.

    Attributes:
        pair: [Q] int64 rows of the candidate pairs; a pair may have two turns.
        detection, ground_truth: [Q] of these pairs.
        bits: [Q] int64 lanes of the attempt.
        counted: [Q] int64 those in which the ground truth counts.
    """

    pair: Tensor
    detection: Tensor
    ground_truth: Tensor
    bits: Tensor
    counted: Tensor

    def rows(self, index: Tensor) -> _Turns:
        return _Turns(*(column.index_select(0, index) for column in self))


def _turns(pairs: CandidatePairs, rows: Tensor, num_detections: int) -> _Turns:
    """The pairs at ``rows`` by detection, pass (counted, then ignored), falling overlap, position.

    Worked example of a detection with three pairs and one lane: A is ignored with overlap 0.9, B
    counts with 0.6, C counts with 0.7. The turns are C, B, A.
    """
    some = pairs.rows(rows)
    apart = _in_two_passes(some, num_detections)
    together, second = some.counted | (some.ignored & ~apart), some.ignored & apart
    early, late = rows_where(together != 0), rows_where(second != 0)
    both = torch.cat([early, late])
    detection = some.detection.index_select(0, both)
    bits = torch.cat([together.index_select(0, early), second.index_select(0, late)])
    counted = bits & ~some.ignored.index_select(0, both)
    ground_truth = some.ground_truth.index_select(0, both)
    turns = _Turns(rows.index_select(0, both), detection, ground_truth, bits, counted)
    preference = torch.cat(
        [some.overlap.index_select(0, early), some.ignore_overlap.index_select(0, late)]
    )
    pass_of_detection = 2 * detection
    pass_of_detection[early.shape[0] :] += 1
    order = np.lexsort((-preference.numpy(), pass_of_detection.numpy()))
    return turns.rows(torch.from_numpy(order))


def _in_two_passes(pairs: CandidatePairs, num_detections: int) -> Tensor:
    """[P] int64: lanes in which the detection tries ignored ground truths in a second pass.

    Where none of its ground truths counts, and overlaps do not change with what counts, the first
    pass serves for them: half as many turns.
    """
    detection = pairs.detection.numpy()
    lanes = np.zeros(num_detections, dtype=np.int64)
    np.bitwise_or.at(lanes, detection, pairs.counted.numpy())
    lanes[detection[(pairs.overlap != pairs.ignore_overlap).numpy()]] = -1
    return torch.from_numpy(lanes[detection])


def _matched_lanes(remaining: Bits, offered: Bits, taken: Bits, used_matches: bool) -> Bits:
    """The rule itself: the lanes in which a turn matches."""
    return remaining & offered if used_matches else remaining & offered & ~taken


def _match_in_turn(
    turns: _Turns,
    taken: Tensor,
    group: Tensor,
    exclusive: Tensor,
    positive: Tensor,
    ignored: Tensor,
    used_matches: bool,
) -> None:
    """One turn of each group at a time; groups share neither detections nor ground truths."""
    if turns.detection.numel() == 0:
        return
    uses = exclusive.index_select(0, turns.ground_truth)
    step = rank_in_group(group.index_select(0, turns.detection))
    steps = int(step.max()) + 1
    if turns.detection.numel() < SEQUENTIAL_BELOW * steps:
        matched, before = _match_one_by_one(turns, uses, taken, used_matches)
    else:
        order = stable_order(step)
        turns, uses = turns.rows(order), uses.index_select(0, order)
        sizes = torch.bincount(step).tolist()
        remaining = torch.full((group.shape[0],), -1, dtype=torch.int64)
        matched, before = _match_by_step(turns, uses, sizes, remaining, taken, used_matches)
    on_used = matched & before
    # The lanes of two turns of a pair are disjoint: their sum is their union.
    positive.index_add_(0, turns.pair, matched & turns.counted & ~on_used)
    ignored.index_add_(0, turns.pair, (matched & ~turns.counted) | on_used)


def _match_by_step(
    turns: _Turns,
    uses: Tensor,
    sizes: list[int],
    remaining: Tensor,
    taken: Tensor,
    used_matches: bool,
) -> tuple[Tensor, Tensor]:
    """[Q] each: lanes in which a turn matches, and those in which its ground truth was taken.

    A whole step, the next turn of every group, is one set of tensor operations.
    """
    columns = (turns.detection, turns.ground_truth, turns.bits, uses)
    outcomes = []
    for detection, ground_truth, bits, use in zip(
        *(torch.split(column, sizes) for column in columns), strict=True
    ):
        left, used = remaining.index_select(0, detection), taken.index_select(0, ground_truth)
        matched = _matched_lanes(left, bits, used, used_matches)
        remaining.index_copy_(0, detection, left & ~matched)
        taken.index_copy_(0, ground_truth, used | (matched & use))
        outcomes.append((matched, used))
    matches, before = zip(*outcomes, strict=True)
    return torch.cat(matches), torch.cat(before)


def _match_one_by_one(
    turns: _Turns, uses: Tensor, taken: Tensor, used_matches: bool
) -> tuple[Tensor, Tensor]:
    """:func:`_match_by_step` as a plain loop, for few turns."""
    columns = (turns.detection, turns.ground_truth, turns.bits, uses)
    earlier = taken.index_select(0, turns.ground_truth).tolist()
    lanes = dict(zip(turns.ground_truth.tolist(), earlier, strict=True))
    matches, before = [], []
    current, left = -1, -1
    for detection, ground_truth, bits, use in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        if detection != current:
            current, left = detection, -1
        used = lanes[ground_truth]
        matched = _matched_lanes(left, bits, used, used_matches)
        if matched:
            left &= ~matched
            lanes[ground_truth] = used | (matched & use)
        matches.append(matched)
        before.append(used)
    # NumPy reads a list six times faster than torch.
    taken.numpy()[np.array(list(lanes), dtype=np.int64)] = list(lanes.values())
    made, used_before = (np.array(words, dtype=np.int64) for words in (matches, before))
    return torch.from_numpy(made), torch.from_numpy(used_before)
