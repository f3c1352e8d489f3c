"""torchmetrics' ``MeanAveragePrecision``, computed by this package."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torchmetrics
from torch import Tensor

from torch_vocmetrics import (
    CocoDetectionResult,
    DetectionProtocol,
    InputError,
    StateError,
    VocMetricsWarning,
    load_protocol,
)

from .adapter import TorchMetricsAdapter
from .overlaps import Overlaps, overlaps_of_image
from .seen_classes import Evaluation, SeenClasses

Rows = Mapping[str, Any]

PROTOCOLS = {"bbox": "coco2017", "segm": "coco2017_segm"}
SHAPES = {"bbox": "boxes", "segm": "masks"}
BACKENDS = ("pycocotools", "faster_coco_eval")
AREAS = ("small", "medium", "large")
ONE_CLASS = "_of_one_class"
"""Of the names of protocols that take all labels for one class."""
SUMMARY_LIMIT = 100
"""pycocotools takes ``map`` at this limit of detections, where there is one."""


class MeanAveragePrecision(TorchMetricsAdapter):
    """A look-alike of ``torchmetrics.detection.MeanAveragePrecision``.

    Inputs, keys, types and shapes of the output, and -1 for undefined are torchmetrics'. The
    README lists where numbers differ: thresholds and recall levels are COCO's float64 ones, boxes
    are compared as they come, and ``map`` is defined for other limits than 100 too. Images whose
    targets have an ``image_id`` count once, also where a distributed sampler repeats them.

    Args:
        box_format: ``"xyxy"``, ``"xywh"`` or ``"cxcywh"``.
        iou_type: ``"bbox"``, ``"segm"``, or both in a tuple; keys then begin with ``bbox_`` and
            ``segm_``.
        iou_thresholds, rec_thresholds: rising numbers; None for COCO's.
        max_detection_thresholds: three limits of detections per image and class.
        class_metrics: whether ``compute`` gives numbers of each class.
        extended_summary: whether it gives ``ious``, ``precision``, ``recall`` and ``scores``.
        average: ``"macro"``, or ``"micro"`` where all labels are one class.
        backend: not used; checked, and a warning says so unless it is the default.
        kwargs: keyword arguments of ``torchmetrics.Metric``.

    Raises:
        InputError: (a ValueError) if an argument is none of these.
        ProtocolError: (a ValueError) if thresholds or limits are no rising numbers.

    Attributes:
        result: what was computed last, with a ``CocoDetectionResult`` for each protocol.

    Source: torchmetrics 1.9.0, detection/mean_ap.py and detection/helpers.py.

    Example:
        >>> metric = MeanAveragePrecision()
        >>> box = torch.tensor([[258.0, 41.0, 606.0, 285.0]])
        >>> rows = {"boxes": box, "labels": torch.tensor([0])}
        >>> metric.update([rows | {"scores": torch.tensor([0.5])}], [rows])
        >>> numbers = metric.compute()
        >>> numbers["map"], numbers["map_small"], numbers["classes"]
        (tensor(1.), tensor(-1.), tensor(0, dtype=torch.int32))
    """

    higher_is_better = True
    plot_lower_bound = 0.0
    plot_upper_bound = 1.0
    warn_on_many_detections: bool = True

    metric: SeenClasses  # type: ignore[assignment]

    def __init__(
        self,
        box_format: str = "xyxy",
        iou_type: str | tuple[str, ...] = "bbox",
        iou_thresholds: list[float] | None = None,
        rec_thresholds: list[float] | None = None,
        max_detection_thresholds: list[int] | None = None,
        class_metrics: bool = False,
        extended_summary: bool = False,
        average: str = "macro",
        backend: str = "pycocotools",
        **kwargs: Any,
    ) -> None:
        kinds = (iou_type,) if isinstance(iou_type, str) else tuple(iou_type)
        _check("iou_type", kinds, bool(kinds) and set(kinds) <= PROTOCOLS.keys())
        flags = {"class_metrics": class_metrics, "extended_summary": extended_summary}
        for name, flag in flags.items():
            _check(name, flag, isinstance(flag, bool))
        _check("average", average, average in ("macro", "micro"))
        _check("backend", backend, backend in BACKENDS)
        if backend != BACKENDS[0]:
            message = f"backend {backend!r} is not used: this package computes the numbers itself"
            warnings.warn(VocMetricsWarning(message), stacklevel=2)
        limits = _listed("max_detection_thresholds", max_detection_thresholds, length=3)
        rules = {
            "iou_thresholds": _listed("iou_thresholds", iou_thresholds),
            "recall_levels": _listed("rec_thresholds", rec_thresholds),
            "max_detections": sorted(set(limits or [1, 10, SUMMARY_LIMIT])),
        }
        protocols = [
            _protocol(kind, {key: rule for key, rule in rules.items() if rule}) for kind in kinds
        ]
        self.box_format, self.iou_type, self.average = box_format, kinds, average
        self.class_metrics, self.extended_summary = class_metrics, extended_summary
        self.iou_thresholds = list(protocols[0].iou_thresholds)
        self.rec_thresholds = list(protocols[0].recall_levels)
        self.max_detection_thresholds = sorted(limits or [1, 10, SUMMARY_LIMIT])
        evaluated = protocols if average == "macro" or class_metrics else []
        if average == "micro":
            evaluated = [*evaluated, *map(_of_one_class, protocols)]
        seen: Any = SeenClasses(evaluated, box_format)
        super().__init__(seen, None, **kwargs)

    def update(  # type: ignore[override]
        self, preds: Sequence[Rows], target: Sequence[Rows]
    ) -> None:
        """Add a batch: a dict per image, of ``boxes`` or ``masks``, ``labels``, ``scores``.

        Targets may have ``iscrowd``, ``area`` in square pixels (default, also for 0: that of the
        mask or box), and ``image_id``; other keys are not read.

        Raises:
            InputError: naming image, key and remedy; the state is then as it was.
        """
        self._batches = self._update_count  # which the base class has raised
        self._add_to(self.metric, preds, target)

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Figure and axes of one or several values of ``compute``."""
        return self._plot(val, ax)

    def tm_to_coco(self, name: str = "tm_map_input") -> None:
        """Refused: boxes and masks are dropped once they are matched.

        Raises:
            StateError: always.
        """
        raise StateError(
            "inputs are not kept, so that they cannot be written",
            where=f"tm_to_coco({name!r})",
            remedy="write them in your loop, or use torchmetrics' own class for it",
        )

    def coco_to_tm(
        self,
        coco_preds: str,
        coco_target: str,
        iou_type: str | tuple[str, ...] = ("bbox",),
        backend: str = "pycocotools",
    ) -> Any:
        """Predictions and targets of COCO's files, as torchmetrics reads them: boxes are xywh."""
        theirs = torchmetrics.detection.MeanAveragePrecision(backend=backend)
        return theirs.coco_to_tm(coco_preds, coco_target, iou_type, backend)

    def _add_to(  # type: ignore[override]
        self, metric: SeenClasses, preds: Any, target: Any
    ) -> None:
        shapes = [SHAPES[kind] for kind in self.iou_type]
        _check_batch(preds, target, shapes)
        limit = self.max_detection_thresholds[-1]
        if self.warn_on_many_detections and any(len(rows["labels"]) > limit for rows in preds):
            message = (
                f"an image has more than {limit} detections: of each class those of the highest "
                "scores count; raise max_detection_thresholds, or set warn_on_many_detections=False"
            )
            warnings.warn(VocMetricsWarning(message), stacklevel=3)
        predictions = [_kept(rows, (*shapes, "scores", "labels")) for rows in preds]
        targets = [_target(rows, shapes) for rows in target]
        metric.update(predictions, targets, self._overlaps_of(predictions, targets))

    def _overlaps_of(
        self, predictions: Sequence[Rows], targets: Sequence[Rows]
    ) -> dict[str, list[Overlaps]]:
        return {
            kind: [
                overlaps_of_image(
                    *rows,
                    SHAPES[kind],
                    limit=self.max_detection_thresholds[-1],
                    box_format=self.box_format,
                    one_label=self.average == "micro",
                )
                for rows in zip(predictions, targets, strict=True)
            ]
            for kind in self.iou_type
            if self.extended_summary
        }

    def _value_of(self, result: Evaluation) -> dict[str, Any]:
        numbers: dict[str, Any] = {}
        for kind in self.iou_type:
            name = PROTOCOLS[kind]
            one_class = self.average == "micro"
            overall = result.results[name + ONE_CLASS if one_class else name]
            last = self.max_detection_thresholds[-1]
            found: dict[str, Any] = _summary(overall)
            if self.extended_summary:
                labels = (0,) if one_class else result.labels
                found["ious"] = _by_image_and_label(result.overlaps.get(kind, []), labels)
                found |= _arrays(overall, labels)
            undefined = torch.tensor(-1.0)
            per_class = (undefined, undefined)
            if self.class_metrics:
                per_class = _of_each_class(result.results[name], result.labels)
            found |= {"map_per_class": per_class[0], f"mar_{last}_per_class": per_class[1]}
            prefix = f"{kind}_" if len(self.iou_type) > 1 else ""
            numbers |= {prefix + key: number for key, number in found.items()}
        numbers["classes"] = _classes(result.labels)
        return {key: _squeezed(number) for key, number in numbers.items()}


