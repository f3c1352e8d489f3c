"""Operating points, confusion, LRP and calibration by plain loops over judged detections."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .arithmetic import quotient
from .judged import Judged, JudgedDetection, rank


class Counts(NamedTuple):
    """What is left of a group when detections below a score are dropped."""

    score: float
    true_positives: int
    false_positives: int
    false_negatives: int

    @property
    def precision(self) -> float:
        """TP / (TP + FP)."""
        return quotient(self.true_positives, self.true_positives + self.false_positives)

    @property
    def recall(self) -> float:
        """TP / (TP + FN)."""
        return quotient(self.true_positives, self.true_positives + self.false_negatives)

    def f_beta(self, beta: float) -> float:
        """F-beta, van Rijsbergen (1979)."""
        weighted = (1 + beta * beta) * self.true_positives
        errors = beta * beta * self.false_negatives + self.false_positives
        return quotient(weighted, weighted + errors)


def of_group(judged: Judged, label: int | None) -> list[JudgedDetection]:
    """The detections of a class, or of all (None), that are not ignored."""
    return [row for row in judged.detections if label in (None, row.label) and not row.ignored]


def positives(judged: Judged, label: int | None) -> int:
    """How many objects of a class, or of all (None), count."""
    return sum(one.counted and label in (None, one.label) for one in judged.objects)


def counts_at(judged: Judged, label: int | None, score: float) -> Counts:
    """Counts among the detections with a score or a higher one."""
    kept = [row for row in of_group(judged, label) if row.score >= score]
    true = sum(row.true_positive for row in kept)
    return Counts(score, true, len(kept) - true, positives(judged, label) - true)


def curve(judged: Judged, label: int | None) -> list[Counts]:
    """Counts at every distinct score, by falling score."""
    scores = sorted({row.score for row in of_group(judged, label)}, reverse=True)
    return [counts_at(judged, label, score) for score in scores]


def best(judged: Judged, label: int | None, beta: float) -> Counts:
    """The counts of the largest F-beta, at the highest score of several."""
    chosen = counts_at(judged, label, math.inf)
    for counts in curve(judged, label):
        if counts.f_beta(beta) > (chosen.f_beta(beta) if chosen.true_positives else 0.0):
            chosen = counts
    return chosen


def best_common_score(judged: Judged, beta: float) -> float:
    """The highest score of the largest mean F-beta over the classes with positives."""
    labels = [k for k in range(len(judged.class_names)) if positives(judged, k)]
    best_score, largest = math.inf, -1.0
    for score in sorted({row.score for row in of_group(judged, None)}, reverse=True):
        total = 0.0
        for label in labels:
            counts = counts_at(judged, label, score)
            total += counts.f_beta(beta)
        if total > largest:
            best_score, largest = score, total
    return best_score


def confusion(
    judged: Judged, score: float, iou_threshold: float, *, strict: bool
) -> list[list[int]]:
    """Rows are classes of objects and columns of detections, background last.

    Same class first: true positives keep their objects. Then, by falling score, a false positive
    takes the object of another class that it overlaps most, if that is enough and nobody has it.
    Overlaps are kept in float32, and so compared.
    """
    K = len(judged.class_names)
    matrix = [[0] * (K + 1) for _ in range(K + 1)]
    kept = [row for row in judged.detections if row.score >= score and not row.ignored]
    kept.sort(key=rank)
    label_of = {(one.image, one.row): one.label for one in judged.objects if one.counted}
    taken = {(row.image, row.ground_truth) for row in kept if row.true_positive}
    for row in kept:
        if row.true_positive:
            matrix[row.label][row.label] += 1
            continue
        wanted = (row.image, row.other_object)
        overlap, bar = np.float32(row.other), np.float32(iou_threshold)
        enough = overlap > bar if strict else overlap >= bar
        if enough and wanted in label_of and wanted not in taken:
            taken.add(wanted)
            matrix[label_of[wanted]][row.label] += 1
        else:
            matrix[K][row.label] += 1
    for one, label in label_of.items():
        if one not in taken:
            matrix[label][K] += 1
    return matrix


class Lrp(NamedTuple):
    """Localisation recall precision error, its three parts, and the score of the optimum."""

    value: float
    localization: float
    false_positive: float
    false_negative: float
    score: float


def lrp_at(judged: Judged, label: int, iou_threshold: float, score: float) -> Lrp:
    """LRP and its parts at a score. Oksuz et al., ECCV 2018, equations 1 to 6."""
    kept = [row for row in of_group(judged, label) if row.score >= score]
    error = math.fsum(1 - row.overlap for row in kept if row.true_positive)
    counts = counts_at(judged, label, score)
    wrong = counts.false_positives + counts.false_negatives
    return Lrp(
        quotient(error / (1 - iou_threshold) + wrong, counts.true_positives + wrong),
        quotient(error, counts.true_positives),
        1 - counts.precision,
        1 - counts.recall,
        score,
    )


def optimal_lrp(judged: Judged, label: int, iou_threshold: float) -> Lrp:
    """The smallest LRP over all scores (equation 7); a score of infinity keeps nothing.

    Without objects there is nothing to find, and it is undefined.
    """
    scores = [math.inf]
    if positives(judged, label):
        scores += [counts.score for counts in curve(judged, label)]
    every = [lrp_at(judged, label, iou_threshold, score) for score in scores]
    return min(every, key=lambda lrp: lrp.value)


class Bin(NamedTuple):
    """Detections whose scores lie in one bin."""

    size: int
    mean_score: float
    precision: float


def reliability(judged: Judged, label: int | None, num_bins: int) -> tuple[list[Bin], float]:
    """Bins of equal width over [0, 1], and D-ECE. Kueppers et al., CVPR Workshops 2020."""
    rows = of_group(judged, label)
    bins, error = [], 0.0
    for b in range(num_bins):
        inside = [row for row in rows if min(int(row.score * num_bins), num_bins - 1) == b]
        mean = quotient(math.fsum(row.score for row in inside), len(inside))
        precision = quotient(sum(row.true_positive for row in inside), len(inside))
        bins.append(Bin(len(inside), mean, precision))
        if inside:
            error += len(inside) / len(rows) * abs(precision - mean)
    return bins, error if rows else math.nan
