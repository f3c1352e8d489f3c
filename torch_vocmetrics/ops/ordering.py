"""Stable orders: groups rising, scores falling, ties as they came."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def descending_key(scores: Tensor) -> Tensor:
    """[N] integers that rise as ``scores`` [N] fall; 0 and -0 are equal, NaN is not allowed."""
    scores = scores + 0.0  # -0 becomes 0
    bits = scores.view(torch.int32 if scores.dtype == torch.float32 else torch.int64)
    # Two's complement order of IEEE bits: negative numbers have their other bits turned around.
    return ~torch.where(bits < 0, bits ^ torch.iinfo(bits.dtype).max, bits)


def rank_order(
    group: Tensor, scores: Tensor, ties: Sequence[Tensor | None], num_groups: int
) -> Tensor:
    """[N] permutation: by ``group`` rising, score falling, then each of ``ties``, then the row.

    Groups lie in [0, num_groups), which says on the host whether group and score fit one key.
    """
    first: Tensor | None = None
    for tie in reversed([tie for tie in ties if tie is not None]):
        if first is None:
            first = torch.argsort(tie, stable=True)
        else:
            first = first.index_select(0, torch.argsort(tie.index_select(0, first), stable=True))
    if first is not None:
        group, scores = group.index_select(0, first), scores.index_select(0, first)
        return first.index_select(0, rank_order(group, scores, (), num_groups))
    key = descending_key(scores)
    if key.device.type == "cpu" and key.dtype == torch.int32 and key.numel():
        lowest, highest = (int(end) for end in torch.aminmax(key))
        key_bits = (highest - lowest).bit_length()
        if num_groups.bit_length() + key_bits + key.shape[0].bit_length() <= 63:
            keys = (group << key_bits) + (key.long() - lowest)
            return stable_order(keys, num_groups << key_bits)
    if key.dtype == torch.int32 and num_groups <= 2**31:
        return torch.argsort((group << 32) + key, stable=True)
    by_score = torch.argsort(key, stable=True)
    return by_score.index_select(0, stable_order(group.index_select(0, by_score), num_groups))


def stable_order(keys: Tensor, end: int) -> Tensor:
    """[N] permutation: by ``keys`` [N] int64 in [0, end), then the row."""
    row_bits = keys.shape[0].bit_length()
    if keys.device.type == "cpu" and end.bit_length() + row_bits <= 63:
        # Distinct keys that hold their row: NumPy sorts values faster than torch finds places.
        ranked = (keys << row_bits).add_(torch.arange(keys.shape[0], device=keys.device))
        ranked.numpy().sort()
        return ranked.bitwise_and_(2**row_bits - 1)
    return torch.argsort(keys, stable=True)


def rank_in_group(group: Tensor) -> Tensor:
    """[N] int64: place of each row among the rows of its group; ``group`` [N] rises."""
    rank = torch.arange(group.shape[0], device=group.device)
    later = rank[1:]
    starts = later * (group[1:] != group[:-1])
    later -= torch.cummax(starts, dim=0).values
    return rank