# Arguments and input --------------------------------------------------------------------------


def _check(name: str, value: object, holds: bool) -> None:
    if not holds:
        raise InputError("has a value that torchmetrics does not know", where=name, got=repr(value))


def _listed(name: str, values: list[Any] | None, length: int | None = None) -> list[Any] | None:
    """A list; None, as for torchmetrics, where it is empty."""
    holds = values is None or isinstance(values, list)
    _check(name, values, holds and (values is None or length in (None, len(values))))
    return values or None


def _protocol(kind: str, rules: dict[str, Any]) -> DetectionProtocol:
    return dataclasses.replace(load_protocol(PROTOCOLS[kind], DetectionProtocol), **rules)


def _of_one_class(protocol: DetectionProtocol) -> DetectionProtocol:
    return dataclasses.replace(protocol, name=protocol.name + ONE_CLASS, class_agnostic=True)


def _check_batch(preds: Any, target: Any, shapes: Sequence[str]) -> None:
    """Both sides are lists of dicts of tensors, with the keys that are read."""
    sides = {
        "preds": (preds, [*shapes, "scores", "labels"]),
        "target": (target, [*shapes, "labels"]),
    }
    for name, (images, keys) in sides.items():
        if not isinstance(images, Sequence):
            raise InputError("must be a list", where=name, got=type(images).__name__)
        for position, rows in enumerate(images):
            where = f"{name}[{position}]"
            for key in keys:
                if key not in rows:
                    raise InputError(f"has no key {key!r}", where=where, got=f"keys {[*rows]}")
                if not isinstance(rows[key], Tensor):
                    got = type(rows[key]).__name__
                    raise InputError("must be a tensor", where=f"{where}[{key!r}]", got=got)
            if rows["labels"].is_floating_point():
                got = str(rows["labels"].dtype)
                raise InputError("must be integers", where=f"{where}['labels']", got=got)
    if len(preds) != len(target):
        got = f"{len(preds)} and {len(target)}"
        raise InputError("must have the same length", where="preds and target", got=got)


