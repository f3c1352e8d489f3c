"""Match records: three flat tables, the only state of a detection metric.

Every number that can be asked of a matched data set is read off these tables without matching
again. Rows of an image stand together, images in the order in which they came; inside an image
detections are ordered by class, falling score, then place, so that a limit of detections is a
prefix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Self

import torch
from torch import Tensor

from ..errors import StateError

Ids = tuple[int | str, ...]


@dataclass(frozen=True, eq=False)
class MatchRecords:
    """Outcomes of matching, 32 bytes a detection with float32 scores and one word of lanes.

    Attributes:
        image_ids: one id an image, all int or all str; None where none were given.
        image_sizes: [I, 2] int32 height and width, -1 where unknown.
        ground_truth_image, ground_truth_label: [M] int32.
        ground_truth_area: [M] float64.
        ground_truth_counted: [M, words] int64, lanes in which the object counts.
        image, index, label: [N] int32: row in the image table, place in the image, class.
        score: [N] float32 or float64.
        true_positive, ignored: [N, words] int64 lanes.
        order: [N] int64 that breaks ties of score in place of image and index, or None.
        image_counts: [I, L, 3] int32 whole numbers of each image that are no outcome of a lane
            (CrowdHuman's Jaccard index), or None.
    """

    image_ids: Ids | None
    image_sizes: Tensor
    ground_truth_image: Tensor
    ground_truth_label: Tensor
    ground_truth_area: Tensor
    ground_truth_counted: Tensor
    image: Tensor
    index: Tensor
    label: Tensor
    score: Tensor
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

    @classmethod
    def empty(cls, words: int) -> Self:
        """No images at all."""
        whole = torch.zeros(0, dtype=torch.int32, device="cpu")
        bits = torch.zeros((0, words), dtype=torch.int64, device="cpu")
        return cls(
            image_ids=None,
            image_sizes=whole.reshape(0, 2),
            ground_truth_image=whole,
            ground_truth_label=whole,
            ground_truth_area=whole.double(),
            ground_truth_counted=bits,
            image=whole,
            index=whole,
            label=whole,
            score=whole.float(),
            true_positive=bits,
            ignored=bits,
            order=None,
        )

    def check(self, num_classes: int, words: int) -> None:
        """Raise ValueError unless the tables hold together, for so many classes and lanes."""
        for columns in (GROUND_TRUTH_COLUMNS, DETECTION_COLUMNS):
            if len({getattr(self, name).shape[0] for name in columns}) != 1:
                raise ValueError(f"columns {', '.join(columns)} differ in length")
        if self.image_ids is not None and len(self.image_ids) != self.num_images:
            raise ValueError(f"{len(self.image_ids)} image ids for {self.num_images} images")
        counts = self.image_counts
        if counts is not None and (counts.dim() != 3 or counts.shape[0] != self.num_images):
            raise ValueError(f"image_counts of shape {tuple(counts.shape)}")
        for lanes in (self.ground_truth_counted, self.true_positive, self.ignored):
            if lanes.shape[1:] != (words,) or lanes.dtype != torch.int64:
                raise ValueError(f"lanes of shape {tuple(lanes.shape)} in place of {words} words")
        images, classes = (self.num_images, "images"), (num_classes, "classes")
        for values, (limit, what) in (
            (self.image, images),
            (self.ground_truth_image, images),
            (self.label, classes),
            (self.ground_truth_label, classes),
        ):
            if values.numel() and not 0 <= int(values.min()) <= int(values.max()) < limit:
                raise ValueError(f"rows of {what} that are not among the {limit}")

    @classmethod
    def cat(cls, parts: Sequence[Self]) -> Self:
        """One after the other, image rows renumbered.

        Raises:
            StateError: if some parts have image ids or ``order`` and others have none.
        """
        if len(parts) == 1:
            return parts[0]
        shifted, images = [], 0
        for part in parts:
            shifted.append(part._shifted(images))
            images += part.num_images
        columns = {name: torch.cat([getattr(part, name) for part in shifted]) for name in TENSORS}
        return cls(
            image_ids=cat_ids([part.image_ids for part in parts if part.num_images]),
            order=_cat_order(parts),
            image_counts=_cat_counts(parts),
            **columns,
        )

    def _shifted(self, images: int) -> Self:
        return replace(
            self, image=self.image + images, ground_truth_image=self.ground_truth_image + images
        )

    def to(self, device: torch.device) -> Self:
        """The same records on another device."""
        order = None if self.order is None else self.order.to(device)
        columns = {name: getattr(self, name).to(device) for name in TENSORS}
        counts = None if self.image_counts is None else self.image_counts.to(device)
        return replace(self, order=order, image_counts=counts, **columns)

    def without_absent(self) -> Self:
        """Only detections that exist in some lane; the others have every bit of ``ignored`` set."""
        if not self.ignored.numel() or int(self.ignored.min()) >= 0:
            return self
        rows = (self.ignored[:, 0] >= 0).nonzero().squeeze(1)
        columns = {name: getattr(self, name).index_select(0, rows) for name in DETECTION_COLUMNS}
        order = None if self.order is None else self.order.index_select(0, rows)
        return replace(self, order=order, **columns)

    def in_order(self, order: Tensor) -> Self:
        """The same records, images in another order: [I] int64 rows on the CPU."""
        there = order.to(self.image.device)
        new_row = torch.argsort(there).to(torch.int32)
        columns = {"image_sizes": self.image_sizes.index_select(0, there)}
        for owner, names in (
            ("image", DETECTION_COLUMNS),
            ("ground_truth_image", GROUND_TRUTH_COLUMNS),
        ):
            image = new_row.index_select(0, getattr(self, owner))
            rows = torch.argsort(image, stable=True)
            columns |= {name: getattr(self, name).index_select(0, rows) for name in names}
            columns[owner] = image.index_select(0, rows)
            if owner == "image" and self.order is not None:
                columns["order"] = self.order.index_select(0, rows)
        if self.image_counts is not None:
            columns["image_counts"] = self.image_counts.index_select(0, there)
        ids = self.image_ids
        if ids is not None:
            ids = tuple(ids[row] for row in order.tolist())
        return replace(self, image_ids=ids, **columns)

    def keep_images(self, keep: Tensor) -> Self:
        """The records of the images where ``keep`` [I] bool is set, rows renumbered."""
        new_row = torch.cumsum(keep, dim=0, dtype=torch.int32) - 1
        detections = keep.index_select(0, self.image).nonzero().squeeze(1)
        objects = keep.index_select(0, self.ground_truth_image).nonzero().squeeze(1)
        rows = dict.fromkeys(DETECTION_COLUMNS, detections)
        rows |= dict.fromkeys(GROUND_TRUTH_COLUMNS, objects)
        columns = {name: getattr(self, name).index_select(0, row) for name, row in rows.items()}
        for name in ("image", "ground_truth_image"):
            columns[name] = new_row.index_select(0, columns[name])
        ids = self.image_ids
        if ids is not None:
            kept = keep.nonzero().squeeze(1).tolist()
            ids = tuple(ids[row] for row in kept)
        order = None if self.order is None else self.order.index_select(0, detections)
        counts = None if self.image_counts is None else self.image_counts[keep]
        return replace(
            self,
            image_ids=ids,
            order=order,
            image_sizes=self.image_sizes[keep],
            image_counts=counts,
            **columns,
        )


OPTIONAL = ("order", "image_counts")
TENSORS = tuple(f.name for f in fields(MatchRecords) if f.name not in ("image_ids", *OPTIONAL))
GROUND_TRUTH_COLUMNS = tuple(name for name in TENSORS if name.startswith("ground_truth_"))
DETECTION_COLUMNS = ("image", "index", "label", "score", "true_positive", "ignored")


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


def _cat_order(parts: Sequence[MatchRecords]) -> Tensor | None:
    """Order of all detections; parts without detections have no say."""
    with_rows = [part.order for part in parts if part.image.shape[0]]
    given = [order for order in with_rows if order is not None]
    if len(given) not in (0, len(with_rows)):
        raise StateError(
            "some detections have an order and others have none",
            remedy="give order in every prediction or in none",
        )
    return torch.cat(given) if given else None


def _cat_counts(parts: Sequence[MatchRecords]) -> Tensor | None:
    """Whole numbers of all images; parts without images have no say."""
    given = [part.image_counts for part in parts if part.num_images]
    held = [counts for counts in given if counts is not None]
    return torch.cat(held) if held else None
