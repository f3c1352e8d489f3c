"""One tensor out of the tensors of many images: shapes, number types and devices.

float32 and float64 stay, half types widen to float32, integers to float64, all exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .errors import InputError

Rows = Mapping[str, Any]


class Kind(NamedTuple):
    """A kind of number: how to convert a tensor (None: impossible), and words for the error."""

    convert: Callable[[Tensor], Tensor | None]
    nothing: Tensor
    expected: str
    remedy: str


def _to_floating(values: Tensor) -> Tensor | None:
    if values.dtype in (torch.float32, torch.float64):
        return values
    if values.dtype in (torch.float16, torch.bfloat16):
        return values.to(torch.float32)
    return None if values.dtype == torch.bool or values.is_complex() else values.to(torch.float64)


def _to_integers(values: Tensor) -> Tensor | None:
    fractional = values.is_floating_point() or values.is_complex() or values.dtype == torch.bool
    return None if fractional else values.to(torch.int64)


def _to_flag(values: Tensor) -> Tensor | None:
    return None if values.is_complex() else (values != 0).to(torch.uint8)


_NOTHING = torch.zeros(0)
FLOATING = Kind(_to_floating, _NOTHING, "must be real numbers", "convert with .float()")
INTEGERS = Kind(_to_integers, _NOTHING.long(), "must be integers", "convert with .long()")
FLAG = Kind(_to_flag, _NOTHING.byte(), "must be bool, or 0 and 1", "convert with .bool()")


class Side:
    """Predictions or targets of a batch: packs one key after the other on one device."""

    def __init__(self, images: Sequence[Rows], name: str, device: torch.device | None) -> None:
        self._images, self._name = images, name
        parts = [self._boxes(image) for image in range(len(images))]
        self._device = device or (parts[0].device if parts else torch.device("cpu"))
        if self._device.type == "mps":  # it has no float64, in which overlaps are computed
            self._device = torch.device("cpu")
        self.counts = tuple(part.shape[0] for part in parts)
        self.boxes = self._cat("boxes", parts, FLOATING).reshape(-1, 4)

    def column(self, key: str, kind: Kind, *, missing: float | None = None) -> Tensor:
        """One value per row, [N]; rows of images without the key get ``missing``."""
        parts = []
        for image, (rows, count) in enumerate(zip(self._images, self.counts, strict=True)):
            if missing is not None and key not in rows:
                parts.append(torch.full((count,), missing, device=self._device))
                continue
            values = self._tensor(image, key)
            if values.shape != (count,) and (count or values.numel()):
                raise InputError(
                    "must have one entry per box",
                    where=self._where(image, key),
                    got=f"shape {tuple(values.shape)} beside {count} boxes",
                )
            parts.append(values)
        return self._cat(key, parts, kind)

    def _boxes(self, image: int) -> Tensor:
        boxes = self._tensor(image, "boxes")
        if boxes.shape in ((0,), (0, 4)):
            return boxes.reshape(0, 4)
        if boxes.dim() != 2 or boxes.shape[1] != 4:
            raise InputError(
                "must have shape [N, 4]", where=self._where(image, "boxes"), got=tuple(boxes.shape)
            )
        return boxes

    def _tensor(self, image: int, key: str) -> Tensor:
        value = self._images[image][key]
        if isinstance(value, Tensor):
            return value
        try:
            return torch.as_tensor(value)
        except (TypeError, ValueError, RuntimeError) as error:
            raise InputError(
                f"must be a tensor of numbers ({error})", where=self._where(image, key)
            ) from None

    def _cat(self, key: str, parts: list[Tensor], kind: Kind) -> Tensor:
        """One tensor on the device; several number types are widened before they are mixed."""
        if not any(part.numel() for part in parts):
            return kind.nothing.to(self._device)
        parts = [part for part in parts if part.numel()]
        if len({part.dtype for part in parts}) > 1:
            parts = [self._converted(key, part, kind) for part in parts]
        packed = torch.cat([part.to(self._device, non_blocking=True) for part in parts])
        return self._converted(key, packed, kind)

    def _converted(self, key: str, values: Tensor, kind: Kind) -> Tensor:
        numbers = kind.convert(values)
        if numbers is None:
            raise InputError(
                kind.expected,
                where=f"{self._name}s, key {key!r}",
                got=values.dtype,
                remedy=kind.remedy,
            )
        return numbers

    def _where(self, image: int, key: str) -> str:
        return f"{self._name} {image}, key {key!r}"
