"""Miss rate against false positives per image on log axes, as pedestrian benchmarks draw it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ..errors import InputError
from .style import COLORS, Floats, array, axes_of, grid, line_style, percent, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..results import MissRateCurve, MissRateResult

LOWEST_FPPI, HIGHEST_FPPI = 1e-3, 1e1
"""Ends of the horizontal axis; references lie between 0.01 and 1."""
TICKS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.64, 0.8, 1.0)
"""Miss rates that the axis names, as the Caltech toolbox (dbEval) does."""


def plot_miss_rate_curve(
    curve: MissRateCurve, ax: Axes | None = None, *, label: str = "", color: str = COLORS[0]
) -> Axes:
    """A curve from the lowest rate on.

    Args:
        curve: of a subset.
        ax: axes to draw on; None makes a new figure.
        label: in the legend.
        color: of the line.
    """
    ax = axes_of(ax)
    x, y = _points(curve)
    ax.plot(x, y, color=color, linewidth=1.8, drawstyle="steps-post", label=shorten(label) or None)
    _log_axes(ax)
    if label:
        ax.legend(loc="lower left", fontsize="small")
    return ax


def plot_miss_rate(
    result: MissRateResult, ax: Axes | None = None, *, subset: str | None = None
) -> Axes:
    """The curve of a subset with the points that the log-average miss rate reads.

    Args:
        result: of a miss rate protocol.
        ax: axes to draw on; None makes a new figure.
        subset: None is the first.

    Raises:
        InputError: if the protocol has no such subset.
    """
    s = _subset(result, subset)
    label = f"{percent(float(result.log_average_miss_rate[s]))} {result.subset_names[s]}"
    ax = plot_miss_rate_curve(result.curves[s], ax, label=label)
    references = array(result.protocol.fppi_of(result.protocol.subsets[s]))
    ax.plot(references, array(result.miss_rate[s]), "o", color=COLORS[0], markersize=5)
    _log_axes(ax)
    return ax


def compare_miss_rates(
    results: Mapping[str, MissRateResult], ax: Axes | None = None, *, subset: str | None = None
) -> Axes:
    """Several detectors on one subset; the legend goes from the highest rate to the lowest.

    Args:
        results: by the name of the detector.
        ax: axes to draw on; None makes a new figure.
        subset: None is the first.

    Raises:
        InputError: if there is no result, or a protocol has no such subset.

    Source: Dollar, Wojek, Schiele and Perona, "Pedestrian Detection: An Evaluation of the State of
    the Art", PAMI 2012, figures 8 to 13: rates in percent before the names.
    """
    if not results:
        raise InputError("at least one result is needed", where="results")
    ax = axes_of(ax)
    rates = {}
    for name, result in results.items():
        rates[name] = float(result.log_average_miss_rate[_subset(result, subset)])
    order = sorted(results, key=lambda name: -np.nan_to_num(rates[name], nan=2.0))
    for number, name in enumerate(order):
        x, y = _points(results[name].curves[_subset(results[name], subset)])
        label = f"{percent(rates[name])} {shorten(name)}"
        style = {"linewidth": 1.8, "drawstyle": "steps-post", **line_style(number)}
        ax.plot(x, y, label=label, **style)
    _log_axes(ax)
    ax.legend(loc="lower left", fontsize="small")
    return ax


def _points(curve: MissRateCurve) -> tuple[Floats, Floats]:
    """The curve on the axes: all found above the highest rate of false positives stays there."""
    x, y = array(curve.fppi), array(curve.miss_rate)
    known = ~np.isnan(y)
    x, y = x[known], y[known]
    if not x.size:
        return np.array([LOWEST_FPPI, HIGHEST_FPPI]), np.ones(2)
    return np.append(np.maximum(x, LOWEST_FPPI), max(HIGHEST_FPPI, x[-1])), np.append(y, y[-1])


def _log_axes(ax: Axes) -> None:
    rates = np.concatenate([np.asarray(line.get_ydata(), dtype=float) for line in ax.get_lines()])
    rates = rates[rates > 0]
    lowest = min(TICKS[0], float(rates.min()) * 0.8) if rates.size else TICKS[0]
    ax.set(xscale="log", yscale="log", xlim=(LOWEST_FPPI, HIGHEST_FPPI), ylim=(lowest, 1.05))
    ticks = [tick for tick in (0.001, 0.002, 0.005, 0.01, 0.02, *TICKS) if tick >= lowest]
    ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.set_yticks([], minor=True)
    ax.set(xlabel="false positives per image", ylabel="miss rate")
    grid(ax)


def _subset(result: MissRateResult, subset: str | None) -> int:
    names = result.subset_names
    if subset is not None and subset not in names:
        raise InputError(f"there is no subset {subset!r}", remedy=f"there are {', '.join(names)}")
    return 0 if subset is None else names.index(subset)
