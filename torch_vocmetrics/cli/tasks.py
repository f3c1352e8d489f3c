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
from ..protocols import ClassificationProtocol, LayoutProtocol
from .classes import find_listed_results, usual_classes
from .detection import evaluate_detection
from .evaluation import Evaluation
from .miss_rate import evaluate_miss_rate
from .options import reader_options
from .segmentation import evaluate_segmentation


def evaluate_classification(
    args: argparse.Namespace, protocol: ClassificationProtocol, device: torch.device
) -> Evaluation:
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
    missing = [name for name in names if name not in results]
    return Evaluation(
        metric=metric,
        result=result,
        facts={"not_entered": missing},
        without_numbers=dict.fromkeys(missing, "not entered"),
    )


def evaluate_layout(
    args: argparse.Namespace, protocol: LayoutProtocol, device: torch.device
) -> Evaluation:
    """Evaluate the results XML of person layout."""
    file = io.read_voc_layouts(
        _folder(args), args.image_set or "test", args.detections, protocol, **reader_options(args)
    )
    layouts = [{key: value.to(device) for key, value in one.items()} for one in file.layouts]
    metric = LayoutAP(protocol).update(layouts, file.persons)
    facts = {"num_layouts": file.num_layouts, "num_unknown": file.num_unknown}
    return Evaluation(metric=metric, result=metric.compute(), facts=facts)


Evaluator = Callable[[argparse.Namespace, Any, torch.device], Evaluation]

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
