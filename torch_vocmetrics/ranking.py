"""Canonical order: repeated images dropped, detections of a class by falling score over all images.

Ties fall by image position, then by place in the image. The position is the place of an image's id
in sorted order, or the order of arrival where no ids were given; an explicit ``order`` overrides
both. With ids the ranking is therefore the same for every batch split, shard and merge order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .lanes import Lanes, column, in_area
from .ops.ordering import rank_order
from .ops.selection import rows_where, take
from .tables.records import MatchRecords
from .tables.repeats import repeats, unequal_truth, warn_of_repeats
from .transfer import from_host


@dataclass(frozen=True, eq=False)
class Ranking:
    """All detections by class, then falling score.

    Attributes:
        lanes: the meaning of the bits.
        num_images: images evaluated.
        class_starts: [K + 1] int64, rows class_starts[k] .. class_starts[k + 1] are of class k.
        scores: [N].
        within: [N] bool for each limit of detections: rows among so many first of their image and
            class.
        out_of_range: [N, bytes] uint8, area ranges in which those that claim nothing are ignored.
        claimant: [H] int64, rising rows that claim an object.
        true_positive, ignored: [H, words] int64, all of their lanes.
        num_positives: [A, K] int64, objects that count, by area range.
    """

    lanes: Lanes
    num_images: int
    class_starts: Tensor
    scores: Tensor
    within: tuple[Tensor, ...]
    out_of_range: Tensor
    claimant: Tensor
    true_positive: Tensor
    ignored: Tensor
    num_positives: Tensor

    @property
    def num_classes(self) -> int:
        """K."""
        return self.class_starts.shape[0] - 1

    def blocks(self, rows: int) -> list[range]:
        """Consecutive classes of together about so many rows."""
        return _blocks(self.class_starts.diff().tolist(), rows)

    def of_classes(self, classes: range) -> Ranking:
        """The part of consecutive classes; no copies but of claimants."""
        starts = self.class_starts[classes.start : classes.stop + 1]
        first, end = int(starts[0]), int(starts[-1])
        claims = slice(*torch.searchsorted(self.claimant, starts[[0, -1]]).tolist())
        return Ranking(
            self.lanes,
            self.num_images,
            starts - first,
            self.scores[first:end],
            tuple(one[first:end] for one in self.within),
            self.out_of_range[first:end],
            self.claimant[claims] - first,
            self.true_positive[claims],
            self.ignored[claims],
            self.num_positives[:, classes.start : classes.stop],
        )

    def outcomes(self, area: int, threshold: int) -> tuple[Tensor, Tensor]:
        """Whether rows are true positives, and whether they are ignored, [N] bool each."""
        place = self.lanes.place(area, threshold)
        positive = torch.zeros_like(self.scores, dtype=torch.bool)
        positive.scatter_(0, self.claimant, column(self.true_positive, place))
        ignored = in_area(self.out_of_range, area)
        return positive, ignored.scatter_(0, self.claimant, column(self.ignored, place))


NO_CLAIM = -1
BLOCK_ROWS = 2**17
"""Detections that are ranked at a time, so that ranking needs little memory beside the records."""


def rank(
    records: MatchRecords, lanes: Lanes, num_classes: int, *, by_score: bool = True
) -> Ranking:
    """Rank the detections of records without repeated images (see :func:`distinct_images`).

    Args:
        records, lanes, num_classes: what is ranked.
        by_score: False ranks by what else breaks ties of score: ``order``, or image and place.
    """
    return Ranker(records, lanes, num_classes).ranked(range(num_classes), by_score=by_score)


class Ranker:
    """Ranks records without repeated images, any classes at a time.

    Args:
        records, lanes, num_classes: what is ranked.
        limits: of detections of an image and class, which rankings are to know.
    """

    def __init__(
        self, records: MatchRecords, lanes: Lanes, num_classes: int, limits: Sequence[int] = ()
    ) -> None:
        self.records, self.lanes, self.num_classes = records, lanes, num_classes
        self._limits = limits
        self._positions = _positions_out_of_order(records)
        self.num_positives = _num_positives(records, lanes, num_classes)
        one = torch.ones(1, dtype=torch.int64, device=records.device)
        self._rows_of_class = one.new_zeros(num_classes).index_add(
            0, records.label, one.expand(records.num_detections)
        )
        claims = torch.arange(records.claimant.shape[0], dtype=torch.int32, device=records.device)
        self._claim = torch.full_like(records.label, NO_CLAIM)
        self._claim.scatter_(0, records.claimant, claims)

    def blocks(self) -> list[range]:
        """Consecutive classes of together about BLOCK_ROWS rows."""
        return _blocks(self._rows_of_class.tolist(), BLOCK_ROWS)

    def ranked(self, classes: range, *, by_score: bool = True) -> Ranking:
        """The detections of consecutive classes; ``by_score`` as for :func:`rank`."""
        records, rows = self.records, None
        if len(classes) < self.num_classes:
            label = records.label
            rows = rows_where((label >= classes.start) & (label < classes.stop))

        def chosen(column: Tensor) -> Tensor:
            return column if rows is None else column.index_select(0, rows)

        image, label = chosen(records.image), chosen(records.label)
        areas = records.out_of_range if rows is None else take(records.out_of_range, rows)
        within = [_among_first(limit, image, label) for limit in self._limits]
        label = label.long() - classes.start
        score = chosen(records.score if by_score else torch.zeros_like(records.score))
        # Stable sorts keep the rows of an image in the order of their places.
        order = None if records.order is None else chosen(records.order)
        position = None if self._positions is None else self._positions.index_select(0, image)
        ranked = rank_order(label, score, (order, position), len(classes))
        starts = self._rows_of_class[classes.start : classes.stop].cumsum(0)
        # Rows of the block, which lie close together, are put in order faster than rows of all.
        claim = chosen(self._claim).index_select(0, ranked)
        claimant = rows_where(claim != NO_CLAIM)
        claim = claim.index_select(0, claimant)
        return Ranking(
            self.lanes,
            records.num_images,
            torch.nn.functional.pad(starts, (1, 0)),
            chosen(records.score).index_select(0, ranked),
            tuple(one.index_select(0, ranked) for one in within),
            take(areas, ranked),
            claimant,
            take(records.true_positive, claim),
            take(records.ignored, claim),
            self.num_positives[:, classes.start : classes.stop],
        )


def _among_first(limit: int, image: Tensor, label: Tensor) -> Tensor:
    """[N] bool: rows with fewer than ``limit`` rows of their image and class before them.

    Rows of an image and class stand together.
    """
    among = torch.ones_like(image, dtype=torch.bool)
    among[limit:] = (image[limit:] != image[:-limit]) | (label[limit:] != label[:-limit])
    return among


def _blocks(rows_of_class: list[int], most: int) -> list[range]:
    """Consecutive classes of together at most so many rows, but at least one class."""
    blocks, start, rows = [], 0, 0
    for label, more in enumerate(rows_of_class):
        if rows and rows + more > most:
            blocks.append(range(start, label))
            start, rows = label, 0
        rows += more
    return [*blocks, range(start, len(rows_of_class))]


def image_positions(records: MatchRecords) -> Tensor:
    """[I] int64: place of each image's id in sorted order; its row where no ids were given."""
    rows = list(range(records.num_images))
    ids = records.image_ids
    places = list(rows)
    if ids is not None:
        for place, (_, row) in enumerate(sorted(zip(ids, rows, strict=True))):
            places[row] = place
    return from_host(places, torch.int64, records.image_sizes.device)


