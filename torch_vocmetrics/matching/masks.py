"""Overlaps of candidate pairs by their masks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from ..image_masks import BitMasks, ImageMasks, RleMasks, areas_of
from ..ops import mask_stacks, rle
from ..ops.boxes import intersection_over_area, intersection_over_union
from ..ops.masks import common_pixels
from ..ragged import Detections, GroundTruths, starts_of_images
from .pairs import Pairs

Masks = Sequence[ImageMasks]


def overlaps_of_masks(
    detections: Detections, ground_truths: GroundTruths, pairs: Pairs, over_area: Tensor
) -> Tensor:
    """[P] float64: pixels of both masks over pixels of either, or over the detection's.

    Args:
        detections, ground_truths: of a chunk, with masks.
        pairs: [P] rows as they came; images rise.
        over_area: [P] bool, crowds.
    """
    starts = [
        starts_of_images(side.counts, over_area.device) for side in (detections, ground_truths)
    ]
    masks = detections.masks or (), ground_truths.masks or ()
    return overlaps_of_pairs(pairs, masks, starts, over_area)


def overlaps_of_stacks(
    detections: Detections, ground_truths: GroundTruths, over_area: Tensor
) -> Tensor:
    """[sum of n * m] float64: overlaps of all pairs of one class and image; waits for nothing.

    Args:
        detections, ground_truths: of a chunk, with masks as bits.
        over_area: [M] bool, crowds.
    """
    sides = detections.masks or (), ground_truths.masks or ()
    device = over_area.device
    return mask_stacks.overlaps(
        ([_words(one, device) for one in sides[0]], [_words(one, device) for one in sides[1]]),
        (detections.labels, ground_truths.labels),
        over_area,
        (areas_of(sides[0], device), areas_of(sides[1], device)),
    )


def _words(masks: ImageMasks, device: torch.device) -> Tensor:
    """Bits; images without masks have none."""
    if isinstance(masks, BitMasks):
        return masks.words
    return torch.empty((0, 0, 0), dtype=torch.int64, device=device)


def overlaps_of_pairs(
    pairs: Pairs, masks: tuple[Masks, Masks], starts: Sequence[Tensor], over_area: Tensor
) -> Tensor:
    """[P] float64 overlaps of the masks of pairs whose images rise.

    Args:
        pairs: [P] rows as they came.
        masks: of detections and of ground truths, by image.
        starts: [I + 1] each, the rows of each image.
        over_area: [P] bool, pairs whose overlap is over the detection's area.

    The device is read for the sizes of the work.
    """
    i, j = pairs
    images = torch.arange(len(masks[0]) + 1, device=i.device)
    bounds = torch.searchsorted(torch.bucketize(i, starts[0], right=True) - 1, images).tolist()
    first, second = (column.tolist() for column in starts)
    overlap = torch.zeros(i.shape[0], dtype=torch.float64, device=i.device)
    coded = [np.zeros(0, dtype=np.int64)]
    for image, (start, end) in enumerate(pairwise(bounds)):
        found, true = masks[0][image], masks[1][image]
        if start == end:
            continue
        if isinstance(found, BitMasks) and isinstance(true, BitMasks):
            part = slice(start, end)
            rows, others = i[part] - first[image], j[part] - second[image]
            overlap[part] = _bit_overlaps(found, true, rows, others, over_area[part])
        else:
            coded.append(np.arange(start, end))
    chosen = torch.from_numpy(np.concatenate(coded)).to(i.device)
    if chosen.numel():
        some = _run_length_overlaps(masks, pairs.rows(chosen), over_area.index_select(0, chosen))
        overlap[chosen] = some.to(i.device)
    return overlap


def _bit_overlaps(first: BitMasks, second: BitMasks, i: Tensor, j: Tensor, crowd: Tensor) -> Tensor:
    """[P] float64 of the pairs of one image."""
    common = common_pixels(first.words, second.words, i, j).to(torch.float64)
    area = first.areas.index_select(0, i).to(torch.float64)
    other = second.areas.index_select(0, j).to(torch.float64)
    return torch.where(
        crowd,
        intersection_over_area(common, area),
        intersection_over_union(common, area, other),
    )


def _run_length_overlaps(masks: tuple[Masks, Masks], pairs: Pairs, crowd: Tensor) -> Tensor:
    """[P] float64 on the host, of pairs in images whose masks are run lengths.

    Pairs come by detection. Detections with the same first object have all objects in common, and
    are compared with them in one call.
    """
    found, true = ([one for side in sides for one in _rles(side)] for sides in masks)
    rows, objects, flags = (column.cpu().numpy() for column in (*pairs, crowd))
    starts = np.concatenate([[0], np.flatnonzero(rows[1:] != rows[:-1]) + 1])
    counts = np.diff(starts, append=rows.size)
    order = np.argsort(objects[starts], kind="stable")
    starts, counts = starts[order], counts[order]
    leaders = objects[starts]
    cuts = np.flatnonzero(leaders[1:] != leaders[:-1]) + 1
    detections, numbers = rows[starts].tolist(), objects.tolist()
    values = []
    for first, end in pairwise([0, *cuts.tolist(), len(detections)]):
        common = slice(start := int(starts[first]), start + int(counts[first]))
        some = [found[row] for row in detections[first:end]]
        values.append(rle.overlaps(some, [true[row] for row in numbers[common]], flags[common]))
    indices = np.arange(rows.size) + np.repeat(starts - np.cumsum(counts) + counts, counts)
    overlap = np.empty(rows.size)
    overlap[indices] = np.concatenate(values, axis=None)
    return torch.from_numpy(overlap)


def _rles(masks: ImageMasks) -> Sequence[rle.Rle | None]:
    return masks.as_arguments() if isinstance(masks, RleMasks) else [None] * len(masks)
