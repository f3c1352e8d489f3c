"""What goes wrong, and what it costs: the six kinds of error of TIDE.

A false positive, with the largest overlap ``own`` with an object of its class and ``other``
with one of another class (only objects that count), is the first of these that holds:

* localization: ``own`` reaches the background threshold but not the IoU threshold;
* classification: ``other`` reaches the IoU threshold;
* duplicate: ``own`` reaches the IoU threshold, but the object went to another detection;
* background: neither is above the background threshold;
* both: what is left.

An object that no detection found is missed, unless an error of localization or classification
is about it. Mending turns the highest of the errors about an object that nobody found into a
true positive, if it is of the kind in question; removes the other false positives of the kind;
and takes missed objects out of the count of positives.

The average precision is the protocol's, at the one threshold, in its headline area range. In
these points the result differs from the authors' program, tidecv 1.0.1:

* means run over the classes with objects, whatever is mended; there over those with objects or
  detections, so that a class that is detected but never occurs has an AP of 0, and leaves the
  mean when its errors are mended, as does a class whose objects were all missed;
* limits of detections are the protocol's (COCO: of an image and class); there of an image;
* ignored detections are no errors; there they are classified too, and may be mended;
* an overlap equal to the IoU threshold with an object that is taken is a duplicate; there it
  is an error of localization;
* recall levels are the protocol's (COCO: ``numpy.linspace(0, 1, 101)``); there they are
  k / 100, which differ in the last bit;
* detections of equal scores keep their order; there false positives come first once errors are
  mended;
* costs are fractions and may be negative; there they are percents, and 0 instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..curves.precision_recall import Floats
from ..errors import InputError
from ..ops.selection import rows_where
from ..results import Table
from .average_precision import average_precision
from .lane_view import LaneView, first_of_each
from .source import diagnostics_of

KINDS = ("classification", "localization", "both", "duplicate", "background", "missed")
CLASSIFICATION, LOCALIZATION, BOTH, DUPLICATE, BACKGROUND, MISSED = range(6)
NO_ERROR = -1


@dataclass(frozen=True, eq=False)
class ErrorKinds(Table):
    """Errors by kind, and the average precision that each kind costs.

    Attributes:
        kind: the six names of kinds.
        count: [6] int64 errors.
        cost: [6] float64, the mean AP gained if all errors of one kind are mended, as a fraction.
        count_by_class: [6, K] int64, by the class of the detection, or of the missed object.
        class_names: K names.
        average_precision: mean AP as it is, over classes with positives, at the one threshold.
        false_positives, false_negatives: how many there are.
        false_positive_cost: the mean AP gained without any false positive.
        false_negative_cost: the mean AP gained if no object was left to be found.
        iou_threshold, background_threshold: what was asked.
    """

    kind: tuple[str, ...]
    count: Tensor
    cost: Tensor
    count_by_class: Tensor
    class_names: tuple[str, ...]
    average_precision: float
    false_positives: int
    false_negatives: int
    false_positive_cost: float
    false_negative_cost: float
    iou_threshold: float
    background_threshold: float

    def columns(self) -> dict[str, Any]:
        """One row for each kind."""
        return {"kind": self.kind, "count": self.count, "cost": self.cost}


def error_kinds(
    source: Any, *, iou_threshold: float = 0.5, background_threshold: float = 0.1
) -> ErrorKinds:
    """Count the errors of each kind and mend them, one kind at a time.

    The module's docstring says what the kinds are, what mending does, and how the result differs
    from that of tidecv.

    Args:
        source: a metric made with ``diagnostics=True``, or its records.
        iou_threshold: one of the protocol's.
        background_threshold: below it an overlap is none.

    Raises:
        StateError: if the diagnostics were not kept.
        InputError: for a threshold that the protocol does not have, or a background threshold that
            is not below it.

    Source: Bolya, Foley, Hays and Hoffman, "TIDE: A General Toolbox for Identifying Object
        Detection Errors", ECCV 2020.
    """
    view = LaneView.of(source, iou_threshold)
    kinds = kinds_of(view, background_threshold)
    about, mended = _mended(view, kinds)
    missed = view.counted & ~view.found
    missed[about[about >= 0]] = False
    base = _Mender(view, kinds, about, mended, missed)
    labels, K = view.records.ground_truths.label.long()[missed], view.num_classes
    errors = view.records.detections.label[kinds >= 0]
    cells = torch.cat([kinds[kinds >= 0].long() * K + errors, MISSED * K + labels])
    by_class = torch.bincount(cells, minlength=len(KINDS) * K).reshape(len(KINDS), K).cpu()
    before = base.mean()
    return ErrorKinds(
        kind=KINDS,
        count=by_class.sum(dim=1),
        cost=torch.tensor([base.mean(kind) - before for kind in range(6)], dtype=torch.float64),
        count_by_class=by_class,
        class_names=view.class_names,
        average_precision=before,
        false_positives=int(view.false_positive.sum()),
        false_negatives=int((view.counted & ~view.found).sum()),
        false_positive_cost=base.mean_without_false_positives() - before,
        false_negative_cost=base.mean_without_false_negatives() - before,
        iou_threshold=iou_threshold,
        background_threshold=background_threshold,
    )


def kinds_of(view: LaneView, background_threshold: float = 0.1) -> Tensor:
    """[N] int8: the kind of each false positive, an index of KINDS; -1 for other detections.

    Args:
        view: a lane of the protocol's headline area range.
        background_threshold: as for :func:`error_kinds`, which says what the kinds are.
    """
    most = diagnostics_of(view.records, "an analysis of error kinds")
    if not 0 <= background_threshold < view.iou_threshold:
        raise InputError(
            f"must be at least 0 and below the IoU threshold, {view.iou_threshold:g}",
            where="background_threshold",
            got=repr(background_threshold),
        )
    # A row for "no object", which neither counts nor is found.
    counted, found = (torch.nn.functional.pad(one, (0, 1)) for one in (view.counted, view.found))
    own = torch.where(counted[most.own_object], most.own, 0)
    other = torch.where(counted[most.other_object], most.other, 0)
    floor = torch.tensor(background_threshold, dtype=torch.float32)
    taken = view.reaches(own) & found[most.own_object]
    kinds = torch.full_like(own, BOTH, dtype=torch.int8)
    # From the last rule to the first, so that the first that holds stays.
    kinds[(own <= floor) & (other <= floor)] = BACKGROUND
    kinds[taken] = DUPLICATE
    kinds[view.reaches(other)] = CLASSIFICATION
    kinds[(own >= floor) & (own > 0) & ~taken] = LOCALIZATION
    return kinds.masked_fill_(~view.false_positive, NO_ERROR)


def _mended(view: LaneView, kinds: Tensor) -> tuple[Tensor, Tensor]:
    """The object that each error is about, and which errors become true positives when mended.

    Returns:
        [N] int64 the object that nobody found of an error of localization or classification, -1
        for none; [N] bool the first of those about the same object, by falling score.
    """
    most = diagnostics_of(view.records, "an analysis of error kinds")
    about = torch.where(kinds == LOCALIZATION, most.own_object, -1)
    about = torch.where(kinds == CLASSIFICATION, most.other_object, about)
    found = torch.nn.functional.pad(view.found, (0, 1))  # a row for "no object"
    about = torch.where(found[about], -1, about)
    rows = rows_where(about >= 0)
    rows = rows[view.falling(torch.zeros_like(rows), 1, rows)]
    mended = torch.zeros_like(view.true_positive)
    mended[rows[first_of_each(about[rows], view.counted.shape[0])]] = True
    return about, mended


@dataclass(frozen=True, eq=False)
class _Mender:
    """Average precision with some errors mended; columns are those of :func:`error_kinds`."""

    view: LaneView
    kinds: Tensor
    about: Tensor
    mended: Tensor
    missed: Tensor

    def mean(self, kind: int = NO_ERROR) -> float:
        """Mean AP with the errors of a kind mended; of none by default."""
        view = self.view
        labels = view.records.ground_truths.label.long()
        mended = self.mended & (self.kinds == kind) if kind >= 0 else torch.zeros_like(self.mended)
        kept = (self.kinds != kind) | mended | (self.kinds == NO_ERROR)
        label = view.records.detections.label
        label = torch.where(mended, labels[self.about], label) if labels.numel() else label
        positives = view.num_positives
        if kind == MISSED:
            positives = positives - torch.bincount(labels[self.missed], minlength=view.num_classes)
        return self._mean(rows_where(kept), label, view.true_positive | mended, positives)

    def mean_without_false_positives(self) -> float:
        """Mean AP of the true positives alone."""
        view = self.view
        rows = rows_where(view.true_positive | view.ignored)
        label = view.records.detections.label
        return self._mean(rows, label, view.true_positive, view.num_positives)

    def mean_without_false_negatives(self) -> float:
        """Mean AP if only the objects that were found had been there."""
        view = self.view
        labels = view.records.ground_truths.label.long()[view.found]
        found = torch.bincount(labels, minlength=view.num_classes)
        label = view.records.detections.label
        rows = torch.arange(label.shape[0], device=view.device)
        return self._mean(rows, label, view.true_positive, found)

    def _mean(self, rows: Tensor, label: Tensor, hits: Tensor, positives: Tensor) -> float:
        ignored = self.view.ignored[rows]
        averages = average_precision(self.view, label[rows], rows, hits[rows], ignored, positives)
        return _mean_of_classes(averages, self.view.num_positives.cpu().numpy())


def _mean_of_classes(averages: Floats, positives: np.ndarray[Any, Any]) -> float:
    """Mean over the classes that have objects; 0 for those that mending left undefined."""
    chosen = np.nan_to_num(averages[positives > 0])
    return float(chosen.mean()) if chosen.size else float("nan")
