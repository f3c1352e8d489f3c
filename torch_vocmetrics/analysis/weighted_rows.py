"""Ranked detections of one class whose images have weights: counts at every true positive.

An image of weight w stands for w copies of the image that follow one another in the canonical
order. Many sets of weights are counted at once, one row of a table each.

A detection of an image of weight w is a run of w equal detections. Precision rises along a run of
true positives, so that of a run only its last entry matters for any interpolated precision. Copies
of an image interleave only where detections of one image and class have equal scores: the copies of
such a tie come as A B A B, not as A A B B. These detections are repeated, one repetition for each
copy, with weight 1 where there are so many copies and 0 where not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ..ops.selection import rows_where, take_along
from ..ops.sums import sums_before


class RankedClass(NamedTuple):
    """The N detections of one class in canonical order.

    That is by falling score, then ``order`` if there is one, then image, then index in the image.

    Attributes:
        image: [N] int64, row of the image.
        score: [N].
        order: [N] int64 that breaks ties of score, or None.
    """

    image: Tensor
    score: Tensor
    order: Tensor | None


class LaneRows(NamedTuple):
    """Outcomes of the N detections of a class in one lane.

    Attributes:
        true_positive, ignored: [N] bool.
    """

    true_positive: Tensor
    ignored: Tensor


class WeightedLane(NamedTuple):
    """Where the outcomes of a lane stand among the rows of a :class:`WeightedClass`.

    Attributes:
        hits: [H] int64, rising rows of true positives.
        ignored: [G] int64, rising rows that are ignored.
        ignored_before: [H] int64, how many of the ignored rows come before each hit.
        misses: [F] int64, rising rows of false positives.
    """

    hits: Tensor
    ignored: Tensor
    ignored_before: Tensor
    misses: Tensor


class HitCounts(NamedTuple):
    """Weighted counts of one lane, [W, H] int32, an entry for each true positive.

    Attributes:
        weight: of the true positive.
        true_positives: cumulative, the true positive included.
        detections: cumulative detections that are not ignored.
    """

    weight: Tensor
    true_positives: Tensor
    detections: Tensor


@dataclass(frozen=True, eq=False)
class WeightedClass:
    """The detections of one class in canonical order, ready for any weights up to a limit.

    Attributes:
        columns: [n] int64, the column of the weight table of each row; see :meth:`table`.
        tied_images: [V] int64, images with repeated detections.
        copies: how often those are repeated: the largest weight.
        lanes: the outcomes of each lane.
    """

    columns: Tensor
    tied_images: Tensor
    copies: int
    lanes: tuple[WeightedLane, ...]

    @classmethod
    def of(
        cls, ranked: RankedClass, lanes: Sequence[LaneRows], num_images: int, copies: int
    ) -> WeightedClass:
        """Prepare the rows of a class.

        Args:
            ranked: the detections.
            lanes: their outcomes.
            num_images: I.
            copies: the largest weight that an image will have.
        """
        rows, columns, tied = _with_copies(ranked, lanes, num_images, copies)
        prepared = []
        for lane in lanes:
            hit, off = lane.true_positive[rows], lane.ignored[rows]
            hits, ignored = rows_where(hit), rows_where(off)
            before = torch.searchsorted(ignored, hits)
            prepared.append(WeightedLane(hits, ignored, before, rows_where(~(hit | off))))
        return cls(columns, tied, copies, tuple(prepared))

    def table(self, weights: Tensor) -> Tensor:
        """[W, I + V * copies] int32: weights, and whether each tied image has so many copies.

        Args:
            weights: [W, I] int32, none above ``copies``.
        """
        if not self.tied_images.numel():
            return weights
        numbers = torch.arange(self.copies, dtype=weights.dtype, device=weights.device)
        tied = take_along(weights, self.tied_images).unsqueeze(2) > numbers
        return torch.cat([weights, tied.flatten(1).to(weights.dtype)], dim=1)

    def row_weights(self, weights: Tensor) -> Tensor:
        """[W, n] int32: the weight of every row under ``weights`` [W, I] int32."""
        return take_along(self.table(weights), self.columns)

    def counts_at_hits(self, rows: Tensor, seen: Tensor, lane: int) -> HitCounts:
        """Counts at the true positives of a lane.

        Args:
            rows: [W, n] of :meth:`row_weights`.
            seen: [W, n] int32, their cumulative sum.
            lane: index of the lane.
        """
        entry = self.lanes[lane]
        weight = take_along(rows, entry.hits)
        detections = take_along(seen, entry.hits)
        if entry.ignored.numel():
            off = sums_before(take_along(rows, entry.ignored), torch.int32)
            detections -= take_along(off, entry.ignored_before)
        return HitCounts(weight, torch.cumsum(weight, dim=1, dtype=torch.int32), detections)


def _with_copies(
    ranked: RankedClass, lanes: Sequence[LaneRows], num_images: int, copies: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Rows with tied ones repeated, the weight column of each, and the images with such rows.

    A run of equal score and image (and ``order``, which copies share) needs repetitions only if
    some lane has in it both a true positive and a false positive.

    Example: images ``[0, 1, 1, 2]``, where rows 1 and 2 are tied and differ, two copies: rows
    ``[0, 1, 2, 1, 2, 3]``; with 3 images the columns are ``[0, 3, 3, 4, 4, 2]``, column 3 + c being
    whether image 1 has more than c copies.
    """
    image, total, device = ranked.image, ranked.image.shape[0], ranked.image.device
    same = torch.ones_like(image[1:], dtype=torch.bool)
    for column in (image, ranked.score, *([] if ranked.order is None else [ranked.order])):
        same &= column[1:] == column[:-1]
    number = torch.zeros(total, dtype=torch.int64, device=device)
    torch.cumsum(~same, dim=0, out=number[1:])
    mixed = torch.zeros(total + 1, dtype=torch.bool, device=device)
    if copies > 1 and bool(same.any()):
        for hit, off in lanes:
            has_hit, has_miss = torch.zeros_like(mixed), torch.zeros_like(mixed)
            has_hit[number[hit]] = True
            has_miss[number[~(hit | off)]] = True
            mixed |= has_hit & has_miss
    tied_rows = mixed[number]
    rows = torch.arange(total, device=device)
    if not bool(tied_rows.any()):
        return rows, image, image[:0]
    tied_images, owner = torch.unique(image[tied_rows], return_inverse=True)
    # Sorted by run, copy and row; rows that are not repeated are their only copy.
    times = torch.where(tied_rows, copies, 1)
    rows = torch.repeat_interleave(rows, times)
    copy = torch.arange(rows.shape[0], device=device) - (torch.cumsum(times, 0) - times)[rows]
    order = torch.argsort(number[rows] * copies + copy, stable=True)
    rows, copy = rows[order], copy[order]
    virtual = torch.zeros(total, dtype=torch.int64, device=device)
    virtual[tied_rows] = num_images + owner * copies
    columns = torch.where(tied_rows[rows], virtual[rows] + copy, image[rows])
    return rows, columns, tied_images
