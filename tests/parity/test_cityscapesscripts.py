"""Live cityscapesscripts: class and category IoU, their means, and the whole confusion matrix."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from torch_vocmetrics import MeanIoU, load_dataset, reference

judge = pytest.importorskip("cityscapesscripts.evaluation.evalPixelLevelSemanticLabeling")
labels = pytest.importorskip("cityscapesscripts.helpers.labels")


def official(folder: Path, found: list[np.ndarray], true: list[np.ndarray]) -> dict[str, Any]:
    """What the scripts make of label images on disk."""
    paths: list[list[str]] = [[], []]
    for side, images in enumerate((found, true)):
        for number, image in enumerate(images):
            path = folder / f"{side}_{number}_labelIds.png"
            Image.fromarray(image).save(path)
            paths[side].append(str(path))
    args = judge.args
    args.evalInstLevelScore, args.JSONOutput, args.quiet = False, False, True
    result: dict[str, Any] = judge.evaluateImgLists(*paths, args)
    return result


def random_images(seed: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    rng = np.random.default_rng([seed, 31])
    ids = [label.id for label in labels.labels if label.id >= 0]
    pool = ids if rng.random() < 0.5 else rng.choice(ids, int(rng.integers(1, 6))).tolist()
    found, true = [], []
    for _ in range(int(rng.integers(1, 4))):
        size = tuple(rng.integers(1, 20, 2).tolist())
        truth = rng.choice(pool, size).astype(np.uint8)
        other = rng.choice(ids, size).astype(np.uint8)
        found.append(np.where(rng.random(size) < 0.6, truth, other).astype(np.uint8))
        true.append(truth)
    return found, true


@pytest.mark.parametrize("evaluate", ["metric", "reference"])
def test_scores_are_those_of_the_scripts(evaluate: str, tmp_path: Path) -> None:
    dataset = load_dataset("cityscapes")
    undefined = 0
    for seed in range(30):
        found, true = random_images(seed)
        wanted = official(tmp_path, found, true)
        if evaluate == "metric":
            result = MeanIoU("cityscapes").update(found, true).compute()
        else:
            result = reference.evaluate_segmentation("cityscapes", found, true)
        matrix = np.array(wanted["confMatrix"])[np.ix_(dataset.label_ids, dataset.label_ids)]
        assert np.array_equal(result.confusion_matrix.numpy(), matrix)
        rows = np.array(wanted["confMatrix"])[list(dataset.label_ids)].sum(1)
        assert np.array_equal(result.missed.numpy(), rows - matrix.sum(1))
        scores = dict(zip(result.class_names, result.iou.tolist(), strict=True))
        for name, value in scores.items():
            assert np.array_equal(value, wanted["classScores"][name], equal_nan=True), name
            undefined += math.isnan(value)
        categories = dict(zip(result.category_names, result.category_iou.tolist(), strict=True))
        for name, value in categories.items():
            assert np.array_equal(value, wanted["categoryScores"][name], equal_nan=True), name
        means = (result.mean_iou, result.mean_category_iou)
        official_means = (wanted["averageScoreClasses"], wanted["averageScoreCategories"])
        assert np.array_equal(means, official_means, equal_nan=True)
    assert undefined


def test_classes_are_those_of_the_scripts() -> None:
    dataset = load_dataset("cityscapes")
    evaluated = [label for label in labels.labels if not label.ignoreInEval]
    ignored = tuple(label.id for label in labels.labels if label.ignoreInEval and label.id >= 0)
    assert dataset.class_names == tuple(label.name for label in evaluated)
    assert dataset.label_ids == tuple(label.id for label in evaluated)
    assert dataset.category_names == tuple(label.category for label in evaluated)
    assert dataset.ignored_label_ids == ignored
    assert MeanIoU("cityscapes").protocol.void_labels == ignored
