"""What a metric adds to :class:`Metric <.base.Metric>`, and how its state is kept."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Generic, Self, TypeVar

import torch

from ..protocols import Protocol
from .accumulated import Accumulated, Lockable
from .identity import refuse_other_rules, tables_of
from .streams import OnCurrentStream

STATE_SCHEMA = 5

R_co = TypeVar("R_co", covariant=True)
"""What a metric computes."""


class Stateful(Lockable, ABC, Generic[R_co]):
    """An object whose state is tables of images, and batches that wait to come into them."""

    class_names: tuple[str, ...]
    label_ids: tuple[int, ...]
    diagnostics = False  # whether the state has more than results need, for analyses
    _accumulated: Any = OnCurrentStream()  # the only attribute that changes: an Accumulated

    @classmethod
    @abstractmethod
    def _of(
        cls, protocols: Sequence[Any], class_names: Sequence[str], label_ids: Sequence[int]
    ) -> Self:
        """A metric with these rules."""

    @abstractmethod
    def _nothing(self) -> Accumulated:
        """What a new metric has seen."""

    @abstractmethod
    def _settled(self, state: Any) -> Any:
        """The same with all batches in the tables, and nothing left to be checked.

        Raises:
            InputError: if values flagged on a device broke the rules.
        """

    @abstractmethod
    def _columns(self, tables: Any) -> dict[str, Any]:
        """What a saved state says of the tables, beside ids and rules."""

    def _block_starts(self, tables: Any) -> dict[str, list[int]]:  # noqa: ARG002
        """Rows at which a file is to be readable by itself, by column (:func:`write_state`)."""
        return {}

    @abstractmethod
    def _read(self, ids: list[Any] | None, state: dict[str, Any]) -> Sequence[Any]:
        """The tables of a saved state; whatever does not hold together raises."""

    @abstractmethod
    def _all_protocols(self) -> Sequence[Protocol]:
        """The rules."""

    @abstractmethod
    def _distinct(self) -> Any:
        """The state without repeated images; copies are checked and warned of."""

    @abstractmethod
    def _result(self, distinct: Any) -> R_co:
        """The result of what :meth:`_distinct` gave."""

    def _identity(self) -> dict[str, Any]:
        """What states must have in common."""
        return {
            "schema": STATE_SCHEMA,
            "metric": type(self).__name__,
            "protocols": [protocol.name for protocol in self._all_protocols()],
            "fingerprints": [protocol.fingerprint for protocol in self._all_protocols()],
            "class_names": list(self.class_names),
            "label_ids": list(self.label_ids),
        }

    def _settle(self) -> Any:
        """Everything seen so far, with all batches in the tables.

        Raises:
            InputError: if values flagged on a device broke the rules; until ``reset``.
        """
        with self._lock:
            self._accumulated = self._settled(self._accumulated)
            return self._accumulated

    def _joined(self) -> Any:
        """Everything seen so far, each table in one part.

        Raises:
            InputError: if values flagged on a device broke the rules; until ``reset``.
        """
        with self._lock:
            state = self._settle()
            self._accumulated = replace(state, tables=tuple((table,) for table in state.whole))
            return self._accumulated

    def _holding(
        self, tables: Sequence[Any], device: torch.device | None, updated: bool
    ) -> Accumulated:
        """These tables as all that was seen."""
        parts = tuple((table,) for table in tables)
        return replace(self._nothing(), tables=parts, device=device, updated=updated)

    def _exported(self) -> dict[str, Any]:
        """:meth:`state_dict` whose tensors are those of the metric."""
        state = self._joined()
        tables = state.whole
        ids = tables[0].image_ids
        return {
            **self._identity(),
            "updated": state.updated,
            "num_images": tables[0].num_images,
            "image_ids": None if ids is None else list(ids),
            **self._columns(tables),
        }

    def _images(self) -> dict[str, Any]:
        """The images of :meth:`state_dict` alone."""
        parts = self._settle().tables[0]
        ids = [image_id for part in parts for image_id in part.image_ids or ()]
        return {"image_ids": ids or None, "num_images": sum(part.num_images for part in parts)}

    def _load(self, state: dict[str, Any]) -> Self:
        """:meth:`load_state_dict` that keeps the tensors themselves."""
        refuse_other_rules(self._identity(), state, "load_state_dict")
        tables = tables_of(state, self._read)
        device = tables[0].device if tables[0].num_images else None
        with self._lock:
            self._accumulated = self._holding(tables, device, state["updated"])
        return self

    def _blank(self) -> Self:
        """A metric of the same rules that has seen nothing."""
        blank = copy.copy(self)
        blank._accumulated = blank._nothing()
        return blank
