"""Some classes of match records: their rows are slices of the columns of each part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from ..lanes import Lanes, column
from ..ops.sums import sums_before
from .records import DETECTION_COLUMNS, MATCH_COLUMNS, MatchRecords

RANKED_DETECTIONS = ("image", "score", "out_of_range", "order")
RANKED_MATCHES = ("match_detection", "match_true_positive", "match_ignored")
MATCH_INDEX = RANKED_MATCHES[0]
"""What ranking reads of detections and of matches."""


class ClassSlices:
    """The rows of parts of records, class by class.

    Args:
        parts: of records, one part after the other; at least one.

    Attributes:
        detections, matches: [P, K] int64 on the CPU, rows of each part and class.
        detection_starts, match_starts: [P, K + 1] int64, where these begin, and the end.
    """

    def __init__(self, parts: Sequence[MatchRecords]) -> None:
        self._parts = parts
        self.detections = torch.stack([part.class_counts for part in parts]).cpu()
        self.detection_starts = sums_before(self.detections)
        self.match_starts = torch.stack(
            [
                torch.searchsorted(getattr(part, MATCH_INDEX), starts.to(part.device)).cpu()
                for part, starts in zip(parts, self.detection_starts, strict=True)
            ]
        )
        self.matches = self.match_starts.diff(dim=1)
        self._images = list(accumulate((part.num_images for part in parts), initial=0))

    @property
    def has_order(self) -> bool:
        """Whether detections have an ``order``."""
        return any(part.order is not None for part in self._parts if part.num_detections)

    @property
    def score_dtype(self) -> torch.dtype:
        """The type of scores that holds those of all parts."""
        dtypes = [part.score.dtype for part in self._parts]
        return torch.float64 if torch.float64 in dtypes else dtypes[0]

    def column(self, name: str, order: Sequence[int], runs: Sequence[Sequence[int]]) -> Tensor:
        """A column on the CPU, the classes one after the other, of each class part after part.

        Rows of images are counted over all parts; rows of detections from the start of the run.

        Args:
            name: of the column.
            order: the classes.
            runs: the same classes, in runs of which each is to be a table of its own.
        """
        of_matches = name in MATCH_COLUMNS
        starts = (self.match_starts if of_matches else self.detection_starts).tolist()
        shifts = self._shifts(runs) if name == MATCH_INDEX else None
        columns = [self._renumbered(name, number, shifts) for number in range(len(self._parts))]
        pieces = [
            column[first[label] : first[label + 1]]
            for label in order
            for column, first in zip(columns, starts, strict=True)
        ]
        return torch.cat(pieces)

    def _renumbered(self, name: str, number: int, shifts: Tensor | None) -> Tensor:
        column: Tensor | None = getattr(self._parts[number], name)
        if column is None:  # of a part without detections
            return torch.zeros(0, dtype=torch.int64)
        column = column.cpu()
        if name == "image":
            return column + self._images[number]
        if shifts is None:
            return column
        return column + shifts[number].repeat_interleave(self.matches[number])

    def _shifts(self, runs: Sequence[Sequence[int]]) -> Tensor:
        """[P, K] int64: what makes rows of a part and class count from the start of their run."""
        shifts = torch.zeros_like(self.detections)
        for run in runs:
            rows = self.detections[:, run].t()  # by class, then by part
            before = sums_before(rows.flatten())[:-1].reshape(rows.shape).t()
            shifts[:, run] = before - self.detection_starts[:, :-1][:, run]
        return shifts


def starts_of_classes(records: MatchRecords) -> dict[str, list[int]]:
    """Rows at which the classes begin in a column of detections or matches, and their end."""
    slices = ClassSlices([records])
    starts = dict.fromkeys(DETECTION_COLUMNS, slices.detection_starts[0].tolist())
    starts |= dict.fromkeys(MATCH_COLUMNS, slices.match_starts[0].tolist())
    return {name: rows for name, rows in starts.items() if getattr(records, name) is not None}


def positives_of_classes(records: MatchRecords, lanes: Lanes, num_classes: int) -> Tensor:
    """[A, K] int64: ground truths that count, by area range and class."""
    label = records.ground_truth_label.long()
    none = torch.zeros(num_classes, dtype=torch.int64, device=label.device)
    counted = records.ground_truth_counted
    indices = [lanes.position(area, 0) for area in range(lanes.num_areas)]
    return torch.stack([none.index_add(0, label, column(counted, at).long()) for at in indices])


def classes_of_images(
    columns: Mapping[str, Tensor],
    class_counts: Tensor,
    num_images: int,
    ground_truths: Mapping[str, Tensor] | None = None,
) -> MatchRecords:
    """Records of some classes, of images about which nothing else is known.

    Args:
        columns: :data:`RANKED_DETECTIONS` and :data:`RANKED_MATCHES`; if empty, no detections.
        class_counts: [K] int64 detections of each class.
        num_images: I.
        ground_truths: their columns; None for none.
    """
    none = MatchRecords.empty(Lanes(1, 1), 0)
    sizes = torch.full((1, 2), -1, dtype=torch.int32).expand(num_images, 2)
    known: dict[str, Any] = {**(ground_truths or {}), **columns}
    if columns and "match_overlap" not in columns:  # what ranking does not read
        matches = columns[MATCH_INDEX].shape[0]
        known["match_ground_truth"] = none.match_ground_truth.new_zeros(1).expand(matches)
        known["match_overlap"] = none.match_overlap.new_zeros(1).expand(matches)
    return replace(none, image_sizes=sizes, class_counts=class_counts, **known)
