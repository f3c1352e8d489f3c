"""Which classes a detector mixes up: the confusion matrix of detections, with background."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from ..ops.selection import rows_where
from ..protocols import DetectionProtocol
from ..records import Records
from ..results import Table
from .lane_view import LaneView, first_of_each
from .source import diagnostics_of, records_of

BACKGROUND = "background"
"""The name of what is no object, or no detection."""


@dataclass(frozen=True, eq=False)
class ConfusionMatrix(Table):
    """Objects against what they were taken for.

    Attributes:
        names: K + 1 names, the classes and "background".
        counts: [K + 1, K + 1] int64, rows are classes of objects, columns of detections. The last
            row counts detections of no object, the last column objects without a detection.
        score: detections with it or a higher one take part.
        iou_threshold: what an overlap has to reach.
        rule: "same_class_first" or "class_agnostic", how detections and objects were paired.
    """

    names: tuple[str, ...]
    counts: Tensor
    score: float
    iou_threshold: float
    rule: str

    def normalized(self, over: str = "objects") -> Tensor:
        """[K + 1, K + 1] float64: shares of each row or column, NaN where it is empty.

        Args:
            over: "objects" divides rows, so that the diagonal is recall; "detections" divides
                columns, so that it is precision.

        Raises:
            InputError: for any other word.
        """
        if over not in ("objects", "detections"):
            raise InputError("must be objects or detections", where="over", got=repr(over))
        return self.counts / self.counts.sum(dim=int(over == "objects"), keepdim=True).double()

    def columns(self) -> dict[str, Any]:
        """A row for each class of objects, a column for each class of detections."""
        of_detections = {f"detected_{name}": self.counts[:, k] for k, name in enumerate(self.names)}
        return {"object": self.names} | of_detections


def confusion_matrix(
    source: Any, *, score: float = 0.25, iou_threshold: float = 0.5, area: str | None = None
) -> ConfusionMatrix:
    """The confusion matrix by the rule "same class first".

    True positives of the matching keep their objects and stand on the diagonal. Then, by falling
    score, each false positive takes the object of another class that it overlaps most, if the
    overlap reaches the threshold and nobody has the object; else it stands in the row "background".
    What is ignored by the protocol counts nowhere. The rule of Ultralytics, which does not look at
    classes, is :func:`class_agnostic_confusion`.

    Args:
        source: a metric made with ``diagnostics=True``, or its records.
        score: detections with it or a higher one take part.
        iou_threshold: one of the protocol's.
        area: name of an area range or subset; None is the headline one.

    Raises:
        StateError: if the diagnostics were not kept.
        InputError: for a lane that the protocol does not have.
    """
    view = LaneView.of(source, iou_threshold, area)
    most = diagnostics_of(view.records, "the confusion matrix")
    detections, labels = view.records.detections, view.records.ground_truths.label.long()
    kept = view.at_least(score)
    hits = view.true_positive & kept
    found = view.found_by(hits)
    wanted = most.other_object
    # A row for "no object", which is never free.
    free = torch.nn.functional.pad(view.counted & ~found, (0, 1))
    confused = view.false_positive & kept & view.reaches(most.other)
    confused &= free[wanted]
    rows = rows_where(confused)
    rows = rows[view.falling(torch.zeros_like(rows), 1, rows)]
    rows = rows[first_of_each(wanted[rows], labels.shape[0])]

    K = view.num_classes
    object_class = torch.full_like(detections.label, K)
    object_class[hits] = detections.label[hits]
    object_class[rows] = labels[wanted[rows]]
    counted = hits | (view.false_positive & kept)
    missed = view.counted & ~found
    missed[wanted[rows]] = False
    return ConfusionMatrix(
        names=(*view.class_names, BACKGROUND),
        counts=pair_counts(object_class[counted], detections.label[counted], labels[missed], K),
        score=score,
        iou_threshold=iou_threshold,
        rule="same_class_first",
    )


def class_agnostic_confusion(
    source: Any,
    labels_from: Any,
    *,
    score: float = 0.25,
    iou_threshold: float = 0.45,
    area: str | None = None,
) -> ConfusionMatrix:
    """The confusion matrix by the rule "class agnostic", which is that of Ultralytics' validator.

    By falling score each detection takes the best free object, whatever the two classes are. This
    is the matching of a protocol with ``class_agnostic``, which has to be one of the metric; the
    classes are read from another protocol of the same metric::

        any_class = dataclasses.replace(
            coco, name="any_class", class_agnostic=True, iou_thresholds=[0.45], max_detections=[300]
        )
        coco = dataclasses.replace(coco, max_detections=[300])
        metric = DetectionAP([coco, any_class], diagnostics=True, class_names=names)
        ...
        class_agnostic_confusion(metric.records("any_class"), metric.records("coco2017"))

    Args:
        source: records of the class-agnostic protocol, with diagnostics.
        labels_from: records of a protocol of the same metric that knows the classes.
        score: detections with it or a higher one take part; Ultralytics takes higher ones only.
        iou_threshold: one of the class-agnostic protocol's; Ultralytics takes larger overlaps only,
            which is ``comparison=">"``.
        area: name of an area range; None is the headline one.

    Raises:
        StateError: if the diagnostics were not kept.
        InputError: if the records do not belong together, or the protocol has no such lane.

    Source: Ultralytics 8.4.190, utils/metrics.py, ConfusionMatrix.process_batch.
    """
    view, labeled = LaneView.of(source, iou_threshold, area), records_of(labels_from)
    labels = _labels_of_detections(view.records, labeled)
    objects, kept = labeled.ground_truths.label.long(), view.at_least(score)
    K, hits = labeled.num_classes, view.true_positive & kept
    counted = hits | (view.false_positive & kept)
    object_class = torch.full_like(labels, K)
    object_class[hits] = objects[view.ground_truth[hits]]
    missed = objects[view.counted & ~view.found_by(hits)]
    return ConfusionMatrix(
        names=(*labeled.class_names, BACKGROUND),
        counts=pair_counts(object_class[counted], labels[counted], missed, K),
        score=score,
        iou_threshold=view.iou_threshold,
        rule="class_agnostic",
    )


def _labels_of_detections(records: Records, labeled: Records) -> Tensor:
    """[N] int64: the class of each detection of class-agnostic records."""
    rules = records.protocol
    if not (isinstance(rules, DetectionProtocol) and rules.class_agnostic):
        raise InputError(
            "must be records of a class-agnostic protocol",
            where="source",
            got=rules.name,
            remedy="see the example of class_agnostic_confusion",
        )
    rows, of_labeled = (
        diagnostics_of(one, "a class-agnostic confusion matrix").row for one in (records, labeled)
    )
    most = max((int(row.max()) for row in (rows, of_labeled) if row.numel()), default=0) + 1
    keys = records.detections.image.long() * most + rows
    known, order = torch.sort(labeled.detections.image.long() * most + of_labeled)
    at = torch.searchsorted(known, keys).clamp_(max=max(known.shape[0] - 1, 0))
    same_objects = torch.equal(records.ground_truths.image, labeled.ground_truths.image)
    if not same_objects or (keys.numel() and not (known.numel() and torch.equal(known[at], keys))):
        raise InputError(
            "the two records do not have the same objects and detections",
            where="labels_from",
            remedy="take both from one metric, with limits of detections that drop none",
        )
    return labeled.detections.label[order[at]] if keys.numel() else keys


def pair_counts(objects: Tensor, detections: Tensor, missed: Tensor, num_classes: int) -> Tensor:
    """[K + 1, K + 1] int64 on the host: pairs of classes, and objects without a detection.

    Args:
        objects, detections: [n] int64 class of each pair, K for background.
        missed: [m] int64 class of each missed object.
        num_classes: K.
    """
    side = num_classes + 1
    cells = torch.cat([objects * side + detections, missed * side + num_classes])
    return torch.bincount(cells, minlength=side * side).reshape(side, side).cpu()
