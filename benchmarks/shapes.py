"""Shapes of data that detectors are validated on, each with a made workload of its own.

All are deterministic. An image has so many detections; a part of them lies around its objects, at a
quality drawn for each, the others are background. Where most of the former overlap their object
too little, they are near-misses, of the right class, which matching has to look at in vain.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from benchmarks.workloads import Floats, Integers, Workload, corners, split

SIDE = 640.0
ONE_BY_ONE, IN_BATCHES = 1, 32


class Shape(NamedTuple):
    """What the images of a workload are like.

    Attributes:
        images: how many there are.
        classes: K; the k-th is about 1 / k as frequent as the first, unless there are few.
        detections: of each image that has any.
        objects: mean number in each image that has any.
        batch: images per ``update``.
        populated: the share of images that have objects, and of those that have detections.
        near: the share of detections that lie around an object.
        quality: the parameters of the beta distribution of how well those are placed.
        extent: mean side of an object in pixels.
    """

    images: int
    classes: int
    detections: int
    objects: float
    batch: int = IN_BATCHES
    populated: tuple[float, float] = (1.0, 1.0)
    near: float = 0.3
    quality: tuple[float, float] = (6.0, 1.5)
    extent: float = 60.0

    def workload(self, name: str, images: int | None = None, seed: int = 0) -> Workload:
        """The workload, or its first steps with fewer ``images``."""
        if images is not None:
            self = self._replace(images=min(images, self.images))  # noqa: PLW0642
        rng = np.random.default_rng(seed)
        image, labels, boxes = self._objects(rng)
        frame, owner = self._detections(rng, image)
        near = owner >= 0
        quality = rng.beta(*self.quality, size=frame.size) * near
        found = np.where(near[:, None], boxes[owner], self._boxes(rng, frame.size))
        found = _displaced(rng, found, np.where(near, quality, 1.0))
        of_class = np.where(near & (rng.random(frame.size) < 0.9), labels[owner], -1)
        of_class = np.where(of_class < 0, self._labels(rng, frame.size), of_class)
        logit = 4 * quality - 3 + rng.normal(0.0, 0.8, frame.size)
        scores = (1 / (1 + np.exp(-logit))).astype(np.float32)
        order = np.lexsort((-scores, frame))
        predictions = split(
            np.bincount(frame, minlength=self.images),
            boxes=corners(found, (SIDE, SIDE))[order],
            scores=scores[order],
            labels=of_class[order],
        )
        targets = split(
            np.bincount(image, minlength=self.images),
            boxes=corners(boxes, (SIDE, SIDE)),
            labels=labels,
            area=boxes[:, 2:].prod(axis=1) * rng.uniform(0.4, 0.95, image.size),
            iscrowd=rng.random(image.size) < 0.01,
        )
        return Workload(name, predictions, targets, self.classes, self.batch)

    def _objects(self, rng: np.random.Generator) -> tuple[Integers, Integers, Floats]:
        """Image, label and box of each object."""
        counts = rng.poisson(self.objects, self.images).clip(1)
        counts *= rng.random(self.images) < self.populated[0]
        counts[0] = max(counts[0], 1)
        image = np.repeat(np.arange(self.images), counts)
        return image, self._labels(rng, image.size), self._boxes(rng, image.size)

    def _detections(
        self, rng: np.random.Generator, image_of_object: Integers
    ) -> tuple[Integers, Integers]:
        """Image of each detection, and the object around which it lies or -1."""
        counts = np.full(self.images, self.detections)
        counts *= rng.random(self.images) < self.populated[1]
        frame = np.repeat(np.arange(self.images), counts)
        objects = np.bincount(image_of_object, minlength=self.images)
        firsts = np.cumsum(objects) - objects
        any_of = (rng.random(frame.size) * objects[frame]).astype(np.int64) + firsts[frame]
        near = (rng.random(frame.size) < self.near) & (objects[frame] > 0)
        return frame, np.where(near, any_of, -1)

    def _labels(self, rng: np.random.Generator, total: int) -> Integers:
        weights = (np.arange(self.classes) + 3.0) ** -1.0
        return rng.choice(self.classes, size=total, p=weights / weights.sum())

    def _boxes(self, rng: np.random.Generator, total: int) -> Floats:
        """Centre, width and height."""
        extent = np.exp(rng.normal(np.log(self.extent), 0.6, size=(total, 2))).clip(4.0, SIDE / 2)
        return np.concatenate([rng.random((total, 2)) * SIDE, extent], axis=1)


def _displaced(rng: np.random.Generator, boxes: Floats, quality: Floats) -> Floats:
    """Boxes shifted and stretched the more, the lower their quality."""
    slack = 0.5 * (1 - quality[:, None])
    shift = rng.normal(0.0, 1.0, size=(boxes.shape[0], 2)) * slack
    stretch = np.exp(rng.normal(0.0, 1.0, size=(boxes.shape[0], 2)) * slack)
    return np.concatenate([boxes[:, :2] + shift * boxes[:, 2:], boxes[:, 2:] * stretch], axis=1)


NEAR_MISSES = Shape(1500, 80, 100, 7, near=0.8, quality=(2.0, 3.5))
SHAPES = {
    "near misses": NEAR_MISSES,
    "near misses, images one by one": NEAR_MISSES._replace(batch=ONE_BY_ONE),
    "few classes, few boxes": Shape(3000, 20, 20, 3),
    "LVIS-like": Shape(1500, 1203, 300, 11, near=0.1, quality=(4.0, 2.0)),
    "crowds of one class": Shape(400, 1, 300, 100, near=0.7, extent=30),
    "aerial": Shape(300, 15, 500, 150, near=0.7, extent=20),
    "mostly empty images": Shape(100_000, 80, 5, 3, populated=(0.05, 0.4)),
    "one image of 10,000 boxes": Shape(1, 80, 10_000, 500, near=0.5, extent=30),
}
