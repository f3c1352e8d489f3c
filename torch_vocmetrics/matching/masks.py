"""Overlaps of candidate pairs by their masks, and matching by them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..image_masks import BitMasks, ImageMasks, RleMasks
from ..ops import rle
from ..ops.boxes import intersection_over_area, intersection_over_union
from ..ops.masks import common_pixels, extents
from ..transfer import from_host
from .fused import candidates, match_candidates
from .matchable import Matchable, Rules
from .pairs import PairRuns, Pairs

Masks = Sequence[ImageMasks]


class Overlaps(NamedTuple):
    """Candidate pairs, in the order of :func:`candidate_pairs`, and their overlap [P] float64."""

    pairs: Pairs
    overlap: Tensor


def mask_overlaps(
    detection_group: Tensor,
    object_group: Tensor,
    row: Tensor,
    present: Tensor,
    masks: tuple[Masks, Masks],
    starts: tuple[Tensor, Tensor],
    over_area: Tensor,
    least: float,
) -> Overlaps:
    """Pairs whose masks meet enough: pixels of both over pixels of either, or over the detection's.

    Args:
        detection_group, object_group: [N] and [M]; detections stand image by image.
        row: [N] int64, place in which each detection came.
        present: [N] bool, detections that exist at all.
        masks: of detections and of objects, by image.
        starts: [I + 1] each, the rows of each image.
        over_area: [M] bool, objects whose overlap is over the detection's area.
        least: the lowest threshold; pairs of smaller overlap are left out.

    The device is read for the sizes of the work.
    """
    runs = PairRuns.of(detection_group, object_group)
    detections, objects, overlaps = [], [], []
    for part in runs.portions():
        made = runs.pairs(part)
        pairs = made._replace(detection=made.detection + part.start)
        wanted = present.index_select(0, pairs.detection)
        i = row.index_select(0, pairs.detection)
        if row.device.type != "cpu":  # on the host the counting itself looks at the extents
            wanted = wanted & _touching(Pairs(i, pairs.ground_truth), masks)
        chosen = wanted.nonzero().squeeze(1)
        pairs, i = pairs.rows(chosen), i.index_select(0, chosen)
        overlap = overlaps_of_pairs(i, pairs.ground_truth, masks, starts, over_area)
        kept = (overlap >= least).nonzero().squeeze(1)
        detections.append(pairs.detection.index_select(0, kept))
        objects.append(pairs.ground_truth.index_select(0, kept))
        overlaps.append(overlap.index_select(0, kept))
    return Overlaps(Pairs(torch.cat(detections), torch.cat(objects)), torch.cat(overlaps))


def overlaps_of_pairs(
    i: Tensor,
    j: Tensor,
    masks: tuple[Masks, Masks],
    starts: tuple[Tensor, Tensor],
    over_area: Tensor,
) -> Tensor:
    """[P] float64 overlaps of masks ``i`` [P], rows as they came, images rising, and ``j`` [P]."""
    images = torch.arange(len(masks[0]) + 1, device=i.device)
    bounds = torch.searchsorted(torch.bucketize(i, starts[0], right=True) - 1, images).tolist()
    first, second = (column.tolist() for column in starts)
    found = [torch.zeros(0, dtype=torch.float64, device=i.device)]
    for image, (start, end) in enumerate(pairwise(bounds)):
        if start < end:
            part = slice(start, end)
            rows, others = i[part] - first[image], j[part] - second[image]
            crowd = over_area.index_select(0, j[part])
            found.append(_overlaps(masks[0][image], masks[1][image], rows, others, crowd))
    return torch.cat(found)


def match_by_masks(rows: Matchable, rules: Rules, overlaps: Overlaps) -> tuple[Tensor, Tensor]:
    """:func:`fused.match_word` with overlaps of masks, on the host; results on the device."""
    device = rows.group.device
    pairs = Pairs(*(column.cpu() for column in overlaps.pairs))
    host = Matchable(*(column.cpu() for column in rows))
    overlap = overlaps.overlap.cpu()
    known = candidates(host, rules, pairs, overlap, overlap)
    taken = torch.zeros_like(host.exclusive)
    positive, ignored = match_candidates(host, rules, known, taken)
    return positive.to(device), ignored.to(device)


def _overlaps(first: ImageMasks, second: ImageMasks, i: Tensor, j: Tensor, crowd: Tensor) -> Tensor:
    """[P] float64 of the pairs of one image."""
    if isinstance(first, BitMasks) and isinstance(second, BitMasks):
        common = common_pixels(first.words, second.words, i, j).to(torch.float64)
        area = first.areas.index_select(0, i).to(torch.float64)
        other = second.areas.index_select(0, j).to(torch.float64)
        return torch.where(
            crowd,
            intersection_over_area(common, area),
            intersection_over_union(common, area, other),
        )
    assert isinstance(first, RleMasks)
    assert isinstance(second, RleMasks)
    return _run_length_overlaps(first, second, i, j, crowd)


def _run_length_overlaps(
    first: RleMasks, second: RleMasks, i: Tensor, j: Tensor, crowd: Tensor
) -> Tensor:
    """Pairs come by detection; detections with the same first object have all objects in common."""
    rows, objects, flags = (column.cpu().numpy() for column in (i, j, crowd))
    bounds = np.concatenate(([0], np.flatnonzero(rows[1:] != rows[:-1]) + 1, [rows.size]))
    starts, counts = bounds[:-1], bounds[1:] - bounds[:-1]
    overlap = np.zeros(rows.size)
    for leader in np.unique(objects[starts]):
        members = np.flatnonzero(objects[starts] == leader)
        common = slice(starts[members[0]], starts[members[0]] + counts[members[0]])
        values = rle.overlaps(
            [first.rles[row] for row in rows[starts[members]]],
            [second.rles[row] for row in objects[common]],
            flags[common],
        )
        places = starts[members][:, None] + np.arange(counts[members[0]])
        overlap[places] = values.numpy()
    return torch.from_numpy(overlap).to(i.device)


def _touching(pairs: Pairs, masks: tuple[Masks, Masks]) -> Tensor:
    """[P] bool: the rectangles that the masks themselves fill overlap; run lengths always do."""
    device = pairs.detection.device
    first, second = (
        _extents(side, device).index_select(0, rows)
        for side, rows in zip(masks, pairs, strict=True)
    )
    starts = torch.maximum(first[:, 0::2], second[:, 0::2])
    ends = torch.minimum(first[:, 1::2], second[:, 1::2])
    return (starts < ends).all(1)


def _extents(masks: Masks, device: torch.device) -> Tensor:
    """[N, 4] int64: rows and word columns that the masks of all images fill."""
    unbounded = from_host([0, 2**40, 0, 2**40], torch.int64, device).unsqueeze(0)
    parts = [
        extents(one.words) if isinstance(one, BitMasks) else unbounded.expand(len(one), 4)
        for one in masks
        if len(one)
    ]
    return torch.cat([unbounded[:0], *parts])
