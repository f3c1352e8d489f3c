"""From curves of classes to the result of a detection protocol."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, NoReturn

import numpy as np
from torch import Tensor

from ..protocols import DetectionProtocol
from ..results import (
    CocoDetectionResult,
    DetectionResult,
    VocDetectionResult,
    as_tensor,
    mean_of_defined,
)
from .averages import mean_over_classes, running_sum
from .class_curves import ClassCurves, NotKept, class_curves, not_kept
from .coco_means import Grid, mean_precisions
from .ranking import Ranker


class Totals(NamedTuple):
    """How much was evaluated.

    Attributes:
        num_images, num_detections: of all classes.
        num_positives: [A, K] int64 on the host, objects that count, by area range.
    """

    num_images: int
    num_detections: int
    num_positives: Tensor


def detection_result(
    protocol: DetectionProtocol, ranker: Ranker, class_names: tuple[str, ...]
) -> DetectionResult:
    """Curves, averages and counts of ranked records under a protocol."""
    totals = Totals(ranker.num_images, ranker.num_detections, ranker.num_positives.cpu())
    return result_of_curves(protocol, class_curves(protocol, ranker), totals, class_names)


def result_of_curves(
    protocol: DetectionProtocol,
    curves: ClassCurves,
    totals: Totals,
    class_names: tuple[str, ...],
) -> DetectionResult:
    """The means over classes, and what else a result has, from the curves of all classes."""
    common: dict[str, Any] = {
        "protocol": protocol,
        "class_names": class_names,
        "num_images": totals.num_images,
        "num_detections": totals.num_detections,
        "num_detections_by_class": curves.numbers["num_detections"],
        "num_positives": totals.num_positives[protocol.headline_index],
    }
    of_task = _coco_result if protocol.interpolation == "recall_grid" else _voc_result
    return of_task(protocol, curves, totals, common)


def _voc_result(
    protocol: DetectionProtocol, curves: ClassCurves, totals: Totals, common: dict[str, Any]
) -> VocDetectionResult:
    npos = totals.num_positives[protocol.headline_index].numpy()
    precisions = curves.numbers["average_precision"].numpy()
    by_class = np.array([running_sum(row) / len(row) for row in precisions.T])
    over_positives = protocol.mean_over == "classes_with_positives"
    return VocDetectionResult(
        **common,
        mean_average_precision=mean_over_classes(by_class, npos)
        if over_positives
        else mean_of_defined(as_tensor(by_class)),
        average_precision=as_tensor(by_class),
        num_classes_averaged=int((npos > 0 if over_positives else ~np.isnan(by_class)).sum()),
        true_positives=curves.numbers["true_positives"],
        false_positives=curves.numbers["false_positives"],
        average_precision_by_threshold=curves.numbers["average_precision"],
        curves=curves.details if isinstance(curves.details, tuple) else NotKept(),
    )


def _coco_result(
    protocol: DetectionProtocol, curves: ClassCurves, totals: Totals, common: dict[str, Any]
) -> CocoDetectionResult:
    npos, found = totals.num_positives, curves.numbers["true_positives"]
    area = protocol.headline_index
    means = mean_precisions(curves.numbers["precision"].numpy(), npos.numpy() > 0, area)
    recall = (found / npos[:, None, None].double()).permute(2, 3, 0, 1)
    read = curves.details.array if isinstance(curves.details, Grid) else _refuse
    return CocoDetectionResult(
        **common,
        mean_average_precision=mean_over_classes(means.by_class, npos[area].numpy())
        if protocol.mean_over == "classes_with_positives"
        else float(means.by_area[area]),
        average_precision=as_tensor(means.by_class),
        num_classes_averaged=int((npos[area] > 0).sum()),
        true_positives=found[area, -1].contiguous(),
        false_positives=curves.numbers["false_positives"][area].contiguous(),
        precision=partial(read, "precision"),
        recall=recall,
        scores=partial(read, "scores"),
        mean_precision_by_area=as_tensor(means.by_threshold),
        average_precision_by_area=as_tensor(means.by_area),
        num_positives_by_area=npos,
    )


def _refuse(name: str) -> NoReturn:
    raise not_kept(name)
