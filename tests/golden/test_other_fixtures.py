"""The published average precision of raw curves, by the metric's formula and the reference's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.support import load_extra, name_of, same

from torch_vocmetrics.curves.averages import all_points
from torch_vocmetrics.reference.detection import all_points_ap


def by_arrays(recall: list[float], precision: list[float]) -> float:
    return all_points(np.array(recall, float), np.array(precision, float))


@pytest.mark.parametrize("average", [by_arrays, all_points_ap], ids=["metric", "reference"])
@pytest.mark.parametrize("case", load_extra("voc_misc", "curves"), ids=name_of)
def test_vocap(case: dict[str, Any], average: Callable[..., float]) -> None:
    assert same(average(case["rec"], case["prec"]), case["VOCap"])
