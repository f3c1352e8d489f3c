"""Which detection takes which object: the loops of VOC and of COCO, at one image and class.

Both take the same arguments, so that a protocol may combine either with any other rule.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ..protocols import AreaRange, DetectionProtocol
from .arithmetic import below, by_score, outside, quotient
from .masks import mask_overlap
from .reading import Detection, GroundTruth

TRUE_POSITIVE, FALSE_POSITIVE, IGNORED = 1, 0, -1


class ImageOutcome(NamedTuple):
    """Detections of one image and class in order of matching; ``outcomes[t][d]`` of each."""

    detections: list[Detection]
    outcomes: list[list[int]]
    num_positives: int


def overlap(found: Detection, ground_truth: GroundTruth, rules: DetectionProtocol) -> float:
    """Intersection over union, or over the detection's area; 0 where the two do not meet.

    Source: VOCevaldet.m (iw, ih, ua, ov); maskApi.c bbIou (w, h, i, u, o), rleIou.
    """
    if found.mask is not None and ground_truth.mask is not None:
        crowd = ground_truth.over_detection_area
        return mask_overlap(found.mask, ground_truth.mask, over_first=crowd)
    detection, other = found.box, ground_truth.box
    width = min(detection.x2, other.x2) - max(detection.x1, other.x1)
    height = min(detection.y2, other.y2) - max(detection.y1, other.y1)
    if rules.coordinates == "inclusive_pixels":
        width, height = width + 1, height + 1
    if width <= 0 or height <= 0:
        return 0.0
    intersection = width * height
    if ground_truth.over_detection_area:
        return quotient(intersection, detection.area)
    return quotient(intersection, detection.area + other.area - intersection)


def voc_match(
    overlaps: list[list[float]],
    ignored: list[bool],
    reusable: list[bool],
    threshold: float,
    rules: DetectionProtocol,
) -> list[int]:
    """Say which object each detection claims, -1 for none: only that of largest overlap may be.

    Taken and ignored objects take part in the search, so either can hide another one that passes.
    ``ignored`` is not looked at: VOC has no preference for objects that count.

    Source: VOCevaldet.m, the loop over detections; VOCpr.m, where a difficult object is used up.
    """
    taken = [False] * len(ignored)
    matches = []
    for row in overlaps:
        best, match = -math.inf, -1
        for g, value in enumerate(row):
            if not value > 0:
                continue
            if value > best or (rules.equal_overlaps == "last" and value == best):
                best, match = value, g
        if match >= 0 and below(best, threshold, strict=rules.comparison == ">"):
            match = -1
        if match >= 0 and taken[match] and not reusable[match]:
            match = -1
        if match >= 0:
            taken[match] = True
        matches.append(match)
    return matches


def coco_match(
    overlaps: list[list[float]],
    ignored: list[bool],
    reusable: list[bool],
    threshold: float,
    rules: DetectionProtocol,
) -> list[int]:
    """Say which object each detection claims, -1 for none: the best of those still free.

    Objects that count come before ignored ones, whatever the overlap.

    Source: cocoeval.py COCOeval.evaluateImg, the loops over dt and gt.
    """
    by_preference = sorted(range(len(ignored)), key=lambda g: ignored[g])
    taken = [False] * len(ignored)
    matches = []
    for row in overlaps:
        best, match = threshold, -1
        for g in by_preference:
            if taken[g] and not reusable[g]:
                continue
            if match > -1 and not ignored[match] and ignored[g]:
                break
            strict = rules.equal_overlaps == "first" if match > -1 else rules.comparison == ">"
            if below(row[g], best, strict=strict):
                continue
            best, match = row[g], g
        if match > -1:
            taken[match] = True
        matches.append(match)
    return matches


def evaluate_image(
    detections: list[Detection],
    ground_truths: list[GroundTruth],
    area_range: AreaRange,
    rules: DetectionProtocol,
) -> ImageOutcome:
    """Match one image and class in one area range, at every threshold.

    Source: cocoeval.py COCOeval.evaluateImg. VOCevaldet.m walks over the detections of all images
    in one loop; as no detection touches another image, image after image gives the same.
    """
    ranked = by_score(detections, key=lambda row: row)
    if rules.max_detections:
        ranked = ranked[: rules.max_detections[-1]]
    overlaps = [[overlap(d, g, rules) for g in ground_truths] for d in ranked]
    ignored = [g.ignored or outside(g.area, area_range) for g in ground_truths]
    reusable = [g.reusable for g in ground_truths]
    match = voc_match if rules.candidates == "best" else coco_match
    outcomes = []
    for threshold in rules.thresholds:
        row = []
        matches = match(overlaps, ignored, reusable, threshold, rules)
        for detection, g in zip(ranked, matches, strict=True):
            if g >= 0:
                row.append(IGNORED if ignored[g] else TRUE_POSITIVE)
            else:
                out = outside(detection.box.area, area_range)
                row.append(IGNORED if out else FALSE_POSITIVE)
        outcomes.append(row)
    return ImageOutcome(ranked, outcomes, ignored.count(False))
