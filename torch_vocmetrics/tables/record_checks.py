"""Checks of match records that were read: ranges, order, and that the columns fit each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from ..lanes import BITS, BYTE, Lanes
from .columns import FLOATS, check_bits, check_column, check_image_ids
from .records import DIAGNOSTICS, OPTIONAL, TENSORS, MatchRecords, class_and_image


class RecordRules(NamedTuple):
    """What a protocol says of its records.

    Attributes:
        num_classes: K.
        lanes: which lanes there are.
        falling_scores: whether the detections of an image and class come by falling score.
        positives_count: whether true positives match ground truths that count.
        one_match_each: whether a ground truth has one true positive at most in a lane.
        used_matches: whether a detection may be ignored since its ground truth was taken.
        score_limits: L of ``image_counts``; 0 where the protocol has no such column.
    """

    num_classes: int
    lanes: Lanes
    falling_scores: bool = True
    positives_count: bool = True
    one_match_each: bool = True
    used_matches: bool = False
    score_limits: int = 0


def check_records(records: MatchRecords, rules: RecordRules) -> None:
    """Raise ValueError unless the records are such as matching makes."""
    _check_columns(records, rules)
    _check_bits(records, rules.lanes)
    _check_order(records, rules)
    _check_matches(records, rules)
    _check_lanes_of_matches(records, rules)


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
    _check_match_columns(records, lanes)
    _check_diagnostics(records)
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


def _check_match_columns(records: MatchRecords, lanes: Lanes) -> None:
    """Type, dtype, shape and range of the columns of matches."""
    int32, int64 = (torch.int32,), (torch.int64,)
    N, M = records.num_detections, records.num_ground_truths
    detection = check_column(
        "match_detection", records.match_detection, int64, (None,), low=0, high=N - 1
    )
    H = detection.shape[0]
    pair = records.match_ground_truth
    check_column("match_ground_truth", pair, int32, (H,), low=0, high=M - 1)
    overlap = records.match_overlap
    check_column("match_overlap", overlap, (torch.float32,), (H,), low=0, high=torch.inf)
    for name in ("match_true_positive", "match_ignored"):
        check_column(name, getattr(records, name), int64, (H, lanes.words))


def _check_diagnostics(records: MatchRecords) -> None:
    """The columns that are kept on request: all or none."""
    if records.mask_overlap is not None:
        column, shape = records.mask_overlap, (records.num_detections,)
        check_column("mask_overlap", column, (torch.float32,), shape, low=0, high=1)
    given = [name for name in DIAGNOSTICS if getattr(records, name) is not None]
    if not given:
        return
    if len(given) < len(DIAGNOSTICS):
        raise ValueError(f"columns of diagnostics are missing: only {', '.join(given)}")
    int32, N, M = (torch.int32,), records.num_detections, records.num_ground_truths
    for name in DIAGNOSTICS:
        column = getattr(records, name)
        if name.endswith("overlap"):
            check_column(name, column, (torch.float32,), (N,), low=0, high=torch.inf)
        elif name == "index":
            check_column(name, column, int32, (N,), low=0)
        else:
            check_column(name, column, int32, (N,), low=-1, high=M - 1)


def _check_bits(records: MatchRecords, lanes: Lanes) -> None:
    """Bits stand for lanes and area ranges that are there, and exclude each other."""
    total = lanes.num_areas * lanes.num_thresholds
    words = [_ones(min(total - BITS * word, BITS)) for word in range(lanes.words)]
    for name in ("ground_truth_counted", "match_true_positive", "match_ignored"):
        check_bits(name, getattr(records, name), words)
    areas = [_ones(min(lanes.num_areas - BYTE * n, BYTE)) for n in range(lanes.area_bytes)]
    check_bits("out_of_range", records.out_of_range, areas)
    if (records.match_true_positive & records.match_ignored).any():
        raise ValueError("a detection is both a true positive and ignored")
    unknown = records.image_sizes < 0
    if (unknown[:, 0] != unknown[:, 1]).any():
        raise ValueError("column image_sizes has a height without a width")


def _check_order(records: MatchRecords, rules: RecordRules) -> None:
    """Detections stand by class, image and falling score; objects by image."""
    if int(records.class_counts.sum()) != records.num_detections:
        raise ValueError(f"column class_counts does not add up to {records.num_detections}")
    if (records.ground_truth_image.diff() < 0).any():
        raise ValueError("objects are not ordered by image")
    group = class_and_image(records.label, records.image, records.num_images)
    steps = group.diff()
    if (steps < 0).any():
        raise ValueError("detections are not ordered by class and image")
    if rules.falling_scores and ((steps == 0) & (records.score.diff() > 0)).any():
        raise ValueError("scores of an image and class do not fall")


def _check_matches(records: MatchRecords, rules: RecordRules) -> None:
    """Matches stand by detection and ground truth, which are of one image and class."""
    detection, pair = records.match_detection, records.match_ground_truth.long()
    steps = detection.diff()
    if (steps < 0).any() or ((steps == 0) & (pair.diff() <= 0)).any():
        raise ValueError("matches are not ordered by detection and ground truth")
    for what, mine, theirs in (
        ("image", records.image, records.ground_truth_image),
        ("class", records.label, records.ground_truth_label),
    ):
        if (mine.index_select(0, detection) != theirs.index_select(0, pair)).any():
            raise ValueError(f"a match is of a detection and a ground truth of another {what}")
    positive, ignored = records.match_true_positive, records.match_ignored
    if not ((positive | ignored) != 0).any(dim=1).all():
        raise ValueError("a match is in no lane")
    counted = records.ground_truth_counted.index_select(0, pair)
    if rules.positives_count and (positive & ~counted).any():
        raise ValueError("a true positive matches a ground truth that does not count")
    if rules.positives_count and not rules.used_matches and (ignored & counted).any():
        raise ValueError("a detection is ignored though its ground truth counts")


def _check_lanes_of_matches(records: MatchRecords, rules: RecordRules) -> None:
    """In a lane a detection has one match, and a ground truth one true positive, at most."""
    positive = records.match_true_positive
    both = positive | records.match_ignored
    pair = records.match_ground_truth.long()
    for lane in range(rules.lanes.num_areas * rules.lanes.num_thresholds):
        word, bit = divmod(lane, BITS)
        matched = records.match_detection[(both[:, word] >> bit & 1).bool()]
        if (matched.diff() == 0).any():
            raise ValueError("a detection has two matches in a lane")
        found = pair[(positive[:, word] >> bit & 1).bool()]
        if rules.one_match_each and found.unique().shape[0] < found.shape[0]:  # type: ignore[no-untyped-call]
            raise ValueError("a ground truth has two true positives in a lane")


def _ones(count: int) -> int:
    return (1 << count) - 1
