"""Intervals, paired differences and ranks against plain loops over the same resamples."""

from __future__ import annotations

import inspect
import itertools
import math
from collections import Counter
from statistics import NormalDist

import numpy as np
import pytest
import torch

from torch_vocmetrics import InputError, MeanIoU
from torch_vocmetrics.analysis import (
    ImageStatistics,
    bootstrap,
    paired_bootstrap,
    rank_intervals,
)
from torch_vocmetrics.analysis.intervals import bca_interval, percentile_interval
from torch_vocmetrics.analysis.resampling import (
    bootstrap_weights,
    jackknife_weights,
    resampling_generator,
)
from torch_vocmetrics.analysis.uncertainty import JACKKNIFE_GROUPS


def mean_of(values: list[float], ids: tuple[int, ...] | None = None) -> ImageStatistics:
    """The mean of one number an image."""
    numbers = torch.tensor(values, dtype=torch.float64)

    def evaluate(weights: torch.Tensor) -> torch.Tensor:
        return ((weights * numbers).sum(1) / weights.sum(1)).unsqueeze(1)

    return ImageStatistics(("mean",), len(values), ids, evaluate)


def test_weights_are_draws_with_replacement() -> None:
    weights = bootstrap_weights(40, 300, resampling_generator(3))
    assert weights.sum(dim=1).tolist() == [40] * 300
    shares = Counter(weights.flatten().tolist())
    # Poisson with mean 1 in the limit: 0.368, 0.368, 0.184 of all counts.
    for count, share in ((0, 0.363), (1, 0.372), (2, 0.186)):
        assert shares[count] / weights.numel() == pytest.approx(share, abs=0.02)
    generator = resampling_generator(3)
    halves = [bootstrap_weights(40, 150, generator) for _ in range(2)]
    assert torch.equal(torch.cat(halves), weights)
    assert not torch.equal(bootstrap_weights(40, 300, resampling_generator(4)), weights)


def test_groups_of_the_jackknife() -> None:
    assert jackknife_weights(5, 2).tolist() == [[0, 1, 0, 1, 0], [1, 0, 1, 0, 1]]
    assert jackknife_weights(2, 5).tolist() == [[0, 1], [1, 0]]


def test_intervals_by_hand() -> None:
    """The formulas of Efron and Tibshirani, equations 14.9 to 14.15, one number after the other."""
    rng = np.random.default_rng(0)
    data = rng.exponential(size=30)
    samples = np.array([rng.choice(data, data.size).mean() for _ in range(500)])
    left_out = np.array([np.delete(data, row).mean() for row in range(data.size)])
    normal = NormalDist()
    bias = normal.inv_cdf(sum(value < data.mean() for value in samples) / samples.size)
    top = sum((left_out.mean() - value) ** 3 for value in left_out)
    bottom = sum((left_out.mean() - value) ** 2 for value in left_out)
    acceleration = top / (6 * bottom**1.5)
    ends = []
    for share in (0.05, 0.95):
        z = bias + normal.inv_cdf(share)
        place = normal.cdf(bias + z / (1 - acceleration * z)) * (samples.size - 1)
        low, high = np.sort(samples)[[math.floor(place), math.ceil(place)]]
        ends.append(low + (high - low) * (place - math.floor(place)))
    assert bca_interval(samples, data.mean(), left_out, 0.9) == pytest.approx(ends, abs=1e-12)
    assert (
        bca_interval(samples, data.mean(), left_out, 0.9)[0] > percentile_interval(samples, 0.9)[0]
    )


