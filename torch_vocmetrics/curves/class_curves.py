"""Curves of some classes: what classes are computed apart for, and put together afterwards.

Classes do not know of each other until their mean is taken. So they can be computed on several
ranks, or one after the other from files, and give the bits of one pass over all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import chain
from typing import NamedTuple, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import StateError
from ..protocols import DetectionProtocol
from ..results import PrecisionRecallCurve, as_tensor
from ..transfer import rows_at_once, to_host
from .averages import average_of
from .coco import Interpolated
from .coco_means import Grid, read_curves
from .precision_recall import cumulative_counts, precision_recall
from .ranking import Ranker, Ranking

BLOCK_ROWS = 2**17
"""Detections that are ranked together: few operations, and little memory for each."""
DETAIL_BYTES = 2**26
"""Whole curves of classes that were computed apart are kept if they take at most so many bytes."""

Details = Grid | tuple[tuple[PrecisionRecallCurve, ...], ...]


@dataclass(frozen=True, eq=False)
class ClassCurves:
    """Curves of K classes under a detection protocol.

    Attributes:
        numbers: tensors on the host whose last axis is the class: ``num_detections`` [K] int64;
            under VOC's protocols ``average_precision`` [T, K] float64, ``true_positives`` and
            ``false_positives`` [T, K] int64; under COCO's the fields of
            :class:`AtLargestLimit <torch_vocmetrics.curves.coco.AtLargestLimit>`.
        details: the whole curves, ``[t][k]`` under VOC's protocols; None where they were not kept.
    """

    numbers: Mapping[str, Tensor]
    details: Details | None

    @classmethod
    def joined(cls, parts: Sequence[ClassCurves], order: Sequence[int]) -> ClassCurves:
        """The classes of all parts, one part after the other, then in the ``order`` [K]."""
        rows = torch.tensor(order, dtype=torch.int64, device="cpu")
        numbers = {
            name: torch.cat([part.numbers[name] for part in parts], dim=-1).index_select(-1, rows)
            for name in parts[0].numbers
        }
        return cls(numbers, _joined_details([part.details for part in parts], rows))

    def columns(self) -> dict[str, dict[str, Tensor]]:
        """As named tensors on the host, which can travel; :meth:`read` is the inverse."""
        return {"numbers": dict(self.numbers), "details": _plain_details(self.details)}

    @classmethod
    def read(cls, columns: Mapping[str, Mapping[str, Tensor]]) -> ClassCurves:
        """What :meth:`columns` made plain."""
        return cls(columns["numbers"], _read_details(columns["details"]))


def class_curves(
    protocol: DetectionProtocol, ranker: Ranker, *, details: bool = True
) -> ClassCurves:
    """Curves of the classes of a ranker; ``details`` says whether the whole curves are kept."""
    if protocol.interpolation == "recall_grid":
        grid = Grid(protocol, ranker) if details else None
        read = read_curves(protocol, ranker, grid)
        columns = read._asdict() | {"num_detections": ranker.class_counts}
        numbers = dict(zip(columns, to_host([*columns.values()]), strict=True))
        return ClassCurves(numbers, grid)
    classes = list[_OneClass]()
    for block in ranker.blocks(rows_at_once(ranker.device, BLOCK_ROWS)):
        classes += _classes_of(protocol, ranker.ranked(block), details=details)
    numbers = {
        "average_precision": as_tensor(np.array([one.averages for one in classes]).T),
        "true_positives": as_tensor(np.stack([one.true_positives for one in classes], axis=1)),
        "false_positives": as_tensor(np.stack([one.false_positives for one in classes], axis=1)),
        "num_detections": ranker.class_counts.cpu(),
    }
    curves = tuple(zip(*(one.curves for one in classes), strict=True))
    return ClassCurves(numbers, curves if details else None)


def detail_bytes(
    protocol: DetectionProtocol, num_classes: int, num_detections: int, score_dtype: torch.dtype
) -> int:
    """Memory of the whole curves of all classes."""
    number = torch.float64.itemsize
    if protocol.interpolation == "recall_grid":
        axes = (protocol.recall_levels, protocol.area_ranges, protocol.iou_thresholds)
        limits = len(protocol.max_detections) or 1
        entries = math.prod(map(len, axes)) * limits * num_classes
        return entries * (number + score_dtype.itemsize)
    each = 2 * number + score_dtype.itemsize
    return len(protocol.iou_thresholds) * num_detections * each


class NotKept(tuple[tuple[PrecisionRecallCurve, ...], ...]):
    """Stands for the curves of a result that has its numbers only: reading it raises."""

    __slots__ = ()

    def __getitem__(self, _: object) -> NoReturn:
        raise not_kept("curves")

    def __iter__(self) -> NoReturn:
        raise not_kept("curves")

    def __len__(self) -> NoReturn:
        raise not_kept("curves")


def not_kept(name: str) -> StateError:
    """What to raise where the whole curves of a large result are asked for."""
    return StateError(
        f"the whole curves take more than {DETAIL_BYTES >> 20} MiB, so that a result whose classes "
        "were computed apart has its numbers only",
        where=name,
        remedy='use compute(shard_by="none"), or read the state files one by one with load_state '
        "and merge them",
    )


# VOC ----------------------------------------------------------------------------------------------


class _OneClass(NamedTuple):
    """One class under a VOC protocol, an entry per IoU threshold; counts [T] after the last row."""

    curves: tuple[PrecisionRecallCurve, ...]
    averages: list[float]
    true_positives: NDArray[np.int64]
    false_positives: NDArray[np.int64]


def _classes_of(
    protocol: DetectionProtocol, ranking: Ranking, *, details: bool
) -> Iterator[_OneClass]:
    starts, scores = ranking.class_starts.tolist(), ranking.scores.cpu()
    npos = ranking.num_positives[protocol.headline_index].tolist()
    counts = cumulative_counts(ranking, protocol.headline_index)
    for k in range(ranking.num_classes):
        part = slice(starts[k], starts[k + 1])
        true, false = counts.true_positives[:, part], counts.false_positives[:, part]
        curves, averages = [], []
        for row in range(len(protocol.iou_thresholds)):
            recall, precision = precision_recall(true[row], false[row], npos[k])
            if details:
                curves.append(
                    PrecisionRecallCurve(as_tensor(recall), as_tensor(precision), scores[part])
                )
            averages.append(
                average_of(recall, precision, protocol.interpolation, protocol.recall_levels)
                if ranking.num_images
                else math.nan
            )
        totals = (n[:, -1] if n.shape[1] else np.zeros(len(n), np.int64) for n in (true, false))
        yield _OneClass(tuple(curves), averages, *totals)


def _joined_details(parts: Sequence[Details | None], rows: Tensor) -> Details | None:
    """The whole curves of the classes ``rows`` [K] of all parts; None if a part has none."""
    if any(part is None for part in parts):
        return None
    if grids := [part for part in parts if isinstance(part, Grid)]:
        columns = zip(*(grid.arrays for grid in grids), strict=True)
        return Grid.of(
            Interpolated(*(torch.cat(c, dim=-1).index_select(-1, rows) for c in columns))
        )
    curves = [part for part in parts if isinstance(part, tuple)]
    by_threshold = (tuple(chain(*row)) for row in zip(*curves, strict=True))
    return tuple(tuple(row[k] for k in rows.tolist()) for row in by_threshold)


def _plain_details(details: Details | None) -> dict[str, Tensor]:
    """The whole curves as named tensors; ``rows`` [T, K] are the lengths of curves."""
    if details is None:
        return {}
    if isinstance(details, Grid):
        return {name: one.cpu() for name, one in details.arrays._asdict().items()}
    names = [one.name for one in fields(PrecisionRecallCurve)]
    lengths = [[len(curve.scores) for curve in row] for row in details]
    columns = {
        name: torch.cat([getattr(curve, name) for row in details for curve in row])
        for name in names
    }
    return {"rows": torch.tensor(lengths, device="cpu"), **columns}


def _read_details(columns: Mapping[str, Tensor]) -> Details | None:
    """Inverse of :func:`_plain_details`."""
    if not columns:
        return None
    if "rows" not in columns:
        return Grid.of(Interpolated(**columns))
    names = [one.name for one in fields(PrecisionRecallCurve)]
    lengths = columns["rows"].flatten().tolist()
    pieces = zip(*(torch.split(columns[name], lengths) for name in names), strict=True)
    curves = [PrecisionRecallCurve(*piece) for piece in pieces]
    width = columns["rows"].shape[1]
    return tuple(tuple(curves[t : t + width]) for t in range(0, len(curves), width))
