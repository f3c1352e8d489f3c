"""The studentized range of normal variables, which Nemenyi's test needs; infinite freedom only.

It is the distribution of the range (largest minus smallest) of k independent standard normal
variables: ``P(Q <= q) = k * integral of phi(z) (Phi(z) - Phi(z - q))^(k - 1) dz``.
"""

from __future__ import annotations

import math

import torch

_HALF_WIDTH, _POINTS = 9.0, 4001  # the trapezoid rule is exact to 1e-15 for such smooth functions


def range_cdf(q: float, k: int) -> float:
    """The probability that the range of k standard normal variables is at most q.

    Source: Harter, "Tables of Range and Studentized Range", Annals of Mathematical Statistics,
        1960.

    Example:
        >>> round(range_cdf(3.314493, 3), 6)
        0.95
    """
    if q <= 0:
        return 0.0
    z = torch.linspace(-_HALF_WIDTH, _HALF_WIDTH, _POINTS, dtype=torch.float64, device="cpu")
    density = torch.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    below = torch.special.ndtr(z) - torch.special.ndtr(z - q)
    step = 2 * _HALF_WIDTH / (_POINTS - 1)
    return min(1.0, float((density * below ** (k - 1)).sum()) * step * k)


def range_quantile(probability: float, k: int) -> float:
    """The q with ``range_cdf(q, k) == probability``, by bisection.

    Example:
        >>> round(range_quantile(0.95, 17), 3)
        4.891
    """
    low, high = 0.0, 2 * _HALF_WIDTH
    for _ in range(80):
        middle = (low + high) / 2
        if range_cdf(middle, k) < probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2
