"""The one matcher: detections claim objects greedily, in every lane at once.

It knows bits and an order of preference, no boxes, scores or protocols. A detection goes through
its pairs, first those whose object counts, then those whose object is ignored, each by falling
overlap. In the lanes that a pair offers, that the detection has left, and in which the object is
not used up, it claims the object; lanes without a claim stay unmatched.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from ..ops.ordering import rank_in_group

Bits = TypeVar("Bits", int, Tensor)

SEQUENTIAL_BELOW = 150
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
        group: [N] int64, rising; detections of different groups share no object.
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
    pairs = pairs.rows(((pairs.counted | pairs.ignored) != 0).nonzero().squeeze(1))
    positive, ignored = torch.zeros_like(out_of_range), torch.zeros_like(out_of_range)
    one_each = torch.ones_like(pairs.detection)
    choices = torch.zeros_like(group).index_add(0, pairs.detection, one_each)
    # An object is contested if a detection could choose another one instead.
    picky = choices.index_select(0, pairs.detection) > 1
    contested = torch.zeros_like(exclusive, dtype=torch.bool)
    contested[pairs.ground_truth[picky]] = True
    simple = ~contested.index_select(0, pairs.ground_truth)
    alone = pairs.rows(simple.nonzero().squeeze(1))
    _claim_alone(alone, exclusive, positive, ignored, claims_used)
    offers = _offers(pairs.rows((~simple).nonzero().squeeze(1)), last_wins=last_wins)
    _claim_in_turn(offers, group, exclusive, positive, ignored, claims_used)
    return positive, ignored | (out_of_range & ~(positive | ignored))


def _best_pairs(candidates: Candidates, num_detections: int, *, last_wins: bool) -> Tensor:
    """Rows of the pair of largest overlap of each detection that has one."""
    detection, overlap = candidates.detection, candidates.overlap
    largest = overlap.new_full((num_detections,), -1.0)
    largest = largest.scatter_reduce(0, detection, overlap, "amax")
    row = torch.arange(detection.shape[0], device=detection.device)
    rows = row[overlap == largest.index_select(0, detection)]
    chosen = row.new_full((num_detections,), -1 if last_wins else detection.shape[0])
    mode = "amax" if last_wins else "amin"
    chosen = chosen.scatter_reduce(0, detection.index_select(0, rows), rows, mode)
    return chosen[(chosen >= 0) & (chosen < detection.shape[0])]


def _claim_alone(
    pairs: Candidates, exclusive: Tensor, positive: Tensor, ignored: Tensor, claims_used: bool
) -> None:
    """Closed form for detections with one candidate: what came before on the object is an OR."""
    pairs = pairs.rows(torch.argsort(pairs.ground_truth, stable=True))
    offered = pairs.counted | pairs.ignored
    used = offered & exclusive.index_select(0, pairs.ground_truth)
    before = _or_of_earlier(used, pairs.ground_truth)
    stale = offered & before if claims_used else torch.zeros_like(before)
    positive.index_copy_(0, pairs.detection, pairs.counted & ~before)
    ignored.index_copy_(0, pairs.detection, (pairs.ignored & ~before) | stale)


def _or_of_earlier(bits: Tensor, group: Tensor) -> Tensor:
    """[P]: OR of ``bits`` over the earlier rows of the same group, by doubling; ``group`` rises."""
    rank = rank_in_group(group)
    longest = int(rank.max()) if rank.numel() else 0
    seen = torch.zeros_like(bits)
    seen[1:] = torch.where(rank[1:] > 0, bits[:-1], 0)
    step = 1
    while step < longest:
        reach = torch.zeros_like(bits)
        reach[step:] = torch.where(rank[step:] >= step, seen[:-step], 0)
        seen = seen | reach
        step *= 2
    return seen


class _Offers(NamedTuple):
    """Pairs in the order in which they are made; ``counts`` says which pass an offer belongs to."""

    detection: Tensor
    ground_truth: Tensor
    bits: Tensor
    counts: Tensor

    def rows(self, index: Tensor) -> _Offers:
        return _Offers(*(column.index_select(0, index) for column in self))


def _offers(pairs: Candidates, *, last_wins: bool) -> _Offers:
    """By detection, pass (counted before ignored), falling overlap, then object."""
    counted = pairs.counted.nonzero().squeeze(1)
    ignored = pairs.ignored.nonzero().squeeze(1)
    rows = torch.cat([counted, ignored])
    counts = torch.ones_like(rows, dtype=torch.bool)
    counts[counted.shape[0] :] = False
    offers = _Offers(
        pairs.detection.index_select(0, rows),
        pairs.ground_truth.index_select(0, rows),
        torch.cat([pairs.counted.index_select(0, counted), pairs.ignored.index_select(0, ignored)]),
        counts,
    )
    preference = torch.cat(
        [pairs.overlap.index_select(0, counted), pairs.ignore_overlap.index_select(0, ignored)]
    )
    # Stable sorts from the last key to the first.
    made = torch.argsort(offers.ground_truth, descending=last_wins, stable=True)
    made = made[torch.argsort(preference[made], descending=True, stable=True)]
    turn = 2 * offers.detection + (~counts).long()
    return offers.rows(made[torch.argsort(turn[made], stable=True)])


def _claim(remaining: Bits, offered: Bits, taken: Bits, claims_used: bool) -> tuple[Bits, Bits]:
    """The rule itself: lanes of a claim, and those among them in which the object was used."""
    claim = remaining & offered if claims_used else remaining & offered & ~taken
    return claim, claim & taken


def _claim_in_turn(
    offers: _Offers,
    group: Tensor,
    exclusive: Tensor,
    positive: Tensor,
    ignored: Tensor,
    claims_used: bool,
) -> None:
    """One offer of each group at a time; groups share neither detections nor objects."""
    if offers.detection.numel() == 0:
        return
    step = rank_in_group(group.index_select(0, offers.detection))
    steps = int(step.max()) + 1
    if offers.detection.numel() < SEQUENTIAL_BELOW * steps and not offers.detection.is_cuda:
        _claim_sequentially(offers, exclusive, positive, ignored, claims_used)
        return
    offers = offers.rows(torch.argsort(step, stable=True))
    sizes = torch.zeros(steps, dtype=torch.int64, device=step.device)
    sizes = sizes.index_add(0, step, torch.ones_like(step))
    remaining, taken = torch.full_like(positive, -1), torch.zeros_like(exclusive)
    for detection, ground_truth, bits, counts in zip(
        *(torch.split(column, sizes.tolist()) for column in offers), strict=True
    ):
        left, used = remaining.index_select(0, detection), taken.index_select(0, ground_truth)
        claim, stale = _claim(left, bits, used, claims_used)
        uses = claim & exclusive.index_select(0, ground_truth)
        taken.index_copy_(0, ground_truth, used | uses)
        remaining.index_copy_(0, detection, left & ~claim)
        positive.index_add_(0, detection, torch.where(counts, claim & ~stale, 0))
        ignored.index_add_(0, detection, torch.where(counts, stale, claim))


def _claim_sequentially(
    offers: _Offers, exclusive: Tensor, positive: Tensor, ignored: Tensor, claims_used: bool
) -> None:
    """The same in a plain loop, for few offers."""
    uses = exclusive.index_select(0, offers.ground_truth).tolist()
    columns = (column.tolist() for column in offers)
    taken: dict[int, int] = {}
    claims: dict[int, list[int]] = {}
    for (detection, ground_truth, bits, counts), use in zip(
        zip(*columns, strict=True), uses, strict=True
    ):
        mine = claims.setdefault(detection, [0, 0])
        used = taken.get(ground_truth, 0)
        claim, stale = _claim(~(mine[0] | mine[1]), bits, used, claims_used)
        taken[ground_truth] = used | (claim & use)
        mine[0 if counts else 1] |= claim & ~stale
        mine[1] |= stale
    device = positive.device
    rows = torch.tensor(list(claims), dtype=torch.int64, device=device)
    outcome = torch.tensor(list(claims.values()), dtype=torch.int64, device=device)
    positive.index_copy_(0, rows, outcome[:, 0])
    ignored.index_copy_(0, rows, outcome[:, 1])
