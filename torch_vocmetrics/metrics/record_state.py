"""What a metric of match records has seen: records, and batches that wait for a full chunk."""

from __future__ import annotations

from dataclasses import dataclass
from operator import mul
from typing import NamedTuple

import torch
from torch import Tensor

from ..inputs.box_scale import BoxScale
from ..inputs.images import Batch
from ..matching import Chunk
from ..tables.records import MatchRecords
from ..transfer import memory_of
from .accumulated import Accumulated
from .deferred import NOTHING_DEFERRED, Deferred

CHUNK_ROWS = 2**16
CHUNK_PAIRS = 2**20
CHUNK_MASK_BYTES = 2**25
"""A chunk is matched when it holds so many rows, pairs (by their bound), or bytes of masks."""
SHARE_OF_MEMORY = 64
"""Of a device's memory, one part in so many is for the masks of a chunk, as matching it has much
the same cost whatever it holds."""


class Fill(NamedTuple):
    """How full a chunk is.

    Attributes:
        rows: images, detections and ground truths.
        pairs: the bound of candidate pairs, all detections of an image with all its ground truths.
        mask_bytes: memory of the masks.
    """

    rows: int = 0
    pairs: int = 0
    mask_bytes: int = 0

    def plus(self, batch: Batch) -> Fill:
        """With one batch more."""
        detections, ground_truths = batch.detections.counts, batch.ground_truths.counts
        return Fill(
            self.rows + sum(detections) + sum(ground_truths) + batch.num_images,
            self.pairs + sum(map(mul, detections, ground_truths)),
            self.mask_bytes + batch.mask_bytes,
        )

    def is_full(self, device: torch.device) -> bool:
        """Whether the chunk is to be matched on the device."""
        return (
            self.rows >= CHUNK_ROWS
            or self.pairs >= CHUNK_PAIRS
            or self.mask_bytes >= max(CHUNK_MASK_BYTES, memory_of(device) // SHARE_OF_MEMORY)
        )


NOTHING_PENDING = Fill()


class Unread(NamedTuple):
    """A chunk that was matched on a device, until the host reads whether its matches found room.

    Attributes:
        number: of the protocol.
        records: a part of its table.
        chunk: what was matched.
        overflow: [1] int32, not 0 if the chunk must be matched again on the host.
    """

    number: int
    records: MatchRecords
    chunk: Chunk
    overflow: Tensor


@dataclass(frozen=True, eq=False)
class AccumulatedRecords(Accumulated):
    """What a metric of match records has seen.

    Attributes:
        fill: of the pending batches.
        deferred: what devices have checked of the values in ``tables``.
        box_scales: what is known of the boxes of either side.
        unread: chunks whose tables of matches may have been too small.
    """

    fill: Fill = NOTHING_PENDING
    deferred: Deferred = NOTHING_DEFERRED
    box_scales: tuple[BoxScale, ...] = ()
    unread: tuple[Unread, ...] = ()
