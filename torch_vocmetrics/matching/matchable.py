"""What one word of lanes needs to be matched, on the host or on a device."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Matchable(NamedTuple):
    """Detections and objects of I images, ready to be matched in one word of lanes.

    Attributes:
        boxes: [5, N] float64, corners and area, in the order in which detections choose.
        group: [N] int64, detections of one stand together; those of different groups never meet.
        present: [N] int64, lanes in which a detection exists; in the others it is ignored.
        out_of_range: [N] int64, lanes in which it is ignored if it stays unmatched.
        starts: [I + 1] int64, the rows of each image, which stand together on a device only.
        object_boxes, object_group, object_starts: [5, M], [M] and [I + 1], likewise.
        counted: [M] int64, lanes in which an object counts; in the others it is ignored.
        exclusive: [M] int64, lanes in which one claim uses it up.
        over_area: [M] bool, whether overlap is over the detection's area.
        regions: [5, M] float64, the shape in which an object is ignored, where it has two: overlap
            with it is over the detection's area. Else the object's own shape.
        epsilon: [1] float64, added to what overlaps are over.
        thresholds: [T] float64, rising.
        threshold_bits: [T] int64, the lanes of each threshold.
    """

    boxes: Tensor
    group: Tensor
    present: Tensor
    out_of_range: Tensor
    starts: Tensor
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

    def of_detections(self, part: slice) -> Matchable:
        """The same for consecutive detections; ``starts`` are those of all."""
        return self._replace(
            boxes=self.boxes[:, part],
            group=self.group[part],
            present=self.present[part],
            out_of_range=self.out_of_range[part],
        )


class Rules(NamedTuple):
    """How to match: constants of the kernel.

    Attributes:
        inclusive: boxes include their last pixel.
        strict: an overlap must be above its threshold, not at it.
        best_only: only the object of largest overlap is considered (VOC).
        last_wins: of equal overlaps the last object is preferred (COCO), else the first.
        two_shapes: objects have a region beside the shape in which they count.
        claims_used: a used object is claimed all the same, and the detection is then ignored.
    """

    inclusive: bool
    strict: bool
    best_only: bool
    last_wins: bool
    two_shapes: bool = False
    claims_used: bool = False
