"""Counts for CrowdHuman's Jaccard index: the best one-to-one matching at several score limits.

It runs on the host. Detections of an image join one after the other by falling score, and after
each the matching is the best for those that have joined; so one pass serves all score limits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor


def jaccard_counts(
    *,
    image: Tensor,
    scores: Tensor,
    in_region: Tensor,
    object_image: Tensor,
    object_counts: Tensor,
    object_in_region: Tensor,
    detection: Tensor,
    ground_truth: Tensor,
    overlap: Tensor,
    score_limits: tuple[float, ...],
    num_images: int,
) -> Tensor:
    """Matches, detections and objects that take part, per image and score limit.

    Args:
        image, scores, in_region: [N] of detections, by image and falling score; whether an ignore
            region holds more than half of one.
        object_image, object_counts, object_in_region: [M] likewise of objects; only those that
            count are matched.
        detection, ground_truth, overlap: [E] the pairs that may be matched, by detection.
        score_limits: only detections above a limit take part.
        num_images: I.

    Returns:
        [I, L, 3] int32. Unmatched detections and objects inside an ignore region are left out.
    """
    values = scores.double().cpu().numpy()
    images, regions = image.cpu().numpy(), in_region.cpu().numpy()
    counting = object_counts.cpu().numpy()
    object_images, hidden = object_image.cpu().numpy(), object_in_region.cpu().numpy() & counting
    counts = np.zeros((num_images, len(score_limits), 3), dtype=np.int64)
    objects = np.bincount(object_images[counting], minlength=num_images)
    for level, limit in enumerate(score_limits):
        # Without any match: all that ignore regions do not hold.
        counts[:, level, 1] = np.bincount(images[(values > limit) & ~regions], minlength=num_images)
        counts[:, level, 2] = objects - np.bincount(object_images[hidden], minlength=num_images)
    edges: dict[int, list[tuple[int, float]]] = {}
    columns = (detection.tolist(), ground_truth.tolist(), overlap.tolist())
    for d, g, value in zip(*columns, strict=True):
        edges.setdefault(d, []).append((g, value))
    by_image: dict[int, list[int]] = {}
    for d in edges:
        by_image.setdefault(int(images[d]), []).append(d)
    for index, rows in by_image.items():
        _count_matches(counts[index], rows, edges, values, regions, hidden, score_limits)
    return torch.from_numpy(counts.astype(np.int32))


def _count_matches(
    counts: np.ndarray,
    rows: list[int],
    edges: dict[int, list[tuple[int, float]]],
    values: np.ndarray,
    regions: np.ndarray,
    hidden: np.ndarray,
    score_limits: tuple[float, ...],
) -> None:
    """Add the matches of one image to its counts [L, 3]."""
    assignment = Assignment()
    joined = 0
    for level in reversed(range(len(score_limits))):
        while joined < len(rows) and values[rows[joined]] > score_limits[level]:
            assignment.add(rows[joined], edges[rows[joined]])
            joined += 1
        pairs = assignment.pairs()
        counts[level, 0] = len(pairs)
        # A matched one takes part although a region holds it.
        counts[level, 1] += sum(bool(regions[d]) for d in pairs)
        counts[level, 2] += sum(bool(hidden[g]) for g in pairs.values())


class Assignment:
    """The one-to-one matching of largest total overlap, for rows that join one by one.

    Kuhn's method as Munkres wrote it. A row may stay without an object at cost 0, so that each has
    a index of its own to go to.
    """

    def __init__(self) -> None:
        self._edges: dict[int, list[tuple[int, float]]] = {}
        self._row_price: dict[int, float] = {}
        self._place_price: dict[int, float] = {}
        self._owner: dict[int, int] = {}

    def add(self, row: int, edges: list[tuple[int, float]]) -> None:
        """Let a row join; ``edges`` are (object, overlap) by rising object."""
        # The index without an object is a negative number, after all objects in order.
        self._edges[row] = [(index, -overlap) for index, overlap in edges] + [(-1 - row, 0.0)]
        self._row_price[row] = 0.0
        least: dict[int, float] = {}
        before: dict[int, int | None] = {}
        visited: list[int] = []
        current, last = row, None
        while True:
            for index, cost in self._edges[current]:
                if index in visited:
                    continue
                price = cost - self._row_price[current] - self._place_price.get(index, 0.0)
                if price < least.get(index, math.inf):
                    least[index], before[index] = price, last
            free = [index for index in least if index not in visited]
            nearest = min(free, key=lambda index: (least[index], _turn(index)))
            step = least[nearest]
            self._row_price[row] += step
            for index in visited:
                self._row_price[self._owner[index]] += step
                self._place_price[index] = self._place_price.get(index, 0.0) - step
            for index in free:
                least[index] -= step
            last = nearest
            if nearest not in self._owner:
                break
            visited.append(nearest)
            current = self._owner[nearest]
        self._shift(row, last, before)

    def _shift(self, row: int, last: int | None, before: dict[int, int | None]) -> None:
        """Move owners along the way that was found."""
        while last is not None:
            previous = before[last]
            self._owner[last] = row if previous is None else self._owner[previous]
            last = previous

    def pairs(self) -> dict[int, int]:
        """The object of each row that has one."""
        return {row: index for index, row in _objects(self._owner.items())}


def _turn(index: int) -> tuple[bool, int]:
    """Objects come first, by number, then indices without an object, by row."""
    return index < 0, abs(index)


def _objects(owners: Iterable[tuple[int, int]]) -> Iterable[tuple[int, int]]:
    return ((index, row) for index, row in owners if index >= 0)
