"""Detections and ground truths of a chunk as pedestrian benchmarks take them.

Every subset is an area range with one threshold, which makes one lane. A ground truth has two
shapes: the one in which it counts, which may have the standard width, and its ignore region.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from ..lanes import Lanes, has_flag, lanes_of_areas, packed_areas
from ..ops.boxes import BoxColumns, intersection_over_area, pair_intersections
from ..ops.ordering import rank_in_group, rank_order
from ..ops.selection import rows_where
from ..protocols import MissRateProtocol, Subset
from ..ragged import Detections, GroundTruths, image_of_row, starts_of_images
from ..transfer import from_host, reads_are_free
from .fused import pair_overlaps
from .jaccard import jaccard_counts
from .pairs import PairRuns
from .problem import DetectionRows, GroundTruthRows, MatchProblem, MatchRules, MatchSetup
from .shapes import Shapes, shapes_of, standardised

HALF = 0.5
"""Overlap above which boxes belong together for the Jaccard index (CrowdDet's compute_JI.py)."""


def pedestrian_setup(
    protocol: MissRateProtocol, detections: Detections, ground_truths: GroundTruths, sizes: Tensor
) -> MatchSetup:
    """What is to be matched under the protocol; subsets are area ranges.

    Args:
        protocol: the rules.
        detections, ground_truths: of the same images and one class, on one device.
        sizes: [I, 2] height and width of the images.
    """
    lanes = Lanes.of(protocol)
    values = sorted({subset.iou_threshold for subset in protocol.subsets})
    clipped_to = sizes.double() if protocol.clipping == "image" else None
    return MatchSetup(
        MatchRules(
            inclusive=False,
            strict=protocol.comparison == ">",
            best_only=False,
            last_wins=protocol.equal_overlaps == "last",
            two_shapes=True,
            used_matches=protocol.used_objects == "ignore_detection",
        ),
        tuple(values),
        tuple(
            lanes.mask(
                [(s, 0) for s, one in enumerate(protocol.subsets) if one.iou_threshold == value]
            )
            for value in values
        ),
        protocol.overlap_epsilon,
        _detection_rows(protocol, lanes, detections, clipped_to),
        _ground_truth_rows(protocol, lanes, detections, ground_truths, clipped_to),
    )


def _detection_rows(
    protocol: MissRateProtocol, lanes: Lanes, rows: Detections, sizes: Tensor | None
) -> DetectionRows:
    """Detections by image and falling score, and in which lanes they exist."""
    device = rows.boxes.device
    image = image_of_row(rows.counts, device)
    row = rank_order(image, rows.scores, (rows.order,), len(rows.counts))
    boxed = row
    if protocol.ranked_boxes == "permuted_twice":
        boxed = row.index_select(0, _listed_index(rows, image).index_select(0, row))
    image = image.index_select(0, row)
    beyond = None
    if protocol.max_detections:
        beyond = rank_in_group(image) >= protocol.max_detections[0]
        if reads_are_free(device):
            kept = rows_where(~beyond)
            row, boxed, image = (one.index_select(0, kept) for one in (row, boxed, image))
            beyond = None
    own = shapes_of(rows.boxes.index_select(0, boxed), rows.box_format, image, sizes)
    present, unwanted = _present(protocol, lanes, own.height)
    if beyond is not None:
        present = present.masked_fill(beyond.unsqueeze(1), 0)
    boxes = torch.stack(standardised(own, protocol, "detections").columns)
    class_counts = torch.full((1,), row.shape[0], device=device)
    take_boxes = partial(torch.index_select, boxes, 1)
    return DetectionRows(
        row, image.to(torch.int32), image, unwanted, present, class_counts, take_boxes
    )


def _listed_index(rows: Detections, image: Tensor) -> Tensor:
    """[N] int64: index of each detection where every image's are listed by ``order``."""
    index = torch.arange(image.shape[0], device=image.device)
    if rows.order is None:
        return index
    no_scores = torch.zeros_like(rows.scores)
    listed = rank_order(image, no_scores, (rows.order,), len(rows.counts))
    return torch.empty_like(index).index_copy(0, listed, index)


def _ground_truth_rows(
    protocol: MissRateProtocol,
    lanes: Lanes,
    detections: Detections,
    rows: GroundTruths,
    sizes: Tensor | None,
) -> GroundTruthRows:
    """Ground truths have two shapes: the one in which they count, and the ignore region."""
    device = rows.boxes.device
    image = image_of_row(rows.counts, device)
    own = shapes_of(rows.boxes, rows.box_format, image, sizes)
    flagged = has_flag(rows.flags, ("ignore",))
    usable = ~flagged & _inside(own, protocol)
    if protocol.undetected_images == "drop_objects":
        found = from_host([int(count > 0) for count in detections.counts], torch.bool, device)
        usable = usable & found.index_select(0, image)
    visibility = _visibility(protocol, rows, own)
    counted = lanes_of_areas(
        packed_areas(
            [
                usable & _counts(subset, protocol, own, visibility, rows.occlusion)
                for subset in protocol.subsets
            ]
        ),
        lanes,
    )
    regions = standardised(own, protocol, "ignored_objects").columns
    return GroundTruthRows(
        image.to(torch.int32),
        image,
        starts_of_images(rows.counts, device),
        torch.stack(standardised(own, protocol, "objects").columns),
        torch.stack(regions),
        regions.area,
        counted,
        counted,
        torch.zeros_like(flagged),
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


def _present(protocol: MissRateProtocol, lanes: Lanes, height: Tensor) -> tuple[Tensor, Tensor]:
    """Lanes [N, words] in which a detection exists; subsets [N, bytes] in which it must match."""
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
    return present, unwanted


def crowd_counts(
    protocol: MissRateProtocol, setup: MatchSetup, problem: MatchProblem, scores: Tensor
) -> Tensor:
    """[I, L, 3] int32 counts for CrowdHuman's Jaccard index.

    Args:
        protocol: the rules.
        setup: the chunk.
        problem: of all recorded detections, in their order.
        scores: [N] of these.
    """
    in_region = torch.zeros_like(problem.group, dtype=torch.bool)
    flagged = setup.ground_truths.excused
    runs, edges = PairRuns.of(problem.group, problem.object_group), []
    for part in runs.portions():
        pairs = runs.pairs(part)
        overlap, covered = pair_overlaps(problem.of_detections(part), setup.rules, pairs)
        counted = ~flagged.index_select(0, pairs.ground_truth)
        detection = pairs.detection + part.start
        in_region[detection[(covered > HALF) & ~counted]] = True
        kept = ((overlap > HALF) & counted).nonzero().squeeze(1)
        columns = (detection, pairs.ground_truth, overlap)
        edges.append([column.index_select(0, kept) for column in columns])
    detection, ground_truth, overlap = (torch.cat(parts) for parts in zip(*edges, strict=True))
    counts = jaccard_counts(
        image=problem.group,
        # Detections beyond the limit of an image are above no score limit.
        scores=torch.where(problem.present == 0, -torch.inf, scores.double()),
        in_region=in_region,
        object_image=problem.object_group,
        object_counts=~flagged,
        object_in_region=_in_ignore_region(protocol, setup.ground_truths),
        detection=detection,
        ground_truth=ground_truth,
        overlap=overlap,
        score_limits=protocol.jaccard_scores,
        num_images=problem.object_starts.shape[0] - 1,
    )
    return counts.to(scores.device)


def _in_ignore_region(protocol: MissRateProtocol, objects: GroundTruthRows) -> Tensor:
    """[M] bool: objects of which an ignore region holds more than half."""
    flagged = objects.excused
    mine, theirs = (~flagged).nonzero().squeeze(1), flagged.nonzero().squeeze(1)
    images = objects.group.index_select(0, mine)
    runs = PairRuns.of(images, objects.group.index_select(0, theirs))
    hidden = torch.zeros_like(flagged)
    boxes, regions = BoxColumns(*objects.boxes), BoxColumns(*objects.regions)
    for part in runs.portions():
        pairs, rows = runs.pairs(part), mine[part]
        first = boxes.rows(rows.index_select(0, pairs.detection))
        region = regions.rows(theirs.index_select(0, pairs.ground_truth))
        shared = pair_intersections(first, region, inclusive=False)
        inside = intersection_over_area(shared, first.area + protocol.overlap_epsilon) > HALF
        hidden[rows.index_select(0, pairs.detection[inside])] = True
    return hidden
