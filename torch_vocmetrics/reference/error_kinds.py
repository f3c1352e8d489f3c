"""Kinds of errors and what they cost, by plain loops over judged detections (TIDE, ECCV 2020)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..protocols import DetectionProtocol
from .detection import all_points_ap, coco_accumulate, eleven_point_ap, voc_curve
from .judged import Judged, JudgedDetection, rank
from .matching import FALSE_POSITIVE, TRUE_POSITIVE

Point = tuple[int, JudgedDetection, bool]
"""The class in which a detection is ranked, the detection, and whether it is a true positive."""


class Errors(NamedTuple):
    """Count and cost of each kind, the mean AP before, and the costs of all errors of a side."""

    counts: dict[str, int]
    costs: dict[str, float]
    average_precision: float
    false_positive_cost: float
    false_negative_cost: float


def kind_of(
    row: JudgedDetection,
    judged: Judged,
    iou_threshold: float,
    background_threshold: float,
    *,
    strict: bool,
) -> str:
    """The kind of a false positive. Overlaps are kept in float32, and so compared."""
    counted = {(one.image, one.row): one.found for one in judged.objects if one.counted}
    own = np.float32(row.own if (row.image, row.own_object) in counted else 0)
    other = np.float32(row.other if (row.image, row.other_object) in counted else 0)
    bar, floor = np.float32(iou_threshold), np.float32(background_threshold)
    own_reaches = own > bar if strict else own >= bar
    other_reaches = other > bar if strict else other >= bar
    duplicate = own_reaches and counted[row.image, row.own_object]
    if own > 0 and own >= floor and not duplicate:
        return "localization"
    if other_reaches:
        return "classification"
    if duplicate:
        return "duplicate"
    return "background" if own <= floor and other <= floor else "both"


def error_kinds(
    judged: Judged, rules: DetectionProtocol, iou_threshold: float, background_threshold: float
) -> Errors:
    """Count the errors and mend one kind at a time."""
    strict = rules.comparison == ">"
    bar = min(iou_threshold, rules.iou_threshold_ceiling)
    kinds = {
        row: kind_of(row, judged, bar, background_threshold, strict=strict)
        for row in sorted(judged.detections, key=rank)
        if row.false_positive
    }
    mends: dict[tuple[int, int], JudgedDetection] = {}
    for row, kind in kinds.items():
        at = about(row, kind)
        if at is not None:
            mends.setdefault(at, row)
    unfound = [one for one in judged.objects if one.counted and not one.found]
    missed = [one for one in unfound if (one.image, one.row) not in mends]
    for taken in set(mends) - {(one.image, one.row) for one in unfound}:
        del mends[taken]
    labels = range(len(judged.class_names))
    positives = [sum(one.counted and one.label == k for one in judged.objects) for k in labels]
    found = [sum(one.found and one.label == k for one in judged.objects) for k in labels]
    base = [(row.label, row, row.true_positive) for row in judged.detections if not row.ignored]
    before = mean_ap(base, positives, positives, rules)
    counts, costs = {}, {}
    for kind in ("classification", "localization", "both", "duplicate", "background", "missed"):
        counts[kind] = list(kinds.values()).count(kind) if kind != "missed" else len(missed)
        gone = [one.label for one in missed if kind == "missed"]
        left = [count - gone.count(k) for k, count in enumerate(positives)]
        points = mended(base, kinds, mends, judged, kind)
        costs[kind] = mean_ap(points, left, positives, rules) - before
    hits = [point for point in base if point[2]]
    return Errors(
        counts,
        costs,
        before,
        mean_ap(hits, positives, positives, rules) - before,
        mean_ap(base, found, positives, rules) - before,
    )


def about(row: JudgedDetection, kind: str) -> tuple[int, int] | None:
    """The object (image and row) that an error of localization or classification is about."""
    if kind == "localization":
        return row.image, row.own_object
    return (row.image, row.other_object) if kind == "classification" else None


def mended(
    base: list[Point],
    kinds: dict[JudgedDetection, str],
    mends: dict[tuple[int, int], JudgedDetection],
    judged: Judged,
    kind: str,
) -> list[Point]:
    """The ranking without the errors of a kind, but for those that become true positives."""
    label_of = {(one.image, one.row): one.label for one in judged.objects}
    points = []
    for label, row, hit in base:
        at = [at for at, first in mends.items() if first is row]
        if kinds.get(row) != kind:
            points.append((label, row, hit))
        elif at:
            points.append((label_of[at[0]], row, True))
    return points


def mean_ap(
    points: list[Point], left: list[int], positives: list[int], rules: DetectionProtocol
) -> float:
    """Mean AP over the classes with positives; 0 for those of which no object is left."""
    values = []
    for k, count in enumerate(left):
        if positives[k] == 0:
            continue
        ranked = [point for point in points if point[0] == k]
        ranked.sort(key=lambda point: rank(point[1]))
        outcomes = [TRUE_POSITIVE if hit else FALSE_POSITIVE for _, _, hit in ranked]
        scores = [row.score for _, row, _ in ranked]
        values.append(one_ap(scores, outcomes, count, rules) if count else 0.0)
    return sum(values) / len(values) if values else math.nan


def one_ap(
    scores: list[float], outcomes: list[int], positives: int, rules: DetectionProtocol
) -> float:
    """Average precision of one ranking by the steps of the official code."""
    if rules.interpolation == "recall_grid":
        precision = coco_accumulate(scores, outcomes, positives, rules)[1]
        return sum(precision) / len(precision)
    recall, precision = voc_curve(outcomes, positives, rules.precision_epsilon)
    if rules.interpolation == "eleven_point":
        return eleven_point_ap(recall, precision, rules.recall_levels)
    return all_points_ap(recall, precision)
