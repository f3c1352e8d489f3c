"""What the benchmarks evaluate: a made COCO-shaped set, and real detections on VOC2007.

The made set is deterministic. Objects come in scenes of a few classes of heavy-tailed frequency;
every object that a detector finds draws a cluster of boxes of various quality, some under a
confusable class; the rest of the 100 boxes of an image is background. Scores rise with the overlap
but overlap each other, so that AP lies where real detectors lie.
"""

from __future__ import annotations

import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Image = dict[str, Tensor]

NUM_CLASSES = 80
BOXES_AN_IMAGE = 100
COCO_IMAGES = 5000
SIZE = (640.0, 480.0)  # width, height


class Workload(NamedTuple):
    """Predictions and targets, one dict of tensors an image; boxes are xyxy.

    Attributes:
        batch: images per ``update`` of those who evaluate batches.
    """

    name: str
    predictions: list[Image]
    targets: list[Image]
    num_classes: int
    batch: int = 32

    @property
    def num_detections(self) -> int:
        return sum(one["scores"].shape[0] for one in self.predictions)

    @property
    def num_objects(self) -> int:
        return sum(one["labels"].shape[0] for one in self.targets)

    def batches(self, size: int) -> list[tuple[list[Image], list[Image]]]:
        places = range(0, len(self.predictions), size)
        return [(self.predictions[i : i + size], self.targets[i : i + size]) for i in places]

    def packed(self) -> Packed:
        """The same tensors, all images in one."""
        sides = [
            {
                **{key: torch.cat([one[key] for one in images]) for key in images[0]},
                "counts": [one["labels"].shape[0] for one in images],
            }
            for images in (self.predictions, self.targets)
        ]
        return Packed(self.name, *sides, self.num_classes)


class Packed(NamedTuple):
    """Predictions and targets of all images, one dict of tensors each, with ``counts``."""

    name: str
    predictions: dict[str, Any]
    targets: dict[str, Any]
    num_classes: int


class _Objects(NamedTuple):
    image: Integers
    label: Integers
    boxes: Floats  # centre, width and height
    crowd: NDArray[np.bool_]
    area: Floats


def coco_shaped(images: int = COCO_IMAGES, seed: int = 0) -> Workload:
    """``images`` images of 100 detections and about 7.2 objects each."""
    rng = np.random.default_rng(seed)
    scenes = _scene_classes(rng, images)
    objects = _objects(rng, images, scenes)
    owner, quality = _found(rng, objects)
    room = BOXES_AN_IMAGE - np.bincount(objects.image[owner], minlength=images)
    image = np.concatenate([objects.image[owner], np.repeat(np.arange(images), room)])
    boxes = np.concatenate([_near(rng, objects, owner, quality), _background(rng, room.sum())])
    labels = np.concatenate(
        [_confused(rng, objects.label[owner]), _background_labels(rng, scenes, room)]
    )
    right = np.zeros(image.size, dtype=bool)
    right[: owner.size] = labels[: owner.size] == objects.label[owner]
    overlap = np.zeros(image.size)
    overlap[: owner.size] = _iou(boxes[: owner.size], objects.boxes[owner])
    scores = _scores(rng, overlap, right)
    order = np.lexsort((-scores, image))  # as detectors return them: by falling score
    predictions = split(
        np.full(images, BOXES_AN_IMAGE),
        boxes=corners(boxes)[order],
        scores=scores[order],
        labels=labels[order],
    )
    targets = split(
        np.bincount(objects.image, minlength=images),
        boxes=corners(objects.boxes),
        labels=objects.label,
        area=objects.area,
        iscrowd=objects.crowd,
    )
    return Workload(f"coco_shaped_{images}", predictions, targets, NUM_CLASSES)


def _frequencies() -> Floats:
    """Of classes: the first is a third of all, the last some hundredths of a percent."""
    weights = (np.arange(NUM_CLASSES) + 1.0) ** -1.1
    return weights / weights.sum()


