"""Stable orders: groups rising, scores falling, ties as they came."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
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
            first = stable_order(tie)
        else:
            first = first.index_select(0, stable_order(tie.index_select(0, first)))
    if first is not None:
        group, scores = group.index_select(0, first), scores.index_select(0, first)
        return first.index_select(0, rank_order(group, scores, (), num_groups))
    key = descending_key(scores)
    if key.device.type == "cpu" and key.numel():
        ranked = _by_packed_keys(group, key, num_groups)
        if ranked is not None:
            return ranked
    if key.dtype == torch.int32 and num_groups <= 2**31:
        return torch.argsort((group << 32) + key, stable=True)
    by_score = torch.argsort(key, stable=True)
    return by_score.index_select(0, torch.argsort(group.index_select(0, by_score), stable=True))


def stable_order(values: Tensor) -> Tensor:
    """[N] permutation that sorts integers [N], equal ones by their row."""
    if values.device.type == "cpu" and values.numel():
        ranked = _by_packed_keys(torch.zeros_like(values), values, 1)
        if ranked is not None:
            return ranked
    return torch.argsort(values, stable=True)


def _by_packed_keys(group: Tensor, key: Tensor, num_groups: int) -> Tensor | None:
    """[N] permutation by group, key, then row; None where that does not fit 63 bits.

    Group, key and row are packed into one number: NumPy sorts numbers several times as fast as
    torch finds the places of sorted ones. Of wide keys the lowest bits are left out, which rarely
    matters and is looked for.
    """
    lowest, highest = (int(end) for end in torch.aminmax(key))
    rows = torch.arange(key.shape[0], device=key.device)
    row_bits, key_bits = key.shape[0].bit_length(), (highest - lowest).bit_length()
    left_out = max(0, (num_groups - 1).bit_length() + key_bits + row_bits - 63)
    if left_out >= key_bits > 0 or key_bits > 63:
        return None
    packed = (key.long() - lowest) >> left_out
    packed += group << (key_bits - left_out)
    packed = (packed << row_bits) + rows
    ranked = torch.from_numpy(np.sort(packed.numpy())).bitwise_and_(2**row_bits - 1)
    if left_out:
        group, key = group.index_select(0, ranked), key.index_select(0, ranked)
        if ((group[1:] == group[:-1]) & (key[1:] < key[:-1])).any():
            return None
    return ranked


def rank_in_group(group: Tensor) -> Tensor:
    """[N] int64: place of each row among the rows of its group; ``group`` [N] rises."""
    rows = torch.arange(group.shape[0], device=group.device)
    starts = torch.ones_like(group, dtype=torch.bool)
    starts[1:] = group[1:] != group[:-1]
    return rows - torch.cummax(torch.where(starts, rows, 0), dim=0).values
