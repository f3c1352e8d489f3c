"""Match records: flat tables, the only state of a detection metric.

Every number that can be asked of a matched data set is read off these tables without matching
again. Detections are ordered by class, image (as they came), falling score, then position: classes,
which are evaluated one after the other, are slices, and in them a limit of detections of an image
is a prefix. Most detections match no ground truth, and whether these are ignored follows from their
area: only matches have lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import accumulate
from typing import Any, Self

import torch
from torch import Tensor

from ..errors import StateError
from ..lanes import Lanes
from ..ops.ordering import rank_in_group, stable_order
from ..ops.selection import rows_where, take
from ..ops.sums import sums_before
from ..ragged import Ids
from ..transfer import to_device
from .columns import refuse_partial_order


@dataclass(frozen=True, eq=False)
class MatchRecords:
    """Outcomes of matching: 9 bytes a detection with float32 scores and up to 8 area ranges, and
    32 bytes a match in up to 63 lanes.

    In a lane a detection is a true positive or ignored as its matches say; without a match in the
    lane it is ignored if the lane is of an area range in ``out_of_range``, and else a false
    positive.

    Attributes:
        image_ids: one id an image, all int or all str; None where none were given.
        image_sizes: [I, 2] int32 height and width, -1 where unknown.
        ground_truth_image, ground_truth_label: [M] int32; those of an image as they came.
        ground_truth_area: [M] float64.
        ground_truth_counted: [M, words] int64, lanes in which the ground truth counts.
        class_counts: [K] int64, detections of each class.
        image: [N] int32, row in the image table.
        score: [N] float32 or float64.
        out_of_range: [N, bytes] uint8 area ranges.
        match_detection: [H] int64 row of the detection, rising. A detection may match different
            ground truths in different lanes, and then has several rows.
        match_ground_truth: [H] int32 row of the ground truth, rising within a detection.
        match_overlap: [H] float32 overlap that decided.
        match_true_positive, match_ignored: [H, words] int64 lanes.
        order: [N] int64 that breaks ties of score in place of image and row, or None.
        index: [N] int32 row of the detection in its image as it came, or None (diagnostics).
        best_overlap, best_other_overlap: [N] float32 largest overlap with a ground truth of the
            same class, or of any other class, that no flag excuses; or None (diagnostics).
        best_ground_truth, best_other_ground_truth: [N] int32 rows of these, -1 where there is no
            overlap; or None (diagnostics).
        mask_overlap: [N] float32 overlap of masks with ``best_ground_truth``, or None.
        image_counts: [I, L, 3] int32 whole numbers of each image that are no outcome of a lane
            (CrowdHuman's Jaccard index), or None.
    """

    image_ids: Ids | None
    image_sizes: Tensor
    ground_truth_image: Tensor
    ground_truth_label: Tensor
    ground_truth_area: Tensor
    ground_truth_counted: Tensor
    class_counts: Tensor
    image: Tensor
    score: Tensor
    out_of_range: Tensor
    match_detection: Tensor
    match_ground_truth: Tensor
    match_overlap: Tensor
    match_true_positive: Tensor
    match_ignored: Tensor
    order: Tensor | None
    index: Tensor | None = None
    best_overlap: Tensor | None = None
    best_ground_truth: Tensor | None = None
    best_other_overlap: Tensor | None = None
    best_other_ground_truth: Tensor | None = None
    mask_overlap: Tensor | None = None
    image_counts: Tensor | None = None

    @property
    def device(self) -> torch.device:
        """Where the table lies."""
        return self.score.device

    @property
    def num_images(self) -> int:
        """Rows of the image table."""
        return self.image_sizes.shape[0]

    @property
    def num_detections(self) -> int:
        """N."""
        return self.score.shape[0]

    @property
    def num_ground_truths(self) -> int:
        """M."""
        return self.ground_truth_image.shape[0]

    @property
    def label(self) -> Tensor:
        """[N] int64: the class of each detection."""
        return torch.repeat_interleave(self.class_counts, output_size=self.num_detections)

    def rows_by_class(self) -> Tensor:
        """[K] int64: detections and ground truths of each class."""
        labels = self.ground_truth_label.long()
        return self.class_counts.index_add(0, labels, torch.ones_like(labels))

    @classmethod
    def empty(cls, lanes: Lanes, num_classes: int) -> Self:
        """No images at all."""
        whole = torch.zeros(0, dtype=torch.int32, device="cpu")
        bits = torch.zeros((0, lanes.words), dtype=torch.int64, device="cpu")
        return cls(
            image_ids=None,
            image_sizes=whole.reshape(0, 2),
            ground_truth_image=whole,
            ground_truth_label=whole,
            ground_truth_area=whole.double(),
            ground_truth_counted=bits,
            class_counts=torch.zeros(num_classes, dtype=torch.int64, device="cpu"),
            image=whole,
            score=whole.float(),
            out_of_range=torch.zeros((0, lanes.area_bytes), dtype=torch.uint8, device="cpu"),
            match_detection=whole.long(),
            match_ground_truth=whole,
            match_overlap=whole.float(),
            match_true_positive=bits,
            match_ignored=bits,
            order=None,
        )

    @classmethod
    def cat(cls, parts: Sequence[Self]) -> Self:
        """One after the other, rows renumbered.

        Raises:
            StateError: if some parts have image ids, ``order`` or diagnostics and others have none.
        """
        filled = [part for part in parts if part.num_images]
        if len(filled) < 2:
            return (filled or parts)[0]
        joined: dict[str, Any] = {
            name: torch.cat([getattr(part, name) for part in filled]) for name in TENSORS
        }
        joined |= {name: _cat_optional(filled, name) for name in OPTIONAL_OF_DETECTIONS}
        firsts = {
            table: list(accumulate((getattr(part, size) for part in filled), initial=0))
            for table, size in SIZES.items()
        }
        for name, table in REFERENCES.items():
            if joined[name] is not None:
                pairs = zip(filled, firsts[table], strict=False)
                move = _moved if name in DIAGNOSTICS else torch.add
                joined[name] = torch.cat([move(getattr(part, name), by) for part, by in pairs])
        counts = [part.image_counts for part in filled if part.image_counts is not None]
        class_counts = torch.stack([part.class_counts for part in filled])
        whole = cls(
            image_ids=cat_ids([part.image_ids for part in filled]),
            image_counts=torch.cat(counts) if counts else None,
            **(joined | {"class_counts": class_counts.sum(dim=0)}),
        )
        return whole._reordered(_rows_by_class(class_counts, whole.num_detections))

    def _reordered(self, rows: Tensor) -> Self:
        """The same records, detections in the order [N] int64."""
        columns = _at(self, DETECTION_COLUMNS, rows)
        detection = _inverse(rows).index_select(0, self.match_detection)
        # Stable: the ground truths of a detection go on rising.
        order = stable_order(detection)
        columns |= _at(self, MATCH_COLUMNS, order)
        columns["match_detection"] = detection.index_select(0, order)
        return replace(self, **columns)

    def to(self, device: torch.device) -> Self:
        """The same records on another device."""
        given = [name for name in (*TENSORS, *OPTIONAL) if getattr(self, name) is not None]
        columns = to_device([getattr(self, name) for name in given], device)
        placed: dict[str, Any] = dict(zip(given, columns, strict=True))
        return replace(self, **placed)

    def compact(self, limit: int | None = None) -> Self:
        """The same outcomes with the fewest rows; waits for the device.

        Unused rows of the match table go, several rows of a pair become one, and of the detections
        of an image and class those beyond ``limit`` go.
        """
        records = self._compact_matches()
        if limit is None or records.num_detections <= limit:
            return records
        group = class_and_image(records.label, records.image, records.num_images)
        within = rank_in_group(group) < limit
        return records if within.all() else records._detections_at(within)

    def _compact_matches(self) -> Self:
        """The same matches, one row for each pair, by detection and ground truth."""
        detection, pair = self.match_detection, self.match_ground_truth.long()
        used = self
        if (detection < 0).any():
            used = self._matches_at(rows_where(detection >= 0))
            detection, pair = used.match_detection, used.match_ground_truth.long()
        if self.match_ignored.shape[1] == 1 and not (detection.diff() < 0).any():
            apart = (detection.diff() != 0) | (pair.diff() != 0)
            if apart.all():
                return used
        order = stable_order(pair)
        order = order.index_select(0, stable_order(detection.index_select(0, order)))
        found = used._matches_at(order)
        first = torch.ones_like(order, dtype=torch.bool)
        first[1:] = (found.match_detection.diff() != 0) | (found.match_ground_truth.diff() != 0)
        if first.all():
            return found
        number, rows = sums_before(first)[1:] - 1, rows_where(first)
        joined = found._matches_at(rows)
        # The lanes of several rows of a pair are disjoint: their sum is their union.
        positive = torch.zeros_like(joined.match_true_positive)
        ignored = torch.zeros_like(joined.match_ignored)
        return replace(
            joined,
            match_true_positive=positive.index_add_(0, number, found.match_true_positive),
            match_ignored=ignored.index_add_(0, number, found.match_ignored),
        )

    def _matches_at(self, rows: Tensor) -> Self:
        """With the matches at ``rows`` [n] int64 alone."""
        return replace(self, **_at(self, MATCH_COLUMNS, rows))

    def _detections_at(self, keep: Tensor) -> Self:
        """Without the detections where ``keep`` [N] bool is not set, and without their matches."""
        kept = self._matches_at(rows_where(keep.index_select(0, self.match_detection)))
        kept_before = sums_before(keep)
        return replace(
            kept,
            class_counts=kept_before.index_select(0, sums_before(self.class_counts)).diff(),
            match_detection=kept_before.index_select(0, kept.match_detection),
            **_at(self, DETECTION_COLUMNS, rows_where(keep)),
        )

    def in_order(self, order: Tensor) -> Self:
        """The same records, images in another order: [I] int64 rows on the CPU."""
        there = order.to(self.device)
        new_image = _inverse(there).to(torch.int32)
        moved = replace(self, image=new_image.index_select(0, self.image))
        objects = new_image.index_select(0, self.ground_truth_image)
        object_rows = stable_order(objects.long())
        columns = _at(self, GROUND_TRUTH_COLUMNS, object_rows) | _at(self, IMAGE_COLUMNS, there)
        columns["ground_truth_image"] = objects.index_select(0, object_rows)
        columns |= self._ground_truths_renumbered(_inverse(object_rows))
        ids = self.image_ids
        if ids is not None:
            ids = tuple(ids[row] for row in order.tolist())
        rows = stable_order(class_and_image(moved.label, moved.image, moved.num_images))
        return replace(moved, image_ids=ids, **columns)._reordered(rows)

    def keep_images(self, keep: Tensor) -> Self:
        """The records of the images where ``keep`` [I] bool is set, rows renumbered."""
        new_image = torch.cumsum(keep, dim=0, dtype=torch.int32) - 1
        kept = self._detections_at(keep.index_select(0, self.image))
        of_kept = keep.index_select(0, self.ground_truth_image)
        objects, images = rows_where(of_kept), rows_where(keep)
        columns = _at(self, GROUND_TRUTH_COLUMNS, objects) | _at(self, IMAGE_COLUMNS, images)
        columns["ground_truth_image"] = new_image.index_select(0, columns["ground_truth_image"])
        columns |= kept._ground_truths_renumbered(sums_before(of_kept)[:-1])
        ids = self.image_ids
        if ids is not None:
            ids = tuple(ids[row] for row in images.tolist())
        return replace(
            kept,
            image_ids=ids,
            image=new_image.index_select(0, kept.image),
            **columns,
        )

    def _ground_truths_renumbered(self, new: Tensor) -> dict[str, Tensor]:
        """Columns that refer to ground truths, whose new rows are ``new`` [M]; -1 stays."""
        columns = {}
        for name in (one for one, table in REFERENCES.items() if table == "ground_truths"):
            old = getattr(self, name)
            if old is not None and new.shape[0]:
                there = new.index_select(0, old.clamp(min=0)).to(old.dtype)
                columns[name] = torch.where(old < 0, old, there)
        return columns


DIAGNOSTICS = (
    "index",
    "best_overlap",
    "best_ground_truth",
    "best_other_overlap",
    "best_other_ground_truth",
)
OPTIONAL_OF_DETECTIONS = ("order", *DIAGNOSTICS, "mask_overlap")
OPTIONAL = (*OPTIONAL_OF_DETECTIONS, "image_counts")
TENSORS = tuple(f.name for f in fields(MatchRecords) if f.name not in ("image_ids", *OPTIONAL))
GROUND_TRUTH_COLUMNS = tuple(name for name in TENSORS if name.startswith("ground_truth_"))
MATCH_COLUMNS = tuple(name for name in TENSORS if name.startswith("match_"))
IMAGE_COLUMNS = ("image_sizes", "image_counts")
DETECTION_COLUMNS = ("image", "score", "out_of_range", *OPTIONAL_OF_DETECTIONS)

SIZES = {
    "images": "num_images",
    "detections": "num_detections",
    "ground_truths": "num_ground_truths",
}
REFERENCES = {
    "image": "images",
    "ground_truth_image": "images",
    "match_detection": "detections",
    "match_ground_truth": "ground_truths",
    "best_ground_truth": "ground_truths",
    "best_other_ground_truth": "ground_truths",
}
"""Columns that hold rows of another table, which are renumbered when rows move."""


def _moved(rows: Tensor, by: int) -> Tensor:
    """Row numbers that lie ``by`` further; -1 stays."""
    return torch.where(rows < 0, rows, rows + by)


def _inverse(order: Tensor) -> Tensor:
    """[N] int64: where each row goes, for a permutation ``order`` [N] int64."""
    numbers = torch.arange(order.shape[0], device=order.device)
    return torch.empty_like(order).index_copy_(0, order, numbers)


def class_and_image(label: Tensor, image: Tensor, num_images: int) -> Tensor:
    """[N] int64: numbers of class and image, by which detections stand."""
    return torch.add(image, label, alpha=num_images)


def _rows_by_class(class_counts: Tensor, total: int) -> Tensor:
    """[N] int64: detections of parts, one after the other, in the order of classes, then of parts.

    ``class_counts`` [P, K] are those of each part, ``total`` is their sum.
    """
    sizes = class_counts.flatten()
    sources = (sizes.cumsum(dim=0) - sizes).reshape_as(class_counts).t().flatten()
    sizes = class_counts.t().flatten()
    moves = sources - (sizes.cumsum(dim=0) - sizes)
    return torch.repeat_interleave(moves, sizes, output_size=total).add_(
        torch.arange(total, device=sizes.device)
    )


def _at(records: MatchRecords, names: Sequence[str], rows: Tensor) -> dict[str, Any]:
    """The named columns at ``rows``; None stays None."""
    columns = {name: getattr(records, name) for name in names}
    return {name: None if one is None else take(one, rows) for name, one in columns.items()}


def joined(parts: Sequence[MatchRecords], rows: int) -> tuple[MatchRecords, ...]:
    """The parts, small ones joined until they have so many detections."""
    groups: list[list[MatchRecords]] = [[]]
    for part in parts:
        if groups[-1] and sum(one.num_detections for one in groups[-1]) >= rows:
            groups.append([])
        groups[-1].append(part)
    return tuple(map(MatchRecords.cat, groups))


def _cat_optional(parts: Sequence[MatchRecords], name: str) -> Tensor | None:
    """An optional column of all detections; parts without detections have no say."""
    with_rows = [getattr(part, name) for part in parts if part.num_detections]
    given = [column for column in with_rows if column is not None]
    if len(given) not in (0, len(with_rows)) and name in DIAGNOSTICS:
        raise StateError(
            "some detections were recorded with diagnostics and others without",
            remedy="use the same diagnostics= for all metrics",
        )
    refuse_partial_order([column is not None for column in with_rows])
    return torch.cat(given) if given else None


def cat_ids(parts: Sequence[Ids | None]) -> Ids | None:
    """Ids of all images, from parts that hold images.

    Raises:
        StateError: if only some parts have ids, or they are of two kinds.
    """
    given = [ids for ids in parts if ids is not None]
    if len(given) not in (0, len(parts)):
        raise StateError(
            "some images have an image_id and others have none",
            remedy="give image_id in every target or in none",
        )
    if len({type(ids[0]) for ids in given}) > 1:
        raise StateError("image ids are int in one place and str in another", remedy="use one kind")
    return tuple(image_id for ids in given for image_id in ids) if given else None
