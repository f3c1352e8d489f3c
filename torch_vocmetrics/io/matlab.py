"""MATLAB files of version 5 (``-v6``, ``-v7``): numbers, text, cells and structures, no more.

Every size is compared with the bytes that are there before memory is asked for, so that a damaged
file is an error and never a crash. Numbers keep the type in which the file stores them, which may
be narrower than the type in MATLAB; their values are equal.

Source: MathWorks, "MAT-File Format", version 5.
"""

from __future__ import annotations

import math
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import FileFormatError
from ..limits import MAX_MATLAB_ARRAYS, MAX_MATLAB_BYTES
from .files import read_bytes

_HEADER_BYTES = 128
_NUMBERS = {
    1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8",
}  # fmt: skip
_TEXTS = {1: "latin-1", 2: "latin-1", 4: "utf-16", 16: "utf-8", 17: "utf-16", 18: "utf-32"}
_MATRIX, _COMPRESSED = 14, 15
_CELL, _STRUCTURE, _TEXT, _NUMERIC = 1, 2, 4, range(6, 16)
_DEEPEST, _MOST_AXES = 16, 8


class _Damaged(Exception):  # noqa: N818 - becomes a FileFormatError that names the file
    """What is wrong with the bytes."""


def load_matlab(path: Path, *, max_bytes: int = MAX_MATLAB_BYTES) -> dict[str, Any]:
    """Load the variables of a MATLAB file.

    Args:
        path: the file.
        max_bytes: the largest file that is read, and what its compressed parts may grow to.

    Returns:
        Values by name: an array of numbers, a string, an object array of values (a cell), or an
        object array of dicts (a structure). A value of another class, such as a function, is None.

    Raises:
        FileFormatError: if it is no such file, is damaged, or is larger than the limits.
        OSError: if there is no such file or it may not be read.
    """
    data = read_bytes(path, max_bytes=max_bytes)
    order = {b"IM": "<", b"MI": ">"}.get(data[126:128])
    if order is None or data[124:126] not in (b"\0\1", b"\1\0"):
        raise FileFormatError(
            "not a MATLAB file of version 5",
            where=str(path),
            got=repr(data[:20].decode("latin-1")),
            remedy="save it in MATLAB with the option -v7",
        )
    reader = _Reader(order, max_bytes)
    try:
        return reader.variables(data)
    except (_Damaged, UnicodeDecodeError, zlib.error) as error:
        raise FileFormatError(
            "a damaged MATLAB file", where=str(path), got=str(error), remedy="copy it again"
        ) from None


