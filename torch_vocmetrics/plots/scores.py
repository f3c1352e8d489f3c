"""What a score means: precision, recall and F-beta against it, reliability, and optimal LRP."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from .bars import draw_bars, ordered_rows
from .style import BLACK, BLUE, GREEN, GREY, ORANGE, VERMILION, array, axes_of, grid, unit_square

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_score_curves(curves: Any, ax: Axes | None = None, *, name: str | None = None) -> Axes:
    """Precision, recall and F-beta of one group, and the score of the largest F-beta.

    Args:
        curves: :class:`~torch_vocmetrics.analysis.operating_point.ScoreCurves`.
        ax: axes to draw on; None makes a new figure.
        name: a class; None pools all.

    Raises:
        InputError: if there is no such group.
    """
    ax = axes_of(ax)
    group = group_index(curves.names, name)
    part = slice(int(curves.starts[group]), int(curves.starts[group + 1]))
    score = array(curves.score[part])
    beta = f"F{curves.beta:g}"
    for label, values, color, dashes in (
        ("precision", curves.precision, BLUE, "--"),
        ("recall", curves.recall, ORANGE, "-."),
        (beta, curves.f_score, BLACK, "-"),
    ):
        ax.plot(score, array(values[part]), color=color, linestyle=dashes, label=label)
    best = curves.best()
    at, height = float(best.score[group]), float(best.f_score[group])
    if math.isfinite(at) and math.isfinite(height):
        label = f"best: {height:.3f} at {at:.3g}"
        ax.plot([at], [height], "o", color=VERMILION, markersize=7, label=label, zorder=5)
    ax.set(xlabel="score", ylabel="fraction", ylim=(-0.02, 1.04))
    ax.set_title(curves.names[group], fontsize="medium", parse_math=False)
    grid(ax)
    ax.legend(fontsize="small")
    return ax


def plot_calibration(table: Any, ax: Axes | None = None, *, name: str | None = None) -> Axes:
    """Precision of each bin of the score against its mean score; bars show how many fall in it.

    Args:
        table: :class:`~torch_vocmetrics.analysis.reliability.Calibration`.
        ax: axes to draw on; None makes a new figure.
        name: a class; None pools all.

    Raises:
        InputError: if there is no such group.
    """
    ax = axes_of(ax)
    group = group_index(table.names, name)
    edges, count = array(table.edges), array(table.count[group])
    shares = count / max(count.max(initial=0), 1)
    bars = ax.bar(edges[:-1], shares, np.diff(edges), align="edge", color=GREY, alpha=0.35)
    bars.set_label("detections (most: 1)")
    ax.plot([0, 1], [0, 1], color=BLACK, linewidth=1, linestyle=":", label="as the scores say")
    known = count > 0
    x, y = array(table.mean_score[group])[known], array(table.precision[group])[known]
    label = f"precision, D-ECE {float(table.expected_error[group]):.3f}"
    ax.plot(x, y, "o-", color=BLUE, markersize=5, label=label)
    unit_square(ax, "score", "precision")
    ax.set_title(table.names[group], fontsize="medium", parse_math=False)
    ax.legend(loc="upper left", fontsize="small")
    return ax


def plot_optimal_lrp(errors: Any, ax: Axes | None = None) -> Axes:
    """The optimal LRP error of each class, from the largest, and its three parts as points.

    Args:
        errors: :class:`~torch_vocmetrics.analysis.lrp.OptimalLRP`.
        ax: axes to draw on; None makes a new figure.
    """
    values = array(errors.value)
    rows = ordered_rows(values)
    ax = draw_bars(errors.name, values, ax, rows=rows, label="optimal LRP error", color=GREY)
    for part, color, marker in (
        ("localization", GREEN, "s"),
        ("false_positive", VERMILION, "o"),
        ("false_negative", BLUE, "^"),
    ):
        values = array(getattr(errors, part))[rows]
        label = part.replace("_", " ")
        ax.plot(values, np.arange(len(rows)), marker, color=color, markersize=4, label=label)
    ax.set(xlim=(0, 1.02), xlabel="error")
    ax.legend(fontsize="small")
    return ax


def group_index(names: tuple[str, ...], name: str | None) -> int:
    """The index of a group, the last without a name.

    Raises:
        InputError: if there is no such group.
    """
    if name is None:
        return len(names) - 1
    if name not in names:
        raise InputError(f"there is no group {name!r}", remedy=f"there are {', '.join(names[:20])}")
    return names.index(name)
