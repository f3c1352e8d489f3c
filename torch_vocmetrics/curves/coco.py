"""From a ranking to curves read at recall levels, as COCOeval.accumulate does.

All area ranges, limits of detections, IoU thresholds and classes are curves of one flat table of
true positives, in the order [A, M, T, K]: a few operations on many numbers. Recall levels come
first in what is read, so that a maximum over later levels compares long rows.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Self

import torch
from torch import Tensor

from ..lanes import area_position, columns
from ..ops.selection import rows_where, take, take_along
from ..ops.sums import maximum_from_here, sums_before
from ..protocols import DetectionProtocol
from ..transfer import from_host
from .ranking import Ranking


class Interpolated(NamedTuple):
    """Curves of A area ranges, M limits, T IoU thresholds and K classes, read at R recall levels.

    Attributes:
        precision: [R, A, M, T, K] float64, 0 at levels that are not reached.
        scores: [R, A, M, T, K] as the detections have them, likewise.
    """

    precision: Tensor
    scores: Tensor


class Counts(NamedTuple):
    """What the same curves end with: true positives and false positives, [A, M, T, K] int64."""

    true_positives: Tensor
    false_positives: Tensor


class AtLargestLimit(NamedTuple):
    """The same curves under the largest limit alone, without scores, and counts of all limits.

    Attributes:
        precision: [R, A, T, K] float64, 0 at levels that are not reached; it means nothing for
            classes without positives.
        true_positives: [A, M, T, K] int64.
        false_positives: [A, T, K] int64, under the largest limit.
    """

    precision: Tensor
    true_positives: Tensor
    false_positives: Tensor


def interpolate(
    ranking: Ranking, areas: range, limits: range, protocol: DetectionProtocol
) -> tuple[Interpolated, Counts]:
    """Precision and score at recall levels, and counts.

    Precision ``tp / (tp + fp + epsilon)`` made monotone from the right and read at the first
    detection whose recall ``tp / npos`` reaches the level. Only true positives can be such a
    detection (but for level 0), so only they are looked at. NaN for classes without positives.

    Args:
        ranking: detections of some classes.
        areas: the area ranges.
        limits: indices among those of the ranking; behind the last comes that of no limit.
        protocol: recall levels and epsilon.
    """
    levels = from_host(protocol.recall_levels, torch.float64, ranking.scores.device)
    npos = ranking.num_positives[areas.start : areas.stop]
    hits = _hits(_Outcomes.of(ranking, areas, limits), ranking.class_starts)
    reached = _Reached.of(hits.found.amax(dim=(1, 2)), npos, levels)
    precision = _best_precision(hits, reached, protocol.precision_epsilon)
    scores = _first_scores(hits, reached, ranking, levels)
    undefined = (npos == 0)[:, None, None]
    arrays = Interpolated(
        precision.masked_fill_(undefined, math.nan), scores.masked_fill_(undefined, math.nan)
    )
    return arrays, Counts(hits.found, hits.total - hits.found)


def at_largest_limit(ranking: Ranking, areas: range, protocol: DetectionProtocol) -> AtLargestLimit:
    """What the numbers of a result need: a third of :func:`interpolate` with COCO's three limits.

    Arguments are those of :func:`interpolate`.
    """
    levels = from_host(protocol.recall_levels, torch.float64, ranking.scores.device)
    npos = ranking.num_positives[areas.start : areas.stop]
    largest = len(ranking.within)
    outcomes = _Outcomes.of(ranking, areas, range(largest, largest + 1))
    hits = _hits(outcomes, ranking.class_starts)
    reached = _Reached.of(hits.found.amax(dim=(1, 2)), npos, levels)
    found = [_found_within(limit, outcomes, hits) for limit in ranking.within]
    return AtLargestLimit(
        _best_precision(hits, reached, protocol.precision_epsilon).squeeze(2),
        torch.cat([*found, hits.found], dim=1),
        (hits.total - hits.found).squeeze(1),
    )


class _Reached(NamedTuple):
    """Which recall levels the n-th true positive of an area range and class reaches, n from 1 on.

    Attributes:
        levels: how many levels, for each area range, class and n that occurs.
        starts: [A, 1, 1, K] where area ranges and classes begin in ``levels``.
        needed: [R, A, 1, 1, K] the least n that reaches a level.
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
        index = torch.arange(1, size + 1, device=npos.device) - starts.index_select(0, kind)
        recall = index / npos.flatten().double().index_select(0, kind)
        count = torch.searchsorted(levels, recall, right=True)
        width = levels.shape[0] + 1
        wanted = torch.arange(1, width, device=npos.device) + (kinds * width).unsqueeze(1)
        needed = torch.searchsorted(count + kind * width, wanted).sub_(starts.unsqueeze(1)).add_(1)
        needed = needed.reshape(*shape, -1).permute(4, 0, 1, 2, 3)
        return cls(count, starts.reshape(shape), needed)


