"""How sure a number is: the bootstrap over images.

The images of a test set are drawn with replacement as often as there are images, and the number is
computed again, without matching again: see :mod:`.weighted_rows`. All resamples are counted in
tiles of bounded memory, and are the same on every device for one seed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..errors import InputError
from ..results import Table
from .intervals import bca_interval, percentile_interval
from .ranks import mean_ranks
from .resampling import bootstrap_weights, jackknife_weights, resampling_generator
from .weighted_numbers import ImageStatistics, image_statistics

METHODS = ("percentile", "bca")
JACKKNIFE_GROUPS = 500
"""The acceleration of BCa leaves out each image, or each of so many groups of images."""

_BLOCK_ENTRIES = 2**23  # image weights that are made at once


class Interval(NamedTuple):
    """A number and its confidence interval."""

    estimate: float
    lower: float
    upper: float
    standard_error: float


@dataclass(frozen=True, eq=False, kw_only=True)
class Bootstrap(Table):
    """Numbers of one method and their confidence intervals; ``result["mAP"]`` is one of them.

    Attributes:
        name: S names.
        estimate: [S] float64, the numbers of the images as they are.
        lower, upper: [S] float64, the interval.
        standard_error: [S] float64, the standard deviation of the samples.
        num_undefined: [S] int64, resamples in which a number is undefined; they are left out.
        level, method, num_resamples, seed: as they were asked for.
        samples: [W, S] float64, the numbers of every resample; not in ``to_dict``.
    """

    name: tuple[str, ...]
    estimate: Tensor
    lower: Tensor
    upper: Tensor
    standard_error: Tensor
    num_undefined: Tensor
    level: float
    method: str
    num_resamples: int
    seed: int
    samples: Tensor = field(repr=False)

    def __getitem__(self, name: str) -> Interval:
        row = _index(name, self.name)
        columns = (self.estimate, self.lower, self.upper, self.standard_error)
        return Interval(*(float(column[row]) for column in columns))

    def columns(self) -> dict[str, Sequence[Any] | Tensor]:
        """The columns that have a row for each name."""
        return {name: column for name, column in super().columns().items() if name != "samples"}

    def to_dict(self) -> dict[str, Any]:
        """All fields but the samples, as plain values."""
        return {name: value for name, value in super().to_dict().items() if name != "samples"}


@dataclass(frozen=True, eq=False, kw_only=True)
class PairedBootstrap(Table):
    """The differences of two methods on the same images: first minus second.

    Attributes:
        name: S names.
        first, second: [S] float64, the numbers of each method.
        difference: [S] float64, first minus second.
        lower, upper: [S] float64, the interval of the difference.
        p_value: [S] float64, two-sided: how often resamples have a difference of the other sign.
        level, method, num_resamples, seed: as they were asked for.
    """

    name: tuple[str, ...]
    first: Tensor
    second: Tensor
    difference: Tensor
    lower: Tensor
    upper: Tensor
    p_value: Tensor
    level: float
    method: str
    num_resamples: int
    seed: int

    def p_value_of(self, name: str) -> float:
        """The p-value of a number by its name."""
        return float(self.p_value[_index(name, self.name)])


@dataclass(frozen=True, eq=False, kw_only=True)
class RankIntervals(Table):
    """The ranks of several methods on the same images; 1 is the best.

    Attributes:
        method: M names.
        estimate: [M] float64, the number of each method.
        rank: [M] float64, of the images as they are; equal numbers share their mean rank.
        lower, upper: [M] float64, quantiles of the ranks in the resamples.
        best_share: [M] float64, the share of resamples in which no method is better.
        number: which number was ranked.
        level, num_resamples, seed: as they were asked for.
    """

    method: tuple[str, ...]
    estimate: Tensor
    rank: Tensor
    lower: Tensor
    upper: Tensor
    best_share: Tensor
    number: str
    level: float
    num_resamples: int
    seed: int


def bootstrap(
    source: Any,
    *,
    num_resamples: int = 1000,
    level: float = 0.95,
    method: str = "percentile",
    seed: int = 0,
) -> Bootstrap:
    """Confidence intervals of the numbers of a metric by resampling its images.

    Args:
        source: a metric or its records; or what :func:`image_statistics` makes of them, which has
            options; or :class:`ImageStatistics` of your own.
        num_resamples: W.
        level: coverage of the intervals, above 0 and below 1.
        method: ``"percentile"`` or ``"bca"`` (bias-corrected and accelerated).
        seed: of the resamples.

    Raises:
        InputError: if an argument is outside its range, or there are no images.

    Source: Everingham et al., "The PASCAL Visual Object Classes Challenge: A Retrospective", IJCV
        2015, section 3.5; Efron and Tibshirani, "An Introduction to the Bootstrap", 1993.
    """
    _check(num_resamples, level, method)
    statistics = image_statistics(source)
    estimate = _estimate(statistics)
    samples = _samples(statistics, num_resamples, seed)
    left_out = _left_out(statistics) if method == "bca" else None
    lower, upper = _intervals(samples, estimate, left_out, level)
    return Bootstrap(
        name=statistics.names,
        estimate=estimate,
        lower=lower,
        upper=upper,
        standard_error=_deviation(samples),
        num_undefined=samples.isnan().sum(dim=0),
        level=level,
        method=method,
        num_resamples=num_resamples,
        seed=seed,
        samples=samples,
    )


def paired_bootstrap(
    first: Any,
    second: Any,
    *,
    num_resamples: int = 1000,
    level: float = 0.95,
    method: str = "percentile",
    seed: int = 0,
) -> PairedBootstrap:
    """Whether one method is better than another on the same images.

    Both are computed on the same resamples, so that images that are hard for both do not count as
    doubt. The p-value is twice the smaller share of resamples in which the difference is at most,
    or at least, 0; the images as they are count as one resample more, so that it is never 0.

    Args:
        first, second: as for :func:`bootstrap`, of the same images under the same protocol.
        num_resamples, level, method, seed: as for :func:`bootstrap`.

    Raises:
        InputError: if an argument is outside its range, or the images or numbers differ.

    Source: Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 16; Davison and
        Hinkley, "Bootstrap Methods and their Application", 1997, equation 4.11.
    """
    _check(num_resamples, level, method)
    sides = _aligned({"first": first, "second": second})
    estimates = [_estimate(side) for side in sides]
    samples = _samples(sides[0], num_resamples, seed) - _samples(sides[1], num_resamples, seed)
    left_out = _left_out(sides[0]) - _left_out(sides[1]) if method == "bca" else None
    difference = estimates[0] - estimates[1]
    lower, upper = _intervals(samples, difference, left_out, level)
    defined = (~samples.isnan()).sum(dim=0)
    tails = [(samples <= 0).sum(dim=0), (samples >= 0).sum(dim=0)]
    smaller = torch.minimum(*tails)
    p_value = (2 * (1 + smaller) / (1 + defined).double()).clamp(max=1.0)
    return PairedBootstrap(
        name=sides[0].names,
        first=estimates[0],
        second=estimates[1],
        difference=difference,
        lower=lower,
        upper=upper,
        p_value=torch.where(difference.isnan(), torch.nan, p_value),
        level=level,
        method=method,
        num_resamples=num_resamples,
        seed=seed,
    )


def rank_intervals(
    methods: Mapping[str, Any],
    *,
    number: str | None = None,
    num_resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> RankIntervals:
    """How sure the order of several methods is: intervals of their ranks.

    Args:
        methods: by name, each as for :func:`bootstrap`, of the same images under one protocol.
        number: the name of the number that ranks them; None takes the headline.
        num_resamples, level, seed: as for :func:`bootstrap`.

    Raises:
        InputError: if there are fewer than two methods, or images or numbers differ.

    Source: Everingham et al., "The PASCAL Visual Object Classes Challenge: A Retrospective", IJCV
        2015, section 3.5 and figure 6.
    """
    _check(num_resamples, level, METHODS[0])
    if len(methods) < 2:
        raise InputError("at least two methods have ranks", where="methods", got=len(methods))
    sides = _aligned(methods)
    position = 0 if number is None else _index(number, sides[0].names)
    sign = -1.0 if sides[0].larger_is_better else 1.0
    estimate = torch.stack([_estimate(side)[position] for side in sides])
    drawn = [_samples(side, num_resamples, seed)[:, position] for side in sides]
    samples = torch.stack(drawn, dim=1)
    samples = samples[~samples.isnan().any(dim=1)]
    ranks = mean_ranks(sign * samples)
    ends = [percentile_interval(column, level) for column in ranks.t().numpy()]
    lower, upper = torch.tensor(ends, dtype=torch.float64, device="cpu").unbind(1)
    signed = sign * samples
    best = (signed == signed.amin(dim=1, keepdim=True)).double()
    return RankIntervals(
        method=tuple(methods),
        estimate=estimate,
        rank=mean_ranks(sign * estimate.unsqueeze(0))[0],
        lower=lower,
        upper=upper,
        best_share=best.mean(dim=0),
        number=sides[0].names[position],
        level=level,
        num_resamples=num_resamples,
        seed=seed,
    )


def _check(num_resamples: int, level: float, method: str) -> None:
    if num_resamples < 1:
        raise InputError("must be at least 1", where="num_resamples", got=num_resamples)
    if not 0 < level < 1:
        raise InputError("must be above 0 and below 1", where="level", got=level)
    if method not in METHODS:
        raise InputError(f"must be one of {', '.join(METHODS)}", where="method", got=repr(method))


def _aligned(methods: Mapping[str, Any]) -> list[ImageStatistics]:
    """The statistics of several methods, checked to be of the same images and numbers."""
    sides = [image_statistics(side) for side in methods.values()]
    for name, side in zip(methods, sides, strict=True):
        for what, mine, theirs in (
            ("images", side.num_images, sides[0].num_images),
            ("image ids", side.image_ids, sides[0].image_ids),
            ("numbers", side.names, sides[0].names),
        ):
            if mine != theirs:
                raise InputError(
                    f"has other {what} than {next(iter(methods))}",
                    where=name,
                    remedy="evaluate all methods on the same images, classes and protocol",
                )
    return sides


def _estimate(statistics: ImageStatistics) -> Tensor:
    """[S] float64: the numbers of the images as they are."""
    ones = torch.ones((1, statistics.num_images), dtype=torch.int32, device="cpu")
    return statistics.evaluate(ones)[0]


def _samples(statistics: ImageStatistics, num_resamples: int, seed: int) -> Tensor:
    """[W, S] float64: the numbers in every resample."""
    generator, images = resampling_generator(seed), statistics.num_images
    most = max(1, _BLOCK_ENTRIES // images)
    blocks = [min(most, num_resamples - first) for first in range(0, num_resamples, most)]
    weights = (bootstrap_weights(images, count, generator) for count in blocks)
    return torch.cat([statistics.evaluate(block) for block in weights])


def _left_out(statistics: ImageStatistics) -> Tensor:
    """[G, S] float64: the numbers without each group of images."""
    return statistics.evaluate(jackknife_weights(statistics.num_images, JACKKNIFE_GROUPS))


def _intervals(
    samples: Tensor, estimate: Tensor, left_out: Tensor | None, level: float
) -> tuple[Tensor, Tensor]:
    """Ends of the interval of each number, by BCa where there are jackknife values."""
    ends = []
    for position, value in enumerate(estimate.tolist()):
        column = samples[:, position].numpy()
        if left_out is None:
            ends.append(percentile_interval(column, level))
        else:
            ends.append(bca_interval(column, value, left_out[:, position].numpy(), level))
    lower, upper = torch.tensor(ends, dtype=torch.float64, device="cpu").reshape(-1, 2).unbind(1)
    return lower, upper


def _deviation(samples: Tensor) -> Tensor:
    """[S] float64: the standard deviation of the samples that are defined."""
    counts = (~samples.isnan()).sum(dim=0)
    centred = samples - samples.nanmean(dim=0)
    variance = (centred**2).nansum(dim=0) / (counts - 1)
    return torch.where(counts > 1, variance.sqrt(), torch.nan)


def _index(name: str, known: tuple[str, ...]) -> int:
    if name not in known:
        shown = ", ".join(known[:12])
        raise InputError(f"there is no number {name!r}", remedy=f"there are {shown}")
    return known.index(name)
