"""Friedman's and Nemenyi's tests and rank correlations against SciPy and printed tables."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from torch_vocmetrics import InputError
from torch_vocmetrics.analysis import (
    friedman_test,
    nemenyi_critical_difference,
    rank_correlation,
)
from torch_vocmetrics.analysis.studentized_range import range_cdf, range_quantile

stats = pytest.importorskip("scipy.stats", reason="the judge of these tests")


@pytest.mark.parametrize("k", [2, 3, 5, 17, 40])
def test_studentized_range(k: int) -> None:
    for q in (-1.0, 0.0, 0.5, 2.0, 3.3, 7.0):
        expected = stats.studentized_range.cdf(max(q, 0.0), k, np.inf)
        assert range_cdf(q, k) == pytest.approx(expected, abs=1e-12)
    for probability in (0.5, 0.9, 0.99):
        expected = stats.studentized_range.ppf(probability, k, np.inf)
        assert range_quantile(probability, k) == pytest.approx(expected, abs=1e-8)


def test_critical_differences_of_demsar() -> None:
    """Demsar 2006, table 5a (q at 0.05 and 0.10) and his example of 4 methods on 14 data sets."""
    for k, at_5, at_10 in (
        (2, 1.960, 1.645),
        (3, 2.343, 2.052),
        (5, 2.728, 2.459),
        (10, 3.164, 2.920),
    ):
        assert range_quantile(0.95, k) / 2**0.5 == pytest.approx(at_5, abs=1.1e-3)
        assert range_quantile(0.90, k) / 2**0.5 == pytest.approx(at_10, abs=1.1e-3)
    assert nemenyi_critical_difference(4, 14, 0.10) == pytest.approx(1.12, abs=0.005)
    assert nemenyi_critical_difference(17, 20) == pytest.approx(5.52, abs=0.005)


def test_friedman_of_demsar() -> None:
    """Demsar 2006, table 6: 14 data sets, four variants of C4.5, chi-square 9.28."""
    table = np.array([
        [0.763, 0.768, 0.771, 0.798], [0.599, 0.591, 0.590, 0.569], [0.954, 0.971, 0.968, 0.967],
        [0.628, 0.661, 0.654, 0.657], [0.882, 0.888, 0.886, 0.898], [0.936, 0.931, 0.916, 0.931],
        [0.661, 0.668, 0.609, 0.685], [0.583, 0.583, 0.563, 0.625], [0.775, 0.838, 0.866, 0.875],
        [1.000, 1.000, 1.000, 1.000], [0.940, 0.962, 0.965, 0.962], [0.619, 0.666, 0.614, 0.669],
        [0.972, 0.981, 0.9751, 0.975], [0.957, 0.978, 0.946, 0.970],
    ])  # fmt: skip
    result = friedman_test(table.T, ["C4.5", "C4.5+m", "C4.5+cf", "C4.5+m+cf"], alpha=0.1)
    assert [round(rank, 3) for rank in result.mean_rank.tolist()] == [3.143, 2.0, 2.893, 1.964]
    # Demsar prints 9.28, which has no correction for ties.
    ranks = result.mean_rank.numpy()
    assert 12 * 14 / 20 * (np.sum(ranks**2) - 4 * 25 / 4) == pytest.approx(9.28, abs=0.005)
    assert bool(result.is_different[0, 3])
    assert not bool(result.is_different[0, 2])


@pytest.mark.parametrize("seed", range(30))
def test_random_tables_against_scipy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    methods, classes = int(rng.integers(3, 9)), int(rng.integers(2, 25))
    values = rng.integers(0, int(rng.integers(2, 9)), (methods, classes)) / 5
    names = [f"m{row}" for row in range(methods)]
    result = friedman_test(values, names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        statistic, p_value = stats.friedmanchisquare(*values)
        spearman = stats.spearmanr(values[:, 0], values[:, 1])[0]
        kendall = stats.kendalltau(values[:, 0], values[:, 1])[0]
    np.testing.assert_allclose(result.statistic, statistic, atol=1e-10)
    np.testing.assert_allclose(result.p_value, p_value, atol=1e-10)
    correlation = rank_correlation(values[:, 0], values[:, 1], names)
    np.testing.assert_allclose(correlation.spearman, spearman, atol=1e-12)
    np.testing.assert_allclose(correlation.kendall, kendall, atol=1e-12)
    expected = stats.studentized_range.sf(
        abs(result.mean_rank[0] - result.mean_rank[1])
        * np.sqrt(2)
        / np.sqrt(methods * (methods + 1) / (6 * classes)),
        methods,
        np.inf,
    )
    assert float(result.pair_p_value[0, 1]) == pytest.approx(float(expected), abs=1e-9)


def test_smaller_numbers_may_be_better_and_undefined_classes_are_left_out() -> None:
    rates = [[0.1, 0.2, np.nan], [0.3, 0.4, 0.1]]
    result = friedman_test(rates, ["a", "b"], larger_is_better=False)
    assert result.num_classes == 2
    assert result.mean_rank.tolist() == [1.0, 2.0]
    assert list(result.to_pandas()["method"]) == ["a", "b"]


def test_groups_are_the_bars_of_a_diagram() -> None:
    """Mean ranks 1, 2, 3, 4 with a critical difference of 1.5: three bars of two methods."""
    values = [[4.0] * 10, [3.0] * 10, [2.0] * 10, [1.0] * 10]
    result = friedman_test(values, ["a", "b", "c", "d"])
    assert result.critical_difference == pytest.approx(1.483, abs=1e-3)
    assert result.groups == (("a", "b"), ("b", "c"), ("c", "d"))
    two = friedman_test([[2.0, 1.0], [1.0, 2.0], [1.5, 1.5]], ["a", "b", "c"])
    assert two.groups == (("a", "b", "c"),)


def test_orders_of_methods() -> None:
    result = rank_correlation([0.9, 0.8, float("nan"), 0.1], [1.0, 2.0, 0.0, 3.0], list("abcd"))
    assert result.method == ("a", "b", "d")
    assert (result.spearman, result.kendall, result.num_reversed) == (-1.0, -1.0, 3)
    assert result.first_rank.tolist() == [1.0, 2.0, 3.0]


def test_what_cannot_be_tested() -> None:
    with pytest.raises(InputError, match=r"\[methods, classes\], got \[2, 2\] for 3 methods"):
        friedman_test([[1, 2], [3, 4]], ["a", "b", "c"])
    with pytest.raises(InputError, match="two methods and a class"):
        friedman_test([[np.nan], [1.0]], ["a", "b"])
    with pytest.raises(InputError, match="alpha: must be above 0"):
        friedman_test([[1.0], [2.0]], ["a", "b"], alpha=1.0)
    with pytest.raises(InputError, match="one number for each method"):
        rank_correlation([1.0], [1.0, 2.0], ["a"])
    with pytest.raises(InputError, match="at least two methods"):
        rank_correlation([1.0], [1.0], ["a"])
