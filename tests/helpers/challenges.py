"""Inputs and evaluators of the VOC tasks beside detection: classification, action, layout."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from torch_vocmetrics import ClassificationAP, LayoutAP, reference
from torch_vocmetrics.protocols import load_protocol

PARTS = ("head", "hand", "foot")
GRIDS = {"": "", "t_exact_tenths": "_exact_tenths", "t_matlab_colon": "_matlab_colon"}


def years(task: str, keys: Sequence[str]) -> dict[str, str]:
    """Protocols of a task and the key of the official answer: that of the newest kit up to it.

    The layout code of 2008 answers for 2009 in the order of its file alone.
    """
    found = {}
    for year in range(2007, 2013):
        older = [key for key in keys if int(key) <= year]
        if older:
            by_file = "_file_order" if (task, year) == ("layout", 2009) else ""
            found[f"{task}/voc{year}{by_file}"] = max(older)
    return found


def with_grid(protocol: str, suffix: str) -> str | None:
    """The protocol on another grid of recall levels, where it has any levels."""
    rules = load_protocol(protocol)
    return protocol + suffix if rules.interpolation == "eleven_point" else None


# Classification -----------------------------------------------------------------------------------


def score_table(
    labels: Sequence[Sequence[Any]], results: Sequence[Sequence[Any]]
) -> tuple[list[list[float]], list[list[int]]]:
    """Scores and targets [B, 1] in image-set order; of several rows of an image the last counts."""
    scores = dict.fromkeys((image for image, _ in labels), -math.inf)
    for image, confidence in results:
        assert image in scores, "an unknown image"
        scores[image] = confidence
    return [[scores[image]] for image, _ in labels], [[target] for _, target in labels]


def classify_by_metric(
    protocol: Any, scores: Any, targets: Any, *, image_ids: Any = None, class_names: Any = None
) -> Any:
    """:func:`reference.evaluate_classification` by way of the metric, in one update."""
    scores, targets = torch.as_tensor(scores, dtype=torch.float64), torch.as_tensor(targets)
    kwargs = {"num_classes": scores.shape[1]} if class_names is None else {}
    metric = ClassificationAP(protocol, class_names=class_names, target_format="signed", **kwargs)
    return metric.update(scores, targets, image_ids=image_ids).compute()


Classifier = Callable[..., Any]
classifiers: dict[str, Classifier] = {
    "reference": reference.evaluate_classification,
    "metric": classify_by_metric,
}
each_classifier = pytest.mark.parametrize(
    "evaluate", list(classifiers.values()), ids=list(classifiers)
)


# Layout -------------------------------------------------------------------------------------------


def part_columns(owners: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
    """``part_boxes``, ``part_labels`` and ``part_counts`` of persons or layouts."""
    parts = [part for owner in owners for part in owner["parts"]]
    names = [part.get("class", part.get("cls")) for part in parts]
    return {
        "part_boxes": torch.tensor([p["bbox"] for p in parts], dtype=torch.float64).reshape(-1, 4),
        "part_labels": torch.tensor([PARTS.index(name) for name in names], dtype=torch.int64),
        "part_counts": torch.tensor([len(o["parts"]) for o in owners], dtype=torch.int64),
    }


def boxes_of(owners: Sequence[Mapping[str, Any]]) -> Tensor:
    return torch.tensor([one["bbox"] for one in owners], dtype=torch.float64).reshape(-1, 4)


def indices(values: Sequence[int]) -> Tensor:
    return torch.tensor(values, dtype=torch.int64)


def layout_fixture(case: dict[str, Any], year: int) -> tuple[list[Any], list[Any]]:
    """A case of voc_layout.json: all persons in 2007, those of the object set later."""
    listed = [tuple(entry) for entry in case["object_set"]]
    image_ids = [image["id"] for image in case["images"]]
    image_ids += sorted({one["image"] for one in case["layouts"]} - set(image_ids))
    objects = {image["id"]: image["objects"] for image in case["images"]}
    layouts, persons = [], []
    for image_id in image_ids:
        mine = [
            (place, one) for place, one in enumerate(case["layouts"]) if one["image"] == image_id
        ]
        estimates = [one for _, one in mine]
        here = list(enumerate(objects.get(image_id, []), 1))
        if year == 2007:
            there = [(k, one) for k, one in here if one["class"] == "person"]
        else:
            there = [(k, one) for k, one in here if (image_id, k) in listed]
        people = [one for _, one in there]
        layout = part_columns(estimates) | {
            "scores": torch.tensor([one["confidence"] for one in estimates], dtype=torch.float64),
            "order": indices([place for place, _ in mine]),
        }
        person = part_columns(people) | {
            "difficult": torch.tensor([bool(one["difficult"]) for one in people]),
            "image_id": image_id,
        }
        if year == 2007:
            layout["boxes"], person["boxes"] = boxes_of(estimates), boxes_of(people)
        else:
            layout["object_index"] = indices([one["object"] for one in estimates])
            person["object_index"] = indices([k for k, _ in there])
        layouts.append(layout)
        persons.append(person)
    return layouts, persons


def layout_by_metric(protocol: Any, layouts: Any, persons: Any) -> Any:
    """:func:`reference.evaluate_layout` by way of the metric, in one update."""
    return LayoutAP(protocol).update(layouts, persons).compute()


layouters: dict[str, Callable[..., Any]] = {
    "reference": reference.evaluate_layout,
    "metric": layout_by_metric,
}
each_layouter = pytest.mark.parametrize("evaluate", list(layouters.values()), ids=list(layouters))


# Comparison ---------------------------------------------------------------------------------------


def unequal(one: Any, other: Any, path: str = "result") -> list[str]:
    """Where two results differ in any bit, curves included; NaN equals NaN."""
    if isinstance(one, Tensor):
        a, b = one, other
        if path.endswith(".scores"):  # of the type in which they came
            a, b = a.double(), b.double()
        equal = a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.is_floating_point())
        return [] if equal else [path]
    if dataclasses.is_dataclass(one):
        names = [field.name for field in dataclasses.fields(one)]
        return [
            found
            for name in names
            for found in unequal(getattr(one, name), getattr(other, name), f"{path}.{name}")
        ]
    if isinstance(one, tuple) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        return [found for i, (a, b) in pairs for found in unequal(a, b, f"{path}[{i}]")]
    if isinstance(one, float) and math.isnan(one) and math.isnan(other):
        return []
    return [] if one == other else [path]
