"""Ranks, and how well two orders of the same methods agree."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from ..results import Table


def mean_ranks(values: Tensor) -> Tensor:
    """[W, M] float64: rising ranks from 1 in each row; equal values share their mean rank.

    Args:
        values: [W, M], none of them NaN.

    Example:
        >>> mean_ranks(torch.tensor([[0.1, 0.7, 0.1]])).tolist()
        [[1.5, 3.0, 1.5]]
    """
    below = (values.unsqueeze(2) > values.unsqueeze(1)).sum(dim=2)
    equal = (values.unsqueeze(2) == values.unsqueeze(1)).sum(dim=2)
    return below + (equal + 1).double() / 2


@dataclass(frozen=True, eq=False, kw_only=True)
class RankCorrelation(Table):
    """How well two numbers order the same methods alike; 1 is the same order, -1 the reverse.

    Attributes:
        method: M names.
        first, second: [M] float64, the numbers.
        first_rank, second_rank: [M] float64, 1 is the largest number.
        spearman: correlation of the ranks.
        kendall: Kendall's tau-b: pairs in the same order minus pairs in the other, with ties
            counted out. Both are NaN if a side is constant.
        num_reversed: pairs of methods whose order is strictly reversed.
    """

    method: tuple[str, ...]
    first: Tensor
    second: Tensor
    first_rank: Tensor
    second_rank: Tensor
    spearman: float
    kendall: float
    num_reversed: int


def rank_correlation(first: Any, second: Any, methods: Sequence[str]) -> RankCorrelation:
    """Compare the orders that two protocols, metrics or data sets give the same methods.

    Args:
        first, second: [M] numbers of each method; methods with an undefined number are left out.
        methods: M names.

    Raises:
        InputError: if the lengths differ, or fewer than two methods are defined.

    Source: Spearman 1904; Kendall, "The treatment of ties in ranking problems", Biometrika 1945.

    Example:
        >>> result = rank_correlation([0.7, 0.6, 0.5], [0.4, 0.2, 0.3], ["a", "b", "c"])
        >>> result.spearman, round(result.kendall, 4), result.num_reversed
        (0.5, 0.3333, 1)
    """
    sides = [torch.as_tensor(side, dtype=torch.float64, device="cpu") for side in (first, second)]
    names = tuple(methods)
    if any(side.shape != (len(names),) for side in sides):
        got = f"{[list(side.shape) for side in sides]} for {len(names)} methods"
        raise InputError("must be one number for each method", where="first and second", got=got)
    defined = ~(sides[0].isnan() | sides[1].isnan())
    if int(defined.sum()) < 2:
        raise InputError("at least two methods have an order", where="methods", got=len(names))
    names = tuple(name for name, kept in zip(names, defined.tolist(), strict=True) if kept)
    x, y = (side[defined] for side in sides)
    ranks = mean_ranks(-torch.stack([x, y]))
    signs = [torch.sign(side.unsqueeze(1) - side) for side in (x, y)]
    agreement = float((signs[0] * signs[1]).sum())
    untied = [float(sign.abs().sum()) for sign in signs]
    size = math.sqrt(untied[0] * untied[1])
    return RankCorrelation(
        method=names,
        first=x,
        second=y,
        first_rank=ranks[0],
        second_rank=ranks[1],
        spearman=_correlation(ranks[0], ranks[1]),
        kendall=agreement / size if size else math.nan,
        num_reversed=int((signs[0] * signs[1] < 0).sum()) // 2,
    )


def _correlation(x: Tensor, y: Tensor) -> float:
    """Pearson's correlation, NaN if a side is constant."""
    x, y = x - x.mean(), y - y.mean()
    size = math.sqrt(float((x**2).sum()) * float((y**2).sum()))
    return float((x * y).sum()) / size if size else math.nan
