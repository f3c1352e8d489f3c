"""Result of semantic segmentation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..protocols import SegmentationProtocol, protocol_title
from .base import Result
from .result_table import Column


@dataclass(frozen=True, eq=False, kw_only=True)
class SegmentationResult(Result):
    """Counts of pixels and the measures made of them, as fractions.

    Attributes:
        protocol: the rules behind the numbers.
        class_names: K names.
        confusion_matrix: [K, K] int64, pixels by [ground truth, prediction].
        missed: [K] int64, pixels of each true class that were predicted as a void label.
        iou: [K] float64, pixels of both over pixels of either.
        pixel_precision, pixel_recall: [K] float64, hits over predicted and over true pixels.
        mean_iou, mean_accuracy: means of ``iou`` and ``pixel_recall`` over the classes that the
            protocol takes.
        num_classes_averaged: how many classes the headline runs over.
        pixel_accuracy: hits over all pixels.
        frequency_weighted_iou: mean of ``iou`` weighted by the true pixels of each class.
        category_names: C names; none where classes have no categories.
        category_iou: [C] float64.
        mean_category_iou: the mean of those, NaN without categories.
        num_images: of all that was evaluated.
    """

    protocol: SegmentationProtocol
    class_names: tuple[str, ...]
    confusion_matrix: Tensor
    missed: Tensor
    iou: Tensor
    pixel_precision: Tensor
    pixel_recall: Tensor
    mean_iou: float
    mean_accuracy: float
    num_classes_averaged: int
    pixel_accuracy: float
    frequency_weighted_iou: float
    category_names: tuple[str, ...]
    category_iou: Tensor
    mean_category_iou: float
    num_images: int

    @property
    def headline(self) -> float:
        """The number that the protocol publishes."""
        of_recall = self.protocol.class_measure == "pixel_recall"
        return self.mean_accuracy if of_recall else self.mean_iou

    @property
    def normalized_confusion_matrix(self) -> Tensor:
        """[K, K] float64: the rows as fractions of the true pixels, 0 where there are none."""
        return self.confusion_matrix.to(torch.float64) / self.num_pixels.clamp(min=1).unsqueeze(1)

    @property
    def num_pixels(self) -> Tensor:
        """[K] int64: true pixels of each class."""
        return self.confusion_matrix.sum(1) + self.missed

    def to_dict(self) -> dict[str, float]:
        """Flat numbers for a logger; undefined is NaN."""
        return self._summary() | {
            f"{kind}/{name}": value
            for kind, names, values in (
                ("IoU", self.class_names, self.iou),
                ("category_IoU", self.category_names, self.category_iou),
            )
            for name, value in zip(names, values.tolist(), strict=True)
        }

    def _summary(self) -> dict[str, float]:
        summary = {
            "mIoU": self.mean_iou,
            "mean_accuracy": self.mean_accuracy,
            "pixel_accuracy": self.pixel_accuracy,
            "frequency_weighted_IoU": self.frequency_weighted_iou,
        }
        if self.category_names:
            summary["category_mIoU"] = self.mean_category_iou
        return summary

    def _columns(self) -> tuple[Column, ...]:
        measures = (
            ("iou", "IoU", self.iou),
            ("pixel_precision", "precision", self.pixel_precision),
            ("pixel_recall", "recall", self.pixel_recall),
        )
        return (
            Column("num_pixels", "pixels", tuple(self.num_pixels.tolist())),
            *(Column(key, title, tuple(values.tolist())) for key, title, values in measures),
        )

    def _means(self) -> dict[str, float]:
        return {"iou": self.mean_iou, "pixel_recall": self.mean_accuracy}

    def _more_numbers(self) -> dict[str, Any]:
        return {
            "confusion_matrix": self.confusion_matrix.tolist(),
            "missed": self.missed.tolist(),
        }

    def __repr__(self) -> str:
        numbers = ", ".join(f"{key}={value:.4f}" for key, value in self._summary().items())
        return f"{type(self).__name__}({protocol_title(self.protocol)}: {numbers})"
