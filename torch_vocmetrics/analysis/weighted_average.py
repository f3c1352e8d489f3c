"""Average precision, recall and miss rates of ranked detections whose images have weights.

All of it equals evaluating the data set in which each image occurs as often as its weight says; see
:mod:`.weighted_rows`. Counts are integers, quotients single IEEE operations in the official order;
only the sums over recall steps may differ from the official ones in the last bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..curves.miss_rate import log_average
from ..ops.selection import take_along
from ..ops.sums import sums_before
from ..protocols import DetectionProtocol, MissRateProtocol
from .weighted_rows import HitCounts, LaneRows, RankedClass, WeightedClass

TILE_BYTES = 48 * 2**20
"""Memory of the tables of one tile: so many sets of weights are counted at once."""

_BYTES_PER_ROW, _BYTES_PER_HIT = 12, 48
"""What an entry of the tables of rows, and of the tables of true positives, takes at most."""


@dataclass(frozen=True, eq=False)
class ClassRows:
    """The ranked detections and the objects of one class.

    Attributes:
        ranked: the N detections.
        lanes: outcomes in each of L lanes.
        objects: for each lane [M] int64, the images of the objects that count.
        within: for each smaller limit of detections of an image and class, [N] bool rows within it.
    """

    ranked: RankedClass
    lanes: tuple[LaneRows, ...]
    objects: tuple[Tensor, ...]
    within: tuple[Tensor, ...] = ()


class WeightedValues(NamedTuple):
    """Values of one class for W sets of weights.

    Attributes:
        average_precision: [W, L] float64, as the official code gives it for the class alone.
        recall: [W, L, M] float64, the largest recall for each limit; NaN without objects.
        num_positives: [W, L] int64.
    """

    average_precision: Tensor
    recall: Tensor
    num_positives: Tensor


def weighted_values(
    rows: ClassRows, weights: Tensor, protocol: DetectionProtocol, copies: int
) -> WeightedValues:
    """Average precision and recall of one class under many sets of image weights.

    Args:
        rows: of the class.
        weights: [W, I] int32, how often each image occurs.
        protocol: its interpolation, recall levels and epsilon count.
        copies: the largest weight.
    """
    W, num_images = weights.shape
    prepared = WeightedClass.of(rows.ranked, rows.lanes, num_images, copies)
    limits, shape = len(rows.within) + 1, (W, len(rows.lanes))
    values = WeightedValues(
        torch.empty(shape, dtype=torch.float64, device=weights.device),
        torch.empty((*shape, limits), dtype=torch.float64, device=weights.device),
        torch.empty(shape, dtype=torch.int64, device=weights.device),
    )
    inside = [
        [mask[rows_of_hits] for mask in rows.within]
        for rows_of_hits in (lane.true_positive.nonzero().squeeze(1) for lane in rows.lanes)
    ]
    images_of_hits = [rows.ranked.image[lane.true_positive] for lane in rows.lanes]
    hits = max((lane.hits.shape[0] for lane in prepared.lanes), default=0)
    tied = prepared.tied_images.shape[0] * copies
    each = _BYTES_PER_ROW * (prepared.columns.shape[0] + tied) + _BYTES_PER_HIT * (hits + 128)
    tile = max(1, TILE_BYTES // each)
    for first in range(0, W, tile):
        part = weights[first : first + tile]
        of_rows = prepared.row_weights(part)
        seen = torch.cumsum(of_rows, dim=1, dtype=torch.int32)
        for lane, objects in enumerate(rows.objects):
            counts = prepared.counts_at_hits(of_rows, seen, lane)
            positives = take_along(part, objects).sum(dim=1)
            averages = _average(counts, positives, protocol)
            if protocol.interpolation != "recall_grid":
                entry = prepared.lanes[lane]
                off = take_along(of_rows, entry.ignored).sum(dim=1)
                any_row = seen[:, -1] if seen.shape[1] else positives.new_zeros(part.shape[0])
                averages = _voc_degenerate(averages, positives, any_row, off, protocol)
            values.average_precision[first : first + tile, lane] = averages
            values.num_positives[first : first + tile, lane] = positives
            found = [
                take_along(part, images_of_hits[lane][mask]).sum(dim=1) for mask in inside[lane]
            ]
            found.append(counts.weight.sum(dim=1))
            recall = torch.stack(found, dim=1) / positives.double().unsqueeze(1)
            values.recall[first : first + tile, lane] = recall
    return values


def _average(counts: HitCounts, positives: Tensor, protocol: DetectionProtocol) -> Tensor:
    """[W] float64: the interpolated average precision, for classes with objects."""
    precision = counts.true_positives / counts.detections.double().add_(protocol.precision_epsilon)
    if not protocol.precision_epsilon:
        # Before the first detection of weight above 0 nothing is defined, and nothing is missed.
        precision.nan_to_num_(0.0)
    best = _maximum_from_here(precision)
    if protocol.interpolation == "all_points":
        return (counts.weight * best).sum(dim=1) / positives
    recall = counts.true_positives / positives.double().unsqueeze(1)
    levels = torch.tensor(protocol.recall_levels, dtype=torch.float64, device=recall.device)
    # Without objects recall is NaN everywhere; what is read then is replaced by the caller.
    spots = torch.searchsorted(
        recall.nan_to_num_(-1.0), levels.expand(recall.shape[0], -1).contiguous()
    )
    padded = torch.nn.functional.pad(best, (0, 1))
    total = torch.zeros(recall.shape[0], dtype=torch.float64, device=recall.device)
    for spot in spots.unbind(1):
        value = padded.gather(1, spot.unsqueeze(1)).squeeze(1)
        total = total + value / levels.shape[0]
    if protocol.interpolation == "recall_grid":
        return torch.where(positives > 0, total, math.nan)
    return total


def _voc_degenerate(
    averages: Tensor,
    positives: Tensor,
    any_row: Tensor,
    ignored: Tensor,
    protocol: DetectionProtocol,
) -> Tensor:
    """VOC's values where objects are missing or every detection is ignored.

    Without objects VOCevaldet gives 0 by eleven points; VOCap gives NaN if there are detections and
    0 if there are none. If all detections are ignored, eleven points give NaN and VOCap gives 0.
    """
    only_ignored = (any_row > 0) & (any_row == ignored)
    if protocol.interpolation == "eleven_point":
        averages = torch.where(only_ignored, math.nan, averages)
        return torch.where(positives > 0, averages, 0.0)
    missing = torch.where(any_row > 0, math.nan, 0.0)
    return torch.where(positives > 0, averages, missing.to(averages.dtype))


def weighted_miss_rates(
    rows: ClassRows, weights: Tensor, images: Sequence[Tensor], protocol: MissRateProtocol
) -> Tensor:
    """[W, S] float64: the log-average miss rate of each subset under many sets of image weights.

    Args:
        rows: of the only class; its lanes are the subsets.
        weights: [W, I] int32, how often each image occurs.
        images: for each subset [I] bool, the images that it is made of.
        protocol: references and how the curve is read.
    """
    W, num_images = weights.shape
    copies = int(weights.max()) if weights.numel() else 1
    prepared = WeightedClass.of(rows.ranked, rows.lanes, num_images, copies)
    averages = np.full((W, len(rows.lanes)), math.nan)
    each = 2 * _BYTES_PER_ROW * (prepared.columns.shape[0] + 1)
    tile = max(1, TILE_BYTES // each)
    for first in range(0, W, tile):
        part = weights[first : first + tile]
        of_rows = prepared.row_weights(part)
        for s, subset in enumerate(protocol.subsets):
            entry = prepared.lanes[s]
            count = part[:, images[s]].sum(dim=1)
            positives = take_along(part, rows.objects[s]).sum(dim=1)
            curve = _FppiCounts(
                sums_before(take_along(of_rows, entry.hits), torch.int32),
                torch.cumsum(take_along(of_rows, entry.misses), dim=1, dtype=torch.int32),
                torch.searchsorted(entry.hits, entry.misses),
            )
            rates = _miss_rates(curve, count, positives, protocol.fppi_of(subset), protocol)
            for row, values in enumerate(rates.cpu().numpy(), first):
                averages[row, s] = log_average(values, protocol)
    return torch.from_numpy(averages)


class _FppiCounts(NamedTuple):
    """Counts along a curve of miss rate against false positives.

    Attributes:
        found: [W, H + 1] int32, true positives among the first 0 .. H of them.
        errors: [W, F] int32, cumulative false positives.
        hits_before: [F] int64, how many of the H true positives come before each false positive.
    """

    found: Tensor
    errors: Tensor
    hits_before: Tensor


def _miss_rates(
    curve: _FppiCounts,
    num_images: Tensor,
    positives: Tensor,
    references: Sequence[float],
    protocol: MissRateProtocol,
) -> Tensor:
    """[W, R] float64: miss rates at the references, read as the protocol reads its curve.

    Only false positives move a curve to the right, so that a reference is read at the true
    positives before the first false positive that lies beyond it.
    """
    rule, W = protocol.curve_reading, num_images.shape[0]
    levels = torch.tensor(references, dtype=torch.float64, device=curve.errors.device)
    fppi = curve.errors / num_images.double().unsqueeze(1)
    first_reading = rule == "first_or_final"
    spots = torch.searchsorted(
        fppi.nan_to_num_(0.0), levels.expand(W, -1).contiguous(), right=not first_reading
    )
    before = torch.nn.functional.pad(curve.hits_before, (0, 1), value=curve.found.shape[1] - 1)
    found = curve.found.gather(1, before[spots])
    total = curve.found[:, -1:]
    divisor = positives.double().clamp(min=protocol.positives_floor).unsqueeze(1)
    rates = 1 - found / divisor
    if not first_reading:
        # The curve has a point at or below a reference if it begins with a true positive, or if
        # one false positive lies there.
        begins = (found > 0) | (1 / num_images.double().unsqueeze(1) <= levels)
        final = 1 - total / divisor
        unread = {"last_or_final": final, "last_or_undefined": torch.full_like(final, math.nan)}
        rates = torch.where(begins, rates, unread.get(rule, torch.ones_like(final)))
    points = total[:, 0] + (curve.errors[:, -1] if curve.errors.shape[1] else 0) > 0
    nothing = math.nan if first_reading else 1.0
    rates = torch.where(points.unsqueeze(1), rates, nothing)
    undefined = num_images == 0
    if protocol.without_positives == "undefined":
        undefined |= positives == 0
    return torch.where(undefined.unsqueeze(1), math.nan, rates)


def _maximum_from_here(values: Tensor) -> Tensor:
    """[W, H] the largest of ``values`` [W, H] in each column and the columns after it."""
    if values.device.type != "cpu":
        return values.flip(1).cummax(dim=1).values.flip(1)
    backwards = values.numpy()[:, ::-1]
    np.maximum.accumulate(backwards, axis=1, out=backwards)
    return values