def test_intervals_of_scipy() -> None:
    stats = pytest.importorskip("scipy.stats", reason="the judge of this test")
    data = np.random.default_rng(1).exponential(size=25)
    statistics = mean_of(data.tolist())
    # SciPy 1.15 gave the argument its new name.
    word = "rng" if "rng" in inspect.signature(stats.bootstrap).parameters else "random_state"
    for method, name in (("percentile", "percentile"), ("bca", "BCa")):
        mine = bootstrap(statistics, num_resamples=20000, method=method)["mean"]
        theirs = stats.bootstrap(
            (data,), np.mean, n_resamples=20000, method=name, **{word: np.random.default_rng(2)}
        )
        assert mine.lower == pytest.approx(theirs.confidence_interval.low, abs=0.025)
        assert mine.upper == pytest.approx(theirs.confidence_interval.high, abs=0.025)
        assert mine.standard_error == pytest.approx(theirs.standard_error, rel=0.03)
        assert mine.estimate == pytest.approx(data.mean(), abs=1e-12)


def test_degenerate_intervals() -> None:
    nan = math.nan
    nothing = np.array([nan, nan])
    assert all(map(math.isnan, percentile_interval(nothing, 0.9)))
    assert all(map(math.isnan, bca_interval(nothing, 0.5, nothing, 0.9)))
    assert bca_interval(np.array([2.0, 2.0, nan]), 2.0, np.array([2.0]), 0.9) == (2.0, 2.0)
    assert bca_interval(np.array([2.0, 2.0]), 1.0, np.array([2.0]), 0.9) == (2.0, 2.0)
    assert all(map(math.isnan, bca_interval(np.array([2.0, 3.0]), 1.0, np.array([2.0]), 0.9)))
    # Undefined samples are left out and counted.
    half = ImageStatistics(
        ("n",), 3, None, lambda w: torch.where(w[:, :1] > 0, w[:, :1].double(), nan)
    )
    result = bootstrap(half, num_resamples=50)
    assert result.num_undefined.item() == int(result.samples.isnan().sum()) > 0
    assert not math.isnan(result["n"].lower)


def test_pairs_use_the_same_resamples() -> None:
    rng = np.random.default_rng(5)
    base, better = rng.random(60), rng.normal(0.02, 0.03, 60)
    first, second = mean_of((base + better).tolist()), mean_of(base.tolist())
    result = paired_bootstrap(first, second, num_resamples=800, seed=9)
    weights = bootstrap_weights(60, 800, resampling_generator(9)).numpy()
    differences = [float(row @ better) / 60 for row in weights]
    np.testing.assert_allclose(
        [result.lower.item(), result.upper.item()], np.quantile(differences, (0.025, 0.975))
    )
    wrong = sum(value <= 0 for value in differences)
    assert result.p_value_of("mean") == pytest.approx(2 * (1 + wrong) / 801)
    assert result.p_value_of("mean") < 0.05
    # Alone, the intervals of the two overlap widely.
    alone = [bootstrap(side)["mean"] for side in (first, second)]
    assert alone[0].lower < alone[1].upper
    reverse = paired_bootstrap(second, first, num_resamples=800, seed=9)
    assert reverse.p_value.tolist() == result.p_value.tolist()
    assert reverse.lower.item() == pytest.approx(-result.upper.item())
    assert paired_bootstrap(first, first).p_value.tolist() == [1.0]
    assert paired_bootstrap(first, second, method="bca").lower.item() > 0


def test_ranks_of_methods() -> None:
    rng = np.random.default_rng(7)
    base = rng.random(50)
    noise = [rng.normal(0, 0.2, 50) for _ in range(3)]
    methods = {
        "strong": mean_of((base + 1).tolist()),
        **{f"m{i}": mean_of((base + one).tolist()) for i, one in enumerate(noise)},
    }
    result = rank_intervals(methods, num_resamples=400, seed=2, level=0.9)
    assert result.rank[0].item() == 1
    assert (result.lower[0].item(), result.upper[0].item()) == (1, 1)
    assert result.best_share.tolist() == [1.0, 0.0, 0.0, 0.0]
    weights = bootstrap_weights(50, 400, resampling_generator(2)).numpy()
    ranks = []
    for row in weights:
        numbers = [row @ (base + one) / 50 for one in noise]
        ranks.append([2 + sum(other > mine for other in numbers) for mine in numbers])
    expected = np.quantile(np.array(ranks, dtype=float), (0.05, 0.95), axis=0)
    np.testing.assert_allclose(result.lower[1:], expected[0])
    np.testing.assert_allclose(result.upper[1:], expected[1])
    assert list(result.to_pandas()["method"]) == list(methods)


