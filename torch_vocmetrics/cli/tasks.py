"""``vocmetrics evaluate`` for image classification, actions and person layout."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from torch_vocmetrics import ClassificationAP, LayoutAP

from .. import io
from ..errors import InputError
from ..protocols import ClassificationProtocol, LayoutProtocol, protocol_title
from ..results import ClassificationResult, LayoutResult
from .classes import find_listed_results, usual_classes
from .detection import evaluate_detection
from .merge import keep_state
from .miss_rate import evaluate_miss_rate
from .options import reader_options
from .report import aligned, defined, publish, shown, shown_if
from .segmentation import evaluate_segmentation


def evaluate_classification(
    args: argparse.Namespace, protocol: ClassificationProtocol, device: torch.device
) -> None:
    """Evaluate ``comp1_cls_<set>_{class}.txt`` or ``comp9_action_<set>_{class}.txt``."""
    actions = protocol.task == "action"
    usual = usual_classes(protocol)
    names = args.classes or usual
    lists = _folder(args) / "ImageSets" / ("Action" if actions else "Main")
    results = find_listed_results(args.detections, names, lists, args.image_set or "test", usual)
    file = io.read_voc_classification(
        _folder(args), args.image_set or "test", results, actions=actions, **reader_options(args)
    )
    metric = ClassificationAP(protocol, class_names=file.class_names, target_format="signed")
    # Shards go by ids; a set as a whole by its own order, as the kit does.
    ids = None if args.save_state is None else list(file.image_ids)
    result = metric.update(file.scores.to(device), file.targets.to(device), ids).compute()
    keep_state(args, metric)
    missing = [name for name in names if name not in results]
    publish(args, _classification_report(result, missing), _classification_table(result, missing))


def evaluate_layout(
    args: argparse.Namespace, protocol: LayoutProtocol, device: torch.device
) -> None:
    """Evaluate the results XML of person layout."""
    file = io.read_voc_layouts(
        _folder(args), args.image_set or "test", args.detections, protocol, **reader_options(args)
    )
    layouts = [{key: value.to(device) for key, value in one.items()} for one in file.layouts]
    metric = LayoutAP(protocol).update(layouts, file.persons)
    result = metric.compute()
    keep_state(args, metric)
    publish(args, _layout_report(result, file), _layout_table(result, file))


Evaluator = Callable[[argparse.Namespace, Any, torch.device], None]

EVALUATORS: dict[str, Evaluator] = {
    "detection": evaluate_detection,
    "classification": evaluate_classification,
    "action": evaluate_classification,
    "layout": evaluate_layout,
    "miss_rate": evaluate_miss_rate,
    "segmentation": evaluate_segmentation,
}


def _folder(args: argparse.Namespace) -> Path:
    folder: Path = args.ground_truth
    if not folder.is_dir():
        raise InputError("must be a folder with ImageSets", where=f"--ground-truth {folder}")
    return folder


def _classification_report(result: ClassificationResult, missing: list[str]) -> dict[str, Any]:
    columns = (
        ("average_precision", result.average_precision),
        ("plain_average_precision", result.plain_average_precision),
        ("chance_average_precision", result.chance_average_precision),
        ("roc_area", result.roc_area),
    )
    return {
        "protocol": protocol_title(result.protocol),
        "fingerprint": result.protocol.fingerprint,
        "num_images": result.num_images,
        "headline": defined(result.headline),
        "mean_average_precision": defined(result.mean_average_precision),
        "mean_roc_area": defined(result.mean_roc_area),
        "num_classes_averaged": result.num_classes_averaged,
        "not_entered": missing,
        "summary": {key: defined(value) for key, value in result.to_dict().items()},
        "classes": [
            {
                "class_name": name,
                "num_positives": int(result.num_positives[k]),
                "num_negatives": int(result.num_negatives[k]),
                **{key: defined(float(values[k])) for key, values in columns},
            }
            for k, name in enumerate(result.class_names)
        ],
    }


def _classification_table(result: ClassificationResult, missing: list[str]) -> str:
    rows: list[tuple[str, ...]] = [("class", "positives", "negatives", "AP", "ROC area")]
    for k, name in enumerate(result.class_names):
        counts = (str(int(result.num_positives[k])), str(int(result.num_negatives[k])))
        values = (result.average_precision[k], result.roc_area[k])
        averaged = result.is_averaged[k]
        rows.append((name, *counts, *(shown_if(averaged, value) for value in values)))
    rows += [(name, "", "", "not entered", "") for name in missing]
    means = (result.mean_average_precision, result.mean_roc_area)
    rows.append((f"mean over {result.num_classes_averaged} classes", "", "", *map(shown, means)))
    what = "pairs of image and object" if result.protocol.task == "action" else "images"
    title = f"{protocol_title(result.protocol)}: {result.num_images} {what}"
    return "\n".join([title, *aligned(rows)])


def _layout_report(result: LayoutResult, file: io.LayoutFile) -> dict[str, Any]:
    return {
        "protocol": protocol_title(result.protocol),
        "fingerprint": result.protocol.fingerprint,
        "num_images": result.num_images,
        "num_layouts": file.num_layouts,
        "num_unknown": file.num_unknown,
        "headline": defined(result.headline),
        "num_classes_averaged": result.num_classes_averaged,
        "summary": {key: defined(value) for key, value in result.to_dict().items()},
        "classes": [
            {
                "class_name": name,
                "num_positives": int(result.num_positives[k]),
                "true_positives": int(result.true_positives[k]),
                "false_positives": int(result.false_positives[k]),
                "average_precision": defined(float(result.average_precision[k])),
            }
            for k, name in enumerate(result.class_names)
        ],
    }


def _layout_table(result: LayoutResult, file: io.LayoutFile) -> str:
    rows: list[tuple[str, ...]] = [("what", "positives", "TP", "FP", "AP")]
    for k, name in enumerate(result.class_names):
        counts = (result.num_positives[k], result.true_positives[k], result.false_positives[k])
        average = shown_if(result.is_averaged[k], result.average_precision[k])
        rows.append((name, *(str(int(count)) for count in counts), average))
    if result.protocol.unit == "part":
        mean = f"mean over {result.num_classes_averaged} parts"
        rows.append((mean, "", "", "", shown(result.headline)))
    title = (
        f"{protocol_title(result.protocol)}: {result.num_images} images, {file.num_layouts} layouts"
    )
    return "\n".join([title, *aligned(rows)])
