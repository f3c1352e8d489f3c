"""Canonical order: repeated images dropped, detections of a class by falling score over all images.

Ties fall by image position, then by index in the image. The position is the index of an image's id
in sorted order, or the order of arrival where no ids were given; an explicit ``order`` overrides
both. With ids the ranking is therefore the same for every batch split, shard and merge order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor

from ..lanes import Lanes, column, in_area, lanes_of_areas
from ..ops.ordering import rank_in_group, rank_order, stable_order
from ..ops.selection import rows_where, take
from ..ops.sums import sums_before
from ..ragged import Ids
from ..tables.class_slices import positives_of_classes
from ..tables.records import MATCH_COLUMNS, MatchRecords, cat_ids
from ..tables.repeats import repeats, unequal_truth, warn_of_repeats
from ..transfer import from_host, to_host


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
        out_of_range: [N, bytes] uint8, area ranges in which detections without a match are ignored.
        matched: [H] int64, rising rows of detections that match a ground truth in any lane.
        true_positive, ignored: [H, words] int64, all lanes in which they are so.
        num_positives: [A, K] int64, ground truths that count, by area range.
    """

    lanes: Lanes
    num_images: int
    class_starts: Tensor
    scores: Tensor
    within: tuple[Tensor, ...]
    out_of_range: Tensor
    matched: Tensor
    true_positive: Tensor
    ignored: Tensor
    num_positives: Tensor

    @property
    def num_classes(self) -> int:
        """K."""
        return self.class_starts.shape[0] - 1

    @property
    def num_bytes(self) -> int:
        """Memory of the columns that have an entry for each detection or matched detection."""
        columns = (self.scores, *self.within, self.out_of_range)
        matches = (self.matched, self.true_positive, self.ignored)
        return sum(column.numel() * column.element_size() for column in (*columns, *matches))

    def outcomes(self, area: int, threshold: int) -> tuple[Tensor, Tensor]:
        """Whether rows are true positives, and whether they are ignored, [N] bool each."""
        bit = self.lanes.position(area, threshold)
        positive = torch.zeros_like(self.scores, dtype=torch.bool)
        positive.scatter_(0, self.matched, column(self.true_positive, bit))
        ignored = in_area(self.out_of_range, area)
        return positive, ignored.scatter_(0, self.matched, column(self.ignored, bit))


NO_MATCH = -1


def rank(
    records: MatchRecords, lanes: Lanes, num_classes: int, *, by_score: bool = True
) -> Ranking:
    """Rank the detections of records without repeated images (see :func:`distinct_images`).

    Args:
        records, lanes, num_classes: what is ranked.
        by_score: False ranks by what else breaks ties of score: ``order``, or image and index.
    """
    return Ranker([records], lanes, num_classes).ranked(range(num_classes), by_score=by_score)


