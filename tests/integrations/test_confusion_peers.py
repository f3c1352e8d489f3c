"""Confusion matrices against those of Ultralytics and supervision, on random images.

Coordinates are drawn from the reals, so that no overlap is equal to a threshold or another overlap.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torchvision.ops import box_iou

from torch_vocmetrics import DetectionAP, load_protocol
from torch_vocmetrics.analysis import class_agnostic_confusion, confusion_matrix

NAMES = ["cat", "dog", "bird"]
COCO = load_protocol("detection/coco2017")
LABELED = dataclasses.replace(COCO, iou_thresholds=[0.5], max_detections=[1000])
ANY_CLASS = dataclasses.replace(
    LABELED, name="any_class", class_agnostic=True, iou_thresholds=[0.45], comparison=">"
)


def random_image(
    rng: np.random.Generator, *, sparse: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Objects, which do not meet if ``sparse``, and detections around them or anywhere."""
    count = int(rng.integers(0, 8))
    if sparse:
        corner = np.stack([np.arange(count) * 200.0, rng.uniform(0, 50, count)], axis=1)
    else:
        corner = rng.uniform(0, 60, (count, 2))
    boxes = np.hstack([corner, corner + rng.uniform(30, 90, (count, 2))])
    labels = rng.integers(0, 3, count)
    size = int(rng.integers(0, 15))
    low = rng.uniform(0, 300, (size, 2))
    found = np.hstack([low, low + rng.uniform(30, 90, (size, 2))])
    if count:
        chosen = rng.integers(0, count, size)
        near = boxes[chosen] + rng.normal(0, 6, (size, 4))
        found = np.where(rng.random((size, 1)) < 0.8, near, found)
    return (
        {
            "boxes": torch.from_numpy(found).float(),
            "scores": torch.from_numpy(rng.random(size)).float(),
            "labels": torch.from_numpy(rng.integers(0, 3, size)),
        },
        {"boxes": torch.from_numpy(boxes).float(), "labels": torch.from_numpy(labels)},
    )


def compare_with_ultralytics() -> int:
    """How many confusions there were in a thousand images, all equal; runs in its own process."""
    from ultralytics.utils.metrics import ConfusionMatrix  # noqa: PLC0415 - changes torch

    rng, confused = np.random.default_rng(0), 0
    for _ in range(100):
        metric = DetectionAP([LABELED, ANY_CLASS], diagnostics=True, class_names=NAMES)
        peer = ConfusionMatrix(names=dict(enumerate(NAMES)))
        for found, there in (random_image(rng, sparse=False) for _ in range(10)):
            metric.update([found], [there])
            peer.process_batch(
                {"bboxes": found["boxes"], "conf": found["scores"], "cls": found["labels"]},
                {"bboxes": there["boxes"], "cls": there["labels"]},
                conf=0.25,
                iou_thres=0.45,
            )
        got = class_agnostic_confusion(
            metric.records("any_class"), metric.records("coco2017"), score=0.25
        )
        # There, rows are the predicted classes.
        np.testing.assert_array_equal(got.counts.T.numpy(), peer.matrix)
        confused += int(got.counts[:3, :3].sum() - got.counts[:3, :3].diagonal().sum())
    return confused


def test_class_agnostic_rule_is_that_of_ultralytics(tmp_path: Path) -> None:
    """In a process of its own: the package replaces functions of torch and sets variables."""
    try:
        importlib.metadata.version("ultralytics")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("ultralytics is not installed: it comes with the extra trainers")
    code = "from integrations.test_confusion_peers import *; print(compare_with_ultralytics())"
    here = Path(__file__).parents[1]
    search = os.pathsep.join([str(here), str(here.parent), os.environ.get("PYTHONPATH", "")])
    environment = {"YOLO_CONFIG_DIR": str(tmp_path), "YOLO_OFFLINE": "true", "PYTHONPATH": search}
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
        env=os.environ | environment,
    )
    assert run.returncode == 0, run.stderr
    assert int(run.stdout.split()[-1]) > 500


def test_same_class_first_is_the_rule_of_supervision_where_overlaps_rank_as_scores() -> None:
    """supervision pairs by falling overlap, this package as the protocol does, by falling score.

    With objects that do not meet a detection has at most one object to take, so that the order
    alone makes the difference; here each score is the largest overlap of the detection.
    """
    detection = pytest.importorskip(
        "supervision.metrics.detection", reason="pip install supervision"
    )
    rng, confused = np.random.default_rng(1), 0
    for _ in range(100):
        metric = DetectionAP(LABELED, diagnostics=True, class_names=NAMES)
        wanted = np.zeros((4, 4), dtype=np.int64)
        for found, there in (random_image(rng, sparse=True) for _ in range(10)):
            if found["boxes"].numel() and there["boxes"].numel():
                overlaps = box_iou(found["boxes"].double(), there["boxes"].double())
                found["scores"] = overlaps.max(dim=1).values.float()
            metric.update([found], [there])
            labels = found["labels"].unsqueeze(1)
            rows = torch.cat([found["boxes"], labels, found["scores"].unsqueeze(1)], dim=1)
            truth = torch.cat([there["boxes"], there["labels"].unsqueeze(1)], dim=1)
            wanted += detection.ConfusionMatrix.evaluate_detection_batch(
                rows.numpy(), truth.numpy(), 3, conf_threshold=0.25, iou_threshold=0.5
            )
        got = confusion_matrix(metric, score=0.25)
        np.testing.assert_array_equal(got.counts.numpy(), wanted)
        confused += int(got.counts[:3, :3].sum() - got.counts[:3, :3].diagonal().sum())
    assert confused > 300
