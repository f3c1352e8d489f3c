"""Stable orders: groups rising, scores falling, ties as they came."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from .selection import rows_where
from .sums import sums_before


def descending_key(scores: Tensor) -> Tensor:
    """[N] integers that rise as ``scores`` [N] fall; 0 and -0 are equal, NaN is not allowed."""
    scores = scores + 0.0  # -0 becomes 0
    bits = scores.view(torch.int32 if scores.dtype == torch.float32 else torch.int64)
    # Two's complement order of IEEE bits: negative numbers have their other bits turned around.
    limits = torch.iinfo(bits.dtype)
    others = (bits >> (limits.bits - 1)).bitwise_and_(limits.max)
    return bits.bitwise_xor_(others).bitwise_not_()


def rank_order(
    group: Tensor, scores: Tensor, ties: Sequence[Tensor | None], num_groups: int
) -> Tensor:
    """[N] permutation: by ``group`` rising, score falling, then each of ``ties``, then the row.

    Groups, of any integer type, lie in [0, num_groups), which says on the host whether group and
    score fit one key.
    """
    key, given = descending_key(scores), [tie for tie in ties if tie is not None]
    if key.device.type == "cpu":
        return _with_ties(_by_group_and_key(group, key, num_groups), group, key, given)
    first = torch.arange(key.shape[0], device=key.device)
    for tie in reversed(given):
        first = first.index_select(0, torch.argsort(tie.index_select(0, first), stable=True))
    group, key = group.index_select(0, first), key.index_select(0, first)
    return first.index_select(0, _by_group_and_key(group, key, num_groups))


def _with_ties(ranked: Tensor, group: Tensor, key: Tensor, ties: Sequence[Tensor]) -> Tensor:
    """``ranked`` by group and key on the host, equal ones put in the order of ``ties``.

    Mostly they have it, as rows come in the order of what breaks their ties.
    """
    if not ties or not ranked.numel():
        return ranked
    group, key = group.index_select(0, ranked), key.index_select(0, ranked)
    equal = (group[1:] == group[:-1]) & (key[1:] == key[:-1])
    tied = rows_where(equal)
    before, behind = ranked.index_select(0, tied), ranked.index_select(0, tied + 1)
    for tie in ties:
        values, following = tie.index_select(0, before), tie.index_select(0, behind)
        if (following < values).any():
            return _by_ties(ranked, ~equal, ties)
        still = rows_where(following == values)
        before, behind = before.index_select(0, still), behind.index_select(0, still)
    return ranked


def _by_ties(ranked: Tensor, differs: Tensor, ties: Sequence[Tensor]) -> Tensor:
    """``ranked``, its runs (where ``differs`` [N - 1] is not set) put in the order of ``ties``."""
    for tie in ties:
        run = sums_before(differs)
        values = tie.index_select(0, ranked)
        order = _by_group_and_key(run, values, run.shape[0])
        ranked, values = ranked.index_select(0, order), values.index_select(0, order)
        differs = differs | (values[1:] != values[:-1])
    return ranked


def _by_group_and_key(group: Tensor, key: Tensor, num_groups: int) -> Tensor:
    """[N] permutation: by group, then key, then the row."""
    if key.device.type == "cpu" and key.numel():
        ranked = _by_packed_keys(group, key, num_groups)
        if ranked is not None:
            return ranked
    if key.dtype == torch.int32 and num_groups <= 2**31:
        return torch.argsort((group.long() << 32) + key, stable=True)
    by_key = torch.argsort(key, stable=True)
    then_group = stable_order(group.long().index_select(0, by_key))
    return by_key.index_select(0, then_group)


def _by_packed_keys(group: Tensor, key: Tensor, num_groups: int) -> Tensor | None:
    """:func:`_by_group_and_key` in one sort on the host; None where that does not fit 63 bits.

    Of wide keys the lowest bits are left out, which rarely matters and is looked for.
    """
    lowest, highest = (int(end) for end in torch.aminmax(key))
    key_bits = (highest - lowest).bit_length()
    bits = (num_groups - 1).bit_length() + key_bits + key.shape[0].bit_length()
    kept = key_bits - max(0, bits - 63)
    if key_bits > 63 or kept < min(key_bits, 1):
        return None
    packed = key.to(torch.int64, copy=True).sub_(lowest).bitwise_right_shift_(key_bits - kept)
    ranked = _order_in_place(packed.add_(group, alpha=2**kept))
    if kept < key_bits:
        group, key = group.index_select(0, ranked), key.index_select(0, ranked)
        if ((group[1:] == group[:-1]) & (key[1:] < key[:-1])).any():
            return None
    return ranked


def stable_order(keys: Tensor) -> Tensor:
    """[N] permutation: by ``keys`` [N] int64, which are not negative, then the row."""
    on_host = keys.device.type == "cpu" and keys.numel() > 0
    if on_host and int(keys.max()).bit_length() + keys.shape[0].bit_length() <= 63:
        return _order_in_place(keys.clone())
    return torch.argsort(keys, stable=True)


def _order_in_place(keys: Tensor) -> Tensor:
    """:func:`stable_order` on the host, of keys that leave room for a row number; they are lost."""
    row_bits = keys.shape[0].bit_length()
    # Distinct keys that hold their row: NumPy sorts values faster than torch finds indices.
    keys.bitwise_left_shift_(row_bits)
    numbers = keys.numpy()
    numbers += np.arange(keys.shape[0], dtype=np.int32)  # no copy in int64, as torch makes one
    numbers.sort()
    return keys.bitwise_and_(2**row_bits - 1)


def rank_in_group(group: Tensor) -> Tensor:
    """[N] int64: index of each row among those of its ``group`` [N], which stand together."""
    rank = torch.arange(group.shape[0], device=group.device)
    later = rank[1:]
    starts = later * (group[1:] != group[:-1])
    later -= torch.cummax(starts, dim=0).values
    return rank
