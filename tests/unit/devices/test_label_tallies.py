"""Counting label maps on a device: by plain operations, by one operator, without a wait."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from helpers.host_backed_cuda import host_backed_cuda, moved
from torch import Tensor

from torch_vocmetrics import MeanIoU
from torch_vocmetrics.metrics import segmentation
from torch_vocmetrics.ops import confusion, label_tallies
from torch_vocmetrics.ops.confusion import LabelTable

K, VOID = 4, 255


def table(*, void: bool) -> LabelTable:
    known = {k: k for k in range(K)} | ({VOID: K} if void else {})
    return LabelTable.of(known, K + 1)


def by_loop(found: Tensor, true: Tensor) -> list[list[int]]:
    """Pixel by pixel."""
    counts = [[0] * (K * (K + 1) + 3) for _ in true]
    for image, (first, second) in enumerate(zip(found, true, strict=True)):
        pixels = first.flatten(1).T if first.is_floating_point() else first.flatten()
        for one, label in zip(pixels, second.flatten().tolist(), strict=True):
            nan = one.is_floating_point() and bool(one.isnan().any())
            index = int(one.argmax()) if one.is_floating_point() else int(one)
            if nan:
                counts[image][-1] = 1
            if not 0 <= index < K:
                counts[image][-3] += 1
            if not (0 <= label < K or label == VOID):
                counts[image][-2] += 1
            elif label != VOID and 0 <= index < K and not nan:
                counts[image][label * (K + 1) + index] += 1
    return counts


MAKERS: dict[str, Callable[[torch.Generator], Tensor]] = {
    "uint8": lambda rng: torch.randint(0, K, (3, 6, 7), generator=rng).to(torch.uint8),
    "int16 with an unknown label": lambda rng: torch.randint(
        -1, K + 2, (3, 6, 7), generator=rng
    ).to(torch.int16),
    "logits with ties": lambda rng: torch.randint(0, 3, (3, K, 6, 7), generator=rng).float(),
    "half logits": lambda rng: torch.randint(0, 3, (3, K, 6, 7), generator=rng).bfloat16(),
}


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("copies", [1, 32])
def test_plain_operations_on_a_device_are_the_loop(
    name: str, copies: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where Triton does not work; nothing waits. Several copies of the counts relieve a device."""
    monkeypatch.setattr(confusion, "MOST_COPIES", copies)
    rng = torch.Generator().manual_seed(len(name))
    found, true = MAKERS[name](rng), torch.randint(0, K, (3, 6, 7), generator=rng)
    true[torch.rand(true.shape, generator=rng) < 0.2] = VOID
    wanted = by_loop(found, true)
    columns, rows = table(void=False), table(void=True)
    on_host = label_tallies.tally(found, true, columns, rows)
    with host_backed_cuda(refuse=True):
        arguments = [columns.indices, rows.indices, columns.lowest - 1, rows.lowest - 1, K]
        counts = label_tallies._on_host(*moved([found, true, *arguments])).host
    assert counts.tolist() == on_host.tolist()
    assert counts.tolist() == wanted


def test_one_operator_a_stack() -> None:
    """From logits on a device and targets on the host: one copy and one operator."""
    logits, targets = torch.rand(2, K, 6, 7), torch.randint(1, K + 1, (2, 6, 7))
    with host_backed_cuda(refuse=True) as counts:
        # Without a class 0, as the first targets are tested for being black and white.
        metric = MeanIoU("voc2012", num_classes=K, label_ids=range(1, K + 1))
        there = moved(logits)
        metric.update(there, targets)  # the tables of labels go over once
        counts.reset()
        metric.update(there, targets)
        assert counts.launches == 2
        assert counts.operators["torch_vocmetrics.tally_maps"] == 1
        counts.reset()
        metric.update(list(there), list(targets))
        assert counts.launches == 4


def test_a_fault_names_the_image_after_the_flush() -> None:
    maps = torch.zeros((2, 3, 4), dtype=torch.int64)
    bad = maps.clone()
    bad[1, 2, 3] = K
    with host_backed_cuda():
        metric = MeanIoU("voc2012", num_classes=K).update(*moved([maps, maps]), ["a", "b"])
        metric.update(*moved([maps, bad]), ["c", "d"])
        with pytest.raises(ValueError, match=r"target 3 .image_id 'd'.: the true"):
            metric.compute()


def test_dense_counts_take_a_share_of_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that ``update`` hardly ever waits to make them sparse; on the host 32 MiB are enough."""
    monkeypatch.setattr(segmentation, "memory_of", lambda device: 2**37 * (device.type == "cuda"))
    assert segmentation.most_cells(torch.device("cuda", 0)) == 2**37 // 64 // 8
    assert segmentation.most_cells(torch.device("cpu")) == segmentation.CHUNK_CELLS
