"""Metrics whose state is match records: batches are packed, matched in chunks, and dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Generic, Self

from torch import Tensor

from ..curves.ranking import distinct_images
from ..distributed.transport import Group
from ..errors import InputError
from ..host_work import host_work
from ..inputs.box_scale import SIDES, BoxScale
from ..inputs.images import (
    Batch,
    fault_on_host,
    pack,
    read_image_ids,
    read_image_sizes,
    suspects_of_batches,
    suspects_on_device,
    warn_of_coarse_boxes,
)
from ..inputs.inverted_boxes import warn_if_many
from ..inputs.keys import warn_of_unread_keys
from ..inputs.packing import Rows
from ..inputs.per_image import kind_of_ids, refuse_other_ids
from ..inputs.rules import InputRules
from ..lanes import Lanes
from ..matching import Chunk, MatchedChunk, match_chunk
from ..protocols import DetectionProtocol, MissRateProtocol
from ..ragged import Detections, GroundTruths, even_shares
from ..records import Records
from ..tables.class_slices import starts_of_classes
from ..tables.record_checks import RecordRules, check_records, check_same_images
from ..tables.records import OPTIONAL, TENSORS, MatchRecords, cat_ids, joined
from ..tables.repeats import repeats
from ..transfer import to_device
from . import record_state
from .accumulated import MOST_PENDING, appended
from .base import Metric
from .classes import ClassNames, read_classes
from .deferred import NOTHING_DEFERRED, Deferred
from .record_state import NOTHING_PENDING, AccumulatedRecords, Unread
from .stateful import R_co
from .unread import read_tables

PendingRows = tuple[Detections, GroundTruths]


class RecordMetric(Metric[R_co], Generic[R_co]):
    """Shell around match records: ``update`` packs, a full chunk is matched, boxes are dropped.

    Subclasses give the protocols and turn records into results. Arguments beside the classes are
    those of :meth:`InputRules.of <torch_vocmetrics.inputs.rules.InputRules.of>`.
    """

    def __init__(
        self,
        protocols: Sequence[DetectionProtocol | MissRateProtocol],
        *,
        num_classes: int | None,
        class_names: ClassNames | None,
        label_ids: Sequence[int] | None,
        diagnostics: bool = False,
        **arguments: Any,
    ) -> None:
        self.diagnostics = diagnostics
        self.protocols: tuple[Any, ...] = tuple(protocols)
        classes = read_classes(num_classes, class_names, label_ids, protocols)
        self.class_names, self.label_ids = classes.names, classes.labels
        self._rules = InputRules.of(self.protocols, classes.labels, **arguments)
        # Kept by reset, so that nothing is said twice.
        self._known_scales = frozenset[str]()
        self._unread_keys = frozenset[str]()
        self._told_of_inverted = False
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

        Work happens on the device of the first predicted boxes, those of images without detections
        on the CPU aside; targets may be on the CPU. Values are checked at once on the CPU; on other
        devices by ``compute``, so that ``update`` need not wait.

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

    def records(
        self,
        protocol: str | None = None,
        *,
        sync: bool = True,
        group: Group = None,
        dst: int | None = None,
    ) -> Records | None:
        """Which detection matched which ground truth; a collective in a process group.

        Args:
            protocol: the name of one of the metric's protocols, if it has several.
            sync, group, dst: as for :meth:`compute`.

        Returns:
            Tables of images, ground truths, detections and matches, without repeated images; None
            on the ranks that ``dst`` leaves out.

        Raises:
            InputError: if the metric has no such protocol; else as :meth:`compute`.
        """
        names = [one.name for one in self.protocols]
        if protocol is None and len(names) == 1:
            protocol = names[0]
        if protocol not in names:
            raise InputError(f"must be one of {', '.join(names)}", where="protocol", got=protocol)
        number = names.index(protocol)

        def tables(metric: Any, distinct: Sequence[Sequence[MatchRecords]]) -> Records:
            rules, names = metric.protocols[number], metric.class_names
            if isinstance(rules, DetectionProtocol):
                names = rules.evaluated_classes(names)
            return Records.of(rules, names, MatchRecords.cat(distinct[number]))

        return self._of_all(tables, sync, group, dst)

    def _identity(self) -> dict[str, Any]:
        return super()._identity() | {"diagnostics": self.diagnostics}

    def _with_batch(self, state: AccumulatedRecords, batch: Batch) -> AccumulatedRecords:
        """With one batch more; a chunk that is full is matched."""
        if state.pending and batch.box_formats != state.pending[0].box_formats:
            state = self._flushed(state)
        if not batch.num_images:
            return replace(state, updated=True)
        state = state.at_home(batch.detections.boxes)
        state = AccumulatedRecords(  # ``replace`` takes ten times as long
            tables=state.tables,
            pending=(*state.pending, batch),
            device=state.device,
            updated=True,
            fill=state.fill.plus(batch),
            deferred=state.deferred,
            box_scales=state.box_scales,
            unread=state.unread,
        )
        full = (
            state.fill.is_full(batch.detections.boxes.device) or len(state.pending) >= MOST_PENDING
        )
        return self._flushed(state) if full else state

    def _distinct(self) -> Sequence[Sequence[MatchRecords]]:
        """Records of distinct images, in parts for each protocol."""
        with self._lock:
            state = self._settle()
            ids = cat_ids([part.image_ids for part in state.tables[0] if part.num_images])
            if not repeats(ids):
                tables = tuple(
                    joined(parts, record_state.CHUNK_ROWS // 2) for parts in state.tables
                )
                self._accumulated = replace(state, tables=tables)
                return tables
        records = self._joined().whole
        keep = distinct_images(records[0])
        return [[part.keep_images(keep)] for part in records]

    def _settled(self, state: AccumulatedRecords) -> AccumulatedRecords:
        # Before anything is matched, since faulty values may not allow it.
        rows = self._pending_rows(state)
        deferred, scales = self._deferred(state, rows).read(state.box_scales)
        warn_of_coarse_boxes(deferred.coarse)
        refuse_other_ids(deferred.other_ids)
        self._told_of_inverted = self._told_of_inverted or warn_if_many(deferred.inverted)
        state = self._holding_scales(state, [scale.read() for scale in scales])
        errors = (suspect.read() for suspect in deferred.suspects)
        if (fault := next((error for error in errors if error), None)) is not None:
            raise fault
        if rows is not None:
            state = self._matched(state, rows)
        tables = read_tables(state, self.protocols)
        return replace(state, tables=tables, deferred=NOTHING_DEFERRED, unread=())

    def _columns(self, tables: Sequence[MatchRecords]) -> dict[str, Any]:
        names = (*TENSORS, *OPTIONAL)
        return {"records": [{name: getattr(part, name) for name in names} for part in tables]}

    def _block_starts(self, tables: Sequence[MatchRecords]) -> dict[str, list[int]]:
        return {
            f"records.{number}.{name}": starts
            for number, part in enumerate(tables)
            for name, starts in starts_of_classes(part).items()
        }

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
            return RecordRules(
                1,
                lanes,
                used_matches=protocol.used_objects == "ignore_detection",
                score_limits=len(protocol.jaccard_scores),
            )
        reusable = set(protocol.reusable_flags) - set(protocol.ignored_flags)
        return RecordRules(self._num_classes(number), lanes, one_match_each=not reusable)

    def _flushed(self, state: AccumulatedRecords) -> AccumulatedRecords:
        """The same with pending batches checked and matched, and their boxes dropped."""
        rows = self._pending_rows(state)
        if rows is None:
            return state
        return replace(self._matched(state, rows), deferred=self._deferred(state, rows))

    def _matched(self, state: AccumulatedRecords, rows: PendingRows) -> AccumulatedRecords:
        """The same with the rows of pending batches matched."""
        pending, (detections, ground_truths) = state.pending, rows
        ids, sizes = read_image_ids(pending), read_image_sizes(pending)
        device = detections.boxes.device
        sizes = to_device([sizes], device)[0]
        matched: list[list[MatchRecords]] = [[] for _ in self.protocols]
        shares = state.fill.rows // record_state.CHUNK_ROWS  # a single batch may be many chunks
        unread = []
        for images in even_shares(detections.counts, ground_truths.counts, shares):
            chunk = Chunk(
                detections.images(images),
                ground_truths.images(images),
                len(self.class_names),
                None if ids is None else ids[images],
                sizes[images],
            )
            for number, protocol in enumerate(self.protocols):
                found = self._match(protocol, chunk)
                matched[number].append(found.records)
                if found.overflow is not None:
                    unread.append(
                        Unread(number, found.records, found.chunk or chunk, found.overflow)
                    )
        return replace(
            state,
            tables=tuple(map(appended, state.tables, matched)),
            pending=(),
            fill=NOTHING_PENDING,
            unread=(*state.unread, *unread),
        )

    def _match(self, protocol: Any, chunk: Chunk) -> MatchedChunk:
        """Records of a chunk."""
        return match_chunk(protocol, chunk, diagnostics=self.diagnostics)

    def _pending_rows(self, state: AccumulatedRecords) -> PendingRows | None:
        """The rows of all pending batches, None where there are none."""
        if not state.pending:
            return None
        return (
            Detections.cat([batch.detections for batch in state.pending]),
            GroundTruths.cat([batch.ground_truths for batch in state.pending]),
        )

    def _deferred(self, state: AccumulatedRecords, rows: PendingRows | None) -> Deferred:
        """What devices have checked of all values, those of pending batches too."""
        suspects, coarse, other_ids, inverted = map(list[Any], state.deferred)
        images = state.num_images
        if rows is not None:
            suspects += suspects_of_batches(state.pending, rows, self._rules, images)
        for batch in state.pending:
            suspects += suspects_on_device(batch, images)
            coarse += [flag for flag in batch.coarse if flag.device.type != "cpu"]
            other_ids += [flag for flag in (batch.other_ids,) if flag is not None]
            inverted += [counts for counts in (batch.inverted,) if counts is not None]
            images += batch.num_images
        return Deferred(*map(tuple, (suspects, coarse, other_ids, inverted)))

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
