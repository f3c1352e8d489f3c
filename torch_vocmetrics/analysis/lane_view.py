"""One lane of the records: what became of each detection and object there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from ..curves.ranking import image_positions
from ..errors import InputError
from ..ops.ordering import rank_order
from ..ops.selection import rows_where
from ..protocols import DetectionProtocol
from ..records import Records
from .source import records_of


@dataclass(frozen=True, eq=False)
class LaneView:
    """The outcomes of all detections and objects in one lane, on the device of the records.

    Attributes:
        records: the records.
        iou_threshold, area: which lane it is.
        true_positive: [N] bool.
        ignored: [N] bool, detections that count neither as true nor as false positive.
        ground_truth: [N] int64, the row of the matched object, -1 for none.
        counted: [M] bool, objects that count as positives.
    """

    records: Records
    iou_threshold: float
    area: str
    true_positive: Tensor
    ignored: Tensor
    ground_truth: Tensor
    counted: Tensor

    @classmethod
    def of(
        cls, source: Any, iou_threshold: float | None = 0.5, area: str | None = None
    ) -> LaneView:
        """Read a lane.

        Args:
            source: a metric or its records.
            iou_threshold: one of the protocol's; None is the lowest.
            area: name of an area range or subset; None is the headline one.

        Raises:
            InputError: if ``source`` has no records, or the protocol no such lane.
        """
        records = records_of(source)
        lane = records.lane_index(iou_threshold, area)
        outcomes = records.outcomes(lane)
        return cls(
            records,
            records.lanes[lane].iou_threshold,
            records.lanes[lane].area,
            outcomes.true_positive,
            outcomes.ignored,
            outcomes.ground_truth,
            records.counted(lane),
        )

    @property
    def device(self) -> torch.device:
        """Where the records lie."""
        return self.records.device

    @property
    def detection_rules(self) -> DetectionProtocol:
        """The protocol, which must be one of average precision.

        Raises:
            InputError: if it is another one.
        """
        rules = self.records.protocol
        if not isinstance(rules, DetectionProtocol):
            raise InputError(
                "needs a protocol of average precision",
                got=f"{rules.task}/{rules.name}",
                remedy="pass a DetectionAP or its records",
            )
        return rules

    @property
    def class_names(self) -> tuple[str, ...]:
        """K names."""
        return self.records.class_names

    @property
    def num_classes(self) -> int:
        """K."""
        return self.records.num_classes

    @property
    def num_images(self) -> int:
        """I."""
        return self.records.num_images

    @property
    def false_positive(self) -> Tensor:
        """[N] bool: neither true positive nor ignored."""
        return ~(self.true_positive | self.ignored)

    @cached_property
    def num_positives(self) -> Tensor:
        """[K] int64: objects that count."""
        labels = self.records.ground_truths.label.long()[self.counted]
        return torch.bincount(labels, minlength=self.num_classes)

    @cached_property
    def found(self) -> Tensor:
        """[M] bool: objects that count and are matched by a true positive."""
        return self.found_by(self.true_positive)

    def found_by(self, true_positive: Tensor) -> Tensor:
        """[M] bool: the objects that the given true positives [N] match."""
        found = torch.zeros_like(self.counted)
        found[self.ground_truth[true_positive]] = True
        return found

    @cached_property
    def overlap(self) -> Tensor:
        """[N] float32: the overlap with the matched object; 0 without a match."""
        matches = self.records.matches
        lane = self.records.lane_index(self.iou_threshold, self.area)
        here = self.records.in_lane(matches.true_positive | matches.ignored, lane)
        overlap = torch.zeros_like(self.true_positive, dtype=torch.float32)
        overlap[matches.detection[here]] = matches.overlap[here]
        return overlap

    def reaches(self, overlap: Tensor) -> Tensor:
        """[N] bool: overlaps [N] float32 that pass the lane's threshold, as the protocol compares.

        Both sides are float32. An overlap that the protocol found equal to its threshold is so here
        too, and one that is below by less than a rounding counts as equal.
        """
        rules = self.records.protocol
        ceiling = getattr(rules, "iou_threshold_ceiling", self.iou_threshold)
        bar = torch.tensor(min(self.iou_threshold, ceiling), dtype=torch.float32)
        return overlap > bar if getattr(rules, "comparison", ">=") == ">" else overlap >= bar

    def at_least(self, score: float) -> Tensor:
        """[N] bool: scores of ``score`` or more, compared in the type in which they are stored."""
        scores: Tensor = self.records.detections.score
        return scores >= torch.tensor(score, dtype=scores.dtype)

    def falling(self, group: Tensor, num_groups: int, rows: Tensor | None = None) -> Tensor:
        """Rows by group, then falling score, ties as the metric breaks them.

        Ties fall by the ``order`` of detections where it was given, then by image id, then as the
        rows stand.

        Args:
            group: [n] integers in [0, num_groups) of the rows.
            num_groups: how many groups there are.
            rows: [n] int64 detections; all by default.

        Returns:
            [n] int64: which of ``rows`` comes first, second, ...
        """
        detections, ids = self.records.detections, self.records.image_ids
        order, image = self.records.match_records.order, detections.image.long()
        position = image if ids is None else image_positions(ids, self.device)[image]
        score, *ties = (
            column if rows is None or column is None else column[rows]
            for column in (detections.score, order, position)
        )
        assert score is not None
        return rank_order(group, score, ties, num_groups)


def first_of_each(values: Tensor, size: int) -> Tensor:
    """Rows at which each of ``values`` [n] int64 in [0, size) is met first."""
    numbers = torch.arange(values.shape[0], device=values.device)
    first = numbers.new_full((size,), values.shape[0])
    first = first.scatter_reduce_(0, values, numbers, "amin")
    return rows_where(first[values] == numbers)
