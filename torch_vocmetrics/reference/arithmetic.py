"""Arithmetic of MATLAB and C where Python has its own, and the order of detections."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from torch import Tensor

from ..protocols import AreaRange
from ..results import as_tensor
from .reading import Detection

Row = TypeVar("Row")


def quotient(numerator: float, denominator: float) -> float:
    """Divide as IEEE 754, MATLAB and C do: 0/0 is NaN, x/0 infinite."""
    if denominator != 0:
        return numerator / denominator
    return math.nan if numerator == 0 else math.copysign(math.inf, numerator)


def matlab_max(values: list[float]) -> float:
    """Find the largest value that is not NaN; NaN if there is none, as MATLAB's ``max``."""
    numbers = [value for value in values if not math.isnan(value)]
    return max(numbers) if numbers else math.nan


def mean_in_sequence(values: list[float]) -> float:
    """Mean by a running sum, which NaN spoils; NaN of no values."""
    total = 0.0
    for value in values:
        total = total + value
    return quotient(total, len(values))


def mean_of_entries(values: np.ndarray[Any, Any]) -> float:
    """``mean(s[s > -1])`` of pycocotools' summarize, for NaN in place of -1; NaN of no entries.

    NumPy's own sum, since pairwise addition rounds otherwise than a running sum.
    """
    entries = [float(value) for value in values.flatten() if not math.isnan(float(value))]
    return float(np.array(entries).mean()) if entries else math.nan


def below(value: float, bar: float, *, strict: bool) -> bool:
    """Whether a value misses the bar: equality passes unless ``strict``."""
    return value <= bar if strict else value < bar


def outside(area: float, area_range: AreaRange) -> bool:
    """Whether an area lies outside the closed range. Source: cocoeval.py evaluateImg, aRng."""
    return area < area_range.lower or area > area_range.upper


def by_score(rows: list[Row], key: Callable[[Row], Detection]) -> list[Row]:
    """Rows by falling score, then by ``order``, then as they stand (a stable sort)."""
    return sorted(rows, key=lambda row: (-key(row).score, key(row).order))


def float64(values: list[float] | list[list[float]]) -> Tensor:
    """Make a float64 tensor of lists."""
    return as_tensor(np.array(values, dtype=np.float64))
