"""The audit finds deviations that are planted by hand and evaluated by plain loops."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from torch_vocmetrics import InputError, load_protocol, reference
from torch_vocmetrics.analysis import audit
from torch_vocmetrics.analysis.audit_result import Reported

pytestmark = pytest.mark.slow

Side = list[dict[str, Any]]
NAMES = ["cat", "dog", "cow", "owl"]  # no image has an owl


def data(seed: int, images: int = 41) -> tuple[Side, Side]:
    """Images with crowded, difficult and small objects, boxes of two decimals, near IoU 0.5."""
    rng = np.random.default_rng(seed)
    predictions, targets = [], []
    for i in range(images):
        count = int(rng.integers(0, 6)) if i % 9 else 0
        start = rng.integers(0, 300, (count, 2)).astype(float)
        size = rng.choice([4.0, 10.0, 20.0, 40.0, 100.0], (count, 2))
        if count > 1:  # neighbours that overlap by more than half
            start[1], size[1] = start[0] + (1, 0), size[0]
        boxes = np.concatenate([start, start + size], 1)
        labels = rng.integers(0, 3, count)
        labels[1:2] = labels[:1]
        likes = rng.integers(0, max(count, 1), int(rng.integers(2, 16))) if count else []
        found, found_labels = [], []
        for like in likes:
            x1, y1, x2, y2 = boxes[like]
            part = rng.choice([0.5, 0.5, 0.55, 0.75, 0.8, 1.0])
            jitter = np.tile(rng.choice([0.0, 0.0, 0.37, 2.61], 2), 2)
            found.append(np.array([x1, y1, x1 + (x2 - x1) * part, y2]) + jitter)
            found_labels.append(labels[like] if rng.random() < 0.85 else rng.integers(0, 3))
        for _ in range(int(rng.integers(0, 5)) if i % 7 else 0):
            corner = rng.random(2) * 300
            found.append(np.concatenate([corner, corner + 3 + rng.random(2) * 80]))
            found_labels.append(rng.integers(0, 3))
        predictions.append({
            "boxes": torch.tensor(np.array(found).reshape(-1, 4)),
            "scores": torch.tensor(np.round(rng.random(len(found)), 4)),
            "labels": torch.tensor(np.array(found_labels, dtype=np.int64)),
        })  # fmt: skip
        targets.append({
            "boxes": torch.tensor(boxes),
            "labels": torch.tensor(labels),
            "difficult": torch.tensor(rng.random(count) < 0.2),
            "iscrowd": torch.tensor(rng.random(count) < 0.15),
            "image_size": (420, 400),
            "image_id": i,
        })  # fmt: skip
    return predictions, targets


def number(protocol: str, predictions: Side, targets: Side, **rules: Any) -> float:
    changed = dataclasses.replace(load_protocol(protocol), **rules)
    return reference.evaluate(changed, predictions, targets, class_names=NAMES).headline


def on_boxes(side: Side, change: Callable[[torch.Tensor], torch.Tensor]) -> Side:
    return [{**one, "boxes": change(one["boxes"])} for one in side]


def on_scores(side: Side, change: Callable[[np.ndarray], np.ndarray]) -> Side:
    return [{**one, "scores": torch.tensor(change(one["scores"].numpy()))} for one in side]


def without(side: Side, *keys: str) -> Side:
    return [{k: v for k, v in one.items() if k not in keys} for one in side]


def kept(side: Side, keep: Callable[[dict[str, Any]], torch.Tensor]) -> Side:
    row_keys = ("boxes", "scores", "labels", "difficult", "iscrowd")
    return [{k: v[keep(one)] if k in row_keys else v for k, v in one.items()} for one in side]


def mean_with_missing(protocol: str, predictions: Side, targets: Side) -> float:
    result = reference.evaluate(load_protocol(protocol), predictions, targets, class_names=NAMES)
    return sum(float(result.average_precision[k]) for k in range(3)) / 4


COCO, VOC07, VOC12 = "detection/coco2017", "detection/voc2007", "detection/voc2012"
LEVELS = np.linspace(0, 1, 101).tolist()
SCALE = torch.tensor([400.0, 420.0, 400.0, 420.0], dtype=torch.float64)
PLANTED: dict[str, tuple[str, Callable[[Side, Side], float]]] = {
    "greater": ("must exceed", lambda p, t: number(COCO, p, t, comparison=">")),
    "no + 1": ("without + 1", lambda p, t: number(VOC12, p, t, coordinates="continuous")),
    "with + 1": ("with + 1", lambda p, t: number(
        COCO, p, t, coordinates="inclusive_pixels", inverted_boxes="accept")),
    "second best": ("second best", lambda p, t: number(VOC07, p, t, candidates="all")),
    "best only": ("only the best", lambda p, t: number(COCO, p, t, candidates="best")),
    "float32": ("float32", lambda p, t: number(
        COCO, p, t, iou_thresholds=[float(np.float32(x)) for x in np.linspace(0.5, 0.95, 10)],
        recall_levels=[float(np.float32(x)) for x in LEVELS])),
    "11 points": ("detection/voc2007", lambda p, t: number(VOC07, p, t)),
    "101 points": ("101 recall", lambda p, t: number(
        VOC12, p, t, interpolation="recall_grid", recall_levels=LEVELS,
        precision_epsilon=float(np.spacing(1)))),
    "two decimals": ("rounded to 2 decimals", lambda p, t: number(
        VOC12, on_scores(p, lambda s: np.round(s, 2)), t)),
    "cut": ("boxes cut to whole pixels", lambda p, t: number(
        VOC07, on_boxes(p, torch.floor), on_boxes(t, torch.floor))),
    "whole pixels": ("boxes rounded to whole pixels", lambda p, t: number(
        COCO, on_boxes(p, torch.round), on_boxes(t, torch.round))),
    "normalised": ("divided by the image size", lambda p, t: number(
        COCO, on_boxes(p, lambda b: b / SCALE), on_boxes(t, lambda b: b / SCALE))),
    "shifted": ("moved by -1 pixel in x and y", lambda p, t: number(
        VOC07, on_boxes(p, lambda b: b - 1), t)),
    "difficult": ("difficult objects count", lambda p, t: number(
        VOC12, p, without(t, "difficult"))),
    "difficult left out": ("difficult objects left out", lambda p, t: number(
        VOC12, p, kept(t, lambda one: ~one["difficult"]))),
    "crowds": ("crowds count", lambda p, t: number(COCO, p, without(t, "iscrowd"))),
    "sampler": ("sampler of 4", lambda p, t: number(
        COCO, p + p[:3], without(t + t[:3], "image_id"))),
    "limit": ("at most 1 detections", lambda p, t: number(COCO, p, t, max_detections=[1])),
    "missing classes": ("count as 0", lambda p, t: mean_with_missing(VOC07, p, t)),
    "low scores": ("below 0.3 left out", lambda p, t: number(
        VOC12, kept(p, lambda one: one["scores"] >= 0.3), t)),
}  # fmt: skip
assert len(PLANTED) == 20


@pytest.mark.parametrize("case", PLANTED)
def test_a_planted_deviation_is_found(case: str) -> None:
    phrase, plant = PLANTED[case]
    predictions, targets = data(seed=len(case) + ord(case[0]))
    value = plant(predictions, targets)
    plain = {number(one, predictions, targets) for one in (COCO, VOC07, VOC12)}
    assert case == "11 points" or round(value, 5) not in {round(one, 5) for one in plain}
    found = audit(predictions, targets, f"{value:.6f}", class_names=NAMES, most_deviations=1)
    assert phrase in str(found.explanations[0]), str(found)
    assert found.explanations[0].digits == 6
    assert found.expected_by_chance < 0.1
    assert f"{value:.6f} is, to 6 decimals" in str(found)


def hidden(seed: int, predictions: Side) -> Side:
    """Detections that something else has changed: noise in the boxes."""
    rng = np.random.default_rng(seed)
    return on_boxes(
        predictions, lambda b: b + torch.tensor(np.tile(rng.normal(0, 1.5, (len(b), 2)), 2))
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_what_nothing_explains(seed: int) -> None:
    predictions, targets = data(seed, images=24)
    protocol = (VOC07, COCO)[seed % 2]
    value = number(protocol, hidden(seed, predictions), targets)
    found = audit(predictions, targets, f"{value:.8f}", class_names=NAMES, protocols=[protocol])
    assert found.explanations == ()
    assert str(found).startswith(f"none of these gives {value:.8f}\nnearest: ")
    assert any(len(one.deviations) == 2 for one in found.candidates)


@pytest.mark.slow
def test_a_pair_of_deviations_is_found() -> None:
    predictions, targets = data(77, images=24)
    rounded = on_scores(predictions, lambda scores: np.round(scores, 1))
    value = number(VOC12, rounded, without(targets, "difficult"), comparison=">=")
    alone = audit(predictions, targets, f"{value:.7f}", class_names=NAMES, most_deviations=1)
    assert alone.explanations == ()
    found = audit(
        predictions, targets, f"{100 * value:.5f}%", class_names=NAMES, protocols=["voc2012"]
    )
    names = {one for candidate in found.explanations for one in candidate.deviations}
    assert "scores rounded to 1 decimals" in names
    assert "difficult objects count" in names


def test_numbers_by_name_and_progress() -> None:
    predictions, targets = data(3, images=12)
    result = reference.evaluate(load_protocol(COCO), predictions, targets, class_names=NAMES)
    steps = []
    found = audit(
        predictions,
        targets,
        result.to_dict()["AP75"],
        class_names=NAMES,
        number="AP75",
        progress=lambda done, total: steps.append((done, total)),
    )
    assert [str(one) for one in found.explanations] == ["AP75 of detection/coco2017"]
    assert steps == [(1, 1)]
    table = found.to_pandas()
    assert list(table["number"]) == ["AP75"]
    assert found.to_dict()["explanations"][0]["protocol"] == "detection/coco2017"


@pytest.mark.parametrize(
    ("text", "value", "digits"),
    [("0.72", 0.72, 2), ("72.19", 0.7219, 4), ("72%", 0.72, 2), ("0.5%", 0.005, 3), (0.25, 0.25, 2),
     ("1", 1.0, 0), ("1.0", 1.0, 1), ("41", 0.41, 2)],
)  # fmt: skip
def test_numbers_as_they_are_read(text: str | float, value: float, digits: int) -> None:
    assert Reported.parse(text) == (value, digits)


def test_digits_that_agree() -> None:
    reported = Reported.parse("0.7219")
    assert reported.digits_of(0.72186) == 4
    assert reported.digits_of(0.72184) == 3
    assert reported.digits_of(0.7224) == 3
    assert reported.digits_of(0.7225) == 2
    assert reported.digits_of(0.5) == 0
    assert reported.digits_of(0.1) == -1
    assert Reported(0.1, 3).digits_of(0.9) == -1


def test_what_cannot_be_audited() -> None:
    predictions, targets = data(0, images=2)
    for text in ("cat", "-0.1", "101", math.nan):
        with pytest.raises(InputError, match="is no number from 0 to 100"):
            audit(predictions, targets, text, class_names=NAMES)
    with pytest.raises(InputError, match="most_deviations: must be 0, 1 or 2"):
        audit(predictions, targets, 0.5, class_names=NAMES, most_deviations=3)
    with pytest.raises(InputError, match="scores"):
        audit([{"boxes": [], "labels": []}] * 2, targets, 0.5, class_names=NAMES)
    with pytest.raises(InputError, match="number: no protocol gives this number, got 'AP75'"):
        audit(predictions, targets, 0.5, class_names=NAMES, number="AP75", protocols=["voc2007"])
    with pytest.raises(InputError, match="box_format: must be one of"):
        audit(predictions, targets, 0.5, class_names=NAMES, box_format="xyxyn")
