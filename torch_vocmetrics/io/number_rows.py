"""Text files of plain numbers, one row a line, with commas or blanks between."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..errors import FileFormatError
from ..limits import MAX_TEXT_BYTES
from .files import read_text
from .tables import Floats, Integers


class NumberRows(NamedTuple):
    """Rows of a file: values [R, C] float64, and the line of each, from 1."""

    path: Path
    values: Floats
    lines: Integers

    def fault(self, row: int, what: str, remedy: str = "") -> FileFormatError:
        """The error that names the line of a row and shows its values."""
        return FileFormatError(
            what,
            where=f"{self.path}, line {self.lines[row]}",
            got=", ".join(f"{value:g}" for value in self.values[row]),
            remedy=remedy,
        )

    def indices(self, column: int, first: int, count: int, what: str) -> Integers:
        """A column of whole numbers in [first, first + count), as indices from 0.

        Raises:
            FileFormatError: naming file and line of the first that is no such number.
        """
        values = self.values[:, column]
        right = (values == np.floor(values)) & (values >= first) & (values < first + count)
        if not right.all():
            row = int(np.flatnonzero(~right)[0])
            raise self.fault(row, f"{what} must be {first} .. {first + count - 1}")
        return values.astype(np.int64) - first

    def boxes(self, start: int) -> Floats:
        """Four columns x, y, width, height without a negative size.

        Raises:
            FileFormatError: naming file and line of the first that has one.
        """
        boxes = self.values[:, start : start + 4]
        wrong = (boxes[:, 2:] < 0).any(axis=1)
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise self.fault(row, "a box must not have a negative width or height")
        return boxes


def read_number_rows(
    path: Path, columns: Sequence[str], *, max_bytes: int = MAX_TEXT_BYTES
) -> NumberRows:
    """Read the rows of a file; blank lines are passed over.

    Args:
        path: the file.
        columns: what the columns are called; a ``"score"`` may be infinite.
        max_bytes: the largest file that is read.

    Raises:
        FileFormatError: naming file and line, for another number of columns or what is no number.
        OSError: if there is no such file or it may not be read.
    """
    values, lines = [], []
    for number, line in enumerate(read_text(path, max_bytes=max_bytes).split("\n"), 1):
        fields = line.replace(",", " ").split()
        if not fields:
            continue
        where = f"{path}, line {number}"
        if len(fields) != len(columns):
            raise FileFormatError(
                "another number of columns",
                where=where,
                got=f"{len(fields)} columns",
                remedy=f"a row is {', '.join(columns)}",
            )
        values.append(
            [
                _number(field, where, infinite=column == "score")
                for column, field in zip(columns, fields, strict=True)
            ]
        )
        lines.append(number)
    table = np.array(values, np.float64).reshape(-1, len(columns))
    return NumberRows(path, table, np.array(lines, np.int64))


def _number(field: str, where: str, *, infinite: bool) -> float:
    try:
        value = float(field) if "_" not in field else math.nan
    except ValueError:
        value = math.nan
    if math.isnan(value) or (math.isinf(value) and not infinite):
        kind = "a number" if infinite else "a finite number"
        raise FileFormatError(f"not {kind}", where=where, got=repr(field))
    return value