class Ranker:
    """Ranks parts of records without repeated images, any classes at a time.

    Args:
        parts: one after the other; at least one.
        lanes, num_classes: what their numbers mean.
        limits: of detections of an image and class, which rankings are to know.
        positions: [I] int64 that break ties of score, of the images of all parts; default: by id.
        num_positives: [A, K] int64 of ground truths that the parts do not hold.
    """

    def __init__(
        self,
        parts: Sequence[MatchRecords],
        lanes: Lanes,
        num_classes: int,
        limits: Sequence[int] = (),
        *,
        positions: Tensor | None = None,
        num_positives: Tensor | None = None,
    ) -> None:
        self.lanes, self.num_classes, self.device = lanes, num_classes, parts[0].device
        self.num_images = sum(part.num_images for part in parts)
        self.num_detections = sum(part.num_detections for part in parts)
        self.score_dtype = reduce(torch.promote_types, (part.score.dtype for part in parts))
        if num_positives is None:
            positives = [positives_of_classes(part, lanes, num_classes) for part in parts]
            num_positives = torch.stack(positives).sum(dim=0)
        self.num_positives = num_positives.to(self.device)
        self._parts, self._limits = parts, limits
        if positions is None:
            ids = [part.image_ids for part in parts]
            self._positions = _positions_out_of_order(ids, self.device)
        else:
            self._positions = positions.to(self.device)
        self._counts = torch.stack([part.class_counts for part in parts])
        starts = sums_before(self._counts)
        matches = [
            torch.searchsorted(one.match_detection, at)
            for one, at in zip(parts, starts, strict=True)
        ]
        read = to_host([starts, torch.stack(matches), self._counts.sum(dim=0)])
        self._starts, self._matches, self._sizes = (one.tolist() for one in read)

    @property
    def class_counts(self) -> Tensor:
        """[K] int64: detections of each class."""
        return self._counts.sum(dim=0)

    @property
    def ranking_bytes(self) -> int:
        """About what the rankings of all classes take, see :attr:`Ranking.num_bytes`."""
        first = self._parts[0]
        words = 1 + 2 * first.match_true_positive.shape[1]
        matches = sum(part.match_detection.shape[0] for part in self._parts)
        flags = len(self._limits) + first.out_of_range.shape[1]
        return self.num_detections * (self.score_dtype.itemsize + flags) + 8 * words * matches

    def blocks(self, most: int, each: int = 0) -> list[range]:
        """Consecutive classes of together at most so many detections, but at least one class.

        Ranked block by block they need little memory beside the records. A class itself counts as
        ``each`` detections.
        """
        blocks, start, rows = list[range](), 0, 0
        for label, count in enumerate(self._sizes):
            if rows and rows + count + each > most:
                blocks.append(range(start, label))
                start, rows = label, 0
            rows += count + each
        return [*blocks, range(start, self.num_classes)]

    def ranked(self, classes: range, *, by_score: bool = True) -> Ranking:
        """The detections of consecutive classes; ``by_score`` as for :func:`rank`."""
        chosen = _Chosen(
            self._parts, _between(self._starts, classes), _between(self._matches, classes)
        )
        counts = self._counts[:, classes.start : classes.stop]
        image, score = chosen.image(), chosen.column("score")
        group = torch.arange(len(classes), dtype=torch.int32, device=self.device)
        group = torch.repeat_interleave(
            group.repeat(len(self._parts)), counts.flatten(), output_size=score.shape[0]
        )
        within = [_among_first(limit, image, group) for limit in self._limits]
        # Stable sorts keep the rows of an image in the order of their indices.
        position = None if self._positions is None else self._positions.index_select(0, image)
        del image
        ties = chosen.order(), position
        by = score if by_score else torch.zeros_like(score)
        ranked = rank_order(group, by, ties, len(classes))
        del group, position, ties, by  # a large class has much memory in each
        score = score.index_select(0, ranked)
        within = [one.index_select(0, ranked) for one in within]
        out_of_range = take(chosen.column("out_of_range"), ranked)
        rows, positive, ignored = chosen.outcomes()
        numbers = torch.arange(rows.shape[0], dtype=torch.int32, device=self.device)
        number = torch.full_like(score, NO_MATCH, dtype=torch.int32)
        number = number.scatter_(0, rows, numbers).index_select(0, ranked)
        matched = rows_where(number != NO_MATCH)
        number = number.index_select(0, matched)
        positive, ignored = take(positive, number), take(ignored, number)
        # In lanes without a match, whether a detection is ignored follows from its area.
        unmatched = ~(positive | ignored)
        ignored = ignored | (lanes_of_areas(take(out_of_range, matched), self.lanes) & unmatched)
        return Ranking(
            self.lanes,
            self.num_images,
            sums_before(counts.sum(dim=0)),
            score,
            tuple(within),
            out_of_range,
            matched,
            positive,
            ignored,
            self.num_positives[:, classes.start : classes.stop],
        )


class _Chosen(NamedTuple):
    """The detections of consecutive classes and their matches: slices of each part of records.

    Columns are joined one by one, since a large class has much memory in each.
    """

    parts: Sequence[MatchRecords]
    rows: Sequence[slice]
    matches: Sequence[slice]

    def column(self, name: str) -> Tensor:
        """A column of the detections or of the matches."""
        slices = self.matches if name in MATCH_COLUMNS else self.rows
        return _joined(
            getattr(part, name)[rows] for part, rows in zip(self.parts, slices, strict=True)
        )

    def image(self) -> Tensor:
        """[N] int32: rows of the images of all parts."""
        before = accumulate((part.num_images for part in self.parts), initial=0)
        pieces = zip(self.parts, self.rows, before, strict=False)
        return _joined(part.image[rows] + images for part, rows, images in pieces)

    def order(self) -> Tensor | None:
        """[N] int64 that breaks ties of score, or None."""
        pairs = zip(self.parts, self.rows, strict=True)
        given = [part.order[rows] for part, rows in pairs if part.order is not None]
        return _joined(given) if given else None

    def outcomes(self) -> tuple[Tensor, Tensor, Tensor]:
        """Matched detections [H] int64, rising, and lanes [H, words] of all their matches.

        The lanes are those in which they are true positives, and those in which they are ignored.

        Worked example: the rows 2, 2, 5 of the matches, with the true positive lanes 001, 110, 011
        (detection 2 matches one ground truth in lane 0 and another one in lanes 1 and 2), become
        the detections 2, 5 with the lanes 111, 011.
        """
        before = accumulate((rows.stop - rows.start for rows in self.rows), initial=0)
        pieces = zip(self.parts, self.matches, self.rows, before, strict=False)
        detection = _joined(
            part.match_detection[matches] + (first - rows.start)
            for part, matches, rows, first in pieces
        )
        positive, ignored = self.column("match_true_positive"), self.column("match_ignored")
        leads = torch.ones_like(detection, dtype=torch.bool)
        leads[1:] = detection[1:] != detection[:-1]
        rows = rows_where(leads)
        if rows.shape[0] == detection.shape[0]:
            return detection, positive, ignored
        # In a lane a detection has one match at most, so that the sum of its rows is their union.
        number = sums_before(leads)[1:] - 1
        shape = (rows.shape[0], positive.shape[1])
        return (
            detection.index_select(0, rows),
            positive.new_zeros(shape).index_add_(0, number, positive),
            ignored.new_zeros(shape).index_add_(0, number, ignored),
        )


