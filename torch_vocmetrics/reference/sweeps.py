"""Average precision over some of the objects or images, by plain loops over judged detections."""

from __future__ import annotations

from collections.abc import Callable

from ..protocols import DetectionProtocol
from .error_kinds import one_ap
from .judged import Judged, JudgedObject


def restricted_average_precision(
    judged: Judged,
    rules: DetectionProtocol,
    iou_threshold: float,
    counts: Callable[[JudgedObject], bool],
    label: int,
) -> float | None:
    """AP of a class if only the objects for which ``counts`` holds count; None without any.

    Detections of other objects are ignored, and so are further detections of them where the
    protocol lets a difficult object be matched any number of times.
    """
    left_out = {(one.image, one.row) for one in judged.objects if one.counted and not counts(one)}
    positives = sum(one.counted and counts(one) and one.label == label for one in judged.objects)
    if not positives:
        return None
    bar = min(iou_threshold, rules.iou_threshold_ceiling)
    strict = rules.comparison == ">"
    hits, scores = [], []
    for row in judged.detections:
        if row.label != label or row.ignored:
            continue
        if row.true_positive and (row.image, row.ground_truth) in left_out:
            continue
        reaches = row.own > bar if strict else row.own >= bar
        further = row.false_positive and reaches and "difficult" in rules.reusable_flags
        if further and (row.image, row.own_object) in left_out:
            continue
        hits.append(row.true_positive)
        scores.append(row.score)
    return one_ap(scores, hits, positives, rules)