def _kept(rows: Rows, keys: Sequence[str]) -> dict[str, Any]:
    return {key: rows[key] for key in keys}


def _target(rows: Rows, shapes: Sequence[str]) -> dict[str, Any]:
    """A target with torchmetrics' meaning of ``iscrowd`` and ``area``."""
    kept, labels = _kept(rows, (*shapes, "labels")), rows["labels"]
    kept["iscrowd"] = rows.get("iscrowd", torch.zeros_like(labels)) != 0
    area = rows.get("area", torch.zeros_like(labels)).double()
    # With masks at hand it is the masks' area, also where boxes are compared.
    default = (
        (rows["masks"] != 0).flatten(1).sum(dim=1).double()
        if "masks" in shapes and labels.numel()
        else torch.full_like(area, math.nan)
    )
    kept["area"] = torch.where(area > 0, area, default)
    if rows.get("image_id") is not None:
        kept["image_id"] = rows["image_id"]
    return kept


# Output ---------------------------------------------------------------------------------------


def _number(value: float) -> Tensor:
    return torch.tensor(-1.0 if math.isnan(value) else value, dtype=torch.float32)


def _summary_limit(result: CocoDetectionResult) -> int:
    limits = result.protocol.max_detections
    return SUMMARY_LIMIT if SUMMARY_LIMIT in limits else limits[-1]


