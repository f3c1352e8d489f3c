"""From a ranking to curves read at recall levels, as COCOeval.accumulate does.

All area ranges, limits of detections, IoU thresholds and classes are curves of one flat table of
true positives, in the order [A, M, T, K]: a few operations on many numbers.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Self

import torch
from torch import Tensor

from .lanes import area_place, columns
from .ops.selection import rows_where, take, take_along
from .ops.sums import sums_before
from .protocols import DetectionProtocol
from .ranking import Ranking
from .transfer import from_host


class Interpolated(NamedTuple):
    """Curves of A area ranges, M limits, T IoU thresholds and K classes, read at R recall levels.

    Attributes:
        precision: [A, M, T, K, R] float64, 0 at levels that are not reached.
        scores: [A, M, T, K, R] as the detections have them, likewise.
        recall: [A, M, T, K] float64, the largest recall.
        true_positives, false_positives: [A, M, T, K] int64.
    """

    precision: Tensor
    scores: Tensor
    recall: Tensor
    true_positives: Tensor
    false_positives: Tensor


def interpolate(
    ranking: Ranking, areas: range, limits: range, protocol: DetectionProtocol
) -> Interpolated:
    """Precision and score at recall levels.

    Precision ``tp / (tp + fp + epsilon)`` made monotone from the right and read at the first
    detection whose recall ``tp / npos`` reaches the level. Only true positives can be such a
    detection (but for level 0), so only they are looked at. NaN for classes without positives.

    Args:
        ranking: detections of some classes.
        areas: the area ranges.
        limits: places among those of the ranking; behind the last comes that of no limit.
        protocol: recall levels and epsilon.
    """
    levels = torch.tensor(protocol.recall_levels, dtype=torch.float64, device=ranking.scores.device)
    npos = ranking.num_positives[areas.start : areas.stop]
    hits = _hits(_Outcomes.of(ranking, areas, limits), ranking.class_starts)
    reached = _Reached.of(hits.found.amax(dim=(1, 2)), npos, levels)
    precision = _best_precision(hits, reached, protocol.precision_epsilon)
    scores = _first_scores(hits, reached, ranking, levels)
    npos = npos[:, None, None]
    undefined = npos == 0
    return Interpolated(
        precision.masked_fill_(undefined.unsqueeze(-1), math.nan),
        scores.masked_fill_(undefined.unsqueeze(-1), math.nan),
        (hits.found / npos.double()).masked_fill_(undefined, math.nan),
        hits.found,
        hits.total - hits.found,
    )


class _Reached(NamedTuple):
    """Which recall levels the n-th true positive of an area range and class reaches, n from 1 on.

    Attributes:
        levels: how many levels, for each area range, class and n that occurs.
        starts: [A, 1, 1, K] where area ranges and classes begin in ``levels``.
        needed: [A, 1, 1, K, R] the least n that reaches a level.
    """

    levels: Tensor
    starts: Tensor
    needed: Tensor

    @classmethod
    def of(cls, most: Tensor, npos: Tensor, levels: Tensor) -> Self:
        """For up to ``most`` [A, K] of ``npos`` [A, K] positives, and rising ``levels`` [R]."""
        shape, most = (npos.shape[0], 1, 1, npos.shape[1]), most.flatten()
        starts, size = torch.cumsum(most, dim=0) - most, int(most.sum())
        kinds = torch.arange(most.shape[0], device=npos.device)
        kind = torch.repeat_interleave(kinds, most, output_size=size)
        place = torch.arange(1, size + 1, device=npos.device) - starts.index_select(0, kind)
        recall = place / npos.flatten().double().index_select(0, kind)
        count = torch.searchsorted(levels, recall, right=True)
        width = levels.shape[0] + 1
        wanted = torch.arange(1, width, device=npos.device) + (kinds * width).unsqueeze(1)
        needed = torch.searchsorted(count + kind * width, wanted).sub_(starts.unsqueeze(1)).add_(1)
        return cls(count, starts.reshape(shape), needed.reshape(*shape, -1))


class _Outcomes(NamedTuple):
    """What the rows of a ranking are in each area range and under each limit.

    Most rows are ignored at all thresholds or at none; of the U claimants some, V, are not.

    Attributes:
        claimant: [U] rows.
        active: [A, M, N] whether a row is not ignored at all thresholds.
        hit: [A, M, T, U] true positives.
        mixed: [V] rows that are ignored at some thresholds, but not at all, of any area range.
        mixed_up_to: [U] int32, how many of the latter come up to each claimant.
        off: [A, M, T, V] whether they are ignored though ``active``.
    """

    claimant: Tensor
    active: Tensor
    hit: Tensor
    mixed: Tensor
    mixed_up_to: Tensor
    off: Tensor

    @classmethod
    def of(cls, ranking: Ranking, areas: range, limits: range) -> Self:
        lanes, claimant = ranking.lanes, ranking.claimant
        # Area by area, as bits that are no longer packed are large.
        places = [[lanes.place(area, t) for t in range(lanes.num_thresholds)] for area in areas]
        masks = from_host([lanes.area_bits(area) for area in areas], torch.int64, claimant.device)
        ignored = ranking.ignored & masks.unsqueeze(1)
        somewhere = (ignored != masks.unsqueeze(1)).any(dim=2)
        active = ~columns(ranking.out_of_range, [area_place(area) for area in areas])
        active.scatter_(1, claimant.expand(len(areas), -1), somewhere)
        every = (*ranking.within, torch.ones_like(active[0]))
        within = torch.stack([every[limit] for limit in limits])
        hit = torch.stack([columns(ranking.true_positive, of_area) for of_area in places])
        is_mixed = ((ignored != 0).any(dim=2) & somewhere).any(dim=0)
        mixed = rows_where(is_mixed)
        ignored = take(ranking.ignored, mixed)
        off = torch.stack([columns(ignored, of_area) for of_area in places])
        off &= take_along(somewhere, mixed).unsqueeze(1)
        rows = claimant.index_select(0, mixed)
        return cls(
            claimant,
            active.unsqueeze(1) & within,
            hit.unsqueeze(1) & take_along(within, claimant).unsqueeze(1),
            rows,
            torch.cumsum(is_mixed, dim=0, dtype=torch.int32),
            off.unsqueeze(1) & take_along(within, rows).unsqueeze(1),
        )


class _Hits(NamedTuple):
    """The H true positives of all curves, each by falling score.

    Attributes:
        row: [H] rows of the ranking.
        curve: [H] place of the curve in [A, M, T, K].
        seen: [H] how many detections of the curve that are not ignored come up to here.
        firsts: [A, M, T, K] where the curves begin among the hits.
        found, total: [A, M, T, K] true positives and detections that are not ignored.
    """

    row: Tensor
    curve: Tensor
    seen: Tensor
    firsts: Tensor
    found: Tensor
    total: Tensor


def _hits(outcomes: _Outcomes, class_starts: Tensor) -> _Hits:
    """Count along all curves at once; of each table of sums only what is asked is kept."""
    claimant, mixed, device = outcomes.claimant, outcomes.mixed, class_starts.device
    width, (*families, _) = claimant.shape[0], outcomes.hit.shape
    # Half the memory, where that can count the entries of every table.
    whole = torch.int32 if outcomes.hit.numel() < 2**30 else torch.int64
    bounds = torch.searchsorted(claimant, class_starts)
    # Places in the flattened table rise, so that the curves are runs of them.
    places = rows_where(outcomes.hit.flatten())
    firsts = torch.arange(math.prod(families), device=device) * width
    ends = torch.searchsorted(places, firsts.unsqueeze(1) + bounds).reshape(*families, -1)
    places = places.to(whole)
    found = ends.diff(dim=-1)
    hits_of_family = found.sum(dim=-1).flatten()
    family = torch.repeat_interleave(hits_of_family, output_size=places.shape[0]).to(whole)
    claim = places.sub_(family * width)

    asked = torch.cat([claimant + 1, class_starts])
    sums = take_along(sums_before(outcomes.active, torch.int32), asked)
    before = sums[..., width:].unsqueeze(2)
    entry = torch.arange(firsts.shape[0], device=device) // families[-1] * sums.shape[2]
    entry = entry.to(whole).index_select(0, family).add_(claim)
    seen = sums.flatten().index_select(0, entry)

    sums = sums_before(outcomes.off, torch.int32)
    before = before - take_along(sums, torch.searchsorted(mixed, class_starts))
    entry = outcomes.mixed_up_to.to(whole).index_select(0, claim)
    entry.add_(family, alpha=sums.shape[3])
    seen -= sums.flatten().index_select(0, entry)
    del sums, entry

    label = torch.searchsorted(class_starts[1:], claimant, right=True).to(whole)
    curve = label.index_select(0, claim).add_(family, alpha=class_starts.shape[0] - 1)
    seen -= before[..., :-1].flatten().index_select(0, curve)
    row = claimant.to(whole).index_select(0, claim)
    return _Hits(row, curve, seen, ends[..., :-1], found, before.diff(dim=-1).long())


def _best_precision(hits: _Hits, reached: _Reached, epsilon: float) -> Tensor:
    """[A, M, T, K, R] largest precision of the hits that reach a level; 0 where none does."""
    curves, width = hits.found.numel(), reached.needed.shape[-1] + 1
    number = torch.arange(hits.row.shape[0], dtype=hits.row.dtype, device=hits.row.device)
    entry = (reached.starts - hits.firsts).flatten().to(number.dtype)
    level = reached.levels.index_select(0, entry.index_select(0, hits.curve).add_(number))
    place = number.add_(1).sub_(hits.firsts.flatten().to(number.dtype).index_select(0, hits.curve))
    precision = hits.seen.double().add_(epsilon)
    torch.div(place, precision, out=precision)
    spots = level.add_(hits.curve, alpha=width)
    best = precision.new_zeros(curves * width).scatter_reduce_(0, spots, precision, "amax")
    best = best.reshape(curves, width)[:, 1:].flip(1).cummax(dim=1).values.flip(1)
    return best.reshape(*hits.found.shape, -1)


def _first_scores(hits: _Hits, reached: _Reached, ranking: Ranking, levels: Tensor) -> Tensor:
    """[A, M, T, K, R] the score at which a level is reached, 0 where it is not.

    Recall 0 is reached by the first detection, whatever its outcome.
    """
    nothing, starts = ranking.scores.shape[0], ranking.class_starts
    # The entries behind the last are those of what is not there.
    scores = torch.nn.functional.pad(ranking.scores, (0, 1))
    rows = torch.nn.functional.pad(hits.row, (0, 1), value=nothing)
    needed, found, firsts = (
        whole.to(rows.dtype) for whole in (reached.needed, hits.found, hits.firsts)
    )
    place = (firsts - 1).unsqueeze(-1) + needed
    place.masked_fill_(needed > found.unsqueeze(-1), hits.row.shape[0])
    row = rows.index_select(0, place.flatten()).reshape(place.shape)
    first = torch.where(starts.diff() > 0, starts[:-1], nothing).to(row.dtype).unsqueeze(1)
    row = torch.where(levels <= 0, first, row)
    return scores.index_select(0, row.flatten()).reshape(place.shape)
