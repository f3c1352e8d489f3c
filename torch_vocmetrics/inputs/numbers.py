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

INTEGER_TYPES = frozenset(
    (
        torch.int64, torch.int32, torch.int16, torch.int8,
        torch.uint8, torch.uint16, torch.uint32, torch.uint64,
    )
)  # fmt: skip
"""float8, quantized and complex types are neither integers nor real numbers here."""

WRONG_FLAG = 16
"""Stands for a flag that is neither 0 nor 1; shifted as flags are, it stays beside their bits."""


NO_LABEL = torch.iinfo(torch.int64).max
"""Stands for a label that is no whole number."""


class Kind(NamedTuple):
    """A kind of number: how to convert a tensor (None: impossible), and words for the error.

    Tensors of the types ``unchanged`` stay as they are; empty ones become ``dtype``.
    """

    convert: Callable[[Tensor], Tensor | None]
    unchanged: tuple[torch.dtype, ...]
    dtype: torch.dtype
    expected: str
    remedy: str


def _to_floating(values: Tensor) -> Tensor | None:
    if values.dtype in (torch.float32, torch.float64):
        return values
    if values.dtype in EXACT_UP_TO:
        return values.to(torch.float32)
    return values.to(torch.float64) if values.dtype in INTEGER_TYPES else None


def _to_integers(values: Tensor) -> Tensor | None:
    if values.dtype == torch.int64:
        return values
    if values.dtype not in INTEGER_TYPES:
        return None
    numbers = values.to(torch.int64)
    if values.dtype == torch.uint64:  # what int64 does not hold has become negative
        numbers = numbers.masked_fill(numbers < 0, torch.iinfo(torch.int64).max)
    return numbers


def _to_labels(values: Tensor) -> Tensor | None:
    """Integers, and floats that are whole; others become a number that no label has."""
    if not values.is_floating_point():
        return _to_integers(values)
    numbers = _to_floating(values)
    if numbers is None:
        return None
    is_label = (numbers == numbers.trunc()) & (numbers.abs() < 2.0**62)
    return numbers.masked_fill(~is_label, 0).to(torch.int64).masked_fill(~is_label, NO_LABEL)


def _to_flag(values: Tensor) -> Tensor | None:
    """Bool where it is plain that all are flags; else uint8, with ``WRONG_FLAG`` for the others."""
    if values.dtype == torch.bool:
        return values
    numbers = _to_floating(values) if values.is_floating_point() else _to_integers(values)
    if numbers is None:
        return None
    if on_host(numbers) and not numbers.is_floating_point():
        lowest, highest = torch.aminmax(numbers)
        if lowest.item() >= 0 and highest.item() <= 1:
            return numbers != 0
    is_one = numbers == 1
    return is_one.to(torch.uint8).masked_fill_((numbers != 0) & ~is_one, WRONG_FLAG)


FLOATING = Kind(
    _to_floating,
    (torch.float32, torch.float64),
    torch.float32,
    "must be real numbers",
    "convert with .float()",
)
INTEGERS = Kind(
    _to_integers, (torch.int64,), torch.int64, "must be integers", "convert with .long()"
)
LABELS = Kind(_to_labels, (torch.int64,), torch.int64, "must be integers", "convert with .long()")
FLAG = Kind(
    _to_flag, (torch.bool,), torch.uint8, "must be bool, or 0 and 1", "convert with .bool()"
)


def tensor_of(value: object, where: Callable[[], str]) -> Tensor:
    """A tensor out of a tensor, an array, numbers in lists, or whatever speaks DLPack.

    It is on the CPU or on CUDA: others, where no work is done, are brought to the CPU.

    Raises:
        InputError: for anything else, and for tensors without plain values.
    """
    if isinstance(value, Tensor):
        tensor = with_values(value, where)
        return tensor if tensor.is_cpu or tensor.is_cuda else tensor.cpu()
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
    except (TypeError, ValueError, RuntimeError, OverflowError, BufferError):
        pass  # the words of NumPy and DLPack would not help
    raise InputError("must be a tensor of numbers", where=where(), got=got, remedy=remedy)


def on_host(values: Tensor) -> bool:
    """Whether values can be read at once; fake tensors, which have none, are of another type."""
    return values.is_cpu and type(values) is Tensor


def is_plain(values: Tensor) -> bool:
    """Whether values can be read one by one: not of sparse, nested, quantized, meta tensors."""
    return not (
        values.layout is not torch.strided
        or values.is_meta
        or values.is_quantized
        or values.is_nested
    )


def with_values(tensor: Tensor, where: Callable[[], str]) -> Tensor:
    """The tensor itself.

    Raises:
        InputError: if its values cannot be read one by one: if it is sparse, nested or quantized,
            or lies on the meta device, on which tensors have shapes only.
    """
    if is_plain(tensor):
        return tensor
    what = "must be a tensor of plain numbers"
    if tensor.is_nested:
        got, remedy = "a nested tensor", "give a list with one tensor per image"
    elif tensor.is_meta:
        what = "must have values, which tensors on the meta device have not"
        got = f"a meta tensor of shape {tuple(tensor.shape)}"
        remedy = "check torch.set_default_device, and where the model lies"
    elif tensor.is_quantized:
        got, remedy = f"a quantized tensor of {tensor.dtype}", "convert with .dequantize()"
    else:
        got, remedy = f"a tensor of layout {tensor.layout}", "convert with .to_dense()"
    raise InputError(what, where=where(), got=got, remedy=remedy)


def converted(values: Tensor, kind: Kind, where: str) -> Tensor:
    """Values of the kind's number type.

    Raises:
        InputError: if they have none of the number types that the kind allows.
    """
    numbers = kind.convert(values) if values.numel() else values.to(kind.dtype)
    if numbers is None:
        raise InputError(kind.expected, where=where, got=values.dtype, remedy=kind.remedy)
    return numbers