def _summary(result: CocoDetectionResult) -> dict[str, Tensor]:
    """The twelve numbers of COCO by torchmetrics' names."""
    limits, thresholds = result.protocol.max_detections, result.protocol.iou_thresholds
    found = {"map": result.mean_precision(max_detections=_summary_limit(result))}
    for threshold in (0.5, 0.75):
        known = threshold in thresholds
        found[f"map_{round(100 * threshold)}"] = (
            result.mean_precision(iou_threshold=threshold) if known else math.nan
        )
    found |= {f"map_{area}": result.mean_precision(area=area) for area in AREAS}
    found |= {f"mar_{limit}": result.mean_recall(max_detections=limit) for limit in limits}
    found |= {f"mar_{area}": result.mean_recall(area=area) for area in AREAS}
    return {key: _number(value) for key, value in found.items()}


def _of_each_class(result: CocoDetectionResult, labels: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Average precision and recall [K] of the labels."""
    limit, names = _summary_limit(result), list(map(str, labels))
    precisions = [result.mean_precision(class_name=name, max_detections=limit) for name in names]
    recalls = [result.mean_recall(class_name=name) for name in names]
    precision, recall = (
        torch.tensor(values, dtype=torch.float32).nan_to_num(nan=-1.0)
        for values in (precisions, recalls)
    )
    return precision, recall


def _arrays(result: CocoDetectionResult, labels: Sequence[int]) -> dict[str, Tensor]:
    """The arrays of ``COCOeval.eval`` of these labels."""
    # The result of one class has that class alone.
    names = list(map(str, labels))[:1] if result.protocol.class_agnostic else result.class_names
    rows = torch.tensor([names.index(str(label)) for label in labels], dtype=torch.int64)
    return {
        name: getattr(result, name).double().index_select(-3, rows).nan_to_num(nan=-1.0)
        for name in ("precision", "recall", "scores")
    }


def _classes(labels: Sequence[int]) -> Tensor:
    """int32, as torchmetrics has them; int64 where a label needs it."""
    classes = torch.tensor(labels, dtype=torch.int64)
    return classes.int() if bool((classes.int() == classes).all()) else classes


def _squeezed(values: Any) -> Any:
    """Tensors of one element without dimensions, as ``torchmetrics.Metric.compute`` gives them."""
    if isinstance(values, dict):
        return {key: _squeezed(value) for key, value in values.items()}
    return values.squeeze() if isinstance(values, Tensor) and values.numel() == 1 else values


def _by_image_and_label(images: Sequence[Overlaps], labels: Sequence[int]) -> dict[Any, Any]:
    """By (image, label), an empty list where a side is empty."""
    return {
        (position, label): overlaps.get(label, [])
        for position, overlaps in enumerate(images)
        for label in labels
    }
