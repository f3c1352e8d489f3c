"""Kinds of numbers: which number types a column may have, and how they are converted exactly.

float32 and float64 stay, half types widen to float32, integers to float64 where real numbers are
meant. Every conversion keeps the value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError

EXACT_UP_TO = {torch.float16: 2048, torch.bfloat16: 256}
"""Whole pixels are exact in half types up to here."""


class Kind(NamedTuple):
    """A kind of number: how to convert a tensor (None: impossible), and words for the error."""

    convert: Callable[[Tensor], Tensor | None]
    dtype: torch.dtype
    expected: str
    remedy: str


def _to_floating(values: Tensor) -> Tensor | None:
    if values.dtype in (torch.float32, torch.float64):
        return values
    if values.dtype in EXACT_UP_TO:
        return values.to(torch.float32)
    return None if values.dtype == torch.bool or values.is_complex() else values.to(torch.float64)


def _to_integers(values: Tensor) -> Tensor | None:
    if values.dtype == torch.int64:
        return values
    fractional = values.is_floating_point() or values.is_complex() or values.dtype == torch.bool
    return None if fractional else values.to(torch.int64)


def _to_flag(values: Tensor) -> Tensor | None:
    if values.is_complex():
        return None
    return (values if values.dtype == torch.bool else values != 0).view(torch.uint8)


FLOATING = Kind(_to_floating, torch.float32, "must be real numbers", "convert with .float()")
INTEGERS = Kind(_to_integers, torch.int64, "must be integers", "convert with .long()")
FLAG = Kind(_to_flag, torch.uint8, "must be bool, or 0 and 1", "convert with .bool()")


def tensor_of(value: object, where: Callable[[], str]) -> Tensor:
    """A tensor out of a tensor, an array, numbers in lists, or whatever speaks DLPack.

    Raises:
        InputError: for anything else, and for tensors without values.
    """
    if isinstance(value, Tensor):
        return with_values(value, where)
    got, remedy = type(value).__name__, ""
    try:
        if hasattr(value, "__dlpack__") and not isinstance(value, np.ndarray):
            return torch.utils.dlpack.from_dlpack(value)
        # NumPy reads Python's floats as float64, torch.tensor would as float32.
        array = np.asarray(value)
        if array.dtype.kind in "biufc":
            return torch.tensor(array, device="cpu")
        if array.dtype.kind in "US" and array.size:
            got = repr(array.tolist()[0] if array.ndim == 1 else array.tolist())
            remedy = "names of classes become numbers: their index, or their value in label_ids"
    except (TypeError, ValueError, RuntimeError, BufferError):
        pass  # the words of NumPy and DLPack would not help
    raise InputError("must be a tensor of numbers", where=where(), got=got, remedy=remedy)


def with_values(tensor: Tensor, where: Callable[[], str]) -> Tensor:
    """The tensor itself.

    Raises:
        InputError: if it lies on the meta device, on which tensors have shapes only.
    """
    if tensor.device.type == "meta":
        raise InputError(
            "must have values, which tensors on the meta device have not",
            where=where(),
            got=f"a meta tensor of shape {tuple(tensor.shape)}",
            remedy="check torch.set_default_device, and where the model lies",
        )
    return tensor


def converted(values: Tensor, kind: Kind, where: str) -> Tensor:
    """Values of the kind's number type.

    Raises:
        InputError: if they have none of the number types that the kind allows.
    """
    values = with_values(values, lambda: where)
    numbers = kind.convert(values) if values.numel() else values.to(kind.dtype)
    if numbers is None:
        raise InputError(kind.expected, where=where, got=values.dtype, remedy=kind.remedy)
    return numbers
