"""Results that are tables: frozen objects whose fields are numbers and columns of equal length."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from torch import Tensor

from ..errors import InputError
from .plotted import Plotted
from .result_table import shown

if TYPE_CHECKING:
    import pandas


class Table(Plotted):
    """Base of frozen dataclasses whose fields are plain values and columns of equal length.

    Columns are tensors whose first axis is the rows, or tuples. A subclass whose rows are not
    simply its fields overrides :meth:`columns`.
    """

    def columns(self) -> dict[str, Sequence[Any] | Tensor]:
        """The columns by name, all of one length: what :meth:`to_pandas` shows."""
        return {
            field.name: value
            for field in dataclasses.fields(self)  # type: ignore[arg-type]
            if isinstance(value := getattr(self, field.name), (tuple, Tensor))
        }

    def to_dict(self) -> dict[str, Any]:
        """All fields by name as plain Python values; tensors become lists."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        return {field.name: _plain(getattr(self, field.name)) for field in fields}

    def _repr_html_(self) -> str:
        """What notebooks show: the first rows."""
        return f"<p><b>{escape(type(self).__name__)}</b></p>{_html_rows(self.columns())}"

    def to_pandas(self) -> pandas.DataFrame:
        """The columns as a data frame.

        Raises:
            InputError: if pandas is not installed.
        """
        return data_frame(self.columns())


def _html_rows(columns: Mapping[str, Sequence[Any] | Tensor], most: int = 30) -> str:
    """The first rows as an HTML table; all text is escaped."""
    count = max(map(len, columns.values()), default=0)
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    first = [_plain(column[:most]) for column in columns.values()]
    rows = [
        "".join(f"<td>{escape(_cell(v))}</td>" for v in row) for row in zip(*first, strict=False)
    ]
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    more = f"<p>{count - most:,} rows more</p>" if count > most else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _cell(value: Any) -> str:
    return shown(value) if isinstance(value, int | float) else str(value)


def data_frame(columns: Mapping[str, Sequence[Any] | Tensor]) -> pandas.DataFrame:
    """A pandas data frame of named columns of equal length.

    Raises:
        InputError: if pandas is not installed.
    """
    try:
        import pandas  # noqa: PLC0415 - optional
    except ImportError:
        raise InputError(
            "pandas is not installed", remedy="pip install 'torch_vocmetrics[pandas]'"
        ) from None
    return pandas.DataFrame({name: _plain(column) for name, column in columns.items()})


def _plain(value: Any) -> Any:
    """Tensors and tuples as lists; other values as they are."""
    if isinstance(value, Tensor):
        return value.tolist()
    if isinstance(value, Table):
        return value.to_dict()
    return [_plain(entry) for entry in value] if isinstance(value, tuple) else value
