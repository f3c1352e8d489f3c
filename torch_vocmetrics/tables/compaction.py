"""Records that a device has written: rows that say nothing go, after one wait for all records.

On the host :meth:`MatchRecords.compact` does the same, and looks at the values as it goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..ops.ordering import rank_in_group
from ..ops.sums import sums_before
from ..transfer import to_host
from .records import DETECTION_COLUMNS, MATCH_COLUMNS, MatchRecords, class_and_image


class _Plan(NamedTuple):
    """What stays of one part, while nobody has read how much that is.

    Attributes:
        order: [H] int64, matches by detection and ground truth, unused rows last.
        first: [H] bool, the first row of each pair in that order.
        used: [H] bool, rows that hold a match.
        within: [N] bool, detections that stay; None if all do.
        sizes: [2] int64, pairs and detections that stay.
    """

    order: Tensor
    first: Tensor
    used: Tensor
    within: Tensor | None
    sizes: Tensor


def compacted(
    parts: Sequence[MatchRecords], limits: Sequence[int | None], flags: Sequence[Tensor]
) -> tuple[list[MatchRecords], list[Tensor]]:
    """The same outcomes with the fewest rows, and the flags on the host.

    Unused rows of the match tables go, several rows of a pair become one, and of the detections of
    an image and class those beyond the limit go, which have no matches.

    Args:
        parts: on one device.
        limits: of each part; None where no image has so many detections.
        flags: other tensors to be read in the same copy.
    """
    plans = [_plan(part, limit) for part, limit in zip(parts, limits, strict=True)]
    read = to_host([*(plan.sizes for plan in plans), *flags])
    sizes = [tuple(size.tolist()) for size in read[: len(plans)]]
    found = [_made(*whole) for whole in zip(parts, plans, sizes, strict=True)]
    return found, read[len(plans) :]


def _plan(part: MatchRecords, limit: int | None) -> _Plan:
    """Read nothing."""
    N = part.num_detections
    detection = torch.where(part.match_detection < 0, N, part.match_detection)
    order = torch.argsort(part.match_ground_truth, stable=True)
    order = order.index_select(0, torch.argsort(detection.index_select(0, order), stable=True))
    detection = detection.index_select(0, order)
    ground_truth = part.match_ground_truth.index_select(0, order)
    used = detection < N
    first = used.clone()
    first[1:] &= (detection[1:] != detection[:-1]) | (ground_truth[1:] != ground_truth[:-1])
    within = None
    if limit is not None:
        within = rank_in_group(class_and_image(part.label, part.image, part.num_images)) < limit
    detections = torch.zeros_like(first.sum()) if within is None else within.sum()
    return _Plan(order, first, used, within, torch.stack([first.sum(), detections]))


def _made(part: MatchRecords, plan: _Plan, sizes: tuple[int, ...]) -> MatchRecords:
    """The part of which so many pairs and detections stay; waits for nothing."""
    pairs, detections = sizes
    number = sums_before(plan.first)[1:] - 1
    rows = plan.order.index_select(0, _rows(plan.first, number, pairs))
    columns: dict[str, Any] = {
        name: getattr(part, name).index_select(0, rows) for name in MATCH_COLUMNS
    }
    # The lanes of several rows of a pair are disjoint: their sum is their union.
    pair = torch.where(plan.used, number, pairs)
    for name in ("match_true_positive", "match_ignored"):
        lanes = getattr(part, name).index_select(0, plan.order)
        none = lanes.new_zeros((pairs + 1, lanes.shape[1]))
        columns[name] = none.index_add_(0, pair, lanes)[:pairs]
    if plan.within is not None:
        before = sums_before(plan.within)
        kept = _rows(plan.within, before[:-1], detections)
        for name in DETECTION_COLUMNS:
            column = getattr(part, name)
            columns[name] = None if column is None else column.index_select(0, kept)
        counts = before.index_select(0, sums_before(part.class_counts)).diff()
        columns["class_counts"] = counts
        columns["match_detection"] = before.index_select(0, columns["match_detection"])
    return replace(part, **columns)


def _rows(mask: Tensor, number: Tensor, size: int) -> Tensor:
    """[size] int64: where ``mask`` is set, which is known to be in so many indices.

    ``number`` says of each such index how many came before it.
    """
    index = torch.where(mask, number, size)
    rows = torch.arange(mask.shape[0], device=mask.device)
    return rows.new_zeros(size + 1).scatter_(0, index, rows)[:size]