class _Reader:
    """Reads the elements of one file.

    Args:
        order: byte order, as ``struct`` writes it.
        max_bytes: what the compressed parts may grow to together.
    """

    def __init__(self, order: str, max_bytes: int) -> None:
        self.order, self.left = order, max_bytes
        self.arrays = 0
        self.tag = struct.Struct(f"{order}II")

    def variables(self, data: bytes) -> dict[str, Any]:
        """The variables of a whole file."""
        found: dict[str, Any] = {}
        index = _HEADER_BYTES
        while index < len(data):
            kind, start, end, index = self.element(data, index, len(data))
            content = data
            if kind == _COMPRESSED:
                content = self.unpacked(data[start:end])
                kind, start, end, _ = self.element(content, 0, len(content))
            if kind == _MATRIX:
                name, value = self.matrix(content, start, end, 0)
                found[name] = value
        return found

    def unpacked(self, packed: bytes) -> bytes:
        """The bytes of a compressed element."""
        stream = zlib.decompressobj()
        content = stream.decompress(packed, self.left + 1)
        self.left -= len(content)
        if self.left < 0:
            raise _Damaged("its compressed parts are larger than the limit on its size")
        if not stream.eof:
            raise _Damaged("a compressed part ends too early")
        return content

    def element(self, data: bytes, index: int, limit: int) -> tuple[int, int, int, int]:
        """Type of an element, start and end of its bytes, and where the next begins."""
        if index + 8 > limit:
            raise _Damaged(f"no element at byte {index}")
        kind, size = self.tag.unpack_from(data, index)
        if kind >> 16:  # up to four bytes, within the tag
            kind, size = kind & 0xFFFF, kind >> 16
            start, following = index + 4, index + 8
            limit = min(limit, following)
        else:
            start = index + 8
            following = start + size + (0 if kind == _COMPRESSED else -size % 8)
        if start + size > limit:
            raise _Damaged(f"the element at byte {index} is longer than what holds it")
        return kind, start, start + size, min(following, limit)

    def matrix(self, data: bytes, start: int, end: int, depth: int) -> tuple[str, Any]:
        """Name and value of a matrix, which cells and structures hold in turn."""
        self.arrays += 1
        if depth > _DEEPEST or self.arrays > MAX_MATLAB_ARRAYS:
            raise _Damaged(f"more than {MAX_MATLAB_ARRAYS:,} arrays, or {_DEEPEST} in each other")
        if start == end:
            return "", np.zeros((0, 0))
        _, at, stop, index = self.element(data, start, end)
        if stop - at < 4:
            raise _Damaged(f"no flags in the matrix at byte {start}")
        (flags,) = struct.unpack_from(f"{self.order}I", data, at)
        kind = flags & 0xFF
        shape, index = self.shape(data, index, end)
        _, at, stop, index = self.element(data, index, end)
        name = data[at:stop].decode("latin-1")
        if kind in (_CELL, _STRUCTURE) and math.prod(shape) > MAX_MATLAB_ARRAYS - self.arrays:
            raise _Damaged(f"more than {MAX_MATLAB_ARRAYS:,} arrays")
        if kind == _CELL:
            return name, self.cell(data, index, end, shape, depth)
        if kind == _STRUCTURE:
            return name, self.structure(data, index, end, shape, depth)
        if kind == _TEXT:
            return name, self.text(data, index, end)
        if kind in _NUMERIC and not flags & 0x800:  # no complex numbers
            return name, self.numbers(data, index, end, shape)
        return name, None

    def shape(self, data: bytes, index: int, end: int) -> tuple[tuple[int, ...], int]:
        """The lengths of the axes of a matrix, and where its name begins."""
        _, at, stop, following = self.element(data, index, end)
        axes = (stop - at) // 4
        lengths = struct.unpack_from(f"{self.order}{axes}i", data, at)
        # Every entry takes at least a byte of what follows.
        if not 2 <= axes <= _MOST_AXES or min(lengths) < 0 or math.prod(lengths) > end - index:
            raise _Damaged(f"a matrix of {lengths} at byte {index}")
        return lengths, following

    def numbers(self, data: bytes, index: int, end: int, shape: tuple[int, ...]) -> Any:
        """An array of numbers; MATLAB stores them column by column."""
        kind, at, stop, _ = self.element(data, index, end)
        if kind not in _NUMBERS:
            raise _Damaged(f"numbers of the unknown type {kind} at byte {index}")
        dtype = np.dtype(self.order + _NUMBERS[kind])
        if (stop - at) != math.prod(shape) * dtype.itemsize:
            raise _Damaged(f"{stop - at} bytes of numbers for an array of {shape}")
        return np.frombuffer(data[at:stop], dtype).reshape(shape, order="F")

    def text(self, data: bytes, index: int, end: int) -> str:
        """A string."""
        kind, at, stop, _ = self.element(data, index, end)
        if kind not in _TEXTS:
            raise _Damaged(f"text of the unknown type {kind} at byte {index}")
        name = _TEXTS[kind]
        if name.startswith("utf-") and name != "utf-8":
            name += "-le" if self.order == "<" else "-be"
        return data[at:stop].decode(name)

    def cell(self, data: bytes, index: int, end: int, shape: tuple[int, ...], depth: int) -> Any:
        """An object array of values."""
        values = []
        for _ in range(math.prod(shape)):
            value, index = self.nested(data, index, end, depth)
            values.append(value)
        return _object_array(values, shape)

    def structure(
        self, data: bytes, index: int, end: int, shape: tuple[int, ...], depth: int
    ) -> Any:
        """An object array of dicts."""
        _, at, stop, index = self.element(data, index, end)
        length = struct.unpack_from(f"{self.order}i", data, at)[0] if stop - at == 4 else 0
        _, at, stop, index = self.element(data, index, end)
        if length < 1:
            raise _Damaged(f"field names of {length} letters at byte {at}")
        names = [
            data[first : first + length].split(b"\0")[0].decode("latin-1")
            for first in range(at, stop, length)
        ]
        rows = []
        for _ in range(math.prod(shape)):
            row = {}
            for name in names:
                row[name], index = self.nested(data, index, end, depth)
            rows.append(row)
        return _object_array(rows, shape)

    def nested(self, data: bytes, index: int, end: int, depth: int) -> tuple[Any, int]:
        """A matrix within another, and where the next begins."""
        kind, start, stop, index = self.element(data, index, end)
        if kind != _MATRIX:
            raise _Damaged(f"no matrix at byte {start - 8}")
        return self.matrix(data, start, stop, depth + 1)[1], index


def _object_array(values: list[Any], shape: tuple[int, ...]) -> Any:
    """Values, column by column, as an array in which each entry is any object."""
    array = np.empty(len(values), dtype=object)
    for index, value in enumerate(values):
        array[index] = value
    return array.reshape(shape, order="F")