class _Outcomes(NamedTuple):
    """What the rows of a ranking are in each area range and under each limit.

    Most rows are ignored at all thresholds or at none; of the U matched detections some, V, are
    not.

    Attributes:
        matched: [U] rows.
        active: [A, M, N] whether a row is not ignored at all thresholds.
        hit: [A, M, T, U] true positives.
        mixed: [V] rows that are ignored at some thresholds, but not at all, of any area range.
        mixed_up_to: [U] int32, how many of the latter come up to each matched detection.
        off: [A, M, T, V] whether they are ignored though ``active``.
    """

    matched: Tensor
    active: Tensor
    hit: Tensor
    mixed: Tensor
    mixed_up_to: Tensor
    off: Tensor

    @classmethod
    def of(cls, ranking: Ranking, areas: range, limits: range) -> Self:
        lanes, matched = ranking.lanes, ranking.matched
        # Area by area, as bits that are no longer packed are large.
        indices = [[lanes.position(area, t) for t in range(lanes.num_thresholds)] for area in areas]
        masks = from_host([lanes.area_bits(area) for area in areas], torch.int64, matched.device)
        ignored = ranking.ignored & masks.unsqueeze(1)
        somewhere = (ignored != masks.unsqueeze(1)).any(dim=2)
        active = ~columns(ranking.out_of_range, [area_position(area) for area in areas])
        active.scatter_(1, matched.expand(len(areas), -1), somewhere)
        every = (*ranking.within, torch.ones_like(active[0]))
        within = torch.stack([every[limit] for limit in limits])
        hit = torch.stack([columns(ranking.true_positive, of_area) for of_area in indices])
        is_mixed = ((ignored != 0).any(dim=2) & somewhere).any(dim=0)
        mixed = rows_where(is_mixed)
        ignored = take(ranking.ignored, mixed)
        off = torch.stack([columns(ignored, of_area) for of_area in indices])
        off &= take_along(somewhere, mixed).unsqueeze(1)
        rows = matched.index_select(0, mixed)
        return cls(
            matched,
            active.unsqueeze(1) & within,
            hit.unsqueeze(1) & take_along(within, matched).unsqueeze(1),
            rows,
            torch.cumsum(is_mixed, dim=0, dtype=torch.int32),
            off.unsqueeze(1) & take_along(within, rows).unsqueeze(1),
        )


class _Hits(NamedTuple):
    """The H true positives of all curves, each by falling score.

    Attributes:
        match: [H] which of the matched detections they are.
        row: [H] rows of the ranking.
        curve: [H] index of the curve in [A, M, T, K].
        seen: [H] how many detections of the curve that are not ignored come up to here.
        firsts: [A, M, T, K] where the curves begin among the hits.
        found, total: [A, M, T, K] true positives and detections that are not ignored.
    """

    match: Tensor
    row: Tensor
    curve: Tensor
    seen: Tensor
    firsts: Tensor
    found: Tensor
    total: Tensor


