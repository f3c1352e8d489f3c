"""Checks of columns that were read: a column that no metric can have made is refused.

A state file may come from anywhere, and its SHA-256 shows damage but no origin. So each column is
checked for type, dtype, shape and range before a metric takes it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..errors import StateError
from ..limits import MAX_IMAGE_ID

FLOATS = (torch.float32, torch.float64)


def check_column(
    name: str,
    values: object,
    dtypes: tuple[torch.dtype, ...],
    shape: tuple[int | None, ...],
    *,
    low: float | None = None,
    high: float | None = None,
) -> Tensor:
    """The column, if it is one.

    Args:
        name: how the column is called.
        values: what is there.
        dtypes: any of these is allowed.
        shape: the length of each axis; None for any.
        low, high: the least and largest values that are allowed; NaN never is where they are given.

    Raises:
        ValueError: naming the column and what is wrong.
    """
    plain = isinstance(values, Tensor) and values.layout == torch.strided
    if not isinstance(values, Tensor) or not plain or values.device.type == "meta":
        raise ValueError(f"column {name} is no plain tensor")
    if values.dtype not in dtypes:
        raise ValueError(f"column {name} must not be {values.dtype}")
    sizes = zip(shape, values.shape, strict=False)
    if values.dim() != len(shape) or any(size not in (None, got) for size, got in sizes):
        wanted = ", ".join("any" if size is None else str(size) for size in shape)
        raise ValueError(f"column {name} has shape {tuple(values.shape)}, not ({wanted})")
    if values.numel() and (low is not None or high is not None):
        least, largest = (value.item() for value in values.aminmax())
        if not ((low is None or low <= least) and (high is None or largest <= high)):
            raise ValueError(
                f"column {name} goes from {least} to {largest}, beyond {low} to {high}"
            )
    return values


def check_bits(name: str, values: Tensor, masks: Sequence[int]) -> None:
    """Raise ValueError if ``values`` [N, W] have bits outside of ``masks``, one a column."""
    for column, mask in zip(values.unbind(1), masks, strict=True):
        if (column & ~torch.tensor(mask, dtype=values.dtype, device=values.device)).any():
            raise ValueError(f"column {name} has bits that stand for nothing")


def check_image_ids(ids: object, num_images: int, *, pairs: bool = False) -> None:
    """Raise ValueError unless ``ids`` are None, or one id an image, all of one kind.

    Args:
        ids: integers or texts.
        num_images: how many there must be.
        pairs: whether (id, integer) pairs are allowed too.
    """
    if ids is None:
        return
    if not isinstance(ids, list | tuple) or len(ids) != num_images:
        size = len(ids) if isinstance(ids, list | tuple) else type(ids).__name__
        raise ValueError(f"{size} image ids for {num_images} images")
    kinds = {_kind_of_id(image_id, pairs=pairs) for image_id in ids}
    if len(kinds) > 1:
        raise ValueError(f"image ids of different kinds: {', '.join(sorted(kinds))}")


def _kind_of_id(image_id: object, *, pairs: bool) -> str:
    if type(image_id) is str or _is_int64(image_id):
        return type(image_id).__name__
    if pairs and isinstance(image_id, list | tuple) and len(image_id) == 2:
        image, index = image_id
        if (type(image) is str or _is_int64(image)) and _is_int64(index):
            return f"pairs of {type(image).__name__}"
    raise ValueError(f"{image_id!r} is no image id")


def _is_int64(value: object) -> bool:
    return type(value) is int and -MAX_IMAGE_ID - 1 <= value <= MAX_IMAGE_ID


def refuse_partial_order(given: Sequence[bool]) -> None:
    """Raise StateError if some parts of detections have an ``order`` and others have none."""
    if len(set(given)) > 1:
        raise StateError(
            "some detections have an order and others have none",
            remedy="give order in every prediction or in none",
        )
