"""From packed boxes to match records by the rules of pedestrian benchmarks.

Every subset is a lane. An object has two shapes: the one in which it counts, which may have the
standard width, and the one in which it is an ignore region.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from ..ops.boxes import BoxColumns, pair_intersections
from ..ops.ordering import rank_in_group, rank_order
from ..protocols import MissRateProtocol, Subset
from ..ragged import Detections, GroundTruths, image_of_row, index_in_image
from ..records import Ids, MatchRecords
from ..transfer import from_host
from . import greedy
from .jaccard import jaccard_counts
from .lanes import Lanes, has_flag
from .pairs import Pairs, candidate_pairs


class Shapes(NamedTuple):
    """Corners and sides of N boxes as six columns [N] float64."""

    x1: Tensor
    y1: Tensor
    x2: Tensor
    y2: Tensor
    width: Tensor
    height: Tensor

    @property
    def columns(self) -> BoxColumns:
        """Corners and area, the product of the sides."""
        return BoxColumns(self.x1, self.y1, self.x2, self.y2, self.width * self.height)


def match_pedestrians(
    protocol: MissRateProtocol,
    detections: Detections,
    ground_truths: GroundTruths,
    *,
    image_ids: Ids | None,
    image_sizes: Tensor,
) -> MatchRecords:
    """Match whole images, independent of all others.

    Args:
        protocol: the rules.
        detections, ground_truths: of the same images and one class, on one device.
        image_ids, image_sizes: rows of the image table; sizes [I, 2] are height and width.

    Returns:
        The records, without the detections beyond the limit of an image.
    """
    device = detections.boxes.device
    lanes = Lanes.of(protocol)
    sizes = image_sizes.double() if protocol.clipping == "image" else None
    objects = _objects(protocol, lanes, detections, ground_truths, sizes)
    image = image_of_row(detections.counts, device)
    row = rank_order(image, detections.scores, (detections.order,), len(detections.counts))
    if protocol.max_detections:
        row = row[rank_in_group(image.index_select(0, row)) < protocol.max_detections[0]]
    image = image.index_select(0, row)
    own = _shapes(detections.boxes.index_select(0, row), detections.box_format, image, sizes)
    boxes = _standard(own, protocol, "detections").columns
    every = from_host(lanes.every(), torch.int64, device)
    pairs = _overlaps(protocol, candidate_pairs(image, objects.image), boxes, objects)
    scores = detections.scores.index_select(0, row)
    positive, ignored = _match(protocol, lanes, pairs, image, own.height, objects, every)
    order = detections.order
    return MatchRecords(
        image_ids=image_ids,
        image_sizes=image_sizes,
        ground_truth_image=objects.image.to(torch.int32),
        ground_truth_label=ground_truths.labels.to(torch.int32),
        ground_truth_area=objects.region.area,
        ground_truth_counted=objects.counted,
        image=image.to(torch.int32),
        index=index_in_image(detections.counts, device).index_select(0, row).to(torch.int32),
        label=torch.zeros_like(image, dtype=torch.int32),
        score=scores,
        true_positive=positive,
        ignored=ignored & every,
        order=None if order is None else order.index_select(0, row),
        image_counts=_jaccard(protocol, pairs, image, scores, objects, len(detections.counts)),
    )


class _Objects(NamedTuple):
    """[M] each: image, both shapes, lanes in which an object counts [M, words], its flag."""

    image: Tensor
    standard: BoxColumns
    region: BoxColumns
    counted: Tensor
    flagged: Tensor


def _objects(
    protocol: MissRateProtocol,
    lanes: Lanes,
    detections: Detections,
    rows: GroundTruths,
    sizes: Tensor | None,
) -> _Objects:
    """What the protocol makes of each object."""
    device = rows.boxes.device
    image = image_of_row(rows.counts, device)
    own = _shapes(rows.boxes, rows.box_format, image, sizes)
    flagged = has_flag(rows.flags, ("ignore",))
    usable = ~flagged & _inside(own, protocol)
    if protocol.undetected_images == "drop_objects":
        found = from_host([int(count > 0) for count in detections.counts], torch.bool, device)
        usable = usable & found.index_select(0, image)
    visibility = _visibility(protocol, rows, own)
    counted = _lane_bits(
        protocol,
        lanes,
        lambda subset: usable & _counts(subset, protocol, own, visibility, rows.occlusion),
        own.height,
    )
    return _Objects(
        image,
        _standard(own, protocol, "objects").columns,
        _standard(own, protocol, "ignored_objects").columns,
        counted,
        flagged,
    )


def _shapes(boxes: Tensor, box_format: str, image: Tensor, sizes: Tensor | None) -> Shapes:
    """Boxes [N, 4] without a conversion there and back; clipped to ``sizes`` [I, 2] if given."""
    a, b, c, d = boxes.to(torch.float64).unbind(1)
    if box_format == "xyxy":
        shapes = Shapes(a, b, c, d, c - a, d - b)
    elif box_format == "xywh":
        shapes = Shapes(a, b, a + c, b + d, c, d)
    else:
        shapes = Shapes(a - c / 2, b - d / 2, a + c / 2, b + d / 2, c, d)
    if sizes is None:
        return shapes
    height, width = sizes.index_select(0, image).unbind(1)
    x1, y1 = (
        torch.minimum(near.clamp(min=0), side - 1)
        for near, side in ((shapes.x1, width), (shapes.y1, height))
    )
    x2, y2 = (
        torch.minimum(far.clamp(min=0), side)
        for far, side in ((shapes.x2, width), (shapes.y2, height))
    )
    return Shapes(x1, y1, x2, y2, x2 - x1, y2 - y1)


def _standard(shapes: Shapes, protocol: MissRateProtocol, what: str) -> Shapes:
    """The standard width about the centre, if boxes of this kind get it (bbApply.m resize)."""
    if what not in protocol.standardised:
        return shapes
    more = shapes.height * protocol.standard_aspect_ratio - shapes.width
    x1, width = shapes.x1 - more / 2, shapes.width + more
    return shapes._replace(x1=x1, x2=x1 + width, width=width)


def _visibility(protocol: MissRateProtocol, rows: GroundTruths, own: Shapes) -> Tensor:
    """[M] float64: the visible fraction; NaN where it is 0/0."""
    unoccluded = protocol.unoccluded_visibility
    fraction = torch.full_like(own.height, unoccluded)
    if rows.visibility is not None:
        given = rows.visibility.double()
        fraction = torch.where(given.isnan(), fraction, given)
    if rows.visible_boxes is not None:
        part = _shapes(rows.visible_boxes, rows.box_format, rows.labels, None)
        ratio = part.width * part.height / (own.width * own.height)
        if protocol.zero_visible_box == "unoccluded":
            nothing = (part.x1 == 0) & (part.y1 == 0) & (part.width == 0) & (part.height == 0)
            ratio = ratio.masked_fill(nothing, unoccluded)
        missing = rows.visible_boxes.isnan().any(dim=1)
        fraction = torch.where(missing, fraction, ratio)
    return fraction


def _inside(own: Shapes, protocol: MissRateProtocol) -> Tensor:
    """[M] bool: boxes within the bounds, edges included."""
    if not protocol.bounds:
        return torch.ones_like(own.height, dtype=torch.bool)
    left, top, right, bottom = protocol.bounds
    return (own.x1 >= left) & (own.y1 >= top) & (own.x2 <= right) & (own.y2 <= bottom)


def _counts(
    subset: Subset,
    protocol: MissRateProtocol,
    own: Shapes,
    visibility: Tensor,
    occlusion: Tensor | None,
) -> Tensor:
    """[M] bool: objects that meet the conditions of a subset."""
    lower, upper = subset.height
    below = own.height < upper if protocol.height_interval == "half_open" else own.height <= upper
    least, most = subset.visibility
    holds = (own.height >= lower) & below & (visibility >= least) & (visibility <= most)
    if subset.occlusion:
        levels = from_host(subset.occlusion, torch.int64, own.height.device)
        given = torch.zeros_like(holds, dtype=torch.int64) if occlusion is None else occlusion
        holds = holds & torch.isin(given, levels)
    if subset.aspect_ratio:
        away = (own.width / own.height - protocol.standard_aspect_ratio).abs()
        away = away if subset.aspect_ratio > 0 else -away
        holds = holds & (away < subset.aspect_ratio)
    return holds


def _lane_bits(
    protocol: MissRateProtocol, lanes: Lanes, holds: Callable[[Subset], Tensor], like: Tensor
) -> Tensor:
    """[N, words] int64: the lanes of the subsets for which ``holds`` [N] bool."""
    words = [torch.zeros_like(like, dtype=torch.int64) for _ in range(lanes.words)]
    for number, subset in enumerate(protocol.subsets):
        word, bit = lanes.place(number, 0)
        words[word] = words[word] | (holds(subset).long() << bit)
    return torch.stack(words, dim=1)


def _in_height_range(subset: Subset, height: Tensor, expansion: float) -> Tensor:
    """[N] bool: detections in [lower / r, upper * r)."""
    lower, upper = subset.height
    return (height >= lower / expansion) & (height < upper * expansion)


class _Overlaps(NamedTuple):
    """[P] float64 each: over the union with the object's shape, over the detection's area."""

    pairs: Pairs
    union: Tensor
    area: Tensor


def _overlaps(
    protocol: MissRateProtocol, pairs: Pairs, boxes: BoxColumns, objects: _Objects
) -> _Overlaps:
    """Both overlaps of every pair of an image."""
    first = boxes.rows(pairs.detection)
    second, region = (
        shape.rows(pairs.ground_truth) for shape in (objects.standard, objects.region)
    )
    epsilon = protocol.overlap_epsilon
    shared = pair_intersections(first, second, inclusive=False)
    union = first.area + second.area - shared + epsilon
    covered = pair_intersections(first, region, inclusive=False)
    return _Overlaps(
        pairs,
        torch.where(shared > 0, shared / union, 0.0),
        torch.where(covered > 0, covered / (first.area + epsilon), 0.0),
    )


def _match(
    protocol: MissRateProtocol,
    lanes: Lanes,
    overlaps: _Overlaps,
    image: Tensor,
    height: Tensor,
    objects: _Objects,
    every: Tensor,
) -> tuple[Tensor, Tensor]:
    """``true_positive`` and ``ignored`` [N, words]."""
    present = every.expand(image.shape[0], -1)
    unwanted = torch.zeros_like(present)
    if protocol.detection_filter != "none":
        early = protocol.detection_filter == "before_matching"
        kept = _lane_bits(
            protocol,
            lanes,
            lambda s: _in_height_range(s, height, s.filter_expansion if early else 1.0),
            height,
        )
        present = kept if early else present
        unwanted = every & ~kept
    passes = [
        _passing(protocol, lanes, overlap) & present.index_select(0, overlaps.pairs.detection)
        for overlap in (overlaps.union, overlaps.area)
    ]
    counts = objects.counted.index_select(0, overlaps.pairs.ground_truth)
    outcomes = [
        greedy.match(
            greedy.Candidates(
                *overlaps.pairs,
                overlaps.union,
                overlaps.area,
                (passes[0] & counts)[:, word],
                (passes[1] & ~counts)[:, word],
            ),
            group=image,
            exclusive=objects.counted[:, word],
            out_of_range=unwanted[:, word],
            best_only=False,
            last_wins=protocol.equal_overlaps == "last",
            claims_used=protocol.used_objects == "ignore_detection",
        )
        for word in range(lanes.words)
    ]
    positive, ignored = zip(*outcomes, strict=True)
    return torch.stack(positive, dim=1), torch.stack(ignored, dim=1)


def _passing(protocol: MissRateProtocol, lanes: Lanes, overlap: Tensor) -> Tensor:
    """[P, words] int64: the lanes whose threshold ``overlap`` [P] reaches."""
    values = sorted({subset.iou_threshold for subset in protocol.subsets})
    table = [lanes.mask([])]
    for value in values:
        reached_by = [s.iou_threshold <= value for s in protocol.subsets]
        table.append(lanes.mask([(s, 0) for s, reached in enumerate(reached_by) if reached]))
    thresholds = from_host(values, torch.float64, overlap.device)
    reached = torch.searchsorted(thresholds, overlap, right=protocol.comparison == ">=")
    flat = [word for words in table for word in words]
    bits = from_host(flat, torch.int64, overlap.device).reshape(-1, lanes.words)
    return bits.index_select(0, reached)


def _jaccard(
    protocol: MissRateProtocol,
    overlaps: _Overlaps,
    image: Tensor,
    scores: Tensor,
    objects: _Objects,
    num_images: int,
) -> Tensor | None:
    """[I, L, 3] int32 counts for the Jaccard index, or None if the protocol has none."""
    if not protocol.jaccard_scores:
        return None
    passes = overlaps.union > 0.5
    counted = ~objects.flagged.index_select(0, overlaps.pairs.ground_truth)
    detections = torch.zeros_like(image, dtype=torch.bool)
    detections[overlaps.pairs.detection[(overlaps.area > 0.5) & ~counted]] = True
    mine, theirs = (~objects.flagged).nonzero().squeeze(1), objects.flagged.nonzero().squeeze(1)
    near = candidate_pairs(
        objects.image.index_select(0, mine), objects.image.index_select(0, theirs)
    )
    first = objects.standard.rows(mine.index_select(0, near.detection))
    region = objects.region.rows(theirs.index_select(0, near.ground_truth))
    covered = pair_intersections(first, region, inclusive=False)
    inside = covered / (first.area + protocol.overlap_epsilon) > 0.5
    hidden = torch.zeros_like(objects.flagged)
    hidden[mine.index_select(0, near.detection[inside])] = True
    edges = (passes & counted).nonzero().squeeze(1)
    counts = jaccard_counts(
        image=image,
        scores=scores,
        in_region=detections,
        object_image=objects.image,
        object_counts=~objects.flagged,
        object_in_region=hidden,
        detection=overlaps.pairs.detection.index_select(0, edges),
        ground_truth=overlaps.pairs.ground_truth.index_select(0, edges),
        overlap=overlaps.union.index_select(0, edges),
        score_limits=protocol.jaccard_scores,
        num_images=num_images,
    )
    return counts.to(image.device)
