"""Mask quality of right boxes, by hand and against plain loops."""

from __future__ import annotations

import math

import pytest
import torch
from helpers.mask_problems import mask_problem, of_form
from pycocotools import mask as api

from torch_vocmetrics import InputError, MaskQuality, StateError, VocMetricsWarning


def box_iou(a: list[float], b: list[float]) -> float:
    width = min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0])
    height = min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1])
    common = max(width, 0) * max(height, 0)
    return common / (a[2] * a[3] + b[2] * b[3] - common) if common else 0.0


def test_against_plain_loops() -> None:
    compared = 0
    for seed in range(40):
        problem = mask_problem(seed)
        labels = problem.kwargs["label_ids"]
        wanted = []
        for found, true in zip(*problem[:2], strict=True):
            for d, rle in enumerate(of_form(found["masks"])):
                pairs = [
                    (box_iou(found["boxes"][d].tolist(), true["boxes"][g].tolist()), -g)
                    for g in range(len(true["labels"]))
                    if true["labels"][g] == found["labels"][d]
                    and not ("iscrowd" in true and bool(true["iscrowd"][g]))
                ]
                if not pairs or max(pairs)[0] < 0.5:
                    continue
                iou, g = max(pairs)
                mask_iou = float(api.iou([rle], [of_form(true["masks"])[-g]], [0])[0, 0])
                wanted.append((labels.index(int(found["labels"][d])), iou, mask_iou))
        quality = MaskQuality(**problem.kwargs)
        half = len(problem.detections) // 2
        parts = [
            MaskQuality(**problem.kwargs).update(problem[0][s], problem[1][s])
            for s in (slice(0, half), slice(half, None))
        ]
        result = quality.merge(*parts).compute()
        got = list(
            zip(
                result.label.tolist(),
                result.box_iou.tolist(),
                result.mask_iou.tolist(),
                strict=True,
            )
        )
        # Records come by class, then score; overlaps are float32.
        assert len(got) == len(wanted), f"seed {seed}"
        for mine, other in zip(sorted(got), sorted(wanted), strict=True):
            assert mine == pytest.approx(other, abs=1e-7), f"seed {seed}"
        compared += len(got)
        for k in range(len(labels)):
            values = [entry[2] for entry in wanted if entry[0] == k]
            mean = float(result.mean_mask_iou[k])
            assert result.num_detections[k] == len(values)
            if values:
                assert math.isclose(mean, sum(values) / len(values), abs_tol=1e-7)
            else:
                assert math.isnan(mean)
    assert compared > 50


def test_nothing_and_other_classes() -> None:
    quality = MaskQuality(class_names=["a", "b"])
    with pytest.warns(VocMetricsWarning, match="before update"):
        result = quality.compute()
    assert math.isnan(result.to_dict()["mask_IoU"])
    assert result.num_detections.tolist() == [0, 0]
    for other in (
        MaskQuality(class_names=["a", "c"]),
        MaskQuality(class_names=["a", "b"], label_ids=[2, 1]),
        MaskQuality(class_names=["a", "b"], iou_threshold=0.6),
    ):
        with pytest.raises(StateError, match="merge: the states are of different"):
            quality.merge(other)
    with pytest.raises(InputError, match="must be metrics, got int"):
        quality.merge(5)  # type: ignore[arg-type]
    with pytest.raises(InputError):
        quality.update([{"boxes": torch.zeros(1, 4), "labels": [0], "scores": [1.0]}], [{}])
