"""From a ranking to precision-recall curves: integer counts and single IEEE operations only."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..ops.sums import sums_before
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
    total = sums_before(bits)
    starts = ranking.class_starts
    before = torch.repeat_interleave(
        total.index_select(0, starts[:-1]), starts.diff(), output_size=bits.shape[0]
    )
    return total[1:].sub_(before)


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
