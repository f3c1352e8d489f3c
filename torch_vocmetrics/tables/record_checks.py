"""Checks of match records that were read: ranges, order, and that the columns fit each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from ..lanes import BITS, BYTE, Lanes
from .columns import FLOATS, check_bits, check_column, check_image_ids
from .records import OPTIONAL, TENSORS, MatchRecords, class_and_image


class RecordRules(NamedTuple):
    """What a protocol says of its records.

    Attributes:
        num_classes: K.
        lanes: which lanes there are.
        falling_scores: whether the detections of an image and class come by falling score.
        matchable: which objects are matched at most once in a lane: ``"counted"`` objects in the
            lanes in which they count, ``"all"`` objects in all lanes, or ``"none"``.
        score_limits: L of ``image_counts``; 0 where the protocol has no such column.
    """

    num_classes: int
    lanes: Lanes
    falling_scores: bool = True
    matchable: str = "counted"
    score_limits: int = 0


def check_records(records: MatchRecords, rules: RecordRules) -> None:
    """Raise ValueError unless the records are such as matching makes."""
    _check_columns(records, rules)
    _check_bits(records, rules.lanes)
    _check_order(records, rules)
    if rules.matchable != "none":
        _check_matches(records, rules)


def check_same_images(records: Sequence[MatchRecords]) -> None:
    """Raise ValueError unless the records of several protocols are of the same images."""
    first = records[0]
    for other in records[1:]:
        # Class-agnostic protocols have classes of their own.
        alike = first.class_counts.shape == other.class_counts.shape
        for name in ("image_sizes", "ground_truth_image", *["ground_truth_label"] * alike):
            if not torch.equal(getattr(first, name), getattr(other, name)):
                raise ValueError(f"the protocols differ in column {name}")


def _check_columns(records: MatchRecords, rules: RecordRules) -> None:
    """Type, dtype, shape and range of each column."""
    check_column("image_sizes", records.image_sizes, (torch.int32,), (None, 2), low=-1)
    I, K, lanes = records.num_images, rules.num_classes, rules.lanes  # noqa: E741
    check_image_ids(records.image_ids, I)
    int32, int64 = (torch.int32,), (torch.int64,)
    owner = check_column(
        "ground_truth_image", records.ground_truth_image, int32, (None,), low=0, high=I - 1
    )
    M = owner.shape[0]
    label, area = records.ground_truth_label, records.ground_truth_area
    check_column("ground_truth_label", label, int32, (M,), low=0, high=K - 1)
    check_column("ground_truth_area", area, (torch.float64,), (M,), low=-torch.inf, high=torch.inf)
    counted = records.ground_truth_counted
    check_column("ground_truth_counted", counted, int64, (M, lanes.words))
    scores = check_column("score", records.score, FLOATS, (None,), low=-torch.inf, high=torch.inf)
    N = scores.shape[0]
    check_column("image", records.image, int32, (N,), low=0, high=I - 1)
    check_column("class_counts", records.class_counts, int64, (K,), low=0, high=N)
    check_column("out_of_range", records.out_of_range, (torch.uint8,), (N, lanes.area_bytes))
    if records.order is not None:
        check_column("order", records.order, int64, (N,))
    claimant = check_column("claimant", records.claimant, int64, (None,), low=0, high=N - 1)
    for name in ("true_positive", "ignored"):
        check_column(name, getattr(records, name), int64, (claimant.shape[0], lanes.words))
    shape = (I, rules.score_limits, 3)
    if records.image_counts is not None:
        counts = check_column("image_counts", records.image_counts, int32, shape, low=0)
        if (counts[..., :1] > counts[..., 1:]).any():
            raise ValueError("column image_counts has more matches than detections or objects")
    if (records.image_counts is None) != (rules.score_limits == 0 or I == 0):
        raise ValueError("column image_counts does not fit the protocol")
    columns = (getattr(records, name) for name in (*TENSORS, *OPTIONAL))
    if len({column.device for column in columns if column is not None}) > 1:
        raise ValueError("the columns are on different devices")


def _check_bits(records: MatchRecords, lanes: Lanes) -> None:
    """Bits stand for lanes and area ranges that are there, and exclude each other."""
    total = lanes.num_areas * lanes.num_thresholds
    words = [_ones(min(total - BITS * word, BITS)) for word in range(lanes.words)]
    for name in ("ground_truth_counted", "true_positive", "ignored"):
        check_bits(name, getattr(records, name), words)
    areas = [_ones(min(lanes.num_areas - BYTE * n, BYTE)) for n in range(lanes.area_bytes)]
    check_bits("out_of_range", records.out_of_range, areas)
    if (records.true_positive & records.ignored).any():
        raise ValueError("a detection is both a true positive and ignored")
    unknown = records.image_sizes < 0
    if (unknown[:, 0] != unknown[:, 1]).any():
        raise ValueError("column image_sizes has a height without a width")


def _check_order(records: MatchRecords, rules: RecordRules) -> None:
    """Detections stand by class, image and falling score; objects by image."""
    if int(records.class_counts.sum()) != records.num_detections:
        raise ValueError(f"column class_counts does not add up to {records.num_detections}")
    if (records.claimant.diff() <= 0).any():
        raise ValueError("column claimant does not rise")
    if (records.ground_truth_image.diff() < 0).any():
        raise ValueError("objects are not ordered by image")
    group = class_and_image(records.label, records.image, records.num_images)
    steps = group.diff()
    if (steps < 0).any():
        raise ValueError("detections are not ordered by class and image")
    if rules.falling_scores and ((steps == 0) & (records.score.diff() > 0)).any():
        raise ValueError("scores of an image and class do not fall")


def _check_matches(records: MatchRecords, rules: RecordRules) -> None:
    """In no image, class and lane there are more true positives than objects to match."""
    rows = (records.true_positive != 0).any(dim=1).nonzero().squeeze(1)
    if not rows.numel():
        return
    images = records.num_images
    detections = records.claimant.index_select(0, rows)
    found = class_and_image(records.label, records.image, images).index_select(0, detections)
    objects = class_and_image(records.ground_truth_label.long(), records.ground_truth_image, images)
    both = torch.cat([found, objects])
    groups, numbers = both.unique(return_inverse=True)  # type: ignore[no-untyped-call]
    mine, theirs = numbers.split([found.shape[0], objects.shape[0]])
    positive = records.true_positive.index_select(0, rows)
    counted = records.ground_truth_counted
    counted = counted if rules.matchable == "counted" else torch.full_like(counted, -1)
    for lane in range(rules.lanes.num_areas * rules.lanes.num_thresholds):
        word, bit = divmod(lane, BITS)
        free = torch.zeros(groups.shape[0], dtype=torch.int64, device=groups.device)
        free.index_add_(0, theirs, counted[:, word] >> bit & 1)
        free.index_add_(0, mine, positive[:, word] >> bit & 1, alpha=-1)
        if (free < 0).any():
            raise ValueError("an image has more true positives than objects")


def _ones(count: int) -> int:
    return (1 << count) - 1
