"""What a metric has seen, as one object that is replaced and never changed."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import torch

MOST_PENDING = 4096
"""Batches that wait at most: an update copies the references to all that do."""


class Table(Protocol):
    """A table of images, of :mod:`tables`."""

    @property
    def device(self) -> torch.device:
        """Where the columns are."""

    @property
    def num_images(self) -> int:
        """Rows of the image table."""

    @classmethod
    def cat(cls, parts: Sequence[Any]) -> Self:
        """The images of all parts, one part after the other."""

    def to(self, device: torch.device) -> Self:
        """The same table on another device."""

    def in_order(self, order: torch.Tensor) -> Self:
        """The images in another order, [I] int64 rows on the CPU."""


@dataclass(frozen=True, eq=False)
class Accumulated:
    """Everything that a metric has seen since ``reset``.

    Neither the object nor a tensor in it is ever changed. A metric computes the next object in full
    and then replaces its own by one assignment, so that no exception, Ctrl-C and a lack of memory
    included, can leave half of a change behind.

    Attributes:
        tables: for each protocol the table of the images in one part or several; a part without
            images is the only one. They may be read from files when they are asked for, and then
            know ``num_images`` before.
        pending: batches that are not in the tables yet.
        device: where the work is done; None until something says where, see :meth:`at_home`.
        updated: whether there was any ``update``.
    """

    tables: Sequence[tuple[Any, ...]]
    pending: tuple[Any, ...] = ()
    device: torch.device | None = None
    updated: bool = False

    @property
    def num_images(self) -> int:
        """Images in the tables; those of pending batches are not counted."""
        if (known := getattr(self.tables, "num_images", None)) is not None:
            return int(known)
        return sum(part.num_images for part in self.tables[0])

    @property
    def num_images_seen(self) -> int:
        """Images in the tables and in pending batches."""
        return self.num_images + sum(int(batch.num_images) for batch in self.pending)

    def at_home(self, rows: torch.Tensor) -> Self:
        """The same on the device of ``rows``, the predictions of a batch, if they decide it.

        The first predictions on a device, or the first on the host that are not empty, decide where
        the work is done: an image without predictions is often one of the host's.
        """
        if self.device is not None or (rows.is_cpu and not rows.shape[0]):
            return self
        device = rows.device

        def moved(parts: Sequence[Any]) -> tuple[Any, ...]:
            return tuple(part.to(device) if part.num_images else part for part in parts)

        tables = tuple(map(moved, self.tables))
        return replace(self, tables=tables, pending=moved(self.pending), device=device)

    @property
    def whole(self) -> list[Any]:
        """The table of each protocol in one part.

        Raises:
            StateError: if some parts have image ids and others have none.
        """
        return [type(parts[0]).cat(parts) for parts in self.tables]


def appended(parts: Sequence[Any], more: Sequence[Any]) -> tuple[Any, ...]:
    """Parts of a table with more behind them; a part without images is left out."""
    return (*(parts if parts[0].num_images or not more else ()), *more)


class Lockable:
    """An object with a lock and a CUDA stream, which are not copied or pickled with it.

    The lock may be taken several times by one thread.
    """

    _lock: threading.RLock

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Make the object and its lock, also for ``copy`` and ``pickle``."""
        made = super().__new__(cls)
        made._lock = threading.RLock()
        return made

    def __getstate__(self) -> dict[str, Any]:
        kept = vars(self).items()
        return {name: value for name, value in kept if name not in ("_lock", "_stream")}
