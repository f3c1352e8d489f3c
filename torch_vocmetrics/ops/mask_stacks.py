"""Masks of many images as operators: one launch on a device, whatever the number of images.

On the host, and where Triton does not work, they go through the images one by one.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..kernels.operators import operator
from ..kernels.support import triton_works
from .boxes import intersection_over_area, intersection_over_union
from .masks import WORD, above_half, common_pixels, mask_areas, pack_masks

Sizes = Sequence[tuple[int, int]]


def pack(stacks: Sequence[Tensor], *, probabilities: bool) -> tuple[list[Tensor], Tensor, Tensor]:
    """Pack the masks of some images, of one number type on one device; waits for nothing.

    Args:
        stacks: [n, H, W] of each image: bool or integers, of which all but 0 belong to the mask, or
            probabilities, of which those above 0.5 do.
        probabilities: which of both.

    Returns:
        Words [n, H, ceil(W / 64)] int64 of each image; of all masks together, [N], the area as
        int64, and whether there is a NaN, as int64 above 0.
    """
    even = [stack if stack.stride(2) == 1 else stack.contiguous() for stack in stacks]
    words, areas, nans = _pack(even, probabilities)
    return _by_image(words, [tuple(stack.shape) for stack in stacks]), areas, nans


def decode(
    ends: Tensor, runs: Sequence[int], counts: Sequence[int], sizes: Sizes
) -> tuple[list[Tensor], Tensor]:
    """Decode run lengths of COCO's order, down the columns; waits for nothing.

    Args:
        ends: [R] int64, where each run ends, in pixels of its mask; a mask begins outside.
        runs: of each mask.
        counts: masks of each image.
        sizes: height and width of each image.

    Returns:
        Words of each image and areas [N], as :func:`pack`.
    """
    of_masks = [side for size, count in zip(sizes, counts, strict=True) for side in size * count]
    words, areas = _decode(ends, list(runs), of_masks)
    return _by_image(words, [(n, *size) for n, size in zip(counts, sizes, strict=True)]), areas


def overlaps(
    masks: tuple[Sequence[Tensor], Sequence[Tensor]],
    labels: tuple[Tensor, Tensor],
    over_area: Tensor,
    areas: tuple[Tensor, Tensor],
) -> Tensor:
    """Overlap of every detection with every object of its image; waits for nothing.

    Args:
        masks: words of the detections [n, H, words] and of the objects [m, H, words] of each image.
        labels: [N] and [M] int64: those of different labels are not compared, their overlap is 0.
        over_area: [M] bool, objects whose overlap is over the detection's area.
        areas: [N] and [M] float64.

    Returns:
        [sum of n * m] float64, by image, detection, object.
    """
    found: Tensor = _overlaps(list(masks[0]), list(masks[1]), *labels, over_area, *areas)
    return found


def _by_image(words: Tensor, shapes: Sequence[tuple[int, ...]]) -> list[Tensor]:
    """Words of all masks, apart by image."""
    wide = [(count, height, -(-width // WORD)) for count, height, width in shapes]
    parts = torch.split(words, [count * height * width for count, height, width in wide])
    return [part.reshape(shape) for part, shape in zip(parts, wide, strict=True)]


# One by one ---------------------------------------------------------------------------------------


def _packed_one_by_one(
    stacks: Sequence[Tensor], probabilities: bool
) -> tuple[Tensor, Tensor, Tensor]:
    packed = [above_half(one) if probabilities else pack_masks(one) for one in stacks]
    nans = [
        one.isnan().flatten(1).any(1).long() if probabilities else one.new_zeros(len(one)).long()
        for one in stacks
    ]
    areas = torch.cat([mask_areas(words) for words in packed])
    return torch.cat([words.reshape(-1) for words in packed]), areas, torch.cat(nans)


def _decoded_one_by_one(
    ends: Tensor, runs: Sequence[int], sizes: Sequence[int]
) -> tuple[Tensor, Tensor]:
    words = []
    sides = zip(sizes[::2], sizes[1::2], strict=True)
    for part, (height, width) in zip(torch.split(ends, list(runs)), sides, strict=True):
        pixels = torch.arange(height * width, device=ends.device)
        run = torch.searchsorted(part, pixels, right=True)
        words.append(pack_masks((run % 2 == 1).reshape(1, width, height).transpose(1, 2)))
    none = torch.zeros(0, dtype=torch.int64, device=ends.device)
    areas = torch.cat([none, *(mask_areas(one) for one in words)])
    return torch.cat([none, *(one.reshape(-1) for one in words)]), areas


def _overlaps_one_by_one(
    first: Sequence[Tensor],
    second: Sequence[Tensor],
    labels: Tensor,
    object_labels: Tensor,
    over_area: Tensor,
    areas: Tensor,
    object_areas: Tensor,
) -> Tensor:
    found = [torch.zeros(0, dtype=torch.float64, device=labels.device)]
    start = other_start = 0
    for mine, others in zip(first, second, strict=True):
        i = torch.arange(len(mine), device=labels.device)
        j = torch.arange(len(others), device=labels.device)
        i, j = i.repeat_interleave(len(others)), j.repeat(len(mine))
        row, index = i + start, j + other_start
        common = common_pixels(mine, others, i, j).to(torch.float64)
        area, other = areas.index_select(0, row), object_areas.index_select(0, index)
        overlap = torch.where(
            over_area.index_select(0, index),
            intersection_over_area(common, area),
            intersection_over_union(common, area, other),
        )
        same = labels.index_select(0, row) == object_labels.index_select(0, index)
        found.append(torch.where(same, overlap, 0.0))
        start, other_start = start + len(mine), other_start + len(others)
    return torch.cat(found)


# By a kernel --------------------------------------------------------------------------------------


def _packed_at_once(stacks: Sequence[Tensor], probabilities: bool) -> tuple[Tensor, Tensor, Tensor]:
    if not triton_works(stacks[0].device):
        return _packed_one_by_one(stacks, probabilities)
    from ..kernels import masks  # noqa: PLC0415

    return masks.pack(stacks, probabilities)


def _decoded_at_once(
    ends: Tensor, runs: Sequence[int], sizes: Sequence[int]
) -> tuple[Tensor, Tensor]:
    if not triton_works(ends.device):
        return _decoded_one_by_one(ends, runs, sizes)
    from ..kernels import masks  # noqa: PLC0415

    return masks.decode(ends, runs, sizes)


def _overlaps_at_once(
    first: Sequence[Tensor], second: Sequence[Tensor], labels: Tensor, *columns: Tensor
) -> Tensor:
    if not triton_works(labels.device):
        return _overlaps_one_by_one(first, second, labels, *columns)
    from ..kernels import masks  # noqa: PLC0415

    return masks.overlaps(first, second, labels, *columns)


# Without values -----------------------------------------------------------------------------------


def _packed_shapes(stacks: Sequence[Tensor], _: bool) -> tuple[Tensor, Tensor, Tensor]:
    words = sum(n * height * -(-width // WORD) for n, height, width in (s.shape for s in stacks))
    masks = sum(len(stack) for stack in stacks)
    return tuple(stacks[0].new_empty(n, dtype=torch.int64) for n in (words, masks, masks))  # type: ignore[return-value]


def _decoded_shapes(
    ends: Tensor, runs: Sequence[int], sizes: Sequence[int]
) -> tuple[Tensor, Tensor]:
    sides = zip(sizes[::2], sizes[1::2], strict=True)
    words = sum(height * -(-width // WORD) for height, width in sides)
    return ends.new_empty(words), ends.new_empty(len(runs))


def _overlaps_shapes(
    first: Sequence[Tensor], second: Sequence[Tensor], labels: Tensor, *_: Tensor
) -> Tensor:
    pairs = sum(len(one) * len(other) for one, other in zip(first, second, strict=True))
    return labels.new_empty(pairs, dtype=torch.float64)


_pack = operator(
    "pack_masks(Tensor[] stacks, bool probabilities) -> (Tensor, Tensor, Tensor)",
    cpu=_packed_one_by_one,
    cuda=_packed_at_once,
    fake=_packed_shapes,
)
_decode = operator(
    "decode_runs(Tensor ends, int[] runs, int[] sizes) -> (Tensor, Tensor)",
    cpu=_decoded_one_by_one,
    cuda=_decoded_at_once,
    fake=_decoded_shapes,
)
_overlaps = operator(
    "mask_overlaps(Tensor[] first, Tensor[] second, Tensor labels, Tensor object_labels, "
    "Tensor over_area, Tensor areas, Tensor object_areas) -> Tensor",
    cpu=_overlaps_one_by_one,
    cuda=_overlaps_at_once,
    fake=_overlaps_shapes,
)
