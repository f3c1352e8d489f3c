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
    share = f"share of the {'true' if over == 'objects' else 'detected'} class"
    return draw_matrix(
        values, matrix.names, ax, rows="true class", columns="detected class", label=share
    )


def draw_matrix(
    values: Floats,
    names: Sequence[str],
    ax: Axes | None,
    *,
    rows: str,
    columns: str,
    row_names: Sequence[str] | None = None,
    label: str = "share of the true class",
) -> Axes:
    """A matrix of fractions; NaN is white.

    Args:
        values: [R, C].
        names: C names.
        ax: axes to draw on; None makes a new figure.
        rows, columns: what they are.
        row_names: R names; those of the columns by default.
        label: what the fractions are.
    """
    ax = axes_of(ax)
    drawn = ax.imshow(
        values, cmap="cividis", vmin=0, vmax=1, interpolation="nearest", aspect="auto"
    )
    if row_names is None:
        ax.set_aspect("equal")
    ax.figure.colorbar(drawn, ax=ax, shrink=0.9, label=label, format="{x:.0%}")
    ax.set(xlabel=columns, ylabel=rows)
    at, labels, size = _ticks(names)
    ax.set_xticks(at, labels, rotation=90, fontsize=size)
    at, labels, size = _ticks(names if row_names is None else row_names)
    ax.set_yticks(at, labels, fontsize=size)
    if max(values.shape) <= MOST_NUMBERS:
        for (row, column), value in np.ndenumerate(values):
            if value >= 0.005:
                color = "black" if value > 0.6 else "white"
                text = ax.text(column, row, f"{100 * value:.0f}", ha="center", va="center")
                text.set(fontsize=7, color=color)
    return ax


def _ticks(names: Sequence[str]) -> tuple[list[int], list[str], float]:
    """Which rows are named, their names, and the size of the letters."""
    count = len(names)
    at = list(range(0, count, -(-count // MOST_NAMES)))
    size = 9.0 if count <= MOST_NUMBERS else 6.0 if count <= 24 else 4.5
    return at, [shorten(names[k], 14) for k in at], size
