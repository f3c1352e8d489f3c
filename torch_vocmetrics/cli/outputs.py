"""Files and folders that commands write: refused before the work if they cannot be written."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from ..errors import InputError


def write_json(path: Path, numbers: str) -> None:
    """Write a JSON text and a line end.

    Raises:
        OSError: naming the file.
    """
    try:
        path.write_text(numbers + "\n", encoding="utf-8")
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def check_json_file(path: str | None) -> None:
    """Raise InputError if ``--json`` names a file that cannot be written."""
    if path is not None and path != "-":
        check_output_file(Path(path), "--json")


def check_output_file(path: Path, option: str) -> None:
    """Refuse a file that cannot be written, before the work of which it shall keep the result.

    Raises:
        InputError: if it is a folder, its folder does not exist, or its rights forbid writing.
    """
    where, folder = f"{option} {path}", path.absolute().parent
    if path.is_dir():
        raise InputError("is a folder", where=where, remedy="give the name of a file")
    if not folder.is_dir():
        raise InputError("the folder does not exist", where=where)
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise InputError("may not be written", where=where, remedy="give another file")


def refuse_to_overwrite(paths: Iterable[Path], *, force: bool) -> None:
    """Refuse to write over files, unless that is asked for.

    Raises:
        InputError: naming the first of those that exist.
    """
    existing = [path for path in paths if path.exists()]
    if existing and not force:
        raise InputError(
            "the file exists",
            where=str(existing[0]),
            got=f"{len(existing):,} such files",
            remedy="give another output, or --force to overwrite them",
        )


def check_output_folder(path: Path, option: str) -> None:
    """Refuse a folder that cannot be made, before the work of which it shall keep the result.

    Raises:
        InputError: if it, or the nearest folder above that exists, is none or may not be written.
    """
    nearest = next(place for place in (path, *path.absolute().parents) if place.exists())
    if not nearest.is_dir():
        raise InputError("is not a folder", where=f"{option} {path}", got=str(nearest))
    if not os.access(nearest, os.W_OK):
        raise InputError("may not be written", where=f"{option} {path}", remedy="give another")
