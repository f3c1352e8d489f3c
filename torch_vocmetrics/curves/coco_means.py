"""Precision at recall levels as a result of COCO needs it: its means, and dense arrays on demand.

The numbers of a result are means over the largest limit of detections. The dense arrays, of all
limits and with scores, are several times the work and the memory, and mostly nobody reads them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..host_work import host_work
from ..protocols import DetectionProtocol
from ..transfer import rows_at_once
from .coco import AtLargestLimit, Interpolated, at_largest_limit, interpolate
from .ranking import Ranker, Ranking

BLOCK_ROWS = 2**15
CLASS_ROWS = 2**7
"""Detections whose curves are read together, and what a class adds to its detections."""


class Means(NamedTuple):
    """Mean precision over classes with positives: [A], [A, T], and of each class [K]."""

    by_area: NDArray[np.float64]
    by_threshold: NDArray[np.float64]
    by_class: NDArray[np.float64]


def mean_precisions(
    precision: NDArray[np.float64], defined: NDArray[np.bool_], headline: int
) -> Means:
    """Means of ``precision`` [R, A, T, K] over ``defined`` [A, K], added as COCOeval adds them.

    Those of each class are of the area range ``headline``.
    """
    _, A, T, K = precision.shape
    means = Means(*(np.full(shape, math.nan) for shape in ((A,), (A, T), (K,))))
    for area, classes in enumerate(defined):
        if not classes.any():
            continue
        curves = precision[:, area] if classes.all() else precision[:, area][..., classes]
        flat = np.ascontiguousarray(curves.transpose(1, 0, 2)).reshape(T, -1)
        means.by_area[area] = flat.ravel().mean()
        means.by_threshold[area] = flat.mean(axis=1)
        if area == headline:
            of_class = np.ascontiguousarray(curves.transpose(2, 1, 0))
            means.by_class[classes] = of_class.reshape(of_class.shape[0], -1).mean(axis=1)
    return means


def read_curves(
    protocol: DetectionProtocol, ranker: Ranker, grid: Grid | None = None
) -> AtLargestLimit:
    """What the numbers need, block by block; ``grid`` takes what makes the dense arrays."""
    A, T, K = len(protocol.area_ranges), len(protocol.iou_thresholds), ranker.num_classes
    M, R = len(protocol.max_detections) or 1, len(protocol.recall_levels)

    def empty(dtype: torch.dtype, *shape: int) -> Tensor:
        return torch.empty(shape, dtype=dtype, device=ranker.device)

    read = AtLargestLimit(
        precision=empty(torch.float64, R, A, T, K),
        true_positives=empty(torch.int64, A, M, T, K),
        false_positives=empty(torch.int64, A, T, K),
    )
    together = rows_at_once(ranker.device, BLOCK_ROWS)
    for classes in ranker.blocks(together, CLASS_ROWS):
        ranking = ranker.ranked(classes)
        if grid is not None and grid.is_made:
            grid.fill(classes, ranking, read)
            continue
        most = max(together * A // max(ranking.scores.shape[0], 1), 1)
        for areas in (range(first, min(first + most, A)) for first in range(0, A, most)):
            block = at_largest_limit(ranking, areas, protocol)
            rows, columns = slice(areas.start, areas.stop), slice(classes.start, classes.stop)
            read.precision[:, rows, :, columns] = block.precision
            read.true_positives[rows, ..., columns] = block.true_positives
            read.false_positives[rows, :, columns] = block.false_positives
        if grid is not None:
            grid.add(classes, ranking)
    return read


class Grid:
    """The dense arrays of a result, or the rankings from which they are made.

    Rankings are kept only where they are smaller than the arrays, and on the host.
    """

    def __init__(self, protocol: DetectionProtocol, ranker: Ranker) -> None:
        self._protocol, self._score_dtype = protocol, ranker.score_dtype
        levels, limits = len(protocol.recall_levels), len(protocol.max_detections) or 1
        self._shape = (
            levels,
            len(protocol.area_ranges),
            limits,
            len(protocol.iou_thresholds),
            ranker.num_classes,
        )
        self._rankings: list[tuple[range, Ranking]] = []
        self._arrays: Interpolated | None = None
        self._device = ranker.device
        # Where rankings take more, the numbers are read from the arrays, in one pass.
        if ranker.device.type != "cpu" or ranker.ranking_bytes > self._array_bytes:
            self._make()

    @classmethod
    def of(cls, arrays: Interpolated) -> Grid:
        """Of arrays that are made."""
        grid = cls.__new__(cls)
        grid._arrays, grid._rankings = arrays, []
        return grid

    @property
    def arrays(self) -> Interpolated:
        """Both dense arrays, [R, A, M, T, K]."""
        return self._make() if self._arrays is None else self._arrays

    @property
    def is_made(self) -> bool:
        """Whether the arrays are there, to be filled."""
        return self._arrays is not None

    @property
    def _array_bytes(self) -> int:
        return math.prod(self._shape) * (torch.float64.itemsize + self._score_dtype.itemsize)

    def add(self, classes: range, ranking: Ranking) -> None:
        """Take the detections of some more classes, before the arrays are made."""
        self._rankings.append((classes, ranking))
        if sum(one.num_bytes for _, one in self._rankings) > self._array_bytes:
            self._make()

    @host_work()
    def array(self, name: str) -> Tensor:
        """``precision`` or ``scores`` as COCOeval has them, [T, R, K, A, M] on the host."""
        values: Tensor = getattr(self.arrays, name)
        return values.permute(3, 0, 4, 1, 2).cpu()

    def _make(self) -> Interpolated:
        """Make the arrays; the rankings are not needed any more."""
        arrays = Interpolated(
            *(
                torch.empty(self._shape, dtype=dtype, device=self._device)
                for dtype in (torch.float64, self._score_dtype)
            )
        )
        for classes, ranking in self._rankings:
            self._fill(arrays, classes, ranking)
        self._arrays, self._rankings = arrays, []
        return arrays

    def fill(self, classes: range, ranking: Ranking, read: AtLargestLimit) -> None:
        """Fill in some classes, in the arrays and in ``read``."""
        self._fill(self.arrays, classes, ranking, read)

    def _fill(
        self,
        arrays: Interpolated,
        classes: range,
        ranking: Ranking,
        read: AtLargestLimit | None = None,
    ) -> None:
        _, num_areas, num_limits, *_ = self._shape
        most = rows_at_once(ranking.scores.device, BLOCK_ROWS)
        together = most * num_areas // max(ranking.scores.shape[0], 1)
        of_classes = slice(classes.start, classes.stop)
        for areas, limits in _portions(num_areas, num_limits, together):
            block, counts = interpolate(ranking, areas, limits, self._protocol)
            rows = slice(areas.start, areas.stop), slice(limits.start, limits.stop)
            for whole, part in zip(arrays, block, strict=True):
                whole[:, rows[0], rows[1], :, of_classes] = part
            if read is None:
                continue
            read.true_positives[(*rows, ..., of_classes)] = counts.true_positives
            if limits.stop == num_limits:
                last = block.precision[:, :, -1]
                read.precision[:, rows[0], :, of_classes] = last
                read.false_positives[rows[0], :, of_classes] = counts.false_positives[:, -1]


def _portions(num_areas: int, num_limits: int, most: int) -> list[tuple[range, range]]:
    """All area ranges and limits; of large classes fewer at once, whose curves need less memory."""
    areas, limits = range(num_areas), range(num_limits)
    if most >= num_areas * num_limits:
        return [(areas, limits)]
    if most >= num_limits:
        return [(areas[i : i + 1], limits) for i in areas]
    return [(areas[i : i + 1], limits[j : j + 1]) for i in areas for j in limits]
