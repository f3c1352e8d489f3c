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
    view: LaneView, group: Tensor, rows: Tensor, true_positive: Tensor, num_positives: Tensor
) -> Floats:
    """Average precision of each group, NaN for groups without positives.

    Args:
        view: gives the scores, the order of ties and the protocol.
        group: [n] int64 in [0, G), the group of each row.
        rows: [n] int64 detections, none of them ignored; those left out do not exist.
        true_positive: [n] bool; the others are false positives.
        num_positives: [G] int64.

    Returns:
        [G] float64 on the host.

    Raises:
        InputError: if the protocol is none of average precision.
    """
    rules = view.detection_rules
    order = view.falling(group, num_positives.shape[0], rows)
    sizes = torch.bincount(group, minlength=num_positives.shape[0]).cpu().numpy()
    hits, positives = true_positive[order].cpu().numpy(), num_positives.cpu().numpy()
    ends = np.cumsum(sizes)
    averages = np.full(positives.size, np.nan)
    for g in np.flatnonzero(positives):
        found = hits[ends[g] - sizes[g] : ends[g]]
        averages[g] = average_of_hits(rules, found, int(positives[g]))
    return averages


def average_of_hits(rules: DetectionProtocol, hits: np.ndarray[Any, Any], positives: int) -> float:
    """Average precision of one ranking, by the rule of a protocol.

    Args:
        rules: a detection protocol.
        hits: [n] bool by falling score, whether each detection is a true positive.
        positives: how many there are to find, above 0.
    """
    true = np.cumsum(hits)
    recall = true / np.float64(positives)
    precision = true / (np.arange(1, hits.size + 1) + rules.precision_epsilon)
    interpolation = rules.interpolation
    if interpolation == "recall_grid":
        # The largest precision at each level of recall or beyond, as with eleven points.
        interpolation = "eleven_point"
    return average_of(recall, precision, interpolation, rules.recall_levels)
