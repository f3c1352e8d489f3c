"""Look-alikes with outputs of a model on a device and targets on the host: the same bits."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import numpy as np
import pytest
import torch
from helpers.coco_scenes import scene
from helpers.host_backed_cuda import host_backed_cuda, moved
from helpers.mean_ap_batches import random_batches

from torch_vocmetrics.integrations.torchvision import CocoEvaluator

pytest.importorskip("torchmetrics", reason="the extra trainers is not installed")
from torch_vocmetrics.integrations.torchmetrics import MeanAveragePrecision


@pytest.mark.parametrize("iou_type", ["bbox", ("bbox", "segm")])
def test_mean_average_precision(iou_type: Any) -> None:
    settings = {"iou_type": iou_type, "box_format": "xyxy"}
    batches = random_batches(7, settings) + random_batches(8, settings)
    arguments = settings | {"class_metrics": True, "extended_summary": True}
    plain, metric = MeanAveragePrecision(**arguments), MeanAveragePrecision(**arguments)
    for one in batches:
        plain.update(*one)
    with host_backed_cuda():
        for predictions, targets in batches:
            metric.update(moved(predictions), targets)
        found = metric.compute()
    wanted = plain.compute()
    assert list(found) == list(wanted)
    for key, one in wanted.items():
        if not key.endswith("ious"):
            assert found[key].device.type == "cpu", key
            assert torch.equal(found[key], one), key


def test_coco_evaluator() -> None:
    truth, outputs = scene(4)
    stats = []
    for device in (False, True):
        evaluator = CocoEvaluator(truth, ["bbox", "segm"])
        with host_backed_cuda() if device else contextlib.nullcontext():
            for image_id, output in outputs.items():
                evaluator.update({image_id: moved(output) if device else output})
            evaluator.accumulate()
        with contextlib.redirect_stdout(io.StringIO()):
            evaluator.summarize()
        stats.append([judge.stats for judge in evaluator.coco_eval.values()])
    assert np.array_equal(stats[0], stats[1])
