"""The Jaccard index of CrowdHuman: an optimal one-to-one matching at several score limits."""

from __future__ import annotations

import math

import numpy as np

from ..protocols import MissRateProtocol
from .pedestrians import Picture, Rect

MATCHED = 0.5


def jaccard_counts(picture: Picture, rules: MissRateProtocol) -> list[tuple[int, int, int]]:
    """Matches, detections and objects that take part, at each score limit.

    Source: CrowdDet lib/evaluate, compute_JI.py compute_JI_with_ignore.
    """
    objects = [one.standard for one in picture.objects if not one.ignored]
    regions = [one.region for one in picture.objects if one.ignored]
    counts = []
    for limit in rules.jaccard_scores:
        ranked = sorted(picture.detections, key=lambda d: (-d.score, d.order))
        found = [d.box for d in ranked if d.score > limit]
        matched = best_assignment(found, objects, rules)
        owned = set(matched.values())
        lost = [d for d in range(len(found)) if d not in matched]
        hidden = [g for g in range(len(objects)) if g not in owned]
        lost = [d for d in lost if inside(found[d], regions, rules)]
        hidden = [g for g in hidden if inside(objects[g], regions, rules)]
        counts.append((len(matched), len(found) - len(lost), len(objects) - len(hidden)))
    return counts


def iou(one: Rect, other: Rect, rules: MissRateProtocol) -> float:
    """Intersection over union with the protocol's epsilon."""
    shared = intersection(one, other)
    if shared == 0:
        return 0.0
    return shared / (one.area + other.area - shared + rules.overlap_epsilon)


def inside(one: Rect, regions: list[Rect], rules: MissRateProtocol) -> bool:
    """Whether more than half of a box lies in one ignore region."""
    return any(
        intersection(one, region) > 0
        and intersection(one, region) / (one.area + rules.overlap_epsilon) > MATCHED
        for region in regions
    )


def intersection(one: Rect, other: Rect) -> float:
    """The area that two boxes share."""
    width = max(min(one.x2, other.x2) - max(one.x1, other.x1), 0)
    height = max(min(one.y2, other.y2) - max(one.y1, other.y1), 0)
    return width * height


def best_assignment(
    found: list[Rect], objects: list[Rect], rules: MissRateProtocol
) -> dict[int, int]:
    """Pair detections and objects one to one, so that the overlaps add up to the most.

    Only overlaps above 0.5 make a pair. Detections are placed one after the other: each goes the
    cheapest way on which others may move to another object or to none, in terms of prices that
    are kept for detections and for indices; among equally cheap ways the first index is taken.

    Source: CrowdDet lib/evaluate, compute_JI.py; the method is Kuhn's, as Munkres wrote it.
    """
    count = len(objects)  # index g < count is object g, index count + d is none, for detection d
    cost = [[math.inf] * (count + len(found)) for _ in found]
    for d, box in enumerate(found):
        for g, other in enumerate(objects):
            overlap = iou(box, other, rules)
            if overlap > MATCHED:
                cost[d][g] = -overlap
        cost[d][count + d] = 0.0
    row_price = [0.0] * len(found)
    place_price = [0.0] * (count + len(found))
    owner: dict[int, int] = {}
    for d in range(len(found)):
        least = [math.inf] * len(place_price)
        before: list[int | None] = [None] * len(place_price)
        visited: list[int] = []
        row, last = d, None
        while True:
            for index in range(len(place_price)):
                if index in visited or cost[row][index] == math.inf:
                    continue
                price = cost[row][index] - row_price[row] - place_price[index]
                if price < least[index]:
                    least[index], before[index] = price, last
            free = [index for index in range(len(place_price)) if index not in visited]
            nearest = min(free, key=lambda index: least[index])
            step = least[nearest]
            row_price[d] += step
            for index in visited:
                row_price[owner[index]] += step
                place_price[index] -= step
            for index in free:
                least[index] -= step
            last = nearest
            if nearest not in owner:
                break
            visited.append(nearest)
            row = owner[nearest]
        while last is not None:
            previous = before[last]
            owner[last] = d if previous is None else owner[previous]
            last = previous
    return {d: index for index, d in owner.items() if index < count}


def jaccard_index(counts: list[list[tuple[int, int, int]]], rules: MissRateProtocol) -> list[float]:
    """Mean over the images that hold anything, at each score limit.

    Source: CrowdDet lib/evaluate, compute_JI.py: k / (m + n - k + eps).
    """
    means = []
    for level in range(len(rules.jaccard_scores)):
        values = [
            k / (m + n - k + rules.jaccard_epsilon)
            for k, n, m in (image[level] for image in counts)
            if n or m
        ]
        means.append(float(np.mean(values)) if values else math.nan)
    return means
