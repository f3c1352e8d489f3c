"""What all results have in common: numbers by name, as a dict, as JSON, and as a table."""

from __future__ import annotations

import dataclasses
import difflib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

import torch
from torch import Tensor

from .._version import __version__
from ..errors import InputError
from ..protocols import Protocol, protocol_title
from .plotted import Plotted
from .result_table import Column, ResultTable, defined


class Result(Plotted, ABC):
    """A frozen result; ``result["AP"]`` is ``result.to_dict()["AP"]``, ``dict(result)`` works."""

    protocol: Protocol
    _row_kind: ClassVar[str] = "class"

    @property
    @abstractmethod
    def headline(self) -> float:
        """The number that the protocol publishes."""

    @abstractmethod
    def to_dict(self) -> dict[str, float]:
        """Flat numbers for a logger; undefined is NaN."""

    @property
    def _names(self) -> tuple[str, ...]:
        """The names of what counts are per: classes or subsets."""
        return getattr(self, "class_names", ())

    def to_json(self) -> str:
        """:meth:`to_dict` as JSON text with protocol, counts and versions; undefined is ``null``.

        Beside the numbers there are ``protocol`` and its ``fingerprint``, ``counts`` (images,
        detections, ground truths that count per class, ...) and ``versions``.
        """
        numbers = {key: defined(value) for key, value in self.to_dict().items()}
        head = self._provenance() | {"counts": self._counts()}
        return json.dumps(head | numbers, indent=2)

    def report(self) -> dict[str, Any]:
        """All numbers as plain data for JSON, those of each class or subset by their names.

        Beside the numbers there are ``protocol`` and its ``fingerprint``, ``versions``, counts,
        ``headline``, ``summary`` (:meth:`to_dict`) and a list of rows: ``classes``, each with its
        ``class_name``, or ``subsets``, each with its ``name``. Undefined is None.
        """
        rows = self.table().rows()
        if self._row_kind != "subset":
            rows = [{"class_name": row.pop("name"), **row} for row in rows]
        counts = {key: value for key, value in self._counts().items() if isinstance(value, int)}
        return {
            **self._provenance(),
            **counts,
            "headline": defined(self.headline),
            **{key: defined(value) for key, value in self._more_numbers().items()},
            "summary": {key: defined(value) for key, value in self.to_dict().items()},
            "subsets" if self._row_kind == "subset" else "classes": rows,
        }

    def table(self) -> ResultTable:
        """The result as one table with named columns, for whoever shows it."""
        counts = {
            key.removeprefix("num_"): value
            for key, value in self._counts().items()
            if isinstance(value, int) and key != "num_classes_averaged"
        }
        summary = self._summary()
        return ResultTable(
            title=protocol_title(self.protocol),
            counts=counts,
            row_kind=self._row_kind,
            names=self._names,
            columns=self._columns(),
            is_averaged=self._averaged_rows(),
            mean=self._means(),
            num_averaged=getattr(self, "num_classes_averaged", 0),
            summary=summary if len(summary) > 1 else {},
        )

    def _columns(self) -> tuple[Column, ...]:
        """The numbers of each class or subset."""
        return ()

    def _averaged_rows(self) -> tuple[bool, ...]:
        averaged = getattr(self, "is_averaged", None)
        return (True,) * len(self._names) if averaged is None else tuple(averaged.tolist())

    def _means(self) -> dict[str, float]:
        """The means over rows, by key of their column."""
        return {}

    def _summary(self) -> dict[str, float]:
        """The numbers of :meth:`to_dict` that are none of a row."""
        return {}

    def _more_numbers(self) -> dict[str, Any]:
        """What programs get beside the summary and the rows."""
        return {}

    def _provenance(self) -> dict[str, Any]:
        return {
            "protocol": protocol_title(self.protocol),
            "fingerprint": self.protocol.fingerprint,
            "versions": {"torch_vocmetrics": __version__, "torch": str(torch.__version__)},
        }

    def _repr_html_(self) -> str:
        """What notebooks show."""
        return self.table().to_html()

    def _counts(self) -> dict[str, Any]:
        """Whole numbers of the result, and those of each class or subset."""
        counts: dict[str, Any] = {}
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            if not field.name.startswith("num_"):
                continue
            value = getattr(self, field.name)
            if isinstance(value, int):
                counts[field.name] = value
            elif value.dim() == 1:
                counts[field.name] = dict(zip(self._names, value.tolist(), strict=True))
        return counts

    def keys(self) -> list[str]:
        """The keys of :meth:`to_dict`."""
        return list(self.to_dict())

    def __getitem__(self, key: str) -> float:
        numbers = self.to_dict()
        if key not in numbers:
            near = difflib.get_close_matches(str(key), list(numbers), n=3, cutoff=0.5)
            raise InputError(
                f"the result has no number {key!r}",
                remedy=f"it has {', '.join(near or list(numbers)[:12])}",
            )
        return numbers[key]

    def __contains__(self, key: object) -> bool:
        return key in self.to_dict()

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())


def only_averaged(values: Tensor, averaged: Tensor) -> list[float]:
    """[K] values as numbers, NaN for classes over which no mean runs."""
    return torch.where(averaged, values, torch.nan).tolist()
