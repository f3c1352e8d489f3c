"""A user's loop passes mypy in strict mode, and types say what the values are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

LOOP = """
from collections.abc import Iterable
from typing import assert_type

import torch
from torch import Tensor

from torch_vocmetrics import (
    ClassificationAP,
    CocoDetectionResult,
    DetectionAP,
    DetectionProtocol,
    DetectionResult,
    LogAverageMissRate,
    MeanIoU,
    VocDetectionResult,
    load_dataset,
    load_protocol,
)
from torch_vocmetrics.results import ClassificationResult, MissRateResult, SegmentationResult

Batch = tuple[list[Tensor], list[dict[str, Tensor]]]


def validate(model: torch.nn.Module, loader: Iterable[Batch]) -> dict[str, float]:
    coco = load_dataset("coco2017")
    metric = DetectionAP("coco2017", class_names=coco.class_names, label_ids=coco.label_ids)
    for images, targets in loader:
        metric.update(model(images), targets)
    result = metric.compute()
    assert_type(result, CocoDetectionResult)
    assert_type(result.precision, Tensor)
    assert_type(result["AP"], float)
    assert_type(metric.compute(dst=0), CocoDetectionResult | None)
    assert_type(metric.compute(sync=False, dst=None), CocoDetectionResult)
    assert_type(metric.cpu().num_classes, int)
    metric.to("cuda").reset().merge(metric)
    return result.to_dict()


voc = DetectionAP("voc2007", class_names={0: "cat", 1: "dog"}).update([], []).compute()
assert_type(voc, VocDetectionResult)
assert_type(voc.curves[0][0].recall, Tensor)
rules = load_protocol("my_rules.toml", DetectionProtocol)
own = DetectionAP(rules, num_classes=2, box_format="xywh").compute()
assert_type(own, DetectionResult)
both = DetectionAP(["coco2017", "voc2007"], num_classes=2).compute()
assert_type(both, dict[str, DetectionResult])
masks = DetectionAP(["coco2017", "coco2017_segm"], num_classes=2).compute()
assert_type(masks, dict[str, CocoDetectionResult])
assert_type(MeanIoU("voc2012").compute(), SegmentationResult)
assert_type(ClassificationAP("voc2012", num_classes=2).compute(), ClassificationResult)
assert_type(LogAverageMissRate("kaist").compute(dst=0), MissRateResult | None)
for name, number in dict(voc).items():
    assert_type((name, number), tuple[str, float])
"""

WRONG = {
    "voc.precision": '"VocDetectionResult" has no attribute "precision"',
    'DetectionAP("voc2007", number_of_classes=2)': 'Unexpected keyword argument "number_of_cl',
    'MeanIoU("voc2012").compute(dst=0).iou': 'has no attribute "iou"',
}


def mypy(tmp_path: Path, text: str) -> subprocess.CompletedProcess[str]:
    pytest.importorskip("mypy", reason="types are checked by mypy")
    root = Path(__file__).parents[2]
    (tmp_path / "loop.py").write_text(text)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(root / ".mypy_cache")]
    command += ["--config-file", os.devnull, str(tmp_path / "loop.py")]
    environment = os.environ | {"MYPYPATH": str(root)}
    return subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment
    )


def test_a_loop_passes_strict_mypy_and_mistakes_are_found(tmp_path: Path) -> None:
    right = mypy(tmp_path, LOOP)
    assert right.returncode == 0, right.stdout
    wrong = mypy(tmp_path, LOOP + "\n".join(WRONG))
    assert all(sentence in wrong.stdout for sentence in WRONG.values()), wrong.stdout
