"""Masks on a device: from every form of input to the result without a wait in ``update``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from helpers.host_backed_cuda import host_backed_cuda, moved
from pycocotools import mask as api
from torch import Tensor

from torch_vocmetrics import DetectionAP
from torch_vocmetrics.kernels import support
from torch_vocmetrics.matching import chunk, fused
from torch_vocmetrics.metrics import record_state

pytestmark = pytest.mark.slow

K = 3
SIZES = ((40, 70), (33, 64), (50, 130))


def images(seed: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Six images of three sizes: shifted copies of blocks, crowds, ties, images without rows."""
    rng = torch.Generator().manual_seed(seed)
    predictions, targets = [], []
    for image in range(6):
        height, width = SIZES[image % 3]
        m, n = (0 if image == 4 else 1 + image % 3), (0 if image == 5 else 7)
        true = torch.zeros((m, height, width), dtype=torch.bool)
        for one in true:
            top, left = torch.randint(0, 20, (2,), generator=rng).tolist()
            one[top : top + 12, left : left + 30] = True
        found = torch.zeros((n, height, width), dtype=torch.bool)
        labels = torch.randint(0, K, (m,), generator=rng)
        mine = torch.randint(0, K, (n,), generator=rng)
        for row in range(n if m else 0):
            which = int(torch.randint(0, m, (1,), generator=rng))
            found[row] = true[which].roll(int(torch.randint(-3, 4, (1,), generator=rng)), 1)
            mine[row] = labels[which]
        scores = torch.randint(1, 9, (n,), generator=rng) / 8
        predictions.append({"masks": found, "scores": scores, "labels": mine})
        crowd = torch.rand(m, generator=rng) < 0.3
        targets.append({"masks": true, "labels": labels, "iscrowd": crowd})
    return predictions, targets


def with_boxes(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        one | {"boxes": torch.cat([box := torch.rand(len(one["labels"]), 2), box + 30], 1)}
        for one in rows
    ]


def in_form(rows: list[dict[str, Any]], form: str) -> list[dict[str, Any]]:
    return [one | {"masks": _masks(one["masks"], form)} for one in rows]


def _masks(masks: Tensor, form: str) -> Any:
    if form == "integers":
        return masks.to(torch.int16) * -3
    if form == "probabilities":
        return torch.where(masks, 0.75, 0.5).to(torch.float16).unsqueeze(1)
    if form == "run lengths":
        encoded = api.encode(np.asfortranarray(masks.permute(1, 2, 0).numpy().astype(np.uint8)))
        return [{"size": one["size"], "counts": one["counts"].decode()} for one in encoded]
    return masks


def computed(metric: Any) -> tuple[Any, ...]:
    found = metric.compute()
    results = found.values() if isinstance(found, dict) else [found]
    numbers = [repr(item) for result in results for item in result.to_dict().items()]
    return numbers, metric.state_dict()["records"]


def same(first: Any, second: Any) -> bool:
    """All columns of records and all digits of results."""
    columns = [
        (one[name], other[name])
        for one, other in zip(first[1], second[1], strict=True)
        for name in one
        if one[name] is not None
    ]
    equal = (torch.equal(getattr(b, "host", b), a) for a, b in columns)
    return first[0] == second[0] and all(equal)


@pytest.mark.parametrize(
    ("form", "other_form", "home"),
    [
        ("bool", "bool", "cpu"),
        ("integers", "bool", "cuda"),
        ("probabilities", "run lengths", "cpu"),
        ("run lengths", "run lengths", "cpu"),
    ],
)
def test_the_device_gives_the_records_of_the_host(form: str, other_form: str, home: str) -> None:
    """Two protocols, several chunks, crowds; ``update`` and its flushes wait for nothing."""
    protocols = ["coco2017_segm", "coco2017_segm_box_area"]
    host, there = (DetectionAP(protocols, num_classes=K) for _ in range(2))
    with host_backed_cuda(refuse=True) as counts, pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_state, "CHUNK_MASK_BYTES", 2**13)
        for seed in range(3):
            predictions, targets = images(seed)
            predictions, targets = with_boxes(predictions), with_boxes(targets)
            host.update(predictions, targets)
            predictions, targets = in_form(predictions, form), in_form(targets, other_form)
            there.update(moved(predictions), moved(targets, home))
        assert len(there._accumulated.tables[0]) > 1
        assert counts.operators["torch_vocmetrics.match_word"] > 0
        counts.refuse = False
        assert same(computed(host), computed(there))


def test_a_flush_is_as_many_launches_for_any_number_of_images() -> None:
    launches = []
    with host_backed_cuda() as counts:
        for repeats in (2, 6):
            metric = DetectionAP("coco2017_segm", num_classes=K)
            for seed in range(repeats):
                metric.update(*moved(images(seed)))
            counts.reset()
            metric._flushed(metric._accumulated)
            launches.append(counts.launches)
            assert counts.waits == []
    assert launches[0] == launches[1]


def test_the_table_of_matches_is_never_too_small_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """The chunk is matched again on the host from its overlaps; masks are not kept for that."""
    host = DetectionAP("coco2017_segm", num_classes=K).update(*images(1))
    original = chunk.match_word

    def full(*arguments: Any) -> Any:
        matches, overflow = original(*arguments)
        if arguments[0].group.device.type == "cpu":
            return matches, overflow
        return type(matches)(*(column[:1] for column in matches)), overflow + 1

    monkeypatch.setattr(chunk, "match_word", full)
    with host_backed_cuda():
        there = DetectionAP("coco2017_segm", num_classes=K).update(*moved(images(1)))
        there._accumulated = there._flushed(there._accumulated)
        (kept,) = there._accumulated.unread
        assert sum(one.num_bytes for one in kept.chunk.detections.masks) == 0
        assert same(computed(host), computed(there))


@pytest.mark.parametrize("why", ["Triton", "diagnostics"])
def test_the_host_compares_where_the_device_cannot(
    why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"diagnostics": True} if why == "diagnostics" else {}
    host = DetectionAP("coco2017_segm", num_classes=K, **options).update(*images(2))
    if why == "Triton":
        monkeypatch.setattr(fused, "triton_works", lambda device: False)
    with host_backed_cuda() as counts:
        there = DetectionAP("coco2017_segm", num_classes=K, **options)
        there.update(*moved(images(2)))
        assert same(computed(host), computed(there))
        assert not counts.operators["torch_vocmetrics.mask_overlaps"]


def test_without_triton_every_operator_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """The forms for a device in plain operations, image by image, on device tensors."""
    from torch_vocmetrics.ops import mask_stacks  # noqa: PLC0415

    rng = torch.Generator().manual_seed(5)
    dense = [torch.rand((n, *SIZES[n % 3]), generator=rng) for n in (2, 0, 3)]
    with host_backed_cuda(refuse=True):
        for probable in (True, False):
            stacks = dense if probable else [one > 0.5 for one in dense]
            wanted = mask_stacks._packed_one_by_one(stacks, probable)
            got = mask_stacks._packed_one_by_one(moved(stacks), probable)
            assert all(torch.equal(a, b.host) for a, b in zip(wanted, got, strict=True))
    assert support.triton_works(torch.device("cuda"))
    monkeypatch.setattr(mask_stacks, "triton_works", lambda device: False)
    assert torch.equal(mask_stacks._packed_at_once(stacks, False)[0], wanted[0])
