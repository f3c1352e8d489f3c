"""Tables of many methods: by class with medians, and by year on one test set."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from ..results import ClassificationResult, DetectionResult, SegmentationResult, Table

ClassResult = DetectionResult | ClassificationResult | SegmentationResult


@dataclass(frozen=True, eq=False, kw_only=True)
class MethodTable(Table):
    """A number for each of M methods and K classes.

    Attributes:
        method: M names.
        class_name: K names.
        value: [M, K] float64; NaN where a class is in no mean.
        mean, median: [M] float64 over the classes that are defined.
        class_median, class_best: [K] float64 over the methods.
        best_method: K names, of the first of the best methods.
        num_best: [M] int64, classes in which no method is better.
    """

    method: tuple[str, ...]
    class_name: tuple[str, ...]
    value: Tensor
    mean: Tensor
    median: Tensor
    class_median: Tensor
    class_best: Tensor
    best_method: tuple[str, ...]
    num_best: Tensor

    def columns(self) -> dict[str, Sequence[Any] | Tensor]:
        """A row for each method and one for the medians; a column for each class."""
        columns: dict[str, Sequence[Any] | Tensor] = {"method": (*self.method, "median")}
        for k, name in enumerate(self.class_name):
            columns[name] = (*self.value[:, k].tolist(), float(self.class_median[k]))
        columns["mean"] = (*self.mean.tolist(), float(_median(self.mean)))
        return columns


@dataclass(frozen=True, eq=False, kw_only=True)
class YearTable(Table):
    """The best and the median method of every year, on the same images.

    Attributes:
        year: Y names.
        class_name: K names.
        best, median: [Y, K] float64 over the methods of a year.
        mean_best, mean_median: [Y] float64 over the classes that are defined.
        best_method: [Y][K] names.
        gain: [Y] float64, mean of the best of a year minus that of the year before; NaN first.
    """

    year: tuple[str, ...]
    class_name: tuple[str, ...]
    best: Tensor
    median: Tensor
    mean_best: Tensor
    mean_median: Tensor
    best_method: tuple[tuple[str, ...], ...]
    gain: Tensor

    def columns(self) -> dict[str, Sequence[Any] | Tensor]:
        """A row for each year; the best of every class, and the means."""
        columns: dict[str, Sequence[Any] | Tensor] = {"year": self.year}
        columns |= {name: self.best[:, k] for k, name in enumerate(self.class_name)}
        return columns | {"mean best": self.mean_best, "mean median": self.mean_median}


def method_table(results: Mapping[str, ClassResult]) -> MethodTable:
    """Put the results of many methods in one table.

    Args:
        results: by method, of the same classes: detection or classification (average precision) or
            segmentation (intersection over union).

    Raises:
        InputError: if there are no results, or their classes differ.

    Source: Everingham et al., "The PASCAL Visual Object Classes (VOC) Challenge", IJCV 2010, tables
        5 and 6.
    """
    if not results:
        raise InputError("at least one result is needed", where="results")
    names = next(iter(results.values())).class_names
    for name, result in results.items():
        if result.class_names != names:
            raise InputError(f"has other classes than {next(iter(results))}", where=name)
    value = torch.stack([_values(result) for result in results.values()])
    filled = value.nan_to_num(-math.inf)
    best = filled.amax(dim=0)
    methods = tuple(results)
    return MethodTable(
        method=methods,
        class_name=names,
        value=value,
        mean=value.nanmean(dim=1),
        median=torch.stack([_median(row) for row in value]),
        class_median=torch.stack([_median(column) for column in value.t()]),
        class_best=torch.where(best > -math.inf, best, math.nan),
        best_method=tuple(methods[row] for row in filled.argmax(dim=0).tolist()),
        num_best=((filled == best) & (best > -math.inf)).sum(dim=1),
    )


def year_table(results: Mapping[str, Mapping[str, ClassResult]]) -> YearTable:
    """Compare the methods of several years on one test set.

    Args:
        results: by year, then by method; all on the same images and classes.

    Raises:
        InputError: if a year has no results, or classes differ.

    Source: Everingham et al., "The PASCAL Visual Object Classes (VOC) Challenge", IJCV 2010, table
        7: methods of two years on the test set of the first.
    """
    if not results:
        raise InputError("at least one year is needed", where="results")
    tables = {year: method_table(methods) for year, methods in results.items()}
    names = next(iter(tables.values())).class_name
    for year, table in tables.items():
        if table.class_name != names:
            raise InputError(f"has other classes than {next(iter(tables))}", where=year)
    best = torch.stack([table.class_best for table in tables.values()])
    median = torch.stack([table.class_median for table in tables.values()])
    mean_best = best.nanmean(dim=1)
    gain = torch.full_like(mean_best, math.nan)
    gain[1:] = mean_best.diff()
    return YearTable(
        year=tuple(tables),
        class_name=names,
        best=best,
        median=median,
        mean_best=mean_best,
        mean_median=median.nanmean(dim=1),
        best_method=tuple(table.best_method for table in tables.values()),
        gain=gain,
    )


def _values(result: ClassResult) -> Tensor:
    """[K] float64: the numbers of the classes; NaN for those that are in no mean."""
    if isinstance(result, SegmentationResult):
        return result.iou
    return torch.where(result.is_averaged, result.average_precision, math.nan)


def _median(values: Tensor) -> Tensor:
    """The median of the defined values, the mean of the middle two; NaN of none."""
    return values.nanquantile(0.5)
