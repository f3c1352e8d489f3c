"""Do scores tell the truth: reliability tables and the expected calibration error of detections."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError
from ..results import Table
from .lane_view import LaneView
from .score_points import POOLED

MAX_BINS = 10_000


@dataclass(frozen=True, eq=False)
class Calibration(Table):
    """Reliability of G groups, the classes and "all", in B bins of the score.

    Attributes:
        names: G names.
        edges: [B + 1] float64, bin b holds scores in [edges[b], edges[b + 1]), the last one its
            upper edge too.
        count: [G, B] int64 detections.
        mean_score, precision: [G, B] float64 of the detections in the bin, NaN if it is empty.
        expected_error: [G] float64, D-ECE: mean of ``|precision - mean_score|`` over bins, weighted
            by their counts; NaN without detections.
        largest_error: [G] float64, the largest ``|precision - mean_score|`` of a bin.
        iou_threshold: of true positives.
    """

    names: tuple[str, ...]
    edges: Tensor
    count: Tensor
    mean_score: Tensor
    precision: Tensor
    expected_error: Tensor
    largest_error: Tensor
    iou_threshold: float

    def columns(self) -> dict[str, Any]:
        """One row for each group and bin."""
        bins, groups = self.edges.shape[0] - 1, len(self.names)
        return {
            "name": tuple(name for name in self.names for _ in range(bins)),
            "lower": self.edges[:-1].repeat(groups),
            "upper": self.edges[1:].repeat(groups),
            "count": self.count.flatten(),
            "mean_score": self.mean_score.flatten(),
            "precision": self.precision.flatten(),
        }


def calibration(
    source: Any,
    *,
    iou_threshold: float = 0.5,
    area: str | None = None,
    num_bins: int = 20,
    min_score: float = 0.0,
) -> Calibration:
    """Reliability table and D-ECE, by score alone.

    ``D-ECE = sum over bins of n_b / n |precision_b - mean score_b|``, bins of equal width over
    [0, 1]. Detectors return many boxes of a very low score, which then decide the sum: give the
    ``min_score`` of your application, as the authors do (0.3).

    Args:
        source: a metric or its records; scores must lie in [0, 1].
        iou_threshold: one of the protocol's.
        area: name of an area range or subset; None is the headline one.
        num_bins: B.
        min_score: detections below it are left out.

    Raises:
        InputError: for a lane that the protocol does not have, scores outside [0, 1], or a number
            of bins that is not in 1 .. 10,000.

    Source: Kueppers, Kronenberger, Shantia and Haselhoff, "Multivariate Confidence Calibration for
        Object Detection", CVPR Workshops 2020, equation 6 over the confidence alone.
    """
    if not 1 <= num_bins <= MAX_BINS:
        raise InputError(f"must lie in 1 .. {MAX_BINS:,}", where="num_bins", got=num_bins)
    view = LaneView.of(source, iou_threshold, area)
    scores = view.records.detections.score
    if scores.numel() and not (scores.min() >= 0 and scores.max() <= 1):
        raise InputError(
            "calibration needs scores in [0, 1]",
            got=f"{float(scores.min()):g} to {float(scores.max()):g}",
            remedy="pass probabilities, such as the sigmoid of the scores",
        )
    kept = ~view.ignored & view.at_least(min_score)
    score = scores[kept].double()
    which = (score * num_bins).long().clamp_(max=num_bins - 1)
    cell = (view.records.detections.label[kept] * num_bins + which).cpu().numpy()
    hits = view.true_positive[kept].cpu().numpy()
    shape, size = (view.num_classes, num_bins), view.num_classes * num_bins
    # Floats are summed on the host, in the order of the records, to the same bits on every device.
    sums = np.bincount(cell, weights=score.cpu().numpy(), minlength=size).reshape(shape)
    count, true = (
        np.bincount(chosen, minlength=size).reshape(shape) for chosen in (cell, cell[hits])
    )
    count, true, sums = (np.vstack([rows, rows.sum(axis=0)]) for rows in (count, true, sums))
    return _calibration(view, count, true, sums, iou_threshold)


def _calibration(
    view: LaneView,
    count: np.ndarray[Any, Any],
    true: np.ndarray[Any, Any],
    sums: np.ndarray[Any, Any],
    iou_threshold: float,
) -> Calibration:
    """From counts and sums of each group and bin [G, B]."""
    with np.errstate(invalid="ignore"):
        mean, precision = sums / count, true / count
        error = np.nan_to_num(np.abs(precision - mean))
        expected = (error * count).sum(axis=1) / count.sum(axis=1)
    largest = np.where(count.sum(axis=1) > 0, error.max(axis=1), np.nan)
    return Calibration(
        names=(*view.class_names, POOLED),
        edges=torch.linspace(0, 1, count.shape[1] + 1, dtype=torch.float64),
        count=torch.from_numpy(count),
        mean_score=torch.from_numpy(mean),
        precision=torch.from_numpy(precision),
        expected_error=torch.from_numpy(expected),
        largest_error=torch.from_numpy(largest),
        iou_threshold=iou_threshold,
    )
