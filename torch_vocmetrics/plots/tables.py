"""Tables of classes, subsets and methods: a number as bars, others as points beside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .bars import draw_bars, ordered_rows
from .matrices import draw_matrix
from .style import BLACK, GREEN, ORANGE, SKY, VERMILION, array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKS = (("o", VERMILION), ("s", GREEN), ("^", BLACK), ("D", ORANGE))


def plot_class_numbers(table: Any, ax: Axes | None = None) -> Axes:
    """AP of each class, and at IoU 0.5 and 0.75 and average recall where they are defined.

    Args:
        table: of ``result.per_class()``, or
            :class:`~torch_vocmetrics.analysis.class_numbers.ClassTable`.
        ax: axes to draw on; None makes a new figure.
    """
    more = {
        "AP50": table.average_precision_50,
        "AP75": table.average_precision_75,
        "average recall": table.average_recall,
    }
    return _bars(table.class_name, "AP", table.average_precision, more, ax)


def plot_supercategories(table: Any, ax: Axes | None = None) -> Axes:
    """Means of AP of each group of classes, and at IoU 0.5 and 0.75.

    Args:
        table: :class:`~torch_vocmetrics.analysis.supercategories.SupercategoryMeans`.
        ax: axes to draw on; None makes a new figure.
    """
    more = {"AP50": table.average_precision_50, "AP75": table.average_precision_75}
    return _bars(table.supercategory, "AP", table.average_precision, more, ax)


def plot_normalized(table: Any, ax: Axes | None = None) -> Axes:
    """AP of each class as it is, as if all had equally many objects, and by chance.

    Args:
        table: :class:`~torch_vocmetrics.analysis.normalized.NormalizedAP`.
        ax: axes to draw on; None makes a new figure.
    """
    more = {"normalised": table.normalized, "chance": table.chance}
    return _bars(table.class_name, "AP", table.average_precision, more, ax)


def plot_combination(table: Any, ax: Axes | None = None) -> Axes:
    """AP of the best single method of each class, and of two ways to combine all.

    Args:
        table: :class:`~torch_vocmetrics.analysis.combination.CombinedClassifiers`.
        ax: axes to draw on; None makes a new figure.
    """
    more = {"mean of scores": table.mean, "learned": table.learned}
    return _bars(table.class_name, "best single method", table.best, more, ax)


def plot_subsets(table: Any, ax: Axes | None = None) -> Axes:
    """Log-average miss rate of each subset; lower is better.

    Args:
        table: :class:`~torch_vocmetrics.analysis.pedestrian_subsets.SubsetTable`.
        ax: axes to draw on; None makes a new figure.
    """
    ax = _bars(table.name, "log-average miss rate", table.log_average_miss_rate, {}, ax)
    ax.set_xlabel("log-average miss rate")
    return ax


def plot_operating_points(points: Any, ax: Axes | None = None) -> Axes:
    """F-beta of each group at its score, with precision and recall.

    Args:
        points: :class:`~torch_vocmetrics.analysis.operating_point.OperatingPoints`.
        ax: axes to draw on; None makes a new figure.
    """
    more = {"precision": points.precision, "recall": points.recall}
    return _bars(points.name, "F-beta", points.f_score, more, ax)


def plot_methods(table: Any, ax: Axes | None = None) -> Axes:
    """The number of every method and class as a heat map.

    Args:
        table: :class:`~torch_vocmetrics.analysis.method_tables.MethodTable`.
        ax: axes to draw on; None makes a new figure.
    """
    return draw_matrix(
        array(table.value),
        table.class_name,
        ax,
        rows="method",
        columns="class",
        row_names=table.method,
        label="average precision",
    )


def plot_cross_dataset(table: Any, ax: Axes | None = None) -> Axes:
    """Mean AP of every detector on every data set as a heat map.

    Args:
        table: :class:`~torch_vocmetrics.analysis.cross_dataset.CrossDatasetTable`.
        ax: axes to draw on; None makes a new figure.
    """
    return draw_matrix(
        array(table.mean),
        table.data_set,
        ax,
        rows="detector",
        columns="tested on",
        row_names=table.detector,
        label="mean average precision",
    )


def _bars(
    names: Sequence[str], what: str, values: Any, more: Mapping[str, Any], ax: Axes | None
) -> Axes:
    """Bars from the largest, and points of other numbers of the same rows."""
    numbers = array(values)
    rows = ordered_rows(numbers)
    ax = draw_bars(names, numbers, ax, rows=rows, label=what, color=SKY)
    for (label, others), (marker, color) in zip(more.items(), MARKS, strict=False):
        shown = array(others)[rows]
        if not np.isnan(shown).all():
            (points,) = ax.plot(shown, np.arange(len(rows)), marker, label=label)
            points.set(color=color, markersize=4)
    ax.set(xlim=(0, 1.02), xlabel="fraction")
    if more:
        ax.legend(fontsize="small", loc="lower right")
    return ax
