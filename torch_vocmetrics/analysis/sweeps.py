"""Average precision against one property: IoU threshold, size, or any value of objects or images.

Where objects are left out of a point of a sweep, they become what the protocol's difficult (or
crowd) objects are: the matching stays as it is, and detections of such an object are ignored.
Further detections of it are ignored too where the protocol lets any number of detections match a
difficult object (PASCAL VOC from 2007 on). For VOC, where an object is matched whether it is
difficult or not, this is the same as evaluating again with more difficult objects. For COCO, where
objects that count come first, it is not: there, declare area ranges before the first update.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..curves.precision_recall import Floats
from ..errors import InputError
from ..ops.selection import rows_where
from ..results import Table
from .average_precision import average_precision, mean_over_groups
from .lane_view import LaneView
from .source import diagnostics_of

Values = Tensor | Sequence[Any] | Mapping[int | str, Any]
"""A value for each row of a table of the records, or for each image, by its id if it has one."""


@dataclass(frozen=True, eq=False)
class Sweep(Table):
    """Average precision at S values of one property.

    Attributes:
        property: what is varied.
        value: S thresholds, lower limits, or names of ranges.
        mean: [S] float64, mean AP over the classes that have objects there; NaN without any.
        average_precision: [S, K] float64, NaN without objects.
        num_positives: [S, K] int64 objects that count.
        class_names: K names.
    """

    property: str
    value: tuple[float | str, ...]
    mean: Tensor
    average_precision: Tensor
    num_positives: Tensor
    class_names: tuple[str, ...]

    def columns(self) -> dict[str, Any]:
        """One row for each value: the mean, then the classes."""
        of_classes = {
            f"average_precision_{name}": self.average_precision[:, k]
            for k, name in enumerate(self.class_names)
        }
        return {self.property: self.value, "mean": self.mean} | of_classes


def sweep_iou(source: Any, *, area: str | None = None) -> Sweep:
    """Average precision at every IoU threshold of the protocol.

    Args:
        source: a metric or its records. Give the thresholds before the first update:
            ``DetectionAP("voc2012", iou_thresholds=[0.1, 0.2, ...])``.
        area: name of an area range; None is the headline one.

    Source: Everingham et al., "The PASCAL Visual Object Classes (VOC) Challenge", IJCV 2010,
        figure 19.
    """
    first = LaneView.of(source, None, area)
    thresholds = [lane.iou_threshold for lane in first.records.lanes if lane.area == first.area]
    views = [LaneView.of(first.records, value, first.area) for value in thresholds]
    return _sweep("iou_threshold", thresholds, views, [view.counted for view in views])


def sweep_area_ranges(source: Any, *, iou_threshold: float = 0.5) -> Sweep:
    """Average precision in every area range of the protocol, by its own rules.

    Args:
        source: a metric or its records. Ranges of your own are given before the first update:
            ``DetectionAP("coco2017", area_ranges=[["all", 0, None], ["from 500", 500, None]])``.
        iou_threshold: one of the protocol's.
    """
    records = LaneView.of(source, iou_threshold).records
    names = list(dict.fromkeys(lane.area for lane in records.lanes))
    views = [LaneView.of(records, iou_threshold, name) for name in names]
    return _sweep("area_range", names, views, [view.counted for view in views])


def sweep_smallest_size(
    source: Any, limits: Sequence[float], *, relative: bool = False, iou_threshold: float = 0.5
) -> Sweep:
    """Average precision against the smallest size of objects; smaller ones become difficult.

    Args:
        source: a metric or its records; VOC's protocols from 2007 on need ``diagnostics=True``.
        limits: S areas: objects of this area or more count.
        relative: areas are shares of the image, whose sizes have to be known (``image_size``);
            otherwise square pixels.
        iou_threshold: one of the protocol's.

    Raises:
        InputError: if the size of an image is not known.
        StateError: if diagnostics are needed and were not kept.

    Source: Everingham et al., "The PASCAL Visual Object Classes (VOC) Challenge", IJCV 2010,
        figure 26.
    """
    view = LaneView.of(source, iou_threshold)
    objects, images = view.records.ground_truths, view.records.images
    areas = objects.area
    if relative:
        pixels = images.height.double() * images.width.double()
        if bool((images.height < 0).any()):
            raise InputError(
                "shares of the image need the size of every image",
                where="relative",
                remedy="give image_size in every target",
            )
        areas = areas / pixels[objects.image.long()]
    counted = [view.counted & (areas >= limit) for limit in limits]
    name = "smallest_share" if relative else "smallest_area"
    return _sweep(name, list(limits), [view] * len(counted), counted)


def sweep_objects(
    source: Any,
    values: Values,
    edges: Sequence[float] | None = None,
    *,
    property: str = "value",  # noqa: A002 - the field of the result
    iou_threshold: float = 0.5,
) -> Sweep:
    """Average precision by a value of objects, such as aspect ratio, truncation or occlusion.

    Args:
        source: a metric or its records; VOC's protocols from 2007 on need ``diagnostics=True``.
        values: [M] a number for each object, in the order of ``records.ground_truths``; or, for
            each image, a list as long as its objects: a dict by image id, or a list in the order of
            arrival.
        edges: rising bounds of ranges ``[lower, upper)``; None takes each distinct value.
        property: what the values are, for the result.
        iou_threshold: one of the protocol's.

    Raises:
        InputError: if the values do not fit the objects, or edges do not rise.
        StateError: if diagnostics are needed and were not kept.
    """
    view = LaneView.of(source, iou_threshold)
    objects = view.records.ground_truths
    counts = torch.bincount(objects.image, minlength=view.num_images).tolist()
    there = _values(view, values, counts, objects.label.shape[0]).to(view.device)
    names, chosen = _ranges(there, edges)
    counted = [view.counted & one for one in chosen]
    return _sweep(property, names, [view] * len(names), counted)


def sweep_images(
    source: Any,
    values: Values | None = None,
    edges: Sequence[float] | None = None,
    *,
    property: str = "objects_per_image",  # noqa: A002 - the field of the result
    iou_threshold: float = 0.5,
) -> Sweep:
    """Average precision by a value of images, which are evaluated range by range.

    Args:
        source: a metric or its records.
        values: [I] a number for each image, a dict by image id or a list in the order of arrival;
            None takes the number of objects that count.
        edges: rising bounds of ranges ``[lower, upper)``; None takes each distinct value.
        property: what the values are, for the result.
        iou_threshold: one of the protocol's.

    Raises:
        InputError: if the values do not fit the images, or edges do not rise.
    """
    view = LaneView.of(source, iou_threshold)
    of_objects = view.records.ground_truths.image.long()
    if values is None:
        there = torch.bincount(of_objects[view.counted], minlength=view.num_images).double()
    else:
        there = _values(view, values, None, view.num_images).to(view.device)
    names, chosen = _ranges(there, edges)
    counted = [view.counted & images[of_objects] for images in chosen]
    return _sweep(property, names, [view] * len(names), counted, chosen)


def _sweep(
    name: str,
    values: Sequence[float | str],
    views: Sequence[LaneView],
    counted: Sequence[Tensor],
    images: Sequence[Tensor] | None = None,
) -> Sweep:
    """AP of each lane over the objects that count there, in some images or in all."""
    rows, means, positives = [], [], []
    for point, view in enumerate(views):
        averages, npos = _restricted(view, counted[point], images[point] if images else None)
        rows.append(averages)
        means.append(mean_over_groups(view.detection_rules, averages, npos.cpu().numpy()))
        positives.append(npos.cpu())
    shape = (len(values), views[0].num_classes if views else 0)
    return Sweep(
        property=name,
        value=tuple(values),
        mean=torch.tensor(means, dtype=torch.float64),
        average_precision=torch.from_numpy(np.array(rows, dtype=np.float64).reshape(shape)),
        num_positives=torch.stack(positives) if positives else torch.zeros(shape).long(),
        class_names=views[0].class_names if views else (),
    )


def _restricted(view: LaneView, counted: Tensor, images: Tensor | None) -> tuple[Floats, Tensor]:
    """[K] AP and positives if only the objects ``counted`` [M] count, in the ``images`` [I]."""
    detections, labels = view.records.detections, view.records.ground_truths.label.long()
    positives = torch.bincount(labels[counted], minlength=view.num_classes)
    hits, ignored = view.true_positive, view.ignored
    if images is None:
        left_out = _of_objects_left_out(view, view.counted & ~counted)
        hits, ignored = hits & ~left_out, ignored | left_out
        rows = torch.arange(hits.shape[0], device=view.device)
    else:
        rows = rows_where(images[detections.image.long()])
    label = detections.label[rows]
    return average_precision(view, label, rows, hits[rows], ignored[rows], positives), positives


def _of_objects_left_out(view: LaneView, left_out: Tensor) -> Tensor:
    """[N] bool: detections that are ignored as the objects ``left_out`` [M] are."""
    if not bool(left_out.any()):
        return torch.zeros_like(view.ignored)
    left_out = torch.nn.functional.pad(left_out, (0, 1))  # a row for "no object"
    ignored = view.true_positive & left_out[view.ground_truth]
    if "difficult" in view.detection_rules.reusable_flags:
        most = diagnostics_of(view.records, "leaving out objects under this protocol")
        further = view.false_positive & view.reaches(most.own)
        ignored |= further & left_out[most.own_object]
    return ignored


def _values(view: LaneView, values: Values, counts: list[int] | None, size: int) -> Tensor:
    """[size] float64 values of objects or images, in the order of the records.

    Args:
        view: a lane of the records.
        values: what the user gave.
        counts: objects of each image, if values are those of objects.
        size: how many values there must be.
    """
    if isinstance(values, Mapping):
        ids = view.records.image_ids or range(view.num_images)
        missing = [image_id for image_id in ids if image_id not in values]
        if missing:
            raise InputError("has no entry for an image", where="values", got=repr(missing[0]))
        values = [values[image_id] for image_id in ids]
    if counts is not None and not isinstance(values, Tensor) and len(values) == len(counts):
        parts = [torch.as_tensor(part, dtype=torch.float64).reshape(-1) for part in values]
        if [part.shape[0] for part in parts] == counts:
            values = torch.cat(parts) if parts else torch.zeros(0)
    try:
        column = torch.as_tensor(values, dtype=torch.float64)
    except (TypeError, ValueError):
        column = torch.zeros(0)
    if column.shape != (size,):
        what = "images" if counts is None else "objects"
        raise InputError(
            f"must be a number for each of the {size} {what}", where="values", got=type(values)
        )
    return column


def _ranges(
    values: Tensor, edges: Sequence[float] | None
) -> tuple[list[float | str], list[Tensor]]:
    """Names of ranges, and which of ``values`` [n] lie in each."""
    if edges is None:
        distinct = torch.unique(values[~values.isnan()]).tolist()
        return list(distinct), [values == value for value in distinct]
    bounds = [float(edge) for edge in edges]
    pairs = list(pairwise(bounds))
    if not pairs or any(upper <= lower for lower, upper in pairs):
        raise InputError("must be at least two rising numbers", where="edges", got=bounds)
    names: list[float | str] = [f"[{lower:g}, {upper:g})" for lower, upper in pairs]
    return names, [(values >= lower) & (values < upper) for lower, upper in pairs]
