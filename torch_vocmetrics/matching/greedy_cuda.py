"""The matcher of :mod:`greedy` as one Triton kernel, fused with the overlaps.

One program is one image: its objects lie in lanes of a vector, its detections follow one another,
and the bits of an object stay in registers. Nothing is read by the host, so that a flush does not
wait.
Float64 throughout, without fused multiply-add: the same bits as the plain path.

Triton traps that this file steps around: a Python float compared with a float64 tensor becomes
float32, so every number comes from memory; ``enable_fp_fusion`` is on by default, so the launch
says no; sizes that change by the batch must not specialise the kernel; Triton 3.0 does not know
``tl.constexpr`` in an annotation that is text, so annotations are evaluated here.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from .matchable import Matchable, Rules


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
    offered,
    overlap,
    taken,
    remaining,
    uses,
    places,
    last_wins: tl.constexpr,
    size: tl.constexpr,
    claims_used: tl.constexpr,
):
    """The rule itself: claims by falling overlap.

    Gives the claimed bits, those among them in which the object was used, and the new state.
    """
    claimed = remaining - remaining
    stale = claimed
    available = offered & remaining if claims_used else offered & ~taken & remaining
    while tl.max((available != 0).to(tl.int32), axis=0) > 0:
        best = places == _preferred(overlap, available, places, last_wins, size)
        claims = tl.where(best, available, 0)
        claim = tl.sum(claims, axis=0)
        stale |= tl.sum(claims & taken, axis=0)
        taken |= claims & uses
        claimed |= claim
        remaining &= ~claim
        available = offered & remaining if claims_used else offered & ~taken & remaining
    return claimed, stale, taken, remaining


@triton.jit
def _overlaps(
    boxes,
    row,
    num_detections,
    shapes,
    num_objects,
    at,
    valid,
    by_area,
    epsilon,
    inclusive: tl.constexpr,
):
    """Overlaps of one detection with many shapes, over its area where ``by_area``."""
    left = tl.load(shapes + at, mask=valid, other=0.0)
    top = tl.load(shapes + num_objects + at, mask=valid, other=0.0)
    right = tl.load(shapes + 2 * num_objects + at, mask=valid, other=0.0)
    bottom = tl.load(shapes + 3 * num_objects + at, mask=valid, other=0.0)
    other_area = tl.load(shapes + 4 * num_objects + at, mask=valid, other=0.0)
    left = tl.maximum(left, tl.load(boxes + row))
    top = tl.maximum(top, tl.load(boxes + num_detections + row))
    width = tl.minimum(right, tl.load(boxes + 2 * num_detections + row)) - left
    height = tl.minimum(bottom, tl.load(boxes + 3 * num_detections + row)) - top
    if inclusive:
        width += 1
        height += 1
    area = tl.load(boxes + 4 * num_detections + row)
    shared = tl.where((width > 0) & (height > 0), width * height, 0.0)
    extra = tl.load(epsilon)
    over = tl.where(by_area, area + extra, area + other_area - shared + extra)
    return tl.where(shared > 0, shared / over, 0.0)


@triton.jit
def _passing(overlap, mine, thresholds, threshold_bits, num_thresholds, strict: tl.constexpr):
    """Lanes whose threshold the overlaps reach, with the objects that are ``mine``."""
    passes = overlap.to(tl.int64) * 0
    for number in range(num_thresholds):
        threshold = tl.load(thresholds + number)
        if strict:
            reached = overlap > threshold
        else:
            reached = overlap >= threshold
        passes |= tl.where(reached & mine, tl.load(threshold_bits + number), 0)
    return passes


# fmt: off
@triton.jit(do_not_specialize=["num_detections", "num_objects", "num_thresholds"])
def match_kernel(
    boxes, group, present, out_of_range, starts, object_boxes, object_group, object_starts,
    counted, exclusive, over_area, regions, epsilon, thresholds, threshold_bits,
    true_positive, ignored, num_detections, num_objects, num_thresholds,
    size: tl.constexpr, inclusive: tl.constexpr, strict: tl.constexpr, best_only: tl.constexpr,
    last_wins: tl.constexpr, two_shapes: tl.constexpr, claims_used: tl.constexpr,
):
    """Match the detections of image ``program_id(0)``; arguments as in ``Matchable``."""
    image = tl.program_id(0)
    places = tl.arange(0, size)
    at = tl.load(object_starts + image) + places
    valid = at < tl.load(object_starts + image + 1)
    its_group = tl.load(object_group + at, mask=valid, other=-1)
    counts = tl.load(counted + at, mask=valid, other=0)
    uses = tl.load(exclusive + at, mask=valid, other=0)
    by_area = tl.load(over_area + at, mask=valid, other=0) != 0
    taken = tl.zeros([size], dtype=tl.int64)
    for row in range(tl.load(starts + image), tl.load(starts + image + 1)):
        mine = its_group == tl.load(group + row)
        overlap = _overlaps(boxes, row, num_detections, object_boxes, num_objects, at, valid,
                            by_area, epsilon, inclusive)
        passes = _passing(overlap, mine, thresholds, threshold_bits, num_thresholds, strict)
        covered, ignore_passes = overlap, passes
        if two_shapes:
            covered = _overlaps(boxes, row, num_detections, regions, num_objects, at, valid,
                                valid, epsilon, inclusive)
            ignore_passes = _passing(covered, mine, thresholds, threshold_bits, num_thresholds,
                                     strict)
        if best_only:
            best = places == _preferred(overlap, passes, places, last_wins, size)
            passes = tl.where(best, passes, 0)
            ignore_passes = tl.where(best, ignore_passes, 0)
        left = tl.load(present + row)
        off = ~left
        positive, stale, taken, left = _claim(passes & counts, overlap, taken, left, uses, places,
                                              last_wins, size, claims_used)
        dropped, _, taken, left = _claim(ignore_passes & ~counts, covered, taken, left, uses,
                                         places, last_wins, size, claims_used)
        off |= dropped | stale | (left & tl.load(out_of_range + row))
        tl.store(true_positive + row, positive & ~stale)
        tl.store(ignored + row, off)
# fmt: on


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
