"""Average precision of object detection: PASCAL VOC of every year, and COCO.

Boxes are pixels. VOC's boxes include their last pixel (x2 - x1 + 1) and may be inverted, which
match nothing; COCO's are continuous. Differences to the official tools, each with its effect:

* the mean over VOC classes is ours (the development kit has none): over classes with positives;
* COCO's AP uses the largest of ``max_detections`` where pycocotools prints -1 unless it is 100;
* undefined is NaN where pycocotools has -1;
* annotation ids play no part, so that pycocotools' loss of annotation 0 does not happen;
* a NaN score is an error, where VOC's code ranks it last and pycocotools likewise; infinite scores
  are ranked as floats, as both do;
* an image may be left without objects, where VOC's reader of annotations fails, and a results file
  without detections, where pycocotools' loadRes fails.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic, Literal, Self, TypedDict, Unpack, cast, overload

import torch
from torch import Tensor

from ..curves.detection_result import detection_result
from ..curves.ranking import Ranker
from ..distributed import own_rank
from ..distributed.transport import Group, Route
from ..errors import InputError
from ..host_work import host_work
from ..inputs.box_formats import BoxFormat
from ..lanes import Lanes
from ..protocols import AreaRange, DetectionProtocol, load_protocol, with_rules
from ..results import CocoDetectionResult, DetectionResult, VocDetectionResult
from ..tables.more_classes import among_classes
from ..tables.records import MatchRecords, joined
from .base import NO_IDS, NO_UPDATE
from .by_class import ByClass, Shard
from .classes import ClassNames, read_classes, warn_of_labels_from_1
from .record_state import CHUNK_ROWS
from .recorded import RecordMetric
from .stateful import R_co
from .stored import StoredEvaluation, StoredTables

SHARD_ROWS = 2**24
"""Ranks compute class by class if one of them holds more detections."""
ProtocolLike = str | Path | DetectionProtocol
CocoName = Literal[
    "coco2017", "coco2017_segm", "coco2017_segm_box_area",
    "detection/coco2017", "detection/coco2017_segm", "detection/coco2017_segm_box_area",
]  # fmt: skip
"""Protocols whose result is a :class:`CocoDetectionResult`."""
VocName = Literal[
    "voc2006", "voc2007", "voc2008", "voc2009", "voc2010", "voc2011", "voc2012",
    "voc2006_exact_tenths", "voc2007_exact_tenths", "voc2008_exact_tenths", "voc2009_exact_tenths",
    "voc2006_matlab_colon", "voc2007_matlab_colon", "voc2008_matlab_colon", "voc2009_matlab_colon",
    "detection/voc2006", "detection/voc2007", "detection/voc2008", "detection/voc2009",
    "detection/voc2010", "detection/voc2011", "detection/voc2012",
]  # fmt: skip
"""Protocols whose result is a :class:`VocDetectionResult`."""


class Arguments(TypedDict, total=False):
    """The other arguments of :class:`DetectionAP`."""

    num_classes: int | None
    class_names: ClassNames | None
    label_ids: Sequence[int] | None
    box_format: BoxFormat
    prediction_columns: Sequence[str] | None
    target_columns: Sequence[str] | None
    unknown_labels: Literal["error", "drop"]
    iou_thresholds: Sequence[float] | None
    max_detections: Sequence[int] | None
    area_ranges: Sequence[AreaRange | Sequence[Any]] | None
    headline_area: str | None
    recall_levels: Sequence[float] | None
    class_agnostic: bool | None
    diagnostics: bool


class DetectionAP(RecordMetric[R_co], Generic[R_co]):
    """Average precision of detections, over any number of batches.

    Args:
        protocol: ``"voc2007"``, ``"coco2017"``, the path of a protocol file, a
            :class:`DetectionProtocol`, or a list of these, which are then evaluated side by side:
            ``compute`` gives a dict of results by protocol name.
        num_classes, class_names: how many classes there are, or their names: a list in class order,
            or a dict {id: name}, whose ids are then the label ids.
        label_ids: the value that stands for each class in ``labels``; default 0 .. K-1.
        box_format: ``"xyxy"``, ``"xywh"`` or ``"cxcywh"``; with an ``n`` behind it, such as
            ``"cxcywhn"``, boxes are fractions of ``image_size``. Or two of them, the formats of
            predictions and of targets.
        prediction_columns, target_columns: names of the columns where a side comes as tensors of
            rows, such as ``("boxes", "scores", "labels")`` for [N, 6]. A column ``"image"``, the
            index of the image in the batch, lets one tensor hold all images.
        unknown_labels: ``"drop"`` leaves out rows whose label is no class, on both sides, which
            waits for the device; ``"error"`` refuses them.
        iou_thresholds, max_detections, area_ranges, headline_area, recall_levels, class_agnostic:
            rules that differ from those of the protocol, or of every protocol of a list: short for
            ``dataclasses.replace(protocol, ...)``. None leaves a rule as it is. Area ranges are
            (name, lower, upper) triples in square pixels; ``max_detections=()`` is no limit.
        diagnostics: also record what :mod:`torch_vocmetrics.analysis` needs of each detection: its
            row in its image, and its best overlaps with ground truths of its own and of other
            classes. This takes 20 bytes a detection, and matching is done on the host.

    Classes that are given by no argument are those of the data set that the protocol was made for:
    COCO's 80 with their category ids, VOC's 20 (10 in 2006) with labels from 0.

    Raises:
        ProtocolError: if a protocol is unknown (with the near names) or faulty.
        InputError: if the classes are missing, disagree, or occur twice.

    Source: the protocol's file names the official code behind each rule.

    Example:
        >>> import torch
        >>> box = torch.tensor([[10.0, 10.0, 50.0, 50.0]])
        >>> metric = DetectionAP("voc2007", class_names=["cat", "dog"])
        >>> cat = torch.tensor([0])
        >>> prediction = {"boxes": box, "scores": torch.tensor([0.9]), "labels": cat}
        >>> result = metric.update([prediction], [{"boxes": box, "labels": cat}]).compute()
        >>> round(result.headline, 6), result.average_precision.tolist()
        (1.0, [1.0000000000000002, 0.0])
    """

    @overload
    def __init__(
        self: DetectionAP[CocoDetectionResult],
        protocol: CocoName,
        **arguments: Unpack[Arguments],
    ) -> None: ...

    @overload
    def __init__(
        self: DetectionAP[VocDetectionResult],
        protocol: VocName,
        **arguments: Unpack[Arguments],
    ) -> None: ...

    @overload
    def __init__(
        self: DetectionAP[DetectionResult],
        protocol: ProtocolLike,
        **arguments: Unpack[Arguments],
    ) -> None: ...

    @overload
    def __init__(
        self: DetectionAP[dict[str, CocoDetectionResult]],
        protocol: Sequence[CocoName],
        **arguments: Unpack[Arguments],
    ) -> None: ...

    @overload
    def __init__(
        self: DetectionAP[dict[str, VocDetectionResult]],
        protocol: Sequence[VocName],
        **arguments: Unpack[Arguments],
    ) -> None: ...

    @overload
    def __init__(
        self: DetectionAP[dict[str, DetectionResult]],
        protocol: Sequence[ProtocolLike],
        **arguments: Unpack[Arguments],
    ) -> None: ...

    def __init__(
        self,
        protocol: ProtocolLike | Sequence[ProtocolLike],
        *,
        num_classes: int | None = None,
        class_names: ClassNames | None = None,
        label_ids: Sequence[int] | None = None,
        box_format: BoxFormat = "xyxy",
        prediction_columns: Sequence[str] | None = None,
        target_columns: Sequence[str] | None = None,
        unknown_labels: Literal["error", "drop"] = "error",
        iou_thresholds: Sequence[float] | None = None,
        max_detections: Sequence[int] | None = None,
        area_ranges: Sequence[AreaRange | Sequence[Any]] | None = None,
        headline_area: str | None = None,
        recall_levels: Sequence[float] | None = None,
        class_agnostic: bool | None = None,
        diagnostics: bool = False,
    ) -> None:
        rules = {
            "iou_thresholds": iou_thresholds,
            "max_detections": max_detections,
            "area_ranges": area_ranges,
            "headline_area": headline_area,
            "recall_levels": recall_levels,
            "class_agnostic": class_agnostic,
        }
        self._single = not isinstance(protocol, list | tuple)
        protocols: list[Any] = list(protocol) if isinstance(protocol, list | tuple) else [protocol]
        super().__init__(
            [with_rules(load_protocol(entry, DetectionProtocol), **rules) for entry in protocols],
            num_classes=num_classes,
            class_names=class_names,
            label_ids=label_ids,
            box_format=box_format,
            prediction_columns=prediction_columns,
            target_columns=target_columns,
            unknown_labels=unknown_labels,
            diagnostics=diagnostics,
        )
        names = [entry.name for entry in self.protocols]
        if not names or len(set(names)) < len(names):
            raise InputError(
                "must be one protocol or several of distinct names", where="protocol", got=names
            )

    @host_work()
    def with_classes(
        self,
        *,
        num_classes: int | None = None,
        class_names: ClassNames | None = None,
        label_ids: Sequence[int] | None = None,
    ) -> Self:
        """A new metric of more classes with everything that this one has seen.

        Where classes are not known beforehand, a metric of those seen so far can so follow them.
        Classes are identified by their label ids, those of this metric in the same order.

        Raises:
            InputError: if a class of this metric is missing, or their order is another; if the
                arguments disagree; if values on a device broke the rules, until ``reset``.
        """
        classes = read_classes(num_classes, class_names, label_ids)
        known = {label: position for position, label in enumerate(classes.labels)}
        positions = [known.get(label, -1) for label in self.label_ids]
        if -1 in positions or positions != sorted(positions):
            raise InputError(
                "must hold the label ids of the metric in their order",
                where="with_classes",
                got=list(classes.labels),
                remedy=f"it has {list(self.label_ids)}",
            )
        state, wider = self._joined(), copy.copy(self)
        wider.class_names, wider.label_ids = classes.names, classes.labels
        wider._rules = self._rules._replace(
            num_classes=len(classes.names), label_ids=classes.labels
        )
        tables = [
            table
            if protocol.class_agnostic
            else among_classes(table, positions, len(classes.names))
            for protocol, table in zip(self.protocols, state.whole, strict=True)
        ]
        wider._accumulated = replace(
            wider._nothing(),
            tables=tuple((table,) for table in tables),
            device=state.device,
            updated=state.updated,
        )
        return wider

    def _result(self, distinct: Sequence[Sequence[MatchRecords]]) -> R_co:
        results = []
        for protocol, parts in zip(self.protocols, distinct, strict=True):
            lanes, limits = Lanes.of(protocol), protocol.max_detections[:-1]
            names = protocol.evaluated_classes(self.class_names)
            ranker = Ranker(parts, lanes, len(names), limits)
            results.append(detection_result(protocol, ranker, names))
        rows = torch.stack([part.rows_by_class() for part in distinct[0]]).sum(dim=0)
        return self._named(results, rows)

    def _wants_classes(self, shard_by: str | None) -> bool:
        state = self._settle()
        rows = sum(part.num_detections for parts in state.tables for part in parts)
        return shard_by == "class" or (shard_by is None and rows > SHARD_ROWS)

    def _result_by_class(self, group: Group, dst: int | None) -> R_co | None:
        state = self._settle()
        tables = [joined(parts, CHUNK_ROWS // 2) for parts in state.tables]
        shard = Shard(self.protocols, self.class_names, tables, state.updated)
        ranks = ByClass(shard, Route.of(group, state.device))
        ranks.check_images(NO_IDS, NO_UPDATE)
        results, rows = ranks.results(wanted=dst in (None, own_rank()))
        return self._named(results, rows) if results else None

    def _of_stored_files(self, paths: Sequence[str | Path]) -> Self:
        tables = StoredTables.of(paths, self)
        host = torch.device("cpu")
        self._accumulated = replace(
            self._nothing(), tables=tables, device=host, updated=tables.updated
        )
        return self

    def _result_of_stored(self, tables: StoredTables) -> R_co:
        evaluation = StoredEvaluation(tables.files, self.protocols, self.class_names)
        return self._named(evaluation.results(), evaluation.rows_by_class)

    def _named(self, results: Sequence[DetectionResult], rows_by_class: Tensor) -> R_co:
        """Results of the protocols as ``compute`` gives them."""
        if self._rules.label_ids is None:
            warn_of_labels_from_1(rows_by_class.tolist())
        named = {one.protocol.name: one for one in results}
        return cast(R_co, results[0] if self._single else named)

    @classmethod
    def _of(
        cls, protocols: Sequence[Any], class_names: Sequence[str], label_ids: Sequence[int]
    ) -> Self:
        one_or_all: Any = protocols[0] if len(protocols) == 1 else list(protocols)
        return cls(one_or_all, class_names=class_names, label_ids=label_ids)
