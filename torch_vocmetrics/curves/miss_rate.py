"""Miss rate curves: from a ranking to false positives per image and recall, and to numbers.

Sums, logarithms and exponentials are made on the host, in the official order.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ..ops.selection import rows_where
from ..protocols import MissRateProtocol
from ..results import reading_index, unread_miss_rate
from .averages import running_sum
from .precision_recall import Floats
from .ranking import Ranking


class FppiCurve(NamedTuple):
    """One entry per detection that is not ignored, by falling score.

    Attributes:
        fppi, recall, precision: [N] float64.
        scores: [N] as the detections came.
        true_positives: [N] int64, cumulative.
    """

    fppi: Floats
    recall: Floats
    precision: Floats
    scores: Tensor
    true_positives: NDArray[np.int64]


def fppi_curve(
    ranking: Ranking, subset: int, num_images: int, protocol: MissRateProtocol
) -> FppiCurve:
    """The curve of a subset: ``fp / images``, ``tp / positives``, ``tp / (tp + fp)``.

    Source: bbGt.m compRoc; compCurve of dbEval.m 3.0.0 divides by max(eps, positives).
    """
    positive, ignored = ranking.outcomes(subset, 0)
    rows = rows_where(~ignored)
    tp = np.cumsum(positive.index_select(0, rows).cpu().numpy(), dtype=np.int64)
    seen = np.arange(1, tp.size + 1, dtype=np.int64)
    positives = max(float(ranking.num_positives[subset, 0]), protocol.positives_floor)
    with np.errstate(divide="ignore", invalid="ignore"):
        return FppiCurve(
            (seen - tp) / np.float64(num_images),
            tp / np.float64(positives),
            tp / seen,
            ranking.scores.index_select(0, rows).cpu(),
            tp,
        )


def miss_rates(curve: FppiCurve, references: tuple[float, ...], rule: str) -> Floats:
    """Miss rate ``1 - recall`` at references; 1 where nothing is found, NaN where it is undefined.

    Where no detection counts, CrowdHuman's eval_MR has no point to read: NaN.

    Args:
        curve: of a subset.
        references: false positives per image.
        rule: the protocol's ``curve_reading``.
    """
    values = []
    for reference in references:
        index = reading_index(curve.fppi, reference, rule)
        if index is not None:
            values.append(1 - curve.recall[index])
        else:
            values.append(unread_miss_rate(curve.fppi, rule))
    return np.array(values, dtype=np.float64)


def log_average(values: Floats, protocol: MissRateProtocol) -> float:
    """``exp(mean(log(max(floor, values))))``: 0 if a value is 0 and there is no floor.

    A floor takes the place of NaN too, as MATLAB's ``max`` has it.
    """
    if protocol.miss_rate_floor:
        values = np.fmax(values, protocol.miss_rate_floor)
    # math.log is the C library's on every machine, numpy.log is not.
    logs = np.array([math.log(value) if value != 0 else -math.inf for value in values.tolist()])
    mean = np.mean(logs) if protocol.sums == "numpy" else running_sum(logs) / logs.size
    return math.exp(float(mean))


def mean_precision(curve: FppiCurve, levels: tuple[float, ...]) -> float:
    """Mean over recall levels of the precision where recall first reaches them, 0 where not."""
    if not levels:
        return math.nan
    values = []
    for level in levels:
        reached = np.flatnonzero(curve.recall >= level)
        values.append(curve.precision[reached[0]] if reached.size else 0.0)
    return running_sum(np.array(values)) / len(levels)


def trapezoids(curve: FppiCurve) -> float:
    """Area between the points of recall and precision, which begin at the first detection.

    Source: CrowdDet lib/evaluate, database.py eval_AP.
    """
    steps = np.diff(curve.recall) * ((curve.precision[:-1] + curve.precision[1:]) / 2)
    return running_sum(steps) if steps.size else 0.0


def jaccard_index(counts: NDArray[np.int32], epsilon: float) -> Floats:
    """[L]: mean of ``k / (m + n - k + epsilon)`` over the images that hold anything.

    Args:
        counts: [I, L, 3] matches k, detections n and objects m, images in the order of the sum.
        epsilon: of the denominator.
    """
    k, n, m = counts.astype(np.float64).transpose(2, 1, 0)
    means = []
    for level in range(counts.shape[1]):
        held = (n[level] > 0) | (m[level] > 0)
        values = k[level, held] / (m[level, held] + n[level, held] - k[level, held] + epsilon)
        means.append(float(np.mean(values)) if values.size else math.nan)
    return np.array(means)