def test_rates_of_errors_are_better_small() -> None:
    low, high = (
        ImageStatistics(("r",), 4, None, mean_of([value] * 4).evaluate, False)
        for value in (0.1, 0.2)
    )
    assert rank_intervals({"low": low, "high": high}).rank.tolist() == [1.0, 2.0]


def confusion(predictions: np.ndarray, targets: np.ndarray, classes: int) -> np.ndarray:
    counts = np.zeros((classes, classes), dtype=int)
    for prediction, target in zip(predictions.flat, targets.flat, strict=True):
        counts[target, prediction] += target != 255
    return counts


@pytest.mark.parametrize("protocol", ["voc2007", "voc2012", "voc2012_present_classes"])
def test_mean_iou_of_resampled_images(protocol: str) -> None:
    """Every resample equals a new metric that is given each image as often as it was drawn."""
    rng = np.random.default_rng(3)
    targets = rng.integers(0, 4, (7, 5, 6))
    targets[rng.random(targets.shape) < 0.1] = 255
    targets[:5][targets[:5] == 3] = 0  # a class that some resamples lack
    predictions = rng.integers(0, 3, (7, 5, 6))
    names = ["background", "a", "b", "c"]
    metric = MeanIoU(protocol, class_names=names)
    metric.update(torch.tensor(predictions), torch.tensor(targets), image_ids=list(range(7)))
    metric.update(torch.tensor(predictions[:1]), torch.tensor(targets[:1]), image_ids=[0])
    with pytest.warns(UserWarning, match="repeated"):
        result = bootstrap(metric, num_resamples=10, seed=1)
    weights = bootstrap_weights(7, 10, resampling_generator(1))
    for row, sample in zip(weights, result.samples, strict=True):
        drawn = list(itertools.chain(*([i] * n for i, n in enumerate(row.tolist()))))
        again = MeanIoU(protocol, class_names=names)
        again.update(torch.tensor(predictions[drawn]), torch.tensor(targets[drawn]))
        expected = again.compute()
        np.testing.assert_array_equal(sample[0], expected.headline)
        np.testing.assert_array_equal(sample[1:], expected.iou)
    assert result.name == ("mIoU", "IoU/background", "IoU/a", "IoU/b", "IoU/c")
    assert "samples" not in result.to_dict()
    assert list(result.to_pandas().columns) == [
        "name", "estimate", "lower", "upper", "standard_error", "num_undefined",
    ]  # fmt: skip


def test_what_cannot_be_resampled() -> None:
    statistics = mean_of([1.0, 2.0], ids=(1, 2))
    with pytest.raises(InputError, match="num_resamples: must be at least 1, got 0"):
        bootstrap(statistics, num_resamples=0)
    with pytest.raises(InputError, match="level: must be above 0 and below 1"):
        bootstrap(statistics, level=95)
    with pytest.raises(InputError, match="method: must be one of percentile, bca"):
        bootstrap(statistics, method="normal")
    with pytest.raises(InputError, match="no number 'AP'; there are mean"):
        bootstrap(statistics)["AP"]
    with pytest.raises(InputError, match="second: has other image ids than first"):
        paired_bootstrap(statistics, mean_of([1.0, 2.0], ids=(1, 3)))
    with pytest.raises(InputError, match="second: has other images than first"):
        paired_bootstrap(statistics, mean_of([1.0]))
    with pytest.raises(InputError, match="at least two methods"):
        rank_intervals({"only": statistics})
    empty = MeanIoU("voc2012", num_classes=2).update(
        torch.zeros(0, 2, 2, dtype=torch.int64), torch.zeros(0, 2, 2, dtype=torch.int64)
    )
    with pytest.raises(InputError, match="no images to resample"):
        bootstrap(empty)
    with pytest.raises(InputError, match="must be a detection metric"):
        bootstrap(3)
    assert JACKKNIFE_GROUPS > 1
