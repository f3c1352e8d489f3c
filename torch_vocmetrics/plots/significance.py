"""Mean ranks of methods over classes, and which of them a test tells apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .style import BLACK, BLUE, GREY, VERMILION, array, axes_of, grid, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_critical_difference(test: Any, ax: Axes | None = None) -> Axes:
    """Methods on an axis of mean ranks, the best on the left; bars join those that do not differ.

    Args:
        test: :class:`~torch_vocmetrics.analysis.significance.FriedmanResult`.
        ax: axes to draw on; None makes a new figure.

    Source: Demsar, "Statistical Comparisons of Classifiers over Multiple Data Sets", JMLR 2006,
    figure 1.
    """
    ax = axes_of(ax)
    ranks, groups = array(test.mean_rank), test.groups
    order = np.argsort(ranks, kind="stable").tolist()
    low, high = 1.0, float(len(order))
    left = order[: (len(order) + 1) // 2]
    right = order[len(left) :]
    depth = len(groups) * 0.35 + 0.5
    for names, side in ((left, -1), (right[::-1], 1)):
        for row, k in enumerate(names):
            y = depth + row * 0.6
            end = low - 0.03 * (high - low) if side < 0 else high + 0.03 * (high - low)
            ax.plot([ranks[k], ranks[k], end], [0, y, y], color=GREY, linewidth=1)
            text = f"{shorten(test.method[k])} {ranks[k]:.2f}"
            ax.text(end, y, text, ha="right" if side < 0 else "left", va="center", fontsize="small")
    for row, group in enumerate(groups):
        ends = [ranks[test.method.index(name)] for name in (group[0], group[-1])]
        y, more = 0.35 * (row + 1), 0.01 * (high - low)
        ax.plot([ends[0] - more, ends[1] + more], [y, y], color=VERMILION, linewidth=4)
    ax.plot(ranks, np.zeros(len(ranks)), "o", color=BLUE, markersize=6, clip_on=False, zorder=5)
    ax.plot([low, low + test.critical_difference], [-0.8, -0.8], color=BLACK, linewidth=2)
    text = f"critical difference {test.critical_difference:.2f} (level {test.alpha:g})"
    ax.text(low, -0.95, text, va="bottom", fontsize="small")
    ax.set_ylim(depth + 0.6 * len(left), -1.6)
    wide = high - low
    ax.set_xlim(low - 0.35 * wide, high + 0.35 * wide)
    ax.set_yticks([])
    ax.set_xticks(np.arange(1, len(order) + 1, max(1, len(order) // 10)))
    ax.xaxis.set_ticks_position("top")
    ax.xaxis.set_label_position("top")
    ax.set_xlabel("mean rank over classes (1 is the best)")
    ax.spines[["left", "right", "bottom"]].set_visible(False)
    ax.axhline(0, color=BLACK, linewidth=1)
    return ax


def plot_rank_correlation(ranks: Any, ax: Axes | None = None) -> Axes:
    """Ranks of methods by two protocols, joined by lines; pairs that swap cross.

    Args:
        ranks: :class:`~torch_vocmetrics.analysis.ranks.RankCorrelation`.
        ax: axes to draw on; None makes a new figure.
    """
    ax = axes_of(ax)
    first, second = array(ranks.first_rank), array(ranks.second_rank)
    for name, a, b in zip(ranks.method, first, second, strict=True):
        color = GREY if a == b else BLUE if b < a else VERMILION
        ax.plot([0, 1], [a, b], "o-", color=color, markersize=5)
        for x, rank, align in ((-0.04, a, "right"), (1.04, b, "left")):
            ax.text(x, rank, shorten(name), ha=align, va="center", fontsize="small")
    ax.set(xlim=(-0.7, 1.7), ylim=(len(first) + 0.5, 0.5), ylabel="rank")
    ax.set_xticks([0, 1], ["first", "second"])
    text = f"Spearman {ranks.spearman:.3f}, Kendall {ranks.kendall:.3f}"
    ax.set_title(text, fontsize="medium")
    grid(ax)
    ax.grid(visible=False)
    return ax
