"""Predictions or targets as one tensor: a row per box, and columns whose names somebody says.

Such as [N, 6] tensors of corners, score and label, one per image, or one [N, 7] of all images with
the index of the image in the batch. There are many orders of columns, so that none is assumed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from .keys import KEYS, keys_of
from .numbers import FLAG, FLOATING, LABELS, tensor_of

ColumnNames = tuple[str, ...]

IMAGE = "image"
"""Names the column with the index of the image in the batch."""
ROWS = "rows"
"""Key of a dict that has such a tensor, beside ``image_id`` and ``image_size``."""


def read_column_names(given: object, task: str, side: str) -> ColumnNames | None:
    """The argument ``prediction_columns`` or ``target_columns``.

    Raises:
        InputError: naming the columns that there may be, or the one that is missing.
    """
    if given is None:
        return None
    where, keys = f"{side}_columns", keys_of(task, side)
    allowed = [key.name for key in keys.keys if key.kind in (FLOATING, FLAG, LABELS)]
    names = tuple(given) if isinstance(given, list | tuple) else ()
    known = all(isinstance(name, str) and name in (*allowed, IMAGE) for name in names)
    if not names or not known or len(set(names)) < len(names):
        raise InputError(
            f"must be a list of distinct names among {', '.join([*allowed, IMAGE])}",
            where=where,
            got=repr(given),
        )
    missing = sorted(keys.required - set(names))
    if missing:
        raise InputError(f"must name {' and '.join(missing)}", where=where, got=repr(given))
    return names


def from_row_tensors(
    predictions: Any, targets: Any, columns: tuple[ColumnNames | None, ColumnNames | None]
) -> tuple[Any, Any]:
    """Both sides of a batch, tensors of rows as dicts; everything else is as it was.

    A tensor of several images is sorted by its column of images, whose values are read: that waits
    for its device.

    Raises:
        InputError: naming side, image and what was expected.
    """
    if all(own is None for own in columns):
        return predictions, targets
    sides = [
        list(side) if isinstance(side, tuple) or hasattr(side, "__next__") else side
        for side in (predictions, targets)
    ]
    sizes = [_num_images(side) for side in sides]
    num_images = next((size for size in sizes if size is not None), None)
    names = ("prediction", "target")
    first, second = (
        side if own is None else _side(side, own, name, num_images)
        for side, own, name in zip(sides, columns, names, strict=True)
    )
    return first, second


def _num_images(side: Any) -> int | None:
    """How many images a side has, if it says so."""
    if isinstance(side, Mapping):
        told = [side[key] for key in ("counts", "image_id", "image_size") if key in side]
        if told or "boxes" not in side:
            return len(told[0]) if told else None
        shape: Sequence[int] = getattr(side["boxes"], "shape", ())
        return int(shape[0]) if len(shape) == 3 else None
    return len(side) if isinstance(side, list) else None


def _side(side: Any, names: ColumnNames, name: str, num_images: int | None) -> Any:
    """Predictions or targets, with dicts in place of tensors of rows."""
    if isinstance(side, list):
        return [_image(entry, names, f"{name} {image}") for image, entry in enumerate(side)]
    if isinstance(side, Mapping):
        if ROWS not in side:
            return side
        rest = {key: value for key, value in side.items() if key != ROWS}
        return _of_several_images(side[ROWS], names, f"{name}s", num_images) | rest
    return _of_several_images(side, names, f"{name}s", num_images)


def _image(entry: Any, names: ColumnNames, where: str) -> Any:
    """The rows of one image as a dict; a dict or None is as it was."""
    if entry is None or (isinstance(entry, Mapping) and ROWS not in entry):
        return entry
    rest = entry if isinstance(entry, Mapping) else {ROWS: entry}
    columns = _columns(rest[ROWS], names, where)
    columns.pop(IMAGE, None)
    return columns | {key: value for key, value in rest.items() if key != ROWS}


def _of_several_images(
    given: Any, names: ColumnNames, where: str, num_images: int | None
) -> dict[str, Any]:
    """The rows of all images as packed tensors, image by image in the order of the rows."""
    if IMAGE not in names:
        raise InputError(
            "one tensor for all images needs a column with the index of the image",
            where=where,
            remedy=f"name it {IMAGE!r}, or give a list with one tensor per image",
        )
    if num_images is None:
        raise InputError(
            "how many images there are is not known, since images may have no rows",
            where=where,
            remedy="give the other side as a list, or image_id of every image beside 'rows'",
        )
    columns = _columns(given, names, where)
    image = columns.pop(IMAGE).double()
    values = image.tolist()
    for row, value in enumerate(values):
        if not (value.is_integer() and 0 <= value < num_images):
            raise InputError(
                f"column {IMAGE!r} must be whole numbers from 0 to {num_images - 1}",
                where=f"{where}, row {row}",
                got=value,
            )
    order = torch.argsort(image, stable=True)
    counts = [0] * num_images
    for value in values:
        counts[int(value)] += 1
    return {name: column.index_select(0, order) for name, column in columns.items()} | {
        "counts": counts
    }


def _columns(given: Any, names: ColumnNames, where: str) -> dict[str, Tensor]:
    """The columns of a tensor by name; boxes are four."""
    rows = tensor_of(given, lambda: where)
    widths = [1 if name == IMAGE else max(sum(KEYS[name].shape), 1) for name in names]
    if not rows.numel():
        rows = rows.new_zeros((0, sum(widths)))
    if rows.dim() != 2 or rows.shape[1] != sum(widths):
        raise InputError(
            f"must have shape [N, {sum(widths)}]: {', '.join(_words(names))}",
            where=where,
            got=tuple(rows.shape),
        )
    parts = dict(zip(names, torch.split(rows, widths, dim=1), strict=True))
    return {
        name: part if name in KEYS and KEYS[name].shape else part.squeeze(1)
        for name, part in parts.items()
    }


def _words(names: Sequence[str]) -> list[str]:
    return [f"{name} (4)" if name in KEYS and KEYS[name].shape else name for name in names]
