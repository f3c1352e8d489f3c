"""The parts of a page and how they become HTML."""

from __future__ import annotations

import base64
import hashlib
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from torch_vocmetrics import __version__

from ..errors import InputError, printable
from ..plots.style import SIZE, figure_of

if TYPE_CHECKING:
    from PIL.Image import Image

FIGURE_DPI = 130
PICTURE_SIZE = 640
"""Longest side of an image in the page, in pixels."""


class Cell(NamedTuple):
    """A cell of a table: what is shown, and the number or text by which rows are sorted."""

    text: str
    order: float | str
    is_number: bool


class TableView(NamedTuple):
    """A table that readers may sort.

    Attributes:
        caption: what the rows are.
        head: titles of the columns.
        rows: cells.
        foot: a last row that stays where it is, or nothing.
    """

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    foot: Sequence[Cell] = ()


class Figure(NamedTuple):
    """A drawing or an image.

    Attributes:
        caption: what it shows.
        source: a ``data:`` address.
        width, height: in pixels of the page.
        is_picture: whether it is an image of the data set.
    """

    caption: str
    source: str
    width: int
    height: int
    is_picture: bool = False


class Section(NamedTuple):
    """A part of the page with a heading; empty ones are left out.

    Attributes:
        name: its address in the page.
        title: its heading.
        text: a sentence below.
        figures, tables: its content.
        legend: styles of boxes in pictures: colour, whether dashed, meaning.
    """

    name: str
    title: str
    text: str = ""
    figures: Sequence[Figure] = ()
    tables: Sequence[TableView] = ()
    legend: Sequence[tuple[str, bool, str]] = ()


def cell(value: Any, *, digits: int = 4) -> Cell:
    """A value as a cell: text, a whole number, or a fraction; NaN is a word and comes last."""
    if isinstance(value, Cell):
        return value
    if isinstance(value, str) or value is None:
        return Cell(printable(value or ""), value or "", is_number=False)
    if isinstance(value, int):
        return Cell(f"{value:,}", float(value), is_number=True)
    number = float(value)
    if number != number:  # noqa: PLR0124 - NaN
        return Cell("undefined", "", is_number=True)
    return Cell(f"{number:.{digits}f}", number, is_number=True)


def table_view(caption: str, columns: Mapping[str, Sequence[Any]], most: int = 10_000) -> TableView:
    """A table of named columns.

    Args:
        caption: what the rows are.
        columns: values of every row by the title of their column.
        most: rows that are shown.
    """
    rows = [tuple(cell(value) for value in row) for row in zip(*columns.values(), strict=True)]
    return TableView(caption, tuple(columns), rows[:most])


def drawn(caption: str, draw: Callable[[Any], Any]) -> Figure:
    """A drawing as a PNG.

    Args:
        caption: what it shows.
        draw: draws on axes.

    Raises:
        InputError: if matplotlib is not installed.
    """
    target = io.BytesIO()
    figure_of(draw).savefig(target, format="png", dpi=FIGURE_DPI)
    width, height = (round(96 * inches) for inches in SIZE)
    return Figure(caption, _address("image/png", target.getvalue()), width, height)


def pictured(caption: str, image: Image) -> Figure:
    """An image of the data set, made smaller where it is large."""
    small = image.convert("RGB")
    small.thumbnail((PICTURE_SIZE, PICTURE_SIZE))
    target = io.BytesIO()
    small.save(target, format="JPEG", quality=82, optimize=True)
    address = _address("image/jpeg", target.getvalue())
    return Figure(printable(caption), address, *small.size, is_picture=True)


def _address(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode('ascii')}"


def page(title: str, lead: Sequence[tuple[str, str]], sections: Sequence[Section]) -> str:
    """The HTML of a page.

    Args:
        title: heading of the page.
        lead: pairs of a word and a number or text, shown first.
        sections: the parts; those without content are left out.

    Raises:
        InputError: if jinja2 is not installed.
    """
    try:
        import jinja2  # noqa: PLC0415 - optional
    except ImportError:
        raise InputError(
            "jinja2 is not installed", remedy="pip install 'torch_vocmetrics[report]'"
        ) from None
    folder = Path(__file__).parent
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    script = (folder / "sort.js").read_text(encoding="utf-8")
    # The page may run this script and nothing else, whatever stands in its text.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    return environment.get_template("page.html.j2").render(
        title=printable(title),
        lead=[(printable(word), printable(value)) for word, value in lead],
        sections=[one for one in sections if one.tables or one.figures or one.text],
        style=(folder / "page.css").read_text(encoding="utf-8"),
        script=script,
        script_digest=digest,
        version=__version__,
    )


def write_page(path: str | Path, text: str) -> None:
    """Write a page.

    Raises:
        OSError: naming the file.
    """
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        error.filename = error.filename or str(path)
        raise
