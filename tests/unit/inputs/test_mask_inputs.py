"""What masks may not be, and when they are matched."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from torch_vocmetrics import DetectionAP, InputError
from torch_vocmetrics.inputs.masks import read_masks
from torch_vocmetrics.metrics import record_state
from torch_vocmetrics.ops import masks as ops_of_masks

MASKS = torch.zeros(1, 4, 6, dtype=torch.bool)
RLE = {"size": [4, 6], "counts": [4, 8, 12]}


def one(masks: Any, **more: Any) -> dict[str, Any]:
    return {"labels": torch.tensor([0]), "scores": torch.tensor([0.5]), "masks": masks} | more


BAD: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "missing": ({"labels": [0], "scores": [0.5]}, one(MASKS), "prediction 0: key 'masks' is mis"),
    "near name": (one(MASKS), {"labels": [0], "segmentation": [RLE]}, "'segmentation' is not kn"),
    "rows": (one(torch.zeros(2, 4, 6).bool()), one(MASKS), "2 masks of 1 rows"),
    "listed rows": (one([RLE, RLE]), one(MASKS), "2 masks of 1 rows"),
    "float": (one(torch.zeros(1, 4, 6)), one(MASKS), "threshold"),
    "one mask": (one(torch.zeros(4, 6).bool()), one(MASKS), r"must be \[N, H, W\]"),
    "channels": (one(torch.zeros(1, 2, 4, 6)), one(MASKS), r"\[N, 1, H, W\]"),
    "size": (one(torch.zeros(1, 6, 4).bool()), one(MASKS), "differ in size"),
    "image size": (one(MASKS), one(MASKS, image_size=(6, 4)), "not of the size of the image"),
    "run lengths of another size": (one(MASKS), one([RLE], image_size=(6, 4)), "key 'masks'"),
    "run lengths that do not add up": (one([RLE | {"counts": [4, 8]}]), one(MASKS), "12 of 24"),
    "negative runs": (one([RLE | {"counts": [4, -8, 28]}]), one(MASKS), "numbers from 0"),
    "damaged text": (one([RLE | {"counts": "4;"}]), one(MASKS), "run lengths"),
    "no run lengths": (one([RLE | {"counts": b"\\x00"}]), one(MASKS), "run lengths"),
    "no counts": (one([{"size": [4, 6]}]), one(MASKS), "'counts'"),
    "stack of arrays": (one([np.zeros((4, 6))]), one(MASKS), "stack masks"),
    "polygon without size": (one([[[0, 0, 3, 0, 3, 3]]]), one(MASKS), "image_size"),
    "half a corner": (one([[[0, 0, 3, 0, 3]]]), one(MASKS, image_size=(4, 6)), "three corners"),
    "packed": ({"masks": MASKS, "labels": [0], "scores": [0.5], "boxes": torch.zeros(1, 4),
                "counts": [1]}, one(MASKS), "one dict per image"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_masks_may_not_be(name: str) -> None:
    found, true, words = BAD[name]
    metric = DetectionAP("coco2017_segm", num_classes=1)
    metric.update([one(MASKS)], [one(MASKS)])
    target = {key: value for key, value in true.items() if key != "scores"}
    predictions = found if name == "packed" else [found]
    with pytest.raises(InputError, match=words):
        metric.update(predictions, [target])
    assert metric.compute().num_images == 1


def test_masks_are_not_looked_at_for_boxes() -> None:
    boxes = torch.tensor([[0.0, 0.0, 2.0, 2.0]])
    found = one(torch.zeros(7, 7, 7), boxes=boxes)
    metric = DetectionAP("coco2017", num_classes=1)
    assert metric.update([found], [{"boxes": boxes, "labels": [0]}]).compute().headline > 0.9999


def test_no_rows_need_no_masks() -> None:
    nothing = {"labels": torch.zeros(0, dtype=torch.int64), "scores": torch.zeros(0)}
    for masks in (
        {},
        {"masks": torch.zeros(0, 4, 6).bool()},
        {"masks": []},
        {"masks": torch.zeros(0)},
    ):
        metric = DetectionAP("coco2017_segm", num_classes=1)
        metric.update([nothing | masks], [one(MASKS)])
        metric.update([one([RLE])], [{"labels": torch.zeros(0, dtype=torch.int64)} | masks])
        assert metric.compute().num_detections == 1


def test_a_chunk_ends_at_a_size_of_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_state, "CHUNK_MASK_BYTES", 3 * 4 * 8)
    metric = DetectionAP("coco2017_segm", num_classes=1)
    pending = []
    for _ in range(4):  # each image has two masks of four rows of a word
        metric.update([one(MASKS)], [one(MASKS)])
        pending.append(len(metric._accumulated.pending))
    assert pending == [1, 0, 1, 0]


def test_masks_are_copied() -> None:
    masks = torch.ones(1, 4, 6, dtype=torch.bool)
    metric = DetectionAP("coco2017_segm", num_classes=1)
    metric.update([one(masks)], [one(masks.clone())])
    masks.zero_()
    assert metric.compute().headline > 0.9999


BAD_RUNS: list[dict[str, Any]] = [
    {"counts": None}, {"counts": {}}, {"counts": [2**70]}, {"counts": [2**63, 0]},
    {"counts": [-1, 25]}, {"counts": [12.5, 11.5]}, {"counts": 5}, {"counts": "\u00e9"},
    {"counts": [["a"]]}, {"counts": [float("nan")]}, {"counts": [True] * 24}, {"counts": []},
    {"counts": "o" * 7 + "1"}, {"size": None}, {"size": (float("inf"), 4)}, {"size": (6,)},
    {"size": 5}, {"size": ("6", "4")}, {"size": (6.5, 4)}, {"size": (-6, -4)},
    {"size": (2**16, 2**16), "counts": [2**32]}, {"size": (10**9, 10**9), "counts": [10**18]},
    {"size": (10**400, 1)},
]  # fmt: skip


@pytest.mark.parametrize("change", BAD_RUNS, ids=lambda change: str(change)[:40])
def test_wrong_run_lengths_are_one_sentence(change: dict[str, Any]) -> None:
    good = {"size": (6, 4), "counts": [12, 12]}
    rows = {"labels": torch.zeros(2).long(), "scores": torch.rand(2)}
    metric = DetectionAP("coco2017_segm", num_classes=1)
    for masks in ([good, good | change], [good | change, good]):
        with pytest.raises(InputError, match="prediction 0, key 'masks'") as caught:
            metric.update([rows | {"masks": masks}], [rows | {"masks": [good, good]}])
        assert "\n" not in str(caught.value)


BAD_POLYGONS: list[Any] = [
    [[1e9, 1e9, 1e9 + 50, 1e9, 1e9 + 50, 1e9 + 50]], [[1e8, 0, 1, 1, 0, 1]],
    [[1e300, 0, 1, 1, 0, 1]], [[0, 0, 1, 0, 1, float("nan")]],
    [[0, 0, 10**400, 0, 1, 1]], [[0.0, 0, 1e6, 0, 0, 0, 1e6, 0]],
    [5], [["a"]], [{}], [[0, 0, 4, 0]],
]  # fmt: skip


@pytest.mark.parametrize("polygons", BAD_POLYGONS, ids=lambda value: str(value)[:40])
def test_wrong_polygons_are_one_sentence(polygons: Any) -> None:
    rows = {"labels": torch.zeros(1).long(), "scores": torch.rand(1)}
    true = rows | {"masks": [[[0, 0, 4, 0, 4, 4]]], "image_size": (6, 4)}
    with pytest.raises(InputError, match="prediction 0, key 'masks', row 0"):
        DetectionAP("coco2017_segm", num_classes=1).update([rows | {"masks": [polygons]}], [true])


def test_images_with_polygons_are_bounded() -> None:
    rows = {"labels": torch.zeros(1).long(), "scores": torch.rand(1)}
    masks = {"masks": [[[0, 0, 4, 0, 4, 4]]]}
    size = {"image_size": (2**20, 2**20)}
    with pytest.raises(InputError, match="1,048,576 x 1,048,576 pixels is above the limit"):
        DetectionAP("coco2017_segm", num_classes=1).update([rows | masks], [rows | masks | size])


class LargestTensor(TorchDispatchMode):
    """The size in bytes of the largest tensor that an operation makes beside views of ``given``."""

    def __init__(self, given: torch.Tensor) -> None:
        super().__init__()
        self.seen, self._given = 0, given.untyped_storage().data_ptr()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if isinstance(made, torch.Tensor) and made.untyped_storage().data_ptr() != self._given:
            self.seen = max(self.seen, made.numel() * made.element_size())
        return made


@pytest.mark.parametrize("kind", ["float32", "float16", "float64", "bool", "uint8"])
def test_masks_are_packed_in_tiles(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that is made is larger than the bits themselves, or a tile of some masks."""
    monkeypatch.setattr(ops_of_masks, "TILE_BYTES", 3 * 24 * 128)
    values = torch.rand(90, 1, 24, 128, generator=torch.Generator().manual_seed(0))
    wanted = values[:, 0].to(torch.float16 if kind == "float16" else torch.float32) > 0.5
    masks = wanted if kind in ("bool", "uint8") else values
    masks = masks.to(getattr(torch, kind))
    with LargestTensor(masks) as largest:
        read, _ = read_masks([{"masks": masks}], [{}], ((90,), (0,)), None, torch.device("cpu"))
    assert largest.seen <= 90 * 24 * 128 // 8
    bits = np.unpackbits(read[0].words.numpy().view(np.uint8), axis=-1, bitorder="little")
    assert np.array_equal(bits.astype(bool), wanted.numpy())
