"""Images that came more than once: a distributed sampler fills up its last round with copies."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from ..errors import StateError, warn


def repeats(ids: Sequence[Hashable] | None) -> list[tuple[int, int]]:
    """Rows of ids that came before, each with the row of the first copy."""
    if ids is None or len(set(ids)) == len(ids):
        return []
    first: dict[Hashable, int] = {}
    return [(row, first[i]) for row, i in enumerate(ids) if first.setdefault(i, row) != row]


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
