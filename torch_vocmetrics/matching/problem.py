"""The match problem: what one word of lanes needs to be matched, on the host or on a device."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor


class MatchRules(NamedTuple):
    """How to match: constants of the kernel.

    Attributes:
        inclusive: boxes include their last pixel.
        strict: an overlap must be above its threshold, not at it.
        best_only: only the ground truth of largest overlap is considered (VOC).
        last_wins: of equal overlaps the last ground truth is preferred (COCO), else the first.
        two_shapes: ground truths have a region beside the shape in which they count.
        used_matches: a detection matches a taken ground truth all the same, and is then ignored.
        known_overlaps: overlaps are not those of boxes, and are known.
    """

    inclusive: bool
    strict: bool
    best_only: bool
    last_wins: bool
    two_shapes: bool = False
    used_matches: bool = False
    known_overlaps: bool = False


class GroundTruthRows(NamedTuple):
    """The M ground truths of a chunk, in the order in which they came, as a protocol takes them.

    Attributes:
        image: [M] int32 row of the image.
        group: [M] int64; a ground truth is compared with the detections of its group alone.
        starts: [I + 1] int64, the rows of each image.
        boxes: [5, M] float64, corners and area of the shape in which a ground truth counts.
        regions: [5, M] float64, the shape in which it is ignored.
        area: [M] float64 square pixels, as recorded.
        counted: [M, words] int64 lanes in which it counts; in the others it is ignored.
        exclusive: [M, words] int64 lanes in which one match makes it unavailable.
        over_area: [M] bool, whether its overlap is over the area of the detection.
        excused: [M] bool, whether a flag keeps it from ever counting (crowd, difficult, ignore).
    """

    image: Tensor
    group: Tensor
    starts: Tensor
    boxes: Tensor
    regions: Tensor
    area: Tensor
    counted: Tensor
    exclusive: Tensor
    over_area: Tensor
    excused: Tensor


class DetectionRows(NamedTuple):
    """The N detections of a chunk in the order in which they are recorded.

    That order is class, image, then falling score. On the host, detections beyond the largest limit
    of an image are left out, on a device they have no bit in ``present``.

    Attributes:
        row: [N] int64 position in which a detection came.
        image: [N] int32 row of the image.
        group: [N] int64; detections of a group stand together.
        out_of_range: [N, bytes] uint8 area ranges in which an unmatched detection is ignored.
        present: [N, words] int64 lanes in which a detection exists; None where it exists in all.
        class_counts: [K] int64 detections of each class.
        box_table: gives the boxes [5, n] float64 of rows [n] of this table.
    """

    row: Tensor
    image: Tensor
    group: Tensor
    out_of_range: Tensor
    present: Tensor | None
    class_counts: Tensor
    box_table: Callable[[Tensor], Tensor]


class MatchSetup(NamedTuple):
    """A chunk as a protocol takes it; the one form in which all tasks are matched.

    Attributes:
        rules: how to match.
        thresholds: the distinct IoU thresholds, rising.
        threshold_lanes: for each threshold, the words of its lanes.
        epsilon: added to what overlaps are over.
        detections, ground_truths: the rows.
    """

    rules: MatchRules
    thresholds: tuple[float, ...]
    threshold_lanes: tuple[list[int], ...]
    epsilon: float
    detections: DetectionRows
    ground_truths: GroundTruthRows


class MatchProblem(NamedTuple):
    """Candidate detections and ground truths of I images, ready to be matched in a word of lanes.

    Attributes:
        boxes: [5, N] float64, corners and area, in the order in which detections choose.
        group: [N] int64, detections of one stand together; different groups are never compared.
        present: [N] int64, lanes in which a detection exists.
        starts: [I + 1] int64, the rows of each image, which stand together on a device only.
        match_starts: [I + 1] int64, on a device the rows of the match table for each image.
        object_boxes, object_group, object_starts: [5, M], [M] and [I + 1], of ground truths.
        counted: [M] int64, lanes in which a ground truth counts; in the others it is ignored.
        exclusive: [M] int64, lanes in which one match makes it unavailable.
        over_area: [M] bool, whether overlap is over the detection's area.
        regions: [5, M] float64, the shape in which a ground truth is ignored, where it has two:
            overlap with it is over the detection's area. Else its own shape.
        epsilon: [1] float64, added to what overlaps are over.
        thresholds: [T] float64, rising.
        threshold_bits: [T] int64, the lanes of each threshold.
        came: [N] int64 row of each detection among those of all images as they came.
        overlaps: [sum of n * m] float64, where they are known: those of every detection with every
            ground truth of its image, by image and then in the order in which both came.
        overlap_starts: [I] int64, the first of each image.
    """

    boxes: Tensor
    group: Tensor
    present: Tensor
    starts: Tensor
    match_starts: Tensor
    object_boxes: Tensor
    object_group: Tensor
    object_starts: Tensor
    counted: Tensor
    exclusive: Tensor
    over_area: Tensor
    regions: Tensor
    epsilon: Tensor
    thresholds: Tensor
    threshold_bits: Tensor
    came: Tensor
    overlaps: Tensor
    overlap_starts: Tensor

    def of_detections(self, part: slice) -> MatchProblem:
        """The same for consecutive detections; ``starts`` are those of all."""
        return self._replace(
            boxes=self.boxes[:, part],
            group=self.group[part],
            present=self.present[part],
            came=self.came[part],
        )
