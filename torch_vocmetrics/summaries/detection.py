"""From rankings to the result of a detection protocol."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..averages import average_of, mean_over_classes, running_sum
from ..curves import cumulative_counts, precision_recall
from ..protocols import DetectionProtocol
from ..ranking import Ranker, Ranking
from ..recall_grid import Interpolated, interpolate
from ..results import (
    CocoDetectionResult,
    DetectionResult,
    PrecisionRecallCurve,
    VocDetectionResult,
    as_tensor,
    mean_of_defined,
)

BLOCK_ROWS = 2**17
"""Detections that are ranked together: few operations, and little memory for each."""
GRID_ROWS = 2**14
CLASS_ROWS = 2**9
"""The same where all of their curves are read together, and what a class adds to its detections."""


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
    # Filled as [A, M, T, K, ...]; read as COCOeval has them, [T, (R,) K, A, M].
    found = {
        name: values.permute(2, *range(values.dim() - 1, 2, -1), 0, 1).cpu()
        for name, values in _interpolated(protocol, ranker).items()
    }
    npos = ranker.num_positives.cpu()
    main = found["precision"][..., 0, -1]
    by_class = np.array([mean_of_defined(main[:, :, k]) for k in range(len(class_names))])
    return CocoDetectionResult(
        protocol=protocol,
        class_names=class_names,
        mean_average_precision=mean_over_classes(by_class, npos[0].numpy())
        if protocol.mean_over == "classes_with_positives"
        else mean_of_defined(main),
        average_precision=as_tensor(by_class),
        num_classes_averaged=int((npos[0] > 0).sum()),
        num_positives=npos[0],
        true_positives=found["true_positives"][..., 0, -1].contiguous(),
        false_positives=found["false_positives"][..., 0, -1].contiguous(),
        num_images=ranker.num_images,
        num_detections=ranker.num_detections,
        precision=found["precision"],
        recall=found["recall"],
        scores=found["scores"],
        num_positives_by_area=npos,
    )


def _interpolated(protocol: DetectionProtocol, ranker: Ranker) -> dict[str, Tensor]:
    """[A, M, T, K, ...] for each field of :class:`Interpolated`, block by block."""
    num_areas, num_limits = len(protocol.area_ranges), len(protocol.max_detections) or 1
    levels = len(protocol.recall_levels)
    shape = (num_areas, num_limits, len(protocol.iou_thresholds), ranker.num_classes)

    def empty(dtype: torch.dtype, *more: int) -> Tensor:
        return torch.empty((*shape, *more), dtype=dtype, device=ranker.device)

    arrays = Interpolated(
        precision=empty(torch.float64, levels),
        scores=empty(ranker.score_dtype, levels),
        recall=empty(torch.float64),
        true_positives=empty(torch.int64),
        false_positives=empty(torch.int64),
    )._asdict()
    for classes in ranker.blocks(GRID_ROWS, CLASS_ROWS):
        part = {
            name: values[:, :, :, classes.start : classes.stop] for name, values in arrays.items()
        }
        _interpolate_block(protocol, ranker.ranked(classes), part)
    return arrays


def _interpolate_block(
    protocol: DetectionProtocol, ranking: Ranking, arrays: dict[str, Tensor]
) -> None:
    """Fill ``arrays`` [A, M, T, k, ...] with the curves of some classes."""
    num_areas, num_limits = arrays["precision"].shape[:2]
    together = 2 * GRID_ROWS * num_areas * num_limits // max(ranking.scores.shape[0], 1)
    for areas, limits in _portions(num_areas, num_limits, together):
        for name, values in interpolate(ranking, areas, limits, protocol)._asdict().items():
            arrays[name][areas.start : areas.stop, limits.start : limits.stop] = values


def _portions(num_areas: int, num_limits: int, most: int) -> list[tuple[range, range]]:
    """All area ranges and limits; of large classes fewer at once, whose curves need less memory."""
    areas, limits = range(num_areas), range(num_limits)
    if most >= num_areas * num_limits:
        return [(areas, limits)]
    if most >= num_limits:
        return [(areas[i : i + 1], limits) for i in areas]
    return [(areas[i : i + 1], limits[j : j + 1]) for i in areas for j in limits]
