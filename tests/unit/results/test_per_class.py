"""``result.per_class()`` against the arrays of the plain loops and of pycocotools."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import torch
from helpers.generator import random_problem
from helpers.support import evaluate_by_metric

from torch_vocmetrics import load_protocol, reference
from torch_vocmetrics.results import ClassNumbers

COCO = load_protocol("detection/coco2017")
VOC = load_protocol("detection/voc2012")


def close(got: torch.Tensor, wanted: np.ndarray) -> None:
    np.testing.assert_allclose(got.numpy(), wanted, rtol=0, atol=1e-12)


def mean(values: np.ndarray, axis: int | tuple[int, ...]) -> np.ndarray:
    """A class and area is defined in all of its entries or in none."""
    return values.mean(axis=axis)


def test_numbers_of_coco_are_means_of_the_arrays() -> None:
    for seed in range(25):
        problem = random_problem(seed, COCO)
        result = reference.evaluate(COCO, *problem[:2], **problem.kwargs)
        precision, recall = result.precision.numpy()[..., -1], result.recall.numpy()[..., -1]
        for table in (
            result.per_class(),
            evaluate_by_metric(COCO, *problem[:2], **problem.kwargs).per_class(),
        ):
            assert table.class_name == result.class_names
            close(table.average_precision, mean(precision[..., 0], (0, 1)))
            close(table.average_precision_50, mean(precision[0, ..., 0], 0))
            close(table.average_precision_75, mean(precision[5, ..., 0], 0))
            close(table.average_recall, mean(recall[..., 0], 0))
            assert table.area_names == ("small", "medium", "large")
            close(table.average_precision_by_area, mean(precision[..., 1:], (0, 1)).T)
            close(table.average_recall_by_area, mean(recall[..., 1:], 0).T)
            assert torch.equal(table.num_positives_by_area, result.num_positives_by_area[1:])
            assert torch.equal(table.num_positives, result.num_positives)
            assert torch.equal(table.true_positives, result.true_positives[0])
            assert torch.equal(table.false_positives, result.false_positives[0])


def test_numbers_of_voc() -> None:
    rules = dataclasses.replace(VOC, iou_thresholds=(0.3, 0.5))
    for seed in range(25):
        problem = random_problem(seed, rules)
        result = reference.evaluate(rules, *problem[:2], **problem.kwargs)
        there = result.num_positives.numpy() > 0
        for table in (
            result.per_class(),
            evaluate_by_metric(rules, *problem[:2], **problem.kwargs).per_class(),
        ):
            at_50 = result.average_precision_by_threshold[1].numpy()
            close(table.average_precision_50, np.where(there, at_50, math.nan))
            assert table.average_precision_75.isnan().all()
            found = [
                [curve.recall[-1].item() if curve.recall.numel() else 0.0 for curve in row]
                for row in result.curves
            ]
            close(table.average_recall, np.where(there, np.mean(found, axis=0), math.nan))
            assert table.area_names == ()
            assert torch.equal(torch.tensor(there), ~table.average_precision.isnan())


def test_columns_have_the_area_in_their_names() -> None:
    problem = random_problem(3, COCO)
    table = reference.evaluate(COCO, *problem[:2], **problem.kwargs).per_class()
    assert isinstance(table, ClassNumbers)
    frame = table.to_pandas()
    assert "average_precision_small" in frame.columns
    assert frame.num_positives_large.tolist() == table.num_positives_by_area[2].tolist()
    assert len(frame) == len(table.class_name)
    assert table.to_dict()["area_names"] == ["small", "medium", "large"]
