"""What is given once for an image, its id and its size, in every form in which it comes.

Values on the host are checked and copied at once. Values on a device stay there in one tensor, and
are read at the next flush.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError
from ..limits import MAX_IMAGE_ID, MAX_IMAGE_SIDE
from ..transfer import from_host, on_one_device, to_host
from .numbers import INTEGER_TYPES, with_values

ImageIds = list[int | str] | Tensor
"""One id an image: on the host, or [B] integers on a device."""

ImageSizes = list[tuple[int, int]] | Tensor
"""(height, width) of each image: on the host, or [B, 2] on a device, which is yet to be checked."""

_SIZE = f"must be (height, width) in whole pixels from 1 to {MAX_IMAGE_SIDE:,}"


def entries_of(given: object, num_images: int, where: str) -> Sequence[Any] | Tensor:
    """The value of each image, in a sequence or a tensor.

    Raises:
        InputError: if it is something else, or not one value for each image.
    """
    entries = given.tolist() if isinstance(given, np.ndarray) else given
    if isinstance(entries, Tensor):
        with_values(entries, lambda: where)
    elif isinstance(entries, Iterable) and not isinstance(entries, str | bytes | dict | set):
        entries = entries if isinstance(entries, list | tuple) else list(entries)
    else:
        raise InputError("must be a list or a tensor", where=where, got=type(given).__name__)
    if isinstance(entries, Tensor) and not entries.dim():
        raise InputError("must have one entry per image", where=where, got="a tensor of no axis")
    if len(entries) != num_images:
        raise InputError(
            "must have one entry per image",
            where=where,
            got=f"{len(entries)} beside {num_images} images",
        )
    checked: Sequence[Any] | Tensor = entries
    return checked


def read_ids(entries: Sequence[Any] | Tensor, where: str) -> ImageIds:
    """Ids, all int or all str.

    Args:
        entries: one id for each image, see :func:`entries_of`.
        where: the place of image i is ``where.format(i)``.

    Raises:
        InputError: if one is neither an int nor a str, or there are both.
    """
    if isinstance(entries, Tensor):
        if entries.dtype not in INTEGER_TYPES or entries.dim() != 1:
            got = f"{entries.dtype} of shape {tuple(entries.shape)}"
            raise InputError("must be an int or a str", where=where.format(0), got=got)
        if not entries.is_cpu:
            return entries.detach().clone()
        return list(_in_range(entries.tolist(), where))
    kinds = set(map(type, entries))
    if kinds == {str}:
        return list(entries)
    if kinds == {int}:
        return list(_in_range(entries, where))
    ids = [_id(value, where, image) for image, value in enumerate(entries)]
    if len({isinstance(value, str) for value in ids}) > 1:
        raise InputError("image ids must be all int or all str", where=where.format(0))
    if not any(isinstance(value, Tensor) for value in ids):
        return ids
    parts = [
        value if isinstance(value, Tensor) else torch.tensor([value], device="cpu") for value in ids
    ]
    return torch.cat(on_one_device(parts))


def ids_of(given: object, num_images: int) -> ImageIds | None:
    """Ids that are an argument of their own; None where none are given.

    Raises:
        InputError: as :func:`entries_of` and :func:`read_ids`.
    """
    if given is None:
        return None
    return read_ids(entries_of(given, num_images, "image_ids"), "image_ids[{}]")


def _id(value: object, where: str, image: int) -> Any:
    """An int or a str; an id on a device as a tensor [1]."""
    if isinstance(value, Tensor | np.ndarray):
        if isinstance(value, np.ndarray):
            value = torch.tensor(value, device="cpu") if value.dtype.kind in "iu" else None
        if isinstance(value, Tensor) and value.numel() == 1 and value.dtype in INTEGER_TYPES:
            with_values(value, lambda: where.format(image))
            if not value.is_cpu:
                return value.detach().reshape(1)
            value = int(value.item())
    if isinstance(value, str):
        return str(value)
    if hasattr(value, "__index__") and not isinstance(value, bool | Tensor | np.ndarray):
        return _in_range([int(value)], where, image)[0]
    raise InputError("must be an int or a str", where=where.format(image), got=reprlib.repr(value))


def _in_range(ids: Sequence[int], where: str, first: int = 0) -> Sequence[int]:
    """The ids, all of which int64 can hold.

    Raises:
        InputError: naming the first that is too large; ``first`` is the image of ``ids[0]``.
    """
    if ids and not (min(ids) >= -MAX_IMAGE_ID - 1 and max(ids) <= MAX_IMAGE_ID):
        image = next(i for i, one in enumerate(ids) if not -MAX_IMAGE_ID - 1 <= one <= MAX_IMAGE_ID)
        raise InputError(
            "must be an integer of 64 bits or a str",
            where=where.format(first + image),
            got=reprlib.repr(ids[image]),
            remedy="give larger ids as str",
        )
    return ids


def kind_of_ids(ids: Sequence[object] | Tensor | None) -> str:
    """``"int"``, ``"str"``, or ``"none"`` where there are no ids; by the first of them."""
    if ids is None or not len(ids):
        return "none"
    return "str" if isinstance(ids[0], str) else "int"


def ids_on_host(batches: Sequence[ImageIds]) -> list[list[int | str]]:
    """The ids of each batch themselves; those on a device are read now, all in one copy."""
    tensors = [ids for ids in batches if isinstance(ids, Tensor)]
    read = iter(to_host(tensors))
    return [
        list(_in_range(next(read).tolist(), "image id {}")) if isinstance(ids, Tensor) else ids
        for ids in batches
    ]


def compare_ids(own: ImageIds | None, ids: ImageIds | None) -> Tensor | None:
    """Compare the ids that predictions have with those of their targets.

    Returns:
        0-d bool, whether any two differ, where ids lie on a device; None where all are compared.

    Raises:
        InputError: naming the first image whose ids differ.
    """
    if ids is None or own is None:
        return None
    if kind_of_ids(own) == kind_of_ids(ids) and (
        isinstance(own, Tensor) or isinstance(ids, Tensor)
    ):
        first, second = on_one_device([_as_tensor(one) for one in (own, ids)])
        return (first != second).any()
    for image, (value, wanted) in enumerate(zip(own, ids, strict=True)):
        if value != wanted:
            raise InputError(
                "differs from the id of its target",
                where=f"prediction {image}, key 'image_id'",
                got=f"{value!r} beside {wanted!r}",
                remedy="give predictions and targets in the same order of images",
            )
    return None


def _as_tensor(ids: ImageIds) -> Tensor:
    return ids if isinstance(ids, Tensor) else torch.tensor(ids, dtype=torch.int64, device="cpu")


def refuse_other_ids(flags: Sequence[Tensor]) -> None:
    """Raise InputError if ids that lie on a device differ, as :func:`compare_ids` flagged it."""
    if flags and torch.stack(list(flags)).any().item():
        raise InputError(
            "some differ from the id of their target",
            where="predictions, key 'image_id'",
            remedy="give predictions and targets in the same order of images",
        )


def read_sizes(entries: Sequence[Any] | Tensor, where: str) -> ImageSizes:
    """Heights and widths, as copies.

    Args:
        entries: (height, width) of each image, see :func:`entries_of`.
        where: the place of image i is ``where.format(i)``.

    Raises:
        InputError: if one on the host is no size; of those on a device only shape and type are
            checked.
    """
    if isinstance(entries, Tensor):
        if not entries.is_cpu:
            return _on_device([entries], where, (len(entries), 2))
        entries = entries.tolist()
    elif _are_plain_sizes(entries):
        return list(entries)
    elif any(map(_is_on_device, entries)):
        parts = [_size_on_device(entry, where.format(i)) for i, entry in enumerate(entries)]
        return _on_device(parts, where, (len(entries), 2))
    return [_size(entry, where, image) for image, entry in enumerate(entries)]


def _are_plain_sizes(entries: Sequence[Any]) -> bool:
    """Whether all are sound tuples of two ints, as most are; they cannot be changed later."""
    if set(map(type, entries)) != {tuple} or set(map(len, entries)) != {2}:
        return False
    sides = list(chain.from_iterable(entries))
    return set(map(type, sides)) == {int} and min(sides) > 0 and max(sides) <= MAX_IMAGE_SIDE


def _size(entry: Any, where: str, image: int) -> tuple[int, int]:
    if isinstance(entry, Tensor | np.ndarray):
        if isinstance(entry, Tensor):
            with_values(entry, lambda: where.format(image))
        entry = entry.tolist()
    sides = [_side(side) for side in entry] if isinstance(entry, list | tuple) else []
    if len(sides) != 2 or not all(0 < side <= MAX_IMAGE_SIDE for side in sides):
        raise InputError(_SIZE, where=where.format(image), got=reprlib.repr(entry))
    return sides[0], sides[1]


def _side(value: Any) -> int:
    """A whole number, or 0 for what is none."""
    if isinstance(value, Tensor | np.ndarray | np.generic):
        value = value.item() if value.size == 1 or isinstance(value, Tensor) else None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _is_on_device(entry: object) -> bool:
    sides = entry if isinstance(entry, list | tuple) else (entry,)
    return any(isinstance(side, Tensor) and not side.is_cpu for side in sides)


def _size_on_device(entry: Any, where: str) -> Tensor:
    """[1, 2] of one image, of which at least one of all images is on a device."""
    if isinstance(entry, list | tuple) and any(isinstance(side, Tensor) for side in entry):
        sides = [
            side if isinstance(side, Tensor) else torch.tensor(side, device="cpu") for side in entry
        ]
        entry = torch.stack(on_one_device([side.reshape(()) for side in sides]))
    if not isinstance(entry, Tensor):
        entry = torch.tensor(_size(entry, where, 0), device="cpu")
    with_values(entry, lambda: where)
    if entry.shape != (2,):
        raise InputError(_SIZE, where=where, got=f"a tensor of shape {tuple(entry.shape)}")
    sizes: Tensor = entry.reshape(1, 2)
    return sizes


def _on_device(parts: list[Tensor], where: str, shape: tuple[int, int]) -> Tensor:
    """One tensor [B, 2], a copy."""
    sizes = torch.cat(on_one_device([part.detach() for part in parts]))
    real = sizes.dtype in INTEGER_TYPES or sizes.is_floating_point()
    if sizes.shape != shape or not real:
        got = f"{sizes.dtype} of shape {tuple(sizes.shape)}"
        raise InputError(_SIZE, where=where.format(0), got=got)
    return sizes


def bad_sizes(sizes: Tensor) -> Tensor:
    """[B] bool: which sizes [B, 2] on a device are none."""
    sound = (sizes > 0) & (sizes <= MAX_IMAGE_SIDE)
    if sizes.is_floating_point():
        sound &= sizes == sizes.round()
    return ~sound.all(dim=1)


def sizes_as_tensor(sizes: ImageSizes | None, num_images: int) -> Tensor:
    """[B, 2] int32, -1 where unknown, on the device on which the sizes are."""
    if isinstance(sizes, Tensor):
        return sizes.to(torch.int32)
    if sizes is None:
        return torch.full((num_images, 2), -1, dtype=torch.int32, device="cpu")
    return from_host(sizes, torch.int64, torch.device("cpu")).reshape(-1, 2).to(torch.int32)
