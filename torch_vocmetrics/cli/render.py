"""What commands show of results: one table in four formats, and the JSON file of ``--json``."""

from __future__ import annotations

import argparse
import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import printable
from .option_groups import FORMATS
from .outputs import check_json_file, write_json
from .streams import has_color, show, styled

if TYPE_CHECKING:  # statistics shows tables without torch
    from ..results import Result, ResultTable

_WIDEST = 80  # letters of a cell of a table
_WORDS = ("undefined", "not in the mean", "not entered")


class Shown(NamedTuple):
    """A result as it is shown.

    Attributes:
        table: its rows, sorted and cut as the command asks.
        report: all its numbers as plain data.
    """

    table: ResultTable
    report: dict[str, Any]


def publish(
    args: argparse.Namespace,
    results: Sequence[Result],
    facts: Mapping[str, Any] | None = None,
    without_numbers: Mapping[str, str] | None = None,
) -> None:
    """Write all numbers where ``--json`` says, and show the tables unless they are not wanted.

    Args:
        args: with ``json``, ``format``, ``sort``, ``ascending``, ``top`` and ``quiet``.
        results: one of each protocol.
        facts: what the files say beside the results; for programs.
        without_numbers: names that are shown without numbers, and the word that says why.

    Raises:
        InputError: if there is no column to sort by, or the JSON file cannot be written there.
        OSError: if the disk is full, or standard output fails.
    """
    shown = [_shown(args, one, facts or {}, without_numbers or {}) for one in results]
    if args.json is not None:
        check_json_file(args.json)
        if args.json == "-":
            show(_json(shown))
        else:
            write_json(Path(args.json), _json(shown))
    if not args.quiet and args.json != "-":
        show(_WRITERS[args.format](shown))


def _shown(
    args: argparse.Namespace,
    result: Result,
    facts: Mapping[str, Any],
    without_numbers: Mapping[str, str],
) -> Shown:
    table = result.table()
    table = replace(table, without_numbers=without_numbers)
    if args.sort is not None:
        table = table.sorted_by(args.sort, ascending=args.ascending)
    if args.top is not None:
        table = table.first(args.top)
    return Shown(table, result.report() | dict(facts))


def _tables(shown: Sequence[Shown]) -> str:
    return "\n\n".join(_table(one.table) for one in shown)


def _table(table: ResultTable) -> str:
    """For a terminal or a text file: numbers of the whole, then a row per class."""
    lines = [styled(printable(table.title), "bold"), printable(table.heading), ""]
    if table.summary:
        summary = [(key, _number(value)) for key, value in table.summary.items()]
        lines += [*aligned(summary), ""]
    return "\n".join([*lines, *aligned(table.cells(), has_head=True, has_mean=bool(table.mean))])


def _number(value: float) -> str:
    from ..results.result_table import shown  # noqa: PLC0415 - needs torch

    return shown(value)


def _markdown(shown: Sequence[Shown]) -> str:
    return "\n\n".join(_markdown_table(one.table) for one in shown)


def _markdown_table(table: ResultTable) -> str:
    parts = [f"**{_marked(table.title)}**: {_marked(table.heading)}"]
    if table.summary:
        names, numbers = tuple(table.summary), tuple(map(_number, table.summary.values()))
        parts.append(_markdown_rows([names, numbers], "---:"))
    parts.append(_markdown_rows(table.cells(), "---"))
    return "\n\n".join(parts)


def _markdown_rows(rows: Sequence[tuple[str, ...]], first: str) -> str:
    head, *body = (f"| {' | '.join(map(_marked, row))} |" for row in rows)
    line = f"| {' | '.join([first, *['---:'] * (len(rows[0]) - 1)])} |"
    return "\n".join([head, line, *body])


def _marked(text: str) -> str:
    """A text that Markdown shows as it is."""
    return "".join(f"\\{letter}" if letter in "\\`*_[]<>|#" else letter for letter in _cell(text))


def _csv(shown: Sequence[Shown]) -> str:
    """The rows alone, in full precision: fields are quoted where they have to be."""
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\n")
    for number, one in enumerate(shown):
        table = one.table
        keys = [column.key for column in table.shown_columns]
        if number == 0:
            writer.writerow(["protocol", table.row_kind, *keys])
        for row, name in enumerate(table.names):
            values = [column.values[row] for column in table.shown_columns]
            writer.writerow([_cell(table.title), _cell(name), *values])
    return target.getvalue().rstrip("\n")


def _json(shown: Sequence[Shown]) -> str:
    reports = [one.report for one in shown]
    content = reports[0] if len(reports) == 1 else {"results": reports}
    return json.dumps(content, indent=2, allow_nan=False)


_WRITERS: dict[str, Callable[[Sequence[Shown]], str]] = dict(
    zip(FORMATS, (_tables, _json, _csv, _markdown), strict=True)
)


def aligned(
    rows: Iterable[tuple[str, ...]], *, has_head: bool = False, has_mean: bool = False
) -> list[str]:
    """Rows with the first column to the left and the others to the right.

    On a terminal the head and the mean stand out, and words in place of numbers are faint.
    """
    cells = [tuple(_cell(text) for text in row) for row in rows]
    first, *others = (max(map(len, column)) for column in zip(*cells, strict=True))
    lines = []
    for number, row in enumerate(cells):
        padded = [row[0].ljust(first), *map(str.rjust, row[1:], others)]
        strong = (has_head and number == 0) or (has_mean and number == len(cells) - 1)
        if has_color() and not strong:
            faint = [text.strip() in _WORDS for text in padded]
            padded = [
                styled(text, "faint") if is_faint else text
                for text, is_faint in zip(padded, faint, strict=True)
            ]
        line = "  ".join(padded).rstrip()
        lines.append(styled(line, "bold") if strong else line)
    return lines


def _cell(text: str) -> str:
    """A text from a file as a cell: nothing that steers a terminal, and not of any width."""
    return printable(text if len(text) <= _WIDEST else f"{text[:_WIDEST]}...")
