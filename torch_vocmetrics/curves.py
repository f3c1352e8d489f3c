"""From a ranking to precision-recall curves: integer counts and single IEEE operations only."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .lanes import columns, in_area
from .ops.selection import rows_where, take
from .protocols import DetectionProtocol
from .ranking import Ranking

Floats = NDArray[np.float64]


class CumulativeCounts(NamedTuple):
    """[T, N] int64 on the host, counted from the first detection of the class on."""

    true_positives: NDArray[np.int64]
    false_positives: NDArray[np.int64]


def cumulative_counts(ranking: Ranking, area: int = 0) -> CumulativeCounts:
    """Cumulative true and false positives at every detection, for each IoU threshold."""
    lanes = ranking.lanes
    columns = []
    for threshold in range(lanes.num_thresholds):
        positive, ignored = ranking.outcomes(area, threshold)
        negative = ~(positive | ignored)
        columns.append(torch.stack([_sums(positive, ranking), _sums(negative, ranking)]))
    counts = torch.stack(columns, dim=1).cpu().numpy()
    return CumulativeCounts(counts[0], counts[1])


def _sums(bits: Tensor, ranking: Ranking) -> Tensor:
    """[N] int64: how many ``bits`` are set up to each row, since the start of its class."""
    total = torch.nn.functional.pad(torch.cumsum(bits, dim=0), (1, 0))
    starts = ranking.class_starts
    before = torch.repeat_interleave(
        total.index_select(0, starts[:-1]), starts.diff(), output_size=bits.shape[0]
    )
    return total[1:] - before


def precision_recall(
    true_positives: NDArray[np.int64], false_positives: NDArray[np.int64], num_positives: int
) -> tuple[Floats, Floats]:
    """Recall ``tp / npos`` and precision ``tp / (tp + fp)`` [N], NaN for 0/0 (VOCevaldet.m)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        recall = true_positives / np.float64(num_positives)
        precision = true_positives / (true_positives + false_positives)
    return recall, precision


