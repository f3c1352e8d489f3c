"""Between the host and a device in one copy for many columns; to the device without waiting."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
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


FREE_TO_READ = {"cpu"}
"""Types of devices whose values the host reads without waiting; tests take the host out."""


def reads_are_free(device: torch.device) -> bool:
    """Whether reading a value, such as a number of rows, needs no synchronization."""
    return device.type in FREE_TO_READ


BYTES_PER_ROW = 2**13
FEWEST_ROWS, MOST_ROWS = 2**20, 2**22
"""On CUDA curves are computed of so many rows together, by the memory that they may take."""


def rows_at_once(device: torch.device, on_host: int) -> int:
    """Rows whose curves are computed together.

    On the host so many as its caches like; on CUDA, where every step has a fixed cost, as many as
    its memory has room for with 8 KiB for each, but from 1 to 4 million.
    """
    if device.type != "cuda":
        return on_host
    return max(FEWEST_ROWS, min(memory_of(device) // BYTES_PER_ROW, MOST_ROWS))


@cache
def memory_of(device: torch.device) -> int:
    """Bytes of a CUDA device; 0 for others, and where there is no card."""
    if device.type != "cuda" or not torch.cuda.is_available():
        return 0
    total: int = torch.cuda.get_device_properties(device).total_memory
    return total


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


def work_device(wanted: torch.device) -> torch.device:
    """Where the work for tensors on ``wanted`` is done: there on CUDA, else on the CPU.

    Other devices lack float64, in which overlaps are computed, or the package's operators.
    """
    return wanted if wanted.type == "cuda" else torch.device("cpu")


def to_device(columns: Sequence[Tensor], device: torch.device) -> list[Tensor]:
    """The same tensors on ``device``; all go from the CPU to CUDA in one copy, and back in one."""
    if device.type == "cpu":
        return to_host(columns)
    placed = [column.to(device) if column.device.type != "cpu" else column for column in columns]
    indices = [i for i, column in enumerate(columns) if column.device.type == "cpu"]
    if device.type != "cuda" or not indices:
        return [column.to(device) for column in placed]
    # Widest numbers first, so that every column starts at a multiple of its own width.
    indices.sort(key=lambda i: -columns[i].element_size())
    sizes = [columns[i].numel() * columns[i].element_size() for i in indices]
    # Named, since pinned memory must be the host's also where the default device is another.
    staging = torch.empty(sum(sizes), dtype=torch.uint8, device="cpu", pin_memory=True)
    for i, part in zip(indices, torch.split(staging, sizes), strict=True):
        part.copy_(columns[i].contiguous().reshape(-1).view(torch.uint8))
    moved = staging.to(device, non_blocking=True)
    for i, part in zip(indices, torch.split(moved, sizes), strict=True):
        placed[i] = part.view(columns[i].dtype).reshape(columns[i].shape)
    return placed


def to_host(columns: Sequence[Tensor]) -> list[Tensor]:
    """The same tensors on the CPU; all of one device come in one copy, which waits once."""
    found = list(columns)
    for device in dict.fromkeys(column.device for column in columns if not column.is_cpu):
        rows = [i for i, column in enumerate(columns) if column.device == device]
        # Widest numbers first, so that every column starts at a multiple of its own width.
        rows.sort(key=lambda i: -columns[i].element_size())
        parts = [columns[i].contiguous().reshape(-1).view(torch.uint8) for i in rows]
        read = (parts[0] if len(parts) == 1 else torch.cat(parts)).cpu()
        for i, part in zip(rows, torch.split(read, [len(part) for part in parts]), strict=True):
            found[i] = part.view(columns[i].dtype).reshape(columns[i].shape)
    return found


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