def _hits(outcomes: _Outcomes, class_starts: Tensor) -> _Hits:
    """Count along all curves at once; of each table of sums only what is asked is kept."""
    matched, mixed, device = outcomes.matched, outcomes.mixed, class_starts.device
    width, (*families, _) = matched.shape[0], outcomes.hit.shape
    # Half the memory, where that can count the entries of every table.
    whole = torch.int32 if outcomes.hit.numel() < 2**30 else torch.int64
    bounds = torch.searchsorted(matched, class_starts)
    # Places in the flattened table rise, so that the curves are runs of them.
    indices = rows_where(outcomes.hit.flatten())
    firsts = torch.arange(math.prod(families), device=device) * width
    ends = torch.searchsorted(indices, firsts.unsqueeze(1) + bounds).reshape(*families, -1)
    indices = indices.to(whole)
    found = ends.diff(dim=-1)
    hits_of_family = found.sum(dim=-1).flatten()
    family = torch.repeat_interleave(hits_of_family, output_size=indices.shape[0]).to(whole)
    match = indices.sub_(family * width)

    asked = torch.cat([matched + 1, class_starts])
    sums = take_along(sums_before(outcomes.active, torch.int32), asked)
    before = sums[..., width:].unsqueeze(2)
    entry = torch.arange(firsts.shape[0], device=device) // families[-1] * sums.shape[2]
    entry = entry.to(whole).index_select(0, family).add_(match)
    seen = sums.flatten().index_select(0, entry)

    sums = sums_before(outcomes.off, torch.int32)
    before = before - take_along(sums, torch.searchsorted(mixed, class_starts))
    entry = outcomes.mixed_up_to.to(whole).index_select(0, match)
    entry.add_(family, alpha=sums.shape[3])
    seen -= sums.flatten().index_select(0, entry)
    del sums, entry

    label = torch.searchsorted(class_starts[1:], matched, right=True).to(whole)
    curve = label.index_select(0, match).add_(family, alpha=class_starts.shape[0] - 1)
    seen -= before[..., :-1].flatten().index_select(0, curve)
    row = matched.to(whole).index_select(0, match)
    return _Hits(match, row, curve, seen, ends[..., :-1], found, before.diff(dim=-1).long())


def _found_within(within: Tensor, outcomes: _Outcomes, hits: _Hits) -> Tensor:
    """[A, 1, T, K] int64 true positives among the rows ``within`` [N] a smaller limit."""
    inside = within.index_select(0, outcomes.matched).index_select(0, hits.match)
    found = torch.zeros_like(hits.found)
    found.view(-1).index_add_(0, hits.curve, inside.to(found.dtype))
    return found


def _best_precision(hits: _Hits, reached: _Reached, epsilon: float) -> Tensor:
    """[R, A, M, T, K] largest precision of the hits that reach a level; 0 where none does."""
    curves, width = hits.found.numel(), reached.needed.shape[0] + 1
    number = torch.arange(hits.row.shape[0], dtype=hits.row.dtype, device=hits.row.device)
    entry = (reached.starts - hits.firsts).flatten().to(number.dtype)
    level = reached.levels.index_select(0, entry.index_select(0, hits.curve).add_(number))
    index = number.add_(1).sub_(hits.firsts.flatten().to(number.dtype).index_select(0, hits.curve))
    precision = hits.seen.double().add_(epsilon)
    torch.div(index, precision, out=precision)
    spots = level.mul_(curves).add_(hits.curve)
    best = precision.new_zeros(curves * width).scatter_reduce_(0, spots, precision, "amax")
    best = maximum_from_here(best.reshape(width, curves)[1:])
    return best.reshape(-1, *hits.found.shape)


def _first_scores(hits: _Hits, reached: _Reached, ranking: Ranking, levels: Tensor) -> Tensor:
    """[R, A, M, T, K] the score at which a level is reached, 0 where it is not.

    Recall 0 is reached by the first detection, whatever its outcome.
    """
    nothing, starts = ranking.scores.shape[0], ranking.class_starts
    # The entries behind the last are those of what is not there.
    scores = torch.nn.functional.pad(ranking.scores, (0, 1))
    rows = torch.nn.functional.pad(hits.row, (0, 1), value=nothing)
    needed, found, firsts = (
        whole.to(rows.dtype) for whole in (reached.needed, hits.found, hits.firsts)
    )
    index = (firsts - 1) + needed
    index.masked_fill_(needed > found, hits.row.shape[0])
    row = rows.index_select(0, index.flatten()).reshape(index.shape)
    first = torch.where(starts.diff() > 0, starts[:-1], nothing).to(row.dtype)
    row = torch.where((levels <= 0).reshape(-1, 1, 1, 1, 1), first, row)
    return scores.index_select(0, row.flatten()).reshape(index.shape)
