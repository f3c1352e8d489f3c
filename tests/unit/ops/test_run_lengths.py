"""COCO's compressed run lengths, many masks at once, against pycocotools."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from pycocotools import mask as api

from torch_vocmetrics import DetectionAP
from torch_vocmetrics.ops import rle, run_lengths
from torch_vocmetrics.ops.rle_batch import read_many


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


def sizes_of(rles: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return [(one["size"][0], one["size"][1]) for one in rles]


@pytest.mark.parametrize("seed", range(20))
def test_many_masks_at_once(seed: int) -> None:
    rles, masks = made(np.random.default_rng(seed), 12)
    as_text = [{**one, "counts": one["counts"].decode()} for one in rles]
    as_runs = [{**one, "counts": runs_of(mask)} for one, mask in zip(rles, masks, strict=True)]
    mixed = [*as_text[:4], *as_runs[4:8], *rles[8:]]
    for given in (rles, as_text, as_runs, mixed):
        read = read_many(given, sizes_of(rles))
        assert read is not None
        assert read[0] == [text_of(one) for one in given]
        assert read[1].tolist() == [int(mask.sum()) for mask in masks] == api.area(rles).tolist()
    for one, mask in zip(rles, masks, strict=True):
        words = rle.decode([one], *one["size"]).numpy().view(np.uint8)
        bits = np.unpackbits(words, axis=-1, bitorder="little")[0, :, : mask.shape[1]]
        assert np.array_equal(bits.astype(bool), mask)


def text_of(given: dict[str, Any]) -> bytes:
    """Compressed by pycocotools, where it is not."""
    if isinstance(given["counts"], list):
        given = api.frPyObjects(given, *given["size"])
    text = given["counts"]
    return text.encode() if isinstance(text, str) else text


def runs_of(mask: np.ndarray) -> list[int]:
    """Lengths of runs by a plain loop over the pixels, column by column."""
    runs, inside = [0], False
    for pixel in mask.T.reshape(-1).tolist():
        if pixel != inside:
            runs.append(0)
            inside = pixel
        runs[-1] += 1
    return runs


@pytest.mark.parametrize("seed", range(5))
def test_runs_of_every_length_are_written_as_pycocotools_does(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lengths = [int(2 ** rng.uniform(0, 27)) if rng.random() < 0.9 else 0 for _ in range(60)]
    masks = [lengths[: rng.integers(1, 60)] for _ in range(30)]
    sizes = [(1, sum(runs)) for runs in masks]
    kept = [one for one in range(30) if sizes[one][1] <= 2**28]
    given = [{"size": [*sizes[one]], "counts": masks[one]} for one in kept]
    read = read_many(given, [sizes[one] for one in kept])
    assert read is not None
    wanted = api.frPyObjects(given, 1, 1)
    assert read[0] == [one["counts"] for one in wanted]
    assert read[1].tolist() == [sum(masks[one][1::2]) for one in kept]


@pytest.mark.parametrize("seed", range(5))
def test_polygons_are_those_of_pycocotools(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = [(60, 80) if rng.random() < 0.7 else (50, 40) for _ in range(20)]
    masks = [
        [
            np.round(rng.uniform(-10, 90, 2 * rng.integers(3, 9)), rng.integers(0, 3)).tolist()
            for _ in range(rng.integers(1, 4))
        ]
        for _ in sizes
    ]
    read = read_many(masks, sizes)
    assert read is not None
    for text, area, mask, size in zip(*read, masks, sizes, strict=True):
        wanted = api.merge(api.frPyObjects(mask, *size))
        assert text == wanted["counts"] == rle.rle_of(mask, *size)["counts"]
        assert area == api.area(wanted)


def test_portions_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rles, masks = made(np.random.default_rng(3), 30)
    as_runs = [{**one, "counts": runs_of(mask)} for one, mask in zip(rles, masks, strict=True)]
    whole = read_many([*rles, *as_runs], sizes_of(rles) * 2)
    monkeypatch.setattr(run_lengths, "PORTION", 40)
    parts = read_many([*rles, *as_runs], sizes_of(rles) * 2)
    assert whole is not None
    assert parts is not None
    assert whole[0] == parts[0]
    assert whole[1].tolist() == parts[1].tolist()


BAD: dict[str, Any] = {
    "empty text": {"size": [4, 6], "counts": b""},
    "unfinished": {"size": [4, 6], "counts": b"P"},
    "below the letters": {"size": [4, 6], "counts": b"4/"},
    "above the letters": {"size": [4, 6], "counts": b"4p"},
    "too few pixels": {"size": [4, 7], "counts": api.frPyObjects(
        {"size": [4, 6], "counts": [4, 8, 12]}, 4, 6)["counts"]},
    "a negative run": {"size": [4, 6], "counts": b"4L<"},
    "many letters": {"size": [4, 6], "counts": b"P" * 14 + b"0"},
    "runs that do not add up": {"size": [4, 6], "counts": [4, 8, 13]},
    "a negative number": {"size": [4, 6], "counts": [-4, 16, 12]},
    "no runs": {"size": [4, 6], "counts": []},
    "a flag": {"size": [4, 6], "counts": [True, 23]},
    "a fraction": {"size": [4, 6], "counts": [1.5, 22.5]},
    "another size": {"size": [6, 4], "counts": [24]},
    "three sides": {"size": [4, 6, 1], "counts": [24]},
    "no size": {"counts": b"4"},
    "no counts": {"size": [4, 6]},
    "a number of bytes": {"size": [4, 6], "counts": 24},
    "not ASCII": {"size": [4, 6], "counts": "\u0663"},
    "no polygon": [],
    "two corners": [[0, 0, 3, 3]],
    "an odd count": [[0, 0, 3, 0, 3, 3, 1]],
    "not a number": [[0, 0, 3, 0, 3, float("nan")]],
    "far away": [[0, 0, 3, 0, 3, 2.0**21]],
    "a long outline": [[0, 0, 2.0**20, 0] * 3],
    "text": [["0", "0", "3", "0", "3", "3"]],
    "corners in lists": [[[0, 0], [3, 0], [3, 3]]],
}  # fmt: skip


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("name", BAD)
def test_one_at_fault_is_left_to_the_careful_reader(name: str, place: int) -> None:
    rles, _ = made(np.random.default_rng(0), 2)
    given, sizes = rles.copy(), sizes_of(rles)
    given.insert(place, BAD[name])
    sizes.insert(place, (4, 7) if name == "too few pixels" else (4, 6))
    assert read_many(given, sizes) is None


def test_images_that_are_too_large() -> None:
    for size in ((2**15, 2**14), (-4, -6)):
        assert read_many([{"size": [*size], "counts": [size[0] * size[1]]}], [size]) is None


def test_no_masks() -> None:
    read = read_many([], [])
    assert read is not None
    assert not read[0]
    assert not read[1].size


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


@pytest.mark.parametrize("form", ["polygons", "runs"])
def test_more_masks_of_an_image_than_pycocotools_counts_at_once(form: str) -> None:
    corners = [[1.0, 1.0, 9.0, 1.0, 9.0, 9.0]]
    runs = {"size": [20, 20], "counts": np.array([20, 300, 80])}
    masks = [corners if form == "polygons" else runs for _ in range(300)]
    rows = {"masks": masks, "labels": torch.zeros(300, dtype=torch.int64)}
    metric: Any = DetectionAP("coco2017_segm", num_classes=1)
    metric.update([{**rows, "scores": torch.rand(300)}], [{**rows, "image_size": (20, 20)}])
    assert metric.compute()["AR100"] == pytest.approx(1 / 3)
