"""Person layout as the official code computes it, by plain loops over Python floats.

Which step runs is read off the fields of the protocol and never off its name.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import InputError
from ..protocols import LayoutProtocol, load_protocol
from ..results import LayoutResult, PrecisionRecallCurve, as_tensor
from .arithmetic import float64, quotient
from .detection import all_points_ap, eleven_point_ap, voc_curve
from .matching import FALSE_POSITIVE, IGNORED, TRUE_POSITIVE
from .reading import Box, column, positions, read_boxes, read_flags, same_length

Part = tuple[int, Box]
"""Type (index in the protocol's ``parts``) and box."""

Row = tuple[float, int]
"""Score and outcome."""


class Person(NamedTuple):
    """A true person; ``box`` or ``object_index`` is None where the protocol does not use it."""

    box: Box | None
    object_index: int | None
    difficult: bool
    parts: list[Part]


class Layout(NamedTuple):
    """An estimate for a person of the image at this index; ``order`` breaks ties of score."""

    image: int
    score: float
    order: int
    box: Box | None
    object_index: int | None
    parts: list[Part]


Key = tuple[int, int]
"""A person: index of the image, index in it."""


def evaluate_layout(
    protocol: str | LayoutProtocol,
    layouts: Sequence[Mapping[str, Any]],
    persons: Sequence[Mapping[str, Any]],
) -> LayoutResult:
    """Evaluate the layouts of a whole data set at once, by plain loops.

    Args:
        protocol: ``"voc2007"``, ``"layout/voc2007"``, the path of a TOML file, or a protocol.
        layouts: per image ``boxes`` [N, 4] (persons detected) or ``object_index`` [N] (persons
            given), ``scores`` [N], ``part_boxes`` [P, 4], ``part_labels`` [P], ``part_counts`` [N];
            ``order`` [N], where given, is the index in the results file.
        persons: per image ``boxes`` [M, 4] or ``object_index`` [M], ``part_boxes``,
            ``part_labels``, ``part_counts``; where given ``difficult`` [M] and ``image_id``.

    Raises:
        InputError: for inputs that do not fit together, or where the official code itself stops.

    Source:
        VOCcode/VOCevallayout.m (2007, 2008), VOCcode/VOCevallayout_pr.m (2010-2012).
    """
    protocol = load_protocol(protocol, LayoutProtocol)
    if len(layouts) != len(persons):
        raise InputError(
            "as many images are needed on both sides", got=(len(layouts), len(persons))
        )
    places = positions(persons)
    people = {
        (i, m): person
        for i, place in enumerate(places)
        for m, person in enumerate(read_persons(persons[place], protocol, f"persons[{place}]"))
    }
    estimates = [
        estimate
        for i, place in enumerate(places)
        for estimate in read_layouts(layouts[place], i, protocol, f"layouts[{place}]")
    ]
    if protocol.walk == "by_confidence":
        estimates.sort(key=lambda one: (-one.score, one.order))
    else:
        estimates.sort(key=lambda one: one.order)
    if protocol.unit == "part":
        rows, skipped = walk_parts(protocol, estimates, people)
    else:
        rows, skipped = walk_layouts(protocol, estimates, people)
    return layout_result(
        protocol,
        rows,
        count_positives(protocol, list(people.values())),
        num_images=len(places),
        num_skipped=skipped,
    )


def read_persons(one: Mapping[str, Any], rules: LayoutProtocol, where: str) -> list[Person]:
    """Persons of one image in the order given."""
    parts = read_parts(one, rules, where)
    boxes, index = read_places(one, rules, where, len(parts))
    difficult = read_flags(one, "difficult", len(parts), where)
    same_length(where, part_counts=parts, boxes=boxes, object_index=index, difficult=difficult)
    known = [entry for entry in index if entry is not None]
    if len(set(known)) != len(known):
        raise InputError("a person comes twice", where=where, got=known)
    return [Person(*row) for row in zip(boxes, index, difficult, parts, strict=True)]


def read_layouts(
    one: Mapping[str, Any], image: int, rules: LayoutProtocol, where: str
) -> list[Layout]:
    """Layouts of one image in the order given."""
    parts = read_parts(one, rules, where)
    boxes, index = read_places(one, rules, where, len(parts))
    scores = [float(value) for value in column(one, "scores")]
    order = [int(value) for value in column(one, "order")] if "order" in one else [0] * len(parts)
    same_length(
        where, part_counts=parts, boxes=boxes, object_index=index, scores=scores, order=order
    )
    if any(math.isnan(score) for score in scores):
        raise InputError("scores must not be NaN", where=where, got=scores)
    rows = zip(scores, order, boxes, index, parts, strict=True)
    return [Layout(image, *row) for row in rows]


def read_places(
    one: Mapping[str, Any], rules: LayoutProtocol, where: str, count: int
) -> tuple[Sequence[Box | None], Sequence[int | None]]:
    """Boxes where persons are detected, object indices where they are given."""
    if rules.persons == "detected":
        return read_boxes(one, rules, "xyxy", where), [None] * count
    return [None] * count, [int(value) for value in column(one, "object_index")]


def read_parts(one: Mapping[str, Any], rules: LayoutProtocol, where: str) -> list[list[Part]]:
    """Parts of each person or layout."""
    boxes = read_boxes({"boxes": one["part_boxes"]}, rules, "xyxy", where)
    labels = [int(value) for value in column(one, "part_labels")]
    counts = [int(value) for value in column(one, "part_counts")]
    same_length(where, part_boxes=boxes, part_labels=labels)
    if min(counts, default=0) < 0 or sum(counts) != len(boxes):
        raise InputError("part_counts must add up to the parts", where=where, got=counts)
    if not all(0 <= label < len(rules.parts) for label in labels):
        raise InputError("unknown part", where=where, got=labels)
    parts = iter(list(zip(labels, boxes, strict=True)))
    return [[next(parts) for _ in range(count)] for count in counts]


def iou(first: Box, second: Box, rules: LayoutProtocol) -> float:
    """Intersection over union; 0 where the boxes do not meet. Source: iw, ih, ua, ov there."""
    one = 1 if rules.coordinates == "inclusive_pixels" else 0
    width = min(first.x2, second.x2) - max(first.x1, second.x1) + one
    height = min(first.y2, second.y2) - max(first.y1, second.y1) + one
    if width <= 0 or height <= 0:
        return 0.0
    return quotient(width * height, first.area + second.area - width * height)


def largest(overlaps: Sequence[float]) -> tuple[int, float]:
    """Place and value of the largest overlap above 0, the first of equal ones; -1 if none is."""
    place, best = -1, 0.0
    for i, value in enumerate(overlaps):
        if value > best:
            place, best = i, value
    return place, best


def find_person(rules: LayoutProtocol, one: Layout, people: Mapping[Key, Person]) -> Key | None:
    """Whom a layout is about: by overlap where persons are detected, else by its object index."""
    here = [key for key in people if key[0] == one.image]
    if rules.persons == "given":
        return next((k for k in here if people[k].object_index == one.object_index), None)
    boxes = [people[key].box for key in here]
    assert one.box is not None
    place, best = largest([iou(one.box, box, rules) for box in boxes if box is not None])
    return here[place] if best >= rules.person_iou_threshold else None


def parts_ok(rules: LayoutProtocol, found: list[Part], true: list[Part]) -> bool:
    """Whether a layout shows the parts that are there, no more and no fewer.

    Source: VOCevallayout.m 2007 and 2008, parts_ok.
    """
    if len(found) != len(true):
        return False
    if not found:
        if rules.both_without_parts == "error":
            raise InputError(
                "a layout without parts stands on a person without parts",
                remedy="leave such layouts out: the official code stops at them",
            )
        return False
    if len(found) == 1 and rules.single_part == "never_correct":
        return False
    matches = [
        [
            label == other and iou(box, second, rules) >= rules.part_iou_threshold
            for other, second in true
        ]
        for label, box in found
    ]
    for part in range(len(rules.parts)):
        mine = [k for k, (label, _) in enumerate(found) if label == part]
        theirs = [g for g, (label, _) in enumerate(true) if label == part]
        if len(mine) != len(theirs):
            return False
        if not all(any(matches[k][g] for k in mine) for g in theirs):
            return False
        if sum(any(matches[k]) for k in mine) < len(theirs):
            return False
    return True


def walk_layouts(
    rules: LayoutProtocol, estimates: list[Layout], people: Mapping[Key, Person]
) -> tuple[list[list[Row]], int]:
    """Judge whole layouts one after the other; also how many were skipped.

    Source: VOCevallayout.m 2007 and 2008, the loop over d.
    """
    rows: list[Row] = []
    closed: set[Key] = set()
    skipped = 0
    for one in estimates:
        key = find_person(rules, one, people)
        unknown = key is None and rules.persons == "given"
        if unknown or (key in closed and rules.attempts == "first_only"):
            skipped += 1
            rows.append((one.score, IGNORED))
            continue
        correct = False
        if key is not None and key not in closed:
            correct = parts_ok(rules, one.parts, people[key].parts)
            if correct or rules.attempts != "until_correct":
                closed.add(key)
        rows.append((one.score, TRUE_POSITIVE if correct else FALSE_POSITIVE))
    return [rows], skipped


def walk_parts(
    rules: LayoutProtocol, estimates: list[Layout], people: Mapping[Key, Person]
) -> tuple[list[list[Row]], int]:
    """Judge the parts of the first layout of each person; also how many parts were skipped.

    Source: VOCevallayout_pr.m, the loops over layouts and parts.
    """
    rows: list[list[Row]] = [[] for _ in rules.parts]
    seen: set[Key] = set()
    skipped = 0
    for one in estimates:
        key = find_person(rules, one, people)
        if key is None or key in seen:
            skipped += len(one.parts)
            continue
        seen.add(key)
        true = people[key].parts
        used: set[int] = set()
        for label, box in one.parts:
            overlaps = [iou(box, b, rules) if other == label else 0.0 for other, b in true]
            place, best = largest(overlaps)
            hit = best >= rules.part_iou_threshold and place not in used
            if hit:
                used.add(place)
            rows[label].append((one.score, TRUE_POSITIVE if hit else FALSE_POSITIVE))
    return rows, skipped


def count_positives(rules: LayoutProtocol, people: list[Person]) -> list[int]:
    """Persons that count, or their parts by type."""
    if rules.counted_persons == "with_parts_and_not_difficult":
        people = [person for person in people if person.parts and not person.difficult]
    if rules.unit == "layout":
        return [len(people)]
    labels = [label for person in people for label, _ in person.parts]
    return [labels.count(part) for part in range(len(rules.parts))]


def layout_result(
    rules: LayoutProtocol, rows: list[list[Row]], num_positives: list[int], **counts: int
) -> LayoutResult:
    """Curves and average precision of each class.

    Source: VOCevallayout.m after the loop (v = tp + fp > 0: leading skipped layouts leave the
    curve, later ones repeat the entry before), VOCap.m.
    """
    average, curves, hits, misses = [], [], [], []
    for walked, positives in zip(rows, num_positives, strict=True):
        ranked = list(itertools.dropwhile(lambda row: row[1] == IGNORED, walked))
        outcomes = [outcome for _, outcome in ranked]
        recall, precision = voc_curve(outcomes, positives, 0.0)
        if rules.interpolation == "eleven_point":
            value = eleven_point_ap(recall, precision, rules.recall_levels)
        else:
            value = all_points_ap(recall, precision)
        average.append(value if counts["num_images"] else math.nan)
        scores = [score for score, _ in ranked]
        curves.append(PrecisionRecallCurve(*map(float64, (recall, precision, scores))))
        hits.append(outcomes.count(TRUE_POSITIVE))
        misses.append(outcomes.count(FALSE_POSITIVE))
    return LayoutResult(
        protocol=rules,
        class_names=rules.class_names,
        average_precision=float64(average),
        num_classes_averaged=sum(positives > 0 for positives in num_positives),
        num_positives=as_tensor(np.array(num_positives, dtype=np.int64)),
        true_positives=as_tensor(np.array(hits, dtype=np.int64)),
        false_positives=as_tensor(np.array(misses, dtype=np.int64)),
        curves=tuple(curves),
        **counts,
    )
