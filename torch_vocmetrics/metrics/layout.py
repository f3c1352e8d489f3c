"""Average precision of person layout: PASCAL VOC of every year.

A layout is an estimate of a person's head, hands and feet. Boxes are pixels, the last one included.
Until 2009 whole layouts are right or wrong, from 2010 on parts are; in 2007 persons are detected as
well, afterwards they are given. Differences to the official tools, each with its effect:

* the mean over part types is ours (the development kit has none): over types with true parts;
* parts of a type that the protocol does not know are an error, where the kit counts them as wrong;
* a NaN confidence is an error, where the kit ranks it last; infinite ones are ranked as floats;
* the kit of 2009 lacks its function: ``voc2009`` ranks by confidence, as its manual says,
  ``voc2009_file_order`` walks the file, as the code of 2008 does;
* where the kit stops (a layout without parts on a person without parts) an error says so.

As in the official code, a layout of exactly one part is never right in 2007 to 2009.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, cast

import torch
from torch import Tensor

from ..curves.challenge_results import layout_result
from ..curves.ranking import rank
from ..host_work import host_work
from ..inputs.images import read_image_ids
from ..inputs.layouts import LayoutBatch, LayoutRows, layout_fault, pack_layouts
from ..inputs.packing import Rows
from ..inputs.per_image import refuse_other_ids
from ..lanes import Lanes
from ..matching.layout import match_layouts
from ..protocols import LayoutProtocol, load_protocol
from ..results import LayoutResult
from ..tables.record_checks import RecordRules
from ..tables.records import MatchRecords, joined
from ..transfer import to_host
from .accumulated import MOST_PENDING, appended
from .deferred import NOTHING_DEFERRED
from .record_state import CHUNK_ROWS, NOTHING_PENDING, AccumulatedRecords, Fill
from .recorded import RecordMetric


class LayoutAP(RecordMetric[LayoutResult]):
    """Average precision of person layouts, over any number of batches.

    Args:
        protocol: ``"voc2007"`` to ``"voc2012"``, ``"voc2009_file_order"``, the path of a
            protocol file, or a :class:`LayoutProtocol`.

    Raises:
        ProtocolError: if the protocol is unknown (with the near names) or faulty.

    Source: the protocol's file names the official code behind each rule.

    Example:
        >>> parts = {"part_boxes": [[30, 1, 60, 40], [1, 80, 20, 99], [80, 80, 99, 99]],
        ...          "part_labels": [0, 1, 1], "part_counts": [3]}
        >>> layout = parts | {"object_index": [1], "scores": [0.9]}
        >>> person = parts | {"object_index": [1]}
        >>> LayoutAP("voc2012").update([layout], [person]).compute().to_dict()
        {'AP/head': 1.0, 'AP/hand': 1.0, 'AP/foot': 0.0}
    """

    def __init__(self, protocol: str | Path | LayoutProtocol) -> None:
        protocol = load_protocol(protocol, LayoutProtocol)
        self.protocol = protocol
        # The shell asks a protocol for its name and fingerprint only.
        super().__init__(
            cast(Any, [protocol]),
            num_classes=None,
            class_names=protocol.class_names,
            label_ids=None,
            box_format="xyxy",
        )

    @host_work()
    def update(self, layouts: Sequence[Rows] | Rows, persons: Sequence[Rows] | Rows) -> Self:
        """Add a batch of images.

        Args:
            layouts: per image a dict of ``boxes`` [N, 4] in pixels (protocols that detect persons)
                or ``object_index`` [N] (those that give them), ``scores`` [N], ``part_boxes``
                [P, 4], ``part_labels`` [P] (indices in the protocol's ``parts``), ``part_counts``
                [N]: how many parts each layout has; and maybe ``order`` [N] int64, the index in
                the results file, and ``image_id``, which must be that of the persons.
            persons: per image a dict of ``boxes`` [M, 4] or ``object_index`` [M], ``part_boxes``
                [P, 4], ``part_labels`` [P], ``part_counts`` [M], and maybe ``difficult`` [M] and
                ``image_id`` (int or str).

        Either may be one dict of packed tensors instead: rows and parts of all images, and
        ``counts`` [B] on the host: how many rows each image has.

        Work happens on the device of the layouts; persons may be on the CPU. On the CPU values are
        checked and layouts matched at once; on other devices later, so that ``update`` need not
        wait.

        Raises:
            InputError: naming image and row; the state is then as it was. Also where the official
                code stops: a layout without parts on a person without parts.
        """
        with self._lock:
            state = self._accumulated
            batch: Any = pack_layouts(layouts, persons, self.protocol, state.device)
            self._check_conventions(batch, state)
            on_host = batch.layouts.boxes.device.type == "cpu"
            fault = layout_fault(batch, self.protocol) if on_host else None
            if fault is not None:
                raise fault
            self._warn_of_unread_keys(batch)
            self._accumulated = self._with_batch(self._with_scales(state, batch), batch)
        return self

    def _with_batch(self, state: AccumulatedRecords, batch: Any) -> AccumulatedRecords:
        """With one batch more, which is matched at once on the CPU."""
        state = replace(state, updated=True)
        if not batch.num_images:
            return state
        state = state.at_home(batch.layouts.boxes)
        if batch.layouts.boxes.device.type == "cpu":
            parts = appended(state.tables[0], [self._match_batches([batch])])
            if len(parts) >= MOST_PENDING:
                parts = joined(parts, CHUNK_ROWS // 2)
            return replace(state, tables=(parts,))
        pending = (*state.pending, batch)
        fill = Fill(state.fill.rows + batch.layouts.part_labels.shape[0])
        state = replace(state, pending=pending, fill=fill)
        full = fill.is_full(batch.layouts.boxes.device) or len(pending) >= MOST_PENDING
        return self._flushed(state) if full else state

    def _boxes_of_sides(self, batch: Any) -> tuple[Tensor, Tensor]:
        return batch.layouts.part_boxes, batch.persons.part_boxes

    def _result(self, distinct: Sequence[Sequence[MatchRecords]]) -> LayoutResult:
        records = MatchRecords.cat(distinct[0])
        by_score = self.protocol.walk == "by_confidence"
        ranking = rank(records, Lanes.of(self.protocol), len(self.class_names), by_score=by_score)
        return layout_result(self.protocol, ranking)

    @classmethod
    def _of(
        cls,
        protocols: Sequence[Any],
        class_names: Sequence[str],  # noqa: ARG003
        label_ids: Sequence[int],  # noqa: ARG003
    ) -> Self:
        return cls(protocols[0])

    def _settled(self, state: AccumulatedRecords) -> AccumulatedRecords:
        _, scales = NOTHING_DEFERRED.read(state.box_scales)
        return self._flushed(self._holding_scales(state, [scale.read() for scale in scales]))

    def _flushed(self, state: AccumulatedRecords) -> AccumulatedRecords:
        """The same with pending batches checked and matched, and their boxes dropped."""
        # What follows walks layout by layout in the order of the values, which only the host knows.
        pending = LayoutBatch.on_host(state.pending)
        refuse_other_ids(to_host([b.other_ids for b in pending if b.other_ids is not None]))
        images = state.num_images
        for batch in pending:
            if (fault := layout_fault(batch, self.protocol, images)) is not None:
                raise fault
            images += batch.num_images
        groups = itertools.groupby(pending, lambda batch: batch.formats)
        device = state.device or torch.device("cpu")
        matched = [self._match_batches(list(group)).to(device) for _, group in groups]
        return replace(
            state, tables=(appended(state.tables[0], matched),), pending=(), fill=NOTHING_PENDING
        )

    def _match_batches(self, batches: Sequence[LayoutBatch]) -> MatchRecords:
        layouts, persons = (
            LayoutRows.cat([getattr(batch, side) for batch in batches])
            for side in ("layouts", "persons")
        )
        ids = read_image_ids(cast(Any, batches))
        return match_layouts(self.protocol, layouts, persons, ids)

    def _record_rules(self, number: int) -> RecordRules:
        rules = self.protocol
        every = rules.counted_persons == "all"
        return RecordRules(
            len(self.class_names),
            self._lanes(number),
            falling_scores=rules.walk == "by_confidence",
            positives_count=every,
        )