def _scene_classes(rng: np.random.Generator, images: int) -> Integers:
    """[images, 4] classes that occur in an image, some of them twice."""
    return rng.choice(NUM_CLASSES, size=(images, 4), p=_frequencies())


def _objects(rng: np.random.Generator, images: int, scenes: Integers) -> _Objects:
    counts = np.minimum(rng.negative_binomial(1.25, 1.25 / (1.25 + 7.35), size=images), 60)
    image = np.repeat(np.arange(images), counts)
    total = image.size
    # The first class of a scene makes half of its objects.
    which = np.minimum(rng.geometric(0.5, size=total) - 1, scenes.shape[1] - 1)
    label = scenes[image, which]
    crowd = rng.random(total) < 0.011
    side = np.exp(rng.normal(3.95, 1.0, size=total)) * np.where(crowd, 3.0, 1.0)
    ratio = np.exp(rng.normal(0.0, 0.45, size=total))
    extent = np.stack([side * ratio, side / ratio], axis=1).clip(3.0, [w * 0.98 for w in SIZE])
    centre = rng.random((total, 2)) * (np.array(SIZE) - extent) + extent / 2
    area = extent.prod(axis=1) * rng.uniform(0.35, 0.95, size=total)
    return _Objects(image, label, np.concatenate([centre, extent], axis=1), crowd, area)


def _found(rng: np.random.Generator, objects: _Objects) -> tuple[Integers, Floats]:
    """Of which object each box of a cluster is, and how well it is placed (0 .. 1)."""
    size = np.sqrt(objects.boxes[:, 2] * objects.boxes[:, 3])
    missed = rng.random(size.size) < 0.05 + 0.4 * np.exp(-size / 25)
    count = np.where(missed, rng.integers(0, 2, size.size), 1 + rng.poisson(4.5, size.size))
    owner = np.repeat(np.arange(size.size), count)
    image = objects.image[owner]
    place = np.arange(owner.size) - np.searchsorted(image, image)
    owner = owner[place < BOXES_AN_IMAGE - 10]
    ease = np.clip(rng.beta(7.0, 1.6, size.size) * (1 - 0.35 * np.exp(-size / 40)), 0, 1)
    return owner, np.clip(ease[owner] * rng.beta(7.0, 1.2, size=owner.size), 0.0, 0.99)


def _near(rng: np.random.Generator, objects: _Objects, owner: Integers, quality: Floats) -> Floats:
    """Boxes shifted and stretched the more, the lower their quality."""
    boxes = objects.boxes[owner]
    slack = 0.4 * (1 - quality[:, None])
    shift = rng.normal(0.0, 1.0, size=(owner.size, 2)) * slack * 0.6
    stretch = np.exp(rng.normal(0.0, 1.0, size=(owner.size, 2)) * slack)
    extent = boxes[:, 2:]
    return np.concatenate([boxes[:, :2] + shift * extent, extent * stretch], axis=1)


def _background(rng: np.random.Generator, total: int) -> Floats:
    side = np.exp(rng.normal(4.0, 1.1, size=total))
    ratio = np.exp(rng.normal(0.0, 0.5, size=total))
    extent = np.stack([side * ratio, side / ratio], axis=1).clip(2.0, SIZE)
    return np.concatenate([rng.random((total, 2)) * np.array(SIZE), extent], axis=1)


def _confused(rng: np.random.Generator, label: Integers) -> Integers:
    """Mostly the true class; else a neighbour among five, or any."""
    draw = rng.random(label.size)
    near = label - label % 5 + rng.integers(0, 5, size=label.size)
    anything = rng.integers(0, NUM_CLASSES, size=label.size)
    return np.where(draw < 0.72, label, np.where(draw < 0.94, near, anything))


