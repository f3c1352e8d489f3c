"""Error kinds against TIDE's own program, on inputs where the two have the same rules.

The differences are named in the docstring of ``analysis/tide.py``. Inputs here have no crowds, no
equal scores, at most 100 detections an image, and objects of every class that is detected.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest
import torch
from helpers.support import Problem, shared_data
from unit.analysis.problems import recorded

from torch_vocmetrics import load_protocol
from torch_vocmetrics.analysis import error_kinds

tidecv = pytest.importorskip("tidecv", reason="tidecv is no dependency: pip install tidecv")

# tidecv reads recall at k / 100, pycocotools at numpy.linspace(0, 1, 101), which has other bits.
LEVELS = tuple(k / 100 for k in range(101))
COCO = dataclasses.replace(load_protocol("detection/coco2017"), recall_levels=LEVELS)
SHORT_NAMES = ("Cls", "Loc", "Both", "Dupe", "Bkg", "Miss")


def _problem(seed: int, num_classes: int = 4) -> Problem:
    """Boxes of float coordinates, so that no overlap is equal to a threshold or to another."""
    rng = np.random.default_rng(seed)
    found, there = [], []
    for image in range(int(rng.integers(5, 15))):
        count = int(rng.integers(1, 8))
        low = rng.uniform(0, 200, (count, 2))
        boxes = np.hstack([low, low + rng.uniform(20, 100, (count, 2))])
        labels = rng.integers(num_classes, size=count)
        if image == 0:  # every class is there
            labels[:] = np.arange(count) % num_classes
        chosen = rng.integers(count, size=int(rng.integers(1, 25)))
        near = boxes[chosen] + rng.normal(0, rng.choice([2, 10, 30]), (chosen.size, 4))
        near = np.hstack(
            [np.minimum(near[:, :2], near[:, 2:]), np.maximum(near[:, :2], near[:, 2:])]
        )
        near_labels = np.where(
            rng.random(chosen.size) < 0.7,
            labels[chosen],
            rng.integers(num_classes, size=chosen.size),
        )
        found.append(
            {
                "boxes": torch.from_numpy(near),
                "scores": torch.from_numpy(rng.random(chosen.size)),
                "labels": torch.from_numpy(near_labels),
            }
        )
        there.append(
            {
                "boxes": torch.from_numpy(boxes),
                "labels": torch.from_numpy(labels),
                "image_id": image,
            }
        )
    present = np.unique(np.concatenate([one["labels"] for one in there]))
    for one in found:
        one["labels"] = torch.from_numpy(present[one["labels"].numpy() % present.size])
    return Problem(found, there, {"num_classes": num_classes})


def _run_tide(problem: Problem) -> Any:
    truth, predictions = tidecv.Data("truth"), tidecv.Data("predictions")
    for image, (found, there) in enumerate(zip(*problem[:2], strict=True)):
        for box, label in zip(there["boxes"].tolist(), there["labels"].tolist(), strict=True):
            truth.add_ground_truth(image, label, _xywh(box))
        rows = zip(*(found[key].tolist() for key in ("boxes", "labels", "scores")), strict=True)
        for box, label, score in rows:
            predictions.add_detection(image, label, score, _xywh(box))
    tide = tidecv.TIDE()
    run = tide.evaluate(truth, predictions, mode=tidecv.TIDE.BOX)
    return tide, run


def _xywh(box: list[float]) -> list[float]:
    return [box[0], box[1], box[2] - box[0], box[3] - box[1]]


def check(problem: Problem) -> None:
    """Counts and costs of both are equal."""
    tide, run = _run_tide(problem)
    errors = error_kinds(recorded(COCO, problem))
    counts = {kind.short_name: len(found) for kind, found in run.error_dict.items()}
    assert errors.count.tolist() == [counts[name] for name in SHORT_NAMES]
    main = tide.get_main_errors()["predictions"]
    special = tide.get_special_errors()["predictions"]
    wanted = np.array([main[name] for name in SHORT_NAMES]) / 100
    np.testing.assert_allclose(errors.average_precision, run.ap / 100, atol=1e-12)
    np.testing.assert_allclose(errors.cost.clamp(min=0), wanted, atol=1e-12)
    np.testing.assert_allclose(errors.false_positive_cost, special["FalsePos"] / 100, atol=1e-12)
    np.testing.assert_allclose(errors.false_negative_cost, special["FalseNeg"] / 100, atol=1e-12)


def test_random_images() -> None:
    for seed in range(40):
        check(_problem(seed))


REAL = {
    "coco_val2017_tiny": ("coco_tiny80_gt.json", "coco_tiny80_fastestdet_dt.json"),
    "coco_val2017_tiny/mini": ("coco_mini79_gt.json", "coco_mini79_fastestdet_dt.json"),
    "coco_detectron2_instances": ("objects51_gt_a.json", "objects51_dt_a.json"),
    "coco_detectron2_instances/persons": ("pennfudan_gt.json", "pennfudan_dt.json"),
}


@pytest.mark.parametrize("name", list(REAL))
def test_real_detectors(name: str) -> None:
    folder = shared_data(name.partition("/")[0])
    truth, detections = (json.loads((folder / file).read_text()) for file in REAL[name])
    objects = [one for one in truth["annotations"] if not one.get("iscrowd")]
    present = {one["category_id"] for one in objects}
    rows = [one for one in detections if one["category_id"] in present]
    for number, one in enumerate(rows):
        one["score"] -= number * 1e-12  # no score is equal to another
    images = [image["id"] for image in truth["images"]]
    labels = {category: label for label, category in enumerate(sorted(present))}
    problem = Problem(
        [_columns([one for one in rows if one["image_id"] == i], labels) for i in images],
        [_columns([one for one in objects if one["image_id"] == i], labels) for i in images],
        {"num_classes": len(labels)},
    )
    for one in problem.ground_truths:
        one.pop("scores")
    check(problem)


def _columns(rows: list[dict[str, Any]], labels: dict[int, int]) -> dict[str, Any]:
    boxes = np.array([one["bbox"] for one in rows], dtype=np.float64).reshape(-1, 4)
    boxes[:, 2:] += boxes[:, :2]
    return {
        "boxes": torch.from_numpy(boxes),
        "scores": torch.tensor([one.get("score", 0.0) for one in rows], dtype=torch.float64),
        "labels": torch.tensor([labels[one["category_id"]] for one in rows], dtype=torch.int64),
    }
