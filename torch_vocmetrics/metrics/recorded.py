"""Metrics whose state is match records: batches are packed, matched in chunks, and dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import mul
from typing import Any, Generic, NamedTuple, Self

from torch import Tensor

from ..curves.ranking import distinct_images
from ..errors import InputError
from ..host_work import host_work
from ..inputs.box_scale import SIDES, BoxScale
from ..inputs.images import (
    Batch,
    fault_on_host,
    pack,
    read_image_ids,
    read_image_sizes,
    suspects_on_device,
    warn_of_coarse_boxes,
)
from ..inputs.keys import warn_of_unread_keys
from ..inputs.packing import Rows
from ..inputs.per_image import kind_of_ids, refuse_other_ids
from ..inputs.rules import InputRules
from ..lanes import Lanes
from ..matching import match_images
from ..protocols import DetectionProtocol, MissRateProtocol
from ..ragged import Detections, GroundTruths, even_shares
from ..tables.record_checks import RecordRules, check_records, check_same_images
from ..tables.records import OPTIONAL, TENSORS, Ids, MatchRecords, cat_ids, joined
from ..tables.repeats import repeats
from ..transfer import to_device
from .accumulated import MOST_PENDING, Accumulated, appended
from .base import Metric, R_co
from .classes import ClassNames, read_classes
from .deferred import NOTHING_DEFERRED, Deferred

CHUNK_ROWS = 2**16
CHUNK_PAIRS = 2**22
CHUNK_MASK_BYTES = 2**25
"""A chunk is matched when it holds so many rows, pairs (by their bound), or bytes of masks."""

RecordProtocol = DetectionProtocol | MissRateProtocol


class Fill(NamedTuple):
    """How full a chunk is.

    Attributes:
        rows: images, detections and ground truths.
        pairs: the bound of candidate pairs, all detections of an image with all its ground truths.
        mask_bytes: memory of the masks.
    """

    rows: int = 0
    pairs: int = 0
    mask_bytes: int = 0

    def plus(self, batch: Batch) -> Fill:
        """With one batch more."""
        detections, ground_truths = batch.detections.counts, batch.ground_truths.counts
        return Fill(
            self.rows + sum(detections) + sum(ground_truths) + batch.num_images,
            self.pairs + sum(map(mul, detections, ground_truths)),
            self.mask_bytes + batch.mask_bytes,
        )

    @property
    def is_full(self) -> bool:
        """Whether the chunk is to be matched."""
        return (
            self.rows >= CHUNK_ROWS
            or self.pairs >= CHUNK_PAIRS
            or self.mask_bytes >= CHUNK_MASK_BYTES
        )


NOTHING_PENDING = Fill()


@dataclass(frozen=True, eq=False)
class AccumulatedRecords(Accumulated):
    """What a metric of match records has seen.

    Attributes:
        fill: of the pending batches.
        deferred: what devices have checked of the values in ``tables``.
        box_scales: what is known of the boxes of either side.
    """

    fill: Fill = NOTHING_PENDING
    deferred: Deferred = NOTHING_DEFERRED
    box_scales: tuple[BoxScale, ...] = ()


class RecordMetric(Metric[R_co], Generic[R_co]):
    """Shell around match records: ``update`` packs, a full chunk is matched, boxes are dropped.

    Subclasses give the protocols and turn records into results. Arguments beside the classes are
    those of :meth:`InputRules.of <torch_vocmetrics.inputs.rules.InputRules.of>`.
    """

    def __init__(
        self,
        protocols: Sequence[RecordProtocol],
        *,
        num_classes: int | None,
        class_names: ClassNames | None,
        label_ids: Sequence[int] | None,
        **arguments: Any,
    ) -> None:
        self.protocols: tuple[Any, ...] = tuple(protocols)
        classes = read_classes(num_classes, class_names, label_ids, protocols)
        self.class_names, self.label_ids = classes.names, classes.labels
        self._rules = InputRules.of(self.protocols, classes.labels, **arguments)
        # Kept by reset, so that nothing is said twice.
        self._known_scales = frozenset[str]()
        self._unread_keys = frozenset[str]()
        self._accumulated: AccumulatedRecords = self._nothing()

    def _nothing(self) -> AccumulatedRecords:
        return AccumulatedRecords(
            tuple(
                (MatchRecords.empty(self._lanes(number), self._num_classes(number)),)
                for number in range(len(self.protocols))
            ),
            box_scales=tuple(BoxScale(side, side in self._known_scales) for side in SIDES),
        )

    @host_work()
    def update(self, predictions: Sequence[Rows] | Rows, targets: Sequence[Rows] | Rows) -> Self:
        """Add a batch of images.

        Args:
            predictions: per image a dict of ``boxes`` [N, 4] in pixels, ``scores`` [N], ``labels``
                [N], and maybe ``order`` [N] int64, which breaks ties of score (the line of a
                results file) in place of image and row, and ``image_id``, which must be that of
                the target.
            targets: per image a dict of ``boxes`` [M, 4], ``labels`` [M], and maybe ``difficult``,
                ``iscrowd``, ``ignore`` [M], ``area`` [M] in square pixels (default: the box's own),
                ``image_id`` (int or str), ``image_size`` (height, width). Other keys are ignored,
                which a warning says once.

        Each list may be a tuple or an iterator; None in it is an image without rows.

        Protocols of masks want ``masks`` on both sides: [N, H, W] bool or integers, [N, 1, H, W]
        probabilities of which those above 0.5 make the mask, or a list of N COCO run lengths or
        polygons (these need ``image_size``). They are packed to bits on their device; ``boxes`` may
        then be left out, unless a protocol needs them too.

        Either may be one dict of packed tensors instead: rows of all images, and ``counts`` [B] on
        the host; or dense tensors, ``boxes`` [B, Q, 4] and the others [B, Q]. Values are tensors,
        NumPy arrays, lists of numbers, or whatever speaks DLPack; torchvision's ``BoundingBoxes``
        say their own format. Labels may be floats without a fraction.

        Where the metric knows the columns of tensors of rows, a tensor [N, columns] may stand for
        the dict of an image, or for all images if it has a column ``"image"``. To give ``image_id``
        and ``image_size`` beside it, put it in a dict under ``"rows"``.

        Work happens on the device of the first predicted boxes; targets may be on the CPU. Values
        are checked at once on the CPU; on other devices by ``compute``, so that ``update`` need not
        wait.

        Raises:
            InputError: naming image, key and remedy; the state is then as it was.
        """
        with self._lock:
            state = self._accumulated
            batch = pack(predictions, targets, self._rules, state.device)
            self._check_conventions(batch, state)
            if (fault := fault_on_host(batch)) is not None:
                raise fault
            warn_of_coarse_boxes([flag for flag in batch.coarse if flag.device.type == "cpu"])
            self._warn_of_unread_keys(batch)
            self._accumulated = self._with_batch(self._with_scales(state, batch), batch)
        return self

    def _with_batch(self, state: AccumulatedRecords, batch: Batch) -> AccumulatedRecords:
        """With one batch more; a chunk that is full is matched."""
        if state.pending and batch.box_formats != state.pending[0].box_formats:
            state = self._flushed(state)
        if not batch.num_images:
            return replace(state, updated=True)
        state = AccumulatedRecords(  # ``replace`` takes ten times as long
            tables=state.tables,
            pending=(*state.pending, batch),
            device=batch.detections.boxes.device,
            updated=True,
            fill=state.fill.plus(batch),
            deferred=state.deferred,
            box_scales=state.box_scales,
        )
        full = state.fill.is_full or len(state.pending) >= MOST_PENDING
        return self._flushed(state) if full else state

    def _distinct(self) -> Sequence[Sequence[MatchRecords]]:
        """Records of distinct images, in parts for each protocol."""
        with self._lock:
            state = self._settle()
            ids = cat_ids([part.image_ids for part in state.tables[0] if part.num_images])
            if not repeats(ids):
                tables = tuple(joined(parts, CHUNK_ROWS // 2) for parts in state.tables)
                self._accumulated = replace(state, tables=tables)
                return tables
        records = self._joined().whole
        keep = distinct_images(records[0])
        return [[part.keep_images(keep)] for part in records]

    def _settled(self, state: AccumulatedRecords) -> AccumulatedRecords:
        # Before anything is matched, since faulty values may not allow it.
        deferred, scales = self._deferred(state).read(state.box_scales)
        warn_of_coarse_boxes(deferred.coarse)
        refuse_other_ids(deferred.other_ids)
        state = self._holding_scales(state, [scale.read() for scale in scales])
        errors = (suspect.read() for suspect in deferred.suspects)
        if (fault := next((error for error in errors if error), None)) is not None:
            raise fault
        state = self._flushed(state)
        tables = [
            parts
            if parts[0].device.type == "cpu"  # on the host chunks are compact
            else tuple(part.compact(self._lanes(number)) for part in parts)
            for number, parts in enumerate(state.tables)
        ]
        return replace(state, tables=tuple(tables), deferred=NOTHING_DEFERRED)

    def _columns(self, tables: Sequence[MatchRecords]) -> dict[str, Any]:
        names = (*TENSORS, *OPTIONAL)
        return {"records": [{name: getattr(part, name) for name in names} for part in tables]}

    def _read(self, ids: list[Any] | None, state: dict[str, Any]) -> list[MatchRecords]:
        image_ids = None if ids is None else tuple(ids)
        given = state["records"]
        if not isinstance(given, list) or len(given) != len(self.protocols):
            raise ValueError(f"there must be a list of {len(self.protocols)} records")
        names = {*TENSORS, *OPTIONAL}
        if any(columns.keys() != names for columns in given):
            raise ValueError(f"records must have the columns {', '.join(sorted(names))}")
        records = [MatchRecords(image_ids=image_ids, **columns) for columns in given]
        for number, part in enumerate(records):
            check_records(part, self._record_rules(number))
        check_same_images(records)
        return records

    def _record_rules(self, number: int) -> RecordRules:
        """What the protocol says of its records, for the check of states that were read."""
        protocol, lanes = self.protocols[number], self._lanes(number)
        if isinstance(protocol, MissRateProtocol):
            return RecordRules(1, lanes, score_limits=len(protocol.jaccard_scores))
        reusable = set(protocol.reusable_flags) - set(protocol.ignored_flags)
        matchable = "none" if reusable else "counted"
        return RecordRules(self._num_classes(number), lanes, matchable=matchable)

    def _flushed(self, state: AccumulatedRecords) -> AccumulatedRecords:
        """The same with pending batches matched and their boxes dropped."""
        pending = state.pending
        if not pending:
            return state
        deferred = self._deferred(state)
        detections = Detections.cat([batch.detections for batch in pending])
        ground_truths = GroundTruths.cat([batch.ground_truths for batch in pending])
        ids, sizes = read_image_ids(pending), read_image_sizes(pending)
        device = detections.boxes.device
        sizes = to_device([sizes], device)[0]
        matched: list[list[MatchRecords]] = [[] for _ in self.protocols]
        shares = state.fill.rows // CHUNK_ROWS  # a single batch may be many chunks
        for images in even_shares(detections.counts, ground_truths.counts, shares):
            for number, protocol in enumerate(self.protocols):
                part = self._match_chunk(
                    protocol,
                    detections.images(images),
                    ground_truths.images(images),
                    None if ids is None else ids[images],
                    sizes[images],
                )
                # On a device that would wait; it is done when the records are read.
                part = part.compact(self._lanes(number)) if device.type == "cpu" else part
                matched[number].append(part)
        tables = tuple(map(appended, state.tables, matched))
        return replace(state, tables=tables, pending=(), fill=NOTHING_PENDING, deferred=deferred)

    def _match_chunk(
        self,
        protocol: Any,
        detections: Detections,
        ground_truths: GroundTruths,
        image_ids: Ids | None,
        image_sizes: Tensor,
    ) -> MatchRecords:
        """Match a chunk as a protocol of the metric's task does; boxes are not kept."""
        if protocol.class_agnostic:
            detections, ground_truths = detections.of_one_class(), ground_truths.of_one_class()
        return match_images(
            protocol,
            detections,
            ground_truths,
            num_classes=len(protocol.evaluated_classes(self.class_names)),
            image_ids=image_ids,
            image_sizes=image_sizes,
        )

    def _deferred(self, state: AccumulatedRecords) -> Deferred:
        """What devices have checked of all values, those of pending batches too."""
        suspects, coarse, other_ids = map(list[Any], state.deferred)
        images = state.num_images
        for batch in state.pending:
            suspects += suspects_on_device(batch, images)
            coarse += [flag for flag in batch.coarse if flag.device.type != "cpu"]
            other_ids += [flag for flag in (batch.other_ids,) if flag is not None]
            images += batch.num_images
        return Deferred(tuple(suspects), tuple(coarse), tuple(other_ids))

    def _with_scales(self, state: AccumulatedRecords, batch: Any) -> AccumulatedRecords:
        """With what a batch shows of the scale of boxes, for which it may be refused."""
        predictions, targets = state.box_scales
        if not self._rules.boxes or (predictions.known and targets.known):
            return state
        sides = zip(state.box_scales, self._boxes_of_sides(batch), strict=True)
        return self._holding_scales(
            state, [scale.after(boxes, batch.image_sizes) for scale, boxes in sides]
        )

    def _holding_scales(
        self, state: AccumulatedRecords, scales: Sequence[BoxScale]
    ) -> AccumulatedRecords:
        self._known_scales |= {scale.side for scale in scales if scale.known}
        return replace(state, box_scales=tuple(scales))

    def _boxes_of_sides(self, batch: Any) -> tuple[Tensor, Tensor]:
        return batch.detections.boxes, batch.ground_truths.boxes

    def _warn_of_unread_keys(self, batch: Any) -> None:
        if unread := batch.unread_keys - self._unread_keys:
            self._unread_keys |= unread
            warn_of_unread_keys(unread)

    def _check_conventions(self, batch: Batch, state: AccumulatedRecords) -> None:
        """Image ids and ``order`` must be given always or never."""
        parts = state.tables[0]
        earlier = state.pending[0] if state.pending else parts[0]
        if batch.num_images and earlier.num_images:
            mine, other = kind_of_ids(batch.image_ids), kind_of_ids(earlier.image_ids)
            if mine != other:
                raise InputError(
                    "image ids must be of one kind in all batches",
                    where="targets, key 'image_id'",
                    got=f"{mine} after {other}",
                )
        if not batch.detections.boxes.shape[0]:
            return
        unordered = chain(
            (b.detections.order is None for b in state.pending if b.detections.boxes.shape[0]),
            (part.order is None for part in parts if part.num_detections),
        )
        without = batch.detections.order is None
        if next(unordered, without) != without:
            raise InputError(
                "must be given in all batches or in none", where="predictions, key 'order'"
            )

    def _num_classes(self, number: int) -> int:
        return len(self.protocols[number].evaluated_classes(self.class_names))

    def _lanes(self, number: int) -> Lanes:
        return Lanes.of(self.protocols[number])

    def _all_protocols(self) -> tuple[Any, ...]:
        return self.protocols
