"""From rankings to the result of a detection protocol."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..protocols import DetectionProtocol
from ..results import (
    CocoDetectionResult,
    DetectionResult,
    PrecisionRecallCurve,
    VocDetectionResult,
    as_tensor,
    mean_of_defined,
)
from .averages import average_of, mean_over_classes, running_sum
from .coco_means import mean_precisions, read_curves
from .precision_recall import cumulative_counts, precision_recall
from .ranking import Ranker, Ranking

BLOCK_ROWS = 2**17
"""Detections that are ranked together: few operations, and little memory for each."""


def detection_result(
    protocol: DetectionProtocol, ranker: Ranker, class_names: tuple[str, ...]
) -> DetectionResult:
    """Curves, averages and counts of ranked records under a protocol."""
    if protocol.interpolation == "recall_grid":
        return _coco_result(protocol, ranker, class_names)
    return _voc_result(protocol, ranker, class_names)


class _ClassCurves(NamedTuple):
    """One class under a VOC protocol, an entry per IoU threshold; counts [T] after the last row."""

    curves: tuple[PrecisionRecallCurve, ...]
    averages: list[float]
    true_positives: NDArray[np.int64]
    false_positives: NDArray[np.int64]


def _voc_result(
    protocol: DetectionProtocol, ranker: Ranker, class_names: tuple[str, ...]
) -> VocDetectionResult:
    classes = list[_ClassCurves]()
    for block in ranker.blocks(BLOCK_ROWS):
        classes += _class_curves(protocol, ranker.ranked(block))
    npos = ranker.num_positives[0].cpu().numpy()
    precisions = np.array([one.averages for one in classes]).T  # [T, K]
    by_class = np.array([running_sum(row) / len(row) for row in precisions.T])
    over_positives = protocol.mean_over == "classes_with_positives"
    return VocDetectionResult(
        protocol=protocol,
        class_names=class_names,
        mean_average_precision=mean_over_classes(by_class, npos)
        if over_positives
        else mean_of_defined(as_tensor(by_class)),
        average_precision=as_tensor(by_class),
        num_classes_averaged=int((npos > 0 if over_positives else ~np.isnan(by_class)).sum()),
        num_positives=as_tensor(npos),
        true_positives=as_tensor(np.stack([one.true_positives for one in classes], axis=1)),
        false_positives=as_tensor(np.stack([one.false_positives for one in classes], axis=1)),
        num_images=ranker.num_images,
        num_detections=ranker.num_detections,
        average_precision_by_threshold=as_tensor(precisions),
        curves=tuple(zip(*(one.curves for one in classes), strict=True)),
    )


def _class_curves(protocol: DetectionProtocol, ranking: Ranking) -> Iterator[_ClassCurves]:
    starts, scores = ranking.class_starts.tolist(), ranking.scores.cpu()
    npos = ranking.num_positives[0].tolist()
    counts = cumulative_counts(ranking)
    for k in range(ranking.num_classes):
        part = slice(starts[k], starts[k + 1])
        true, false = counts.true_positives[:, part], counts.false_positives[:, part]
        curves, averages = [], []
        for row in range(len(protocol.iou_thresholds)):
            recall, precision = precision_recall(true[row], false[row], npos[k])
            curves.append(
                PrecisionRecallCurve(as_tensor(recall), as_tensor(precision), scores[part])
            )
            averages.append(
                average_of(recall, precision, protocol.interpolation, protocol.recall_levels)
                if ranking.num_images
                else math.nan
            )
        totals = (n[:, -1] if n.shape[1] else np.zeros(len(n), np.int64) for n in (true, false))
        yield _ClassCurves(tuple(curves), averages, *totals)


def _coco_result(
    protocol: DetectionProtocol, ranker: Ranker, class_names: tuple[str, ...]
) -> CocoDetectionResult:
    read, grid = read_curves(protocol, ranker)
    npos, found = ranker.num_positives.cpu(), read.true_positives.cpu()
    means = mean_precisions(read.precision.cpu().numpy(), npos.numpy() > 0)
    recall = (found / npos[:, None, None].double()).permute(2, 3, 0, 1)
    return CocoDetectionResult(
        protocol=protocol,
        class_names=class_names,
        mean_average_precision=mean_over_classes(means.by_class, npos[0].numpy())
        if protocol.mean_over == "classes_with_positives"
        else float(means.by_area[0]),
        average_precision=as_tensor(means.by_class),
        num_classes_averaged=int((npos[0] > 0).sum()),
        num_positives=npos[0],
        true_positives=found[0, -1].contiguous(),
        false_positives=read.false_positives[0].cpu().contiguous(),
        num_images=ranker.num_images,
        num_detections=ranker.num_detections,
        precision=partial(grid.array, "precision"),
        recall=recall,
        scores=partial(grid.array, "scores"),
        mean_precision_by_area=as_tensor(means.by_threshold),
        average_precision_by_area=as_tensor(means.by_area),
        num_positives_by_area=npos,
    )
