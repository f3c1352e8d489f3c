"""Detections and ground truths of a chunk as the protocols of detection take them."""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor

from ..image_masks import areas_of
from ..lanes import Lanes, areas_holding, has_flag, lanes_of_areas, packed_areas
from ..ops.boxes import BoxColumns, box_table
from ..ops.ordering import rank_in_group, rank_order
from ..ops.selection import rows_where, take
from ..protocols import DetectionProtocol
from ..ragged import Detections, GroundTruths, image_of_row, starts_of_images
from ..tables.records import class_and_image
from ..transfer import reads_are_free
from .problem import DetectionRows, GroundTruthRows, MatchRules, MatchSetup


def detection_setup(
    protocol: DetectionProtocol,
    detections: Detections,
    ground_truths: GroundTruths,
    num_classes: int,
) -> MatchSetup:
    """What is to be matched under the protocol.

    Args:
        protocol: the rules.
        detections, ground_truths: of the same images, on one device.
        num_classes: labels lie in [0, num_classes).
    """
    lanes = Lanes.of(protocol)
    return MatchSetup(
        MatchRules(
            inclusive=protocol.coordinates == "inclusive_pixels",
            strict=protocol.comparison == ">",
            best_only=protocol.candidates == "best",
            last_wins=protocol.equal_overlaps == "last",
        ),
        protocol.thresholds,
        tuple(map(lanes.threshold_bits, range(lanes.num_thresholds))),
        0.0,
        _detection_rows(protocol, lanes, detections, num_classes),
        _ground_truth_rows(protocol, lanes, ground_truths),
    )


def _ground_truth_rows(
    protocol: DetectionProtocol, lanes: Lanes, rows: GroundTruths
) -> GroundTruthRows:
    """Which ground truths count in which lanes, and how they are compared."""
    device = rows.boxes.device
    boxes = _box_table(protocol, rows, rows.boxes)
    own = areas_of(rows.masks or (), device) if protocol.uses_masks else boxes[4]
    area = torch.where(rows.area.isnan(), own, rows.area.double())
    excused = has_flag(rows.flags, protocol.ignored_flags)
    reusable = has_flag(rows.flags, protocol.reusable_flags).unsqueeze(1)
    in_range = lanes_of_areas(areas_holding(area, protocol), lanes)
    image = image_of_row(rows.counts, device, torch.int32)
    return GroundTruthRows(
        image,
        class_and_image(rows.labels, image, len(rows.counts)),
        starts_of_images(rows.counts, device),
        boxes,
        boxes,
        area,
        torch.where(excused.unsqueeze(1), 0, in_range),
        torch.where(reusable, 0, -1).expand_as(in_range),
        has_flag(rows.flags, protocol.overlap_of_detection_area_flags),
        excused,
    )


def _detection_rows(
    protocol: DetectionProtocol, lanes: Lanes, rows: Detections, num_classes: int
) -> DetectionRows:
    """Detections by class, image and falling score."""
    device, num_images = rows.boxes.device, len(rows.counts)
    image = image_of_row(rows.counts, device, torch.int32)
    group = class_and_image(rows.labels, image, num_images)
    row = rank_order(group, rows.scores, (rows.order,), num_images * num_classes)
    group, present = group.index_select(0, row), None
    # An image can only exceed the limit for a class if it has so many detections at all.
    if protocol.max_detections and max(rows.counts, default=0) > protocol.max_detections[-1]:
        beyond = rank_in_group(group) >= protocol.max_detections[-1]
        if reads_are_free(device):
            kept = rows_where(~beyond)
            row, group = row.index_select(0, kept), group.index_select(0, kept)
        else:
            present = torch.full((row.shape[0], lanes.words), -1, device=device)
            present = present.masked_fill(beyond.unsqueeze(1), 0)
    starts = torch.searchsorted(group, torch.arange(num_classes + 1, device=device) * num_images)
    return DetectionRows(
        row,
        image.index_select(0, row),
        group,
        take(_out_of_range(protocol, rows), row),
        present,
        starts.diff(),
        partial(_boxes_of, protocol, rows, row),
    )


def _boxes_of(protocol: DetectionProtocol, rows: Detections, row: Tensor, index: Tensor) -> Tensor:
    """[5, n] boxes of the ranked detections at ``index`` [n]."""
    return _box_table(protocol, rows, take(rows.boxes, row.index_select(0, index)))


def _out_of_range(protocol: DetectionProtocol, rows: Detections) -> Tensor:
    """[N, bytes]: area ranges that do not hold the area of a detection; VOC's range holds all."""
    if all(-one.lower == one.upper == math.inf for one in protocol.area_ranges):
        nowhere = torch.zeros_like(rows.labels, dtype=torch.bool)
        return packed_areas([nowhere] * len(protocol.area_ranges))
    if protocol.detection_area == "mask":
        area = areas_of(rows.masks or (), rows.boxes.device)
    else:
        area = BoxColumns(*_box_table(protocol, rows, rows.boxes)).area
    return areas_holding(area, protocol, hold=False)


def _box_table(
    protocol: DetectionProtocol, rows: Detections | GroundTruths, boxes: Tensor
) -> Tensor:
    """Corners and areas as the protocol takes them."""
    return box_table(boxes, rows.box_format, inclusive=protocol.coordinates == "inclusive_pixels")
