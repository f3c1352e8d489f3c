"""What two states must have in common, and what arguments say of classes and ranks."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from distributed.registry import SUBJECTS

from torch_vocmetrics import (
    ClassificationAP,
    DetectionAP,
    InputError,
    LogAverageMissRate,
    MeanIoU,
    Metric,
    StateError,
    reference,
)
from torch_vocmetrics.metrics.classes import read_classes
from torch_vocmetrics.metrics.mask_quality import MaskQuality

BOX = torch.tensor([[10.0, 10.0, 50.0, 50.0]])


def detection(label: int) -> tuple[Any, Any]:
    rows = {"boxes": BOX, "labels": torch.tensor([label])}
    return [rows | {"scores": torch.tensor([0.9])}], [rows | {"image_id": label}]


def test_a_state_error_of_a_column_keeps_its_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    metric = DetectionAP("voc2007", num_classes=2).update(*detection(1))
    state = metric.state_dict()

    def fail(*_: object) -> None:
        raise StateError("the ids are of two kinds", remedy="use one")

    monkeypatch.setattr(DetectionAP, "_read", fail)
    with pytest.raises(StateError, match=r"^the ids are of two kinds; use one$"):
        metric.load_state_dict(state)


OTHER_LABELS: dict[str, tuple[Metric, Metric]] = {
    "detection": (
        DetectionAP("voc2007", num_classes=2).update(*detection(1)),
        DetectionAP("voc2007", label_ids=[1, 0]).update(*detection(0)),
    ),
    "pedestrians": (
        LogAverageMissRate("caltech2012").update(*detection(0)),
        LogAverageMissRate("caltech2012", label_id=7).update(*detection(7)),
    ),
    "segmentation": (
        MeanIoU("voc2012", num_classes=2).update([[[0, 1]]], [[[0, 1]]]),
        MeanIoU("voc2012", label_ids=[1, 0]).update([[[0, 1]]], [[[0, 1]]]),
    ),
}


@pytest.mark.parametrize("name", OTHER_LABELS)
def test_states_of_other_label_ids_are_refused(name: str, tmp_path: Path) -> None:
    metric, other = (copy.deepcopy(one) for one in OTHER_LABELS[name])
    other.save_state(tmp_path / "other")
    metric.save_state(tmp_path / "own")
    before = str(metric.compute().to_dict())
    for refused in (
        lambda: metric.merge(other),
        lambda: metric.load_state_dict(other.state_dict()),
        lambda: metric.load_state(tmp_path / "other"),
        lambda: Metric.from_states(tmp_path / "own", tmp_path / "other"),
    ):
        with pytest.raises(StateError, match=r"different label_ids: .* here, got \["):
            refused()
    assert str(metric.compute().to_dict()) == before


@pytest.mark.parametrize("name", OTHER_LABELS)
def test_label_ids_go_with_the_file(name: str, tmp_path: Path) -> None:
    _, metric = OTHER_LABELS[name]
    metric.save_state(tmp_path / "state")
    loaded = Metric.from_states(tmp_path / "state")
    assert loaded.label_ids == metric.label_ids
    assert loaded.merge(metric).class_names == metric.class_names


def test_default_label_ids_are_those_of_the_classes() -> None:
    named = DetectionAP("voc2007", class_names=["0", "1"], label_ids=[0, 1])
    assert DetectionAP("voc2007", num_classes=2).merge(named).label_ids == (0, 1)


WHOLE: list[Any] = [[3, 5], np.array([3, 5], np.uint8), torch.tensor([3, 5]), (np.int64(3), 5)]


@pytest.mark.parametrize("label_ids", WHOLE, ids=str)
def test_integers_of_any_kind_are_label_ids(label_ids: Any) -> None:
    ids = read_classes(None, None, label_ids).labels
    assert ids == (3, 5)
    assert {type(one) for one in ids} == {int}


FACTORIES: dict[str, Any] = {
    "detection": lambda ids: DetectionAP("voc2007", label_ids=ids),
    "segmentation": lambda ids: MeanIoU("voc2012", label_ids=ids),
    "pedestrians": lambda ids: LogAverageMissRate("caltech2012", label_id=ids[0]),
    "mask quality": lambda ids: MaskQuality(label_ids=ids),
    "reference": lambda ids: reference.evaluate("voc2007", [], [], label_ids=ids),
    "reference of label maps": lambda ids: reference.evaluate_segmentation(
        "voc2012", [], [], label_ids=ids
    ),
}


@pytest.mark.parametrize("label_ids", [[1.2, 1.7], ["1", "2"], [True, False], [None, 1]], ids=str)
@pytest.mark.parametrize("name", FACTORIES)
def test_label_ids_are_integers(name: str, label_ids: Any) -> None:
    if name.startswith("reference") and label_ids == [True, False]:
        return  # the reference takes what has a value as an integer
    with pytest.raises(InputError, match="label_ids: must be integers"):
        FACTORIES[name](label_ids)


def test_label_ids_fit_int64_and_are_distinct() -> None:
    with pytest.raises(InputError, match="64 bits"):
        read_classes(None, None, [2**63, 1])
    with pytest.raises(InputError, match="must be distinct"):
        read_classes(None, None, [4, 4])


@pytest.mark.parametrize("name", SUBJECTS)
def test_only_metrics_merge(name: str) -> None:
    metric = SUBJECTS[name].new()
    for other in (5, None, "state", metric.state_dict()):
        with pytest.raises(InputError, match="merge: must be metrics, got"):
            metric.merge(other)  # type: ignore[arg-type]
        if not isinstance(other, dict):
            with pytest.raises(StateError, match="load_state_dict: must be a state_dict, got"):
                metric.load_state_dict(other)  # type: ignore[arg-type]


@pytest.mark.parametrize("dst", [1, -1, 0.5, "0"])
def test_dst_is_a_rank_of_the_group(dst: Any) -> None:
    metric = ClassificationAP("voc2012", num_classes=1).update([[0.5]], [[1]])
    with pytest.raises(InputError, match="dst: must be a rank of the group, got"):
        metric.compute(dst=dst)
    assert metric.compute(dst=0).headline == 1.0


def test_a_state_of_another_schema_names_the_remedy() -> None:
    metric = ClassificationAP("voc2012", num_classes=1)
    with pytest.raises(StateError, match=r"another schema than \d+, got 1; .* or evaluate again"):
        metric.load_state_dict(metric.state_dict() | {"schema": 1})


@pytest.mark.parametrize("device", ["meta", "nonsense", None, 0.5, [], torch.device("meta")])
def test_a_state_moves_to_devices_that_keep_it(device: Any) -> None:
    metric = ClassificationAP("voc2012", num_classes=1).update([[0.5]], [[1]])
    with pytest.raises(InputError, match="to: must be a device"):
        metric.to(device)
    assert metric.to("cpu").compute().headline == 1.0


def test_a_state_names_a_metric_that_was_not_imported_yet(tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    MeanIoU("voc2012", num_classes=2).update([[[0, 1]]], [[[0, 1]]]).save_state(path)
    program = f"from torch_vocmetrics import Metric; print(Metric.from_states({str(path)!r}))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stdout.startswith("MeanIoU(segmentation/voc2012"), done.stderr
