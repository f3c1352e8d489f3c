"""Annotators against enumeration of all choices of workers."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from torch_vocmetrics import InputError
from torch_vocmetrics.analysis import annotator_agreement


@pytest.mark.parametrize("seed", range(8))
def test_all_choices_of_workers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    E, W = int(rng.integers(3, 8)), int(rng.integers(1, 7))
    experts = rng.random((E, 9, 4)) < 0.4
    workers = rng.random((W, 9, 4)) < 0.3
    found = annotator_agreement(experts, workers)
    truth = np.zeros((9, 4), dtype=bool)
    for place in np.ndindex(9, 4):
        truth[place] = sum(bool(one[place]) for one in experts) > E / 2
    for k in range(1, W + 1):
        right = marked = positives = 0
        for chosen in itertools.combinations(range(W), k):
            union = np.any([workers[row] for row in chosen], axis=0)
            right += int((union & truth).sum())
            marked += int(union.sum())
            positives += int(truth.sum())
        assert found.precision[k - 1].item() == pytest.approx(right / marked, abs=1e-12)
        assert found.recall[k - 1].item() == pytest.approx(right / positives, abs=1e-12)
    for row in range(E):
        right = marked = positives = 0
        for place in np.ndindex(9, 4):
            votes = sum(bool(experts[other][place]) for other in range(E) if other != row)
            if 2 * votes == E - 1:
                continue
            right += bool(experts[row][place]) and 2 * votes > E - 1
            marked += bool(experts[row][place])
            positives += 2 * votes > E - 1
        assert found.expert_precision[row].item() == pytest.approx(right / marked)
        assert found.expert_recall[row].item() == pytest.approx(right / positives)
    assert found.num_positives == truth.sum()
    assert list(found.to_pandas().columns) == ["num_workers", "precision", "recall"]


def test_recall_rises_with_workers() -> None:
    rng = np.random.default_rng(3)
    found = annotator_agreement(rng.random((5, 40)) < 0.5, rng.random((10, 40)) < 0.3)
    assert (found.recall.diff() > 0).all()


def test_what_cannot_be_compared() -> None:
    with pytest.raises(InputError, match="needs three experts and a worker, got 2 experts"):
        annotator_agreement(np.ones((2, 3)), np.ones((1, 3)))
    with pytest.raises(InputError, match="same items, got 3 and 4 items"):
        annotator_agreement(np.ones((3, 3)), np.ones((1, 4)))
    nothing = annotator_agreement(np.zeros((3, 2)), np.zeros((1, 2)))
    assert math.isnan(nothing.precision[0].item())
    assert math.isnan(nothing.recall[0].item())
