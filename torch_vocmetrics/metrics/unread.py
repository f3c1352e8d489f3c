"""Chunks that a device has matched: what the host does when it may read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..matching import match_chunk
from ..tables.compaction import compacted
from .record_state import AccumulatedRecords, Unread

HOST = torch.device("cpu")


def read_tables(state: AccumulatedRecords, protocols: Sequence[Any]) -> Sequence[tuple[Any, ...]]:
    """The tables with all chunks compact, after one wait.

    A chunk whose table of matches was too small is matched again on the host.
    """
    if not state.unread:
        return state.tables
    found, overflows = compacted(
        [one.records for one in state.unread],
        [_limit(one, protocols[one.number]) for one in state.unread],
        [one.overflow for one in state.unread],
    )
    compact = {}
    for one, records, overflow in zip(state.unread, found, overflows, strict=True):
        again = records
        if int(overflow):
            on_host = match_chunk(protocols[one.number], one.chunk.to(HOST))
            again = on_host.records.to(one.chunk.device)
        compact[one.number, id(one.records)] = again
    tables = []
    for number, parts in enumerate(state.tables):
        tables.append(tuple(compact.get((number, id(part)), part) for part in parts))
    return tuple(tables)


def _limit(one: Unread, protocol: Any) -> int | None:
    """Detections of an image and class that stay; None where no image has more."""
    limits = protocol.max_detections
    fullest = max(one.chunk.detections.counts, default=0)
    return limits[-1] if limits and fullest > limits[-1] else None
