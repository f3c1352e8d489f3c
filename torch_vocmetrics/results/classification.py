"""Results of image and of action classification."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..curves.averages import average_of, mean_over_classes
from ..curves.precision_recall import normalized_precision
from ..errors import InputError
from ..protocols import ClassificationProtocol, protocol_title
from .base import Result, only_averaged
from .detection import PrecisionRecallCurve
from .plotted import Plotted
from .result_table import Column


@dataclass(frozen=True, eq=False)
class RocCurve(Plotted):
    """The rates at each distinct score, by falling score, with (0, 0) before and (1, 1) after.

    Attributes:
        false_positive_rate, true_positive_rate: [N] float64; NaN for 0/0.
        area: below the lower envelope, on which equal scores earn nothing.
    """

    false_positive_rate: Tensor
    true_positive_rate: Tensor
    area: float


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassificationResult(Result):
    """What a classification protocol gives.

    Attributes:
        protocol: the rules behind the numbers.
        class_names: K names.
        average_precision: [K] float64 by the protocol's interpolation; without interpolation where
            the protocol publishes the area of the ROC curve (voc2006). As the official code has it
            for the class alone: without positives that may be 0 or NaN; see ``is_averaged``.
        plain_average_precision: [K] float64 without interpolation: precision summed over the steps
            of recall.
        num_classes_averaged: how many classes means run over: those with positives.
        num_positives, num_negatives: [K] int64; images of difficult objects only are neither.
        num_images: images, or (image, object) pairs of actions.
        curves: K precision-recall curves, an entry an image by falling score; an image that is
            neither repeats the entry before it.
        roc_curves: K curves.
    """

    protocol: ClassificationProtocol
    class_names: tuple[str, ...]
    average_precision: Tensor
    plain_average_precision: Tensor
    num_classes_averaged: int
    num_positives: Tensor
    num_negatives: Tensor
    num_images: int
    curves: tuple[PrecisionRecallCurve, ...]
    roc_curves: tuple[RocCurve, ...]

    @property
    def is_averaged(self) -> Tensor:
        """[K] bool: whether means run over the class. The others are NaN in ``to_dict``."""
        return self.num_positives > 0

    @property
    def mean_average_precision(self) -> float:
        """Mean of ``average_precision`` over the classes with positives."""
        return self._mean(self.average_precision)

    @property
    def roc_area(self) -> Tensor:
        """[K] float64: the areas of ``roc_curves``."""
        return torch.tensor([curve.area for curve in self.roc_curves], dtype=torch.float64)

    @property
    def mean_roc_area(self) -> float:
        """Mean of ``roc_area`` over the classes with positives."""
        return self._mean(self.roc_area)

    @property
    def headline(self) -> float:
        """The number that the protocol publishes, as a mean over classes."""
        return self.mean_roc_area if self._is_roc else self.mean_average_precision

    @property
    def chance_average_precision(self) -> Tensor:
        """[K] float64: what a random order scores, the share of the positives.

        It is the expected precision at every recall, so that long rankings tend to it. NaN without
        positives and negatives.
        """
        positives = self.num_positives.double()
        return positives / (positives + self.num_negatives)

    def normalized_average_precision(self, expected_positives: float | None = None) -> Tensor:
        """[K] float64: average precision as if each class had equally many positives.

        Precision becomes ``R N / (R N + F)`` at recall R after F false positives, with one N for
        all classes, so that rare and frequent classes compare.

        Args:
            expected_positives: N; None takes the mean over the classes with positives.

        Raises:
            InputError: if N is not above 0.

        Source: Hoiem, Chodpathumwan and Dai, "Diagnosing Error in Object Detectors", ECCV 2012,
        section 2.3; for VOC: Everingham et al., "The PASCAL VOC Challenge: a Retrospective", IJCV
        2015.
        """
        npos = self.num_positives.numpy()
        if expected_positives is None:
            present = npos[npos > 0]
            expected_positives = float(present.mean()) if present.size else 1.0
        if not expected_positives > 0:
            raise InputError(
                "must be above 0", where="expected_positives", got=repr(expected_positives)
            )
        values = []
        for curve, positives in zip(self.curves, npos.tolist(), strict=True):
            recall, precision = curve.recall.numpy(), curve.precision.numpy()
            fair = normalized_precision(recall, precision, positives, expected_positives)
            rules = self.protocol
            values.append(average_of(recall, fair, rules.interpolation, rules.recall_levels))
        return torch.tensor(values, dtype=torch.float64)

    def to_dict(self) -> dict[str, float]:
        """Flat numbers for a logger: ``mAP`` and ``AP/<class>``.

        NaN where undefined, and for classes not in the mean.

        A protocol of the ROC curve has ``mAUC`` and ``AUC/<class>``.
        """
        word, values = ("AUC", self.roc_area) if self._is_roc else ("AP", self.average_precision)
        shown = only_averaged(values, self.is_averaged)
        classes = zip(self.class_names, shown, strict=True)
        return {f"m{word}": self.headline} | {f"{word}/{name}": value for name, value in classes}

    def _columns(self) -> tuple[Column, ...]:
        counts = (
            Column("num_positives", "positives", tuple(self.num_positives.tolist())),
            Column("num_negatives", "negatives", tuple(self.num_negatives.tolist())),
        )
        values = (
            ("average_precision", "AP", self.average_precision),
            ("plain_average_precision", "", self.plain_average_precision),
            ("chance_average_precision", "", self.chance_average_precision),
            ("roc_area", "ROC area", self.roc_area),
        )
        return counts + tuple(
            Column(key, title, tuple(numbers.tolist()), of_mean=True)
            for key, title, numbers in values
        )

    def _means(self) -> dict[str, float]:
        return {"average_precision": self.mean_average_precision, "roc_area": self.mean_roc_area}

    def _more_numbers(self) -> dict[str, float]:
        return {f"mean_{key}": value for key, value in self._means().items()}

    @property
    def _is_roc(self) -> bool:
        return self.protocol.interpolation == "roc_lower_envelope"

    def _mean(self, values: Tensor) -> float:
        return mean_over_classes(values.numpy(), self.num_positives.numpy())

    def __repr__(self) -> str:
        word = "mAUC" if self._is_roc else "mAP"
        return f"{type(self).__name__}({protocol_title(self.protocol)}: {word}={self.headline:.4f})"
