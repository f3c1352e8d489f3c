"""Entries of files that are left out: those outside the evaluation, and those at fault.

The official tools never look at an entry outside the evaluation, such as the result of an unknown
category, so such entries are ignored, with one warning that counts them. An entry that is evaluated
and cannot be understood is a fault: an error, or on request left out with a warning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from ..errors import ON_FAULT, FileFormatError, InputError, warn

MAX_FAULTS_SHOWN = 5
"""A warning shows so many of the faults that it counts."""


class EntryLog:
    """Counts the entries that a reader leaves out, and keeps the first of them to be shown.

    Args:
        source: the file or folder that is read.
        on_fault: ``"error"`` or ``"skip"``.

    Raises:
        InputError: for another ``on_fault``.
    """

    def __init__(self, source: str | Path, on_fault: str = "error") -> None:
        if on_fault not in ON_FAULT:
            raise InputError(
                f"must be one of {', '.join(ON_FAULT)}", where="on_fault", got=repr(on_fault)
            )
        self.source, self.on_fault = source, on_fault
        self.num_ignored = self.num_faults = 0
        self._first_ignored = ""
        self._faults: list[FileFormatError] = []

    def ignore(self, error: FileFormatError, count: int = 1) -> None:
        """Count entries outside the evaluation; ``error`` says why for the first of them."""
        if not self.num_ignored:
            shown = FileFormatError(error.what, where=error.where, got=error.got)
            self._first_ignored = str(shown)
        self.num_ignored += count

    def add_faults(self, count: int, errors: Iterable[FileFormatError]) -> None:
        """Count evaluated entries that are at fault, each with its error."""
        self._faults += islice(errors, MAX_FAULTS_SHOWN - len(self._faults))
        self.num_faults += count

    @contextmanager
    def guard(self, *, evaluated: bool = True) -> Iterator[None]:
        """Count a ``FileFormatError`` raised inside in place of passing it on."""
        try:
            yield
        except FileFormatError as error:
            if evaluated:
                self.add_faults(1, [error])
            else:
                self.ignore(error)

    def finish(self) -> None:
        """Say what was left out, once everything is read.

        Raises:
            FileFormatError: the first fault, with how many more there are, for ``"error"``.

        Warns:
            VocMetricsWarning: of ignored entries, and of skipped ones for ``"skip"``.
        """
        if self.num_faults and self.on_fault == "error":
            raise self._error()
        if self.num_faults:
            shown = "; ".join(f"({n}) {error}" for n, error in enumerate(self._faults, 1))
            self._warn(f"{_entries(self.num_faults)} at fault and left out; the first: {shown}")
        if self.num_ignored:
            self._warn(
                f"{_entries(self.num_ignored)} outside the evaluation and ignored; the first: "
                f"{self._first_ignored}"
            )

    def _error(self) -> FileFormatError:
        first, more = self._faults[0], self.num_faults - 1
        others = f"{_entries(more, 'more ')} at fault; " if more else ""
        advice = f'{others}on_fault="skip" (--on-fault skip) leaves {"them" if more else "it"} out'
        remedy = f"{first.remedy}; {advice}" if first.remedy else advice
        return FileFormatError(first.what, where=first.where, got=first.got, remedy=remedy)

    def _warn(self, sentence: str) -> None:
        warn(f"{self.source}: {sentence}")


def _entries(count: int, more: str = "") -> str:
    return f"{count:,} {more}{'entry is' if count == 1 else 'entries are'}"
