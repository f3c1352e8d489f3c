"""``update`` of masks and label maps on fake CUDA tensors: nothing waits for the device."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers.fake_cuda import WaitError, fake_cuda
from torch import Tensor

from torch_vocmetrics import DetectionAP, MeanIoU
from torch_vocmetrics.metrics import record_state, recorded, segmentation
from torch_vocmetrics.ops import masks as masks_as_bits

K, SIZE = 3, (10, 70)


@pytest.fixture(autouse=True)
def no_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flush depends on values, which fake tensors do not have: no chunk is ever full."""
    monkeypatch.setattr(record_state, "CHUNK_MASK_BYTES", 2**60)
    monkeypatch.setattr(segmentation, "CHUNK_CELLS", 2**60)
    # What is on the host may be read at once, but fake tensors have no values there either.
    monkeypatch.setattr(recorded, "fault_on_host", lambda batch: None)
    monkeypatch.setattr(masks_as_bits, "_pack_on_host", masks_as_bits._pack_on_device)
    monkeypatch.setattr(masks_as_bits, "_count_bits", masks_as_bits._count_bits_on_device)


def label_maps(kind: torch.dtype, device: str) -> Tensor:
    return torch.zeros((2, *SIZE), dtype=kind, device=device)


@pytest.mark.parametrize("home", ["cuda", "cpu"])
@pytest.mark.parametrize("kind", [torch.uint8, torch.int16, torch.int32, torch.int64])
def test_label_maps(kind: torch.dtype, home: str) -> None:
    with fake_cuda() as guard:
        metric = MeanIoU("voc2012", num_classes=K)
        for _ in range(3):
            metric.update(label_maps(kind, "cuda"), label_maps(torch.uint8, home))
        metric.update(list(label_maps(kind, "cuda")), list(label_maps(torch.int64, home)))
        copies_of_tables, copies_of_targets = 1, 0 if home == "cuda" else 4
        assert guard.copies == copies_of_tables + copies_of_targets
        assert all(part.dense.device.type == "cuda" for part in metric._accumulated.pending)


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_logits(kind: torch.dtype) -> None:
    with fake_cuda():
        logits = torch.zeros((2, 19, *SIZE), dtype=kind, device="cuda")
        metric = MeanIoU("cityscapes").update(logits, label_maps(torch.uint8, "cpu"))
        ids = torch.zeros(2, dtype=torch.int64, device="cuda")
        MeanIoU("cityscapes").update(logits, label_maps(torch.int64, "cuda"), ids)
        assert metric._accumulated.pending[0].dense.device.type == "cuda"


def test_a_guard_of_meta_factories() -> None:
    """Counting and flushing name a device wherever they make a tensor."""
    found, true = torch.randint(0, K, (2, *SIZE)), torch.randint(0, K, (2, *SIZE))
    masks = torch.rand(2, *SIZE) > 0.5
    labels, scores = torch.zeros(2, dtype=torch.int64), torch.rand(2)
    with torch.device("meta"):
        result = MeanIoU("voc2012", num_classes=K).update(found, true, ["a", "b"]).compute()
        assert int(result.confusion_matrix.sum()) > 0
        metric = DetectionAP("coco2017_segm", num_classes=K)
        one = {"masks": masks, "labels": labels, "scores": scores}
        metric.update([one], [{"masks": masks, "labels": labels}]).compute()


def rows(count: int, device: str, masks: Any) -> dict[str, Any]:
    return {
        "labels": torch.zeros(count, dtype=torch.int64, device=device),
        "masks": masks,
    }


@pytest.mark.parametrize("home", ["cuda", "cpu"])
@pytest.mark.parametrize("protocol", ["coco2017_segm", ["coco2017", "coco2017_segm"]])
@pytest.mark.parametrize("form", ["bool", "uint8", "probabilities"])
def test_masks(form: str, protocol: Any, home: str) -> None:
    with fake_cuda():
        metric = DetectionAP(protocol, num_classes=K)
        masks = torch.zeros((4, *SIZE), dtype=torch.bool, device="cuda")
        if form == "uint8":
            masks = masks.to(torch.uint8)
        if form == "probabilities":
            masks = masks.unsqueeze(1).to(torch.float16)
        for _ in range(2):
            found = rows(4, "cuda", masks) | {"scores": torch.zeros(4, device="cuda")}
            true = rows(2, home, torch.zeros((2, *SIZE), dtype=torch.uint8, device=home))
            if isinstance(protocol, list):
                found["boxes"] = torch.zeros((4, 4), device="cuda")
                true["boxes"] = torch.zeros((2, 4), device=home)
            metric.update([found, found], [true, true])
        for batch in metric._accumulated.pending:
            for side in (batch.detections, batch.ground_truths):
                assert side.masks is not None
                assert all(one.words.device.type == "cuda" for one in side.masks)


def test_the_guard_sees_a_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a ``bincount`` in place of the counting by ``scatter_add_``, the test above fails."""
    from torch_vocmetrics.inputs import label_maps as maps  # noqa: PLC0415

    def counted(truth: Tensor, *_: Any) -> Tensor:
        return torch.bincount(truth.flatten(), minlength=K * K)

    with fake_cuda(), monkeypatch.context() as patch:
        patch.setattr(maps, "tally", counted)
        with pytest.raises((WaitError, RuntimeError)):
            MeanIoU("voc2012", num_classes=K).update(
                label_maps(torch.uint8, "cuda"), label_maps(torch.uint8, "cuda")
            )