def normalized_precision(
    recall: Floats, precision: Floats, num_positives: int, expected_positives: float
) -> Floats:
    """Precision ``R N / (R N + F)`` [N] as if a class had N positives, at recall R after F errors.

    Both counts behind ``recall`` and ``precision`` are whole numbers and so can be recovered from
    their quotients exactly. NaN for 0/0.

    Source: Hoiem, Chodpathumwan and Dai, ECCV 2012, section 2.3.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        true_positives = np.rint(recall * num_positives)
        found = true_positives > 0
        errors = np.where(found, np.rint(true_positives / precision) - true_positives, 0.0)
        expected = true_positives / np.float64(num_positives) * expected_positives
        return np.where(found, expected / (expected + errors), precision)


def roc_points(scores: Floats, targets: NDArray[np.int8]) -> tuple[Floats, Floats]:
    """False and true positive rate at each distinct score, (0, 0) before and (1, 1) after.

    Args:
        scores: [N] falling, NaN last; each NaN stands alone.
        targets: [N] 1 for positives, -1 for negatives, 0 for neither.

    Source: VOCroc.m of VOC2006.
    """
    last = np.ones(scores.size, dtype=bool)
    last[:-1] = scores[:-1] != scores[1:]
    rates = []
    with np.errstate(divide="ignore", invalid="ignore"):
        for hits in (targets < 0, targets > 0):
            rate = np.cumsum(hits)[last] / np.float64(hits.sum())
            rates.append(np.concatenate(([0.0], rate, [1.0])))
    return rates[0], rates[1]


class Interpolated(NamedTuple):
    """Curves read at R recall levels, an entry per IoU threshold.

    Attributes:
        precision: [T, K, R] float64, 0 at levels that are not reached.
        scores: [T, K, R] as the detections have them, likewise.
        recall: [T, K] float64, the largest recall.
        true_positives, false_positives: [T, K] int64.
    """

    precision: Tensor
    scores: Tensor
    recall: Tensor
    true_positives: Tensor
    false_positives: Tensor


def interpolate(ranking: Ranking, area: int, protocol: DetectionProtocol) -> Iterator[Interpolated]:
    """Precision and score at recall levels, for each IoU threshold, as COCOeval.accumulate.

    One for each limit of detections that the ranking knows, then one without a limit.

    Precision ``tp / (tp + fp + epsilon)`` made monotone from the right and read at the first
    detection whose recall ``tp / npos`` reaches the level. Only true positives can be such a
    detection (but for level 0), so only they are looked at. NaN for classes without positives.

    Args:
        ranking: detections of some classes.
        area: the area range.
        protocol: recall levels and epsilon.
    """
    levels = torch.tensor(protocol.recall_levels, dtype=torch.float64, device=ranking.scores.device)
    npos = ranking.num_positives[area]
    reached = _Reached.of(npos, levels)
    outcomes = _Outcomes.of(ranking, area)
    # The entry behind the last is the score of what is not there.
    all_scores = torch.nn.functional.pad(ranking.scores, (0, 1))
    for within in (*ranking.within, None):
        hits = _hits(ranking, outcomes, within)
        precision = _best_precision(hits, reached, protocol.precision_epsilon)
        scores = _first_scores(hits, reached, ranking.class_starts, all_scores, levels)
        yield Interpolated(
            precision.masked_fill_((npos == 0).unsqueeze(1), math.nan),
            scores.masked_fill_((npos == 0).unsqueeze(1), math.nan),
            (hits.found / npos.double()).masked_fill_(npos == 0, math.nan),
            hits.found,
            hits.total - hits.found,
        )


class _Reached(NamedTuple):
    """Which recall levels the n-th true positive of a class reaches, n from 1 on.

    Attributes:
        levels: [sum of positives] how many levels, for each class and n.
        starts: [K] where the classes begin in ``levels``.
        needed: [K, R] the least n that reaches a level.
    """

    levels: Tensor
    starts: Tensor
    needed: Tensor

    @classmethod
    def of(cls, npos: Tensor, levels: Tensor) -> Self:
        """For classes of ``npos`` [K] positives and rising ``levels`` [R]."""
        starts, size = torch.cumsum(npos, dim=0) - npos, int(npos.sum())
        classes = torch.arange(npos.shape[0], device=npos.device)
        label = torch.repeat_interleave(classes, npos, output_size=size)
        place = torch.arange(1, size + 1, device=npos.device) - starts.index_select(0, label)
        recall = place / npos.double().index_select(0, label)
        count = torch.searchsorted(levels, recall, right=True)
        width = levels.shape[0] + 1
        wanted = torch.arange(1, width, device=npos.device) + (classes * width).unsqueeze(1)
        first = torch.searchsorted(count + label * width, wanted)
        return cls(count, starts, first - starts.unsqueeze(1) + 1)


class _Outcomes(NamedTuple):
    """What the rows of a ranking are in an area range.

    Most rows are ignored at all thresholds or at none; the U claimants that are not, and those that
    are a true positive at any, are looked at threshold by threshold.

    Attributes:
        active: [N] whether a row is not ignored at all thresholds.
        rows: [U] rows that are looked at.
        bounds: [K + 1] where the classes begin among them.
        hit, off: [T, U] true positives, and rows that are ignored though ``active``.
    """

    active: Tensor
    rows: Tensor
    bounds: Tensor
    hit: Tensor
    off: Tensor

    @classmethod
    def of(cls, ranking: Ranking, area: int) -> Self:
        lanes, starts = ranking.lanes, ranking.class_starts
        places = [lanes.place(area, threshold) for threshold in range(lanes.num_thresholds)]
        mask = torch.tensor(lanes.area_bits(area), device=starts.device)
        ignored = ranking.ignored & mask
        somewhere = (ignored != mask).any(dim=1)
        active = (~in_area(ranking.out_of_range, area)).scatter_(0, ranking.claimant, somewhere)
        partly = (ignored != 0).any(dim=1) & somewhere
        positive = (ranking.true_positive & mask != 0).any(dim=1)
        claims = rows_where(positive | partly)
        rows = ranking.claimant.index_select(0, claims)
        off = columns(take(ignored, claims), places)
        return cls(
            active,
            rows,
            torch.searchsorted(rows, starts),
            columns(take(ranking.true_positive, claims), places),
            off & somewhere.index_select(0, claims),
        )


class _Hits(NamedTuple):
    """The H true positives of an area range, by IoU threshold, then class, then falling score.

    Attributes:
        row: [H] rows of the ranking.
        curve: [H] threshold * K + class.
        seen: [H] how many detections of the curve that are not ignored come up to here.
        firsts: [T, K] where the curves begin among the hits.
        found, total: [T, K] true positives and detections that are not ignored.
    """

    row: Tensor
    curve: Tensor
    seen: Tensor
    firsts: Tensor
    found: Tensor
    total: Tensor


def _hits(ranking: Ranking, outcomes: _Outcomes, within: Tensor | None) -> _Hits:
    """Count along the curves of all thresholds at once, by rows ``within`` [N] bool alone."""
    active, rows, bounds, hit, off = outcomes
    if within is not None:
        active, chosen = active & within, within.index_select(0, rows)
        hit, off = hit & chosen, off & chosen
    active, off = _sums_before(active), _sums_before(off)
    before = active.index_select(0, ranking.class_starts) - off.index_select(1, bounds)
    # Places in the flattened [T, U] table rise, so that the curves are runs of them.
    places = rows_where(hit.flatten())
    thresholds = torch.arange(hit.shape[0], device=rows.device)
    ends = torch.searchsorted(places, (thresholds * rows.shape[0]).unsqueeze(1) + bounds)
    found = ends.diff(dim=1)
    curve, threshold = (
        torch.repeat_interleave(
            torch.arange(count.numel(), device=rows.device), count, output_size=places.shape[0]
        )
        for count in (found.flatten(), found.sum(dim=1))
    )
    row = rows.index_select(0, places - threshold * rows.shape[0])
    seen = active.index_select(0, row + 1) - before[:, :-1].flatten().index_select(0, curve)
    seen = seen - off.flatten().index_select(0, places + threshold + 1)
    return _Hits(row, curve, seen, ends[:, :-1], found, before.diff(dim=1).long())


def _sums_before(bits: Tensor) -> Tensor:
    """[..., N + 1] int32: how many ``bits`` [..., N] are set before each place."""
    sums = bits.new_empty((*bits.shape[:-1], bits.shape[-1] + 1), dtype=torch.int32)
    sums[..., 0] = 0
    torch.cumsum(bits, dim=-1, dtype=torch.int32, out=sums[..., 1:])
    return sums


def _best_precision(hits: _Hits, reached: _Reached, epsilon: float) -> Tensor:
    """[T, K, R] largest precision of the hits that reach a level; 0 where none does."""
    curves, width = hits.found.numel(), reached.needed.shape[1] + 1
    place = torch.arange(hits.row.shape[0], device=hits.row.device)
    start = (reached.starts - hits.firsts).flatten().index_select(0, hits.curve)
    spots = reached.levels.index_select(0, place + start) + hits.curve * width
    place = place + 1 - hits.firsts.flatten().index_select(0, hits.curve)
    precision = place / (hits.seen.double() + epsilon)
    best = precision.new_zeros(curves * width).scatter_reduce_(0, spots, precision, "amax")
    best = best.reshape(curves, width)[:, 1:].flip(1).cummax(dim=1).values.flip(1)
    return best.reshape(*hits.found.shape, -1)


def _first_scores(
    hits: _Hits, reached: _Reached, class_starts: Tensor, scores: Tensor, levels: Tensor
) -> Tensor:
    """[T, K, R] the score at which a level is reached, 0 where it is not.

    Recall 0 is reached by the first detection, whatever its outcome.
    """
    nothing = scores.shape[0] - 1
    there = reached.needed <= hits.found.unsqueeze(2)
    place = torch.where(there, hits.firsts.unsqueeze(2) + reached.needed - 1, hits.row.shape[0])
    row = torch.nn.functional.pad(hits.row, (0, 1), value=nothing).index_select(0, place.flatten())
    first = torch.where(class_starts.diff() > 0, class_starts[:-1], nothing).unsqueeze(1)
    row = torch.where(levels <= 0, first, row.reshape(place.shape))
    return scores.index_select(0, row.flatten()).reshape(place.shape)
