"""What became of every detection and object under one lane, by plain loops; analyses start here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from ..protocols import DetectionProtocol
from .arithmetic import by_score, outside
from .matching import coco_match, overlap, voc_match
from .reading import Detection, GroundTruth, positions, read_classes, read_images, read_labels

Row = TypeVar("Row")


class JudgedDetection(NamedTuple):
    """A detection and its outcome.

    ``order`` breaks ties of score; it is 0 where none was given.
    ``ground_truth`` is the matched object (row of its image, -1 for none) and ``overlap`` that
    with it. ``own`` and ``other`` are the best overlaps with objects of the same class and of other
    classes that no flag excuses, with the rows of those objects (-1 for none).
    """

    image: int
    row: int
    label: int
    score: float
    order: int
    true_positive: bool
    ignored: bool
    ground_truth: int
    overlap: float
    own: float
    own_object: int
    other: float
    other_object: int

    @property
    def false_positive(self) -> bool:
        """Neither a true positive nor ignored."""
        return not self.true_positive and not self.ignored


class JudgedObject(NamedTuple):
    """An object; ``found`` if it counts and a true positive matched it."""

    image: int
    row: int
    label: int
    area: float
    counted: bool
    found: bool


class Judged(NamedTuple):
    """A whole data set: detections by falling score, order, image and row; objects as they came."""

    detections: list[JudgedDetection]
    objects: list[JudgedObject]
    num_images: int
    class_names: tuple[str, ...]


def rank(row: JudgedDetection) -> tuple[float, int, int, int]:
    """What detections are sorted by: falling score, order, image and class."""
    return -row.score, row.order, row.image, row.label


def judge(
    rules: DetectionProtocol,
    detections: Sequence[Mapping[str, Any]],
    ground_truths: Sequence[Mapping[str, Any]],
    *,
    iou_threshold: float = 0.5,
    area: str | None = None,
    num_classes: int | None = None,
    class_names: Sequence[str] | None = None,
    label_ids: Sequence[int] | None = None,
    box_format: str = "xyxy",
) -> Judged:
    """Match a data set in one lane and list what became of every row.

    Args:
        rules: the protocol.
        detections, ground_truths: as :func:`torch_vocmetrics.reference.evaluate` takes them.
        iou_threshold: one of the protocol's.
        area: name of an area range; the headline one by default.
        num_classes, class_names, label_ids, box_format: as for ``evaluate``.

    Images are numbered in the order of their ids.
    """
    names, ids = read_classes(num_classes, class_names, label_ids)
    names, ids = (("all",), dict.fromkeys(ids, 0)) if rules.class_agnostic else (names, ids)
    images = read_images(rules, detections, ground_truths, ids, box_format)
    judged = Judged([], [], len(images), names)
    for number, place in enumerate(positions(ground_truths)):
        found = _numbered(images[number].detections, read_labels(detections[place], ids, "labels"))
        truth = _numbered(
            images[number].ground_truths, read_labels(ground_truths[place], ids, "labels")
        )
        for label in range(len(names)):
            _judge_class(judged, rules, number, label, found[label], truth, iou_threshold, area)
    judged.detections.sort(key=lambda row: (-row.score, row.order, row.image, row.row))
    judged.objects.sort(key=lambda row: (row.image, row.row))
    return judged


def _numbered(by_class: list[list[Row]], labels: list[int]) -> list[list[tuple[Row, int]]]:
    """The rows of each class with their index in the image."""
    return [
        list(zip(rows, (i for i, label in enumerate(labels) if label == k), strict=True))
        for k, rows in enumerate(by_class)
    ]


def _judge_class(
    judged: Judged,
    rules: DetectionProtocol,
    image: int,
    label: int,
    found: list[tuple[Detection, int]],
    truth: list[list[tuple[GroundTruth, int]]],
    iou_threshold: float,
    area: str | None,
) -> None:
    """Add the rows of one image and class to ``judged``."""
    names = [entry.name for entry in rules.area_ranges]
    chosen = rules.area_ranges[names.index(rules.headline_area if area is None else area)]
    threshold = rules.thresholds[rules.iou_thresholds.index(iou_threshold)]
    ranked = by_score(found, key=lambda row: row[0])
    if rules.max_detections:
        ranked = ranked[: rules.max_detections[-1]]
    objects = truth[label]
    ignored = [one.ignored or outside(one.area, chosen) for one, _ in objects]
    overlaps = [[overlap(row, one, rules) for one, _ in objects] for row, _ in ranked]
    match = voc_match if rules.candidates == "best" else coco_match
    matches = match(overlaps, ignored, [one.reusable for one, _ in objects], threshold, rules)
    hits = [g for g in matches if g >= 0 and not ignored[g]]
    for (row, index), values, g in zip(ranked, overlaps, matches, strict=True):
        others = [one for k, rows in enumerate(truth) if k != label for one in rows]
        judged.detections.append(
            JudgedDetection(
                image,
                index,
                label,
                row.score,
                row.order,
                g >= 0 and not ignored[g],
                ignored[g] if g >= 0 else outside(row.box.area, chosen),
                objects[g][1] if g >= 0 else -1,
                values[g] if g >= 0 else 0.0,
                *_best(row, objects, rules),
                *_best(row, others, rules),
            )
        )
    for g, (one, index) in enumerate(objects):
        judged.objects.append(
            JudgedObject(image, index, label, one.area, not ignored[g], g in hits)
        )


def _best(
    detection: Detection, objects: list[tuple[GroundTruth, int]], rules: DetectionProtocol
) -> tuple[float, int]:
    """The best overlap with an object that no flag excuses, and the row of the first of these."""
    best, match = 0.0, -1
    for one, row in sorted(objects, key=lambda entry: entry[1]):
        value = overlap(detection, one, rules)
        if value > best and not one.ignored:
            best, match = value, row
    return best, match
