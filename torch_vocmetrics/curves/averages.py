"""From a curve to a number. Sums of floats are made on the host, in the official order."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from .precision_recall import Floats


def eleven_point(recall: Floats, precision: Floats, levels: tuple[float, ...]) -> float:
    """``sum_t max(precision[recall >= t]) / 11``, a running sum (VOCevaldet.m 2007-2009).

    A level that is not reached gives 0. NaN precisions are skipped, but if there are no others the
    result is NaN, as MATLAB's ``max`` has it.
    """
    best = np.append(np.fmax.accumulate(precision[::-1])[::-1], 0.0)
    # Recall rises, behind NaN for what comes before the first hit where nothing is to be found.
    rising = np.where(np.isnan(recall), -math.inf, recall)
    total = 0.0
    for index in np.searchsorted(rising, levels):
        total += float(best[index]) / len(levels)
    return total


def all_points(recall: Floats, precision: Floats) -> float:
    """Area under the precision made monotone from the right (VOCap.m 2010-2012).

    Steps are taken wherever recall changes, NaN counting as a change, and added one by one.
    """
    r = np.concatenate(([0.0], recall, [1.0]))
    p = np.concatenate(([0.0], precision, [0.0]))
    p = np.fmax.accumulate(p[::-1])[::-1]
    change = np.flatnonzero(r[1:] != r[:-1])
    with np.errstate(invalid="ignore"):  # infinite recall (2007's layout) gives Inf * 0
        return running_sum((r[change + 1] - r[change]) * p[change + 1])


def plain(recall: Floats, precision: Floats) -> float:
    """Precision summed over the steps of recall, without interpolation; 0 of no rows."""
    before = np.concatenate(([0.0], recall[:-1]))
    change = np.flatnonzero(recall != before[: recall.size])
    with np.errstate(invalid="ignore"):
        steps = (recall[change] - before[change]) * precision[change]
    return running_sum(steps) if steps.size else 0.0


def average_of(
    recall: Floats, precision: Floats, interpolation: str, levels: tuple[float, ...]
) -> float:
    """Average precision by the interpolation that a protocol names; plain by any other."""
    if interpolation == "eleven_point":
        return eleven_point(recall, precision, levels)
    return (all_points if interpolation == "all_points" else plain)(recall, precision)


def roc_area(false_positive_rate: Floats, true_positive_rate: Floats) -> float:
    """Area below the lower envelope of a ROC curve that begins at (0, 0) and ends at (1, 1).

    Of the points between, only those where the true positive rate changes are kept, NaN counting as
    a change; each step of the false positive rate earns the true positive rate to its left.

    Source: VOCroc.m of VOC2006.
    """
    kept = np.ones(true_positive_rate.size, dtype=bool)
    kept[1:-1] = true_positive_rate[1:-1] != true_positive_rate[:-2]
    false, true = false_positive_rate[kept], true_positive_rate[kept]
    return running_sum((false[1:] - false[:-1]) * true[:-1])


def mean_over_classes(values: Floats, num_positives: NDArray[np.int64]) -> float:
    """Mean over the classes with positives, NaN if there are none or one of them is undefined.

    ``numpy.mean``, as the Python tools take that published means over VOC classes: to their bits.
    """
    chosen = values[num_positives > 0]
    return float(np.mean(chosen)) if chosen.size else math.nan


def running_sum(values: Floats) -> float:
    """The sum from the first value to the last; ``numpy.sum`` adds in pairs, to other bits."""
    return float(np.add.accumulate(values)[-1])
