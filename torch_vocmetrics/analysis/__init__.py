"""Answers that are read from the match records of a metric, without matching again.

Every function takes a metric or its records (``metric.records()``), works in batches on the device
of the records, and returns a frozen object on the CPU with named fields, ``to_dict`` and
``to_pandas``. Each module answers one question; its docstrings name formulas and sources.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_MODULES = {
    "annotator_agreement": "annotators",
    "audit": "deviation_search",
    "audit_label_maps": "label_map_search",
    "bootstrap": "uncertainty",
    "calibration": "reliability",
    "class_agnostic_confusion": "confusion",
    "class_table": "class_numbers",
    "combine_classifiers": "combination",
    "confusion_matrix": "confusion",
    "cross_dataset_table": "cross_dataset",
    "dataset_statistics": "data_set",
    "error_kinds": "tide",
    "false_positives": "per_image",
    "friedman_test": "significance",
    "image_difficulty": "image_ranks",
    "image_outcomes": "input_rows",
    "image_scores": "per_image",
    "image_statistics": "weighted_numbers",
    "ImageStatistics": "weighted_numbers",
    "method_table": "method_tables",
    "missed_objects": "per_image",
    "nemenyi_critical_difference": "significance",
    "normalized_average_precision": "normalized",
    "optimal_lrp": "lrp",
    "paired_bootstrap": "uncertainty",
    "rank_correlation": "ranks",
    "rank_intervals": "uncertainty",
    "records_of": "source",
    "score_curves": "operating_point",
    "subset_table": "pedestrian_subsets",
    "subsets_by": "pedestrian_subsets",
    "supercategory_means": "supercategories",
    "sweep_area_ranges": "sweeps",
    "sweep_covered_share": "covered_share",
    "sweep_images": "sweeps",
    "sweep_iou": "sweeps",
    "sweep_objects": "sweeps",
    "sweep_smallest_size": "sweeps",
    "year_table": "method_tables",
}
"""The module of each public name; modules are imported when one of their names is first used."""

__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_MODULES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
