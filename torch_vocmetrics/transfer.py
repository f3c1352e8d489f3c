"""From the host to a device without waiting: one copy from pinned memory for many columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .errors import InputError

NUMPY_TYPES = {
    torch.bool: np.bool_,
    torch.uint8: np.uint8,
    torch.int64: np.int64,
    torch.float64: np.float64,
}


def read_device(device: object, where: str) -> torch.device:
    """The device of a name.

    Raises:
        InputError: if there is none, or it keeps no numbers.
    """
    try:
        found = torch.device(device)  # type: ignore[call-overload]
    except (RuntimeError, TypeError, ValueError):
        raise InputError("must be a device", where=where, got=repr(device)) from None
    if found.type == "meta":
        raise InputError("must be a device that keeps numbers", where=where, got=repr(device))
    return torch.device(found)


def to_device(columns: Sequence[Tensor], device: torch.device) -> list[Tensor]:
    """The same tensors on ``device``; all that are on the CPU go to CUDA in one copy."""
    placed = [column.to(device) if column.device.type != "cpu" else column for column in columns]
    places = [i for i, column in enumerate(columns) if column.device.type == "cpu"]
    if device.type != "cuda" or not places:
        return [column.to(device) for column in placed]
    # Widest numbers first, so that every column starts at a multiple of its own width.
    places.sort(key=lambda i: -columns[i].element_size())
    sizes = [columns[i].numel() * columns[i].element_size() for i in places]
    staging = torch.empty(sum(sizes), dtype=torch.uint8, pin_memory=True)
    for i, part in zip(places, torch.split(staging, sizes), strict=True):
        part.copy_(columns[i].contiguous().reshape(-1).view(torch.uint8))
    moved = staging.to(device, non_blocking=True)
    for i, part in zip(places, torch.split(moved, sizes), strict=True):
        placed[i] = part.view(columns[i].dtype).reshape(columns[i].shape)
    return placed


def from_host(values: Sequence[Any], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Numbers, maybe in lists of lists, as a tensor on ``device``."""
    if device.type == "cpu" and dtype in NUMPY_TYPES:  # NumPy reads lists four times as fast
        return torch.from_numpy(np.array(values, dtype=NUMPY_TYPES[dtype]))
    return to_device([torch.tensor(values, dtype=dtype, device="cpu")], device)[0]


def on_one_device(parts: list[Tensor]) -> list[Tensor]:
    """The parts on the one device among them that is not the CPU."""
    devices = {part.device for part in parts}
    if len(devices) == 1:
        return parts
    target = next(device for device in devices if device.type != "cpu")
    hosted = [i for i, part in enumerate(parts) if part.device.type == "cpu"]
    moved = dict(zip(hosted, to_device([parts[i] for i in hosted], target), strict=True))
    return [moved.get(i, part).to(target, non_blocking=True) for i, part in enumerate(parts)]
