"""Masks of many images at once: packed to bits, decoded from run lengths, compared in pairs.

The masks of each image are a tensor of their own. A kernel finds them by their addresses, which one
small table holds beside sizes, so that one launch does the work for all images.
"""

from collections.abc import Sequence

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray
from torch import Tensor

from ..transfer import to_device
from .support import current

WORD = 64
BLOCK = 32
"""Words that a program packs at once."""
WARPS = 8
"""Of a program that packs or decodes."""
MOST_IMAGES = 65_535
"""Programs along the second axis of a grid."""
PAIR_BLOCK = 512
"""Words of two masks that a program compares at once."""


@triton.jit
def _store_words(bits, word, valid, words, first, areas, mask):
    """Store rows of 64 bits [n, 64] as words and add what is set to the area of the mask."""
    columns = tl.arange(0, 64).to(tl.int64)
    values = tl.sum(bits.to(tl.int64) << columns[None, :], axis=1)
    tl.store(words + first + word, values, mask=valid)
    tl.atomic_add(areas + mask, tl.sum(bits.to(tl.int64)), sem="relaxed")


@triton.jit
def pack_kernel(table, like, words, areas, nans, probabilities: tl.constexpr, block: tl.constexpr):
    """Pack part ``program_id(1)`` of mask ``program_id(0)``; ``like`` tells the number type."""
    mask = tl.program_id(0)
    row_of = table + mask.to(tl.int64) * 5
    address, step = tl.load(row_of), tl.load(row_of + 1)
    height, width, first = tl.load(row_of + 2), tl.load(row_of + 3), tl.load(row_of + 4)
    per_row = (width + 63) // 64
    word = tl.program_id(1).to(tl.int64) * block + tl.arange(0, block)
    valid = word < height * per_row
    if tl.program_id(1).to(tl.int64) * block < height * per_row:
        x = (word % per_row)[:, None] * 64 + tl.arange(0, 64)[None, :]
        pixel = address.to(like.dtype, bitcast=True) + (word // per_row)[:, None] * step + x
        inside = valid[:, None] & (x < width)
        value = tl.load(pixel, mask=inside, other=0)
        if probabilities:
            if like.dtype.element_ty.primitive_bitwidth < 32:
                value = value.to(tl.float32)
            missing = tl.max((value != value).to(tl.int32))
            if missing > 0:
                tl.store(nans + mask, 1)
            bits = inside & (value > 0.5)
        else:
            bits = inside & (value != 0)
        _store_words(bits, word, valid, words, first, areas, mask)


@triton.jit(do_not_specialize=["steps"])
def decode_kernel(ends, table, words, areas, steps, block: tl.constexpr):
    """Decode part ``program_id(1)`` of mask ``program_id(0)`` from where its runs end.

    Runs go down the columns. A pixel is in the mask if an odd number of runs ends before it.
    """
    mask = tl.program_id(0)
    row_of = table + mask.to(tl.int64) * 5
    start, runs = tl.load(row_of), tl.load(row_of + 1)
    height, width, first = tl.load(row_of + 2), tl.load(row_of + 3), tl.load(row_of + 4)
    per_row = (width + 63) // 64
    word = tl.program_id(1).to(tl.int64) * block + tl.arange(0, block)
    valid = word < height * per_row
    if tl.program_id(1).to(tl.int64) * block < height * per_row:
        x = (word % per_row)[:, None] * 64 + tl.arange(0, 64)[None, :]
        index = x * height + (word // per_row)[:, None]
        low = index * 0
        high = low + runs
        for _ in range(steps):
            middle = (low + high) // 2
            open_ = low < high
            end = tl.load(ends + start + middle, mask=open_, other=0)
            before = open_ & (end <= index)
            high = tl.where(open_ & (end > index), middle, high)
            low = tl.where(before, middle + 1, low)
        bits = valid[:, None] & (x < width) & (low % 2 == 1)
        _store_words(bits, word, valid, words, first, areas, mask)


@triton.jit
def _bits_set(words):
    """How many bits of each word are set; the compiler knows this form as one instruction."""
    value = words.to(tl.uint64, bitcast=True)
    value = value - ((value >> 1) & 0x5555555555555555)
    value = (value & 0x3333333333333333) + ((value >> 2) & 0x3333333333333333)
    value = (value + (value >> 4)) & 0x0F0F0F0F0F0F0F0F
    value = value + (value >> 8)
    value = value + (value >> 16)
    return ((value + (value >> 32)) & 0x7F).to(tl.int64)


@triton.jit
def overlap_kernel(
    table,
    labels,
    object_labels,
    over_area,
    areas,
    object_areas,
    words,
    overlaps,
    block: tl.constexpr,
):
    """Overlap of pair ``program_id(0)`` of image ``program_id(1)``; see :func:`overlaps`."""
    image = table + tl.program_id(1).to(tl.int64) * 8
    first, count = tl.load(image), tl.load(image + 1)
    first_object, objects = tl.load(image + 2), tl.load(image + 3)
    pair = tl.program_id(0).to(tl.int64)
    if pair < count * objects:
        row, index = first + pair // objects, first_object + pair % objects
        overlap = tl.load(areas).to(tl.float64) * 0
        if tl.load(labels + row) == tl.load(object_labels + index):
            size = tl.load(image + 6)
            mine = tl.load(image + 4).to(words.dtype, bitcast=True) + (row - first) * size
            other = tl.load(image + 5).to(words.dtype, bitcast=True) + (index - first_object) * size
            common = tl.zeros([block], dtype=tl.int64)
            for start in range(0, size, block):
                word = start + tl.arange(0, block)
                one = tl.load(mine + word, mask=word < size, other=0)
                common += _bits_set(one & tl.load(other + word, mask=word < size, other=0))
            shared = tl.sum(common, axis=0).to(tl.float64)
            area = tl.load(areas + row).to(tl.float64)
            union = area + tl.load(object_areas + index).to(tl.float64) - shared
            over = tl.where(tl.load(over_area + index) != 0, area, union)
            overlap = tl.where(shared > 0, shared / over, overlap)
        tl.store(overlaps + tl.load(image + 7) + pair, overlap)


def pack(stacks: Sequence[Tensor], probabilities: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Pack masks on CUDA, see :func:`ops.mask_stacks.pack`; waits for nothing."""
    addresses = np.concatenate([_addresses(stack) for stack in stacks])
    words, stats, table, parts = _prepared(addresses, stacks[0].device)
    if words.numel():
        with current(words):
            pack_kernel[(table.shape[0], parts)](
                table,
                stacks[0],
                words,
                stats[0],
                stats[1],
                probabilities=probabilities,
                block=BLOCK,
                num_warps=WARPS,
            )
    return words, stats[0], stats[1]


def decode(ends: Tensor, runs: Sequence[int], sizes: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Decode run lengths on CUDA, see :func:`ops.mask_stacks.decode`; waits for nothing."""
    counts = np.array(runs, dtype=np.int64)
    table = np.zeros((counts.size, 5), dtype=np.int64)
    table[:, 0], table[:, 1] = np.cumsum(counts) - counts, counts
    table[:, 2:4] = np.array(sizes, dtype=np.int64).reshape(-1, 2)
    words, stats, rows, parts = _prepared(table, ends.device)
    if words.numel():
        with current(words):
            steps = int(counts.max()).bit_length()
            decode_kernel[(len(counts), parts)](
                ends, rows, words, stats[0], steps, block=BLOCK, num_warps=WARPS
            )
    return words, stats[0]


def overlaps(
    first: Sequence[Tensor],
    second: Sequence[Tensor],
    labels: Tensor,
    object_labels: Tensor,
    over_area: Tensor,
    areas: Tensor,
    object_areas: Tensor,
) -> Tensor:
    """Compare masks on CUDA, see :func:`ops.mask_stacks.overlaps`; waits for nothing."""
    counts = np.array([[len(one), len(other)] for one, other in zip(first, second, strict=True)])
    counts = counts.reshape(-1, 2).astype(np.int64)
    pairs = counts.prod(axis=1)
    starts = np.cumsum(counts, axis=0) - counts
    table = np.zeros((len(counts), 8), dtype=np.int64)
    table[:, [0, 2]], table[:, [1, 3]] = starts, counts
    table[:, 4:6] = [
        [one.data_ptr(), other.data_ptr()] for one, other in zip(first, second, strict=True)
    ]
    table[:, 6] = [one[:1].numel() for one in first]
    table[:, 7] = np.cumsum(pairs) - pairs
    found = torch.empty(int(pairs.sum()), dtype=torch.float64, device=labels.device)
    if found.numel():
        (rows,) = to_device([torch.from_numpy(table)], labels.device)
        with current(labels):
            for part in torch.split(rows, MOST_IMAGES):
                overlap_kernel[(int(pairs.max()), len(part))](
                    part, labels, object_labels, over_area, areas, object_areas, rows, found,
                    block=PAIR_BLOCK, enable_fp_fusion=False,
                )  # fmt: skip
    return found


def _addresses(stack: Tensor) -> NDArray[np.int64]:
    """[n, 5]: address, step from row to row, height and width of each mask, and room."""
    count, height, width = stack.shape
    table = np.zeros((count, 5), dtype=np.int64)
    table[:, 0] = stack.data_ptr() + np.arange(count) * stack.stride(0) * stack.element_size()
    table[:, 1:4] = stack.stride(1), height, width
    return table


def _prepared(table: NDArray[np.int64], device: torch.device) -> tuple[Tensor, Tensor, Tensor, int]:
    """Room for the words, two numbers a mask, the table with the first word of each; programs."""
    sizes = table[:, 2] * -(-table[:, 3] // WORD)
    table[:, 4] = np.cumsum(sizes) - sizes
    words = torch.empty(int(sizes.sum()), dtype=torch.int64, device=device)
    stats = torch.zeros((2, len(table)), dtype=torch.int64, device=device)
    (rows,) = to_device([torch.from_numpy(table)], device)
    return words, stats, rows, -(-int(sizes.max(initial=0)) // BLOCK)
