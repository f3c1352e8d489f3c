"""From packed boxes to match records: lanes, candidate pairs, the one matcher."""

from __future__ import annotations

import math
from itertools import chain
from typing import NamedTuple

import torch
from torch import Tensor

from ..image_masks import areas_of
from ..lanes import Lanes, has_flag, inside_areas, lanes_of_areas, packed_areas
from ..ops.boxes import BoxColumns, box_table
from ..ops.ordering import rank_in_group, rank_order, stable_order
from ..ops.selection import rows_where, take
from ..protocols import DetectionProtocol
from ..ragged import Detections, GroundTruths, image_of_row, starts_of_images
from ..tables.records import Ids, MatchRecords, class_and_image
from ..transfer import from_host
from .fused import kernel_takes, match_word
from .masks import Overlaps, mask_overlaps, match_by_masks
from .matchable import Matchable, Rules
from .pairs import is_among

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
        The records on the same device. On CUDA nothing is waited for, unless the kernel cannot be
        used or masks are compared: then the host matches. Therefore every detection is a claimant
        there, and those beyond the largest of ``max_detections`` are marked as absent (see
        :meth:`MatchRecords.compact`).
    """
    device = detections.boxes.device
    by_masks, largest = protocol.uses_masks, max(ground_truths.counts, default=0)
    if device.type == "cuda" and not (by_masks or kernel_takes(largest)):
        host = torch.device("cpu")
        records = match_images(
            protocol,
            detections.to(host),
            ground_truths.to(host),
            num_classes=num_classes,
            image_ids=image_ids,
            image_sizes=image_sizes,
        )
        return records.to(device)
    lanes = Lanes.of(protocol)
    objects = _objects(protocol, lanes, ground_truths)
    ranked = _ranked(protocol, detections, num_classes)
    choosers = _choosers(protocol, lanes, detections, ranked, objects.group)
    overlaps = _mask_overlaps(protocol, detections, ground_truths, choosers, objects)
    claimant, true_positive, ignored = _claims(protocol, lanes, choosers, objects, overlaps)
    order = detections.order
    return MatchRecords(
        image_ids=image_ids,
        image_sizes=image_sizes,
        ground_truth_image=objects.image,
        ground_truth_label=ground_truths.labels.to(torch.int32),
        ground_truth_area=objects.area,
        ground_truth_counted=objects.counted,
        class_counts=ranked.class_counts,
        image=ranked.image,
        score=detections.scores.index_select(0, ranked.row),
        out_of_range=ranked.out_of_range,
        claimant=claimant,
        true_positive=true_positive,
        ignored=ignored,
        order=None if order is None else order.index_select(0, ranked.row),
    )


class _Objects(NamedTuple):
    """Objects in the order in which they came, [M] each; ``boxes`` are [5, M].

    Only those of a detection's ``group``, its class and image, ever meet it.
    """

    image: Tensor
    group: Tensor
    starts: Tensor
    boxes: Tensor
    area: Tensor
    counted: Tensor
    exclusive: Tensor
    over_area: Tensor
    largest: int


def _objects(protocol: DetectionProtocol, lanes: Lanes, rows: GroundTruths) -> _Objects:
    """What the protocol makes of each object, in which lanes."""
    device = rows.boxes.device
    boxes = _box_table(protocol, rows.boxes, rows.box_format)
    own = areas_of(rows.masks or (), device) if protocol.uses_masks else boxes[4]
    area = torch.where(rows.area.isnan(), own, rows.area.double())
    ignored = has_flag(rows.flags, protocol.ignored_flags).unsqueeze(1)
    reusable = has_flag(rows.flags, protocol.reusable_flags).unsqueeze(1)
    in_range = lanes_of_areas(packed_areas(inside_areas(area, protocol)), lanes)
    image = image_of_row(rows.counts, device, torch.int32)
    return _Objects(
        image,
        class_and_image(rows.labels, image, len(rows.counts)),
        starts_of_images(rows.counts, device),
        boxes,
        area,
        torch.where(ignored, 0, in_range),
        torch.where(reusable, 0, -1).expand_as(in_range),
        has_flag(rows.flags, protocol.overlap_of_detection_area_flags),
        max(rows.counts, default=0),
    )


class _Ranked(NamedTuple):
    """Detections by class, image and falling score, [N] each; ``out_of_range`` [N, bytes].

    ``row`` is the place in which a detection came; ``class_counts`` [K] int64 are how many there
    are of each class.
    """

    row: Tensor
    image: Tensor
    group: Tensor
    out_of_range: Tensor
    class_counts: Tensor


def _ranked(protocol: DetectionProtocol, rows: Detections, num_classes: int) -> _Ranked:
    """Detections in the order in which they are recorded; on the host no more than may choose."""
    device, num_images = rows.boxes.device, len(rows.counts)
    image = image_of_row(rows.counts, device, torch.int32)
    group = class_and_image(rows.labels, image, num_images)
    row = rank_order(group, rows.scores, (rows.order,), num_images * num_classes)
    group = group.index_select(0, row)
    if _may_read(device) and _may_be_too_many(protocol, rows):
        kept = rows_where(~_beyond(protocol, group))
        row, group = row.index_select(0, kept), group.index_select(0, kept)
    starts = torch.searchsorted(group, torch.arange(num_classes + 1, device=device) * num_images)
    outside = take(_out_of_range(protocol, rows), row)
    return _Ranked(row, image.index_select(0, row), group, outside, starts.diff())


def _out_of_range(protocol: DetectionProtocol, rows: Detections) -> Tensor:
    """[N, bytes]: area ranges that do not hold the area of a detection; VOC's range holds all."""
    if all(-one.lower == one.upper == math.inf for one in protocol.area_ranges):
        nowhere = torch.zeros_like(rows.labels, dtype=torch.bool)
        return packed_areas([nowhere] * len(protocol.area_ranges))
    if protocol.detection_area == "mask":
        area = areas_of(rows.masks or (), rows.boxes.device)
    else:
        area = BoxColumns(*_box_table(protocol, rows.boxes, rows.box_format)).area
    return packed_areas([~inside for inside in inside_areas(area, protocol)])


