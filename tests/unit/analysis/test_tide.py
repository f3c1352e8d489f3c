"""Kinds of errors and their costs, against plain loops and by hand."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter

import numpy as np
import pytest
import torch
from helpers.support import Problem
from unit.analysis.problems import many, recorded

from torch_vocmetrics import InputError, StateError, load_protocol
from torch_vocmetrics.analysis import error_kinds
from torch_vocmetrics.analysis.tide import KINDS
from torch_vocmetrics.reference import error_kinds as loops

SEEDS = range(60)
COCO = load_protocol("detection/coco2017")


def test_kinds_and_costs_are_those_of_plain_loops() -> None:
    met: Counter[str] = Counter()
    for given in many(SEEDS, mixed=True, headline=True):
        if given.iou_threshold <= 0.1:
            continue
        got = error_kinds(given.records, iou_threshold=given.iou_threshold)
        wanted = loops.error_kinds(given.judged, given.rules, given.iou_threshold, 0.1)
        met.update({kind: wanted.counts[kind] * (wanted.costs[kind] > 0) for kind in KINDS})
        assert dict(zip(KINDS, got.count.tolist(), strict=True)) == wanted.counts, given.seed
        numbers = [got.average_precision, got.false_positive_cost, got.false_negative_cost]
        np.testing.assert_allclose(numbers, wanted[2:], rtol=0, atol=1e-12)
        costs = [wanted.costs[kind] for kind in KINDS]
        np.testing.assert_allclose(got.cost, costs, rtol=0, atol=1e-12)
        assert got.count_by_class.sum(dim=1).equal(got.count)
        assert got.false_positives == int(got.count[:5].sum())
    assert min(met.values()) > 5, met


def test_by_hand() -> None:
    """One error of each kind; only the dog and the second cat can be mended."""
    objects = [[0.0, 0, 10, 10], [200, 0, 210, 10], [100, 0, 110, 10], [300, 0, 310, 10]]
    found = {
        "boxes": torch.tensor(
            [
                [0.0, 0, 10, 10],
                [0, 0, 10, 10],  # duplicate
                [100, 0, 110, 10],  # a dog
                [200, 0, 203, 10],  # IoU 0.3
                [800, 0, 810, 10],
                [200, 0, 203, 10],  # IoU 0.3 with a cat
            ]
        ),
        "scores": torch.tensor([0.95, 0.9, 0.8, 0.7, 0.6, 0.5]),
        "labels": torch.tensor([0, 0, 0, 0, 0, 1]),
    }
    there = {"boxes": torch.tensor(objects), "labels": torch.tensor([0, 0, 1, 2])}
    problem = Problem([found], [there], {"class_names": ["cat", "dog", "bird"]})
    rules = dataclasses.replace(load_protocol("detection/voc2012"), coordinates="continuous")
    records = recorded(rules, problem)
    errors = error_kinds(records)
    assert errors.count.tolist() == [1, 1, 1, 1, 1, 1]
    assert errors.average_precision == pytest.approx(0.5 / 3)
    assert errors.cost.tolist() == pytest.approx([1 / 3, 0.25 / 3, 0, 0, 0, 0])
    assert errors.false_positive_cost == pytest.approx(0)
    assert errors.false_negative_cost == pytest.approx(0.5 / 3)
    assert (errors.false_positives, errors.false_negatives) == (5, 3)
    assert errors.count_by_class[KINDS.index("missed")].tolist() == [0, 0, 1]
    assert errors.to_pandas().kind.tolist() == list(KINDS)
    with pytest.raises(InputError, match="background_threshold: must be at least 0 and below"):
        error_kinds(records, background_threshold=0.5)
    with pytest.raises(StateError, match="error kinds needs the best overlaps"):
        error_kinds(recorded(rules, problem, diagnostics=False))


def test_nothing_at_all() -> None:
    nothing = {"boxes": torch.zeros(0, 4), "labels": torch.zeros(0, dtype=torch.int64)}
    problem = Problem([nothing | {"scores": torch.zeros(0)}], [nothing], {"num_classes": 1})
    errors = error_kinds(recorded(COCO, problem))
    assert errors.count.tolist() == [0] * 6
    assert math.isnan(errors.average_precision)
