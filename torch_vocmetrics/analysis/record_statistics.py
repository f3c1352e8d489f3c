"""Average precision, recall, F1 and miss rates of match records under image weights."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..curves.ranking import image_positions
from ..ops.ordering import rank_in_group, rank_order
from ..ops.selection import take_along
from ..protocols import DetectionProtocol, MissRateProtocol
from .weighted_average import ClassRows, weighted_miss_rates, weighted_values
from .weighted_rows import LaneRows, RankedClass


class RankedRecords:
    """The detections of records in canonical order, class by class, with their outcomes.

    Args:
        records: of one protocol.
        lanes: the lanes whose outcomes are read.
        limits: of detections of an image and class, smaller than the largest.
    """

    def __init__(self, records: Any, lanes: list[int], limits: tuple[int, ...] = ()) -> None:
        detections, self.num_classes = records.detections, len(records.class_names)
        label, image = detections.label.long(), detections.image.long()
        self.num_images, self.device = records.num_images, image.device
        ids = records.image_ids
        position = None if ids is None else image_positions(ids, self.device)[image]
        given = records.match_records.order
        order = rank_order(label, detections.score, (given, position), self.num_classes)
        # Detections stand by class, image and falling score, so that limits are prefixes of runs.
        index = rank_in_group(label * max(1, self.num_images) + image)
        self._within = tuple((index < limit)[order] for limit in limits)
        outcomes = [records.outcomes(lane) for lane in lanes]
        self._lanes = [LaneRows(one.true_positive[order], one.ignored[order]) for one in outcomes]
        self._counted = [records.counted(lane) for lane in lanes]
        given = None if given is None else given[order]
        self._ranked = RankedClass(image[order], detections.score[order], given)
        counts = torch.zeros(self.num_classes, dtype=torch.int64, device=self.device)
        counts.index_add_(0, label, torch.ones_like(label))
        self._ends = counts.cumsum(0).tolist()
        self._object_image = records.ground_truths.image.long()
        self._object_label = records.ground_truths.label.long()

    def of_class(self, label: int) -> ClassRows:
        """The detections and objects of a class."""
        part = slice(self._ends[label - 1] if label else 0, self._ends[label])
        of_class = self._object_label == label
        image, score, order = self._ranked
        return ClassRows(
            RankedClass(image[part], score[part], None if order is None else order[part]),
            tuple(LaneRows(one.true_positive[part], one.ignored[part]) for one in self._lanes),
            tuple(self._object_image[of_class & counted] for counted in self._counted),
            tuple(mask[part] for mask in self._within),
        )


class DetectionNumbers:
    """AP, AP by threshold and class, AR by limit, and F1 of detections under image weights.

    Args:
        records: of one detection protocol.
        area: name of an area range; None takes the headline's.
        score_threshold: of detections that count for F1; None leaves F1 out.
    """

    def __init__(self, records: Any, area: str | None, score_threshold: float | None) -> None:
        protocol: DetectionProtocol = records.protocol
        self._protocol, self._score_threshold = protocol, score_threshold
        lanes = [records.lane_index(value, area) for value in protocol.iou_thresholds]
        self._limits = protocol.max_detections[:-1] if self._is_coco else ()
        ranked = RankedRecords(records, lanes, self._limits)
        self._classes = [ranked.of_class(label) for label in range(ranked.num_classes)]
        self._device, self._num_images = ranked.device, ranked.num_images
        self.names = self._names(records.class_names)

    @property
    def _is_coco(self) -> bool:
        return self._protocol.interpolation == "recall_grid"

    def _names(self, class_names: tuple[str, ...]) -> tuple[str, ...]:
        thresholds = self._protocol.iou_thresholds
        if self._is_coco:
            names = ["AP", *(f"AP{100 * value:.10g}" for value in thresholds)]
            names += [f"AR{limit}" for limit in self._protocol.max_detections] or ["AR"]
        else:
            names = ["mAP"]
            names += [f"mAP@{value:g}" for value in thresholds] if len(thresholds) > 1 else []
        names += [] if self._score_threshold is None else ["F1"]
        return (*names, *(f"AP/{name}" for name in class_names))

    def evaluate(self, weights: Tensor) -> Tensor:
        """[W, S] float64 on the CPU: the numbers under ``weights`` [W, I] int32."""
        weights = weights.to(self._device)
        copies = int(weights.max()) if weights.numel() else 0
        values = [weighted_values(c, weights, self._protocol, copies) for c in self._classes]
        ap, recall, positives = (
            torch.stack(column, dim=-1) for column in zip(*values, strict=True)
        )
        by_class = ap.mean(dim=1)
        taken = positives[:, 0] > 0
        if self._protocol.mean_over == "defined_values":
            taken = ~by_class.isnan()
        columns = [_mean(by_class, taken)]
        if self._is_coco or ap.shape[1] > 1:
            columns += [_mean(column, taken) for column in ap.unbind(1)]
        if self._is_coco:
            columns += [_mean(column.mean(dim=1), taken) for column in recall.unbind(2)]
        if self._score_threshold is not None:
            columns.append(self._f1(weights, self._score_threshold))
        averages = torch.cat(
            [torch.stack(columns, dim=1), torch.where(taken, by_class, math.nan)], 1
        )
        some = (weights.sum(dim=1) > 0).unsqueeze(1)
        return torch.where(some, averages, math.nan).cpu()

    def _f1(self, weights: Tensor, score_threshold: float) -> Tensor:
        """[W]: ``2 TP / (2 TP + FP + FN)`` over all classes at the first IoU threshold."""
        found = torch.zeros((3, weights.shape[0]), dtype=torch.int64, device=weights.device)
        for rows in self._classes:
            kept = rows.ranked.score >= score_threshold
            hit, ignored = rows.lanes[0]
            for row, images in enumerate(
                (
                    rows.ranked.image[kept & hit],
                    rows.ranked.image[kept & ~(hit | ignored)],
                    rows.objects[0],
                )
            ):
                found[row] += take_along(weights, images).sum(dim=1)
        hits, errors, objects = found.double()
        f1: Tensor = 2 * hits / (hits + errors + objects)
        return f1


class MissRateNumbers:
    """Log-average miss rates of the subsets of a pedestrian benchmark under image weights.

    Args:
        records: of one miss rate protocol.
    """

    def __init__(self, records: Any) -> None:
        self._protocol: MissRateProtocol = records.protocol
        subsets = self._protocol.subsets
        lanes = [records.lane_index(one.iou_threshold, one.name) for one in subsets]
        ranked = RankedRecords(records, lanes)
        self._rows, self._device = ranked.of_class(0), ranked.device
        ids = records.image_ids or tuple(range(ranked.num_images))
        position = image_positions(ids, self._device)
        every = torch.ones_like(position, dtype=torch.bool)
        known = self._protocol.num_images in (0, ranked.num_images)
        self._images = [
            _within(position, one.images if known else ()) if one.images else every
            for one in subsets
        ]
        self._rows = _of_images(self._rows, self._images)
        self.names = tuple(f"LAMR/{one.name}" for one in subsets)

    def evaluate(self, weights: Tensor) -> Tensor:
        """[W, S] float64 on the CPU: the numbers under ``weights`` [W, I] int32."""
        weights = weights.to(self._device)
        return weighted_miss_rates(self._rows, weights, self._images, self._protocol)


def _of_images(rows: ClassRows, images: list[Tensor]) -> ClassRows:
    """The rows, in each lane those of its images [I] bool only; the others are ignored there."""
    of_row = [inside[rows.ranked.image] for inside in images]
    lanes = tuple(
        LaneRows(lane.true_positive & inside, lane.ignored | ~inside)
        for lane, inside in zip(rows.lanes, of_row, strict=True)
    )
    pairs = zip(rows.objects, images, strict=True)
    return replace(rows, lanes=lanes, objects=tuple(row[inside[row]] for row, inside in pairs))


def _within(position: Tensor, spans: tuple[tuple[int, int], ...]) -> Tensor:
    """[I] bool: positions in any of the half-open ranges."""
    inside = torch.zeros_like(position, dtype=torch.bool)
    for first, end in spans:
        inside |= (position >= first) & (position < end)
    return inside


def _mean(values: Tensor, taken: Tensor) -> Tensor:
    """[W]: mean of ``values`` [W, K] where ``taken``, NaN where nothing is taken."""
    mean: Tensor = torch.where(taken, values, 0.0).sum(dim=1) / taken.sum(dim=1)
    return mean
