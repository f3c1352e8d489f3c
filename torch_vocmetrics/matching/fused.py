"""Overlaps and matching as one operator: plain tensor operations on the CPU, one kernel on CUDA.

``torch_vocmetrics::match_word`` is a custom operator, so that it can be traced and faked. Where
Triton is missing, or an image holds more objects than the kernel's vector, the host matches: the
caller brings the rows there, which costs one wait a chunk.
"""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..ops.boxes import (
    BoxColumns,
    intersection_over_area,
    intersection_over_union,
    pair_intersections,
)
from ..ops.selection import rows_where
from ..ops.sums import sums_before
from . import greedy
from .matchable import Matchable, Rules
from .pairs import PairRuns, Pairs

MOST_OBJECTS = 1024
"""Objects of one image that the kernel holds in one vector."""


def kernel_takes(largest: int) -> bool:
    """Whether CUDA can match images of up to ``largest`` objects by itself."""
    return largest <= MOST_OBJECTS and importlib.util.find_spec("triton") is not None


def match_word(rows: Matchable, rules: Rules, largest: int) -> tuple[Tensor, Tensor]:
    """Lanes [N] int64 of true and of ignored detections; no image has over ``largest`` objects."""
    operator = torch.ops.torch_vocmetrics.match_word
    outcome: tuple[Tensor, Tensor] = operator(*rows, *rules, largest)
    return outcome


def _on_host(*arguments: Any) -> tuple[Tensor, Tensor]:
    """Candidate pairs, their overlaps, and the matcher of :mod:`greedy`."""
    rows, rules, _ = _unpacked(arguments)
    runs, taken = PairRuns.of(rows.group, rows.object_group), torch.zeros_like(rows.exclusive)
    outcomes = []
    for part in runs.portions():
        some = rows.of_detections(part)
        pairs = _candidates_by_boxes(some, rules, runs.pairs(part, torch.int32))
        outcomes.append(match_candidates(some, rules, pairs, taken))
    positive, ignored = (torch.cat(bits) for bits in zip(*outcomes, strict=True))
    return positive, ignored


def _candidates_by_boxes(rows: Matchable, rules: Rules, pairs: Pairs) -> greedy.Candidates:
    if not rules.two_shapes and (rows.thresholds > 0).all():
        pairs = _that_meet(pairs, rows, rules)
    return candidates(rows, rules, pairs, *pair_overlaps(rows, rules, pairs))


def candidates(
    rows: Matchable, rules: Rules, pairs: Pairs, overlap: Tensor, ignore_overlap: Tensor
) -> greedy.Candidates:
    """What the matcher is to know of pairs of which the overlaps [P] float64 are known."""
    overlaps = [overlap] if ignore_overlap is overlap else [overlap, ignore_overlap]
    levels = [_thresholds_reached(rows, rules, values) for values in overlaps]
    # Pairs that reach none, most of them, end here.
    kept = rows_where((levels[0] | levels[-1]) != 0)
    pairs = Pairs(*(column.index_select(0, kept).long() for column in pairs))
    overlaps = [values.index_select(0, kept) for values in overlaps]
    # Entry n of the table: the lanes of the n lowest thresholds, which are disjoint.
    table = sums_before(rows.threshold_bits)
    passes = [table.index_select(0, level.index_select(0, kept).int()) for level in levels]
    present = rows.present.index_select(0, pairs.detection)
    counts = rows.counted.index_select(0, pairs.ground_truth)
    counted, ignored = passes[0] & present & counts, passes[-1] & present & ~counts
    return greedy.Candidates(*pairs, overlaps[0], overlaps[-1], counted, ignored)


def match_candidates(
    rows: Matchable, rules: Rules, pairs: greedy.Candidates, taken: Tensor
) -> tuple[Tensor, Tensor]:
    """:func:`match_word` on the host, for pairs that are known; ``taken`` as for it."""
    return greedy.match(
        pairs,
        taken,
        group=rows.group,
        exclusive=rows.exclusive,
        out_of_range=rows.out_of_range | ~rows.present,
        best_only=rules.best_only,
        last_wins=rules.last_wins,
        claims_used=rules.claims_used,
    )


