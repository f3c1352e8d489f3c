"""What every metric has: a state that is updated, merged, saved and computed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import torch

from ..errors import StateError


class Metric(ABC):
    """A plain object that accumulates batches; ``copy.deepcopy`` and ``pickle`` copy it.

    Methods are not wrapped, nothing is cached and there is no ``forward``. A failed ``update``
    leaves the state as it was.
    """

    @abstractmethod
    def update(self, predictions: Any, targets: Any) -> Self:
        """Add a batch and return the metric."""

    @abstractmethod
    def compute(self, *, sync: bool = True) -> Any:
        """The result over everything since ``reset``; a collective in a process group."""

    @abstractmethod
    def reset(self) -> Self:
        """Forget everything, device included."""

    @abstractmethod
    def merge(self, *others: Self) -> Self:
        """Add what other metrics of the same rules have seen; they keep their own state."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """The state as numbers, text and tensors, fit for ``torch.save``."""

    @abstractmethod
    def load_state_dict(self, state: dict[str, Any]) -> Self:
        """Replace the state by a saved one."""

    @abstractmethod
    def to(self, device: torch.device | str) -> Self:
        """Move the state and all later work to a device."""


def refuse_unsynced(sync: bool) -> None:
    """Raise rather than give each rank of a process group an answer of its own.

    Raises:
        StateError: if ``sync`` is wanted in a process group of more than one rank.
    """
    distributed = torch.distributed
    if not (sync and distributed.is_available() and distributed.is_initialized()):
        return
    if distributed.get_world_size() > 1:
        raise StateError(
            "states are not synchronised across ranks in this version",
            where="compute",
            got=f"a process group of {distributed.get_world_size()} ranks",
            remedy="call compute(sync=False) for this rank's own images",
        )


def refuse_other_rules(mine: dict[str, Any], other: object, where: str) -> None:
    """Compare what two states say of their rules: schema, metric, protocols and classes.

    Raises:
        StateError: naming the first difference and ``where`` it was met.
    """
    for key in ("schema", "metric", "fingerprints", "class_names"):
        if not isinstance(other, dict) or other.get(key) != mine[key]:
            shown = "protocols" if key == "fingerprints" else key
            found = other.get(shown) if isinstance(other, dict) else type(other).__name__
            raise StateError(
                f"the states are of different {shown}: {mine[shown]} here",
                where=where,
                got=found,
                remedy="give both metrics the same protocol and classes",
            )
