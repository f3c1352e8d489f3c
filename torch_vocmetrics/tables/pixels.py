"""Pixel counts per image: the only state of a segmentation metric.

Each row says how many pixels of an image fall into one cell of the confusion matrix; cells without
pixels have no row. Duplicates, merging and resampling of images work on whole images, as they do
for match records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from ..ragged import Ids
from .columns import check_column, check_image_ids
from .records import cat_ids
from .repeats import repeats, unequal_truth, warn_of_repeats

STATE_COLUMNS = ("rows", "cell", "count")
LARGEST_TOTAL = 2**62
"""Pixels of all images of a state, so that sums of several states fit int64."""


@dataclass(frozen=True, eq=False)
class PixelCounts:
    """Counts of I images, rows of an image together, images in the order in which they came.

    Attributes:
        image_ids: one id an image, all int or all str; None where none were given.
        num_images: I.
        image, cell: [N] int32; the cell is ``truth * columns + prediction``.
        count: [N] int64, above 0.
    """

    image_ids: Ids | None
    num_images: int
    image: Tensor
    cell: Tensor
    count: Tensor

    @property
    def device(self) -> torch.device:
        """Where the table lies."""
        return self.count.device

    @classmethod
    def empty(cls) -> Self:
        """No images at all."""
        whole = torch.zeros(0, dtype=torch.int32, device="cpu")
        return cls(None, 0, whole, whole, whole.long())

    @classmethod
    def of(cls, dense: Tensor, image_ids: Ids | None) -> Self:
        """From counts [I, cells]; reads the device."""
        image, cell = dense.nonzero().unbind(1)
        return cls(
            image_ids,
            dense.shape[0],
            image.to(torch.int32),
            cell.to(torch.int32),
            dense[image, cell],
        )

    @classmethod
    def read(
        cls, image_ids: Ids | None, num_images: int, cells: int, columns: Mapping[str, object]
    ) -> Self:
        """The counts of a state, of up to ``cells`` cells an image.

        Args:
            image_ids, num_images: of the images.
            cells: how many cells the confusion matrix has.
            columns: as :meth:`columns` gives them.

        Raises:
            ValueError: if the columns are not such as ``update`` makes.
        """
        if columns.keys() != set(STATE_COLUMNS):
            raise ValueError(f"the columns must be {', '.join(STATE_COLUMNS)}")
        check_image_ids(image_ids, num_images)
        int32, int64 = (torch.int32,), (torch.int64,)
        cell = check_column("cell", columns["cell"], int32, (None,), low=0, high=cells - 1)
        N = cell.shape[0]
        rows = check_column("rows", columns["rows"], int32, (num_images,), low=0, high=cells)
        count = check_column("count", columns["count"], int64, (N,), low=1, high=LARGEST_TOTAL)
        if float(count.double().sum()) > LARGEST_TOTAL or int(rows.sum()) != N:
            raise ValueError("columns rows, cell and count do not fit each other")
        if len({column.device for column in (cell, rows, count)}) > 1:
            raise ValueError("the columns are on different devices")
        images = torch.arange(num_images, dtype=torch.int32, device=cell.device)
        image = torch.repeat_interleave(images, rows, output_size=N)
        if ((image.diff() == 0) & (cell.diff() <= 0)).any():
            raise ValueError("cells of an image do not rise")
        return cls(image_ids, num_images, image, cell, count)

    def columns(self) -> dict[str, Tensor]:
        """What a state keeps: ``rows`` [I] int32 of each image, ``cell`` and ``count``."""
        none = torch.zeros(self.num_images, dtype=torch.int32, device=self.device)
        rows = none.index_add(0, self.image, torch.ones_like(self.image))
        return {"rows": rows, "cell": self.cell, "count": self.count}

    @classmethod
    def cat(cls, parts: Sequence[Self]) -> Self:
        """One after the other, image rows renumbered.

        Raises:
            StateError: if some parts have image ids and others have none.
        """
        if len(parts) == 1:
            return parts[0]
        images, shifted = 0, []
        for part in parts:
            shifted.append(part.image + images)
            images += part.num_images
        return cls(
            cat_ids([part.image_ids for part in parts if part.num_images]),
            images,
            torch.cat(shifted),
            torch.cat([part.cell for part in parts]),
            torch.cat([part.count for part in parts]),
        )

    def to(self, device: torch.device) -> Self:
        """The same counts on another device."""
        columns = {name: getattr(self, name).to(device) for name in ("image", "cell", "count")}
        return replace(self, **columns)

    def in_order(self, order: Tensor) -> Self:
        """Images in another order, [I] int64 rows on the CPU."""
        there = order.to(self.image.device)
        owner = torch.argsort(there).to(torch.int32).index_select(0, self.image)
        rows = torch.argsort(owner, stable=True)
        ids = self.image_ids
        return replace(
            self,
            image_ids=None if ids is None else tuple(ids[row] for row in order.tolist()),
            image=owner.index_select(0, rows),
            cell=self.cell.index_select(0, rows),
            count=self.count.index_select(0, rows),
        )

    def total(self, cells: int) -> Tensor:
        """[cells] int64: the sum over all images."""
        none = torch.zeros(cells, dtype=torch.int64, device=self.count.device)
        return none.index_add(0, self.cell.long(), self.count)

    def without_repeats(self, columns: int) -> Self:
        """Keep the copy of each image that was met first.

        A distributed sampler pads with repeated images, so copies are normal: one warning counts
        those dropped and those whose predictions differed.

        Raises:
            StateError: if the pixels of two copies are differently many of some true class.
        """
        ids = self.image_ids
        copies = repeats(ids)
        if ids is None or not copies:
            return self
        rows = torch.tensor(copies, dtype=torch.int64, device="cpu").to(self.device)
        unequal = self._of_truth(columns)._unequal(rows)
        if bool(unequal.any()):
            raise unequal_truth(ids[copies[int(unequal.long().argmax())][0]])
        differing = int(self._unequal(rows).sum())
        warn_of_repeats(len(copies), differing, "predictions")
        return self._without({row for row, _ in copies})

    def _of_truth(self, columns: int) -> Self:
        """Pixels of each true class, which is then the cell."""
        truth = torch.div(self.cell, columns, rounding_mode="floor")
        starts = torch.ones_like(truth, dtype=torch.bool)
        starts[1:] = (truth[1:] != truth[:-1]) | (self.image[1:] != self.image[:-1])
        first = starts.nonzero().squeeze(1)
        sums = self.count.new_zeros(first.shape[0])
        return replace(
            self,
            image=self.image.index_select(0, first),
            cell=truth.index_select(0, first),
            count=sums.index_add(0, starts.cumsum(0) - 1, self.count),
        )

    def _unequal(self, pairs: Tensor) -> Tensor:
        """[P] bool: pairs [P, 2] of image rows whose counts are not the same in every cell."""
        images = torch.arange(self.num_images + 1, dtype=self.image.dtype, device=self.device)
        starts = torch.searchsorted(self.image, images)
        sizes = starts.diff()
        mine, theirs = pairs.unbind(1)
        size = sizes.index_select(0, mine)
        unequal = size != sizes.index_select(0, theirs)
        size = size.masked_fill(unequal, 0)
        pair = torch.repeat_interleave(size)
        index = torch.arange(pair.shape[0], device=pair.device)
        index -= (size.cumsum(0) - size).index_select(0, pair)
        first, second = (
            starts.index_select(0, side).index_select(0, pair) + index for side in (mine, theirs)
        )
        for column in (self.cell, self.count):
            differs = column.index_select(0, first) != column.index_select(0, second)
            unequal[pair[differs]] = True
        return unequal

    def _without(self, dropped: set[int]) -> Self:
        keep = torch.tensor([row not in dropped for row in range(self.num_images)], device="cpu")
        keep = keep.to(self.image.device)
        new_row = torch.cumsum(keep, dim=0, dtype=torch.int32) - 1
        rows = keep.index_select(0, self.image).nonzero().squeeze(1)
        ids = self.image_ids or ()
        return replace(
            self,
            image_ids=tuple(i for row, i in enumerate(ids) if row not in dropped),
            num_images=self.num_images - len(dropped),
            image=new_row.index_select(0, self.image.index_select(0, rows)),
            cell=self.cell.index_select(0, rows),
            count=self.count.index_select(0, rows),
        )
