"""From a curve to a number. Sums of floats are made on the host, in the official order."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from .curves import Floats


def eleven_point(recall: Floats, precision: Floats, levels: tuple[float, ...]) -> float:
    """``sum_t max(precision[recall >= t]) / 11``, a running sum (VOCevaldet.m 2007-2009).

    A level that is not reached gives 0. NaN precisions are skipped, but if there are no others the
    result is NaN, as MATLAB's ``max`` has it.
    """
    total = 0.0
    for level in levels:
        reached = precision[recall >= level]
        best = float(np.fmax.reduce(reached)) if reached.size else 0.0
        total += best / len(levels)
    return total


def all_points(recall: Floats, precision: Floats) -> float:
    """Area under the precision made monotone from the right (VOCap.m 2010-2012).

    Steps are taken wherever recall changes, NaN counting as a change, and added one by one.
    """
    r = np.concatenate(([0.0], recall, [1.0]))
    p = np.concatenate(([0.0], precision, [0.0]))
    p = np.fmax.accumulate(p[::-1])[::-1]
    change = np.flatnonzero(r[1:] != r[:-1])
    return running_sum((r[change + 1] - r[change]) * p[change + 1])


def mean_over_classes(values: Floats, num_positives: NDArray[np.int64]) -> float:
    """Mean over the classes with positives, NaN if there are none or one of them is undefined."""
    chosen = values[num_positives > 0]
    return running_sum(chosen) / chosen.size if chosen.size else math.nan


def running_sum(values: Floats) -> float:
    """The sum from the first value to the last; ``numpy.sum`` adds in pairs, to other bits."""
    return float(np.add.accumulate(values)[-1])
