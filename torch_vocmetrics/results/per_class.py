"""One row for each class: the numbers of a detection result that are asked for by class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from .table import Table


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassNumbers(Table):
    """The numbers of K classes, NaN where undefined.

    Attributes:
        class_name: K names.
        average_precision: [K] float64, mean over the IoU thresholds.
        average_precision_50, average_precision_75: [K] float64 at IoU 0.5 and 0.75, NaN if the
            protocol has no such threshold.
        average_recall: [K] float64, the largest recall, mean over the IoU thresholds.
        num_positives: [K] int64, objects that count.
        num_detections: [K] int64.
        true_positives, false_positives: [K] int64 at the lowest IoU threshold.
        area_names: the A - 1 area ranges beside the headline one, for which everything above is.
        average_precision_by_area, average_recall_by_area: [A - 1, K] float64.
        num_positives_by_area: [A - 1, K] int64.
    """

    class_name: tuple[str, ...]
    average_precision: Tensor
    average_precision_50: Tensor
    average_precision_75: Tensor
    average_recall: Tensor
    num_positives: Tensor
    num_detections: Tensor
    true_positives: Tensor
    false_positives: Tensor
    area_names: tuple[str, ...]
    average_precision_by_area: Tensor
    average_recall_by_area: Tensor
    num_positives_by_area: Tensor

    def columns(self) -> dict[str, Sequence[Any] | Tensor]:
        """One row for each class; numbers by area have the area range in their name."""
        columns: dict[str, Sequence[Any] | Tensor] = {}
        for name, value in super().columns().items():
            if name == "area_names":
                continue
            if name.endswith("_by_area"):
                stem = name.removesuffix("_by_area")
                columns |= {
                    f"{stem}_{area}": row for area, row in zip(self.area_names, value, strict=True)
                }
            else:
                columns[name] = value
        return columns
