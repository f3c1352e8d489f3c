"""Average precision over some of the objects or images, by plain loops over judged detections."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..protocols import DetectionProtocol
from .error_kinds import one_ap
from .judged import Judged, JudgedObject
from .matching import FALSE_POSITIVE, IGNORED, TRUE_POSITIVE


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
    bar = np.float32(min(iou_threshold, rules.iou_threshold_ceiling))
    strict = rules.comparison == ">"
    outcomes, scores = [], []
    for row in judged.detections:
        if row.label != label:
            continue
        outcome = TRUE_POSITIVE if row.true_positive else FALSE_POSITIVE
        own = np.float32(row.own)  # as it is kept
        reaches = own > bar if strict else own >= bar
        further = row.false_positive and reaches and "difficult" in rules.reusable_flags
        of_left_out = (row.true_positive and (row.image, row.ground_truth) in left_out) or (
            further and (row.image, row.own_object) in left_out
        )
        outcomes.append(IGNORED if row.ignored or of_left_out else outcome)
        scores.append(row.score)
    return one_ap(scores, outcomes, positives, rules)
