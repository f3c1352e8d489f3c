"""A result as one table: a row per class, part or subset, named columns, and numbers of the whole.

Whatever shows a result reads this table: the command line, notebooks, reports. A new column of a
result is one :class:`Column` in its class.
"""

from __future__ import annotations

import dataclasses
import html
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from ..errors import InputError

Number = int | float


class Column(NamedTuple):
    """A number of every row.

    Attributes:
        key: its name for programs, such as ``"average_precision"``.
        title: its heading for people, such as ``"AP"``; empty if only programs are shown it.
        values: one of each row; undefined is NaN.
        data: what programs get of each row in place of the value, such as counts of all thresholds.
        of_mean: whether rows over which the mean does not run show a word in place of the value.
    """

    key: str
    title: str
    values: tuple[Number, ...]
    data: tuple[Any, ...] | None = None
    of_mean: bool = False


@dataclass(frozen=True, kw_only=True)
class ResultTable:
    """What a result says of its classes, parts or subsets.

    Attributes:
        title: the protocol.
        counts: how much was evaluated, such as ``{"images": 2}``.
        row_kind: what a row is: ``"class"``, ``"part"``, ``"subset"``.
        names: of the rows.
        columns: their numbers.
        is_averaged: whether the mean runs over each row.
        mean: the mean over rows by key of the column; empty if there is none.
        num_averaged: how many rows the mean runs over.
        summary: numbers of the whole by name, where there are more than the mean.
        without_numbers: further names without numbers, and the word that says why.
    """

    title: str
    counts: Mapping[str, int]
    row_kind: str
    names: tuple[str, ...]
    columns: tuple[Column, ...]
    is_averaged: tuple[bool, ...]
    mean: Mapping[str, float] = field(default_factory=dict)
    num_averaged: int = 0
    summary: Mapping[str, float] = field(default_factory=dict)
    without_numbers: Mapping[str, str] = field(default_factory=dict)

    @property
    def heading(self) -> str:
        """The counts in words."""
        return ", ".join(f"{count} {what}" for what, count in self.counts.items())

    @property
    def shown_columns(self) -> tuple[Column, ...]:
        """The columns for people."""
        return tuple(column for column in self.columns if column.title)

    def rows(self) -> list[dict[str, Any]]:
        """Each row by key, for programs; undefined is None, names are under the key ``name``."""
        return [
            {"name": name}
            | {column.key: defined((column.data or column.values)[row]) for column in self.columns}
            for row, name in enumerate(self.names)
        ]

    def cells(self) -> list[tuple[str, ...]]:
        """Heading, rows and mean for people."""
        columns = self.shown_columns
        rows = [(self.row_kind, *(column.title for column in columns))]
        for row, name in enumerate(self.names):
            rows.append((name, *(self._cell(column, row) for column in columns)))
        for name, word in self.without_numbers.items():
            rows.append((name, word, *[""] * (len(columns) - 1)))
        if self.mean:
            kinds = {"class": "classes"}.get(self.row_kind, f"{self.row_kind}s")
            of_columns = [shown(self.mean[c.key]) if c.key in self.mean else "" for c in columns]
            rows.append((f"mean over {self.num_averaged} {kinds}", *of_columns))
        return rows

    def _cell(self, column: Column, row: int) -> str:
        if column.of_mean and not self.is_averaged[row]:
            return "not in the mean"
        return shown(column.values[row])

    def sorted_by(self, name: str, *, ascending: bool = False) -> Self:
        """The rows by a column, the largest first, or by their names; undefined is last.

        Args:
            name: title or key of the column, whatever its capitals, or the kind of row for names.
            ascending: the smallest first.

        Raises:
            InputError: if there is no such column.
        """
        wanted = name.casefold()
        if wanted in ("name", self.row_kind):
            order = sorted(range(len(self.names)), key=self.names.__getitem__, reverse=ascending)
            return self._chosen(order)
        for column in self.columns:
            title = column.title.casefold()
            if wanted in (column.key, title, title.split("@")[0]):
                sign = 1 if ascending else -1
                values = [
                    math.inf if math.isnan(v) or (column.of_mean and not averaged) else sign * v
                    for v, averaged in zip(column.values, self.is_averaged, strict=True)
                ]
                return self._chosen(sorted(range(len(values)), key=values.__getitem__))
        titles = ", ".join([self.row_kind, *(column.title for column in self.shown_columns)])
        raise InputError(f"no column {name!r}", remedy=f"the columns are {titles}")

    def first(self, count: int) -> Self:
        """The first rows only; the mean stays that of all."""
        return self._chosen(list(range(min(count, len(self.names)))))

    def _chosen(self, order: list[int]) -> Self:
        def pick(values: tuple[Any, ...]) -> tuple[Any, ...]:
            return tuple(values[row] for row in order)

        columns = tuple(
            column._replace(values=pick(column.values), data=column.data and pick(column.data))
            for column in self.columns
        )
        return dataclasses.replace(
            self, names=pick(self.names), columns=columns, is_averaged=pick(self.is_averaged)
        )

    def to_html(self) -> str:
        """Title, summary and rows as HTML without scripts or styles; all text is escaped."""
        head, *body = self.cells()
        summary = [f"<td>{html.escape(key)}</td>" for key in self.summary]
        numbers = [f"<td>{shown(value)}</td>" for value in self.summary.values()]
        above = f"<table><tr>{''.join(summary)}</tr><tr>{''.join(numbers)}</tr></table>"
        heads = "".join(f"<th>{html.escape(text)}</th>" for text in head)
        lines = [
            "<tr>" + "".join(f"<td>{html.escape(text)}</td>" for text in row) + "</tr>"
            for row in body
        ]
        return (
            f"<p><b>{html.escape(self.title)}</b>: {html.escape(self.heading)}</p>"
            f"{above if summary else ''}"
            f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
        )


def shown(value: Number) -> str:
    """Four decimals of a fraction, a whole number as it is, a word for NaN."""
    if isinstance(value, int):
        return str(value)
    return "undefined" if math.isnan(value) else f"{value:.4f}"


def defined(value: Any) -> Any:
    """A value for JSON: NaN is None, also within lists."""
    if isinstance(value, list | tuple):
        return [defined(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
