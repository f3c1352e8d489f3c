"""Results of person layout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from ..curves.averages import mean_over_classes
from ..protocols import LayoutProtocol, protocol_title
from .base import Result
from .detection import PrecisionRecallCurve
from .result_table import Column


@dataclass(frozen=True, eq=False, kw_only=True)
class LayoutResult(Result):
    """What a layout protocol gives.

    Attributes:
        protocol: the rules behind the numbers.
        class_names: K names of what is ranked: the part types, or one entry ``layout``.
        average_precision: [K] float64, as the official code has it for the part alone. Without
            true parts that may be 0 or NaN; see ``is_averaged``.
        num_classes_averaged: how many classes the mean runs over: those with positives.
        num_positives: [K] int64: persons that count, or true parts of each type.
        true_positives, false_positives: [K] int64.
        num_images: of all that was evaluated.
        num_skipped: layouts, or parts of layouts, that were not evaluated: of unknown persons, and
            of repeated layouts where the first alone counts.
        curves: K precision-recall curves, an entry a layout or a predicted part, in the order in
            which the protocol walks them. Skipped layouts repeat the entry before, if there is one;
            skipped parts have none.
    """

    _row_kind: ClassVar[str] = "part"

    protocol: LayoutProtocol
    class_names: tuple[str, ...]
    average_precision: Tensor
    num_classes_averaged: int
    num_positives: Tensor
    true_positives: Tensor
    false_positives: Tensor
    num_images: int
    num_skipped: int
    curves: tuple[PrecisionRecallCurve, ...]

    @property
    def is_averaged(self) -> Tensor:
        """[K] bool: whether the mean runs over the part."""
        return (self.num_positives > 0) | (self.protocol.unit == "layout")

    @property
    def mean_average_precision(self) -> float:
        """Mean over the part types with positives; of whole layouts their one value."""
        if self.protocol.unit == "layout":
            return float(self.average_precision[0])
        return mean_over_classes(self.average_precision.numpy(), self.num_positives.numpy())

    @property
    def headline(self) -> float:
        """The number that the protocol publishes, as a mean over part types."""
        return self.mean_average_precision

    def to_dict(self) -> dict[str, float]:
        """Flat numbers for a logger: ``AP``, or ``AP/<part>``.

        As the official code has them, which reports every part: 0 of a part that nobody has, NaN
        where such parts were predicted.
        """
        values = self.average_precision.tolist()
        if self.protocol.unit == "layout":
            return {"AP": values[0]}
        return {f"AP/{name}": value for name, value in zip(self.class_names, values, strict=True)}

    def _columns(self) -> tuple[Column, ...]:
        counts = (
            ("num_positives", "positives"),
            ("true_positives", "TP"),
            ("false_positives", "FP"),
        )
        averages = tuple(self.average_precision.tolist())
        return (
            *(Column(key, title, tuple(getattr(self, key).tolist())) for key, title in counts),
            Column("average_precision", "AP", averages, of_mean=True),
        )

    def _means(self) -> dict[str, float]:
        whole = self.protocol.unit == "layout"
        return {} if whole else {"average_precision": self.headline}

    def __repr__(self) -> str:
        numbers = ", ".join(f"{key}={value:.4f}" for key, value in self.to_dict().items())
        return f"{type(self).__name__}({protocol_title(self.protocol)}: {numbers})"
