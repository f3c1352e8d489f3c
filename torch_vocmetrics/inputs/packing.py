"""One tensor out of the tensors of many images: shapes, number types, box formats.

Which numbers a column has, and what stands for a missing one, :mod:`keys` says. A column stays on
the device on which its images are; :mod:`transfer` moves whole columns afterwards.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from itertools import compress
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError
from ..transfer import on_one_device, to_device
from .box_formats import ALL_FORMATS
from .keys import KEYS
from .numbers import EXACT_UP_TO, FLOATING, Kind, converted, is_plain, tensor_of
from .per_image import entries_of

Rows = Mapping[str, Any]

Columns = dict[str, tuple[Any, ...]]
"""The values of every key that any image has, None for images without it."""

_DTYPE = operator.attrgetter("dtype")


class Side(Protocol):
    """Predictions or targets of a batch, one column after the other.

    Attributes:
        counts: rows of each image.
        boxes: [N, 4].
        box_format: the format that the boxes themselves name, or the one expected.
        coarse: 0-d bool, whether half boxes lie where whole pixels are not exact; None if no half.
    """

    counts: tuple[int, ...]
    boxes: Tensor
    box_format: str
    coarse: Tensor | None

    def __contains__(self, key: str) -> bool:
        """Whether any image has the key."""

    def column(self, key: str) -> Tensor:
        """Values of a key, [N, ...]; rows of images without it get what stands for missing."""

    def complete(self, key: str) -> bool:
        """Whether every image with rows has the key."""

    def of_images(self, key: str) -> Sequence[Any] | Tensor | None:
        """The value of each image, None if no image has the key.

        Raises:
            InputError: if only some have it.
        """


class ImageList(Side):
    """A :class:`Side` out of a list with one dict per image.

    ``prefix`` comes before the keys in sentences, such as ``part_``; ``columns`` are those of
    ``images``, if somebody has read them.
    """

    def __init__(
        self,
        images: Sequence[Rows],
        name: str,
        box_format: str,
        prefix: str = "",
        *,
        columns: Columns | None = None,
    ) -> None:
        self._images, self._name, self.box_format = images, name, box_format
        self._prefix = prefix
        self._columns = columns_of(images)[0] if columns is None else columns
        given = self._columns.get("boxes", ())
        parts: Sequence[Any] = given
        boxes = _joined(given, (4,)) if _plain(given) else None
        if boxes is None:
            parts = [self._boxes(image) for image in range(len(images))]
            filled = [part for part in parts if part.shape[0]]
            self.box_format = _common_format(filled, box_format, name)
            parts = [as_plain(part) for part in parts]
            self.coarse = _coarse(parts)
            boxes = self._cat("boxes", parts, FLOATING).reshape(-1, 4)
        else:
            self.coarse = _coarse([boxes]) if boxes.dtype in EXACT_UP_TO else None
        self.counts = _lengths(parts, (4,))
        if boxes.dtype not in FLOATING.unchanged:
            boxes = converted(boxes, FLOATING, self._whole("boxes"))
        self.boxes = boxes

    def __contains__(self, key: str) -> bool:
        return key in self._columns

    def column(self, key: str) -> Tensor:
        kind, shape, missing = row_key(key)
        parts = self._columns.get(key, ())
        values = None
        if _plain(parts) and _lengths(parts, shape) == self.counts:
            filled = tuple(compress(parts, self.counts)) if 0 in self.counts else parts
            if not filled:
                return self.boxes.new_empty((0, *shape), dtype=kind.dtype)
            values = _joined(filled, shape)
            if values is not None and values.dtype in kind.unchanged:
                return values
        if values is None:
            sizes = [(count, *shape) for count in self.counts]
            rows = [self._rows(image, key, missing, size) for image, size in enumerate(sizes)]
            values = self._cat(key, rows, kind).reshape(-1, *shape)
        return converted(values, kind, self._whole(key))

    def _rows(self, image: int, key: str, missing: float | None, size: tuple[int, ...]) -> Tensor:
        """The values of one image, whatever form they have."""
        rows = self._images[image]
        if missing is not None and key not in rows:
            return torch.full(size, missing, device=self.boxes.device)
        values = tensor_of(rows[key], lambda: self._where(image, key))
        if values.shape != size and (size[0] or values.numel()):
            raise InputError(
                "must have one entry per box",
                where=self._where(image, key),
                got=f"shape {tuple(values.shape)} beside {size[0]} boxes",
            )
        return values

    def complete(self, key: str) -> bool:
        counted = zip(self._images, self.counts, strict=True)
        return all(key in rows for rows, count in counted if count)

    def of_images(self, key: str) -> Sequence[Any] | None:
        if key not in self:
            return None
        given = [rows[key] for rows in self._images if key in rows]
        if len(given) < len(self._images):
            raise InputError(
                f"some {self._name}s have an {key} and others have none",
                remedy=f"give {key} in every {self._name} or in none",
            )
        return given

    def _boxes(self, image: int) -> Tensor:
        boxes = tensor_of(self._images[image]["boxes"], lambda: self._where(image, "boxes"))
        if boxes.shape in ((0,), (0, 4)):
            return as_plain(boxes).reshape(0, 4)
        if boxes.dim() != 2 or boxes.shape[1] != 4:
            raise InputError(
                "must have shape [N, 4]", where=self._where(image, "boxes"), got=tuple(boxes.shape)
            )
        return boxes

    def _cat(self, key: str, parts: list[Tensor], kind: Kind) -> Tensor:
        """One tensor of any parts; several number types are widened before they are mixed."""
        filled = [part for part in parts if part.numel()]
        if not filled:
            home = parts[0].device if parts else torch.device("cpu")
            return torch.zeros(0, dtype=kind.dtype, device=home)
        if len({part.dtype for part in filled}) > 1:
            filled = [converted(part, kind, self._whole(key)) for part in filled]
        return torch.cat(on_one_device(filled))

    def _whole(self, key: str) -> str:
        return f"{self._name}s, key {self._prefix + key!r}"

    def _where(self, image: int, key: str) -> str:
        return f"{self._name} {image}, key {self._prefix + key!r}"


class PackedRows(Side):
    """A :class:`Side` out of one dict of packed tensors.

    ``boxes`` are [N, 4] beside ``counts`` [B] on the host, or dense [B, Q, 4]; other columns are
    [N] or [B, Q], ``image_id`` and ``image_size`` hold B entries. With dense boxes ``counts`` says
    how many rows of each image are valid; the rows behind them are padding, which is never read.
    ``prefix`` is as for :class:`ImageList`.
    """

    def __init__(self, rows: Rows, name: str, box_format: str, prefix: str = "") -> None:
        self._rows, self._name, self._prefix = rows, name, prefix
        boxes = tensor_of(rows["boxes"], lambda: self._where("boxes"))
        self.box_format = _common_format([boxes], box_format, name)
        boxes = as_plain(boxes)
        if boxes.shape[-1:] != (4,) or boxes.dim() not in (2, 3):
            raise InputError(
                "must have shape [N, 4] beside 'counts', or [B, Q, 4]",
                where=self._where("boxes"),
                got=tuple(boxes.shape),
            )
        self._shape = boxes.shape[:-1]
        self.counts = self._counts()
        self._valid = self._valid_rows()
        boxes = self._rows_of(boxes, (4,))
        self.coarse = _coarse([boxes])
        self.boxes = converted(boxes, FLOATING, self._where("boxes"))

    def __contains__(self, key: str) -> bool:
        return key in self._rows

    def column(self, key: str) -> Tensor:
        kind, shape, missing = row_key(key)
        if missing is not None and key not in self._rows:
            return torch.full((self.boxes.shape[0], *shape), missing, device=self.boxes.device)
        values = tensor_of(self._rows[key], lambda: self._where(key))
        if values.shape != self._shape + shape and (self.boxes.shape[0] or values.numel()):
            raise InputError(
                "must have one entry per box",
                where=self._where(key),
                got=f"shape {tuple(values.shape)} beside boxes {tuple(self._shape)}",
            )
        return converted(self._rows_of(values, shape), kind, self._where(key))

    def _rows_of(self, values: Tensor, shape: tuple[int, ...]) -> Tensor:
        """[N, *shape], the valid rows; copies, since a model may overwrite its outputs."""
        rows = values.reshape(-1, *shape)
        if not self._valid:
            return rows.clone(memory_format=torch.contiguous_format)
        if rows.device not in self._valid:  # once for a device, since that is a copy
            host = next(iter(self._valid.values()))
            self._valid[rows.device] = to_device([host], rows.device)[0]
        return rows.index_select(0, self._valid[rows.device])

    def _valid_rows(self) -> dict[torch.device, Tensor]:
        """By device, [N] int64: rows of dense images that are no padding; none if all are valid."""
        if len(self._shape) == 1 or sum(self.counts) == math.prod(self._shape):
            return {}
        is_valid = np.arange(self._shape[1]) < np.array(self.counts, dtype=np.int64)[:, None]
        return {torch.device("cpu"): torch.from_numpy(np.flatnonzero(is_valid))}

    def complete(self, key: str) -> bool:
        return key in self._rows

    def of_images(self, key: str) -> Sequence[Any] | Tensor | None:
        if key not in self._rows:
            return None
        return entries_of(self._rows[key], len(self.counts), self._where(key))

    def _counts(self) -> tuple[int, ...]:
        counts, where = self._rows.get("counts"), self._where("counts")
        if counts is None:
            if len(self._shape) == 2:
                return (self._shape[1],) * self._shape[0]
            raise InputError(
                "a dict in place of a list means packed tensors, which need 'counts'",
                where=f"{self._name}s",
                remedy="wrap a single image in a list, or give the rows of each image in 'counts'",
            )
        sizes = _counts_on_host(counts, where)
        if len(self._shape) == 2:
            wrong = [size for size in sizes if not 0 <= size <= self._shape[1]]
            if wrong or len(sizes) != self._shape[0]:
                raise InputError(
                    f"must be from 0 to {self._shape[1]}, one for each of {self._shape[0]} images",
                    where=where,
                    got=wrong[0] if wrong else f"{len(sizes)} counts",
                    remedy="it says how many rows of padded images are valid",
                )
        elif min(sizes, default=0) < 0 or sum(sizes) != self._shape[0]:
            raise InputError(
                "must add up to the boxes",
                where=where,
                got=f"{sum(sizes)} rows in counts beside {self._shape[0]} boxes",
            )
        return sizes

    def _where(self, key: str) -> str:
        return f"{self._name}s, key {self._prefix + key!r}"


def _counts_on_host(counts: Any, where: str) -> tuple[int, ...]:
    """The rows of each image, as plain numbers."""
    if isinstance(counts, Tensor) and not counts.is_cpu:
        raise InputError(
            "must be on the host, since sizes would have to wait for the device",
            where=where,
            got=counts.device,
            remedy="give a list or a CPU tensor",
        )
    given = counts.tolist() if isinstance(counts, Tensor | np.ndarray) else counts
    try:
        numbers = tuple(given)
        if bool in set(map(type, numbers)):
            raise TypeError
        return tuple(map(operator.index, numbers))
    except TypeError:
        raise InputError(
            "must be a list of integers, one for each image", where=where, got=repr(given)
        ) from None


def row_key(name: str) -> tuple[Kind, tuple[int, ...], float | None]:
    """Kind, shape and missing value of a key whose values are numbers."""
    key = KEYS[name]
    if key.kind is None:
        raise KeyError(name)
    return key.kind, key.shape, key.missing


def as_plain(boxes: Tensor) -> Tensor:
    """Without the subclass that torchvision gives boxes."""
    return boxes.as_subclass(Tensor) if hasattr(boxes, "format") else boxes


def columns_of(images: Sequence[Rows]) -> tuple[Columns, Collection[tuple[str, ...]]]:
    """The columns of a list of images, and the distinct keys of images in the order of the list."""
    keys = tuple(images[0]) if images else ()
    if len(keys) > 1 and set(map(len, images)) == {len(keys)} and set(map(type, images)) == {dict}:
        # Mostly all images have the same keys, and are asked for all of them at once.
        with suppress(KeyError):
            values = list(map(operator.itemgetter(*keys), images))
            return dict(zip(keys, zip(*values, strict=True), strict=True)), (keys,)
    distinct = dict.fromkeys(map(tuple, images))
    names = set().union(*distinct)
    return {key: tuple(rows.get(key) for rows in images) for key in names}, distinct


def _plain(parts: Sequence[Any]) -> bool:
    """Whether the parts are tensors, and of no subclass."""
    return set(map(type, parts)) == {Tensor}


def _joined(parts: tuple[Tensor, ...], shape: tuple[int, ...]) -> Tensor | None:
    """Parts of shape [n, *shape] as one tensor; None where there are none or they need care.

    ``torch.cat`` itself refuses unlike shapes, and CUDA beside other devices. Number types it would
    mix at a loss, and MPS takes memory of the host for its own; no work is done there anyway. Parts
    of shape [0] it skips, at several times the cost.
    """
    if len(set(map(_DTYPE, parts))) != 1:
        return None
    try:
        values = torch.cat(parts)
    except torch.cuda.OutOfMemoryError:
        raise
    except RuntimeError:
        return None
    if not (values.is_cpu or values.is_cuda):
        return None
    return values if is_plain(values) and values.shape[1:] == shape else None


def _lengths(parts: Sequence[Tensor], shape: tuple[int, ...]) -> tuple[int, ...]:
    """Rows of each part of shape [n, *shape], or [0], by what is cheapest to read of a tensor."""
    numbers = map(Tensor.numel, parts)
    width = math.prod(shape)
    return tuple(numbers) if width == 1 else tuple([number // width for number in numbers])


def _common_format(parts: Sequence[Tensor], expected: str, name: str) -> str:
    """The format that ``tv_tensors.BoundingBoxes`` name, or the expected one."""
    formats = {getattr(getattr(part, "format", None), "value", expected) for part in parts}
    found = {str(value).lower() for value in formats} or {expected}
    if len(found) > 1 or not found <= set(ALL_FORMATS):
        raise InputError(
            f"boxes of one batch must share one format of {', '.join(ALL_FORMATS)}",
            where=f"{name}s, key 'boxes'",
            got=", ".join(sorted(found)),
        )
    return found.pop()


def _coarse(parts: Sequence[Tensor]) -> Tensor | None:
    """Whether half boxes lie beyond what their type holds exactly; None if none are half."""
    far = [
        (part.abs() > EXACT_UP_TO[part.dtype]).any()
        for part in parts
        if part.dtype in EXACT_UP_TO and part.numel()
    ]
    return torch.stack(on_one_device(far)).any() if far else None
