"""Average precision of any groups of rows by a protocol's own rule: classes, images, strata."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..curves.averages import average_of
from ..curves.precision_recall import Floats
from ..protocols import DetectionProtocol
from .lane_view import LaneView


def average_precision(
    view: LaneView,
    group: Tensor,
    rows: Tensor,
    true_positive: Tensor,
    ignored: Tensor,
    num_positives: Tensor,
) -> Floats:
    """Average precision of each group as the official code has it, NaN without positives.

    Args:
        view: gives the scores, the order of ties and the protocol.
        group: [n] int64 in [0, G), the group of each row.
        rows: [n] int64 detections; those left out do not exist.
        true_positive, ignored: [n] bool; the others are false positives.
        num_positives: [G] int64.

    Returns:
        [G] float64 on the host.

    Raises:
        InputError: if the protocol is none of average precision.
    """
    rules = view.detection_rules
    order = view.falling(group, num_positives.shape[0], rows)
    sizes = torch.bincount(group, minlength=num_positives.shape[0]).cpu().numpy()
    hits, dropped = (column[order].cpu().numpy() for column in (true_positive, ignored))
    positives, ends = num_positives.cpu().numpy(), np.cumsum(sizes)
    averages = np.full(positives.size, np.nan)
    for g in np.flatnonzero(positives):
        part = slice(ends[g] - sizes[g], ends[g])
        averages[g] = average_of_outcomes(rules, hits[part], dropped[part], int(positives[g]))
    return averages


def average_of_outcomes(
    rules: DetectionProtocol,
    hits: np.ndarray[Any, Any],
    ignored: np.ndarray[Any, Any],
    positives: int,
) -> float:
    """Average precision of one ranking, by the rule of a protocol.

    Ignored detections repeat the point before them. That matters only where all are ignored: VOC's
    code then has no precision to read, and gives NaN.

    Args:
        rules: a detection protocol.
        hits, ignored: [n] bool by falling score.
        positives: how many there are to find, above 0.
    """
    true = np.cumsum(hits)
    seen = np.cumsum(~ignored) + rules.precision_epsilon
    recall = true / np.float64(positives)
    with np.errstate(invalid="ignore"):
        precision = true / seen
    interpolation = rules.interpolation
    if interpolation == "recall_grid":
        # The largest precision at each level of recall or beyond, as with eleven points.
        interpolation = "eleven_point"
    return average_of(recall, precision, interpolation, rules.recall_levels)


def mean_over_groups(
    rules: DetectionProtocol, averages: Floats, num_positives: np.ndarray[Any, Any]
) -> float:
    """Mean of the groups with positives; of those that are defined if the protocol says so."""
    chosen = averages[num_positives > 0]
    if rules.mean_over == "defined_values":
        chosen = chosen[~np.isnan(chosen)]
    return float(chosen.mean()) if chosen.size else float("nan")
