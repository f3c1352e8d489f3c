"""Which batch decides on the device of the work: not one without predictions on the host."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers.fake_cuda import fake_cuda

from torch_vocmetrics import DetectionAP, LayoutAP, LogAverageMissRate, load_protocol, reference
from torch_vocmetrics.metrics import recorded

ROWS = {"boxes": torch.tensor([[10.0, 10, 50, 90]]), "labels": torch.tensor([0])}
EMPTY = {"boxes": torch.zeros(0, 4), "scores": torch.zeros(0), "labels": torch.zeros(0).long()}
FIRST: dict[str, tuple[Any, Any]] = {
    "no images": ([], []),
    "None": ([None], [None]),
    "None beside an object": ([None], [ROWS]),
    "empty tensors": ([EMPTY], [ROWS]),
    "empty lists": ([{"boxes": [], "scores": [], "labels": []}], [ROWS]),
    "packed": (EMPTY | {"counts": [0, 0]}, [None, ROWS]),
}


def on_cuda(rows: dict[str, Any]) -> dict[str, Any]:
    return {k: torch.empty(v.shape, dtype=v.dtype, device="cuda") for k, v in rows.items()}


@pytest.fixture(autouse=True)
def _no_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fake tensors have no values, on the host neither."""
    monkeypatch.setattr(recorded, "fault_on_host", lambda batch: None)


@pytest.mark.parametrize("name", FIRST)
@pytest.mark.parametrize("kind", ["detection", "miss rate"])
def test_a_first_batch_without_predictions_leaves_the_device_open(name: str, kind: str) -> None:
    with fake_cuda():
        metric: Any = (
            DetectionAP(["voc2007", "coco2017"], num_classes=1)
            if kind == "detection"
            else LogAverageMissRate("caltech2012")
        )
        metric.update(*_copied(FIRST[name]))
        assert metric._accumulated.device is None
        found = on_cuda(ROWS | {"scores": torch.zeros(1)})
        metric.update([found], [_copied((ROWS, 0))[0]])  # the guard refuses copies back to the host
        assert metric._accumulated.device.type == "cuda"
        for batch in metric._accumulated.pending:
            assert batch.detections.boxes.device.type == "cuda"
            assert batch.ground_truths.boxes.device.type == "cuda"
        metric.update(*_copied(FIRST[name]))
        assert metric._accumulated.device.type == "cuda"


def _copied(sides: tuple[Any, Any]) -> tuple[Any, Any]:
    """Tensors of the fake mode's own."""

    def copy(rows: Any) -> Any:
        if not isinstance(rows, dict):
            return rows
        return {
            key: torch.empty(v.shape, dtype=v.dtype) if isinstance(v, torch.Tensor) else v
            for key, v in rows.items()
        }

    found, true = (
        [copy(r) for r in side] if isinstance(side, list) else copy(side) for side in sides
    )
    return found, true


def test_targets_on_a_device_are_not_copied_back_for_an_image_without_predictions() -> None:
    with fake_cuda():
        metric = DetectionAP("coco2017", num_classes=1).update([None], [on_cuda(ROWS)])
        assert metric._accumulated.device == torch.device("cuda", 0)
        assert metric._accumulated.pending[0].ground_truths.boxes.device.type == "cuda"


def test_empty_predictions_on_a_device_decide() -> None:
    with fake_cuda():
        metric = DetectionAP("coco2017", num_classes=1).update(
            [on_cuda(EMPTY)], [_copied((ROWS, 0))[0]]
        )
        assert metric._accumulated.device == torch.device("cuda", 0)


def test_predictions_on_the_host_decide() -> None:
    found = ROWS | {"scores": torch.tensor([0.5])}
    metric = DetectionAP("coco2017", num_classes=1).update([None], [ROWS])
    assert metric._accumulated.device is None
    assert metric.update([found], [ROWS])._accumulated.device == torch.device("cpu")
    assert metric.to("cpu").reset()._accumulated.device is None


def test_numbers_and_states_of_an_open_device() -> None:
    """Images without predictions count, also where nothing else comes."""
    coco = load_protocol("coco2017")
    metric = DetectionAP(coco, num_classes=1).update([None, None], [ROWS, None])
    wanted = reference.evaluate(coco, [EMPTY, EMPTY], [ROWS, EMPTY], num_classes=1)
    assert repr(metric.compute().to_dict()) == repr(wanted.to_dict())
    assert metric._accumulated.device is None
    again = DetectionAP(coco, num_classes=1).load_state_dict(metric.state_dict())
    merged = DetectionAP(coco, num_classes=1).merge(metric, again)
    assert merged.num_images == 4
    found = ROWS | {"scores": torch.tensor([0.5])}
    both = metric.update([found], [ROWS]).compute()  # behind images that are matched already
    assert (both.num_images, both["AR100"]) == (3, 0.5)


def test_masks_of_a_first_batch_follow_to_the_device() -> None:
    """Bits are packed on the host, where fake tensors have no values: a device without any."""
    masks = {"labels": torch.tensor([0]), "masks": torch.ones(1, 8, 8, dtype=torch.bool)}
    metric = DetectionAP("coco2017_segm", num_classes=1).update([None], [masks])
    assert metric._accumulated.device is None
    moved = metric._accumulated.pending[0].to(torch.device("meta"))
    assert moved.ground_truths.masks[0].words.device.type == "meta"
    assert moved.detections.labels.device.type == "meta"


def test_person_layouts() -> None:
    parts = {"part_boxes": [[1, 1, 9, 9]], "part_labels": [0], "part_counts": [1]}
    person = parts | {"object_index": [1]}
    nothing = {"part_boxes": [], "part_labels": [], "part_counts": [], "object_index": []}
    metric = LayoutAP("voc2012").update([nothing | {"scores": []}], [person])
    assert metric._accumulated.device is None
    metric.update([person | {"scores": [0.5]}], [person])
    assert metric._accumulated.device == torch.device("cpu")
    assert metric.compute().num_positives.tolist() == [2, 0, 0]
