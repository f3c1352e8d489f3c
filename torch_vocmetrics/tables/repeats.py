"""Images that came more than once: a distributed sampler fills up its last round with copies."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..errors import StateError, warn
from ..states.plain import order_of_arrival


def repeats(ids: Sequence[Hashable] | None) -> list[tuple[int, int]]:
    """Rows of ids that came before, each with the row of the first copy."""
    if ids is None or len(set(ids)) == len(ids):
        return []
    first: dict[Hashable, int] = {}
    return [(row, first[i]) for row, i in enumerate(ids) if first.setdefault(i, row) != row]


class Arrangement(NamedTuple):
    """The images of several states as one data set; rows are those of the states, laid end to end.

    Attributes:
        positions: [I] int64 that break ties of score: images by id, or else as they arrived.
        copies: [C, 2] int64 rows of repeated images, each beside the copy that was met first, in
            the order in which they arrived.
    """

    positions: Tensor
    copies: Tensor

    @property
    def kept(self) -> Tensor:
        """[I] bool: the copy of each image that was met first."""
        kept = torch.ones_like(self.positions, dtype=torch.bool)
        kept[self.copies[:, 0]] = False
        return kept

    def check_truth(self, digests: Tensor, ids: Sequence[Hashable]) -> None:
        """Raise StateError if two copies of an image have different ground truth.

        Args:
            digests: [I] of the ground truth of each image; only those of copies are read.
            ids: of all images.
        """
        mine, first = self.copies.unbind(1)
        unequal = digests[mine] != digests[first]
        if bool(unequal.any()):
            raise unequal_truth(ids[int(mine[unequal][0])])

    def warn_of_copies(self, digests: Tensor) -> None:
        """Say how many copies were dropped; ``digests`` [I] are those of their detections."""
        mine, first = self.copies.unbind(1)
        differing = int((digests[mine] != digests[first]).sum())
        warn_of_repeats(len(self.copies), differing, "detections")


def arranged(ids: Sequence[Hashable], images: Sequence[int]) -> Arrangement:
    """Arrange the images of several states: of equal ids the one met earliest counts.

    Args:
        ids: of all states, end to end, of one kind; empty where none were given.
        images: how many images each state holds.
    """
    arrival = order_of_arrival(images).numpy()
    positions = np.empty(len(arrival), dtype=np.int64)
    if not ids:
        positions[arrival] = np.arange(len(arrival))
        return Arrangement(torch.from_numpy(positions), torch.zeros((0, 2), dtype=torch.int64))
    whole = isinstance(ids[0], int)
    values = np.empty(len(ids), dtype=np.int64 if whole else object)
    values[:] = ids
    values = values[arrival]
    order = np.argsort(values, kind="stable")
    values = values[order]
    again = np.flatnonzero(values[1:] == values[:-1]) + 1
    positions[arrival[order]] = np.arange(len(ids))
    leads = np.arange(len(ids))
    leads[again] = 0
    first = np.maximum.accumulate(leads)[again]
    copies = np.stack([order[again], order[first]], axis=1)
    copies = arrival[copies[np.argsort(copies[:, 0])]]
    return Arrangement(torch.from_numpy(positions), torch.from_numpy(copies))


def unequal_truth(image_id: Hashable, what: str = "ground truth") -> StateError:
    """What to raise when two copies of an image say different things of it."""
    return StateError(
        f"the same image came with different {what}",
        where=f"image_id {image_id!r}",
        remedy="was reset() forgotten between two evaluations, or is the id not unique?",
    )


def warn_of_repeats(dropped: int, differing: int, what: str) -> None:
    """Say how many copies of images were dropped, and in how many of them ``what`` differed."""
    warn(
        f"{dropped} repeated images were dropped (the first copy of each counts); "
        f"the {what} of {differing} of them differed from the first copy's"
    )
