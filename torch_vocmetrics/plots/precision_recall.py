"""Precision against recall: single curves, the classes of a result, the IoU thresholds of COCO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from .style import COLORS, GREY, Floats, array, axes_of, line_style, percent, shorten, unit_square

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..results import (
        ClassificationResult,
        CocoDetectionResult,
        LayoutResult,
        PrecisionRecallCurve,
        VocDetectionResult,
    )

MOST_COLORED = 7
"""Of more classes than this, the best and worst three have a colour and the others are grey."""


def envelope(precision: Floats) -> Floats:
    """[N] the largest precision from each point on, which interpolated averages are made of."""
    return np.fmax.accumulate(precision[::-1])[::-1]


def plot_curve(
    curve: PrecisionRecallCurve,
    ax: Axes | None = None,
    *,
    label: str = "",
    recall_levels: Sequence[float] = (),
    color: str = COLORS[0],
) -> Axes:
    """A curve as it is, thin; its envelope, bold; and the envelope at recall levels, as points.

    Args:
        curve: of a class.
        ax: axes to draw on; None makes a new figure.
        label: in the legend.
        recall_levels: where the average reads the envelope, such as the eleven of VOC2007.
        color: of everything.
    """
    ax = axes_of(ax)
    recall, precision = array(curve.recall), array(curve.precision)
    known = ~(np.isnan(recall) | np.isnan(precision))
    recall, precision = recall[known], precision[known]
    best = envelope(precision)
    ax.plot(recall, precision, color=color, linewidth=0.8, alpha=0.6)
    _draw_envelope(ax, recall, best, color=color, linewidth=2, label=shorten(label) or "envelope")
    if len(recall_levels):
        levels = array(recall_levels)
        at = np.searchsorted(recall, levels)
        read = np.append(best, 0.0)[at]
        ax.plot(levels, read, "o", color=color, markersize=4, label="read here", clip_on=False)
    unit_square(ax, "recall", "precision")
    ax.legend(loc="lower left", fontsize="small")
    return ax


def plot_classes(
    result: VocDetectionResult | ClassificationResult | LayoutResult,
    ax: Axes | None = None,
    *,
    class_name: str | None = None,
    iou_threshold: float | None = None,
) -> Axes:
    """The envelopes of all classes, or one class with its curve and what the average reads.

    Args:
        result: with curves of single detections.
        ax: axes to draw on; None makes a new figure.
        class_name: one class alone.
        iou_threshold: one of the protocol's, for detection; None is the first.

    Raises:
        InputError: if there is no such class or threshold.
    """
    curves: Sequence[PrecisionRecallCurve]
    curves = _at_threshold(result, iou_threshold)
    averages = _averages(result, iou_threshold)
    if class_name is not None:
        k = _index(class_name, result.class_names, "class")
        levels = getattr(result.protocol, "recall_levels", ())
        label = f"{class_name} {percent(averages[k])}"
        return plot_curve(curves[k], ax, label=label, recall_levels=levels)
    ax = axes_of(ax)
    order = [int(k) for k in np.argsort(-np.nan_to_num(averages, nan=-1.0), kind="stable")]
    order = [k for k in order if result.is_averaged[k]]
    colored = order if len(order) <= MOST_COLORED else [*order[:3], *order[-3:]]
    for k in order:
        if k not in colored:
            _draw_class(ax, curves[k], color=GREY, linewidth=0.6, alpha=0.7)
    for number, k in enumerate(colored):
        label = f"{shorten(result.class_names[k])} {percent(averages[k])}"
        _draw_class(ax, curves[k], label=label, linewidth=1.5, **line_style(number))
    unit_square(ax, "recall", "precision (envelope)")
    if colored:
        others = len(order) - len(colored)
        title = f"{others} others in grey" if others else None
        ax.legend(loc="lower left", fontsize="small", title=title, title_fontsize="small")
    return ax


def plot_coco(
    result: CocoDetectionResult,
    ax: Axes | None = None,
    *,
    class_name: str | None = None,
    area: str | None = None,
) -> Axes:
    """Interpolated precision at the recall levels, a line for each IoU threshold.

    Args:
        result: of a COCO protocol.
        ax: axes to draw on; None makes a new figure.
        class_name: one class; None is the mean over those with objects.
        area: of the protocol's area ranges; None is that of the headline.

    Raises:
        InputError: if there is no such class or area range.
    """
    ax = axes_of(ax)
    from matplotlib import colormaps  # noqa: PLC0415 - optional

    rules, names = result.protocol, [entry.name for entry in result.protocol.area_ranges]
    a = rules.headline_index if area is None else _index(area, names, "area range")
    values = array(result.precision)[:, :, :, a, -1]  # [T, R, K]
    if class_name is None:
        defined = ~np.isnan(values).all(axis=(0, 1))
        lines = values[:, :, defined].mean(axis=2) if defined.any() else values[:, :, 0]
    else:
        lines = values[:, :, _index(class_name, result.class_names, "class")]
    colors = colormaps["viridis"](np.linspace(0, 0.9, len(lines)))
    levels = array(rules.recall_levels)
    for threshold, line, color in zip(rules.iou_thresholds, lines, colors, strict=True):
        average = float(line.mean()) if line.size else np.nan
        label = f"IoU {threshold:.2f}: {percent(average)}"
        ax.plot(levels, line, color=color, linewidth=1.5, label=label)
    unit_square(ax, "recall", "precision")
    ax.set_title(shorten(class_name) if class_name else "mean over classes", fontsize="medium")
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize="small", frameon=False)
    return ax


def _draw_class(ax: Axes, curve: PrecisionRecallCurve, **style: Any) -> None:
    recall, precision = array(curve.recall), array(curve.precision)
    known = ~(np.isnan(recall) | np.isnan(precision))
    _draw_envelope(ax, recall[known], envelope(precision[known]), **style)


def _draw_envelope(ax: Axes, recall: Floats, best: Floats, **style: Any) -> None:
    """A step function that begins at recall 0 and falls to 0 behind the last recall."""
    if not recall.size:
        ax.plot([0, 1], [0, 0], **style)
        return
    x = np.concatenate(([0.0], recall, recall[-1:]))
    y = np.concatenate((best[:1], best, [0.0]))
    ax.plot(x, y, drawstyle="steps-pre", **style)


def _at_threshold(result: Any, iou_threshold: float | None) -> Sequence[Any]:
    if not isinstance(result.curves[0], tuple):
        if iou_threshold is not None:
            raise InputError("the result has no IoU thresholds", where="iou_threshold")
        curves: Sequence[Any] = result.curves
        return curves
    of_threshold: Sequence[Any] = result.curves[_threshold(result, iou_threshold)]
    return of_threshold


def _averages(result: Any, iou_threshold: float | None) -> Floats:
    by_threshold = getattr(result, "average_precision_by_threshold", None)
    if by_threshold is None:
        return array(result.average_precision)
    return array(by_threshold[_threshold(result, iou_threshold)])


def _threshold(result: Any, iou_threshold: float | None) -> int:
    known = result.protocol.iou_thresholds
    return 0 if iou_threshold is None else _index(iou_threshold, known, "IoU threshold")


def _index(wanted: object, known: Sequence[Any], what: str) -> int:
    if wanted not in known:
        names = ", ".join(map(str, list(known)[:20]))
        raise InputError(f"there is no {what} {wanted!r}", remedy=f"there are {names}")
    return list(known).index(wanted)
