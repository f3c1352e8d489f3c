"""Numbers of a data set as functions of how often each image occurs.

Bootstrap, jackknife and permutation methods ask for a number under thousands of image weights. What
is here answers for many weights in one batched computation, from records that are matched once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..curves.pixel_result import segmentation_result
from ..errors import InputError
from ..metrics.segmentation import MeanIoU
from ..ops.selection import take_along
from ..protocols import DetectionProtocol, MissRateProtocol
from .record_statistics import DetectionNumbers, MissRateNumbers
from .source import distinct_of, records_of

Evaluate = Callable[[Tensor], Tensor]

_TILE_ENTRIES = 2**21


@dataclass(frozen=True, eq=False)
class ImageStatistics:
    """Numbers of a data set of I images under image weights.

    An object of one's own makes any number of images resampled: ``evaluate`` may be any function
    that takes weights and gives numbers.

    Attributes:
        names: S names, the headline first.
        num_images: I.
        image_ids: I ids, by which two data sets are compared; None where there are none.
        evaluate: from weights [W, I] int32 on the CPU to values [W, S] float64 on the CPU.
        larger_is_better: False where the numbers are rates of errors.

    Example:
        >>> images = torch.tensor([1.0, 2.0, 6.0], dtype=torch.float64)
        >>> def mean(weights):
        ...     return ((weights * images).sum(1) / weights.sum(1)).unsqueeze(1)
        >>> statistics = ImageStatistics(("mean",), 3, None, mean)
        >>> statistics.evaluate(torch.tensor([[1, 1, 1], [2, 1, 0]])).squeeze(1).tolist()
        [3.0, 1.3333333333333333]
    """

    names: tuple[str, ...]
    num_images: int
    image_ids: tuple[int | str, ...] | None
    evaluate: Evaluate
    larger_is_better: bool = True


def image_statistics(
    source: Any, *, area: str | None = None, score_threshold: float | None = None
) -> ImageStatistics:
    """The numbers of a metric, or of records, under image weights.

    Args:
        source: a :class:`~torch_vocmetrics.DetectionAP`, :class:`LogAverageMissRate` or
            :class:`MeanIoU` metric, the records of a metric, or an :class:`ImageStatistics`, which
            is returned as it is.
        area: name of an area range of a detection protocol; None takes that of the headline.
        score_threshold: of detections that count for ``F1``, which is left out without one.

    Raises:
        InputError: if ``source`` is none of these, or holds no images.
    """
    if isinstance(source, ImageStatistics):
        return source
    statistics = (
        _of_pixels(source)
        if isinstance(source, MeanIoU)
        else _of_records(records_of(source), area, score_threshold)
    )
    if not statistics.num_images:
        raise InputError("there are no images to resample", where="source")
    return statistics


def _of_records(records: Any, area: str | None, score_threshold: float | None) -> ImageStatistics:
    """The numbers of match records, by the kind of their protocol."""
    is_miss_rate = isinstance(records.protocol, MissRateProtocol)
    if not is_miss_rate and not isinstance(records.protocol, DetectionProtocol):
        raise InputError(
            "must be of detection, pedestrians or segmentation",
            where="source",
            got=records.protocol.task,
        )
    numbers: MissRateNumbers | DetectionNumbers = (
        MissRateNumbers(records)
        if is_miss_rate
        else DetectionNumbers(records, area, score_threshold)
    )
    images = records.num_images
    evaluate = numbers.evaluate
    return ImageStatistics(numbers.names, images, records.image_ids, evaluate, not is_miss_rate)


def _of_pixels(metric: MeanIoU) -> ImageStatistics:
    """Mean IoU, and the IoU of each class, of a metric of label maps."""
    counts = distinct_of(metric)
    K = len(metric.class_names)
    cells, image = K * (K + 1), counts.image.cpu().long()
    cell, count = counts.cell.cpu().long(), counts.count.cpu()

    def evaluate(weights: Tensor) -> Tensor:
        values = torch.empty((weights.shape[0], K + 1), dtype=torch.float64, device="cpu")
        tile = max(1, _TILE_ENTRIES // max(1, image.shape[0]))
        for first in range(0, weights.shape[0], tile):
            rows = take_along(weights[first : first + tile].long(), image) * count
            totals = torch.zeros((rows.shape[0], cells), dtype=torch.int64, device="cpu")
            totals.index_add_(1, cell, rows)
            for row, matrix in enumerate(totals.reshape(-1, K, K + 1).numpy(), first):
                result = segmentation_result(
                    metric.protocol, matrix, metric.class_names, (), counts.num_images
                )
                values[row, 0], values[row, 1:] = result.headline, result.iou
        return values

    names = ("mIoU", *(f"IoU/{name}" for name in metric.class_names))
    return ImageStatistics(names, counts.num_images, counts.image_ids, evaluate)
