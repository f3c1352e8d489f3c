"""Confusion of classes as heat maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .style import Floats, array, axes_of, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..results import SegmentationResult

MOST_NUMBERS = 12
"""Of more rows than this, cells have no numbers."""
MOST_NAMES = 40
"""Of more rows than this, not every row has its name."""


def plot_pixels(result: SegmentationResult, ax: Axes | None = None) -> Axes:
    """Shares of the true pixels of each class by the predicted class.

    Args:
        result: of a segmentation protocol.
        ax: axes to draw on; None makes a new figure.
    """
    values = array(result.normalized_confusion_matrix)
    return draw_matrix(values, result.class_names, ax, rows="true class", columns="predicted class")


def plot_confusion(matrix: Any, ax: Axes | None = None, *, over: str = "objects") -> Axes:
    """Shares of each row, so that the diagonal is recall, or of each column.

    Args:
        matrix: :class:`~torch_vocmetrics.analysis.confusion.ConfusionMatrix`.
        ax: axes to draw on; None makes a new figure.
        over: "objects" or "detections", what the shares are of.

    Raises:
        InputError: for any other word.
    """
    values = array(matrix.normalized(over))
    share = "true class" if over == "objects" else "detected class"
    return draw_matrix(
        values, matrix.names, ax, rows="true class", columns="detected class", share=share
    )


def draw_matrix(
    values: Floats,
    names: Sequence[str],
    ax: Axes | None,
    *,
    rows: str,
    columns: str,
    share: str = "true class",
) -> Axes:
    """A square matrix of fractions; NaN is white.

    Args:
        values: [K, K].
        names: K names.
        ax: axes to draw on; None makes a new figure.
        rows, columns: what they are.
        share: what the fractions are of.
    """
    ax = axes_of(ax)
    size = len(names)
    drawn = ax.imshow(values, cmap="cividis", vmin=0, vmax=1, interpolation="nearest")
    ax.figure.colorbar(drawn, ax=ax, shrink=0.9, label=f"share of the {share}", format="{x:.0%}")
    at, small = (
        list(range(0, size, -(-size // MOST_NAMES))),
        9 if size <= MOST_NUMBERS else 6 if size <= 24 else 4.5,
    )
    labels = [shorten(names[k], 14) for k in at]
    ax.set_xticks(at, labels, rotation=90, fontsize=small)
    ax.set_yticks(at, labels, fontsize=small)
    ax.set(xlabel=columns, ylabel=rows)
    if size <= MOST_NUMBERS:
        for (row, column), value in np.ndenumerate(values):
            if value >= 0.005:
                color = "black" if value > 0.6 else "white"
                text = ax.text(column, row, f"{100 * value:.0f}", ha="center", va="center")
                text.set(fontsize=7, color=color)
    return ax