def _background_labels(rng: np.random.Generator, scenes: Integers, room: Integers) -> Integers:
    """A third is of the scene's classes, the others as frequent as objects or uniform."""
    total = int(room.sum())
    draw = rng.random(total)
    image = np.repeat(np.arange(room.size), room)
    of_scene = scenes[image, rng.integers(0, scenes.shape[1], size=total)]
    frequent = rng.choice(NUM_CLASSES, size=total, p=_frequencies())
    uniform = rng.integers(0, NUM_CLASSES, size=total)
    return np.where(draw < 0.33, of_scene, np.where(draw < 0.66, frequent, uniform))


def _scores(
    rng: np.random.Generator, overlap: Floats, right: NDArray[np.bool_]
) -> NDArray[np.float32]:
    logit = -3.6 + 5.6 * overlap * np.where(right, 1.0, 0.55) + rng.normal(0.0, 0.9, overlap.size)
    return (1 / (1 + np.exp(-logit))).astype(np.float32)


def corners(boxes: Floats, size: tuple[float, float] = SIZE) -> NDArray[np.float32]:
    """xyxy inside the image, at least a pixel wide and high."""
    low = np.clip(boxes[:, :2] - boxes[:, 2:] / 2, 0.0, np.array(size) - 1)
    high = np.clip(boxes[:, :2] + boxes[:, 2:] / 2, low + 1, size)
    return np.concatenate([low, high], axis=1).astype(np.float32)


def _iou(first: Floats, second: Floats) -> Floats:
    low = np.maximum(first[:, :2] - first[:, 2:] / 2, second[:, :2] - second[:, 2:] / 2)
    high = np.minimum(first[:, :2] + first[:, 2:] / 2, second[:, :2] + second[:, 2:] / 2)
    inter = np.clip(high - low, 0, None).prod(axis=1)
    return inter / (first[:, 2:].prod(axis=1) + second[:, 2:].prod(axis=1) - inter)


def split(counts: Integers, **columns: NDArray[np.generic]) -> list[Image]:
    """One dict an image; every tensor has memory of its own, as a model's outputs have."""
    parts = {
        name: torch.from_numpy(np.ascontiguousarray(values)).split(counts.tolist())
        for name, values in columns.items()
    }
    return [{name: one[i].clone() for name, one in parts.items()} for i in range(counts.size)]


# Real detections ----------------------------------------------------------------------------------

VOC_RESULTS = "yolov2_htt1084_260ep"


def shared_data() -> Path | None:
    """The real data: in ``VOCMETRICS_SHARED``, or beside the checkout; None if there are none."""
    named = os.environ.get("VOCMETRICS_SHARED")
    root = Path(named) if named else Path(__file__).resolve().parents[2] / "shared"
    data = root / "data"
    return data if (data / "voc2007_test_detections").is_dir() else None


def voc2007_detections() -> Workload | None:
    """A detector's results on VOC2007 test: float64 scores, ties in file order; None if absent."""
    from torch_vocmetrics import io  # noqa: PLC0415 - the made set needs no reader
    from torch_vocmetrics.protocols import load_dataset  # noqa: PLC0415

    data = shared_data()
    if data is None:
        return None
    names = load_dataset("voc2007").class_names
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for archive in (
            data / "voc_annotations" / "VOC2007_test_Annotations.zip",
            data / "voc_annotations" / "VOC2007_ImageSets.zip",
            data / "voc2007_test_detections" / f"{VOC_RESULTS}.zip",
        ):
            with zipfile.ZipFile(archive) as opened:
                opened.extractall(folder)
        truth = io.read_voc_ground_truths(folder / "VOC2007", "test", class_names=names)
        pattern = str(folder / VOC_RESULTS / "comp4_det_test_{class}.txt")
        found = io.read_voc_detections(io.find_results(pattern, names), truth)
    keys = {"boxes", "labels", "difficult"}
    targets = [{key: one[key] for key in keys} for one in truth.targets]
    return Workload("voc2007_test", list(found.predictions), targets, len(names))
