"""Standard output and standard error of the command, which may be closed, full or not UTF-8."""

from __future__ import annotations

import errno
import io
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from ..errors import printable


class _Closed(io.TextIOBase):
    """Stands for a standard output that the caller has closed: writing says so."""

    def write(self, text: str) -> int:  # noqa: ARG002 - the form of every stream
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))


def replace_closed_streams() -> None:
    """Give standard output and standard error a stream where the caller has closed them."""
    if sys.stdout is None:
        sys.stdout = _Closed()
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - to the end


def show(text: str) -> None:
    """Write a text and a line end to standard output.

    Raises:
        BrokenPipeError: if nobody reads any more.
        OSError: if the text cannot be written, such as to a full disk.
    """
    flush_output(text + "\n")


def flush_output(text: str = "") -> None:
    """Write a text, and what was written before it, to standard output.

    Raises:
        BrokenPipeError: if nobody reads any more.
        OSError: if it cannot be written.
    """
    try:
        if text:
            sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        _drop(sys.stdout)
        error.filename = "standard output"
        raise


_STYLES = {"bold": "1", "faint": "2", "red": "31", "yellow": "33"}


def has_color(stream: TextIO | None = None) -> bool:
    """Whether a stream, standard output by default, is a terminal that is to show colours.

    ``NO_COLOR`` with any value and ``TERM=dumb`` switch them off; see no-color.org.
    """
    target = sys.stdout if stream is None else stream
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return not plain and target.isatty()


def styled(text: str, style: str, stream: TextIO | None = None) -> str:
    """A text in a style where the stream shows colours, else as it is."""
    return f"\033[{_STYLES[style]}m{text}\033[0m" if has_color(stream) else text


def say(sentence: str, *, style: str = "") -> None:
    """Write a line to standard error; text from files is escaped.

    Args:
        sentence: the line.
        style: of its first words, ``vocmetrics: error:``, on a terminal.
    """
    text = printable(sentence)
    if style:
        first, kind, rest = text.split(": ", maxsplit=2)
        text = f"{styled(f'{first}: {kind}:', style, sys.stderr)} {rest}"
    write_error(text + "\n")


def write_error(text: str) -> None:
    """Write a text to standard error as it is; if that fails, there is nowhere to say so."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (OSError, ValueError):
        _drop(sys.stderr)


def _drop(stream: TextIO) -> None:
    """Lead a stream nowhere: Python writes what is left when it ends, and must not fail again."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
