"""Means over groups of classes, such as COCO's supercategories."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from ..results import ClassNumbers, DetectionResult, Table, mean_of_defined


@dataclass(frozen=True, eq=False)
class SupercategoryMeans(Table):
    """One row for each group of classes, in the order in which they are met.

    Attributes:
        supercategory: G names.
        num_classes: [G] int64 classes over which the means run, those with objects.
        average_precision, average_precision_50, average_precision_75: [G] float64 means.
        average_recall: [G] float64 mean.
        num_positives: [G] int64 objects that count.
    """

    supercategory: tuple[str, ...]
    num_classes: Tensor
    average_precision: Tensor
    average_precision_50: Tensor
    average_precision_75: Tensor
    average_recall: Tensor
    num_positives: Tensor


def supercategory_means(source: Any, groups: Mapping[str, str]) -> SupercategoryMeans:
    """Means of AP and AR over the classes of each group; a class without objects is left out.

    Args:
        source: a detection result, or its ``per_class()``.
        groups: the group of each class by name; of COCO's annotations
            ``{c["name"]: c["supercategory"] for c in coco["categories"]}``.

    Raises:
        InputError: if a class has no group, or ``source`` has no classes.
    """
    numbers = source.per_class() if isinstance(source, DetectionResult) else source
    if not isinstance(numbers, ClassNumbers):
        raise InputError(
            "must be a detection result or its per_class()",
            where="source",
            got=type(source).__name__,
        )
    missing = [name for name in numbers.class_name if name not in groups]
    if missing:
        raise InputError(f"has no group of class {missing[0]!r}", where="groups")
    names = tuple(dict.fromkeys(groups[name] for name in numbers.class_name))
    group = torch.tensor([names.index(groups[name]) for name in numbers.class_name])
    members = [(group == row) & (numbers.num_positives > 0) for row in range(len(names))]

    def means(values: Tensor) -> Tensor:
        """[G] float64 of [K]."""
        rows = [mean_of_defined(values[chosen]) for chosen in members]
        return torch.tensor(rows, dtype=torch.float64)

    return SupercategoryMeans(
        supercategory=names,
        num_classes=torch.stack([chosen.sum() for chosen in members]),
        average_precision=means(numbers.average_precision),
        average_precision_50=means(numbers.average_precision_50),
        average_precision_75=means(numbers.average_precision_75),
        average_recall=means(numbers.average_recall),
        num_positives=torch.stack([numbers.num_positives[chosen].sum() for chosen in members]),
    )
