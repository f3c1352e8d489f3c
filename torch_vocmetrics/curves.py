"""From a ranking to precision-recall curves: integer counts and single IEEE operations only."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .lanes import columns, in_area
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
        precision, scores: [T, K, R] float64, 0 at levels that are not reached.
        recall: [T, K] float64, the largest recall.
        true_positives, false_positives: [T, K] int64.
    """

    precision: Tensor
    scores: Tensor
    recall: Tensor
    true_positives: Tensor
    false_positives: Tensor


def interpolate(
    ranking: Ranking, area: int, limits: Sequence[int | None], protocol: DetectionProtocol
) -> Iterator[Interpolated]:
    """Precision and score at recall levels, for each IoU threshold, as COCOeval.accumulate.

    Precision ``tp / (tp + fp + epsilon)`` made monotone from the right and read at the first
    detection whose recall ``tp / npos`` reaches the level. Only true positives can be such a
    detection (but for level 0), so only they are looked at. NaN for classes without positives.

    Args:
        ranking: detections of some classes.
        area: the area range.
        limits: of each, only the best detections of an image and class count; None for all.
        protocol: recall levels and epsilon.
    """
    device = ranking.scores.device
    levels = torch.tensor(protocol.recall_levels, dtype=torch.float64, device=device)
    npos = ranking.num_positives[area].double()
    undefined = (npos == 0).unsqueeze(1)
    outcomes = _Outcomes.of(ranking, area)
    for limit in limits:
        hits = _hits(ranking, outcomes, limit)
        level = _levels_reached(hits.found, npos, levels).index_select(0, hits.entry)
        spots = hits.curve * (levels.shape[0] + 1) + level
        shape = (*hits.found.shape, levels.shape[0])
        precision = hits.place / (hits.seen.double() + protocol.precision_epsilon)
        precision = _best_from_level(spots, precision, shape).clamp_(min=0)
        scores = ranking.scores.index_select(0, hits.row).double()
        scores = _best_from_level(spots, scores, shape)
        yield Interpolated(
            precision.masked_fill_(undefined, math.nan),
            _with_first_scores(scores, ranking, levels).masked_fill_(undefined, math.nan),
            (hits.found / npos).masked_fill(npos == 0, math.nan),
            hits.found,
            hits.total - hits.found,
        )


class _Outcomes(NamedTuple):
    """What the rows of a ranking are in an area range.

    Most rows are ignored at all thresholds or at none; the U claimants that are not, and those that
    are a true positive at any, are looked at threshold by threshold.

    Attributes:
        active: [N] whether a row is not ignored at all thresholds.
        rows: [U] rows that are looked at, label: [U] their classes.
        bounds: [K + 1] where the classes begin among them.
        hit, off: [T, U] true positives, and rows that are ignored though ``active``.
    """

    active: Tensor
    rows: Tensor
    label: Tensor
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
        active = ~in_area(ranking.out_of_range, area)
        active[ranking.claimant] = somewhere
        partly = (ignored != 0).any(dim=1) & somewhere
        positive = (ranking.true_positive & mask != 0).any(dim=1)
        claims = (positive | partly).nonzero().squeeze(1)
        rows = ranking.claimant.index_select(0, claims)
        off = columns(ignored.index_select(0, claims), places)
        return cls(
            active,
            rows,
            torch.searchsorted(starts[1:], rows, right=True),
            torch.searchsorted(rows, starts),
            columns(ranking.true_positive.index_select(0, claims), places),
            off & somewhere.index_select(0, claims),
        )


class _Hits(NamedTuple):
    """The H true positives of an area range, by IoU threshold, then class, then falling score.

    Attributes:
        row: [H] rows of the ranking.
        curve: [H] threshold * K + class.
        place: [H] how many true positives there are up to here in the curve.
        seen: [H] how many detections that are not ignored.
        entry: [H] places of (class, ``place``) in a table of all of them.
        found, total: [T, K] true positives and detections that are not ignored.
    """

    row: Tensor
    curve: Tensor
    place: Tensor
    seen: Tensor
    entry: Tensor
    found: Tensor
    total: Tensor


def _hits(ranking: Ranking, outcomes: _Outcomes, limit: int | None) -> _Hits:
    """Count along the curves of all thresholds at once."""
    active, rows, label, bounds, hit, off = outcomes
    if limit is not None:
        within = ranking.rank < limit
        active, chosen = active & within, within.index_select(0, rows)
        hit, off = hit & chosen, off & chosen
    active = _sums_before(active)
    off = _sums_before(off)
    at_start = active.index_select(0, ranking.class_starts) - off.index_select(1, bounds)
    found = _sums_before(hit).index_select(1, bounds).diff(dim=1).long()
    threshold, chosen = hit.nonzero(as_tuple=True)
    its_label = label.index_select(0, chosen)
    curve = threshold * ranking.num_classes + its_label
    row = rows.index_select(0, chosen)
    firsts = torch.cumsum(found.flatten(), dim=0) - found.flatten()
    place = torch.arange(1, chosen.shape[0] + 1, device=row.device)
    place = place - firsts.index_select(0, curve)
    seen = active.index_select(0, row + 1)
    seen = seen - off.flatten().index_select(0, threshold * off.shape[1] + chosen + 1)
    most = found.amax(dim=0)
    entries = torch.cumsum(most, dim=0) - most - 1
    return _Hits(
        row,
        curve,
        place,
        seen - at_start[:, :-1].flatten().index_select(0, curve),
        entries.index_select(0, its_label) + place,
        found,
        at_start.diff(dim=1).long(),
    )


def _sums_before(bits: Tensor) -> Tensor:
    """[..., N + 1] int32: how many ``bits`` [..., N] are set before each place."""
    sums = bits.new_zeros((*bits.shape[:-1], bits.shape[-1] + 1), dtype=torch.int32)
    torch.cumsum(bits, dim=-1, dtype=torch.int32, out=sums[..., 1:])
    return sums


def _levels_reached(found: Tensor, npos: Tensor, levels: Tensor) -> Tensor:
    """How many levels the n-th true positive of a class reaches, for every class and n in use."""
    most = found.amax(dim=0)
    size = int(most.sum())
    label = torch.repeat_interleave(
        torch.arange(most.shape[0], device=most.device), most, output_size=size
    )
    before = torch.cumsum(most, dim=0) - most
    place = torch.arange(1, size + 1, device=most.device) - before.index_select(0, label)
    return torch.searchsorted(levels, place / npos.index_select(0, label), right=True)


def _best_from_level(spots: Tensor, values: Tensor, shape: tuple[int, int, int]) -> Tensor:
    """[T, K, R] largest of the ``values`` whose spot is at the level or above; -inf where none."""
    curves, width = shape[0] * shape[1], shape[2] + 1
    best = values.new_full((curves * width,), -math.inf)
    best = best.scatter_reduce(0, spots, values, "amax").reshape(curves, width)[:, 1:]
    return best.flip(1).cummax(dim=1).values.flip(1).reshape(shape)


def _with_first_scores(scores: Tensor, ranking: Ranking, levels: Tensor) -> Tensor:
    """Scores [T, K, R]: recall 0 is reached by the first detection, whatever its outcome."""
    starts, ends = ranking.class_starts[:-1], ranking.class_starts[1:]
    if ranking.scores.numel():
        places = starts.clamp(max=ranking.scores.shape[0] - 1)
        first = ranking.scores.index_select(0, places).double().masked_fill(starts == ends, 0.0)
        scores = torch.where(levels <= 0, first.unsqueeze(1), scores)
    return scores.masked_fill_(torch.isneginf(scores), 0.0)