def _between(starts: Sequence[Sequence[int]], classes: range) -> list[slice]:
    """For each part, the rows of consecutive classes; ``starts`` are those of all classes."""
    return [slice(one[classes.start], one[classes.stop]) for one in starts]


def _joined(pieces: Iterable[Tensor]) -> Tensor:
    """One after the other; a single piece as it is."""
    every = list(pieces)
    return every[0] if len(every) == 1 else torch.cat(every)


def _among_first(limit: int, image: Tensor, label: Tensor) -> Tensor:
    """[N] bool: rows with fewer than ``limit`` rows of their image and class before them.

    Rows of an image and class stand together.
    """
    among = torch.ones_like(image, dtype=torch.bool)
    among[limit:] = (image[limit:] != image[:-limit]) | (label[limit:] != label[:-limit])
    return among


def image_positions(ids: Sequence[int | str], device: torch.device) -> Tensor:
    """[I] int64: index of each image's id in sorted order."""
    positions = [0] * len(ids)
    for position, (_, row) in enumerate(sorted(zip(ids, range(len(ids)), strict=True))):
        positions[row] = position
    return from_host(positions, torch.int64, device)


def _positions_out_of_order(ids: Sequence[Ids | None], device: torch.device) -> Tensor | None:
    """The positions where they break ties of score; None where rows have that order already."""
    every = cat_ids(ids)
    if every is None:
        return None
    positions = image_positions(every, device)
    return None if bool((positions.diff() > 0).all()) else positions


def distinct_images(records: MatchRecords) -> Tensor:
    """[I] bool: the copy of each image that was met first, of records with image ids.

    A distributed sampler pads with repeated images, so copies are normal: one warning counts those
    dropped and those whose detections differed.

    Raises:
        StateError: if two copies of an image have different ground truth.
    """
    ids, images = records.image_ids or (), records.num_images
    copies = repeats(ids)
    objects = _Copies(
        images,
        records.ground_truth_image,
        (records.ground_truth_label, records.ground_truth_area, records.ground_truth_counted),
    )
    detections = _Copies(
        images, records.image, (records.label, records.score, records.out_of_range)
    )
    matched = records.match_detection
    matches = _Copies(
        images,
        records.image.index_select(0, matched),
        (
            detections.indices()[matched.cpu()],
            objects.indices()[records.match_ground_truth.cpu().long()],
            records.match_overlap,
            records.match_true_positive,
            records.match_ignored,
        ),
    )
    differing = 0
    for row, original in copies:
        if not objects.equal(row, original):
            raise unequal_truth(ids[row])
        differing += not all(rows.equal(row, original) for rows in (detections, matches))
    warn_of_repeats(len(copies), differing, "detections")
    dropped = {row for row, _ in copies}
    keep = [row not in dropped for row in range(len(ids))]
    return from_host(keep, torch.bool, records.image.device)


class _Copies:
    """Compares the rows of two images of one table, on the CPU."""

    def __init__(self, num_images: int, image: Tensor, columns: tuple[Tensor, ...]) -> None:
        self._image = image.cpu().long()
        self._rows = stable_order(self._image)
        count = torch.bincount(self._image, minlength=num_images)
        self._starts = sums_before(count).tolist()
        self._columns = [column.cpu() for column in columns]

    def indices(self) -> Tensor:
        """[N] int64: the index of each row among those of its image."""
        ranks = rank_in_group(self._image.index_select(0, self._rows))
        return torch.empty_like(ranks).index_copy_(0, self._rows, ranks)

    def equal(self, first: int, second: int) -> bool:
        """Whether the two images have the same rows."""
        rows = [self._rows[self._starts[i] : self._starts[i + 1]] for i in (first, second)]
        return all(torch.equal(values[rows[0]], values[rows[1]]) for values in self._columns)
