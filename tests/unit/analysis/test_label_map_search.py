"""The audit of label maps finds deviations that are planted by plain loops."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from torch_vocmetrics import InputError
from torch_vocmetrics.analysis import audit_label_maps

K = 4
Maps = list[np.ndarray]


def maps(seed: int) -> tuple[Maps, Maps]:
    """Nine images with up to three of four classes; class 3 is never true nor predicted."""
    rng = np.random.default_rng(seed)
    targets, predictions = [], []
    for image in range(9):
        chosen = rng.permutation(3)[: int(rng.integers(1, 4))]
        target = rng.choice(chosen, (6, 7))
        noise = rng.choice(chosen if image % 3 else [0, 1, 2], (6, 7))
        prediction = np.where(rng.random((6, 7)) < 0.7, target, noise)
        targets.append(np.where(rng.random(target.shape) < 0.1, 255, target))
        predictions.append(prediction)
    return predictions, targets


def iou(predictions: Maps, targets: Maps, label: int) -> float:
    both = either = 0
    for prediction, target in zip(predictions, targets, strict=True):
        for p, t in zip(prediction.flat, target.flat, strict=True):
            if t != 255:
                both += p == label and t == label
                either += label in (p, t)
    return both / either if either else math.nan


def mean(values: list[float]) -> float:
    kept = [value for value in values if not math.isnan(value)]
    return sum(kept) / len(kept) if kept else math.nan


def per_image(predictions: Maps, targets: Maps) -> list[list[float]]:
    return [[iou([p], [t], k) for k in range(K)] for p, t in zip(predictions, targets, strict=True)]


def accuracy(predictions: Maps, targets: Maps) -> float:
    right = [int(((p == t) & (t != 255)).sum()) for p, t in zip(predictions, targets, strict=True)]
    return sum(right) / sum(int((t != 255).sum()) for t in targets)


PLANTED: dict[str, tuple[str, Callable[[Maps, Maps], float]]] = {
    "present": ("voc2012_present_classes", lambda p, t: mean([iou(p, t, k) for k in range(K)])),
    "zero": ("missing classes count as 0", lambda p, t: sum(iou(p, t, k) for k in range(3)) / 4),
    "images": ("mean over images of the IoU of their classes", lambda p, t: mean(
        [mean(row) for row in per_image(p, t)])),
    "truth": ("classes of their ground truth", lambda p, t: mean(
        [mean([v for k, v in enumerate(row) if (truth == k).any()])
         for row, truth in zip(per_image(p, t), t, strict=True)])),
    "images zero": ("all classes, absent ones 0", lambda p, t: mean(
        [sum(0 if math.isnan(v) else v for v in row) / K for row in per_image(p, t)])),
    "classes": ("for every class the mean over images", lambda p, t: mean(
        [mean([row[k] for row in per_image(p, t)]) for k in range(K)])),
    "background": ("background) left out", lambda p, t: mean([iou(p, t, k) for k in range(1, K)])),
    "pixels": ("share of pixels that are right", accuracy),
    "sampler": ("sampler of 2", lambda p, t: mean(
        [iou(p + p[:1], t + t[:1], k) for k in range(K)])),
    "void": ("void pixels count as the first class", lambda p, t: mean(
        [iou(p, [np.where(x == 255, 0, x) for x in t], k) for k in range(K)])),
    "pair": ("sampler of 4 processes and mean over images", lambda p, t: mean(
        [mean(row) for row in per_image(p + p[:3], t + t[:3])])),
}  # fmt: skip


@pytest.mark.parametrize("case", PLANTED)
def test_a_planted_deviation_is_found(case: str) -> None:
    phrase, plant = PLANTED[case]
    predictions, targets = maps(seed=len(case))
    value = plant(predictions, targets)
    found = audit_label_maps(
        [torch.tensor(one) for one in predictions],
        [torch.tensor(one) for one in targets],
        f"{value:.7f}",
        num_classes=K,
    )
    assert phrase in str(found.explanations[0]), str(found)
    assert found.explanations[0].value == pytest.approx(value, abs=1e-12)


def test_what_nothing_explains() -> None:
    predictions, targets = maps(1)
    found = audit_label_maps(predictions, targets, "0.1234567", num_classes=K)
    assert found.explanations == ()
    assert str(found).startswith("none of these gives 0.1234567")
    assert {len(one.deviations) for one in found.candidates} == {0, 1, 2}
    few = audit_label_maps(predictions, targets, "0.1234567", num_classes=K, most_deviations=0)
    assert {one.deviations for one in few.candidates} == {()}
    with pytest.raises(InputError, match="most_deviations: must be 0, 1 or 2"):
        audit_label_maps(predictions, targets, "0.1", num_classes=K, most_deviations=5)
