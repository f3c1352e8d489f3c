"""Progress of a command on standard error."""

from __future__ import annotations

import math
import sys
import time
from types import TracebackType
from typing import Self

from .streams import write_error

_WIDTH = 24  # letters of the bar


class Progress:
    """How far the work is, and how long it will still take, on standard error.

    At once as a bar on a terminal, else as a line every few seconds.

    Args:
        quiet: show nothing.
    """

    def __init__(self, *, quiet: bool) -> None:
        self._shown, self._terminal = False, sys.stderr.isatty()
        self._pause = math.inf if quiet else 0.2 if self._terminal else 5.0
        self._next = time.monotonic() + self._pause
        self._what, self._start = "", 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def __call__(self, what: str, done: int, total: int) -> None:
        """Show that so many of a total are done.

        Args:
            what: the work; its time is measured from the first call that names it.
            done, total: counts.
        """
        now = time.monotonic()
        if what != self._what:
            self._what, self._start = what, now
        if now < self._next:
            return
        self._next, self._shown = now + self._pause, True
        text = f"{done} of {total} {what}{_remaining(now - self._start, done, total)}"
        if self._terminal:
            write_error(f"\r\033[K{_bar(done, total)} {text}")
        else:
            write_error(f"{text}\n")

    def close(self) -> None:
        """Clear the line of a terminal."""
        if self._shown and self._terminal:
            write_error("\r\033[K")


def _bar(done: int, total: int) -> str:
    full = _WIDTH * done // max(total, 1)
    return f"[{'#' * full}{'.' * (_WIDTH - full)}]"


def _remaining(elapsed: float, done: int, total: int) -> str:
    """How long the rest takes if it goes on as so far; nothing at either end."""
    if elapsed <= 0 or not 0 < done < total:
        return ""
    seconds = math.ceil(elapsed / done * (total - done))
    if seconds < 60:
        return f", {seconds} s left"
    minutes = math.ceil(seconds / 60)
    return (
        f", {minutes} min left" if minutes < 60 else f", {minutes // 60} h {minutes % 60} min left"
    )