def _positions_out_of_order(records: MatchRecords) -> Tensor | None:
    """The positions where they break ties of score; None where rows have that order already."""
    if records.image_ids is None:
        return None
    positions = image_positions(records)
    return None if bool((positions.diff() > 0).all()) else positions


def _num_positives(records: MatchRecords, lanes: Lanes, num_classes: int) -> Tensor:
    label = records.ground_truth_label.long()
    none = torch.zeros(num_classes, dtype=torch.int64, device=label.device)
    counted = records.ground_truth_counted
    places = [lanes.place(area, 0) for area in range(lanes.num_areas)]
    return torch.stack([none.index_add(0, label, column(counted, at).long()) for at in places])


def distinct_images(records: MatchRecords) -> Tensor | None:
    """[I] bool: the copy of each image that was met first; None if no image came twice.

    A distributed sampler pads with repeated images, so copies are normal: one warning counts those
    dropped and those whose detections differed.

    Raises:
        StateError: if two copies of an image have different ground truth.
    """
    ids = records.image_ids
    copies = repeats(ids)
    if ids is None or not copies:
        return None
    images = records.num_images
    objects = _Rows(
        images,
        records.ground_truth_image,
        (records.ground_truth_label, records.ground_truth_area, records.ground_truth_counted),
    )
    detections = _Rows(images, records.image, (records.label, records.score, records.out_of_range))
    claimant, image = records.claimant, records.image.long()
    starts = torch.searchsorted(image, image.index_select(0, claimant))
    claims = _Rows(
        images,
        records.image.index_select(0, claimant),
        (claimant - starts, records.true_positive, records.ignored),
    )
    differing = 0
    for row, original in copies:
        if not objects.equal(row, original):
            raise unequal_truth(ids[row])
        differing += not all(rows.equal(row, original) for rows in (detections, claims))
    warn_of_repeats(len(copies), differing, "detections")
    dropped = {row for row, _ in copies}
    keep = [row not in dropped for row in range(len(ids))]
    return from_host(keep, torch.bool, records.image.device)


class _Rows:
    """Compares the rows of two images of one table, on the CPU."""

    def __init__(self, num_images: int, image: Tensor, columns: tuple[Tensor, ...]) -> None:
        count = torch.bincount(image.cpu().long(), minlength=num_images)
        self._ends = torch.cumsum(count, dim=0).tolist()
        self._counts = count.tolist()
        self._columns = [column.cpu() for column in columns]

    def equal(self, first: int, second: int) -> bool:
        """Whether the two images have the same rows."""
        slices = [
            slice(self._ends[row] - self._counts[row], self._ends[row]) for row in (first, second)
        ]
        return all(torch.equal(values[slices[0]], values[slices[1]]) for values in self._columns)
