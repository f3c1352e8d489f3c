"""From pixel counts to the result of a segmentation protocol."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..protocols import SegmentationProtocol
from ..results import SegmentationResult, as_tensor
from .averages import running_sum
from .precision_recall import Floats

Counts = NDArray[np.int64]


def segmentation_result(
    protocol: SegmentationProtocol,
    counts: Counts,
    class_names: tuple[str, ...],
    category_names: tuple[str, ...],
    num_images: int,
) -> SegmentationResult:
    """All measures of a confusion matrix.

    Args:
        protocol: the rules.
        counts: [K, K + 1] pixels by truth and prediction; the last column holds the predictions of
            a void label.
        class_names: K names.
        category_names: the category of each class, or none.
        num_images: how many images were counted.
    """
    undefined = 0.0 if protocol.undefined_class == "zero" and num_images else math.nan
    matrix = counts[:, :-1]
    hits, true, predicted = np.diagonal(matrix), counts.sum(1), matrix.sum(0)
    iou = _ratio(hits, true + predicted - hits, undefined)
    recall = _ratio(hits, true, undefined)
    measured = recall if protocol.class_measure == "pixel_recall" else iou
    there = true > 0
    weighted = true[there] * iou[there]
    categories = tuple(dict.fromkeys(category_names))
    by_category = _category_iou(counts, category_names, categories, undefined)
    return SegmentationResult(
        protocol=protocol,
        class_names=class_names,
        confusion_matrix=as_tensor(matrix),
        missed=as_tensor(counts[:, -1]),
        iou=as_tensor(iou),
        pixel_precision=as_tensor(_ratio(hits, predicted, undefined)),
        pixel_recall=as_tensor(recall),
        mean_iou=_mean(iou, protocol),
        mean_accuracy=_mean(recall, protocol),
        num_classes_averaged=_taken(measured, protocol).size,
        pixel_accuracy=_quotient(hits.sum(), true.sum()),
        frequency_weighted_iou=_quotient(running_sum(weighted) if there.any() else 0.0, true.sum()),
        category_names=categories,
        category_iou=as_tensor(by_category),
        mean_category_iou=_mean(by_category, protocol),
        num_images=num_images,
    )


def _category_iou(
    counts: Counts,
    category_of_class: tuple[str, ...],
    categories: tuple[str, ...],
    undefined: float,
) -> Floats:
    """IoU of the classes of each category taken together."""
    members = np.array(
        [[one == c for one in category_of_class] for c in categories], dtype=np.int64
    )
    members = members.reshape(len(categories), counts.shape[0])
    hits = np.einsum("ck,kl,cl->c", members, counts[:, :-1], members)
    true, predicted = members @ counts.sum(1), members @ counts[:, :-1].sum(0)
    return _ratio(hits, true + predicted - hits, undefined)


def _ratio(numerator: Counts, denominator: Counts, undefined: float) -> Floats:
    """Quotients of counts; where nothing is counted, what the protocol says."""
    values = np.full(numerator.shape, undefined)
    np.divide(numerator, denominator, out=values, where=denominator > 0)
    return values


def _quotient(numerator: float, denominator: int) -> float:
    return float(numerator / denominator) if denominator else math.nan


def _taken(values: Floats, protocol: SegmentationProtocol) -> Floats:
    """The values that the protocol averages."""
    return values if protocol.mean_over == "all_classes" else values[~np.isnan(values)]


def _mean(values: Floats, protocol: SegmentationProtocol) -> float:
    """Mean by a running sum, as MATLAB and the Cityscapes scripts add; NaN of no values."""
    taken = _taken(values, protocol)
    return running_sum(taken) / taken.size if taken.size else math.nan
