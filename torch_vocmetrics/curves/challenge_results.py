"""From ranked outcomes to the results of classification and of person layout."""

from __future__ import annotations

import math

import numpy as np
from torch import Tensor

from ..protocols import ClassificationProtocol, LayoutProtocol
from ..results import ClassificationResult, LayoutResult, PrecisionRecallCurve, RocCurve, as_tensor
from .averages import average_of, plain, roc_area
from .precision_recall import Floats, cumulative_counts, precision_recall, roc_points
from .ranking import Ranking


def layout_result(protocol: LayoutProtocol, ranking: Ranking) -> LayoutResult:
    """Curves, averages and counts of ranked layouts or parts under a protocol."""
    counts = cumulative_counts(ranking)
    starts = ranking.class_starts.tolist()
    npos = ranking.num_positives[0].cpu().numpy()
    scores, ignored = ranking.scores.cpu(), ranking.outcomes(0, 0)[1].cpu().numpy()
    averages, curves = [], []
    totals = np.zeros((2, len(npos)), dtype=np.int64)
    for k in range(len(npos)):
        part = slice(starts[k], starts[k + 1])
        positive, negative = counts.true_positives[0, part], counts.false_positives[0, part]
        if positive.size:
            totals[:, k] = positive[-1], negative[-1]
        # Skipped parts do not exist; skipped layouts repeat the entry before, if there is one.
        kept = ~ignored[part] if protocol.unit == "part" else positive + negative > 0
        recall, precision = precision_recall(positive[kept], negative[kept], int(npos[k]))
        curves.append(_curve(recall, precision, scores[part][as_tensor(kept)]))
        averages.append(
            average_of(recall, precision, protocol.interpolation, protocol.recall_levels)
            if ranking.num_images
            else math.nan
        )
    return LayoutResult(
        protocol=protocol,
        class_names=protocol.class_names,
        average_precision=as_tensor(np.array(averages)),
        num_classes_averaged=int((npos > 0).sum()),
        num_positives=as_tensor(npos),
        true_positives=as_tensor(totals[0]),
        false_positives=as_tensor(totals[1]),
        num_images=ranking.num_images,
        num_skipped=int(ignored.sum()),
        curves=tuple(curves),
    )


def classification_result(
    protocol: ClassificationProtocol, scores: Tensor, targets: Tensor, class_names: tuple[str, ...]
) -> ClassificationResult:
    """Curves, averages and counts of ranked images under a protocol.

    Args:
        protocol: the rules.
        scores, targets: [N, K] on the host, each class by falling score, NaN last.
        class_names: K names.
    """
    truth = targets.numpy()
    hits, errors = (np.cumsum(sign * truth > 0, axis=0, dtype=np.int64) for sign in (1, -1))
    npos, nneg = (np.count_nonzero(truth == sign, axis=0) for sign in (1, -1))
    averages, plain_averages, curves, rocs = [], [], [], []
    for k in range(len(class_names)):
        recall, precision = precision_recall(hits[:, k], errors[:, k], int(npos[k]))
        curves.append(_curve(recall, precision, scores[:, k].clone()))
        false, true = roc_points(scores[:, k].numpy(), truth[:, k])
        rocs.append(RocCurve(as_tensor(false), as_tensor(true), roc_area(false, true)))
        if not len(truth):
            averages.append(math.nan)
            plain_averages.append(math.nan)
            continue
        averages.append(
            average_of(recall, precision, protocol.interpolation, protocol.recall_levels)
        )
        plain_averages.append(plain(recall, precision))
    return ClassificationResult(
        protocol=protocol,
        class_names=class_names,
        average_precision=as_tensor(np.array(averages)),
        plain_average_precision=as_tensor(np.array(plain_averages)),
        num_classes_averaged=int((npos > 0).sum()),
        num_positives=as_tensor(npos),
        num_negatives=as_tensor(nneg),
        num_images=len(truth),
        curves=tuple(curves),
        roc_curves=tuple(rocs),
    )


def _curve(recall: Floats, precision: Floats, scores: Tensor) -> PrecisionRecallCurve:
    return PrecisionRecallCurve(as_tensor(recall), as_tensor(precision), scores)
