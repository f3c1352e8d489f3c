"""The matcher of :mod:`greedy` as one Triton kernel, fused with the overlaps.

One program is one image: its objects lie in lanes of a vector, its detections follow one another,
and the bits of an object stay in registers. Nothing is read by the host, so that a flush does not
wait.
Float64 throughout, without fused multiply-add: the same bits as the plain path.

Triton traps that this file steps around: a Python float compared with a float64 tensor becomes
float32, so every number comes from memory; ``enable_fp_fusion`` is on by default, so the launch
says no; sizes that change by the batch must not specialise the kernel.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from .fused import Matchable, Rules


@triton.jit
def _preferred(overlap, available, places, last_wins: tl.constexpr, size: tl.constexpr):
    """Place of the object with bits available that has the largest overlap."""
    # Bits of floats that are not negative rise with the floats; -1 is below all of them.
    key = tl.where(available != 0, overlap.to(tl.int64, bitcast=True), -1)
    best = key == tl.max(key, axis=0)
    if last_wins:
        return tl.max(tl.where(best, places, -1), axis=0)
    return tl.min(tl.where(best, places, size), axis=0)


@triton.jit
def _claim(
    offered, overlap, taken, remaining, uses, places, last_wins: tl.constexpr, size: tl.constexpr
):
    """The rule itself: claims by falling overlap; gives the claimed bits and the new state."""
    claimed = remaining - remaining
    available = offered & ~taken & remaining
    while tl.max((available != 0).to(tl.int32), axis=0) > 0:
        claims = tl.where(
            places == _preferred(overlap, available, places, last_wins, size), available, 0
        )
        claim = tl.sum(claims, axis=0)
        taken |= claims & uses
        claimed |= claim
        remaining &= ~claim
        available = offered & ~taken & remaining
    return claimed, taken, remaining


@triton.jit
def _intersections(x1, y1, x2, y2, columns, stride, at, valid, inclusive: tl.constexpr):
    """Areas of intersection of one box with many, and the areas of these."""
    left = tl.load(columns + at, mask=valid, other=0.0)
    top = tl.load(columns + stride + at, mask=valid, other=0.0)
    right = tl.load(columns + 2 * stride + at, mask=valid, other=0.0)
    bottom = tl.load(columns + 3 * stride + at, mask=valid, other=0.0)
    other_area = tl.load(columns + 4 * stride + at, mask=valid, other=0.0)
    width = tl.minimum(x2, right) - tl.maximum(x1, left)
    height = tl.minimum(y2, bottom) - tl.maximum(y1, top)
    if inclusive:
        width += 1
        height += 1
    return tl.where((width > 0) & (height > 0), width * height, 0.0), other_area


@triton.jit(do_not_specialize=["num_detections", "num_objects", "num_thresholds"])
def match_kernel(
    boxes,
    group,
    present,
    out_of_range,
    starts,
    object_boxes,
    object_group,
    object_starts,
    counted,
    exclusive,
    over_area,
    thresholds,
    threshold_bits,
    true_positive,
    ignored,
    num_detections,
    num_objects,
    num_thresholds,
    size: tl.constexpr,
    inclusive: tl.constexpr,
    strict: tl.constexpr,
    best_only: tl.constexpr,
    last_wins: tl.constexpr,
):
    """Match the detections of image ``program_id(0)``; arguments as in :class:`fused.Matchable`."""
    image = tl.program_id(0)
    places = tl.arange(0, size)
    first_object = tl.load(object_starts + image)
    at = first_object + places
    valid = at < tl.load(object_starts + image + 1)
    its_group = tl.load(object_group + at, mask=valid, other=-1)
    counts = tl.load(counted + at, mask=valid, other=0)
    uses = tl.load(exclusive + at, mask=valid, other=0)
    by_area = tl.load(over_area + at, mask=valid, other=0) != 0
    taken = tl.zeros([size], dtype=tl.int64)
    for row in range(tl.load(starts + image), tl.load(starts + image + 1)):
        x1 = tl.load(boxes + row)
        y1 = tl.load(boxes + num_detections + row)
        x2 = tl.load(boxes + 2 * num_detections + row)
        y2 = tl.load(boxes + 3 * num_detections + row)
        area = tl.load(boxes + 4 * num_detections + row)
        inter, other_area = _intersections(
            x1, y1, x2, y2, object_boxes, num_objects, at, valid, inclusive
        )
        union = tl.where(by_area, area, area + other_area - inter)
        overlap = tl.where(inter > 0, inter / union, 0.0)
        passes = tl.zeros([size], dtype=tl.int64)
        for number in range(num_thresholds):
            threshold = tl.load(thresholds + number)
            if strict:
                reached = overlap > threshold
            else:
                reached = overlap >= threshold
            passes |= tl.where(reached, tl.load(threshold_bits + number), 0)
        passes = tl.where(its_group == tl.load(group + row), passes, 0)
        if best_only:
            best = _preferred(overlap, passes, places, last_wins, size)
            passes = tl.where(places == best, passes, 0)
        remaining = tl.load(present + row)
        absent = ~remaining
        positive, taken, remaining = _claim(
            passes & counts, overlap, taken, remaining, uses, places, last_wins, size
        )
        off, taken, remaining = _claim(
            passes & ~counts, overlap, taken, remaining, uses, places, last_wins, size
        )
        tl.store(true_positive + row, positive)
        tl.store(ignored + row, absent | off | (remaining & tl.load(out_of_range + row)))


def launch(rows: Matchable, rules: Rules, largest: int) -> tuple[Tensor, Tensor]:
    """Match one word of lanes; waits for nothing.

    Args:
        rows: detections and objects on CUDA.
        rules: constants of the kernel.
        largest: objects of the fullest image, known on the host.

    Returns:
        ``true_positive`` and ``ignored`` [N] int64.
    """
    true_positive, ignored = torch.empty_like(rows.group), torch.empty_like(rows.group)
    images, size = rows.starts.shape[0] - 1, max(16, triton.next_power_of_2(largest))
    if images and rows.group.shape[0]:
        match_kernel[(images,)](
            *rows,
            true_positive,
            ignored,
            rows.group.shape[0],
            rows.object_group.shape[0],
            rows.thresholds.shape[0],
            size=size,
            **rules._asdict(),
            num_warps=1 if size <= 64 else 4,
            enable_fp_fusion=False,
        )
    return true_positive, ignored
