"""Canonical order: repeated images dropped, detections of a class by falling score over all images.

Ties fall by image position, then by place in the image. The position is the place of an image's id
in sorted order, or the order of arrival where no ids were given; an explicit ``order`` overrides
both. With ids the ranking is therefore the same for every batch split, shard and merge order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from .matching.lanes import Lanes, column
from .ops.ordering import rank_in_group, rank_order
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
        true_positive, ignored: [N, words] int64 lanes.
        rank: [N] int64, place among the detections of its image and class.
        num_positives: [A, K] int64, objects that count, by area range.
    """

    lanes: Lanes
    num_images: int
    class_starts: Tensor
    scores: Tensor
    true_positive: Tensor
    ignored: Tensor
    rank: Tensor
    num_positives: Tensor

    @property
    def num_classes(self) -> int:
        """K."""
        return self.class_starts.shape[0] - 1


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
    num_positives = _num_positives(records, lanes, num_classes)
    return _rank_classes(
        records,
        lanes,
        None,
        _positions_out_of_order(records),
        range(num_classes),
        num_positives,
        by_score,
    )


def rankings(records: MatchRecords, lanes: Lanes, num_classes: int) -> Iterator[Ranking]:
    """:func:`rank` in blocks of whole classes, from the first class to the last."""
    num_positives = _num_positives(records, lanes, num_classes)
    positions = _positions_out_of_order(records)
    count = torch.zeros(num_classes, dtype=torch.int64, device=records.label.device)
    count = count.index_add(0, records.label, torch.ones_like(records.label, dtype=torch.int64))
    for classes in _blocks(count.tolist()):
        rows = None
        if len(classes) < num_classes:
            inside = (records.label >= classes.start) & (records.label < classes.stop)
            rows = inside.nonzero().squeeze(1)
        part = num_positives[:, classes.start : classes.stop]
        yield _rank_classes(records, lanes, rows, positions, classes, part, by_score=True)


def _blocks(rows_of_class: list[int]) -> Iterator[range]:
    """Consecutive classes of together about BLOCK_ROWS rows; at least one block."""
    start = rows = 0
    for label, count in enumerate(rows_of_class):
        if rows and rows + count > BLOCK_ROWS:
            yield range(start, label)
            start, rows = label, 0
        rows += count
    yield range(start, len(rows_of_class))


def _rank_classes(
    records: MatchRecords,
    lanes: Lanes,
    rows: Tensor | None,
    positions: Tensor | None,
    classes: range,
    num_positives: Tensor,
    by_score: bool,
) -> Ranking:
    """Rank the detections at ``rows`` (None: all), which are those of the classes."""

    def chosen_rows(column: Tensor) -> Tensor:
        return column if rows is None else column.index_select(0, rows)

    image, label = chosen_rows(records.image).long(), chosen_rows(records.label).long()
    label = label - classes.start
    in_image = rank_in_group(image * len(classes) + label)
    score = chosen_rows(records.score if by_score else torch.zeros_like(records.score))
    # Stable sorts keep the rows of an image in the order of their places.
    order = None if records.order is None else chosen_rows(records.order)
    position = None if positions is None else positions.index_select(0, image)
    ranked = rank_order(label, score, (order, position), len(classes))
    ends = torch.zeros(len(classes) + 1, dtype=torch.int64, device=label.device)
    ends = ends.index_add(0, label + 1, torch.ones_like(label)).cumsum(0)
    place = ranked if rows is None else rows.index_select(0, ranked)
    return Ranking(
        lanes,
        records.num_images,
        ends,
        records.score.index_select(0, place),
        records.true_positive.index_select(0, place),
        records.ignored.index_select(0, place),
        in_image.index_select(0, ranked),
        num_positives,
    )


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
    objects = _Rows(records, "ground_truth_image", ("label", "area", "counted"), "ground_truth_")
    detections = _Rows(records, "image", ("label", "score", "true_positive", "ignored"), "")
    differing = 0
    for row, original in copies:
        if not objects.equal(row, original):
            raise unequal_truth(ids[row])
        differing += not detections.equal(row, original)
    warn_of_repeats(len(copies), differing, "detections")
    dropped = {row for row, _ in copies}
    keep = [row not in dropped for row in range(len(ids))]
    return from_host(keep, torch.bool, records.image.device)


class _Rows:
    """Compares the rows of two images of one table, on the CPU."""

    def __init__(
        self, records: MatchRecords, image: str, columns: tuple[str, ...], prefix: str
    ) -> None:
        owner = getattr(records, image).cpu().long()
        count = torch.bincount(owner, minlength=records.num_images)
        self._ends = torch.cumsum(count, dim=0).tolist()
        self._counts = count.tolist()
        self._columns = [getattr(records, prefix + name).cpu() for name in columns]

    def equal(self, first: int, second: int) -> bool:
        """Whether the two images have the same rows."""
        slices = [
            slice(self._ends[row] - self._counts[row], self._ends[row]) for row in (first, second)
        ]
        return all(torch.equal(values[slices[0]], values[slices[1]]) for values in self._columns)
