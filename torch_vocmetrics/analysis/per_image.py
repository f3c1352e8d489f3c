"""Which images go well and which badly, and what to look at there."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from ..curves.precision_recall import Floats
from ..errors import InputError
from ..ops.selection import rows_where
from ..protocols import DetectionProtocol, Protocol
from ..results import Table
from .average_precision import average_precision
from .lane_view import LaneView
from .operating_point import f_beta
from .source import diagnostics_of
from .tide import CLASSIFICATION, KINDS, kinds_of

ImageId = int | str


@dataclass(frozen=True, eq=False)
class ImageScores(Table):
    """One row for each image.

    Attributes:
        image_id: [I] ids as given, or the number of the image in order of arrival.
        true_positives, false_positives, false_negatives: [I] int64, at the score asked for.
        precision, recall, f_score: [I] float64, NaN for 0/0.
        average_precision: [I] float64, what the metric would give for the image alone at the one
            threshold: the mean over its classes; NaN for images without objects that count.
    """

    image_id: tuple[ImageId, ...]
    true_positives: Tensor
    false_positives: Tensor
    false_negatives: Tensor
    precision: Tensor
    recall: Tensor
    f_score: Tensor
    average_precision: Tensor

    def best(self, count: int, by: str = "f_score") -> Self:
        """The rows of the largest values of a column, the largest first; NaN left out.

        Args:
            count: how many rows.
            by: name of a column of numbers.

        Raises:
            InputError: if there is no such column.
        """
        return self._first(count, by, descending=True)

    def worst(self, count: int, by: str = "f_score") -> Self:
        """The rows of the smallest values of a column; arguments as for :meth:`best`."""
        return self._first(count, by, descending=False)

    def _first(self, count: int, by: str, *, descending: bool) -> Self:
        columns = [field.name for field in dataclasses.fields(self)][1:]
        if by not in columns:
            raise InputError(
                f"there is no column {by!r}", where="by", remedy=f"use {', '.join(columns)}"
            )
        values: Tensor = getattr(self, by)
        order = torch.argsort(values, descending=descending, stable=True)
        rows = order[~values[order].isnan()][:count]
        taken = {name: getattr(self, name)[rows] for name in columns}
        return type(self)(image_id=tuple(self.image_id[row] for row in rows.tolist()), **taken)


@dataclass(frozen=True, eq=False)
class FalsePositives(Table):
    """One row for each false positive, by falling score.

    Attributes:
        image_id: ids as given, or the number of the image in order of arrival.
        detection: [n] int64, row of the detection in its image as it came.
        class_name: names of the detected classes.
        score: [n] as the detections have them.
        kind: the kind of error of each, as :func:`~torch_vocmetrics.analysis.error_kinds` has it.
        overlap: [n] float32, the largest overlap with an object of the class, or, for errors of
            classification, of another class.
        ground_truth: [n] int64, row of that object in its image as it came, -1 for none.
    """

    image_id: tuple[ImageId, ...]
    detection: Tensor
    class_name: tuple[str, ...]
    score: Tensor
    kind: tuple[str, ...]
    overlap: Tensor
    ground_truth: Tensor


@dataclass(frozen=True, eq=False)
class MissedObjects(Table):
    """One row for each object that counts and that no detection found, in order of arrival.

    Attributes:
        image_id: ids as given, or the number of the image in order of arrival.
        ground_truth: [n] int64, row of the object in its image as it came.
        class_name: names of the classes.
        area: [n] float64 square pixels.
        size: the first area range of the protocol, but for the headline one, that holds the object;
            empty where there is none.
    """

    image_id: tuple[ImageId, ...]
    ground_truth: Tensor
    class_name: tuple[str, ...]
    area: Tensor
    size: tuple[str, ...]


def image_scores(
    source: Any,
    *,
    score: float = -math.inf,
    iou_threshold: float = 0.5,
    area: str | None = None,
) -> ImageScores:
    """Counts, F1 and average precision of every image.

    Args:
        source: a metric or its records.
        score: counts are those of detections with it or a higher one; AP takes all.
        iou_threshold: one of the protocol's.
        area: name of an area range; None is the headline one.

    Raises:
        InputError: for a lane that the protocol does not have.
    """
    view = LaneView.of(source, iou_threshold, area)
    image, kept = view.records.detections.image, view.at_least(score)
    hits = view.true_positive & kept
    missed = view.counted & ~view.found_by(hits)

    def per_image(images: Tensor) -> Tensor:
        """[I] int64: how many of the rows are in each image."""
        return torch.bincount(images, minlength=view.num_images).cpu()

    true, false = per_image(image[hits]), per_image(image[view.false_positive & kept])
    lost = per_image(view.records.ground_truths.image[missed])
    return ImageScores(
        image_id=_ids(view),
        true_positives=true,
        false_positives=false,
        false_negatives=lost,
        precision=true / (true + false).double(),
        recall=true / (true + lost).double(),
        f_score=f_beta(true, false, lost),
        average_precision=torch.from_numpy(_average_precision_of_images(view)),
    )


def false_positives(
    source: Any,
    *,
    score: float = -math.inf,
    iou_threshold: float = 0.5,
    background_threshold: float = 0.1,
) -> FalsePositives:
    """The false positives by falling score, with their kinds and where they are.

    Args:
        source: a metric made with ``diagnostics=True``, or its records.
        score: those below it are left out.
        iou_threshold: one of the protocol's.
        background_threshold: below it an overlap is none.

    Raises:
        StateError: if the diagnostics were not kept.
        InputError: for a threshold that the protocol does not have.
    """
    view = LaneView.of(source, iou_threshold)
    kinds, detections = kinds_of(view, background_threshold), view.records.detections
    most = diagnostics_of(view.records, "a list of false positives")
    rows = rows_where(view.false_positive & view.at_least(score))
    rows = rows[view.falling(torch.zeros_like(rows), 1, rows)]
    kind = kinds[rows]
    other = kind == CLASSIFICATION
    objects = torch.where(other, most.other_object[rows], most.own_object[rows])
    overlap = torch.where(other, most.other[rows], most.own[rows])
    # A row for "no object" behind the last.
    index = torch.nn.functional.pad(view.records.ground_truths.index, (0, 1), value=-1)
    return FalsePositives(
        image_id=_ids(view, detections.image[rows]),
        detection=most.row[rows].cpu(),
        class_name=_names(view, detections.label[rows]),
        score=detections.score[rows].cpu(),
        kind=tuple(KINDS[number] for number in kind.tolist()),
        overlap=overlap.cpu(),
        ground_truth=index[objects].cpu(),
    )


def missed_objects(
    source: Any,
    *,
    score: float = -math.inf,
    iou_threshold: float = 0.5,
    area: str | None = None,
) -> MissedObjects:
    """The objects that no detection of a score or a higher one found.

    Arguments and errors are those of :func:`image_scores`.
    """
    view = LaneView.of(source, iou_threshold, area)
    objects = view.records.ground_truths
    found = view.found_by(view.true_positive & view.at_least(score))
    rows = rows_where(view.counted & ~found)
    areas = objects.area[rows].cpu()
    return MissedObjects(
        image_id=_ids(view, objects.image[rows]),
        ground_truth=objects.index[rows].cpu(),
        class_name=_names(view, objects.label[rows]),
        area=areas,
        size=_sizes(view.records.protocol, areas),
    )


def _ids(view: LaneView, images: Tensor | None = None) -> tuple[ImageId, ...]:
    """The ids of images [n], of all by default."""
    ids = view.records.image_ids
    rows = range(view.num_images) if images is None else images.tolist()
    return tuple(row if ids is None else ids[row] for row in rows)


def _names(view: LaneView, labels: Tensor) -> tuple[str, ...]:
    """The names of classes [n]."""
    return tuple(view.class_names[label] for label in labels.tolist())


def _sizes(rules: Protocol, areas: Tensor) -> tuple[str, ...]:
    """The area range that holds each of ``areas`` [n], for protocols that have any."""
    ranges = []
    if isinstance(rules, DetectionProtocol):
        ranges = [entry for entry in rules.area_ranges if entry.name != rules.headline_area]
    return tuple(
        next((entry.name for entry in ranges if entry.lower <= area <= entry.upper), "")
        for area in areas.tolist()
    )


def _average_precision_of_images(view: LaneView) -> Floats:
    """[I] mean over the classes with objects in the image, NaN where there is none."""
    objects, detections, K = view.records.ground_truths, view.records.detections, view.num_classes
    keys = (objects.image.long() * K + objects.label)[view.counted]
    groups, positives = torch.unique(keys, return_counts=True)
    if not groups.numel():
        return np.full(view.num_images, np.nan)
    key = detections.image.long() * K + detections.label
    group = torch.searchsorted(groups, key).clamp_(max=groups.shape[0] - 1)
    rows = rows_where(groups[group] == key)
    hits, ignored = view.true_positive[rows], view.ignored[rows]
    averages = average_precision(view, group[rows], rows, hits, ignored, positives)
    image = (groups // K).cpu().numpy()
    if view.detection_rules.mean_over == "defined_values":
        image, averages = image[~np.isnan(averages)], averages[~np.isnan(averages)]
    total = np.bincount(image, weights=averages, minlength=view.num_images)
    with np.errstate(invalid="ignore"):
        return np.asarray(total / np.bincount(image, minlength=view.num_images))
