"""ROC curves of image classification."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .style import COLORS, GREY, array, axes_of, percent, shorten, unit_square

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..results import RocCurve


def plot_roc(
    curve: RocCurve, ax: Axes | None = None, *, label: str = "", color: str = COLORS[0]
) -> Axes:
    """The rates at each distinct score, and the diagonal of a random order.

    Args:
        curve: of a class.
        ax: axes to draw on; None makes a new figure.
        label: before the area in the legend.
        color: of the curve.
    """
    ax = axes_of(ax)
    x, y = array(curve.false_positive_rate), array(curve.true_positive_rate)
    known = ~(np.isnan(x) | np.isnan(y))
    text = f"{shorten(label)} area {percent(curve.area)}".strip()
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle=":")
    ax.plot(x[known], y[known], color=color, linewidth=2, label=text)
    unit_square(ax, "false positive rate", "true positive rate")
    ax.legend(loc="lower right", fontsize="small")
    return ax
