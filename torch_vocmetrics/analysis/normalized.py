"""Average precision that compares rare and frequent classes, and what chance gives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..curves.averages import average_of
from ..curves.precision_recall import Floats, normalized_precision, precision_recall
from ..errors import InputError
from ..protocols import DetectionProtocol
from ..results import Table
from .record_statistics import RankedRecords
from .source import records_of


@dataclass(frozen=True, eq=False, kw_only=True)
class NormalizedAP(Table):
    """Average precision of every class as if all classes had equally many objects.

    Attributes:
        class_name: K names.
        num_positives: [K] int64, objects that count.
        average_precision: [K] float64 by the protocol's rule; NaN without objects.
        normalized: [K] float64, the same rule with the precision ``R N / (R N + F)`` at recall R
            after F false positives.
        chance: [K] float64, what the same detections give in a random order.
        expected_positives: N.
        mean_average_precision, mean_normalized: over the classes with objects.
        iou_threshold, area: of the lane.
    """

    class_name: tuple[str, ...]
    num_positives: Tensor
    average_precision: Tensor
    normalized: Tensor
    chance: Tensor
    expected_positives: float
    mean_average_precision: float
    mean_normalized: float
    iou_threshold: float
    area: str


def normalized_average_precision(
    source: Any,
    *,
    expected_positives: float | None = None,
    iou_threshold: float | None = None,
    area: str | None = None,
) -> NormalizedAP:
    """Average precision with one number of objects for all classes, and by chance.

    Precision depends on how many objects a class has: a detector with the same recall and the same
    number of false positives has a smaller one on a rare class. Normalised precision replaces the
    number of objects by N for every class.

    Chance is the expected average precision of the same detections in a random order, of which the
    precision is ``TP / (TP + FP)`` at every recall up to the one reached.

    Args:
        source: a detection metric or its records.
        expected_positives: N; None takes the mean over the classes with objects. Hoiem et al. take
            0.15 times the number of images.
        iou_threshold: of the lane; None takes the lowest.
        area: name of an area range; None takes that of the headline.

    Raises:
        InputError: if N is not above 0, or the records are of no detection protocol.

    Source: Hoiem, Chodpathumwan and Dai, "Diagnosing Error in Object Detectors", ECCV 2012,
        section 2.3.
    """
    records = records_of(source)
    rules = records.protocol
    if not isinstance(rules, DetectionProtocol):
        raise InputError("must have a detection protocol", where="source", got=rules.task)
    lane = records.lane_index(iou_threshold, area)
    ranked = RankedRecords(records, [lane])
    classes = [ranked.of_class(label) for label in range(ranked.num_classes)]
    positives = torch.tensor([one.objects[0].shape[0] for one in classes], device="cpu")
    with_objects = positives > 0
    if expected_positives is None:
        expected_positives = float(positives[with_objects].double().mean())
    if expected_positives <= 0:
        raise InputError("must be above 0", where="expected_positives", got=expected_positives)
    values = np.full((3, len(classes)), math.nan)
    for k, one in enumerate(classes):
        if with_objects[k]:
            hit, ignored = (column.cpu().numpy() for column in one.lanes[0])
            values[:, k] = _averages(hit[~ignored], int(positives[k]), expected_positives, rules)
    plain, normalized, chance = torch.from_numpy(values)
    return NormalizedAP(
        class_name=records.class_names,
        num_positives=positives,
        average_precision=plain,
        normalized=normalized,
        chance=chance,
        expected_positives=expected_positives,
        mean_average_precision=float(plain[with_objects].mean()),
        mean_normalized=float(normalized[with_objects].mean()),
        iou_threshold=records.lanes[lane].iou_threshold,
        area=records.lanes[lane].area,
    )


def _averages(
    hits: Any, num_positives: int, expected_positives: float, rules: DetectionProtocol
) -> Sequence[float]:
    """Average precision, normalised, and by chance, of a ranking of hits and errors."""
    true = np.cumsum(hits, dtype=np.int64)
    false = np.arange(1, true.size + 1) - true
    recall, precision = precision_recall(true, false, num_positives)
    normalized = normalized_precision(recall, precision, num_positives, expected_positives)
    # In a random order the share of hits is the same at every recall, up to the largest one.
    found = int(true[-1]) if true.size else 0
    steps = np.arange(1, found + 1) / np.float64(num_positives)
    random = np.full(found, found / max(true.size, 1))
    curves = ((recall, precision), (recall, normalized), (steps, random))
    return [_average(rules, *curve) for curve in curves]


def _average(rules: DetectionProtocol, recall: Floats, precision: Floats) -> float:
    """The protocol's average; 101 recall levels read a curve as eleven do."""
    grid = rules.interpolation == "recall_grid"
    interpolation = "eleven_point" if grid else rules.interpolation
    return average_of(recall, precision, interpolation, rules.recall_levels)
