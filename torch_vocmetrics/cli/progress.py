"""Progress of a command on standard error."""

from __future__ import annotations

import math
import sys
import time

from .streams import write_error


class Progress:
    """How far the work is, on standard error: at once on a terminal, else after some seconds."""

    def __init__(self, *, quiet: bool) -> None:
        self._shown, self._terminal = False, sys.stderr.isatty()
        self._pause = math.inf if quiet else 0.2 if self._terminal else 5.0
        self._next = time.monotonic() + self._pause

    def __call__(self, what: str, done: int, total: int) -> None:
        if time.monotonic() < self._next:
            return
        self._next, self._shown = time.monotonic() + self._pause, True
        start, end = ("\r\033[K", "") if self._terminal else ("", "\n")
        write_error(f"{start}{done} of {total} {what}{end}")

    def close(self) -> None:
        """Clear the line of a terminal."""
        if self._shown and self._terminal:
            write_error("\r\033[K")
