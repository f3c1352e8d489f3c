"""Results of object detection."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from ..protocols import DetectionProtocol, protocol_title
from .base import Result, only_averaged
from .deferred import MadeWhenRead
from .numbers import mean_of_defined
from .per_class import ClassNumbers
from .plotted import Plotted
from .result_table import Column


@dataclass(frozen=True, eq=False)
class PrecisionRecallCurve(Plotted):
    """One entry per detection, by falling score; ignored detections repeat the entry before them.

    Attributes:
        recall, precision: [N] float64; NaN where the official quotient is 0/0.
        scores: [N] as the detections came.
    """

    recall: Tensor
    precision: Tensor
    scores: Tensor


@dataclass(frozen=True, eq=False, kw_only=True)
class DetectionResult(Result):
    """What every detection protocol gives.

    Attributes:
        protocol: the rules behind the numbers.
        class_names: K names.
        mean_average_precision: the protocol's mean over classes, a fraction.
        average_precision: [K] float64, mean over the IoU thresholds, as the official code has it
            for the class alone. Without objects that may be 0 or NaN; see ``is_averaged``.
        num_classes_averaged: how many classes the mean runs over.
        num_positives: [K] int64, objects that count (headline area range).
        true_positives, false_positives: [T, K] int64 (headline area range, largest limit).
        num_images, num_detections: of all that was evaluated.
        num_detections_by_class: [K] int64.
    """

    protocol: DetectionProtocol
    class_names: tuple[str, ...]
    mean_average_precision: float
    average_precision: Tensor
    num_classes_averaged: int
    num_positives: Tensor
    true_positives: Tensor
    false_positives: Tensor
    num_images: int
    num_detections: int
    num_detections_by_class: Tensor

    @property
    def headline(self) -> float:
        """The number that the protocol publishes."""
        return self.mean_average_precision

    @property
    def is_averaged(self) -> Tensor:
        """[K] bool: whether the mean runs over the class. The others are NaN in ``to_dict``."""
        if self.protocol.mean_over == "classes_with_positives":
            return self.num_positives > 0
        return ~self.average_precision.isnan()

    @property
    def ignored(self) -> Tensor:
        """[T, K] int64: detections that are neither true nor false positives."""
        return self.num_detections_by_class - self.true_positives - self.false_positives

    def to_dict(self) -> dict[str, float]:
        """Flat numbers for a logger; NaN where undefined, and for classes not in the mean."""
        values = only_averaged(self.average_precision, self.is_averaged)
        classes = zip(self.class_names, values, strict=True)
        return self._summary() | {f"AP/{name}": value for name, value in classes}

    def _summary(self) -> dict[str, float]:
        return {"mAP": self.mean_average_precision}

    def _columns(self) -> tuple[Column, ...]:
        at = f"@{self.protocol.iou_thresholds[0]:g}"
        return (
            Column("num_positives", "positives", tuple(self.num_positives.tolist())),
            Column("num_detections", "detections", tuple(self.num_detections_by_class.tolist())),
            _by_threshold("true_positives", f"TP{at}", self.true_positives),
            _by_threshold("false_positives", f"FP{at}", self.false_positives),
            _by_threshold("ignored", "ignored", self.ignored),
            Column("average_precision", "AP", tuple(self.average_precision.tolist()), of_mean=True),
        )

    def _means(self) -> dict[str, float]:
        return {"average_precision": self.mean_average_precision}

    def _more_numbers(self) -> dict[str, Any]:
        return {
            "mean_average_precision": self.mean_average_precision,
            "iou_thresholds": list(self.protocol.iou_thresholds),
        }

    @abstractmethod
    def per_class(self) -> ClassNumbers:
        """AP, AP50, AP75, AR, counts, and AP and AR by area range, one row for each class.

        The best F1 of each class needs the records:
        :func:`torch_vocmetrics.analysis.class_table`.
        """

    def _class_counts(self) -> dict[str, Any]:
        """What :meth:`per_class` has of every protocol."""
        return {
            "class_name": self.class_names,
            "average_precision": torch.where(self.is_averaged, self.average_precision, torch.nan),
            "num_positives": self.num_positives,
            "num_detections": self.num_detections_by_class,
            "true_positives": self.true_positives[0],
            "false_positives": self.false_positives[0],
        }

    def __repr__(self) -> str:
        numbers = ", ".join(f"{key}={value:.4f}" for key, value in self._summary().items())
        return f"{type(self).__name__}({protocol_title(self.protocol)}: {numbers})"


def _by_threshold(key: str, title: str, counts: Tensor) -> Column:
    """Counts [T, K]: people see those of the first threshold, programs all."""
    return Column(key, title, tuple(counts[0].tolist()), tuple(counts.T.tolist()))


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class VocDetectionResult(DetectionResult):
    """Result of the PASCAL VOC protocols.

    Attributes:
        average_precision_by_threshold: [T, K] float64.
        curves: ``curves[t][k]``, the whole precision-recall curve.
    """

    average_precision_by_threshold: Tensor
    curves: tuple[tuple[PrecisionRecallCurve, ...], ...]

    def per_class(self) -> ClassNumbers:
        """See :meth:`DetectionResult.per_class`; a VOC result has no other area ranges."""
        thresholds = self.protocol.iou_thresholds
        missing = torch.full((len(self.class_names),), torch.nan, dtype=torch.float64)
        at = {
            value: torch.where(self.is_averaged, row, torch.nan)
            for value, row in zip(thresholds, self.average_precision_by_threshold, strict=True)
        }
        by_area = torch.zeros(0, len(self.class_names), dtype=torch.float64)
        return ClassNumbers(
            **self._class_counts(),
            average_precision_50=at.get(0.5, missing),
            average_precision_75=at.get(0.75, missing),
            average_recall=(self.true_positives / self.num_positives.double()).mean(dim=0),
            area_names=(),
            average_precision_by_area=by_area,
            average_recall_by_area=by_area,
            num_positives_by_area=by_area.long(),
        )

    def _summary(self) -> dict[str, float]:
        summary = {"mAP": self.mean_average_precision}
        thresholds = self.protocol.iou_thresholds
        if len(thresholds) > 1:
            rows = self.average_precision_by_threshold[:, self.is_averaged]
            for threshold, row in zip(thresholds, rows, strict=True):
                summary[f"mAP@{threshold:g}"] = float(row.mean())
        return summary


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class CocoDetectionResult(DetectionResult):
    """Result of the COCO protocols: the arrays of pycocotools, NaN for its -1.

    Attributes:
        precision: [T, R, K, A, M] float64, interpolated at the recall levels; made when it is read.
        recall: [T, K, A, M] float64, the largest recall reached.
        scores: [T, R, K, A, M] as the detections came, score at which each recall level is reached,
            0 where not; made when it is read.
        mean_precision_by_area: [A, T] float64, mean over recall levels and classes with positives,
            largest limit.
        average_precision_by_area: [A] float64, the same over all thresholds together.
        num_positives_by_area: [A, K] int64.
    """

    precision: MadeWhenRead = MadeWhenRead()  # noqa: RUF009
    recall: Tensor
    scores: MadeWhenRead = MadeWhenRead()  # noqa: RUF009
    mean_precision_by_area: Tensor
    average_precision_by_area: Tensor
    num_positives_by_area: Tensor

    def mean_precision(
        self,
        *,
        iou_threshold: float | None = None,
        area: str | None = None,
        max_detections: int | None = None,
        class_name: str | None = None,
    ) -> float:
        """Average precision over the chosen part; defaults are all thresholds and classes, the
        headline area range, the largest limit. NaN where nothing is defined.

        Raises:
            InputError: if the protocol has no such threshold, area, limit or class.
        """
        limits = self.protocol.max_detections
        if class_name is None and max_detections in (None, *limits[-1:]):
            a, t = self._area(area), self._threshold(iou_threshold)
            means = self.average_precision_by_area if t is None else self.mean_precision_by_area
            return float(means[a] if t is None else means[a, t])
        return self._mean(self.precision, iou_threshold, area, max_detections, class_name)

    def mean_recall(
        self,
        *,
        iou_threshold: float | None = None,
        area: str | None = None,
        max_detections: int | None = None,
        class_name: str | None = None,
    ) -> float:
        """Average recall over the chosen part; arguments as for :meth:`mean_precision`."""
        return self._mean(self.recall, iou_threshold, area, max_detections, class_name)

    def per_class(self) -> ClassNumbers:
        """See :meth:`DetectionResult.per_class`; recall is that of the largest limit."""
        names = [entry.name for entry in self.protocol.area_ranges]
        others = [name for name in names if name != self.protocol.headline_area]
        known = self.protocol.iou_thresholds

        def of_classes(read: Callable[..., float], **chosen: Any) -> Tensor:
            """[K] one number of each class."""
            values = [read(class_name=name, **chosen) for name in self.class_names]
            return torch.tensor(values, dtype=torch.float64)

        def at(threshold: float) -> Tensor:
            if threshold not in known:
                return torch.full((len(self.class_names),), torch.nan, dtype=torch.float64)
            return of_classes(self.mean_precision, iou_threshold=threshold)

        def by_area(read: Callable[..., float]) -> Tensor:
            rows = [of_classes(read, area=name) for name in others]
            return torch.stack(rows) if rows else torch.zeros(0, len(self.class_names))

        return ClassNumbers(
            **self._class_counts(),
            average_precision_50=at(0.5),
            average_precision_75=at(0.75),
            average_recall=of_classes(self.mean_recall),
            area_names=tuple(others),
            average_precision_by_area=by_area(self.mean_precision).double(),
            average_recall_by_area=by_area(self.mean_recall).double(),
            num_positives_by_area=self.num_positives_by_area[
                [names.index(name) for name in others]
            ],
        )

    def _mean(
        self,
        values: Tensor,
        iou_threshold: float | None,
        area: str | None,
        max_detections: int | None,
        class_name: str | None,
    ) -> float:
        rules = self.protocol
        limits = rules.max_detections or (None,)
        part = values[..., self._area(area), :]
        limit = -1 if max_detections is None else _place("max_detections", max_detections, limits)
        part = part[..., limit]
        if class_name is not None:
            k = _place("class_name", class_name, self.class_names)
            part = part[..., k : k + 1]
        t = self._threshold(iou_threshold)
        return mean_of_defined(part if t is None else part[t : t + 1])

    def _area(self, area: str | None) -> int:
        names = tuple(entry.name for entry in self.protocol.area_ranges)
        return _place("area", self.protocol.headline_area if area is None else area, names)

    def _threshold(self, iou_threshold: float | None) -> int | None:
        known = self.protocol.iou_thresholds
        return None if iou_threshold is None else _place("iou_threshold", iou_threshold, known)

    def _summary(self) -> dict[str, float]:
        rules = self.protocol
        summary = {"AP": self.mean_average_precision}
        for threshold in (0.5, 0.75):
            known = threshold in rules.iou_thresholds
            value = self.mean_precision(iou_threshold=threshold) if known else math.nan
            summary[f"AP{round(100 * threshold)}"] = value
        names = [entry.name for entry in rules.area_ranges]
        areas = [name for name in names if name != rules.headline_area]
        short = {"small": "s", "medium": "m", "large": "l"}
        suffixes = [short.get(name, f"_{name}") for name in areas]
        for name, suffix in zip(areas, suffixes, strict=True):
            summary[f"AP{suffix}"] = self.mean_precision(area=name)
        for limit in rules.max_detections:
            summary[f"AR{limit}"] = self.mean_recall(max_detections=limit)
        for name, suffix in zip(areas, suffixes, strict=True):
            summary[f"AR{suffix}"] = self.mean_recall(area=name)
        return summary


def _place(argument: str, wanted: object, known: tuple[object, ...]) -> int:
    if wanted not in known:
        raise InputError(
            f"the protocol has no {argument} {wanted!r}",
            remedy=f"it has {', '.join(map(str, known))}",
        )
    return known.index(wanted)
