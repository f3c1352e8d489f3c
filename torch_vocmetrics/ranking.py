"""Canonical order: repeated images dropped, detections of a class by falling score over all images.

Ties fall by image position, then by place in the image. The position is the place of an image's id
in sorted order, or the order of arrival where no ids were given; an explicit ``order`` overrides
both. With ids the ranking is therefore the same for every batch split, shard and merge order.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .errors import StateError, VocMetricsWarning
from .matching.lanes import Lanes, column
from .ops.ordering import rank_in_group, rank_order
from .records import MatchRecords


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

    def first(self, limit: int) -> Ranking:
        """Only the ``limit`` best detections of each image and class."""
        kept = self.rank < limit
        before = torch.nn.functional.pad(torch.cumsum(kept, dim=0), (1, 0))
        rows = kept.nonzero().squeeze(1)
        return Ranking(
            self.lanes,
            self.num_images,
            before.index_select(0, self.class_starts),
            self.scores.index_select(0, rows),
            self.true_positive.index_select(0, rows),
            self.ignored.index_select(0, rows),
            self.rank.index_select(0, rows),
            self.num_positives,
        )


def rank(
    records: MatchRecords, lanes: Lanes, num_classes: int, *, by_score: bool = True
) -> Ranking:
    """Rank the detections of records without repeated images (see :func:`without_repeats`).

    Args:
        records, lanes, num_classes: what is ranked.
        by_score: False ranks by what else breaks ties of score: ``order``, or image and place.
    """
    label, order = records.label.long(), records.order
    score = records.score if by_score else torch.zeros_like(records.score)
    in_image = rank_in_group(records.image.long() * num_classes + label)
    rows = _tie_order(records)
    if rows is None:
        chosen = rank_order(label, score, order, num_classes)
    else:
        by_image = label.index_select(0, rows), score.index_select(0, rows)
        chosen = rows.index_select(0, rank_order(*by_image, order, num_classes))
    classes = torch.arange(num_classes + 1, device=label.device)
    return Ranking(
        lanes,
        records.num_images,
        torch.searchsorted(label.index_select(0, chosen), classes),
        records.score.index_select(0, chosen),
        records.true_positive.index_select(0, chosen),
        records.ignored.index_select(0, chosen),
        in_image.index_select(0, chosen),
        _num_positives(records, lanes, num_classes),
    )


def _tie_order(records: MatchRecords) -> Tensor | None:
    """[N] permutation that brings images into the order of their positions; None if they are."""
    ids = records.image_ids
    if ids is None or records.order is not None:
        return None
    by_id = [row for _, row in sorted(zip(ids, range(len(ids)), strict=True))]
    if by_id == list(range(len(ids))):
        return None
    position = torch.empty(len(ids), dtype=torch.int64)
    position[torch.tensor(by_id)] = torch.arange(len(ids))
    position = position.to(records.image.device)
    return torch.argsort(position.index_select(0, records.image), stable=True)


def _num_positives(records: MatchRecords, lanes: Lanes, num_classes: int) -> Tensor:
    label = records.ground_truth_label.long()
    none = torch.zeros(num_classes, dtype=torch.int64, device=label.device)
    return torch.stack(
        [
            none.index_add(
                0, label, column(records.ground_truth_counted, lanes.place(area, 0)).long()
            )
            for area in range(lanes.num_areas)
        ]
    )


def without_repeats(records: MatchRecords) -> MatchRecords:
    """Keep the copy of each image that was met first.

    A distributed sampler pads with repeated images, so copies are normal: one warning counts those
    dropped and those whose detections differed.

    Raises:
        StateError: if two copies of an image have different ground truth.
    """
    ids = records.image_ids
    copies = repeats(ids)
    if ids is None or not copies:
        return records
    objects = _Rows(records, "ground_truth_image", ("label", "area", "counted"), "ground_truth_")
    detections = _Rows(records, "image", ("label", "score", "true_positive", "ignored"), "")
    differing = 0
    for row, original in copies:
        if not objects.equal(row, original):
            raise StateError(
                "the same image came with different ground truth",
                where=f"image_id {ids[row]!r}",
                remedy="was reset() forgotten between two evaluations, or is the id not unique?",
            )
        differing += not detections.equal(row, original)
    warn_of_repeats(len(copies), differing, "detections")
    keep = torch.ones(len(ids), dtype=torch.bool)
    keep[torch.tensor([row for row, _ in copies])] = False
    return records.keep_images(keep.to(records.image.device))


def repeats(ids: Sequence[Hashable] | None) -> list[tuple[int, int]]:
    """Rows of ids that came before, each with the row of the first copy."""
    if ids is None or len(set(ids)) == len(ids):
        return []
    first: dict[Hashable, int] = {}
    return [(row, first[i]) for row, i in enumerate(ids) if first.setdefault(i, row) != row]


def warn_of_repeats(dropped: int, differing: int, what: str) -> None:
    """Say how many copies of images were dropped, and in how many of them ``what`` differed."""
    warnings.warn(
        f"{dropped} repeated images were dropped (the first copy of each counts); "
        f"the {what} of {differing} of them differed from the first copy's",
        VocMetricsWarning,
        stacklevel=4,
    )


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
