"""Drawings of curves and results with matplotlib, which is imported when something is drawn.

Whatever has a drawing has the method ``plot(ax=None)``, which returns the axes. Colours are those
of Okabe and Ito, which colour-blind people tell apart, and lines differ in their dashes as well;
matrices have the colour map cividis.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PLOTTERS = {
    "AnnotatorAgreement": "sweeps.plot_annotators",
    "Bootstrap": "bars.plot_intervals",
    "Calibration": "scores.plot_calibration",
    "ClassNumbers": "tables.plot_class_numbers",
    "ClassTable": "tables.plot_class_numbers",
    "ClassificationResult": "precision_recall.plot_classes",
    "CocoDetectionResult": "precision_recall.plot_coco",
    "CombinedClassifiers": "tables.plot_combination",
    "ConfusionMatrix": "matrices.plot_confusion",
    "CrossDatasetTable": "tables.plot_cross_dataset",
    "DatasetStatistics": "sweeps.plot_data_set",
    "ErrorKinds": "bars.plot_error_kinds",
    "FriedmanResult": "significance.plot_critical_difference",
    "ImageScores": "sweeps.plot_image_scores",
    "LayoutResult": "precision_recall.plot_classes",
    "MaskQualityResult": "sweeps.plot_mask_quality",
    "MethodTable": "tables.plot_methods",
    "MissRateCurve": "miss_rate.plot_miss_rate_curve",
    "MissRateResult": "miss_rate.plot_miss_rate",
    "NormalizedAP": "tables.plot_normalized",
    "OperatingPoints": "tables.plot_operating_points",
    "OptimalLRP": "scores.plot_optimal_lrp",
    "PairedBootstrap": "bars.plot_differences",
    "PrecisionRecallCurve": "precision_recall.plot_curve",
    "RankCorrelation": "significance.plot_rank_correlation",
    "RankIntervals": "bars.plot_ranks",
    "RocCurve": "roc.plot_roc",
    "ScoreCurves": "scores.plot_score_curves",
    "SegmentationResult": "matrices.plot_pixels",
    "SubsetTable": "tables.plot_subsets",
    "SupercategoryMeans": "tables.plot_supercategories",
    "Sweep": "sweeps.plot_sweep",
    "VocDetectionResult": "precision_recall.plot_classes",
    "YearTable": "sweeps.plot_years",
}
"""The class of an object, or a base of it, and the module and function that draw it."""


def plot(result: Any, ax: Axes | None = None, **options: Any) -> Axes:
    """Draw an object that has a drawing; the same as its method ``plot``.

    Args:
        result: an object of one of the classes in :data:`PLOTTERS`.
        ax: axes to draw on; None makes a new figure of 6 x 4 inches.
        options: keyword arguments of the function that :data:`PLOTTERS` names for the class.

    Raises:
        InputError: if matplotlib is not installed, or there is no drawing of such an object.
    """
    name = _plotter(result)
    if name is None:
        raise InputError(
            "there is no drawing of such an object",
            got=type(result).__name__,
            remedy=f"there are drawings of {', '.join(PLOTTERS)}",
        )
    module, _, function = name.partition(".")
    draw = getattr(import_module(f".{module}", __name__), function)
    axes: Axes = draw(result, ax, **options)
    return axes


def has_drawing(result: Any) -> bool:
    """Whether :func:`plot` can draw an object."""
    return _plotter(result) is not None


def _plotter(result: Any) -> str | None:
    names = (PLOTTERS.get(kind.__name__) for kind in type(result).__mro__)
    return next((name for name in names if name is not None), None)
