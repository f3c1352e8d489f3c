"""Results of pedestrian detection: miss rate against false positives per image."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ..errors import InputError
from ..protocols import MissRateProtocol, protocol_title
from .base import Result
from .plotted import Plotted
from .result_table import Column


@dataclass(frozen=True, eq=False)
class MissRateCurve(Plotted):
    """One entry per detection that is not ignored, by falling score.

    Attributes:
        fppi: [N] float64, false positives per image down to this detection.
        recall, precision: [N] float64; NaN where the quotient is 0/0.
        scores: [N] as the detections came.
    """

    fppi: Tensor
    recall: Tensor
    precision: Tensor
    scores: Tensor

    @property
    def miss_rate(self) -> Tensor:
        """[N] float64, ``1 - recall``."""
        return 1 - self.recall


@dataclass(frozen=True, eq=False, kw_only=True)
class MissRateResult(Result):
    """What every miss rate protocol gives, for its S subsets.

    Attributes:
        protocol: the rules behind the numbers.
        log_average_miss_rate: [S] float64, a fraction.
        miss_rate: [S, R] float64 at the references of each subset.
        mean_precision: [S] float64 over the protocol's recall levels, NaN without any.
        curves: the whole curve of each subset.
        num_positives: [S] int64, objects that count.
        true_positives, false_positives: [S] int64.
        num_images_of_subset: [S] int64, what false positives are divided by.
        num_images, num_detections: of all that was evaluated.
    """

    _row_kind: ClassVar[str] = "subset"

    protocol: MissRateProtocol
    log_average_miss_rate: Tensor
    miss_rate: Tensor
    mean_precision: Tensor
    curves: tuple[MissRateCurve, ...]
    num_positives: Tensor
    true_positives: Tensor
    false_positives: Tensor
    num_images_of_subset: Tensor
    num_images: int
    num_detections: int

    @property
    def headline(self) -> float:
        """The number that the protocol publishes: that of its first subset."""
        return float(self.log_average_miss_rate[0])

    @property
    def subset_names(self) -> tuple[str, ...]:
        """The S names."""
        return self.protocol.subset_names

    @property
    def _names(self) -> tuple[str, ...]:
        return self.subset_names

    @property
    def ignored(self) -> Tensor:
        """[S] int64: detections that are neither true nor false positives."""
        return self.num_detections - self.true_positives - self.false_positives

    def miss_rate_at(self, fppi: float, subset: str | None = None) -> float:
        """Miss rate at a number of false positives per image, read as the protocol reads it.

        Args:
            fppi: where to read.
            subset: its name; None for the first.

        Raises:
            InputError: if the protocol has no such subset.
        """
        position = 0 if subset is None else _place(subset, self.subset_names)
        rules, curve = self.protocol, self.curves[position]
        unknown = rules.without_positives == "undefined" and not self.num_positives[position]
        if unknown or not self.num_images_of_subset[position]:
            return math.nan
        spot = reading_index(curve.fppi.numpy(), fppi, rules.curve_reading)
        if spot is not None:
            return 1.0 - float(curve.recall[spot])
        return unread_miss_rate(curve.fppi.numpy(), rules.curve_reading)

    def to_dict(self) -> dict[str, float]:
        """Flat numbers for a logger, ``LAMR/<subset>``; undefined is NaN."""
        values = self.log_average_miss_rate.tolist()
        return {f"LAMR/{name}": v for name, v in zip(self.subset_names, values, strict=True)}

    def _columns(self) -> tuple[Column, ...]:
        counts = (
            ("num_images", "images", self.num_images_of_subset),
            ("num_positives", "positives", self.num_positives),
            ("true_positives", "TP", self.true_positives),
            ("false_positives", "FP", self.false_positives),
            ("ignored", "ignored", self.ignored),
        )
        references = tuple(list(self.protocol.fppi_of(one)) for one in self.protocol.subsets)
        averages = tuple(self.log_average_miss_rate.tolist())
        return (
            *(Column(key, title, tuple(numbers.tolist())) for key, title, numbers in counts),
            Column("log_average_miss_rate", "LAMR", averages),
            Column("references", "", averages, references),
            Column("miss_rate", "", averages, tuple(self.miss_rate.tolist())),
            Column("mean_precision", "", tuple(self.mean_precision.tolist())),
        )

    def __repr__(self) -> str:
        numbers = ", ".join(f"{key}={value:.4f}" for key, value in self.to_dict().items())
        return f"{type(self).__name__}({protocol_title(self.protocol)}: {numbers})"


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class CrowdMissRateResult(MissRateResult):
    """Result of CrowdHuman: the miss rates, and two numbers beside them.

    Attributes:
        average_precision: area under precision and recall by trapezoids.
        jaccard_index: the largest of the following that is defined.
        jaccard_by_score: [L] float64, mean Jaccard index of the images at each score limit.
        jaccard_counts: [I, L, 3] int32, of each image (by position) at each limit the matches, the
            detections and the objects that take part.
    """

    average_precision: float
    jaccard_index: float
    jaccard_by_score: Tensor
    jaccard_counts: Tensor

    def to_dict(self) -> dict[str, float]:
        """Flat numbers for a logger: a key per subset, ``AP`` and ``JI``; undefined is NaN."""
        rates = dict(zip(self.subset_names, self.log_average_miss_rate.tolist(), strict=True))
        return rates | {"AP": self.average_precision, "JI": self.jaccard_index}

    def _summary(self) -> dict[str, float]:
        return self.to_dict()

    def _more_numbers(self) -> dict[str, Any]:
        return {
            "average_precision": self.average_precision,
            "jaccard_index": self.jaccard_index,
            "jaccard_by_score": self.jaccard_by_score.tolist(),
            "jaccard_counts": self.jaccard_counts.sum(dim=0).tolist(),
        }


def reading_index(fppi: NDArray[np.float64], reference: float, rule: str) -> int | None:
    """The point at which a curve is read, None where it has none for the reference.

    Args:
        fppi: [N] rising, one entry a detection.
        reference: where to read.
        rule: the protocol's ``curve_reading``.
    """
    if not fppi.size:
        return None
    if rule == "first_or_final":
        return min(int(np.searchsorted(fppi, reference, side="left")), fppi.size - 1)
    last = int(np.searchsorted(fppi, reference, side="right")) - 1
    if last >= 0:
        return last
    return fppi.size - 1 if rule == "last_or_final" else None


def unread_miss_rate(fppi: NDArray[np.float64], rule: str) -> float:
    """The miss rate of a reference for which :func:`reading_place` has no point: 1 or undefined."""
    undefined = rule == ("last_or_undefined" if fppi.size else "first_or_final")
    return math.nan if undefined else 1.0


def _place(name: str, known: tuple[str, ...]) -> int:
    if name not in known:
        raise InputError(
            f"the protocol has no subset {name!r}", remedy=f"it has {', '.join(known)}"
        )
    return known.index(name)
