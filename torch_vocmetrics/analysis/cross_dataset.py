"""How well detectors carry over from one data set to another."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from ..results import DetectionResult, Table


@dataclass(frozen=True, eq=False, kw_only=True)
class CrossDatasetTable(Table):
    """Average precision of D detectors on S data sets over K common classes.

    Attributes:
        class_name: K names of the common classes.
        detector: D names.
        data_set: S names.
        home: the data set on which each detector was trained, D names.
        average_precision: [D, S, K] float64; NaN where a class is undefined.
        mean: [D, S] float64, over the classes that are defined in all of them.
        drop: [D, S] float64, the mean at home minus that on each data set.
        relative_drop: [D, S] float64, the drop as a share of the mean at home.
    """

    class_name: tuple[str, ...]
    detector: tuple[str, ...]
    data_set: tuple[str, ...]
    home: tuple[str, ...]
    average_precision: Tensor
    mean: Tensor
    drop: Tensor
    relative_drop: Tensor

    def columns(self) -> dict[str, Sequence[Any] | Tensor]:
        """A row for each class and one for the mean; a column for each detector and data set."""
        columns: dict[str, Sequence[Any] | Tensor] = {"class_name": (*self.class_name, "mean")}
        for d, detector in enumerate(self.detector):
            for s, data_set in enumerate(self.data_set):
                values = [*self.average_precision[d, s].tolist(), float(self.mean[d, s])]
                columns[f"{detector} on {data_set}"] = tuple(values)
        return columns


def cross_dataset_table(
    results: Mapping[str, Mapping[str, DetectionResult]],
    home: Mapping[str, str],
    *,
    class_mapping: Mapping[str, Mapping[str, str]] | None = None,
) -> CrossDatasetTable:
    """Compare detectors on their own data set and on others, over the classes in common.

    Args:
        results: by detector and data set, the result of the detector there; every detector on the
            same data sets.
        home: the data set on which each detector was trained.
        class_mapping: by common name, the name of the class in each data set; None takes the names
            that all results share.

    Raises:
        InputError: if results are missing, a home is none of the data sets, or a class is unknown.

    Source: Lin et al., "Microsoft COCO: Common Objects in Context", ECCV 2014, table 1.
    """
    detectors = tuple(results)
    data_sets = tuple(next(iter(results.values()), {}))
    for name, by_data_set in results.items():
        if set(by_data_set) != set(data_sets) or not data_sets:
            got = ", ".join(by_data_set) or "none"
            raise InputError(
                f"must have results on {', '.join(data_sets)}", where=f"results[{name!r}]", got=got
            )
        if home.get(name) not in data_sets:
            raise InputError(
                f"must be one of {', '.join(data_sets)}", where=f"home[{name!r}]",
                got=repr(home.get(name)),
            )  # fmt: skip
    mapping = class_mapping or _shared_names(results)
    if not mapping:
        raise InputError("no class is in all results", remedy="give class_mapping")
    rows = [
        _values(results[d][s], [row.get(s, name) for name, row in mapping.items()], f"{d} on {s}")
        for d in detectors
        for s in data_sets
    ]
    values = torch.tensor(rows, dtype=torch.float64, device="cpu")
    values = values.reshape(len(detectors), len(data_sets), len(mapping))
    defined = ~values.isnan().any(dim=0).any(dim=0)
    mean = values[:, :, defined].mean(dim=2)
    own = [data_sets.index(home[name]) for name in detectors]
    at_home = torch.stack([mean[d, s] for d, s in enumerate(own)]).unsqueeze(1)
    return CrossDatasetTable(
        class_name=tuple(mapping),
        detector=detectors,
        data_set=data_sets,
        home=tuple(home[name] for name in detectors),
        average_precision=values,
        mean=mean,
        drop=at_home - mean,
        relative_drop=(at_home - mean) / at_home,
    )


def _shared_names(
    results: Mapping[str, Mapping[str, DetectionResult]],
) -> dict[str, Mapping[str, str]]:
    """The class names that all results have, in the order of the first."""
    every = [result.class_names for row in results.values() for result in row.values()]
    shared = set.intersection(*map(set, every))
    return {name: {} for name in every[0] if name in shared}


def _values(result: DetectionResult, names: Sequence[str], where: str) -> list[float]:
    """Average precision of the named classes; NaN for those that are in no mean."""
    known = {name: row for row, name in enumerate(result.class_names)}
    values, averaged = result.average_precision.tolist(), result.is_averaged.tolist()
    for name in names:
        if name not in known:
            raise InputError("there is no such class", where=where, got=repr(name))
    rows = [known[name] for name in names]
    return [values[row] if averaged[row] else math.nan for row in rows]
