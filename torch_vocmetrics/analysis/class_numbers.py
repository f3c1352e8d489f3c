"""One row for each class: AP, recall, counts, numbers by size, and the best F1 with its score."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ..curves.detection_result import detection_result
from ..curves.ranking import Ranker
from ..lanes import Lanes
from ..results import ClassNumbers
from .lane_view import LaneView
from .operating_point import score_curves


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassTable(ClassNumbers):
    """The numbers of :class:`~torch_vocmetrics.results.ClassNumbers`, and the best F1.

    Attributes:
        best_f_score: [K] float64, the largest F1 over all scores.
        best_score: [K] float64, the highest score where it is reached; infinite where it is best
            to keep nothing.
        iou_threshold: at which F1 is.
    """

    best_f_score: Tensor
    best_score: Tensor
    iou_threshold: float


def class_table(source: Any, *, iou_threshold: float = 0.5) -> ClassTable:
    """The numbers of every class, for COCO's and VOC's protocols alike.

    Without F1 the same is ``result.per_class()``.

    Args:
        source: a metric or its records.
        iou_threshold: one of the protocol's, at which F1 is.

    Raises:
        InputError: for a protocol that is none of average precision, or has no such threshold.
    """
    view = LaneView.of(source, iou_threshold)
    records, rules = view.records, view.detection_rules
    ranker = Ranker(
        [records.match_records], Lanes.of(rules), view.num_classes, rules.max_detections[:-1]
    )
    numbers = detection_result(rules, ranker, view.class_names).per_class()
    best = score_curves(records, iou_threshold=iou_threshold).best()
    fields = {field.name: getattr(numbers, field.name) for field in dataclasses.fields(numbers)}
    return ClassTable(
        **fields,
        best_f_score=best.f_score[:-1],
        best_score=best.score[:-1],
        iou_threshold=view.iou_threshold,
    )
