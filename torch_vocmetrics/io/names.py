"""Names from files, such as image ids, that become paths or words of a text file."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

from ..errors import FileFormatError

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
"""A name in the folder itself, of letters that every file system has."""


def path_inside(folder: str | Path, name: str, *, to_write: bool = False) -> Path:
    """The path of the file ``name`` in a folder; no path outside of the folder is given.

    Every path that holds a name from a file is made here. To write, the path with all its symbolic
    links resolved must lie in the folder. To read, this holds for the folder of the file, while the
    file itself may be a link: data sets are often folders of links, and which file a link leads to
    is decided by the owner of the folder, not by a name in a list.

    Args:
        folder: what the user gave, or a folder in it.
        name: the file with its ending, maybe in a folder below.
        to_write: whether the file will be written.

    Raises:
        FileFormatError: if the name is absolute, has the part ``..``, a control character or a
            letter that no file system has, or leads outside through a symbolic link.
    """
    folder = folder if isinstance(folder, Path) else Path(folder)
    if _PLAIN_NAME.fullmatch(name) and not to_write:
        return folder / name
    relative = Path(name)
    if not relative.name or relative.anchor or ".." in relative.parts or not _is_text(name):
        raise _outside(folder, name, "the name leads out of the folder")
    path = folder / relative
    if len(relative.parts) == 1 and not to_write:
        return path
    try:
        real = path.resolve() if to_write else path.parent.resolve()
        inside = real.is_relative_to(folder.resolve())
    except (OSError, RuntimeError):  # a loop of links
        inside = False
    if not inside:
        raise _outside(folder, name, "a symbolic link leads out of the folder")
    return path


def check_row_name(text: str, where: str) -> str:
    """The text, if it can begin a row: no line ends, no control characters, no blanks at its ends.

    Raises:
        FileFormatError: if it cannot, so that no name can add columns or rows to a file.
    """
    if text != text.strip() or not text or len(text.splitlines()) > 1 or not _is_text(text):
        raise FileFormatError(
            "a name must be a single line to be written in a row",
            where=where,
            got=repr(text[:60]),
            remedy="rename it without line ends and blanks around it",
        )
    return text


def _is_text(text: str) -> bool:
    """Whether a text has neither control characters nor lone surrogates."""
    return all(unicodedata.category(letter) not in ("Cc", "Cs") for letter in text)


def _outside(folder: Path, name: str, what: str) -> FileFormatError:
    return FileFormatError(
        what,
        where=str(folder),
        got=repr(name[:60]),
        remedy="check the file that the name comes from",
    )
