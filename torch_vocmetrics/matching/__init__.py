"""From packed boxes to match records: lanes, candidate pairs, the one matcher."""

from __future__ import annotations

import torch
from torch import Tensor

from ..ops.boxes import (
    BoxColumns,
    box_columns,
    intersection_over_area,
    intersection_over_union,
    pair_intersections,
)
from ..ops.ordering import rank_in_group, rank_order
from ..protocols import DetectionProtocol
from ..ragged import Detections, GroundTruths, image_of_row, index_in_image
from ..records import Ids, MatchRecords
from . import greedy
from .lanes import Lanes, has_flag, in_range_bits, passing_bits
from .pairs import Pairs, candidate_pairs

__all__ = ["match_images"]


def match_images(
    protocol: DetectionProtocol,
    detections: Detections,
    ground_truths: GroundTruths,
    *,
    num_classes: int,
    image_ids: Ids | None,
    image_sizes: Tensor,
) -> MatchRecords:
    """Match whole images, independent of all others.

    Args:
        protocol: the rules.
        detections, ground_truths: of the same images, on one device.
        num_classes: labels lie in [0, num_classes).
        image_ids, image_sizes: rows of the image table.

    Returns:
        The records, without the detections beyond the largest of ``max_detections``.
    """
    device = detections.boxes.device
    lanes = Lanes.of(protocol)
    inclusive = protocol.coordinates == "inclusive_pixels"
    object_image = image_of_row(ground_truths.counts, device)
    object_boxes = box_columns(ground_truths.boxes, ground_truths.box_format, inclusive=inclusive)
    object_area = torch.where(ground_truths.area.isnan(), object_boxes.area, ground_truths.area)
    group = image_of_row(detections.counts, device) * num_classes + detections.labels
    chosen = _ranked(protocol, group, detections)
    group = group.index_select(0, chosen)
    boxes = box_columns(
        detections.boxes.index_select(0, chosen), detections.box_format, inclusive=inclusive
    )
    counted = in_range_bits(object_area, protocol, lanes)
    counted = torch.where(
        has_flag(ground_truths.flags, protocol.ignored_flags).unsqueeze(1), 0, counted
    )
    exclusive = torch.where(
        has_flag(ground_truths.flags, protocol.reusable_flags).unsqueeze(1), 0, -1
    ).expand_as(counted)
    pairs = candidate_pairs(group, object_image * num_classes + ground_truths.labels)
    outcomes = greedy.match(
        _candidates(protocol, lanes, pairs, boxes, object_boxes, ground_truths, counted),
        group=group,
        exclusive=exclusive,
        out_of_range=~in_range_bits(boxes.area, protocol, lanes) & _all_lanes(lanes, device),
        best_only=protocol.candidates == "best",
        last_wins=protocol.equal_overlaps == "last",
    )
    order = detections.order
    return MatchRecords(
        image_ids=image_ids,
        image_sizes=image_sizes,
        ground_truth_image=object_image.to(torch.int32),
        ground_truth_label=ground_truths.labels.to(torch.int32),
        ground_truth_area=object_area,
        ground_truth_counted=counted,
        image=torch.div(group, num_classes, rounding_mode="floor").to(torch.int32),
        index=index_in_image(detections.counts, device).index_select(0, chosen).to(torch.int32),
        label=(group % num_classes).to(torch.int32),
        score=detections.scores.index_select(0, chosen),
        true_positive=outcomes.true_positive,
        ignored=outcomes.ignored,
        order=None if order is None else order.index_select(0, chosen),
    )


def _ranked(protocol: DetectionProtocol, group: Tensor, detections: Detections) -> Tensor:
    """Rows by group and falling score, those beyond the largest limit left out."""
    chosen = rank_order(group, detections.scores, detections.order)
    if not protocol.max_detections:
        return chosen
    rank = rank_in_group(group.index_select(0, chosen))
    return chosen[rank < protocol.max_detections[-1]]


def _all_lanes(lanes: Lanes, device: torch.device) -> Tensor:
    return torch.tensor(lanes.threshold_bits()[-1], device=device)


def _candidates(
    protocol: DetectionProtocol,
    lanes: Lanes,
    pairs: Pairs,
    boxes: BoxColumns,
    object_boxes: BoxColumns,
    ground_truths: GroundTruths,
    counted: Tensor,
) -> greedy.Candidates:
    """The pairs that overlap, with their overlap and the lanes in which it passes."""
    first, second = boxes.rows(pairs.detection), object_boxes.rows(pairs.ground_truth)
    inclusive = protocol.coordinates == "inclusive_pixels"
    intersection = pair_intersections(first, second, inclusive=inclusive)
    overlap = intersection_over_union(intersection, first.area, second.area)
    if protocol.overlap_of_detection_area_flags:
        by_area = has_flag(ground_truths.flags, protocol.overlap_of_detection_area_flags)
        overlap = torch.where(
            by_area.index_select(0, pairs.ground_truth),
            intersection_over_area(intersection, first.area),
            overlap,
        )
    passing = passing_bits(overlap, protocol, lanes)
    counts = counted.index_select(0, pairs.ground_truth)
    return greedy.Candidates(
        pairs.detection, pairs.ground_truth, overlap, overlap, passing & counts, passing & ~counts
    )
