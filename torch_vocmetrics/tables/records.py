"""Match records: flat tables, the only state of a detection metric.

Every number that can be asked of a matched data set is read off these tables without matching
again. Detections are ordered by class, image (as they came), falling score, then place: classes,
which are evaluated one after the other, are slices, and in them a limit of detections of an image
is a prefix. Most detections claim no object, and what becomes of them follows from their area: only
the others have lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import reduce
from itertools import accumulate
from typing import Any, Self

import torch
from torch import Tensor

from ..errors import StateError
from ..lanes import Lanes, lanes_of_areas
from ..ops.ordering import stable_order
from ..ops.selection import rows_where, take
from ..ops.sums import sums_before

Ids = tuple[int | str, ...]


@dataclass(frozen=True, eq=False)
class MatchRecords:
    """Outcomes of matching, 9 bytes a detection with float32 scores and up to 8 area ranges.

    A detection that is no claimant is no true positive, and is ignored in all lanes of the area
    ranges ``out_of_range``.

    Attributes:
        image_ids: one id an image, all int or all str; None where none were given.
        image_sizes: [I, 2] int32 height and width, -1 where unknown.
        ground_truth_image, ground_truth_label: [M] int32.
        ground_truth_area: [M] float64.
        ground_truth_counted: [M, words] int64, lanes in which the object counts.
        class_counts: [K] int64, detections of each class.
        image: [N] int32, row in the image table.
        score: [N] float32 or float64.
        out_of_range: [N, bytes] uint8 area ranges.
        claimant: [H] int64, rising: detections that claim an object in any lane.
        true_positive, ignored: [H, words] int64, all of their lanes.
        order: [N] int64 that breaks ties of score in place of image and row, or None.
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
    claimant: Tensor
    true_positive: Tensor
    ignored: Tensor
    order: Tensor | None
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
            claimant=whole.long(),
            true_positive=bits,
            ignored=bits,
            order=None,
        )

    @classmethod
    def cat(cls, parts: Sequence[Self]) -> Self:
        """One after the other, rows renumbered.

        Raises:
            StateError: if some parts have image ids or ``order`` and others have none.
        """
        filled = [part for part in parts if part.num_images]
        if len(filled) < 2:
            return (filled or parts)[0]
        joined = {name: torch.cat([getattr(part, name) for part in filled]) for name in TENSORS}
        images, detections = (
            list(accumulate((getattr(part, what) for part in filled), initial=0))
            for what in ("num_images", "num_detections")
        )
        for name, firsts in (
            ("image", images),
            ("ground_truth_image", images),
            ("claimant", detections),
        ):
            pairs = zip(filled, firsts, strict=False)
            joined[name] = torch.cat([getattr(part, name) + first for part, first in pairs])
        counts = [part.image_counts for part in filled if part.image_counts is not None]
        class_counts = torch.stack([part.class_counts for part in filled])
        whole = cls(
            image_ids=cat_ids([part.image_ids for part in filled]),
            order=_cat_order(filled),
            image_counts=torch.cat(counts) if counts else None,
            **(joined | {"class_counts": class_counts.sum(dim=0)}),
        )
        return whole._reordered(_rows_by_class(class_counts, whole.num_detections))

    def _reordered(self, rows: Tensor) -> Self:
        """The same records, detections in the order [N] int64."""
        numbers = torch.arange(rows.shape[0], device=rows.device)
        places = torch.empty_like(rows).index_copy_(0, rows, numbers)
        claimant, claims = places.index_select(0, self.claimant).sort()
        columns = _at(self, DETECTION_COLUMNS, rows) | _at(self, CLAIM_COLUMNS, claims)
        return replace(self, **(columns | {"claimant": claimant}))

    def to(self, device: torch.device) -> Self:
        """The same records on another device."""
        given = [name for name in (*TENSORS, *OPTIONAL) if getattr(self, name) is not None]
        return replace(self, **{name: getattr(self, name).to(device) for name in given})

    def compact(self, lanes: Lanes) -> Self:
        """The same outcomes with the fewest rows; waits for the device.

        Detections that exist in no lane, which have every bit of ``ignored`` set, go, and of
        claimants those whose lanes follow from their area.
        """
        areas = take(self.out_of_range, self.claimant)
        more = self.true_positive | (self.ignored ^ lanes_of_areas(areas, lanes))
        records = self._claims_at(reduce(torch.bitwise_or, more.unbind(1)) != 0)
        absent = records.ignored[:, 0] < 0
        if not absent.any():
            return records
        keep = torch.ones_like(self.image, dtype=torch.bool)
        keep[records.claimant] = ~absent
        return records._detections_at(keep)

    def _claims_at(self, keep: Tensor) -> Self:
        """Without the claims where ``keep`` [H] bool is not set."""
        rows = rows_where(keep)
        return replace(self, **_at(self, CLAIM_COLUMNS, rows))

    def _detections_at(self, keep: Tensor) -> Self:
        """Without the detections where ``keep`` [N] bool is not set."""
        kept = self._claims_at(keep.index_select(0, self.claimant))
        kept_before = sums_before(keep)
        return replace(
            kept,
            class_counts=kept_before.index_select(0, sums_before(self.class_counts)).diff(),
            claimant=kept_before.index_select(0, kept.claimant),
            **_at(self, DETECTION_COLUMNS, rows_where(keep)),
        )

    def in_order(self, order: Tensor) -> Self:
        """The same records, images in another order: [I] int64 rows on the CPU."""
        there = order.to(self.device)
        new_image = torch.argsort(there).to(torch.int32)
        moved = replace(self, image=new_image.index_select(0, self.image))
        objects = new_image.index_select(0, self.ground_truth_image)
        object_rows = stable_order(objects.long())
        columns = _at(self, GROUND_TRUTH_COLUMNS, object_rows) | _at(self, IMAGE_COLUMNS, there)
        columns["ground_truth_image"] = objects.index_select(0, object_rows)
        ids = self.image_ids
        if ids is not None:
            ids = tuple(ids[row] for row in order.tolist())
        rows = stable_order(class_and_image(moved.label, moved.image, moved.num_images))
        return replace(moved, image_ids=ids, **columns)._reordered(rows)

    def keep_images(self, keep: Tensor) -> Self:
        """The records of the images where ``keep`` [I] bool is set, rows renumbered."""
        new_image = torch.cumsum(keep, dim=0, dtype=torch.int32) - 1
        kept = self._detections_at(keep.index_select(0, self.image))
        objects = rows_where(keep.index_select(0, self.ground_truth_image))
        images = rows_where(keep)
        columns = _at(self, GROUND_TRUTH_COLUMNS, objects) | _at(self, IMAGE_COLUMNS, images)
        columns["ground_truth_image"] = new_image.index_select(0, columns["ground_truth_image"])
        ids = self.image_ids
        if ids is not None:
            ids = tuple(ids[row] for row in images.tolist())
        return replace(
            kept,
            image_ids=ids,
            image=new_image.index_select(0, kept.image),
            **columns,
        )


OPTIONAL = ("order", "image_counts")
TENSORS = tuple(f.name for f in fields(MatchRecords) if f.name not in ("image_ids", *OPTIONAL))
GROUND_TRUTH_COLUMNS = tuple(name for name in TENSORS if name.startswith("ground_truth_"))
IMAGE_COLUMNS = ("image_sizes", "image_counts")
DETECTION_COLUMNS = ("image", "score", "out_of_range", "order")
CLAIM_COLUMNS = ("claimant", "true_positive", "ignored")


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


def _cat_order(parts: Sequence[MatchRecords]) -> Tensor | None:
    """Order of all detections; parts without detections have no say."""
    with_rows = [part.order for part in parts if part.num_detections]
    given = [order for order in with_rows if order is not None]
    if len(given) not in (0, len(with_rows)):
        raise StateError(
            "some detections have an order and others have none",
            remedy="give order in every prediction or in none",
        )
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
