"""Work side by side: the same numbers by any number of threads, and what a thread is told."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from torch_vocmetrics import DetectionAP, ranking
from torch_vocmetrics.metrics import recorded
from torch_vocmetrics.ops.selection import rows_where
from torch_vocmetrics.ragged import Detections, GroundTruths, even_shares
from torch_vocmetrics.threads import side_by_side

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _threads_as_before() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def images(count: int) -> tuple[list[Any], list[Any]]:
    """Crowded images of three classes with few distinct scores, some of them empty."""
    rng = torch.Generator().manual_seed(0)

    def rows(n: int) -> dict[str, torch.Tensor]:
        corner = torch.randint(0, 20, (n, 2), generator=rng).float()
        extent = torch.randint(4, 30, (n, 2), generator=rng)
        boxes = torch.cat([corner, corner + extent], 1)
        return {"boxes": boxes, "labels": torch.randint(0, 3, (n,), generator=rng)}

    sizes = torch.randint(0, 15, (count, 2), generator=rng).tolist()
    found = [rows(n) for n, _ in sizes]
    for one in found:
        one["scores"] = torch.randint(0, 5, (len(one["labels"]),), generator=rng) / 4
    return found, [rows(m) for _, m in sizes]


def tensors(result: Any) -> list[tuple[str, Any]]:
    fields = ((f.name, getattr(result, f.name)) for f in dataclasses.fields(result))
    return [(name, value.tolist()) for name, value in fields if isinstance(value, torch.Tensor)]


@pytest.mark.parametrize("protocol", ["coco2017", "voc2007"])
def test_threads_and_blocks_change_nothing(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found, true = images(120)

    def numbers() -> str:
        metric = DetectionAP(protocol, num_classes=3).update(found, true)
        return str(tensors(metric.compute()))

    torch.set_num_threads(1)
    wanted = numbers()
    monkeypatch.setattr(recorded, "FEW_IMAGES", 1)
    monkeypatch.setattr(ranking, "LEAST_BLOCK_ROWS", 1)
    for threads in (1, 2, 3, 7):
        torch.set_num_threads(threads)
        for rows in (2**17, 200, 1):
            monkeypatch.setattr(ranking, "BLOCK_ROWS", rows)
            assert numbers() == wanted, (threads, rows)


def test_parts_are_done_at_the_same_time_and_come_in_order() -> None:
    torch.set_num_threads(2)
    both = threading.Barrier(2, timeout=20)  # breaks unless two threads meet there

    def work(part: int) -> int:
        both.wait()
        time.sleep(0.02 * (part == 0))
        return part

    assert side_by_side(work, [0, 1], CPU) == [0, 1]


def test_one_thread_or_another_device_is_a_plain_loop() -> None:
    here = threading.get_ident()
    torch.set_num_threads(2)
    on_cuda = torch.device("cuda")
    assert side_by_side(lambda _: threading.get_ident(), [0, 1], on_cuda) == [here, here]
    assert side_by_side(lambda _: threading.get_ident(), [0], CPU) == [here]
    torch.set_num_threads(1)
    assert side_by_side(lambda _: threading.get_ident(), [0, 1], CPU) == [here, here]


def test_what_fails_in_a_thread_is_raised() -> None:
    torch.set_num_threads(2)

    def work(part: int) -> int:
        if part:
            raise ValueError("in a thread")
        return part

    with pytest.raises(ValueError, match="in a thread"):
        side_by_side(work, [0, 1], CPU)


@pytest.mark.parametrize("inference", [False, True])
def test_threads_have_the_modes_of_the_caller(inference: bool) -> None:
    """Tensors made under inference_mode can be written only under it; no thread records grads."""
    torch.set_num_threads(2)
    with torch.inference_mode(inference):
        shared = torch.zeros(2)

        def work(part: int) -> bool:
            shared[part] = part
            return torch.is_grad_enabled()

        assert side_by_side(work, [0, 1], CPU) == [False, False]
        assert shared.tolist() == [0.0, 1.0]
        metric = DetectionAP("coco2017", num_classes=3).update(*images(64))
        assert 0 < metric.compute().headline < 1


def test_even_shares() -> None:
    assert even_shares([5, 5, 5, 5], 2) == [slice(0, 2), slice(2, 4)]
    assert even_shares([0, 0, 0], 2) == [slice(0, 3)]
    assert even_shares([100, 1, 1], 3) == [slice(0, 1), slice(1, 3)]
    assert even_shares([7], 4) == [slice(0, 1)]
    assert even_shares([1, 1, 100], 2) == [slice(0, 3)]


def test_rows_of_some_images() -> None:
    counts, rows = (2, 0, 3), torch.arange(5)
    boxes = rows.unsqueeze(1).expand(5, 4).double()
    found = Detections(counts, boxes, rows.double(), rows, rows, "xyxy").images(slice(1, 3))
    assert found.counts == (0, 3)
    for column in (found.scores, found.labels, found.order, found.boxes[:, 0]):
        assert column is not None
        assert column.tolist() == [2, 3, 4]
    true = GroundTruths(
        counts, boxes, rows, rows.byte(), rows.double(), "xyxy", visibility=rows.double()
    ).images(slice(0, 1))
    assert true.counts == (2,)
    for column in (true.labels, true.flags, true.area, true.boxes[:, 3], true.visibility):
        assert column is not None
        assert column.tolist() == [0, 1]
    assert true.occlusion is None


def test_rows_where() -> None:
    mask = torch.tensor([False, True, True, False, True])
    assert rows_where(mask).tolist() == [1, 2, 4]
    assert rows_where(mask[::2]).tolist() == [1, 2]
    assert rows_where(mask[:0]).tolist() == []
