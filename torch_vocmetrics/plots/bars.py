"""Named numbers side by side: bars, points with intervals, error kinds, ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .style import BLACK, BLUE, GREY, VERMILION, Floats, array, axes_of, grid, percent, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_ROWS = 20
"""Of more names than this, the first and the last are shown."""


def ordered_rows(values: Floats) -> list[int]:
    """Indices of the defined values, the largest first; of many the first and last half."""
    order = [int(k) for k in np.argsort(-values, kind="stable") if not np.isnan(values[k])]
    half = MOST_ROWS // 2
    return order if len(order) <= MOST_ROWS else [*order[:half], *order[-half:]]


def name_rows(ax: Axes, names: Sequence[str], rows: Sequence[int], total: int) -> None:
    """Name the rows of a drawing from the top on; say how many are left out."""
    labels = [shorten(names[k]) for k in rows]
    ax.set_yticks(range(len(rows)), labels, fontsize="small" if len(rows) <= 12 else "x-small")
    ax.set_ylim(len(rows) - 0.4, -0.6)
    if total > len(rows):
        ax.set_title(f"the largest and smallest {len(rows) // 2} of {total}", fontsize="small")
    grid(ax)
    ax.grid(visible=False, axis="y")


def draw_bars(
    names: Sequence[str], values: Floats, ax: Axes | None, *, rows: Sequence[int], **style: Any
) -> Axes:
    """Horizontal bars of some rows.

    Args:
        names: K names.
        values: [K].
        ax: axes to draw on; None makes a new figure.
        rows: which of them, from the top on.
        style: of the bars.
    """
    ax = axes_of(ax)
    ax.barh(range(len(rows)), values[list(rows)], height=0.7, **style)
    name_rows(ax, names, rows, int((~np.isnan(values)).sum()))
    return ax


def plot_error_kinds(errors: Any, ax: Axes | None = None) -> Axes:
    """What each kind of error costs in AP; the counts stand behind the bars.

    Args:
        errors: :class:`~torch_vocmetrics.analysis.tide.ErrorKinds`.
        ax: axes to draw on; None makes a new figure.
    """
    names = [*errors.kind, "all false positives", "all missed"]
    extra = [errors.false_positive_cost, errors.false_negative_cost]
    values = np.concatenate([array(errors.cost), extra])
    counts = [*errors.count.tolist(), errors.false_positives, errors.false_negatives]
    colors = [*[BLUE] * len(errors.kind), GREY, GREY]
    ax = draw_bars(names, 100 * values, ax, rows=range(len(names)), color=colors)
    for row, (value, count) in enumerate(zip(values, counts, strict=True)):
        text = f" {100 * value:.1f}  ({count:,})"
        ax.text(max(100 * value, 0), row, text, va="center", fontsize="small")
    most = max(100 * float(np.nanmax(values)), 1.0)
    ax.set(xlabel="AP that mending gains, percent points (errors)", xlim=(None, 1.35 * most))
    ax.set_title(f"AP {percent(errors.average_precision)}", fontsize="medium")
    return ax


def plot_intervals(numbers: Any, ax: Axes | None = None) -> Axes:
    """Numbers and their confidence intervals, the largest first.

    Args:
        numbers: :class:`~torch_vocmetrics.analysis.uncertainty.Bootstrap`.
        ax: axes to draw on; None makes a new figure.
    """
    values = array(numbers.estimate)
    label = f"{100 * numbers.level:g}% interval over images"
    return draw_intervals(numbers.name, values, numbers, ax, xlabel=label)


def plot_differences(
    numbers: Any, ax: Axes | None = None, *, names: tuple[str, str] = ("first", "second")
) -> Axes:
    """Differences of two methods and their intervals; coloured where the interval leaves out 0.

    Args:
        numbers: :class:`~torch_vocmetrics.analysis.uncertainty.PairedBootstrap`.
        ax: axes to draw on; None makes a new figure.
        names: of the method that is first in ``numbers``, and of the second.
    """
    values = array(numbers.difference)
    what = f"{shorten(names[0])} minus {shorten(names[1])}"
    label = f"{what}, {100 * numbers.level:g}% interval over images"
    ax = draw_intervals(numbers.name, values, numbers, ax, xlabel=label)
    ax.axvline(0, color=BLACK, linewidth=1)
    return ax


def plot_ranks(ranks: Any, ax: Axes | None = None) -> Axes:
    """Ranks of methods and their intervals, the best on top.

    Args:
        ranks: :class:`~torch_vocmetrics.analysis.uncertainty.RankIntervals`.
        ax: axes to draw on; None makes a new figure.
    """
    ax = draw_intervals(ranks.method, array(ranks.rank), ranks, ax, xlabel="", smallest_first=True)
    ax.set_xlabel(f"rank by {shorten(ranks.number)}, {100 * ranks.level:g}% interval over images")
    return ax


def draw_intervals(
    names: Sequence[str],
    values: Floats,
    interval: Any,
    ax: Axes | None,
    *,
    xlabel: str,
    smallest_first: bool = False,
) -> Axes:
    """Points with bars from ``interval.lower`` to ``interval.upper``.

    Args:
        names: K names.
        values: [K].
        interval: with ``lower`` and ``upper`` [K].
        ax: axes to draw on; None makes a new figure.
        xlabel: what the numbers are.
        smallest_first: the smallest on top.
    """
    ax = axes_of(ax)
    rows = ordered_rows(-values if smallest_first else values)
    lower, upper = array(interval.lower)[rows], array(interval.upper)[rows]
    # Differences whose interval leaves out 0 stand out; other numbers are never below 0.
    clear = (upper < 0) | ((lower > 0) & (values.min(initial=0) < 0))
    for row, (k, low, high) in enumerate(zip(rows, lower, upper, strict=True)):
        color = VERMILION if clear[row] else BLUE
        ax.plot([low, high], [row, row], color=color, linewidth=2, solid_capstyle="butt")
        ax.plot([values[k]], [row], "o", color=color, markersize=5)
    name_rows(ax, names, rows, int((~np.isnan(values)).sum()))
    ax.set_xlabel(xlabel)
    return ax
