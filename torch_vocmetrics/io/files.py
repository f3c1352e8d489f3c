"""Reading a file whole, with a limit on its size and a plain word when it is not text."""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import FileFormatError
from ..limits import MAX_TEXT_BYTES

_PORTION = 2**24


def read_bytes(path: Path, *, max_bytes: int) -> bytes:
    """Read a file of at most ``max_bytes`` bytes.

    Raises:
        FileFormatError: if the file is larger; it is not read then.
        OSError: if there is no such file or it may not be read.
    """
    with path.open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        data = b"" if size > max_bytes else stream.read(size + 1)
        if len(data) > size:  # no plain file, which has no size beforehand: in portions
            portions, size = [data], 0
            while size <= max_bytes and portions[-1]:
                size += len(portions[-1])
                portions.append(stream.read(_PORTION))
            data = b"".join(portions)
    if size > max_bytes:
        raise FileFormatError(
            f"the file is larger than the limit of {max_bytes:,} bytes",
            where=str(path),
            got=f"{size:,} bytes or more",
            remedy="check that it is the right file, or give a larger limit",
        )
    return data


def read_text(path: Path, *, max_bytes: int = MAX_TEXT_BYTES) -> str:
    """Read a UTF-8 text file.

    A byte order mark is dropped; the line ends of Windows and of old Macs become plain newlines.

    Raises:
        FileFormatError: if the file is too large or is not UTF-8 text.
        OSError: if there is no such file or it may not be read.
    """
    data = read_bytes(path, max_bytes=max_bytes)
    zero = data.find(b"\0")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _not_text(path, data, error.start) from None
    if zero >= 0:
        raise _not_text(path, data, zero)
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def line_of(data: bytes, offset: int) -> int:
    """Give the number of the line that holds the byte at ``offset``, from 1."""
    return data.count(b"\n", 0, offset) + 1


def _not_text(path: Path, data: bytes, offset: int) -> FileFormatError:
    return FileFormatError(
        "not UTF-8 text",
        where=f"{path}, line {line_of(data, offset)}",
        got=f"byte 0x{data[offset]:02x}",
        remedy="save the file as UTF-8",
    )
