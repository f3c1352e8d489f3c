"""Whether methods differ over the classes of a benchmark: Friedman's test and Nemenyi's.

Each class ranks all methods. Friedman asks whether the mean ranks differ more than chance allows,
Nemenyi which pairs do: those whose mean ranks lie further apart than the critical difference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from ..results import Table
from .ranks import mean_ranks
from .studentized_range import range_cdf, range_quantile


@dataclass(frozen=True, eq=False, kw_only=True)
class FriedmanResult(Table):
    """Friedman's test of M methods over N classes, and what Nemenyi's test makes of it.

    Attributes:
        method: M names.
        mean_rank: [M] float64 over the classes, 1 is the best.
        statistic: Friedman's chi-square, corrected for ties.
        p_value: that of chi-square with M - 1 degrees of freedom.
        num_classes: N.
        alpha: level of the critical difference.
        critical_difference: of mean ranks, by Nemenyi's test.
        pair_p_value: [M, M] float64, Nemenyi's p-value of each pair.
    """

    method: tuple[str, ...]
    mean_rank: Tensor
    statistic: float
    p_value: float
    num_classes: int
    alpha: float
    critical_difference: float
    pair_p_value: Tensor

    @property
    def is_different(self) -> Tensor:
        """[M, M] bool: pairs whose mean ranks differ by at least the critical difference."""
        apart = (self.mean_rank.unsqueeze(1) - self.mean_rank).abs()
        return apart >= self.critical_difference

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """The largest runs of methods, by mean rank, in which no two differ; of two or more.

        They are the bars of a critical difference diagram (Demsar 2006, figure 1).
        """
        order = torch.argsort(self.mean_rank, stable=True).tolist()
        differs, reached = self.is_different, 0
        found = list[tuple[str, ...]]()
        for first in range(len(order)):
            last = first
            while last + 1 < len(order) and not differs[order[first], order[last + 1]]:
                last += 1
            if last > first and last >= reached and (not found or last > reached):
                found.append(tuple(self.method[row] for row in order[first : last + 1]))
                reached = last
        return tuple(found)

    def columns(self) -> dict[str, Sequence[Any] | Tensor]:
        """A row for each method."""
        return {"method": self.method, "mean_rank": self.mean_rank}


def friedman_test(
    values: Any, methods: Sequence[str], *, alpha: float = 0.05, larger_is_better: bool = True
) -> FriedmanResult:
    """Test whether methods differ, from one number for each method and class.

    The critical difference is ``q sqrt(M (M + 1) / (6 N))`` with q the upper quantile of the
    studentized range of M normal variables, divided by the square root of 2.

    Args:
        values: [M, N] numbers, such as average precision of M methods on N classes. Classes with
            an undefined number are left out.
        methods: M names.
        alpha: level of Nemenyi's test, above 0 and below 1.
        larger_is_better: False for rates of errors.

    Raises:
        InputError: if shapes and names do not fit, there are fewer than two methods or no class
            in which all methods are defined, or alpha is outside its range.

    Source: Demsar, "Statistical Comparisons of Classifiers over Multiple Data Sets", JMLR 2006,
        section 3.2; Everingham et al., IJCV 2015, section 3.5.2.

    Example:
        >>> values = [[0.9, 0.8, 0.9, 0.7], [0.8, 0.7, 0.8, 0.6], [0.1, 0.2, 0.3, 0.4]]
        >>> result = friedman_test(values, ["a", "b", "c"])
        >>> result.mean_rank.tolist(), result.statistic, round(result.p_value, 4)
        ([1.0, 2.0, 3.0], 8.0, 0.0183)
    """
    table = torch.as_tensor(values, dtype=torch.float64, device="cpu")
    names = tuple(methods)
    if table.dim() != 2 or table.shape[0] != len(names):
        got = f"{list(table.shape)} for {len(names)} methods"
        raise InputError("must be [methods, classes]", where="values", got=got)
    table = table[:, ~table.isnan().any(dim=0)]
    M, N = table.shape
    if M < 2 or not N:
        got = f"{M} methods, {N} classes in which all are defined"
        raise InputError("needs two methods and a class", where="values", got=got)
    if not 0 < alpha < 1:
        raise InputError("must be above 0 and below 1", where="alpha", got=alpha)
    ranks = mean_ranks(-table.t() if larger_is_better else table.t())
    mean = ranks.mean(dim=0)
    statistic = _friedman_statistic(ranks)
    return FriedmanResult(
        method=names,
        mean_rank=mean,
        statistic=statistic,
        p_value=_chi_square_tail(statistic, M - 1),
        num_classes=N,
        alpha=alpha,
        critical_difference=nemenyi_critical_difference(M, N, alpha),
        pair_p_value=_pair_p_values(mean, N),
    )


def nemenyi_critical_difference(num_methods: int, num_classes: int, alpha: float = 0.05) -> float:
    """The difference of mean ranks from which on Nemenyi's test calls two methods different.

    Args:
        num_methods: M, at least 2.
        num_classes: N, at least 1.
        alpha: level, above 0 and below 1.

    Example:
        >>> round(nemenyi_critical_difference(17, 20), 2)
        5.52
    """
    q = range_quantile(1 - alpha, num_methods) / math.sqrt(2)
    return q * math.sqrt(num_methods * (num_methods + 1) / (6 * num_classes))


def _friedman_statistic(ranks: Tensor) -> float:
    """Chi-square of ranks [N, M], divided by what ties take from it; NaN if all are tied."""
    N, M = ranks.shape
    spread = (ranks.sum(dim=0) ** 2).sum() * 12 / (N * M * (M + 1)) - 3 * N * (M + 1)
    tied = 0
    for row in ranks:
        counts = row.unique(return_counts=True)[1]
        tied += int((counts**3 - counts).sum())
    correction = 1 - tied / (N * M * (M**2 - 1))
    return float(spread) / correction if correction else math.nan


def _chi_square_tail(statistic: float, freedom: int) -> float:
    """The probability that chi-square with so many degrees of freedom is at least this large."""
    halves = torch.tensor([freedom / 2, statistic / 2], dtype=torch.float64, device="cpu")
    return float(torch.special.gammaincc(halves[0], halves[1]))


def _pair_p_values(mean_rank: Tensor, num_classes: int) -> Tensor:
    """[M, M] float64: Nemenyi's p-value of each pair of mean ranks."""
    M = mean_rank.shape[0]
    error = math.sqrt(M * (M + 1) / (6 * num_classes))
    values = torch.ones((M, M), dtype=torch.float64, device="cpu")
    for first in range(M):
        for second in range(first):
            apart = abs(float(mean_rank[first] - mean_rank[second])) / error
            p = 1 - range_cdf(apart * math.sqrt(2), M)
            values[first, second] = values[second, first] = max(0.0, p)
    return values