class _Choosers(NamedTuple):
    """Detections that may claim an object, [H] each, image by image if ``by_image``.

    ``claimant`` is their place among the ranked, ``row`` that in which they came, ``starts``
    [I + 1] where each image begins among the latter; ``boxes`` are [5, H], lanes in which they
    exist ``present`` [H, words], ``out_of_range`` [H, bytes].
    """

    claimant: Tensor
    row: Tensor
    group: Tensor
    starts: Tensor
    boxes: Tensor
    present: Tensor
    out_of_range: Tensor
    by_image: bool


def _choosers(
    protocol: DetectionProtocol,
    lanes: Lanes,
    rows: Detections,
    ranked: _Ranked,
    object_group: Tensor,
) -> _Choosers:
    """On the host those with objects of their class in their image; on a device all.

    The kernel, and whoever compares masks, go through image by image.
    """
    device, by_image = ranked.row.device, protocol.uses_masks
    if _may_read(device):
        claimant = rows_where(is_among(ranked.group, object_group))
    else:
        claimant, by_image = torch.arange(ranked.row.shape[0], device=device), True
    if by_image:
        images = ranked.image.index_select(0, claimant).long()
        claimant = claimant.index_select(0, stable_order(images))
    row, group = ranked.row.index_select(0, claimant), ranked.group.index_select(0, claimant)
    present = torch.full((row.shape[0], lanes.words), -1, device=device)
    if not _may_read(device) and _may_be_too_many(protocol, rows):
        beyond = _beyond(protocol, ranked.group).index_select(0, claimant)
        present = present.masked_fill(beyond.unsqueeze(1), 0)
    boxes = _box_table(protocol, take(rows.boxes, row), rows.box_format)
    return _Choosers(
        claimant,
        row,
        group,
        starts_of_images(rows.counts, device),
        boxes,
        present,
        take(ranked.out_of_range, claimant),
        by_image,
    )


def _may_read(device: torch.device) -> bool:
    """Whether it costs no waiting to count rows by their values."""
    return device.type == "cpu"


def _may_be_too_many(protocol: DetectionProtocol, rows: Detections) -> bool:
    """Whether an image could have more detections of a class than count."""
    limits = protocol.max_detections
    return bool(limits) and max(rows.counts, default=0) > limits[-1]


def _beyond(protocol: DetectionProtocol, group: Tensor) -> Tensor:
    """[N] bool: detections behind so many of their ``group``, image and class, as count."""
    return rank_in_group(group) >= protocol.max_detections[-1]


def _box_table(protocol: DetectionProtocol, boxes: Tensor, box_format: str) -> Tensor:
    """Corners and areas as the protocol takes them."""
    return box_table(boxes, box_format, inclusive=protocol.coordinates == "inclusive_pixels")


def _mask_overlaps(
    protocol: DetectionProtocol,
    detections: Detections,
    ground_truths: GroundTruths,
    choosers: _Choosers,
    objects: _Objects,
) -> Overlaps | None:
    """Candidate pairs and the overlap of their masks, None where boxes are compared."""
    if not protocol.uses_masks:
        return None
    return mask_overlaps(
        choosers.group,
        objects.group,
        choosers.row,
        choosers.present.any(1),
        (detections.masks or (), ground_truths.masks or ()),
        (choosers.starts, objects.starts),
        objects.over_area,
        min(protocol.thresholds),
    )


def _claims(
    protocol: DetectionProtocol,
    lanes: Lanes,
    choosers: _Choosers,
    objects: _Objects,
    overlaps: Overlaps | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """``claimant`` [H], ``true_positive`` and ``ignored`` [H, words]; by boxes or given overlaps.

    Claimants rise, in whichever order they chose.
    """
    device = choosers.row.device
    rules = Rules(
        inclusive=protocol.coordinates == "inclusive_pixels",
        strict=protocol.comparison == ">",
        best_only=protocol.candidates == "best",
        last_wins=protocol.equal_overlaps == "last",
    )
    thresholds = from_host(protocol.thresholds, torch.float64, device)
    bits = chain.from_iterable(map(lanes.threshold_bits, range(lanes.num_thresholds)))
    threshold_bits = from_host(list(bits), torch.int64, device).reshape(-1, lanes.words)
    out_of_range = lanes_of_areas(choosers.out_of_range, lanes)
    words = [
        Matchable(
            choosers.boxes,
            choosers.group,
            choosers.present[:, word].contiguous(),
            out_of_range[:, word].contiguous(),
            choosers.starts,
            objects.boxes,
            objects.group,
            objects.starts,
            objects.counted[:, word].contiguous(),
            objects.exclusive[:, word].contiguous(),
            objects.over_area,
            objects.boxes,
            torch.zeros(1, dtype=torch.float64, device=device),
            thresholds,
            threshold_bits[:, word].contiguous(),
        )
        for word in range(lanes.words)
    ]
    outcomes = [
        match_word(rows, rules, objects.largest)
        if overlaps is None
        else match_by_masks(rows, rules, overlaps)
        for rows in words
    ]
    positive, ignored = (torch.stack(bits, dim=1) for bits in zip(*outcomes, strict=True))
    if not choosers.by_image:
        return choosers.claimant, positive, ignored
    claimant, order = choosers.claimant.sort()
    return claimant, take(positive, order), take(ignored, order)
