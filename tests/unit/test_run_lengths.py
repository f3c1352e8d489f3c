"""COCO's compressed run lengths, many masks at once, against pycocotools."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from pycocotools import mask as api

from torch_vocmetrics import DetectionAP
from torch_vocmetrics.ops import rle


def made(rng: np.random.Generator, count: int) -> tuple[list[dict[str, Any]], list[np.ndarray]]:
    """Masks of several sizes, from a few long runs to many short ones."""
    rles, masks = [], []
    for _ in range(count):
        height, width = rng.integers(1, 300, 2)
        edges = np.unique(rng.integers(0, height * width + 1, rng.integers(0, 40)))
        runs = np.diff(np.concatenate(([0], edges, [height * width]))).tolist()
        inside = np.repeat(np.arange(len(runs)) % 2 == 1, runs)
        plain = {"size": [int(height), int(width)], "counts": runs}
        rles.append(api.frPyObjects(plain, int(height), int(width)))
        masks.append(inside.reshape(width, height).T)
    return rles, masks


@pytest.mark.parametrize("seed", range(20))
def test_many_masks_at_once(seed: int) -> None:
    rles, masks = made(np.random.default_rng(seed), 12)
    as_text = [{**one, "counts": one["counts"].decode()} for one in rles]
    for given in (rles, as_text):
        read = rle.read_compressed(given)
        assert read is not None
        assert read[0] == rles
        assert read[1].tolist() == [int(mask.sum()) for mask in masks] == api.area(rles).tolist()
    for one, mask in zip(rles, masks, strict=True):
        words = rle.decode([one], *one["size"]).numpy().view(np.uint8)
        bits = np.unpackbits(words, axis=-1, bitorder="little")[0, :, : mask.shape[1]]
        assert np.array_equal(bits.astype(bool), mask)


BAD: dict[str, Any] = {
    "empty text": {"size": [4, 6], "counts": b""},
    "unfinished": {"size": [4, 6], "counts": b"P"},
    "below the letters": {"size": [4, 6], "counts": b"4/"},
    "above the letters": {"size": [4, 6], "counts": b"4p"},
    "too few pixels": {"size": [4, 7], "counts": api.frPyObjects(
        {"size": [4, 6], "counts": [4, 8, 12]}, 4, 6)["counts"]},
    "a negative run": {"size": [4, 6], "counts": b"4L<"},
    "many letters": {"size": [4, 6], "counts": b"P" * 14 + b"0"},
    "plain counts": {"size": [4, 6], "counts": [4, 8, 12]},
    "no size": {"counts": b"4"},
    "a list": [[0, 0, 3, 0, 3, 3]],
}  # fmt: skip


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("name", BAD)
def test_one_at_fault_is_left_to_the_careful_reader(name: str, place: int) -> None:
    rles, _ = made(np.random.default_rng(0), 2)
    assert rle.read_compressed([*rles[:place], BAD[name], *rles[place:]]) is None


def test_no_masks() -> None:
    assert rle.read_compressed([]) is None


@pytest.mark.parametrize("classes", [1, 3])
def test_overlaps_of_many_classes_are_those_of_tensors(classes: int) -> None:
    rng = np.random.default_rng(classes)
    metrics: list[Any] = [DetectionAP("coco2017_segm", num_classes=classes) for _ in range(2)]
    for image in range(4):
        masks = rng.random((9, 20, 70)) < 0.5
        masks[:, :, : 10 * image] = False
        labels = torch.from_numpy(rng.integers(0, classes, 9))
        crowd = torch.from_numpy(rng.random(4) < 0.3)
        scores = torch.from_numpy(rng.random(5))
        lengths = api.encode(np.asfortranarray(masks.transpose(1, 2, 0).astype(np.uint8)))
        for metric, form in zip(metrics, (torch.from_numpy(masks), lengths), strict=True):
            metric.update(
                [{"masks": form[4:], "labels": labels[4:], "scores": scores}],
                [{"masks": form[:4], "labels": labels[:4], "iscrowd": crowd}],
            )
    first, second = (metric.compute() for metric in metrics)
    assert str(first.to_dict()) == str(second.to_dict())
