"""Confidence intervals from bootstrap samples: percentiles, and bias-corrected and accelerated."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_NORMAL = NormalDist()


def percentile_interval(samples: Floats, level: float) -> tuple[float, float]:
    """The quantiles of the samples that leave ``(1 - level) / 2`` on either side; NaN of none.

    Args:
        samples: [W] values of a number in resamples; NaN ones are left out.
        level: coverage, such as 0.95.

    Source: Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, section 13.3.

    Example:
        >>> percentile_interval(np.arange(101.0), 0.5)
        (25.0, 75.0)
    """
    return _quantiles(samples, (1 - level) / 2, (1 + level) / 2)


def bca_interval(
    samples: Floats, estimate: float, jackknife: Floats, level: float
) -> tuple[float, float]:
    """The bias-corrected and accelerated interval; NaN where it is undefined.

    ``z0`` is the normal quantile of the share of samples below the estimate (half of those that
    equal it), and ``a = sum(d^3) / (6 sum(d^2)^1.5)`` with ``d`` the mean jackknife value minus
    each. The quantiles are ``Phi(z0 + (z0 + z) / (1 - a (z0 + z)))`` for the normal quantiles z of
    ``(1 - level) / 2`` and ``(1 + level) / 2``.

    Args:
        samples: [W] values of a number in resamples; NaN ones are left out.
        estimate: the number of the data set itself.
        jackknife: [G] values without each image, or without each group of images.
        level: coverage, such as 0.95.

    Source: Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, equations 14.9 to 14.15.
    """
    defined = samples[~np.isnan(samples)]
    if not defined.size or math.isnan(estimate):
        return math.nan, math.nan
    below = (np.mean(defined < estimate) + np.mean(defined <= estimate)) / 2
    if not 0 < below < 1:
        # All samples on one side: no correction exists, unless they are all the same number.
        same = bool((defined == defined[0]).all())
        return (float(defined[0]),) * 2 if same else (math.nan, math.nan)
    bias, acceleration = _NORMAL.inv_cdf(float(below)), _acceleration(jackknife)
    ends = []
    for share in ((1 - level) / 2, (1 + level) / 2):
        z = bias + _NORMAL.inv_cdf(share)
        ends.append(_NORMAL.cdf(bias + z / (1 - acceleration * z)))
    return _quantiles(defined, *ends)


def _acceleration(jackknife: Floats) -> float:
    """A sixth of the skewness of the jackknife values, as BCa takes it; 0 if all are equal."""
    defined = jackknife[~np.isnan(jackknife)]
    if not defined.size:
        return 0.0
    deviations = defined.mean() - defined
    spread = float((deviations**2).sum())
    return float((deviations**3).sum()) / (6 * spread**1.5) if spread > 0 else 0.0


def _quantiles(samples: Floats, low: float, high: float) -> tuple[float, float]:
    defined = samples[~np.isnan(samples)]
    if not defined.size:
        return math.nan, math.nan
    lower, upper = np.quantile(defined, (low, high)).tolist()
    return lower, upper
