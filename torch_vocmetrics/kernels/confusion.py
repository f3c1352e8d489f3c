"""Counts of label pairs in one read of maps or logits: arg-max, look-up and histogram fused.

A program reads a part of an image, counts into a histogram of its own, and adds what it has counted
to the image's counts: one atomic addition a cell and program, where ``scatter_add_`` makes one a
pixel, nearly all of them to the same few cells. Histograms of many classes do not fit the shared
memory of a program: then each pixel is one atomic addition to one of several copies of the counts.

The channel of a logit is found as ``torch.argmax`` finds it: the first of the largest. NaN, which
is larger than all, is counted by itself.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from .support import current

BLOCK = 1024
LARGEST_HISTOGRAM = 2**15
"""Cells of a histogram in shared memory: 128 KiB, for up to 180 classes."""
COPIES = 16
"""Of the counts of each image, where there are more classes."""


@triton.jit
def _index(labels, table, lowest, last):
    """Entry of a table of labels, of which the first and the last are for all labels beyond."""
    index = labels.to(tl.int64) - lowest
    index = tl.minimum(tl.maximum(index, 0), last)
    return tl.load(table + index).to(tl.int32)


@triton.jit
def _largest_channel(logits, start, step, num_channels, valid):
    """Channel of the largest logit of each pixel, the first of equal ones; and which have a NaN."""
    # Half types are compared as float32, which holds them exactly.
    narrow: tl.constexpr = logits.dtype.element_ty.primitive_bitwidth < 32
    largest = tl.load(logits + start, mask=valid, other=0.0)
    if narrow:
        largest = largest.to(tl.float32)
    channel = tl.zeros_like(start).to(tl.int32)
    missing = largest != largest
    for number in range(1, num_channels):
        value = tl.load(logits + start + number * step, mask=valid, other=0.0)
        if narrow:
            value = value.to(tl.float32)
        missing = missing | (value != value)
        better = value > largest
        channel = tl.where(better, number, channel)
        largest = tl.where(better, value, largest)
    return channel, missing


# fmt: off
@triton.jit(do_not_specialize=[
    "image_step", "channel_step", "pixel_step", "num_pixels", "per_program", "num_classes",
    "truth_lowest", "truth_last", "lowest", "last", "copies",
])
def tally_kernel(
    prediction, truth, table, truth_table, counts, image_step, channel_step, pixel_step,
    num_pixels, per_program, num_classes, truth_lowest, truth_last, lowest, last, copies,
    logits: tl.constexpr, cells: tl.constexpr, block: tl.constexpr,
):
    """Count part ``program_id(1)`` of image ``program_id(0)``; 0 ``cells``: no histogram."""
    image, part = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    num_cells = num_classes * (num_classes + 1) + 3
    counted = counts + (image * copies + part % copies) * num_cells
    first = part * per_program
    end = tl.minimum(first + per_program, num_pixels)
    if cells > 0:
        histogram = tl.zeros([cells], dtype=tl.int32)
    for start in range(first, end, block):
        pixel = start + tl.arange(0, block)
        valid = pixel < end
        at = image * image_step + pixel * pixel_step
        true = _index(tl.load(truth + image * num_pixels + pixel, mask=valid, other=0),
                      truth_table, truth_lowest, truth_last)
        if logits:
            found, missing = _largest_channel(prediction, at, channel_step, num_classes, valid)
        else:
            found = _index(tl.load(prediction + at, mask=valid, other=0), table, lowest, last)
            missing = found < 0
        # Index K is void, K + 1 unknown. Void truth counts nowhere: its cell is behind all others.
        cell = tl.where(true < num_classes, true * (num_classes + 1) + found, num_cells)
        cell = tl.where(missing, num_cells - 1, cell)
        cell = tl.where(true > num_classes, num_cells - 2, cell)
        cell = tl.where(found > num_classes, num_cells - 3, cell)
        cell = tl.where(valid, cell, num_cells)
        if cells > 0:
            histogram += tl.histogram(cell, cells)
        else:
            tl.atomic_add(counted + cell, tl.full([block], 1, tl.int64), mask=cell < num_cells,
                          sem="relaxed")
    if cells > 0:
        cell = tl.arange(0, cells)
        tl.atomic_add(counted + cell, histogram.to(tl.int64),
                      mask=(cell < num_cells) & (histogram > 0), sem="relaxed")
# fmt: on


def tally(
    prediction: Tensor,
    truth: Tensor,
    table: Tensor,
    truth_table: Tensor,
    lowest: int,
    truth_lowest: int,
    num_classes: int,
) -> Tensor:
    """Count on CUDA; see :func:`ops.label_tallies.tally`; waits for nothing."""
    logits, num_cells = prediction.is_floating_point(), num_classes * (num_classes + 1) + 3
    images, pixels = truth.shape[0], truth[:1].numel()
    cells = triton.next_power_of_2(num_cells + 1)
    cells = cells if cells <= LARGEST_HISTOGRAM else 0
    copies = 1 if cells else COPIES
    counts = torch.zeros((images, copies, num_cells), dtype=torch.int64, device=truth.device)
    prediction, truth = _even_steps(prediction), truth.contiguous()
    if prediction.dtype == torch.bool:
        prediction = prediction.view(torch.uint8)
    truth = truth.view(torch.uint8) if truth.dtype == torch.bool else truth
    steps = prediction.stride()
    per_program = max(4 * BLOCK, 4 * cells)
    if images and pixels:
        with current(truth):
            tally_kernel[(images, triton.cdiv(pixels, per_program))](
                prediction,
                truth,
                table,
                truth_table,
                counts,
                steps[0],
                steps[1] if logits else 0,
                steps[-1],
                pixels,
                per_program,
                num_classes,
                truth_lowest,
                truth_table.shape[0] - 1,
                lowest,
                table.shape[0] - 1,
                copies,
                logits=logits,
                cells=cells,
                block=BLOCK,
                num_warps=warps_of(cells),
            )
    return counts[:, 0] if copies == 1 else counts.sum(1)


def warps_of(cells: int) -> int:
    """Enough threads that the cells of the histogram fit their registers."""
    return max(4, min(cells // 1024, 32)) if cells else 8


def _even_steps(maps: Tensor) -> Tensor:
    """Maps whose rows of pixels follow each other at the step of pixels."""
    *_, height, width = maps.shape
    even = height <= 1 or maps.stride(-2) == width * maps.stride(-1)
    return maps if even else maps.contiguous()
