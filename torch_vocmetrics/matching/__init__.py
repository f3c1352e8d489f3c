"""From packed rows to match records: lanes, candidate pairs, overlaps, the greedy matcher."""

from __future__ import annotations

from .chunk import Chunk, MatchedChunk, match_chunk
from .overlaps import register_overlap

__all__ = ["Chunk", "MatchedChunk", "match_chunk", "register_overlap"]
