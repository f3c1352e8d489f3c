"""Rankings, curves and their averages, each by hand after the official lines."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from torch_vocmetrics import DetectionAP, load_protocol
from torch_vocmetrics.curves.averages import average_of, mean_over_classes, roc_area
from torch_vocmetrics.curves.precision_recall import normalized_precision
from torch_vocmetrics.curves.ranking import Ranker
from torch_vocmetrics.lanes import Lanes
from torch_vocmetrics.ops.ordering import rank_order
from torch_vocmetrics.tables.records import joined

LEVELS = tuple(level / 10 for level in range(11))

# Two objects. A true, a false and a true positive; and a false one before two true ones.
TRUE_FIRST = np.array([0.5, 0.5, 1.0]), np.array([1.0, 0.5, 2 / 3])
FALSE_FIRST = np.array([0.0, 0.5, 1.0]), np.array([0.0, 0.5, 2 / 3])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("num_groups", [1, 2, 3, 5])
def test_order_by_group_then_score_then_row(num_groups: int, dtype: torch.dtype) -> None:
    """Many ties, and zeros of either sign, which are equal."""
    rows = torch.arange(60)
    group, scores = rows * 7 % num_groups, (rows * 5 % 11 - 5).to(dtype) / 4
    scores[::4] *= -1
    scores[scores == 0] *= torch.tensor([1, -1, -1], dtype=dtype).repeat(20)[scores == 0]
    numbers = list(zip(group.tolist(), scores.tolist(), strict=True))
    wanted = sorted(range(60), key=lambda row: (numbers[row][0], -numbers[row][1], row))
    assert rank_order(group, scores, (), num_groups).tolist() == wanted


def test_two_parts_are_ranked_together() -> None:
    parts = []
    for score in (0.8, 0.9):
        target = {"boxes": torch.tensor([[1.0, 1.0, 9.0, 9.0]]), "labels": torch.tensor([0])}
        found = target | {"scores": torch.tensor([score], dtype=torch.float64)}
        metric = DetectionAP("voc2012", num_classes=1).update([found], [target])
        parts.append(metric._joined().whole[0])
    lanes = Lanes.of(load_protocol("detection/voc2012"))
    ranking = Ranker(parts, lanes, 1).ranked(range(1))
    assert ranking.scores.tolist() == [0.9, 0.8]
    assert ranking.matched.tolist() == [0, 1]
    assert ranking.num_positives.tolist() == [[2]]
    assert [part.num_detections for part in joined([*parts, parts[0]], 2)] == [2, 1]


def test_precision_as_if_a_class_had_four_positives() -> None:
    """Hoiem et al.: ``R N / (R N + F)`` with N = 4, R = 1/2, 1/2, 1 and F = 0, 1, 1."""
    recall, precision = np.array([0.5, 0.5, 1.0]), np.array([1.0, 0.5, 2 / 3])
    assert normalized_precision(recall, precision, 2, 4.0).tolist() == [1.0, 2 / 3, 0.8]


@pytest.mark.parametrize(
    ("interpolation", "true_first", "false_first"),
    [
        ("eleven_point", (6 * 1 + 5 * 2 / 3) / 11, 2 / 3),
        ("all_points", 0.5 * 1 + 0.5 * 2 / 3, 2 / 3),
        ("none", 0.5 * 1 + 0.5 * 2 / 3, 0.5 * 0.5 + 0.5 * 2 / 3),
    ],
)
def test_average_precision(interpolation: str, true_first: float, false_first: float) -> None:
    """Precision is made monotone from the right, but for that without interpolation."""
    for curve, wanted in ((TRUE_FIRST, true_first), (FALSE_FIRST, false_first)):
        assert average_of(*curve, interpolation, LEVELS) == pytest.approx(wanted, abs=1e-15)


def test_area_under_a_roc_curve() -> None:
    """Kept are the ends and (0, .5), (.5, 1): steps of .5 at the heights .5 and 1."""
    false, true = np.array([0, 0, 0.5, 0.5, 1, 1]), np.array([0, 0.5, 0.5, 1, 1, 1])
    assert roc_area(false, true) == 0.75


def test_classes_without_positives_do_not_count() -> None:
    values = np.array([0.5, math.nan, 0.25])
    assert mean_over_classes(values, np.array([2, 0, 1])) == 0.375
    assert math.isnan(mean_over_classes(values, np.array([0, 0, 0])))
    assert math.isnan(mean_over_classes(values, np.array([1, 1, 1])))
