"""Localisation recall precision (LRP): one error for boxes, false positives and misses."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from ..results import Table, mean_of_defined
from .lane_view import LaneView
from .score_points import ScorePoints

UNITS = 2**32
"""Overlaps are summed as whole multiples of 1 / UNITS, so that sums are the same on every device.

This is exact for float32 overlaps of 1/256 or more.
"""


@dataclass(frozen=True, eq=False)
class OptimalLRP(Table):
    """The smallest LRP error of each class over all scores.

    Attributes:
        name: K names.
        value: [K] float64, the optimal LRP error; 0 is perfect, 1 finds nothing, NaN without
            objects.
        localization: [K] float64, mean of 1 - IoU over the true positives, NaN without any.
        false_positive: [K] float64, 1 - precision, NaN where nothing is kept.
        false_negative: [K] float64, 1 - recall, NaN without objects.
        score: [K] float64, where the optimum is; infinite if it is best to keep nothing.
        iou_threshold: of true positives.
    """

    name: tuple[str, ...]
    value: Tensor
    localization: Tensor
    false_positive: Tensor
    false_negative: Tensor
    score: Tensor
    iou_threshold: float

    @property
    def mean(self) -> dict[str, float]:
        """Means over the classes where each number is defined: moLRP and its three parts."""
        parts = ("value", "localization", "false_positive", "false_negative")
        return {part: mean_of_defined(getattr(self, part)) for part in parts}


def optimal_lrp(source: Any, *, iou_threshold: float = 0.5, area: str | None = None) -> OptimalLRP:
    """The optimal LRP error of each class and its parts.

    ``LRP(s) = (sum over TP of (1 - IoU) / (1 - t) + FP + FN) / (TP + FP + FN)`` among detections
    with a score of s or more, at IoU threshold t; the optimum is over all s. It tries every
    distinct score, where the authors' code tries 0, 0.01, ..., 1.

    Args:
        source: a metric or its records.
        iou_threshold: one of the protocol's, below 1.
        area: name of an area range or subset; None is the headline one.

    Raises:
        InputError: for a lane that the protocol does not have, or a threshold of 1.

    Source: Oksuz, Cam, Akbas and Kalkan, "Localization Recall Precision (LRP)", ECCV 2018.
    """
    if iou_threshold >= 1:
        raise InputError("must be below 1", where="iou_threshold", got=repr(iou_threshold))
    view = LaneView.of(source, iou_threshold, area)
    points = ScorePoints.of(view)
    missing = (1 - view.overlap.double()).mul(UNITS).round().long()
    error = points.sums(missing * view.true_positive).double() / UNITS
    positives = points.num_positives[points.group]
    wrong = points.false_positives + positives - points.true_positives
    lrp = (error / (1 - iou_threshold) + wrong) / (points.true_positives + wrong).double()
    lrp, error = lrp.cpu(), error.cpu()
    starts, best = points.starts.tolist(), []
    for group in range(view.num_classes):
        part = slice(starts[group], starts[group + 1])
        # To keep nothing costs 1; the first of several points is the one of the highest score.
        chosen = int(lrp[part].argmin()) if part.start < part.stop else -1
        best.append(part.start + chosen if chosen >= 0 and lrp[part][chosen] < 1 else -1)
    return _at(points, torch.tensor(best), lrp, error, iou_threshold)


def _at(
    points: ScorePoints, best: Tensor, lrp: Tensor, error: Tensor, iou_threshold: float
) -> OptimalLRP:
    """The numbers at the points ``best`` [K], where -1 keeps nothing."""
    nothing = best < 0
    positives = points.num_positives[:-1].cpu()

    def chosen(values: Tensor, otherwise: float) -> Tensor:
        """[K] float64."""
        padded = torch.nn.functional.pad(values.cpu().double(), (0, 1))
        return torch.where(nothing, otherwise, padded[best])

    true, false = chosen(points.true_positives, 0.0), chosen(points.false_positives, 0.0)
    return OptimalLRP(
        name=points.names[:-1],
        value=torch.where(positives == 0, math.nan, chosen(lrp, 1.0)),
        localization=chosen(error, 0.0) / true,
        false_positive=1 - true / (true + false),
        false_negative=1 - true / positives.double(),
        score=chosen(points.score, math.inf),
        iou_threshold=iou_threshold,
    )
