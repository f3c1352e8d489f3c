"""Every class of match records on one rank, its owner: one all-to-all a column, no rank holds all.

Records stand by class, so that what goes to a rank is slices of columns. Beside its own state a
rank holds the classes that it owns and one column on its way.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..tables.class_slices import (
    RANKED_DETECTIONS,
    RANKED_MATCHES,
    ClassSlices,
    classes_of_images,
)
from ..tables.records import MatchRecords
from .transport import Route, all_gather, all_to_all


class OwnedClasses(NamedTuple):
    """What a rank holds after the exchange.

    Attributes:
        classes: of each rank, those that it owns, rising.
        parts: the records of one's own classes, a part for each rank that sent them.
        num_detections: of all classes.
    """

    classes: list[list[int]]
    parts: list[MatchRecords]
    num_detections: int


def owners(counts: Sequence[int], ranks: int) -> list[list[int]]:
    """The classes of each rank: the largest first, each to the rank that has the fewest rows."""
    owned: list[list[int]] = [[] for _ in range(ranks)]
    loads = [(0, 0, rank) for rank in range(ranks)]
    for label in sorted(range(len(counts)), key=lambda label: (-counts[label], label)):
        rows, classes, rank = heapq.heappop(loads)
        owned[rank].append(label)
        heapq.heappush(loads, (rows + counts[label], classes + 1, rank))
    return [sorted(classes) for classes in owned]


def exchange(slices: ClassSlices, images: Sequence[int], route: Route) -> OwnedClasses:
    """Send every class to its owner; a collective of as many calls on every rank.

    Args:
        slices: of the records of this rank, without repeated images.
        images: how many images each rank holds.
        route: between the ranks.

    Raises:
        StateError: if a rank is lost.
    """
    me, ranks = route.rank, route.num_ranks
    mine = torch.stack([slices.detections.sum(dim=0), slices.matches.sum(dim=0)])
    has_order, wide = slices.has_order, slices.score_dtype == torch.float64
    flags = torch.tensor([[has_order, wide]]).expand(2, 2)
    every = all_gather(torch.cat([mine, flags], dim=1).flatten(), route)
    every = every.reshape(ranks, 2, -1)
    counts, (has_order, wide) = every[..., :-2], every[:, 0, -2:].amax(dim=0).bool().tolist()
    classes = owners(counts[:, 0].sum(dim=0).tolist(), ranks)
    sent = [counts[me][:, owned].sum(dim=1).tolist() for owned in classes]
    received = counts[:, :, classes[me]].sum(dim=2).tolist()
    order = [label for owned in classes for label in owned]
    pieces: dict[str, list[Tensor]] = {}
    for name in (*RANKED_DETECTIONS, *RANKED_MATCHES):
        if name == "order" and not has_order:
            continue
        of_matches = name in RANKED_MATCHES
        rows = slices.column(name, order, classes)
        if name == "score" and wide:
            rows = rows.double()
        give, take = ([pair[of_matches] for pair in pairs] for pairs in (sent, received))
        pieces[name] = list(torch.split(all_to_all(rows, give, take, route), take))
        del rows
    parts = [
        classes_of_images(
            {name: columns[rank] for name, columns in pieces.items()},
            counts[rank, 0, classes[me]],
            images[rank],
        )
        for rank in range(ranks)
    ]
    return OwnedClasses(classes, parts, int(counts[:, 0].sum()))
