"""The matcher of :mod:`greedy` as one Triton kernel, fused with the overlaps.

One program is one image: its ground truths lie side by side in a vector, its detections follow one
another, and the lanes in which a ground truth is taken stay in registers. Matches are appended to
the image's part of a table whose size the host knows. So nothing is read by the host, and a flush
does not wait. If a part is too small a flag is set, and the chunk is matched again on the host.
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

from ..kernels.support import current
from .greedy import Matches
from .problem import MatchProblem, MatchRules


@triton.jit
def _preferred(overlap, available, indices, last_wins: tl.constexpr, size: tl.constexpr):
    """Index of the ground truth with available lanes that has the largest overlap."""
    # The bits of floats that are not negative rise with the floats; -1 is below all of them.
    key = tl.where(available != 0, overlap.to(tl.int64, bitcast=True), -1)
    best = key == tl.max(key, axis=0)
    if last_wins:
        return tl.max(tl.where(best, indices, -1), axis=0)
    return tl.min(tl.where(best, indices, size), axis=0)


# fmt: off
@triton.jit
def _match_pass(
    offered, overlap, taken, remaining, uses, indices, first_object, detection, slot, slot_end,
    match_detection, match_ground_truth, match_overlap, match_positive, match_ignored,
    counts: tl.constexpr, last_wins: tl.constexpr, size: tl.constexpr, used_matches: tl.constexpr,
):
    """Match a detection by falling overlap with ground truths that count, or with ignored ones.

    Appends a row to the match table for each ground truth, and gives the new state.
    """
    available = offered & remaining if used_matches else offered & ~taken & remaining
    while tl.max((available != 0).to(tl.int32), axis=0) > 0:
        chosen = _preferred(overlap, available, indices, last_wins, size)
        best = indices == chosen
        matches = tl.where(best, available, 0)
        matched = tl.sum(matches, axis=0)
        on_used = tl.sum(matches & taken, axis=0)
        fits = slot < slot_end
        tl.store(match_detection + slot, detection, mask=fits)
        tl.store(match_ground_truth + slot, first_object + chosen, mask=fits)
        # One entry is not 0, so that the sum is that entry.
        value = tl.sum(tl.where(best, overlap, 0.0), axis=0)
        tl.store(match_overlap + slot, value.to(tl.float32), mask=fits)
        if counts:
            tl.store(match_positive + slot, matched & ~on_used, mask=fits)
            tl.store(match_ignored + slot, on_used, mask=fits)
        else:
            tl.store(match_positive + slot, matched - matched, mask=fits)
            tl.store(match_ignored + slot, matched, mask=fits)
        slot += 1
        taken |= matches & uses
        remaining &= ~matched
        available = offered & remaining if used_matches else offered & ~taken & remaining
    return taken, remaining, slot
# fmt: on


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
    boxes, group, present, starts, match_starts, object_boxes, object_group, object_starts,
    counted, exclusive, over_area, regions, epsilon, thresholds, threshold_bits,
    came, overlaps, overlap_starts,
    match_detection, match_ground_truth, match_overlap, match_positive, match_ignored, overflow,
    num_detections, num_objects, num_thresholds,
    size: tl.constexpr, inclusive: tl.constexpr, strict: tl.constexpr, best_only: tl.constexpr,
    last_wins: tl.constexpr, two_shapes: tl.constexpr, used_matches: tl.constexpr,
    known_overlaps: tl.constexpr,
):
    """Match the detections of image ``program_id(0)``; arguments as in ``MatchProblem``."""
    image = tl.program_id(0)
    indices = tl.arange(0, size)
    first = tl.load(object_starts + image)
    at = first + indices
    end = tl.load(object_starts + image + 1)
    valid = at < end
    its_group = tl.load(object_group + at, mask=valid, other=-1)
    counts = tl.load(counted + at, mask=valid, other=0)
    uses = tl.load(exclusive + at, mask=valid, other=0)
    by_area = tl.load(over_area + at, mask=valid, other=0) != 0
    taken = tl.zeros([size], dtype=tl.int64)
    slot = tl.load(match_starts + image)
    slot_end = tl.load(match_starts + image + 1)
    for row in range(tl.load(starts + image), tl.load(starts + image + 1)):
        mine = its_group == tl.load(group + row)
        if known_overlaps:
            pair = (tl.load(came + row) - tl.load(starts + image)) * (end - first) + indices
            pair += tl.load(overlap_starts + image)
            overlap = tl.load(overlaps + pair, mask=valid, other=0.0)
        else:
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
            best = indices == _preferred(overlap, passes, indices, last_wins, size)
            passes = tl.where(best, passes, 0)
            ignore_passes = tl.where(best, ignore_passes, 0)
        left = tl.load(present + row)
        taken, left, slot = _match_pass(
            passes & counts, overlap, taken, left, uses, indices, first, row, slot, slot_end,
            match_detection, match_ground_truth, match_overlap, match_positive, match_ignored,
            True, last_wins, size, used_matches)
        taken, left, slot = _match_pass(
            ignore_passes & ~counts, covered, taken, left, uses, indices, first, row, slot,
            slot_end, match_detection, match_ground_truth, match_overlap, match_positive,
            match_ignored, False, last_wins, size, used_matches)
    tl.store(overflow, 1, mask=slot > slot_end)
# fmt: on


def launch(
    problem: MatchProblem, rules: MatchRules, largest: int, capacity: int
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Match one word of lanes; waits for nothing.

    Args:
        problem: detections and ground truths on CUDA.
        rules: constants of the kernel.
        largest: ground truths of the fullest image, known on the host.
        capacity: rows of the match table, the last of ``match_starts``, known on the host.

    Returns:
        The columns of :class:`Matches`, [capacity] each, with -1 as detection in unused rows; and
        [1] int32, not 0 if an image had more matches than rows.
    """
    rows = problem.group.new_full((capacity,), -1)
    table = Matches(
        rows,
        torch.empty_like(rows),
        torch.empty_like(rows, dtype=torch.float32),
        torch.zeros_like(rows),
        torch.zeros_like(rows),
    )
    overflow = rows.new_zeros(1, dtype=torch.int32)
    images, size = problem.starts.shape[0] - 1, max(16, triton.next_power_of_2(largest))
    if images and problem.group.shape[0]:
        with current(rows):
            match_kernel[(images,)](
                *problem,
                *table,
                overflow,
                problem.group.shape[0],
                problem.object_group.shape[0],
                problem.thresholds.shape[0],
                size=size,
                **rules._asdict(),
                num_warps=warps_of(size),
                enable_fp_fusion=False,
            )
    return (*table, overflow)


def warps_of(size: int) -> int:
    """Enough threads that the vector of an image fits their registers."""
    return 1 if size <= 64 else max(4, size // 64)
