"""What a metric has recorded of its matches, as tables with named columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from .errors import InputError
from .lanes import BITS, Lanes, column, in_area, lanes_of_areas
from .protocols import DetectionProtocol, LayoutProtocol, MissRateProtocol
from .ragged import Ids, index_in_image
from .results.table import Table
from .tables.records import MatchRecords

if TYPE_CHECKING:
    import pandas

RecordProtocol = DetectionProtocol | MissRateProtocol | LayoutProtocol


class Lane(NamedTuple):
    """One pair of an area range (or subset) and an IoU threshold; one bit of lane columns.

    Attributes:
        area: name of the area range, or of the subset.
        iou_threshold: the overlap that a match needs.
    """

    area: str
    iou_threshold: float


class _LaneTable(Table):
    """Columns of equal length; an optional column that was not kept is None."""

    def columns(self) -> dict[str, Sequence[Any] | Tensor]:
        """The columns that were kept; lane columns are one column for each word."""
        columns: dict[str, Sequence[Any] | Tensor] = {}
        for name, values in super().columns().items():
            if not isinstance(values, Tensor) or values.dim() == 1:
                columns[name] = values
            elif values.shape[1] == 1:
                columns[name] = values[:, 0]
            else:
                columns |= {f"{name}_{n}": values[:, n] for n in range(values.shape[1])}
        return columns


@dataclass(frozen=True, eq=False)
class ImageTable(_LaneTable):
    """The I images.

    Attributes:
        height, width: [I] int32 pixels, -1 where unknown.
    """

    height: Tensor
    width: Tensor


@dataclass(frozen=True, eq=False)
class GroundTruthTable(_LaneTable):
    """The M ground truths, in the order in which they came.

    Attributes:
        image: [M] int32 row of the image.
        index: [M] int64 row in its image.
        label: [M] int32 class index.
        area: [M] float64 square pixels, as the protocol takes it.
        counted: [M, words] int64 lanes in which it counts; in the others it is ignored.
    """

    image: Tensor
    index: Tensor
    label: Tensor
    area: Tensor
    counted: Tensor


@dataclass(frozen=True, eq=False)
class DetectionTable(_LaneTable):
    """The N detections, by class, image and falling score.

    Detections beyond the largest limit of an image are not recorded.

    Attributes:
        image: [N] int32 row of the image.
        label: [N] int64 class index.
        score: [N] float32 or float64.
        out_of_range: [N, words] int64 lanes in which the detection is ignored without a match.
        index: [N] int32 row in its image as it came.
        best_overlap, best_other_overlap: [N] float32 largest overlap with a ground truth of the
            same class, or of any other class; 0 without any. Ground truths that a flag excuses
            (crowd, difficult, ignore) are left out.
        best_ground_truth, best_other_ground_truth: [N] int32 rows of these ground truths, or -1.

    The last five are None unless the metric was made with ``diagnostics=True``.
    """

    image: Tensor
    label: Tensor
    score: Tensor
    out_of_range: Tensor
    index: Tensor | None
    best_overlap: Tensor | None
    best_ground_truth: Tensor | None
    best_other_overlap: Tensor | None
    best_other_ground_truth: Tensor | None


@dataclass(frozen=True, eq=False)
class MatchTable(_LaneTable):
    """The H matches: pairs of a detection and a ground truth that are matched in any lane.

    A detection may match different ground truths at different thresholds, one in each lane.

    Attributes:
        detection: [H] int64 row of the detection, rising.
        ground_truth: [H] int64 row of the ground truth, rising within a detection.
        overlap: [H] float32 overlap that decided.
        true_positive: [H, words] int64 lanes in which the detection is a true positive.
        ignored: [H, words] int64 lanes in which the match makes the detection ignored.
    """

    detection: Tensor
    ground_truth: Tensor
    overlap: Tensor
    true_positive: Tensor
    ignored: Tensor


class Outcomes(NamedTuple):
    """What the N detections are in one lane; those that are neither are false positives.

    Attributes:
        true_positive, ignored: [N] bool.
        ground_truth: [N] int64 row of the matched ground truth, or -1.
    """

    true_positive: Tensor
    ignored: Tensor
    ground_truth: Tensor

    @property
    def false_positive(self) -> Tensor:
        """[N] bool."""
        return ~(self.true_positive | self.ignored)


@dataclass(frozen=True, eq=False)
class Records:
    """Everything that was recorded under one protocol, without repeated images.

    All tensors are on the device of the metric and must not be changed.

    Attributes:
        protocol: the rules.
        class_names: K names.
        image_ids: one id an image, or None where none were given.
        lanes: the meaning of the bits: bit ``i % 63`` of word ``i // 63`` is ``lanes[i]``.
        images, ground_truths, detections, matches: the tables.
    """

    protocol: RecordProtocol
    class_names: tuple[str, ...]
    image_ids: Ids | None
    lanes: tuple[Lane, ...]
    images: ImageTable
    ground_truths: GroundTruthTable
    detections: DetectionTable
    matches: MatchTable
    match_records: MatchRecords
    """The state of the metric from which the tables are made, for modules of this package."""

    @classmethod
    def of(
        cls, protocol: RecordProtocol, class_names: tuple[str, ...], records: MatchRecords
    ) -> Records:
        """The public tables of match records without repeated images."""
        lanes = Lanes.of(protocol)
        counts = torch.bincount(
            records.ground_truth_image.long(), minlength=records.num_images
        ).tolist()
        sizes = records.image_sizes
        return cls(
            protocol,
            class_names,
            records.image_ids,
            lane_names(protocol),
            ImageTable(sizes[:, 0], sizes[:, 1]),
            GroundTruthTable(
                records.ground_truth_image,
                index_in_image(counts, records.device),
                records.ground_truth_label,
                records.ground_truth_area,
                records.ground_truth_counted,
            ),
            DetectionTable(
                records.image,
                records.label,
                records.score,
                lanes_of_areas(records.out_of_range, lanes),
                records.index,
                records.best_overlap,
                records.best_ground_truth,
                records.best_other_overlap,
                records.best_other_ground_truth,
            ),
            MatchTable(
                records.match_detection,
                records.match_ground_truth.long(),
                records.match_overlap,
                records.match_true_positive,
                records.match_ignored,
            ),
            records,
        )

    @property
    def device(self) -> torch.device:
        """Where the tables are."""
        return self.match_records.device

    @property
    def num_images(self) -> int:
        """I."""
        return self.match_records.num_images

    @property
    def num_classes(self) -> int:
        """K."""
        return len(self.class_names)

    def lane_index(self, iou_threshold: float | None = None, area: str | None = None) -> int:
        """The number of a lane.

        Args:
            iou_threshold: one of the protocol's; None for the lowest.
            area: name of an area range or subset; None for the headline of the protocol.

        Raises:
            InputError: if the protocol has no such lane, naming those that it has.
        """
        area = headline_area(self.protocol) if area is None else area
        of_area = [n for n, lane in enumerate(self.lanes) if lane.area == area]
        if not of_area:
            names = ", ".join(dict.fromkeys(lane.area for lane in self.lanes))
            raise InputError(f"must be one of {names}", where="area", got=repr(area))
        if iou_threshold is None:
            return of_area[0]
        for n in of_area:
            if abs(self.lanes[n].iou_threshold - iou_threshold) < THRESHOLD_TOLERANCE:
                return n
        values = ", ".join(f"{self.lanes[n].iou_threshold:g}" for n in of_area)
        raise InputError(f"must be one of {values}", where="iou_threshold", got=iou_threshold)

    def in_lane(self, bits: Tensor, lane: int) -> Tensor:
        """[N] bool: one lane of a column of lanes [N, words]."""
        return column(bits, divmod(lane, BITS))

    def counted(self, lane: int) -> Tensor:
        """[M] bool: ground truths that count in a lane."""
        return self.in_lane(self.ground_truths.counted, lane)

    def outcomes(self, lane: int) -> Outcomes:
        """What every detection is in a lane.

        Args:
            lane: number of the lane, see :meth:`lane_index`.
        """
        matches, device = self.matches, self.device
        positive = self.in_lane(matches.true_positive, lane)
        dropped = self.in_lane(matches.ignored, lane)
        rows = (positive | dropped).nonzero().squeeze(1)
        detection = matches.detection.index_select(0, rows)
        size = self.detections.score.shape[0]
        partner = torch.full((size,), -1, dtype=torch.int64, device=device)
        partner.index_copy_(0, detection, matches.ground_truth.index_select(0, rows))
        true_positive = torch.zeros(size, dtype=torch.bool, device=device)
        true_positive.index_copy_(0, detection, positive.index_select(0, rows))
        area = lane // Lanes.of(self.protocol).num_thresholds
        ignored = in_area(self.match_records.out_of_range, area)
        ignored = ignored.index_copy(0, detection, dropped.index_select(0, rows))
        return Outcomes(true_positive, ignored, partner)

    def to_pandas(self) -> dict[str, pandas.DataFrame]:
        """The four tables as data frames by name; images have a column ``image_id`` too.

        Raises:
            InputError: if pandas is not installed.
        """
        names = ("images", "ground_truths", "detections", "matches")
        frames = {name: getattr(self, name).to_pandas() for name in names}
        if self.image_ids is not None:
            frames["images"].insert(0, "image_id", list(self.image_ids))
        return frames

    def __repr__(self) -> str:
        sizes: dict[str, Any] = {
            "images": self.num_images,
            "ground truths": self.ground_truths.label.shape[0],
            "detections": self.detections.score.shape[0],
            "matches": self.matches.detection.shape[0],
        }
        text = ", ".join(f"{count} {name}" for name, count in sizes.items())
        return f"Records({self.protocol.task}/{self.protocol.name}: {text})"


THRESHOLD_TOLERANCE = 1e-9
"""Thresholds as people write them (0.95) name those that sums of 0.05 give (0.9500000000000001)."""


def lane_names(protocol: RecordProtocol) -> tuple[Lane, ...]:
    """The lanes of a protocol, area ranges varying slowest."""
    if isinstance(protocol, DetectionProtocol):
        return tuple(
            Lane(area.name, threshold)
            for area in protocol.area_ranges
            for threshold in protocol.iou_thresholds
        )
    if isinstance(protocol, MissRateProtocol):
        return tuple(Lane(one.name, one.iou_threshold) for one in protocol.subsets)
    return (Lane("all", protocol.part_iou_threshold),)


def headline_area(protocol: RecordProtocol) -> str:
    """The area range or subset of the number by which methods are compared."""
    if isinstance(protocol, DetectionProtocol):
        return protocol.headline_area
    return lane_names(protocol)[0].area
