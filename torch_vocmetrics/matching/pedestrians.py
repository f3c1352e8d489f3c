"""From packed boxes to match records by the rules of pedestrian benchmarks.

Every subset is a lane. An object has two shapes: the one in which it counts, which may have the
standard width, and the one in which it is an ignore region.
"""

from __future__ import annotations

from itertools import chain
from typing import NamedTuple

import torch
from torch import Tensor

from ..lanes import Lanes, has_flag, lanes_of_areas, packed_areas
from ..ops.boxes import BoxColumns, intersection_over_area, pair_intersections
from ..ops.ordering import rank_in_group, rank_order
from ..protocols import MissRateProtocol, Subset
from ..ragged import Detections, GroundTruths, image_of_row, starts_of_images
from ..tables.records import Ids, MatchRecords
from ..transfer import from_host
from .fused import kernel_takes, match_word, pair_overlaps
from .jaccard import jaccard_counts
from .matchable import Matchable, Rules
from .pairs import PairRuns
from .shapes import Shapes, shapes_of, standardised

HALF = 0.5
"""Overlap above which boxes belong together for the Jaccard index (CrowdDet's compute_JI.py)."""


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
        The records on the same device, every detection as a claimant; those beyond the limit of an
        image are marked as absent (see :meth:`MatchRecords.compact`). Subsets are area ranges.
    """
    device, largest = detections.boxes.device, max(ground_truths.counts, default=0)
    if device.type == "cuda" and not kernel_takes(largest):
        host = torch.device("cpu")
        records = match_pedestrians(
            protocol,
            detections.to(host),
            ground_truths.to(host),
            image_ids=image_ids,
            image_sizes=image_sizes.to(host),
        )
        return records.to(device)
    lanes = Lanes.of(protocol)
    sizes = image_sizes.double() if protocol.clipping == "image" else None
    objects = _objects(protocol, lanes, detections, ground_truths, sizes)
    found = _ranked(protocol, lanes, detections, sizes)
    words = _words(protocol, lanes, found, objects)
    rules = _rules(protocol)
    outcomes = [match_word(word, rules, largest) for word in words]
    positive, ignored = (torch.stack(bits, dim=1) for bits in zip(*outcomes, strict=True))
    scores, order = detections.scores.index_select(0, found.row), detections.order
    return MatchRecords(
        image_ids=image_ids,
        image_sizes=image_sizes,
        ground_truth_image=objects.image.to(torch.int32),
        ground_truth_label=ground_truths.labels.to(torch.int32),
        ground_truth_area=objects.region.area,
        ground_truth_counted=objects.counted,
        class_counts=torch.full((1,), found.image.shape[0], device=device),
        image=found.image.to(torch.int32),
        score=scores,
        out_of_range=found.unwanted,
        claimant=torch.arange(found.row.shape[0], device=device),
        true_positive=positive,
        ignored=ignored,
        order=None if order is None else order.index_select(0, found.row),
        image_counts=_jaccard(protocol, rules, words[0], objects, scores),
    )


def _rules(protocol: MissRateProtocol) -> Rules:
    return Rules(
        inclusive=False,
        strict=protocol.comparison == ">",
        best_only=False,
        last_wins=protocol.equal_overlaps == "last",
        two_shapes=True,
        claims_used=protocol.used_objects == "ignore_detection",
    )


class _Ranked(NamedTuple):
    """Detections by image and falling score, [N] each; ``starts`` [I + 1] the rows of each image.

    ``row`` is the place in which a detection came. It exists in lanes ``present`` [N, words]; in
    subsets ``unwanted`` [N, bytes] it must match or go.
    """

    row: Tensor
    image: Tensor
    boxes: BoxColumns
    present: Tensor
    unwanted: Tensor
    starts: Tensor


def _ranked(
    protocol: MissRateProtocol, lanes: Lanes, rows: Detections, sizes: Tensor | None
) -> _Ranked:
    """Detections in the order in which they choose, and in which lanes they exist."""
    device = rows.boxes.device
    image = image_of_row(rows.counts, device)
    row = rank_order(image, rows.scores, (rows.order,), len(rows.counts))
    boxed = row
    if protocol.ranked_boxes == "permuted_twice":
        boxed = row.index_select(0, _listed_places(rows, image).index_select(0, row))
    image = image.index_select(0, row)
    own = shapes_of(rows.boxes.index_select(0, boxed), rows.box_format, image, sizes)
    present, unwanted = _present(protocol, lanes, image, own.height)
    boxes = standardised(own, protocol, "detections").columns
    starts = starts_of_images(rows.counts, device)
    return _Ranked(row, image, boxes, present, unwanted, starts)


def _listed_places(rows: Detections, image: Tensor) -> Tensor:
    """[N] int64: place of each detection where every image's are listed by ``order``."""
    place = torch.arange(image.shape[0], device=image.device)
    if rows.order is None:
        return place
    no_scores = torch.zeros_like(rows.scores)
    listed = rank_order(image, no_scores, (rows.order,), len(rows.counts))
    return torch.empty_like(place).index_copy(0, listed, place)


