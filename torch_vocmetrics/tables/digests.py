"""A 64-bit digest of what was recorded of each image, so that copies are compared by two numbers.

A digest is the sum, modulo 2**64, of a mixed value of each row. The index of a row among those of
its image is mixed in too, so that the order of rows counts. Two images that differ have the same
digest with a chance of about 2**-64; nobody is kept from making such images on purpose.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .records import MatchRecords

# Odd constants of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014) as signed integers.
_STEP = 0x9E3779B97F4A7C15 - 2**64
_FACTORS = (0xBF58476D1CE4E5B9 - 2**64, 0x94D049BB133111EB - 2**64)
_SHIFTS = (30, 27, 31)


def digest_of_truth(records: MatchRecords) -> Tensor:
    """[I] int64: class, area and lanes of the objects of each image, in their order."""
    owner = records.ground_truth_image
    rows = _mixed(
        [
            _place_in_run(owner),
            records.ground_truth_label,
            records.ground_truth_area,
            *records.ground_truth_counted.unbind(1),
        ]
    )
    return _summed(rows, owner, records.num_images)


def digest_of_detections(
    records: MatchRecords, first_class: int = 0, truth_starts: Tensor | None = None
) -> Tensor:
    """[I] int64: class, score and matches of the detections of each image, in their order.

    Detections of other classes may be left out: sums over all classes are those of the whole.

    Args:
        records: of some classes.
        first_class: the class of the first of ``class_counts``.
        truth_starts: [I] int64 first ground truth of each image; None if the records have them.
    """
    image, images = records.image, records.num_images
    if truth_starts is None:
        truth_starts = starts_of_truth(records)
    label = records.label + first_class
    index = _place_in_run(label * images + image)
    rows = _mixed([label, index, records.score, *records.out_of_range.unbind(1)])
    at = records.match_detection
    owner = image.index_select(0, at)
    matches = _mixed(
        [
            label.index_select(0, at),
            index.index_select(0, at),
            records.match_ground_truth - truth_starts.index_select(0, owner.long()),
            records.match_overlap,
            *records.match_true_positive.unbind(1),
            *records.match_ignored.unbind(1),
        ]
    )
    return _summed(rows, image, images) + _summed(matches, owner, images)


def starts_of_truth(records: MatchRecords) -> Tensor:
    """[I] int64: the row of the first ground truth of each image."""
    counts = torch.bincount(records.ground_truth_image, minlength=records.num_images)
    return counts.cumsum(dim=0) - counts


def _place_in_run(group: Tensor) -> Tensor:
    """[N] int64: how many rows of the same group stand before each; they stand together."""
    rows = torch.arange(group.shape[0], device=group.device)
    starts = torch.ones_like(group, dtype=torch.bool)
    starts[1:] = group[1:] != group[:-1]
    return rows - torch.where(starts, rows, 0).cummax(dim=0).values if rows.numel() else rows


def _mixed(columns: Sequence[Tensor]) -> Tensor:
    """[N] int64: one value of each row, which depends on every bit of its columns."""
    mixed = torch.zeros_like(columns[0], dtype=torch.int64)
    for column in columns:
        mixed += _bits(column)
        mixed += _STEP
        for shift, factor in zip(_SHIFTS, _FACTORS, strict=False):
            mixed ^= _shifted(mixed, shift)
            mixed *= factor
        mixed ^= _shifted(mixed, _SHIFTS[-1])
    return mixed


def _bits(column: Tensor) -> Tensor:
    """[N] int64; equal numbers have equal bits, whatever their type, and 0.0 those of -0.0."""
    return (column.double() + 0.0).view(torch.int64) if column.is_floating_point() else column


def _shifted(values: Tensor, count: int) -> Tensor:
    """Shifted to the right with zeros from the left."""
    mask: int = (1 << (64 - count)) - 1
    return (values >> count) & mask


def _summed(rows: Tensor, image: Tensor, num_images: int) -> Tensor:
    sums = torch.zeros(num_images, dtype=torch.int64, device=rows.device)
    return sums.index_add_(0, image.long(), rows)
