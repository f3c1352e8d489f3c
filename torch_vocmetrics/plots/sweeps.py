"""A number against something that varies: thresholds, sizes, years, workers; and distributions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from .style import BLACK, BLUE, GREY, ORANGE, VERMILION, array, axes_of, grid, percent, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .style import Floats


def plot_sweep(
    sweep: Any,
    ax: Axes | None = None,
    *,
    lower: Sequence[float] | None = None,
    upper: Sequence[float] | None = None,
) -> Axes:
    """Mean AP at each value, and the middle half of the classes as a band.

    Args:
        sweep: :class:`~torch_vocmetrics.analysis.sweeps.Sweep`.
        ax: axes to draw on; None makes a new figure.
        lower, upper: ends of an interval of each mean, such as of a bootstrap; drawn as bars.

    Raises:
        InputError: if only one of the ends is given, or not one for each value.
    """
    ax = axes_of(ax)
    mean, by_class = array(sweep.mean), array(sweep.average_precision)
    numbers = all(isinstance(value, int | float) and np.isfinite(value) for value in sweep.value)
    x = np.array(sweep.value, dtype=float) if numbers else np.arange(len(sweep.value), dtype=float)
    if by_class.shape[1] > 1:
        known = ~np.isnan(by_class).all(axis=1)
        quartiles = np.nanpercentile(by_class[known], [25, 75], axis=1)
        band = ax.fill_between(x[known], quartiles[0], quartiles[1], color=BLUE, alpha=0.15)
        band.set(linewidth=0, label="middle half of the classes")
    ax.plot(x, mean, "o-", color=BLUE, linewidth=2, label="mean over classes")
    if lower is not None or upper is not None:
        _interval(ax, x, lower, upper)
    if not numbers:
        labels = [shorten(str(value), 12) for value in sweep.value]
        ax.set_xticks(x, labels, rotation=30 if len(labels) > 6 else 0)
    ax.set(xlabel=sweep.property.replace("_", " "), ylabel="AP", ylim=(-0.02, 1.02))
    grid(ax)
    ax.legend(fontsize="small")
    return ax


def _interval(
    ax: Axes, x: Floats, lower: Sequence[float] | None, upper: Sequence[float] | None
) -> None:
    if lower is None or upper is None or not len(lower) == len(upper) == len(x):
        raise InputError(
            "both ends are needed, one for each value",
            where="lower, upper",
            got=f"{lower} and {upper}",
        )
    ax.vlines(x, array(lower), array(upper), color=BLACK, linewidth=1.5, label="interval")


def plot_years(table: Any, ax: Axes | None = None) -> Axes:
    """Mean AP of the best and of the median method of each year.

    Args:
        table: :class:`~torch_vocmetrics.analysis.method_tables.YearTable`.
        ax: axes to draw on; None makes a new figure.
    """
    ax = axes_of(ax)
    x = np.arange(len(table.year))
    ax.plot(x, array(table.mean_best), "o-", color=BLUE, linewidth=2, label="best method")
    ax.plot(x, array(table.mean_median), "s--", color=ORANGE, linewidth=2, label="median method")
    ax.set_xticks(x, [shorten(str(year), 12) for year in table.year])
    ax.set(ylabel="mean over classes")
    grid(ax)
    ax.legend(fontsize="small")
    return ax


def plot_annotators(agreement: Any, ax: Axes | None = None) -> Axes:
    """Precision and recall of the union of 1, 2, ... workers, and of each expert.

    Args:
        agreement: :class:`~torch_vocmetrics.analysis.annotators.AnnotatorAgreement`.
        ax: axes to draw on; None makes a new figure.

    Source: Lin et al., "Microsoft COCO: Common Objects in Context", ECCV 2014, figure 4.
    """
    ax = axes_of(ax)
    recall, precision = array(agreement.recall), array(agreement.precision)
    ax.plot(recall, precision, "o-", color=BLUE, label="union of k workers")
    for k, x, y in zip(agreement.num_workers.tolist(), recall, precision, strict=True):
        ax.annotate(str(k), (x, y), xytext=(5, 5), textcoords="offset points", fontsize="small")
    experts = array(agreement.expert_recall), array(agreement.expert_precision)
    ax.plot(*experts, "^", color=VERMILION, markersize=8, linestyle="", label="an expert")
    ax.set(xlabel="recall", ylabel="precision")
    ax.margins(0.1)
    grid(ax)
    ax.legend(fontsize="small")
    return ax


def plot_mask_quality(result: Any, ax: Axes | None = None) -> Axes:
    """Mask IoU against box IoU of detections whose box is right; dark where many lie.

    Args:
        result: of :class:`~torch_vocmetrics.metrics.mask_quality.MaskQuality`.
        ax: axes to draw on; None makes a new figure.

    Source: Lin et al., "Microsoft COCO: Common Objects in Context", ECCV 2014, figure 9.
    """
    ax = axes_of(ax)
    x, y = array(result.box_iou), array(result.mask_iou)
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle=":")
    alpha = float(np.clip(200 / max(len(x), 1), 0.05, 0.8))
    ax.plot(x, y, "o", color=BLUE, markersize=3, alpha=alpha, markeredgewidth=0)
    if len(x):
        mean = float(y.mean())
        ax.axhline(mean, color=VERMILION, linewidth=1, label=f"mean mask IoU {percent(mean)}")
        ax.legend(loc="lower right", fontsize="small")
    ax.set(xlabel="box IoU", ylabel="mask IoU", ylim=(-0.02, 1.02))
    ax.set_xlim(min(0.48, float(x.min()) - 0.02) if len(x) else 0.48, 1.02)
    grid(ax)
    return ax


def plot_image_scores(scores: Any, ax: Axes | None = None) -> Axes:
    """How many images have which F1.

    Args:
        scores: :class:`~torch_vocmetrics.analysis.per_image.ImageScores`.
        ax: axes to draw on; None makes a new figure.
    """
    ax = axes_of(ax)
    values = array(scores.f_score)
    values = values[~np.isnan(values)]
    ax.hist(values, bins=20, range=(0, 1), color=BLUE, edgecolor="white")
    if values.size:
        middle = float(np.median(values))
        ax.axvline(middle, color=VERMILION, linewidth=2, label=f"median {middle:.3f}")
        ax.legend(fontsize="small")
    ax.set(xlabel="F1 of the image", ylabel="images", xlim=(0, 1))
    ax.locator_params(axis="y", integer=True)
    grid(ax)
    return ax


def plot_data_set(statistics: Any, ax: Axes | None = None) -> Axes:
    """Share of the images by objects and by classes in them.

    Args:
        statistics: :class:`~torch_vocmetrics.analysis.data_set.DatasetStatistics`.
        ax: axes to draw on; None makes a new figure.

    Source: Lin et al., "Microsoft COCO: Common Objects in Context", ECCV 2014, figure 5.
    """
    ax = axes_of(ax)
    for name, values, color, dashes in (
        ("objects", statistics.objects_per_image, BLUE, "-"),
        ("classes", statistics.classes_per_image, VERMILION, "--"),
    ):
        counts = np.bincount(array(values).astype(int))
        shares = counts / max(counts.sum(), 1)
        label = f"{name}, mean {float(np.mean(array(values))):.1f}" if len(values) else name
        (line,) = ax.plot(np.arange(len(shares)), shares, marker="o", markersize=3, label=label)
        line.set(color=color, linestyle=dashes)
    ax.set(xlabel="number in an image", ylabel="share of the images")
    grid(ax)
    ax.legend(fontsize="small")
    return ax