class _Objects(NamedTuple):
    """[M] each: image, both shapes, lanes in which an object counts [M, words], its flag.

    ``starts`` [I + 1] are the rows of each image.
    """

    image: Tensor
    starts: Tensor
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
    own = shapes_of(rows.boxes, rows.box_format, image, sizes)
    flagged = has_flag(rows.flags, ("ignore",))
    usable = ~flagged & _inside(own, protocol)
    if protocol.undetected_images == "drop_objects":
        found = from_host([int(count > 0) for count in detections.counts], torch.bool, device)
        usable = usable & found.index_select(0, image)
    visibility = _visibility(protocol, rows, own)
    counted = packed_areas(
        [
            usable & _counts(subset, protocol, own, visibility, rows.occlusion)
            for subset in protocol.subsets
        ]
    )
    return _Objects(
        image,
        starts_of_images(rows.counts, device),
        standardised(own, protocol, "objects").columns,
        standardised(own, protocol, "ignored_objects").columns,
        lanes_of_areas(counted, lanes),
        flagged,
    )


def _visibility(protocol: MissRateProtocol, rows: GroundTruths, own: Shapes) -> Tensor:
    """[M] float64: the visible fraction; NaN where it is 0/0."""
    unoccluded = protocol.unoccluded_visibility
    fraction = torch.full_like(own.height, unoccluded)
    if rows.visibility is not None:
        given = rows.visibility.double()
        fraction = torch.where(given.isnan(), fraction, given)
    if rows.visible_boxes is not None:
        part = shapes_of(rows.visible_boxes, rows.box_format, rows.labels, None)
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


def _in_height_range(
    subset: Subset, protocol: MissRateProtocol, height: Tensor, expansion: float
) -> Tensor:
    """[N] bool: detections in [lower / r, upper * r)."""
    lower, upper = subset.height
    product = protocol.least_height == "product"
    least = lower * (1 / expansion) if product else lower / expansion
    return (height >= least) & (height < upper * expansion)


def _present(
    protocol: MissRateProtocol, lanes: Lanes, image: Tensor, height: Tensor
) -> tuple[Tensor, Tensor]:
    """Lanes [N, words] in which a detection exists; subsets [N, bytes] in which it must match.

    Bits beyond the lanes are set where a detection exists at all: without any it is absent.
    """
    early = protocol.detection_filter == "before_matching"
    filtered = protocol.detection_filter != "none"
    kept = [
        _in_height_range(s, protocol, height, s.filter_expansion if early else 1.0)
        if filtered
        else torch.ones_like(height, dtype=torch.bool)
        for s in protocol.subsets
    ]
    unwanted = packed_areas([~one for one in kept])
    present = torch.full((height.shape[0], lanes.words), -1, device=height.device)
    if early:
        present &= ~lanes_of_areas(unwanted, lanes)
    if protocol.max_detections:
        beyond = rank_in_group(image) >= protocol.max_detections[0]
        present = present.masked_fill(beyond.unsqueeze(1), 0)
    return present, unwanted


