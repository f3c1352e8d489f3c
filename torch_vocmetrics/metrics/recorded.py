"""Metrics whose state is match records: batches are packed, matched in chunks, and dropped."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from operator import mul
from typing import Any, Generic, Self

import torch
from torch import Tensor

from ..errors import InputError
from ..host_work import host_work
from ..inputs.faults import Suspect
from ..inputs.images import (
    Batch,
    InputRules,
    fault_on_host,
    kind_of_ids,
    pack,
    read_image_ids,
    read_image_sizes,
    suspects_on_device,
    warn_of_coarse_boxes,
)
from ..inputs.packing import Rows
from ..lanes import Lanes
from ..matching import match_images
from ..protocols import DetectionProtocol, MissRateProtocol
from ..ragged import BOX_FORMATS, Detections, GroundTruths, even_shares
from ..ranking import distinct_images
from ..tables.records import OPTIONAL, TENSORS, GrowingRecords, Ids, MatchRecords, cat_ids
from ..tables.repeats import repeats
from ..transfer import to_device
from .base import Metric, R_co
from .classes import ClassNames, read_classes

CHUNK_ROWS = 2**16
CHUNK_PAIRS = 2**22
CHUNK_MASK_BYTES = 2**25
"""A chunk is matched when it holds so many rows, pairs (by their bound), or bytes of masks."""

RecordProtocol = DetectionProtocol | MissRateProtocol


class RecordMetric(Metric[R_co], Generic[R_co]):
    """Shell around match records: ``update`` packs, a full chunk is matched, boxes are dropped.

    Subclasses give the protocols and turn records into results.
    """

    def __init__(
        self,
        protocols: Sequence[RecordProtocol],
        *,
        num_classes: int | None,
        class_names: ClassNames | None,
        label_ids: Sequence[int] | None,
        box_format: str,
    ) -> None:
        if box_format not in BOX_FORMATS:
            raise InputError(
                f"must be one of {', '.join(BOX_FORMATS)}", where="box_format", got=repr(box_format)
            )
        self.protocols: tuple[Any, ...] = tuple(protocols)
        classes = read_classes(num_classes, class_names, label_ids)
        self.class_names, self.label_ids = classes.names, classes.labels
        self._rules = InputRules(
            len(classes.names),
            None if classes.labels == tuple(range(len(classes.names))) else classes.labels,
            box_format,
            all(protocol.inverted_boxes == "accept" for protocol in self.protocols),
            next((protocol.task for protocol in self.protocols), "detection"),
            not all(isinstance(p, DetectionProtocol) and not p.uses_boxes for p in self.protocols),
            any(isinstance(p, DetectionProtocol) and p.uses_masks for p in self.protocols),
        )
        self._clear()

    def _clear(self) -> None:
        self._device: torch.device | None = None
        self._pending: list[Batch] = []
        self._pending_rows = self._pending_pairs = self._pending_mask_bytes = 0
        self._records = [
            GrowingRecords(MatchRecords.empty(self._lanes(number), len(self.class_names)))
            for number in range(len(self.protocols))
        ]
        self._suspects: list[Suspect] = []
        self._coarse: list[Tensor] = []
        self._fault: InputError | None = None
        self._updated = False

    @host_work()
    def update(self, predictions: Sequence[Rows] | Rows, targets: Sequence[Rows] | Rows) -> Self:
        """Add a batch of images.

        Args:
            predictions: per image a dict of ``boxes`` [N, 4] in pixels, ``scores`` [N], ``labels``
                [N], and maybe ``order`` [N] int64, which breaks ties of score (the line of a
                results file) in place of image and row.
            targets: per image a dict of ``boxes`` [M, 4], ``labels`` [M], and maybe ``difficult``,
                ``iscrowd``, ``ignore`` [M], ``area`` [M] in square pixels (default: the box's own),
                ``image_id`` (int or str), ``image_size`` (height, width).

        Protocols of masks want ``masks`` on both sides: [N, H, W] bool or integers, [N, 1, H, W]
        probabilities of which those above 0.5 make the mask, or a list of N COCO run lengths or
        polygons (these need ``image_size``). They are packed to bits on their device; ``boxes`` may
        then be left out, unless a protocol needs them too.

        Either may be one dict of packed tensors instead: rows of all images, and ``counts`` [B] on
        the host; or dense tensors, ``boxes`` [B, Q, 4] and the others [B, Q]. Values are tensors,
        NumPy arrays, lists of numbers, or whatever speaks DLPack; torchvision's ``BoundingBoxes``
        say their own format.

        Work happens on the device of the first predicted boxes; targets may be on the CPU. Values
        are checked at once on the CPU; on other devices by ``compute``, so that ``update`` need not
        wait.

        Raises:
            InputError: naming image, key and remedy; the state is then as it was.
        """
        batch = pack(predictions, targets, self._rules, self._device)
        self._check_conventions(batch)
        if (fault := fault_on_host(batch)) is not None:
            raise fault
        warn_of_coarse_boxes([flag for flag in batch.coarse if flag.device.type == "cpu"])
        self._updated = True
        if self._pending and batch.box_formats != self._pending[0].box_formats:
            self._flush()
        if batch.num_images:
            self._device = batch.detections.boxes.device
            self._pending.append(batch)
            found, true = batch.detections.counts, batch.ground_truths.counts
            self._pending_rows += sum(found) + sum(true) + batch.num_images
            self._pending_pairs += sum(map(mul, found, true))
            self._pending_mask_bytes += batch.mask_bytes
        if (
            self._pending_rows >= CHUNK_ROWS
            or self._pending_pairs >= CHUNK_PAIRS
            or self._pending_mask_bytes >= CHUNK_MASK_BYTES
        ):
            self._flush()
        return self

    @torch.no_grad()
    def _state(self) -> list[MatchRecords]:
        """All records so far, one table set a protocol.

        Raises:
            InputError: if values flagged on a device broke the rules; until ``reset``.
        """
        self._settle()
        return [growing.whole() for growing in self._records]

    def _distinct(self) -> list[list[MatchRecords]]:
        """Records of distinct images, in parts for each protocol."""
        self._settle()
        ids = cat_ids([part.image_ids for part in self._records[0].parts if part.num_images])
        if not repeats(ids):
            return [growing.joined(CHUNK_ROWS // 2) for growing in self._records]
        records = self._state()
        keep = distinct_images(records[0])
        return [[part.keep_images(keep)] for part in records]

    def _settle(self) -> None:
        """Match what is pending, and take what a device has put off."""
        self._flush()
        self._read_device()
        for number, growing in enumerate(self._records):
            if growing.parts[0].device.type != "cpu":  # on the host chunks are compact
                lanes = self._lanes(number)
                growing.parts = [part.compact(lanes) for part in growing.parts]

    def _columns(self, tables: Sequence[MatchRecords]) -> dict[str, Any]:
        names = (*TENSORS, *OPTIONAL)
        return {"records": [{name: getattr(part, name) for name in names} for part in tables]}

    def _read(self, ids: list[Any] | None, state: dict[str, Any]) -> list[MatchRecords]:
        image_ids = None if ids is None else tuple(ids)
        records = [MatchRecords(image_ids=image_ids, **columns) for columns in state["records"]]
        for number, part in enumerate(records):
            part.check(len(self.class_names), self._lanes(number))
        return records

    def _hold(self, tables: Sequence[MatchRecords]) -> None:
        self._records = [GrowingRecords(part) for part in tables]

    def _flush(self) -> None:
        """Match what is pending and drop its boxes."""
        pending, self._pending = self._pending, []
        shares = self._pending_rows // CHUNK_ROWS  # a single batch may be many chunks
        self._pending_rows = self._pending_pairs = self._pending_mask_bytes = 0
        if not pending:
            return
        self._defer(pending)
        detections = Detections.cat([batch.detections for batch in pending])
        ground_truths = GroundTruths.cat([batch.ground_truths for batch in pending])
        ids, sizes = read_image_ids(pending), read_image_sizes(pending)
        device = detections.boxes.device
        sizes = to_device([sizes], device)[0]
        del pending  # the rows are held once
        for images in even_shares(detections.counts, ground_truths.counts, shares):
            for number, growing in enumerate(self._records):
                part = self._match_chunk(
                    self.protocols[number],
                    detections.images(images),
                    ground_truths.images(images),
                    None if ids is None else ids[images],
                    sizes[images],
                )
                # On a device that would wait; it is done when the records are read.
                growing.append(part.compact(self._lanes(number)) if device.type == "cpu" else part)

    def _match_chunk(
        self,
        protocol: Any,
        detections: Detections,
        ground_truths: GroundTruths,
        image_ids: Ids | None,
        image_sizes: Tensor,
    ) -> MatchRecords:
        """Match a chunk as a protocol of the metric's task does; boxes are not kept."""
        return match_images(
            protocol,
            detections,
            ground_truths,
            num_classes=len(self.class_names),
            image_ids=image_ids,
            image_sizes=image_sizes,
        )

    def _defer(self, batches: Sequence[Batch]) -> None:
        """Keep what a device has found wrong with values until someone may wait for it."""
        images = self._records[0].num_images
        for batch in batches:
            self._suspects += suspects_on_device(batch, images)
            self._coarse += [flag for flag in batch.coarse if flag.device.type != "cpu"]
            images += batch.num_images

    def _read_device(self) -> None:
        """Read what a device has found wrong with values; a fault stays until ``reset``.

        Raises:
            InputError: naming the first of them.
        """
        suspects, self._suspects = self._suspects, []
        coarse, self._coarse = self._coarse, []
        warn_of_coarse_boxes(coarse)
        if suspects:
            details = torch.stack([found.details for found in suspects]).tolist()
            errors = (found.error(row) for found, row in zip(suspects, details, strict=True))
            self._fault = self._fault or next((error for error in errors if error), None)
        if self._fault is not None:
            raise self._fault

    def _check_conventions(self, batch: Batch) -> None:
        """Image ids and ``order`` must be given always or never."""
        held = self._records[0]
        ids: list[Sequence[object] | None] = [earlier.image_ids for earlier in self._pending[:1]]
        ids += [held.parts[0].image_ids] if held.num_images else []
        mine = kind_of_ids(batch.image_ids)
        for other in map(kind_of_ids, ids):
            if batch.num_images and mine != other:
                raise InputError(
                    "image ids must be of one kind in all batches",
                    where="targets, key 'image_id'",
                    got=f"{mine} after {other}",
                )
        unordered = chain(
            (b.detections.order is None for b in self._pending if sum(b.detections.counts)),
            () if held.has_order is None else (not held.has_order,),
        )
        without = batch.detections.order is None
        if sum(batch.detections.counts) and next(unordered, without) != without:
            raise InputError(
                "must be given in all batches or in none", where="predictions, key 'order'"
            )

    def _lanes(self, number: int) -> Lanes:
        return Lanes.of(self.protocols[number])

    def _arrange(self, order: Tensor) -> None:
        self._hold([part.in_order(order) for part in self._state()])

    def _all_protocols(self) -> tuple[Any, ...]:
        return self.protocols
