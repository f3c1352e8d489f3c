"""The published average precision of raw curves, by the metric's formula and the reference's."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support import name_of, same, shared_file

from torch_vocmetrics.averages import all_points
from torch_vocmetrics.reference.detection import all_points_ap


def curves() -> list[dict[str, Any]]:
    path = shared_file("fixtures", "voc_misc.json")
    return json.loads(path.read_text())["curves"] if path.is_file() else []


def by_arrays(recall: list[float], precision: list[float]) -> float:
    return all_points(np.array(recall, float), np.array(precision, float))


def test_there_are_curves() -> None:
    assert curves()


@pytest.mark.parametrize("average", [by_arrays, all_points_ap], ids=["metric", "reference"])
@pytest.mark.parametrize("case", curves(), ids=name_of)
def test_vocap(case: dict[str, Any], average: Callable[..., float]) -> None:
    assert same(average(case["rec"], case["prec"]), case["VOCap"])
