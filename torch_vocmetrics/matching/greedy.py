"""The one matcher: detections claim objects greedily, in every lane at once.

It knows bits and an order of preference, no boxes, scores or protocols. A detection goes through
its pairs, first those whose object counts, then those whose object is ignored, each by falling
overlap. In the lanes that a pair offers, that the detection has left, and in which the object is
not used up, it claims the object; lanes without a claim stay unmatched.

It works on the host, with NumPy where that is faster than torch.
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
"""Offers per step under which a Python loop beats a step of tensor operations (measured)."""


class Candidates(NamedTuple):
    """P pairs, ordered by detection (in the order in which detections choose), then by object.

    Attributes:
        detection, ground_truth: [P] int64 rows.
        overlap: [P] preference where the object counts.
        ignore_overlap: [P] preference where it is ignored.
        counted, ignored: [P] int64 lanes in which the pair passes and the object counts, or is
            ignored.
    """

    detection: Tensor
    ground_truth: Tensor
    overlap: Tensor
    ignore_overlap: Tensor
    counted: Tensor
    ignored: Tensor

    def rows(self, index: Tensor) -> Candidates:
        """The pairs at ``index``."""
        return Candidates(*(column.index_select(0, index) for column in self))


def match(
    pairs: Candidates,
    taken: Tensor,
    *,
    group: Tensor,
    exclusive: Tensor,
    out_of_range: Tensor,
    best_only: bool,
    last_wins: bool,
    claims_used: bool = False,
) -> tuple[Tensor, Tensor]:
    """Match the detections of independent groups in one word of lanes.

    Args:
        pairs: the candidates.
        taken: [M] int64, lanes in which objects are used up by detections of earlier calls; those
            of this call are added in place. So a group may be matched in several portions.
        group: [N] int64; detections of a group stand together, and share no object with others.
        exclusive: [M] int64, lanes in which one claim uses an object up.
        out_of_range: [N] int64, lanes in which an unmatched detection is ignored.
        best_only: each detection considers the pair of largest overlap alone (VOC).
        last_wins: of pairs of equal overlap the later object comes first (COCO), else the earlier.
        claims_used: a used object is claimed all the same, and the detection is then ignored, in
            place of going on to its next pair (bbGt.m evalRes with ``mul``).

    Returns:
        Lanes [N] int64 in which a detection is a true positive, and those in which it is ignored.
    """
    if best_only:
        pairs = pairs.rows(_best_pairs(pairs, group.shape[0], last_wins=last_wins))
    offers_any = (pairs.counted | pairs.ignored) != 0
    if not offers_any.all():
        pairs = pairs.rows(rows_where(offers_any))
    positive, ignored = torch.zeros_like(out_of_range), torch.zeros_like(out_of_range)
    # An object is contested if a detection could choose another one instead.
    choices = torch.bincount(pairs.detection, minlength=group.shape[0])
    picky = rows_where(choices.index_select(0, pairs.detection) > 1)
    contested = torch.zeros_like(exclusive, dtype=torch.bool)
    contested.index_fill_(0, pairs.ground_truth.index_select(0, picky), True)
    fought = contested.index_select(0, pairs.ground_truth)
    _claim_alone(pairs, rows_where(~fought), taken, exclusive, positive, ignored, claims_used)
    rest = rows_where(fought)
    if last_wins:  # the order of offers keeps equal ones as they come, and objects rise
        rest = rest.flip(0)
    offers = _offers(pairs.rows(rest), group.shape[0])
    _claim_in_turn(offers, taken, group, exclusive, positive, ignored, claims_used)
    return positive, ignored | (out_of_range & ~(positive | ignored))


def _best_pairs(candidates: Candidates, num_detections: int, *, last_wins: bool) -> Tensor:
    """Rows of the pair of largest overlap of each detection that has one."""
    detection, overlap = candidates.detection, candidates.overlap
    largest = overlap.new_full((num_detections,), -1.0)
    largest = largest.scatter_reduce(0, detection, overlap, "amax")
    rows = rows_where(overlap == largest.index_select(0, detection))
    chosen = rows.new_full((num_detections,), -1 if last_wins else detection.shape[0])
    mode = "amax" if last_wins else "amin"
    chosen = chosen.scatter_reduce(0, detection.index_select(0, rows), rows, mode)
    return chosen.index_select(0, rows_where((chosen >= 0) & (chosen < detection.shape[0])))


def _claim_alone(
    pairs: Candidates,
    alone: Tensor,
    taken: Tensor,
    exclusive: Tensor,
    positive: Tensor,
    ignored: Tensor,
    claims_used: bool,
) -> None:
    """Closed form for detections with one candidate: what came before on the object is an OR."""
    order = stable_order(pairs.ground_truth.index_select(0, alone))
    rows = alone.index_select(0, order)
    detection, ground_truth, counts, ignores = (
        column.index_select(0, rows)
        for column in (pairs.detection, pairs.ground_truth, pairs.counted, pairs.ignored)
    )
    offered = counts | ignores
    used = offered & exclusive.index_select(0, ground_truth)
    before = _or_of_earlier(used, ground_truth) | taken.index_select(0, ground_truth)
    last = torch.ones_like(ground_truth, dtype=torch.bool)
    last[:-1] = ground_truth[1:] != ground_truth[:-1]
    lasts = rows_where(last)
    objects = ground_truth.index_select(0, lasts)
    taken.index_copy_(0, objects, (before | used).index_select(0, lasts))
    fresh = ~before
    stale = offered & before if claims_used else 0
    positive.index_copy_(0, detection, counts & fresh)
    ignored.index_copy_(0, detection, (ignores & fresh) | stale)


def _or_of_earlier(bits: Tensor, group: Tensor) -> Tensor:
    """[P]: OR of ``bits`` over the earlier rows of the same group, by doubling; ``group`` rises."""
    runs, reach, step = group.numpy(), bits.numpy(), 1
    seen = np.zeros_like(reach)
    # ``reach`` holds the OR of ``step`` rows: first of the row itself, then of those before it.
    while (same := runs[step:] == runs[:-step]).any():
        seen[step:] |= reach[:-step] * same
        reach, step = seen, 2 * step if reach is seen else 1
    return torch.from_numpy(seen)


class _Offers(NamedTuple):
    """Pairs in the order in which they are made; ``counted`` are the bits whose object counts."""

    detection: Tensor
    ground_truth: Tensor
    bits: Tensor
    counted: Tensor

    def rows(self, index: Tensor) -> _Offers:
        return _Offers(*(column.index_select(0, index) for column in self))


def _offers(pairs: Candidates, num_detections: int) -> _Offers:
    """By detection, pass (counted before ignored), falling overlap, then as the pairs come."""
    apart = _in_two_passes(pairs, num_detections)
    together, second = pairs.counted | (pairs.ignored & ~apart), pairs.ignored & apart
    early, late = rows_where(together != 0), rows_where(second != 0)
    rows = torch.cat([early, late])
    detection = pairs.detection.index_select(0, rows)
    bits = torch.cat([together.index_select(0, early), second.index_select(0, late)])
    ignored = pairs.ignored.index_select(0, rows)
    offers = _Offers(detection, pairs.ground_truth.index_select(0, rows), bits, bits & ~ignored)
    preference = torch.cat(
        [pairs.overlap.index_select(0, early), pairs.ignore_overlap.index_select(0, late)]
    )
    turn = 2 * detection
    turn[early.shape[0] :] += 1
    order = np.lexsort((-preference.numpy(), turn.numpy()))
    return offers.rows(torch.from_numpy(order))


def _in_two_passes(pairs: Candidates, num_detections: int) -> Tensor:
    """[P] int64: lanes in which the detection makes its offers to ignored objects in a second pass.

    Where none of its objects counts, and overlaps do not change with what counts, the first pass
    serves for them: half as many offers.
    """
    detection = pairs.detection.numpy()
    lanes = np.zeros(num_detections, dtype=np.int64)
    np.bitwise_or.at(lanes, detection, pairs.counted.numpy())
    lanes[detection[(pairs.overlap != pairs.ignore_overlap).numpy()]] = -1
    return torch.from_numpy(lanes[detection])


def _claim(remaining: Bits, offered: Bits, taken: Bits, claims_used: bool) -> Bits:
    """The rule itself: the lanes of a claim."""
    return remaining & offered if claims_used else remaining & offered & ~taken


def _claim_in_turn(
    offers: _Offers,
    taken: Tensor,
    group: Tensor,
    exclusive: Tensor,
    positive: Tensor,
    ignored: Tensor,
    claims_used: bool,
) -> None:
    """One offer of each group at a time; groups share neither detections nor objects."""
    if offers.detection.numel() == 0:
        return
    uses = exclusive.index_select(0, offers.ground_truth)
    step = rank_in_group(group.index_select(0, offers.detection))
    steps = int(step.max()) + 1
    if offers.detection.numel() < SEQUENTIAL_BELOW * steps:
        claims, before = _claims_one_by_one(offers, uses, taken, claims_used)
    else:
        order = stable_order(step)
        offers, uses = offers.rows(order), uses.index_select(0, order)
        sizes = torch.bincount(step).tolist()
        remaining = torch.full_like(positive, -1)
        claims, before = _claims_by_step(offers, uses, sizes, remaining, taken, claims_used)
    stale = claims & before
    # What one detection claims is disjoint: the sum is the union.
    positive.index_add_(0, offers.detection, claims & offers.counted & ~stale)
    ignored.index_add_(0, offers.detection, (claims & ~offers.counted) | stale)


def _claims_by_step(
    offers: _Offers,
    uses: Tensor,
    sizes: list[int],
    remaining: Tensor,
    taken: Tensor,
    claims_used: bool,
) -> tuple[Tensor, Tensor]:
    """Lanes that each offer claims, and in which its object was used before; by whole steps."""
    columns = (offers.detection, offers.ground_truth, offers.bits, uses)
    outcomes = []
    for detection, ground_truth, bits, use in zip(
        *(torch.split(column, sizes) for column in columns), strict=True
    ):
        left, used = remaining.index_select(0, detection), taken.index_select(0, ground_truth)
        claim = _claim(left, bits, used, claims_used)
        remaining.index_copy_(0, detection, left & ~claim)
        taken.index_copy_(0, ground_truth, used | (claim & use))
        outcomes.append((claim, used))
    claims, before = zip(*outcomes, strict=True)
    return torch.cat(claims), torch.cat(before)


def _claims_one_by_one(
    offers: _Offers, uses: Tensor, taken: Tensor, claims_used: bool
) -> tuple[Tensor, Tensor]:
    """The same in a plain loop, for few offers on the host."""
    columns = (offers.detection, offers.ground_truth, offers.bits, uses)
    earlier = taken.index_select(0, offers.ground_truth).tolist()
    lanes = dict(zip(offers.ground_truth.tolist(), earlier, strict=True))
    claims, before = [], []
    current, left = -1, -1
    for detection, ground_truth, bits, use in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        if detection != current:
            current, left = detection, -1
        used = lanes[ground_truth]
        claim = _claim(left, bits, used, claims_used)
        if claim:
            left &= ~claim
            lanes[ground_truth] = used | (claim & use)
        claims.append(claim)
        before.append(used)
    # NumPy reads a list six times faster than torch.
    taken.numpy()[np.array(list(lanes), dtype=np.int64)] = list(lanes.values())
    made, used_before = (np.array(words, dtype=np.int64) for words in (claims, before))
    return torch.from_numpy(made), torch.from_numpy(used_before)
