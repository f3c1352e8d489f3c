"""Blocks of rows of the arrays in a state file: each has a SHA-256 and can be read by itself."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from torch import Tensor

from ..errors import StateError
from .plain import DTYPES

Array = np.ndarray[Any, Any]
_LOCAL_HEADER, _NAME_LENGTH = 30, 26
"""Of an entry of a ZIP file: bytes before its name, and where the lengths behind it are said."""


def described(array: Array, name: str, starts: Sequence[int] | None = None) -> dict[str, Any]:
    """What the header of a file says of an array: dtype, shape, starts of blocks, their SHA-256.

    Args:
        array: of any shape.
        name: of the array.
        starts: rows at which blocks begin, and the end of the last; None for one block.
    """
    bounds = [0, _num_rows(array.shape)] if starts is None else list(starts)
    return {
        "dtype": array.dtype.str,
        "shape": list(array.shape),
        "starts": bounds,
        "sha256": [
            _digest(array[start:stop] if array.ndim else array, name, start, stop)
            for start, stop in pairwise(bounds)
        ],
    }


def check_description(entry: Mapping[str, Any], name: str, dtype: Any, shape: Any) -> None:
    """Raise ValueError unless an array of this type and shape is what the header says."""
    if dtype.name not in DTYPES or not dtype.isnative:
        raise ValueError(f"array {name} is of another type: {dtype}")
    if entry["dtype"] != dtype.str or entry["shape"] != list(shape):
        raise ValueError(f"array {name} is not the one that its header names")
    starts, rows = entry["starts"], _num_rows(shape)
    whole = all(type(start) is int for start in starts) and len(starts) > 1
    if not whole or starts[0] != 0 or starts[-1] != rows or sorted(starts) != starts:
        raise ValueError(f"the blocks of array {name} are not all of its rows")
    if len(entry["sha256"]) != len(starts) - 1:
        raise ValueError(f"array {name} has not one SHA-256 for each block")


def check_blocks(array: Array, name: str, starts: Sequence[int], digests: Sequence[str]) -> None:
    """Raise ValueError if a block of an array is not what was written.

    Args:
        array: whole blocks, one after the other.
        name: of the array.
        starts: rows of the whole array at which they begin, and the end of the last.
        digests: their SHA-256.
    """
    for (start, stop), digest in zip(pairwise(starts), digests, strict=True):
        block = array[start - starts[0] : stop - starts[0]] if array.ndim else array
        if _digest(block, name, start, stop) != digest:
            raise ValueError("its SHA-256 does not fit its content")


def _digest(rows: Array, name: str, start: int, stop: int) -> str:
    head = [name, rows.dtype.str, list(rows.shape), start, stop]
    found = hashlib.sha256(json.dumps(head).encode())
    found.update(np.ascontiguousarray(rows).data)
    return found.hexdigest()


def _num_rows(shape: Sequence[int]) -> int:
    return shape[0] if shape else 1


def damaged(error: object, where: str) -> StateError:
    """What to raise where a file is not what was written."""
    return StateError(
        f"the state file is damaged: {error}", where=where, remedy="copy or evaluate it again"
    )


class BlockReader:
    """Reads blocks of arrays of a state file; nothing else of it is held in memory.

    Args:
        path: of a file that was checked as a whole.
        columns: what its header says of the arrays.
    """

    def __init__(self, path: str | Path, columns: Mapping[str, Mapping[str, Any]]) -> None:
        self._path, self._columns = Path(path), columns
        with self._path.open("rb") as file, zipfile.ZipFile(file) as archive:
            self._offsets = {
                name: _data_offset(file, archive.getinfo(f"{name}.npy")) for name in columns
            }

    def starts(self, name: str) -> list[int]:
        """Rows at which the blocks of an array begin, and the end of the last."""
        return list(self._columns[name]["starts"])

    def dtype(self, name: str) -> torch.dtype | None:
        """Of an array; None if there is none of this name."""
        entry = self._columns.get(name)
        return None if entry is None else DTYPES[np.dtype(entry["dtype"]).name]

    def read(self, name: str, first: int = 0, stop: int | None = None) -> Tensor:
        """Blocks ``first`` to ``stop`` of an array, by default all.

        Raises:
            StateError: if they are not what was written, or the file has changed.
            OSError: if the file cannot be read.
        """
        entry = self._columns[name]
        starts = entry["starts"][first : None if stop is None else stop + 1]
        shape = [starts[-1] - starts[0], *entry["shape"][1:]]
        array = np.empty(shape, np.dtype(entry["dtype"]))
        row_bytes = array.itemsize * int(np.prod(shape[1:], dtype=np.int64))
        with self._path.open("rb") as file:
            file.seek(self._offsets[name] + starts[0] * row_bytes)
            taken = file.readinto(array.reshape(-1).view(np.uint8).data) if array.size else 0
        try:
            if taken != array.nbytes:
                raise ValueError("it ends too early")
            check_blocks(array, name, starts, entry["sha256"][first:stop])
        except ValueError as error:
            raise damaged(error, str(self._path)) from None
        return torch.from_numpy(array)


def _data_offset(file: BinaryIO, entry: zipfile.ZipInfo) -> int:
    """Where the numbers of an array begin in the file."""
    file.seek(entry.header_offset + _NAME_LENGTH)
    lengths = file.read(_LOCAL_HEADER - _NAME_LENGTH)
    name, extra = (int.from_bytes(lengths[at : at + 2], "little") for at in (0, 2))
    file.seek(entry.header_offset + _LOCAL_HEADER + name + extra)
    version = np.lib.format.read_magic(file)
    header = (
        np.lib.format.read_array_header_1_0
        if version == (1, 0)
        else np.lib.format.read_array_header_2_0
    )
    header(file)
    return file.tell()
