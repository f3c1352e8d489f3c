"""Exceptions and warnings: each is one sentence that says what, where, got and remedy."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

ON_FAULT = ("error", "skip")
"""What readers may do with entries of a file that are at fault."""


def printable(text: str) -> str:
    r"""Text in which no letter can steer a terminal or break a line.

    Control characters, line ends, marks of direction and lone surrogates are spelled as escapes,
    as in ``\x1b``. Text from files passes through here before it is printed.
    """
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )


class VocMetricsError(Exception):
    """Base of every error that this package raises on purpose.

    Args:
        what: what is wrong, as the head of the sentence.
        where: the place: an argument, an image, a file and line.
        got: what was found there.
        remedy: what to do about it.
    """

    def __init__(self, what: str, *, where: str = "", got: object = None, remedy: str = "") -> None:
        self.what, self.where, self.got, self.remedy = what, where, got, remedy
        head = f"{where}: {what}" if where else what
        found = "" if got is None else f", got {got}"
        tail = f"; {remedy}" if remedy else ""
        super().__init__(printable(head + found + tail))

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.what, self.where, self.got, self.remedy)


def _rebuild(
    kind: type[VocMetricsError], what: str, where: str, got: object, remedy: str
) -> VocMetricsError:
    return kind(what, where=where, got=got, remedy=remedy)


class InputError(VocMetricsError, ValueError):
    """Predictions or targets that a metric cannot take."""


class ProtocolError(VocMetricsError, ValueError):
    """An unknown protocol, or a protocol whose rules do not hold together."""


class StateError(VocMetricsError, RuntimeError):
    """States that cannot be merged, loaded or computed."""


class FileFormatError(VocMetricsError, ValueError):
    """A file that cannot be read; ``where`` names the file and the line or element."""


class VocMetricsWarning(UserWarning):
    """Something that a careful user wants to know and that stops nothing."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


_another_rank_warns: ContextVar[bool] = ContextVar("another_rank_warns", default=False)


@contextmanager
def warnings_of_one_rank(warns: bool) -> Iterator[None]:
    """Let :func:`warn` say nothing inside, in this thread, unless this rank is the one that warns.

    All ranks of a group compute the same result and would say the same of it.
    """
    token = _another_rank_warns.set(not warns)
    try:
        yield
    finally:
        _another_rank_warns.reset(token)


def warn(message: str) -> None:
    """Warn of something that stops nothing, at the line of the caller outside the package."""
    if not _another_rank_warns.get():
        warnings.warn(VocMetricsWarning(message), stacklevel=_level_of_caller())


def _level_of_caller() -> int:
    """``stacklevel`` for :func:`warn`: that of the nearest frame that is the user's.

    Decorators of ``contextlib`` stand between functions of the package; the examples are programs
    that use it.
    """
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None:
        module = f"{frame.f_globals.get('__name__')}."
        if not module.startswith((f"{__package__}.", "contextlib.")):
            break
        if module.startswith(f"{__package__}.examples."):
            break
        frame, level = frame.f_back, level + 1
    return level
