"""Results in TensorBoard (its own files are read back) and in Weights & Biases (a double)."""

from __future__ import annotations

import math
import sys
import types
import warnings
from pathlib import Path
from typing import Any

import pytest

from torch_vocmetrics import DetectionAP, InputError, analysis
from torch_vocmetrics.integrations.loggers import log_to_tensorboard, log_to_wandb

pytest.importorskip("matplotlib", reason="drawings need the extra plots")
BOX = [[10.0, 10.0, 50.0, 50.0]]


@pytest.fixture
def metric() -> Any:
    """A cat found; nothing is known of dogs."""
    metric: Any = DetectionAP("coco2017", class_names=["cat", "dog"], diagnostics=True)
    rows = {"boxes": BOX, "labels": [0]}
    return metric.update([rows | {"scores": [0.9]}], [rows | {"image_id": 1}])


def test_tensorboard(metric: Any, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="it writes and reads its own files")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its own libraries
        from tensorboard.backend.event_processing.event_accumulator import (  # noqa: PLC0415
            EventAccumulator,
        )
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415
    result = metric.compute()
    with SummaryWriter(str(tmp_path)) as writer:
        for epoch in (1, 2):
            log_to_tensorboard(writer, result, epoch, prefix="val/")
        log_to_tensorboard(writer, {"voc2007": result}, 3, figure=False)
        log_to_tensorboard(writer, analysis.score_curves(metric), 3, prefix="score/")
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    defined = {key for key, value in result.to_dict().items() if not math.isnan(value)}
    scalars = set(events.Tags()["scalars"])
    assert {f"val/{key}" for key in defined} <= scalars
    assert {f"voc2007/{key}" for key in defined} <= scalars
    assert "val/AP/dog" not in scalars, "what is undefined is left out"
    ap = events.Scalars("val/AP")
    assert [one.step for one in ap] == [1, 2]
    assert ap[0].value == pytest.approx(result["AP"])
    images = events.Tags()["images"]
    assert sorted(images) == ["score/ScoreCurves", "val/CocoDetectionResult"]
    (first, _) = events.Images("val/CocoDetectionResult")
    assert (first.width, first.height) == (600, 400)


class Run:
    """Stands for what ``wandb.init`` gives."""

    def __init__(self) -> None:
        self.calls: list[tuple[dict[str, Any], int | None]] = []

    def log(self, content: dict[str, Any], step: int | None = None) -> None:
        self.calls.append((content, step))


def test_wandb(metric: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    double = types.ModuleType("wandb")
    double.Image = lambda image: ("image", image)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "wandb", double)
    run, result = Run(), metric.compute()
    log_to_wandb(run, result, 5, prefix="val/")
    ((content, step),) = run.calls
    assert step == 5
    assert content["val/AP"] == result["AP"]
    assert "val/AP/dog" not in content
    kind, image = content["val/CocoDetectionResult"]
    assert kind == "image"
    assert image.size == (600, 400)
    log_to_wandb(run, result, figure=False)
    assert all(isinstance(value, float) for value in run.calls[1][0].values())


def test_wandb_offline(metric: Any, tmp_path: Path) -> None:
    wandb = pytest.importorskip("wandb", reason="the real library is optional")
    run = wandb.init(mode="offline", dir=str(tmp_path), project="p")
    log_to_wandb(run, metric.compute(), 1)
    run.finish()
    assert len(list(tmp_path.rglob("run-*.wandb"))) == 1
    assert len(list(tmp_path.rglob("CocoDetectionResult*.png"))) == 1


def test_without_wandb(metric: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(InputError, match="wandb is not installed; pip install wandb"):
        log_to_wandb(Run(), metric.compute())
    log_to_wandb(Run(), metric.compute(), figure=False)


def test_what_is_no_result() -> None:
    for other in (3, object()):
        with pytest.raises(InputError, match="has neither numbers nor a drawing"):
            log_to_wandb(Run(), other)