def _words(
    protocol: MissRateProtocol, lanes: Lanes, found: _Ranked, objects: _Objects
) -> list[Matchable]:
    """What is to be matched in each word of lanes."""
    device = objects.image.device
    values = sorted({subset.iou_threshold for subset in protocol.subsets})
    masks = [
        lanes.mask([(s, 0) for s, one in enumerate(protocol.subsets) if one.iou_threshold == value])
        for value in values
    ]
    bits = from_host(list(chain(*masks)), torch.int64, device).reshape(-1, lanes.words)
    thresholds = from_host(values, torch.float64, device)
    epsilon = from_host([protocol.overlap_epsilon], torch.float64, device)
    boxes, standard, region = map(torch.stack, (found.boxes, objects.standard, objects.region))
    unwanted = lanes_of_areas(found.unwanted, lanes)
    return [
        Matchable(
            boxes=boxes,
            group=found.image,
            present=found.present[:, word].contiguous(),
            out_of_range=unwanted[:, word].contiguous(),
            starts=found.starts,
            object_boxes=standard,
            object_group=objects.image,
            object_starts=objects.starts,
            counted=objects.counted[:, word].contiguous(),
            exclusive=objects.counted[:, word].contiguous(),
            over_area=torch.zeros_like(objects.flagged),
            regions=region,
            epsilon=epsilon,
            thresholds=thresholds,
            threshold_bits=bits[:, word].contiguous(),
        )
        for word in range(lanes.words)
    ]


def _jaccard(
    protocol: MissRateProtocol,
    rules: Rules,
    rows: Matchable,
    objects: _Objects,
    scores: Tensor,
) -> Tensor | None:
    """[I, L, 3] int32 counts for the Jaccard index, or None if the protocol has none."""
    if not protocol.jaccard_scores:
        return None
    in_region = torch.zeros_like(rows.group, dtype=torch.bool)
    runs, edges = PairRuns.of(rows.group, rows.object_group), []
    for part in runs.portions():
        pairs = runs.pairs(part)
        overlap, covered = pair_overlaps(rows.of_detections(part), rules, pairs)
        counted = ~objects.flagged.index_select(0, pairs.ground_truth)
        detection = pairs.detection + part.start
        in_region[detection[(covered > HALF) & ~counted]] = True
        kept = ((overlap > HALF) & counted).nonzero().squeeze(1)
        columns = (detection, pairs.ground_truth, overlap)
        edges.append([column.index_select(0, kept) for column in columns])
    detection, ground_truth, overlap = (torch.cat(parts) for parts in zip(*edges, strict=True))
    counts = jaccard_counts(
        image=rows.group,
        # Those beyond the limit of an image are above no score limit.
        scores=torch.where(rows.present == 0, -torch.inf, scores.double()),
        in_region=in_region,
        object_image=objects.image,
        object_counts=~objects.flagged,
        object_in_region=_in_ignore_region(protocol, objects),
        detection=detection,
        ground_truth=ground_truth,
        overlap=overlap,
        score_limits=protocol.jaccard_scores,
        num_images=rows.starts.shape[0] - 1,
    )
    return counts.to(scores.device)


def _in_ignore_region(protocol: MissRateProtocol, objects: _Objects) -> Tensor:
    """[M] bool: objects of which an ignore region holds more than half."""
    mine, theirs = (~objects.flagged).nonzero().squeeze(1), objects.flagged.nonzero().squeeze(1)
    images = objects.image.index_select(0, mine)
    runs = PairRuns.of(images, objects.image.index_select(0, theirs))
    hidden = torch.zeros_like(objects.flagged)
    for part in runs.portions():
        pairs, rows = runs.pairs(part), mine[part]
        first = objects.standard.rows(rows.index_select(0, pairs.detection))
        region = objects.region.rows(theirs.index_select(0, pairs.ground_truth))
        shared = pair_intersections(first, region, inclusive=False)
        inside = intersection_over_area(shared, first.area + protocol.overlap_epsilon) > HALF
        hidden[rows.index_select(0, pairs.detection[inside])] = True
    return hidden
