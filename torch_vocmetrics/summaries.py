"""From a ranking to the result of a protocol."""

from __future__ import annotations

import math

import numpy as np
import torch

from .averages import all_points, eleven_point, mean_over_classes, running_sum
from .curves import cumulative_counts, interpolate, precision_recall
from .protocols import DetectionProtocol
from .ranking import Ranking
from .results import (
    CocoDetectionResult,
    DetectionResult,
    PrecisionRecallCurve,
    VocDetectionResult,
    as_tensor,
    mean_of_defined,
)


def detection_result(
    protocol: DetectionProtocol, ranking: Ranking, class_names: tuple[str, ...]
) -> DetectionResult:
    """Curves, averages and counts of a ranking under a protocol."""
    if protocol.interpolation == "recall_grid":
        return _coco_result(protocol, ranking, class_names)
    return _voc_result(protocol, ranking, class_names)


def _voc_result(
    protocol: DetectionProtocol, ranking: Ranking, class_names: tuple[str, ...]
) -> VocDetectionResult:
    starts = ranking.class_starts.tolist()
    npos = ranking.num_positives[0].cpu().numpy()
    scores = ranking.scores.cpu()
    counts = cumulative_counts(ranking)
    T, K = len(protocol.iou_thresholds), len(class_names)
    precisions = np.full((T, K), math.nan)
    totals = np.zeros((2, T, K), dtype=np.int64)
    curves = []
    for t in range(T):
        row = []
        for k in range(K):
            part = slice(starts[k], starts[k + 1])
            positive, negative = counts.true_positives[t, part], counts.false_positives[t, part]
            recall, precision = precision_recall(positive, negative, int(npos[k]))
            if positive.size:
                totals[:, t, k] = positive[-1], negative[-1]
            if ranking.num_images:
                precisions[t, k] = (
                    all_points(recall, precision)
                    if protocol.interpolation == "all_points"
                    else eleven_point(recall, precision, protocol.recall_levels)
                )
            row.append(PrecisionRecallCurve(as_tensor(recall), as_tensor(precision), scores[part]))
        curves.append(tuple(row))
    by_class = np.array([running_sum(precisions[:, k]) / T for k in range(K)])
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
        true_positives=as_tensor(totals[0]),
        false_positives=as_tensor(totals[1]),
        num_images=ranking.num_images,
        num_detections=ranking.scores.shape[0],
        average_precision_by_threshold=as_tensor(precisions),
        curves=tuple(curves),
    )


def _coco_result(
    protocol: DetectionProtocol, ranking: Ranking, class_names: tuple[str, ...]
) -> CocoDetectionResult:
    # Entries are [M][A][T] until they are stacked.
    limited = [ranking.first(limit) for limit in protocol.max_detections[:-1]] + [ranking]
    entries = [
        [
            interpolate(part, area, protocol.recall_levels, protocol.precision_epsilon)
            for area in range(len(protocol.area_ranges))
        ]
        for part in limited
    ]

    def stacked(name: str) -> torch.Tensor:
        """[..., A, M] from [M, A, T, ...], contiguous: means run over memory in this order."""
        nested = [[[getattr(e, name) for e in row] for row in rows] for rows in entries]
        values = torch.stack([torch.stack([torch.stack(row) for row in rows]) for rows in nested])
        return values.permute(*range(2, values.dim()), 1, 0).cpu().contiguous()

    precision = stacked("precision")
    main = precision[..., 0, -1]
    npos = ranking.num_positives.cpu()
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
        true_positives=stacked("true_positives")[..., 0, -1],
        false_positives=stacked("false_positives")[..., 0, -1],
        num_images=ranking.num_images,
        num_detections=ranking.scores.shape[0],
        precision=precision,
        recall=stacked("recall"),
        scores=stacked("scores"),
        num_positives_by_area=npos,
    )
