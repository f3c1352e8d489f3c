"""Counts of one image, its false positives and its missed objects, by plain loops."""

from __future__ import annotations

from typing import NamedTuple

from .judged import Judged, JudgedDetection, JudgedObject, rank


class ImageCounts(NamedTuple):
    """What became of the detections of an image with a score or a higher one."""

    true_positives: int
    false_positives: int
    false_negatives: int


def image_counts(judged: Judged, image: int, score: float) -> ImageCounts:
    """Counts of an image."""
    kept = [row for row in judged.detections if row.image == image and row.score >= score]
    true = sum(row.true_positive for row in kept)
    false = sum(row.false_positive for row in kept)
    missed = [one for one in missed_objects(judged, score) if one.image == image]
    return ImageCounts(true, false, len(missed))


def false_positives(judged: Judged, score: float) -> list[JudgedDetection]:
    """False positives by falling score, order, image, class and row."""
    rows = [row for row in judged.detections if row.false_positive and row.score >= score]
    return sorted(rows, key=rank)


def missed_objects(judged: Judged, score: float) -> list[JudgedObject]:
    """Objects that count and that no true positive of a score or a higher one matched."""
    found = {
        (row.image, row.ground_truth)
        for row in judged.detections
        if row.true_positive and row.score >= score
    }
    return [one for one in judged.objects if one.counted and (one.image, one.row) not in found]
