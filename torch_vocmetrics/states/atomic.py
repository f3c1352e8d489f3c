"""Files that appear whole or not at all, and that replace plain files only."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from ..errors import InputError

try:
    import fcntl
except ImportError:  # Windows: files of writers that were killed stay
    fcntl = None  # type: ignore[assignment]

SUFFIX = ".partial"


def check_replaceable(path: str | Path) -> Path:
    """The file that writing to ``path`` replaces or makes: symbolic links are followed.

    Raises:
        InputError: if there is a folder, a device, a pipe or a socket, or ``path`` is no path.
        OSError: if the path cannot be looked at, or links go in a circle.
    """
    try:
        target = Path(os.fsdecode(path)).resolve()
        mode = target.stat().st_mode
    except FileNotFoundError:
        return target
    except (TypeError, ValueError):
        raise InputError("must be the path of a file", where="path", got=repr(path)) from None
    if not stat.S_ISREG(mode):
        raise InputError(
            "only a plain file can be replaced",
            where=str(path),
            got=_kind(mode),
            remedy="give the path of a file",
        )
    return target


@contextmanager
def written_whole(path: str | Path) -> Iterator[BinaryIO]:
    """A new file that takes the place of ``path`` when the block ends without an exception.

    A file that is replaced gives its mode, and where possible its owner, to the new file. What
    writers of the same path left behind when they were killed is removed.

    Raises:
        InputError: if ``path`` is there and is no plain file.
        OSError: if the file cannot be written.
    """
    target = check_replaceable(path)
    _remove_abandoned(target)
    replaced = target.stat() if target.exists() else None
    partial, file = _new_partial(target, 0o666 if replaced is None else 0o600)
    try:
        with file:
            yield file
            file.flush()
            if replaced is not None:
                with suppress(OSError, AttributeError):  # only root gives files away
                    os.fchown(file.fileno(), replaced.st_uid, replaced.st_gid)
                partial.chmod(stat.S_IMODE(replaced.st_mode))
            os.fsync(file.fileno())
            partial.replace(target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _new_partial(target: Path, mode: int) -> tuple[Path, BinaryIO]:
    """A hidden file beside the target, locked as long as it is open."""
    while True:
        partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}{SUFFIX}")
        handle = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
        file = os.fdopen(handle, "wb")
        if fcntl is None:
            return partial, file
        with suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        if os.fstat(handle).st_nlink:
            return partial, file
        file.close()  # another writer took it for abandoned before it was locked


def _remove_abandoned(target: Path) -> None:
    """Remove the partial files of writers that are gone: their locks went with them."""
    if fcntl is None:
        return
    for name in os.listdir(target.parent):  # noqa: PTH208 - the name may hold wildcards
        if not (name.startswith(f".{target.name}.") and name.endswith(SUFFIX)):
            continue
        partial = target.parent / name
        with suppress(OSError):  # in use, gone, or another user's
            handle = os.open(partial, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if stat.S_ISREG(os.fstat(handle).st_mode):
                    partial.unlink()
            finally:
                os.close(handle)


def _kind(mode: int) -> str:
    kinds = {
        "a folder": stat.S_ISDIR,
        "a character device": stat.S_ISCHR,
        "a block device": stat.S_ISBLK,
        "a named pipe": stat.S_ISFIFO,
        "a socket": stat.S_ISSOCK,
    }
    return next((name for name, test in kinds.items() if test(mode)), "a special file")
