"""Binary masks as bits: packed where they are, counted in pairs within a bounded workspace.

A row of W pixels becomes ceil(W / 64) words, pixel x being bit x % 64 of word x // 64, so that a
rectangle of pixels is a rectangle of words. On the CPU NumPy packs and counts bits, elsewhere plain
tensor operations do; the counts are integers and therefore the same.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .bit_counts import bit_counts

WORD = 64
WORKSPACE_BYTES = 2**23
"""The largest temporary of a step that compares masks: 8 MiB whatever their number and size."""
TILE_BYTES = 2**21
"""The same where masks are packed: 2 MiB, unless a single mask has more pixels."""


def pack_masks(masks: Tensor) -> Tensor:
    """Bits of ``masks`` [N, H, W], bool or integers of which all but 0 belong to the mask.

    Returns:
        [N, H, ceil(W / 64)] int64 on the same device; nothing is waited for.
    """
    count, height, width = masks.shape
    words = _no_bits(count, height, width, masks.device)
    if not words.numel():
        return words
    for start, part in _pieces(masks, height * width):
        packed = _pack_on_host(part) if masks.device.type == "cpu" else _pack_on_device(part)
        words[start : start + part.shape[0]] = packed
    return words


def above_half(probabilities: Tensor) -> Tensor:
    """Packed bits of ``probabilities`` [N, H, W] floating point: pixels above 0.5."""
    count, height, width = probabilities.shape
    words = _no_bits(count, height, width, probabilities.device)
    pieces = _pieces(probabilities, height * width)
    above = torch.empty_like(probabilities[: len(pieces[0][1]) if pieces else 0], dtype=torch.bool)
    for start, part in pieces:
        bits = torch.gt(part, 0.5, out=above[: part.shape[0]])
        words[start : start + part.shape[0]] = pack_masks(bits)
    return words


def _no_bits(count: int, height: int, width: int, device: torch.device) -> Tensor:
    """[N, H, ceil(W / 64)] int64 zeros."""
    shape = (count, height, -(-width // WORD))
    return torch.zeros(shape, dtype=torch.int64, device=device)


def mask_areas(words: Tensor) -> Tensor:
    """[N] int64: pixels of each of the packed masks [N, H, words]."""
    areas = torch.zeros(words.shape[0], dtype=torch.int64, device=words.device)
    for start, part in _pieces(words, 8 * words[:1].numel()):
        areas[start : start + part.shape[0]] = _count_bits(part.flatten(1))
    return areas


def extents(words: Tensor) -> Tensor:
    """[N, 4] int64: first and last row and word column of each packed mask, ends excluded.

    A mask without pixels has rows and columns 0 .. 0.
    """
    rows, columns = (words != 0).any(2), (words != 0).any(1)
    return torch.cat([_span(rows), _span(columns)], dim=1)


def common_pixels(first: Tensor, second: Tensor, i: Tensor, j: Tensor) -> Tensor:
    """[P] int64: pixels that masks ``first[i]`` and ``second[j]`` have in common.

    Args:
        first, second: [N, H, words] and [M, H, words], packed.
        i, j: [P] int64 rows of each.
    """
    if not i.numel() or not first[:1].numel():
        return torch.zeros(i.shape[0], dtype=torch.int64, device=i.device)
    if first.device.type == "cpu":
        return torch.from_numpy(_common_on_host(first, second, i.numpy(), j.numpy()))
    return _common_on_device(first, second, i, j)


def _common_on_device(first: Tensor, second: Tensor, i: Tensor, j: Tensor) -> Tensor:
    """Whole masks, as many pairs at a time as the workspace has room for."""
    common = torch.zeros(i.shape[0], dtype=torch.int64, device=i.device)
    step = max(WORKSPACE_BYTES // (8 * first[:1].numel()), 1)
    for start in range(0, i.shape[0], step):
        part = slice(start, start + step)
        both = first.index_select(0, i[part]).bitwise_and_(second.index_select(0, j[part]))
        common[part] = _count_bits(both.flatten(1))
    return common


def _common_on_host(
    first: Tensor, second: Tensor, i: NDArray[np.int64], j: NDArray[np.int64]
) -> NDArray[np.int64]:
    """One object at a time, inside the rows and words that hold its pixels."""
    bits, others = (side.numpy().view(np.uint64) for side in (first, second))
    common = np.zeros(i.size, dtype=np.int64)
    wanted = np.unique(j)
    for number, (top, bottom, left, right) in zip(
        wanted.tolist(), extents(second[torch.from_numpy(wanted)]).tolist(), strict=True
    ):
        if top == bottom:
            continue
        crop = others[number, top:bottom, left:right]
        step = max(WORKSPACE_BYTES // (8 * crop.size), 1)
        indices = np.flatnonzero(j == number)
        for start in range(0, indices.size, step):
            part = indices[start : start + step]
            both = bits[i[part], top:bottom, left:right] & crop
            common[part] = bit_counts(both).reshape(part.size, -1).sum(1, dtype=np.int64)
    return common


def _pieces(masks: Tensor, bytes_each: int) -> list[tuple[int, Tensor]]:
    """Slices of so many masks that a temporary of ``bytes_each`` per mask is bounded."""
    step = max(TILE_BYTES // max(bytes_each, 1), 1)
    return [(start, masks[start : start + step]) for start in range(0, masks.shape[0], step)]


def _pack_on_host(masks: Tensor) -> Tensor:
    count, height, width = masks.shape
    array = np.ascontiguousarray(masks.numpy())
    words = -(-width // WORD)
    if width % WORD == 0:  # rows follow each other without a gap: one run
        packed = np.packbits(array.reshape(-1), bitorder="little")
    else:
        packed = np.zeros((count, height, 8 * words), dtype=np.uint8)
        packed[:, :, : -(-width // 8)] = np.packbits(array, axis=-1, bitorder="little")
    return torch.from_numpy(packed.reshape(-1).view(np.int64)).reshape(count, height, words)


def _pack_on_device(masks: Tensor) -> Tensor:
    """Eight bytes of 0 or 1 become one by a multiplication that moves byte i to bit 56 + i."""
    count, height, width = masks.shape
    bits = masks if masks.dtype == torch.bool else masks != 0
    missing = -width % WORD
    if missing:
        bits = torch.nn.functional.pad(bits, (0, missing))
    eights = bits.contiguous().view(torch.uint8).view(torch.int64)
    packed = ((eights * 0x0102040810204080) >> 56).to(torch.uint8)
    return packed.view(torch.int64).reshape(count, height, -1)


def _count_bits(words: Tensor) -> Tensor:
    """[N]: bits set in each row of ``words`` [N, W] int64."""
    if words.device.type == "cpu":
        # As unsigned: NumPy counts the bits of the absolute value.
        counts = bit_counts(np.ascontiguousarray(words.numpy()).view(np.uint64))
        return torch.from_numpy(counts.sum(1, dtype=np.int64))
    return _count_bits_on_device(words)


def _count_bits_on_device(words: Tensor) -> Tensor:
    """[N]: bits set in each row of ``words`` [N, W] int64."""
    # Sums of neighbouring 1, 2 and 4 bits; the shift is arithmetic, so the mask clears the sign.
    pairs = words - ((words >> 1) & 0x5555555555555555)
    fours = (pairs & 0x3333333333333333) + ((pairs >> 2) & 0x3333333333333333)
    eights = (fours + (fours >> 4)) & 0x0F0F0F0F0F0F0F0F
    return ((eights * 0x0101010101010101) >> 56).sum(1)


def _span(hit: Tensor) -> Tensor:
    """[N, 2]: first and one past the last column of ``hit`` [N, L] that is set; 0, 0 if none."""
    if not hit.shape[1]:
        return torch.zeros((hit.shape[0], 2), dtype=torch.int64, device=hit.device)
    flags = hit.to(torch.uint8)
    first = flags.argmax(1)
    last = hit.shape[1] - flags.flip(1).argmax(1)
    return torch.stack([first, last], dim=1) * hit.any(1, keepdim=True)
