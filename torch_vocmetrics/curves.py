"""From a ranking to precision-recall curves: integer counts and single IEEE operations only."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .matching.lanes import column
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
        place = lanes.place(area, threshold)
        positive = column(ranking.true_positive, place)
        negative = ~(positive | column(ranking.ignored, place))
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
    """Curves read at R recall levels, for one IoU threshold.

    Attributes:
        precision, scores: [R, K] float64, 0 at levels that are not reached.
        recall: [K] float64, the largest recall.
        true_positives, false_positives: [K] int64.
    """

    precision: Tensor
    scores: Tensor
    recall: Tensor
    true_positives: Tensor
    false_positives: Tensor


def interpolate(
    ranking: Ranking, area: int, recall_levels: tuple[float, ...], precision_epsilon: float
) -> list[Interpolated]:
    """Precision and score at recall levels, for each IoU threshold, as COCOeval.accumulate.

    Precision ``tp / (tp + fp + epsilon)`` made monotone from the right and read at the first
    detection whose recall ``tp / npos`` reaches the level. Only true positives can be such a
    detection (but for level 0), so only they are looked at. NaN for classes without positives.
    """
    lanes = ranking.lanes
    active = _ActiveCount(ranking, area)
    rows = (ranking.true_positive != 0).any(dim=1).nonzero().squeeze(1)
    levels = torch.tensor(recall_levels, dtype=torch.float64, device=rows.device)
    npos = ranking.num_positives[area]
    curves = []
    for threshold in range(lanes.num_thresholds):
        place = lanes.place(area, threshold)
        hits = rows[column(ranking.true_positive.index_select(0, rows), place)]
        bounds = torch.searchsorted(hits, ranking.class_starts)
        found = bounds.diff()
        label = torch.repeat_interleave(
            torch.arange(ranking.num_classes, device=rows.device),
            found,
            output_size=hits.shape[0],
        )
        k = torch.arange(1, hits.shape[0] + 1, device=rows.device) - bounds.index_select(0, label)
        seen, totals = active.up_to(hits, label, threshold)
        recall = k / npos.index_select(0, label).double()
        level = torch.searchsorted(levels, recall, right=True)
        spots = label * (len(recall_levels) + 1) + level
        scores = _best_from_level(
            spots, ranking.scores.index_select(0, hits).double(), ranking.num_classes, levels
        )
        precision = _best_from_level(
            spots, k / (seen.double() + precision_epsilon), ranking.num_classes, levels
        ).clamp(min=0)
        scores = _with_first_scores(scores, ranking, levels)
        nothing = npos == 0
        curves.append(
            Interpolated(
                precision.masked_fill(nothing, math.nan),
                scores.masked_fill(nothing, math.nan),
                (found / npos.double()).masked_fill(nothing, math.nan),
                found,
                totals - found,
            )
        )
    return curves


def _best_from_level(spots: Tensor, values: Tensor, num_classes: int, levels: Tensor) -> Tensor:
    """[R, K] largest of the ``values`` whose spot is at the level or above; -inf where none is."""
    width = levels.shape[0] + 1
    best = values.new_full((num_classes * width,), -math.inf)
    best = best.scatter_reduce(0, spots, values, "amax").reshape(num_classes, width)[:, 1:]
    return best.flip(1).cummax(dim=1).values.flip(1).T


def _with_first_scores(scores: Tensor, ranking: Ranking, levels: Tensor) -> Tensor:
    """Scores [R, K]: recall 0 is reached by the first detection, whatever its outcome."""
    starts, ends = ranking.class_starts[:-1], ranking.class_starts[1:]
    if ranking.scores.numel():
        first = ranking.scores.double()[starts.clamp(max=ranking.scores.shape[0] - 1)]
        first = first.masked_fill(starts == ends, 0.0)
        scores = torch.where((levels <= 0).unsqueeze(1), first, scores)
    return torch.where(torch.isneginf(scores), 0.0, scores)


class _ActiveCount:
    """How many detections are not ignored, up to a row of its class.

    One cumulative sum serves all thresholds of an area range: most rows are ignored at all
    thresholds or at none, and the others are few enough to be counted apart.
    """

    def __init__(self, ranking: Ranking, area: int) -> None:
        lanes = ranking.lanes
        self._ranking, self._area = ranking, area
        mask = torch.tensor(lanes.area_bits(area), device=ranking.ignored.device)
        bits = ranking.ignored & mask
        ignored = (bits == mask).all(dim=1)
        self._partly = ((bits != 0).any(dim=1) & ~ignored).nonzero().squeeze(1)
        self._active = torch.nn.functional.pad(torch.cumsum(~ignored, dim=0), (1, 0))

    def up_to(self, rows: Tensor, label: Tensor, threshold: int) -> tuple[Tensor, Tensor]:
        """Counts at ``rows`` of classes ``label``, these included, and of whole classes [K]."""
        ranking = self._ranking
        place = ranking.lanes.place(self._area, threshold)
        off = self._partly[column(ranking.ignored.index_select(0, self._partly), place)]
        starts = ranking.class_starts
        at_start = self._active.index_select(0, starts) - torch.searchsorted(off, starts)
        at_row = self._active.index_select(0, rows + 1) - torch.searchsorted(off, rows, right=True)
        return at_row - at_start.index_select(0, label), at_start.diff()