def _on_cuda(*arguments: Any) -> tuple[Tensor, Tensor]:
    """One kernel; Triton is loaded by those who need it."""
    from .greedy_cuda import launch  # noqa: PLC0415

    return launch(*_unpacked(arguments))


def _shapes(*arguments: Any) -> tuple[Tensor, Tensor]:
    """What comes out, for tensors without values."""
    group = _unpacked(arguments)[0].group
    return torch.empty_like(group), torch.empty_like(group)


def _unpacked(arguments: tuple[Any, ...]) -> tuple[Matchable, Rules, int]:
    split = len(Matchable._fields)
    return Matchable(*arguments[:split]), Rules(*arguments[split:-1]), arguments[-1]


# The plain form of torch.library: its decorator loads the compiler at the first call (1.5 s).
_LIBRARY = torch.library.Library("torch_vocmetrics", "DEF")
_LIBRARY.define(
    "match_word("
    + ", ".join(f"Tensor {name}" for name in Matchable._fields)
    + "".join(f", bool {name}" for name in Rules._fields)
    + ", int largest) -> (Tensor, Tensor)"
)
_LIBRARY.impl("match_word", _on_host, "CPU")
_LIBRARY.impl("match_word", _on_cuda, "CUDA")
torch.library.register_fake("torch_vocmetrics::match_word", _shapes, lib=_LIBRARY)


def _that_meet(pairs: Pairs, rows: Matchable, rules: Rules) -> Pairs:
    """The pairs of boxes that may meet: the others, most of them, reach no threshold above 0.

    Rounding to float32 keeps order but for ties, so that no pair that meets is lost.
    """
    first, second = _edges(rows.boxes, rules), _edges(rows.object_boxes, rules)
    for axis in (0, 1):
        near, far = (edges[axis].index_select(0, pairs.detection) for edges in first)
        torch.maximum(near, second[0][axis].index_select(0, pairs.ground_truth), out=near)
        torch.minimum(far, second[1][axis].index_select(0, pairs.ground_truth), out=far)
        # NumPy compares in a quarter of torch's time.
        pairs = pairs.rows(torch.from_numpy(np.flatnonzero(near.numpy() <= far.numpy())))
    return pairs


def _edges(boxes: Tensor, rules: Rules) -> tuple[Tensor, Tensor]:
    """[2, N] float32 each: where boxes start and where they end, on both axes."""
    ends = boxes[2:4] + 1 if rules.inclusive else boxes[2:4]
    return boxes[:2].float(), ends.float()


def _thresholds_reached(rows: Matchable, rules: Rules, overlap: Tensor) -> Tensor:
    """[P] int16: how many of the thresholds, which rise, each overlap reaches."""
    reaches = np.greater if rules.strict else np.greater_equal
    values, reached = overlap.numpy(), np.zeros(overlap.shape[0], dtype=np.int16)
    for threshold in rows.thresholds.numpy():
        reached += reaches(values, threshold)
    return torch.from_numpy(reached)


def pair_overlaps(rows: Matchable, rules: Rules, pairs: Pairs) -> tuple[Tensor, Tensor]:
    """[P] float64 each: overlap where the object counts, and where it is ignored."""
    first = BoxColumns(*rows.boxes).rows(pairs.detection)
    second = BoxColumns(*rows.object_boxes).rows(pairs.ground_truth)
    shared = pair_intersections(first, second, inclusive=rules.inclusive)
    overlap = intersection_over_union(shared, first.area, second.area, rows.epsilon)
    few = rows_where(rows.over_area.index_select(0, pairs.ground_truth))
    area = BoxColumns(*rows.boxes).area.index_select(0, pairs.detection.index_select(0, few))
    over_area = intersection_over_area(shared.index_select(0, few), area + rows.epsilon)
    overlap.index_copy_(0, few, over_area)
    if not rules.two_shapes:
        return overlap, overlap
    region = BoxColumns(*rows.regions).rows(pairs.ground_truth)
    covered = pair_intersections(first, region, inclusive=rules.inclusive)
    return overlap, intersection_over_area(covered, first.area + rows.epsilon)
