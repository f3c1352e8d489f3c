"""Tables of methods by hand, and combined classifiers against SciPy's optimum."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from torch_vocmetrics import ClassificationAP, InputError, MeanIoU
from torch_vocmetrics.analysis import combine_classifiers, method_table, year_table
from torch_vocmetrics.analysis.combination import _logistic

NAMES = ["cat", "dog", "owl"]


def metric(scores: Any, targets: Any, names: list[str] = NAMES) -> ClassificationAP:
    made = ClassificationAP("voc2012", class_names=names)
    return made.update(torch.as_tensor(scores, dtype=torch.float64), torch.as_tensor(targets))


def result(places: list[int], without: tuple[int, ...] = ()) -> Any:
    """AP of a class is 1 over the place of its only positive image among four."""
    targets, scores = -np.ones((4, 3), dtype=int), np.zeros((4, 3))
    for k, place in enumerate(places):
        scores[:, k] = [4, 3, 2, 1]
        if k not in without:
            targets[place - 1, k] = 1
    return metric(scores, targets).compute()


def test_methods_by_classes() -> None:
    table = method_table({"a": result([1, 2, 4]), "b": result([2, 1, 4]), "c": result([4, 4, 4])})
    assert table.value.tolist() == [[1, 0.5, 0.25], [0.5, 1, 0.25], [0.25, 0.25, 0.25]]
    assert table.mean.tolist() == pytest.approx([1.75 / 3, 1.75 / 3, 0.25])
    assert table.median.tolist() == [0.5, 0.5, 0.25]
    assert table.class_median.tolist() == [0.5, 0.5, 0.25]
    assert table.class_best.tolist() == [1, 1, 0.25]
    assert table.best_method == ("a", "b", "a")
    assert table.num_best.tolist() == [2, 2, 1]
    frame = table.to_pandas()
    assert list(frame["method"]) == ["a", "b", "c", "median"]
    assert list(frame["cat"]) == [1, 0.5, 0.25, 0.5]


def test_undefined_classes_are_left_out() -> None:
    table = method_table(
        {"a": result([1, 2, 1], without=(2,)), "b": result([2, 2, 1], without=(2,))}
    )
    assert math.isnan(table.value[0, 2])
    assert table.mean.tolist() == [0.75, 0.5]
    assert math.isnan(table.class_best[2])
    assert table.num_best.tolist() == [2, 1]
    iou = MeanIoU("voc2012", class_names=["x", "y"])
    iou.update(torch.tensor([[[0, 0]]]), torch.tensor([[[0, 0]]]))
    assert method_table({"m": iou.compute()}).mean.tolist() == [1.0]


def test_years() -> None:
    table = year_table({
        "2008": {"a": result([2, 4, 4]), "b": result([4, 2, 4])},
        "2009": {"c": result([1, 2, 4])},
    })  # fmt: skip
    assert table.best.tolist() == [[0.5, 0.5, 0.25], [1, 0.5, 0.25]]
    assert table.median.tolist() == [[0.375, 0.375, 0.25], [1, 0.5, 0.25]]
    assert table.best_method == (("a", "b", "a"), ("c", "c", "c"))
    assert math.isnan(table.gain[0])
    assert table.gain[1].item() == pytest.approx(0.5 / 3)
    assert list(table.to_pandas()["year"]) == ["2008", "2009"]
    other = metric([[1.0]], [[1]], ["fox"]).compute()
    with pytest.raises(InputError, match="2009: has other classes than 2008"):
        year_table({"2008": {"a": result([1, 1, 1])}, "2009": {"b": other}})
    with pytest.raises(InputError, match="at least one year"):
        year_table({})
    with pytest.raises(InputError, match="at least one result"):
        method_table({})


def test_logistic_regression_is_at_its_optimum() -> None:
    optimize = pytest.importorskip("scipy.optimize", reason="the judge of this test")
    rng = np.random.default_rng(0)
    for seed in range(5):
        rows = np.concatenate([rng.normal(size=(60, 3)), np.ones((60, 1))], 1)
        positive = (rng.random(60) < 1 / (1 + np.exp(-rows @ [2.0, -1, 0, 0.5]))).astype(float)

        def loss(w: np.ndarray, rows: np.ndarray = rows, positive: np.ndarray = positive) -> float:
            z = rows @ w
            return float(np.sum(np.logaddexp(0, z) - positive * z) + 0.5 * np.sum(w[:3] ** 2))

        best = optimize.minimize(loss, np.zeros(4), method="BFGS", options={"gtol": 1e-9})
        mine = _logistic(torch.tensor(rows), torch.tensor(positive), 1.0)
        np.testing.assert_allclose(mine, best.x, atol=1e-5, err_msg=str(seed))


def test_methods_that_complement_one_another() -> None:
    rng = np.random.default_rng(4)
    truth = rng.random((400, 2)) < 0.4
    targets = np.where(truth, 1, -1)
    targets[rng.random(targets.shape) < 0.05] = 0
    noisy = [truth + rng.normal(0, 0.8, truth.shape) for _ in range(3)]
    useless = rng.normal(0, 1, truth.shape)
    names = ["cat", "dog"]
    methods = {
        f"m{n}": metric(10 * values if n else values, targets, names)
        for n, values in enumerate(noisy)
    }
    methods["useless"] = metric(useless, targets, names)
    found = combine_classifiers(methods, folds=5, seed=1)
    singles = np.array([one.compute().average_precision.tolist() for one in methods.values()])
    np.testing.assert_array_equal(found.best, singles.max(0))
    assert found.mean_best == pytest.approx(singles.max(0).mean())
    # The useless method harms the mean; the learned weights leave it out.
    assert found.mean_learned > found.mean_best + 0.02
    assert found.mean_learned > found.mean_mean
    standard = [(v - v.mean(0)) / v.std(0) for v in (*noisy, useless)]
    expected = metric(np.mean(standard, axis=0), targets, names).compute()
    np.testing.assert_allclose(found.mean, expected.average_precision, atol=1e-12)
    again = combine_classifiers(methods, folds=5, seed=1)
    assert torch.equal(again.learned, found.learned)


def test_weights_are_learned_on_other_images() -> None:
    """Scores without meaning stay so; learned on the images themselves they would seem good."""
    rng = np.random.default_rng(0)
    targets = np.where(rng.random((60, 1)) < 0.5, 1, -1)
    methods = {f"m{n}": metric(rng.normal(size=(60, 1)), targets, ["cat"]) for n in range(12)}
    found = combine_classifiers(methods, regularization=0.01)
    assert found.mean_learned < found.mean_best
    assert found.mean_learned < 0.65


def test_scores_that_are_missing() -> None:
    targets = [[1], [-1], [1], [-1]]
    first = metric([[0.9], [0.1], [-math.inf], [0.2]], targets, ["cat"])
    second = metric([[0.2], [0.9], [0.8], [math.nan]], targets, ["cat"])
    found = combine_classifiers({"a": first, "b": second}, folds=2)
    assert 0 < found.mean_mean <= 1


def test_what_cannot_be_combined() -> None:
    one = metric([[1.0], [0.0]], [[1], [-1]], ["cat"])
    with pytest.raises(InputError, match="at least two methods"):
        combine_classifiers({"a": one})
    with pytest.raises(InputError, match="folds: must be at least 2"):
        combine_classifiers({"a": one, "b": one}, folds=1)
    with pytest.raises(InputError, match="regularization: must be above 0"):
        combine_classifiers({"a": one, "b": one}, regularization=0)
    other = metric([[1.0], [0.0]], [[1], [1]], ["cat"])
    with pytest.raises(InputError, match="b: has other images or targets than a"):
        combine_classifiers({"a": one, "b": other})
    older = ClassificationAP("voc2007", class_names=["cat"])
    older.update(torch.tensor([[1.0], [0.0]]), torch.tensor([[1], [-1]]))
    with pytest.raises(InputError, match="b: has another protocol than a"):
        combine_classifiers({"a": one, "b": older})
