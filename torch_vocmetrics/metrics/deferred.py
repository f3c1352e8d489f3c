"""What devices have checked of values: read later, all in one copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from ..inputs.box_scale import BoxScale
from ..inputs.faults import Suspect
from ..transfer import to_host


class Deferred(NamedTuple):
    """What devices have checked of values, to be read later.

    Attributes:
        suspects: of the rows.
        coarse: 0-d bools, whether half boxes are where whole pixels are not exact.
        other_ids: 0-d bools, whether predictions have other image ids than their targets.
        inverted: [3] int64 each, see :mod:`inputs.inverted_boxes`.
    """

    suspects: tuple[Suspect, ...] = ()
    coarse: tuple[Tensor, ...] = ()
    other_ids: tuple[Tensor, ...] = ()
    inverted: tuple[Tensor, ...] = ()

    def read(self, scales: Sequence[BoxScale]) -> tuple[Deferred, list[BoxScale]]:
        """The same, and what is to be known of the scale of boxes, on the host after one wait."""
        details = [suspect.details for suspect in self.suspects]
        unread = [flag for scale in scales for flag in scale.unread]
        read = iter(to_host([*details, *self.coarse, *self.other_ids, *self.inverted, *unread]))
        return (
            Deferred(
                tuple(suspect._replace(details=next(read)) for suspect in self.suspects),
                tuple(next(read) for _ in self.coarse),
                tuple(next(read) for _ in self.other_ids),
                tuple(next(read) for _ in self.inverted),
            ),
            [scale._replace(unread=tuple(next(read) for _ in scale.unread)) for scale in scales],
        )


NOTHING_DEFERRED = Deferred()
