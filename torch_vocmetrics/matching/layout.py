"""Matching of person layouts: whole tables at once, without a loop over layouts.

What happens in turn is local to a person: the first layout of a person, or the first correct one,
or the first part on a true part, is found as the first row of its group.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from ..errors import InputError
from ..inputs.layouts import LayoutRows
from ..ops.boxes import BoxColumns, box_columns, intersection_over_union, pair_intersections
from ..ops.ordering import rank_in_group, rank_order, stable_order
from ..ops.selection import rows_where
from ..protocols import LayoutProtocol
from ..ragged import Ids, image_of_row, index_in_image
from ..tables.records import MatchRecords
from .pairs import Pairs, candidate_pairs

NO_ONE = -1


def match_layouts(
    protocol: LayoutProtocol, layouts: LayoutRows, persons: LayoutRows, image_ids: Ids | None
) -> MatchRecords:
    """Match whole images, independent of all others.

    Args:
        protocol: the rules.
        layouts, persons: of the same images, on one device.
        image_ids: one an image, or None.

    Returns:
        Records whose detections are layouts, or predicted parts with their type as label; skipped
        ones are ignored. Ground truth is persons, or true parts.

    Raises:
        InputError: where the official code stops: a layout without parts that is to be compared
            with a person without parts.
    """
    scene = _Scene(protocol, layouts, persons)
    if protocol.unit == "part":
        outcome = scene.judge_parts()
        rows = scene.parts_as_walked()
        layout, label = scene.owner.index_select(0, rows), layouts.part_labels.index_select(0, rows)
    else:
        outcome = scene.judge_layouts()
        rows = layout = scene.walk
        label = torch.zeros_like(layout)
    device = layouts.boxes.device
    order, num_classes = layouts.order, len(protocol.class_names)
    by_class = stable_order(label)
    rows, layout = rows.index_select(0, by_class), layout.index_select(0, by_class)
    class_counts = torch.zeros(num_classes, dtype=torch.int64, device=device)
    matched = rows_where(outcome.positive.index_select(0, rows))
    lane = torch.ones((matched.shape[0], 1), dtype=torch.int64, device=device)
    partner = outcome.partner.index_select(0, rows.index_select(0, matched))
    overlap = outcome.overlap.index_select(0, rows.index_select(0, matched))
    # A skipped layout has no match; what is ignored without a match is ``out_of_range``.
    skipped = outcome.skipped & ~outcome.positive
    return MatchRecords(
        image_ids=image_ids,
        image_sizes=torch.full((len(layouts.counts), 2), -1, dtype=torch.int32, device=device),
        class_counts=class_counts.index_add(0, label, torch.ones_like(label)),
        image=scene.image.index_select(0, layout).to(torch.int32),
        score=layouts.scores.index_select(0, layout),
        out_of_range=skipped.index_select(0, rows).to(torch.uint8).unsqueeze(1),
        match_detection=matched,
        match_ground_truth=partner.to(torch.int32),
        match_overlap=overlap.float(),
        match_true_positive=lane,
        match_ignored=torch.zeros_like(lane),
        order=None if order is None else order.index_select(0, layout),
        **scene.ground_truth(),
    )


class _Outcome(NamedTuple):
    """What becomes of N layouts, or of P predicted parts.

    Attributes:
        positive, skipped: bool, true positives and those that do not exist for the protocol.
        partner: int64 person, or true part, of a true positive.
        overlap: float64 overlap with it; 1 where the protocol gives the person.
    """

    positive: Tensor
    skipped: Tensor
    partner: Tensor
    overlap: Tensor


@dataclass(frozen=True, eq=False)
class _Scene:
    """Layouts [N] with parts [P], persons [M] with parts [Q], and how they belong together."""

    protocol: LayoutProtocol
    layouts: LayoutRows
    persons: LayoutRows

    @cached_property
    def image(self) -> Tensor:
        """[N] the image of each layout."""
        return image_of_row(self.layouts.counts, self.layouts.boxes.device)

    @cached_property
    def walk(self) -> Tensor:
        """[N] layouts by image, then in the order in which the protocol walks them."""
        scores = self.layouts.scores
        if self.protocol.walk == "file_order":
            scores = torch.zeros_like(scores)
        return rank_order(self.image, scores, (self.layouts.order,), len(self.layouts.counts))

    @cached_property
    def owner(self) -> Tensor:
        """[P] the layout of each predicted part."""
        return _owner(self.layouts)

    @cached_property
    def true_owner(self) -> Tensor:
        """[Q] the person of each true part."""
        return _owner(self.persons)

    @property
    def person(self) -> Tensor:
        """[N] the person that each layout is about, or NO_ONE."""
        return self._person_and_overlap[0]

    @cached_property
    def _person_and_overlap(self) -> tuple[Tensor, Tensor]:
        """[N] each: the person of each layout or NO_ONE, and the overlap of their boxes."""
        layouts, persons, rules = self.layouts, self.persons, self.protocol
        pairs = candidate_pairs(self.image, image_of_row(persons.counts, persons.boxes.device))
        if rules.persons == "given":
            wanted = layouts.object_index.index_select(0, pairs.detection)
            same = wanted == persons.object_index.index_select(0, pairs.ground_truth)
            person = torch.full_like(layouts.part_counts, NO_ONE)
            person = person.index_copy(0, pairs.detection[same], pairs.ground_truth[same])
            return person, torch.ones_like(person, dtype=torch.float64)
        boxes = self._columns(layouts.boxes, layouts.box_format)
        others = self._columns(persons.boxes, persons.box_format)
        best, overlap = _largest(pairs, self._overlap(pairs, boxes, others), len(self.image))
        return torch.where(overlap >= rules.person_iou_threshold, best, NO_ONE), overlap

    @cached_property
    def first(self) -> Tensor:
        """[N] bool: layouts that come first on their person."""
        return _first_of_group(self.person, self.walk)

    def judge_layouts(self) -> _Outcome:
        """The outcome of each layout.

        Raises:
            InputError: where the official code stops.
        """
        known = self.person != NO_ONE
        until_correct = self.protocol.attempts == "until_correct"
        if self.protocol.both_without_parts == "error":
            self._refuse_both_without_parts(known if until_correct else self.first)
        correct = self._parts_ok()
        if until_correct:
            positive = _first_of_group(torch.where(correct, self.person, NO_ONE), self.walk)
            skipped = ~known
        else:
            positive = self.first & correct
            skipped = torch.zeros_like(known)
            if self.protocol.attempts == "first_only":
                skipped = ~self.first
            elif self.protocol.persons == "given":
                skipped = ~known
        return _Outcome(positive, skipped, *self._person_and_overlap)

    def judge_parts(self) -> _Outcome:
        """The outcome of each part; the parts of skipped layouts are skipped."""
        pairs, overlap = self._part_pairs(self.first)
        best, overlap = _largest(pairs, overlap, len(self.owner))
        claim = torch.where(overlap >= self.protocol.part_iou_threshold, best, NO_ONE)
        in_file = torch.arange(len(claim), device=claim.device)
        positive = _first_of_group(claim, in_file)
        return _Outcome(positive, ~self.first.index_select(0, self.owner), best, overlap)

    def parts_as_walked(self) -> Tensor:
        """[P] predicted parts by image, type, layout as walked, and index in the layout."""
        turn = torch.empty_like(self.walk)
        turn = turn.index_copy(0, self.walk, torch.arange(len(turn), device=turn.device))
        rows = torch.argsort(turn.index_select(0, self.owner), stable=True)
        group = self.image.index_select(0, self.owner) * len(self.protocol.parts)
        group = (group + self.layouts.part_labels).index_select(0, rows)
        return rows.index_select(0, torch.argsort(group, stable=True))

    def ground_truth(self) -> dict[str, Tensor]:
        """Columns of persons, or of their parts; areas tell copies of an image apart."""
        persons = self.persons
        image = image_of_row(persons.counts, persons.boxes.device)
        counted = torch.ones_like(image)
        if self.protocol.counted_persons == "with_parts_and_not_difficult":
            counted = ((persons.part_counts > 0) & (persons.difficult == 0)).long()
        area = self._columns(persons.part_boxes, persons.part_format).area
        if self.protocol.unit == "part":
            label = persons.part_labels
            image = image.index_select(0, self.true_owner)
            counted = counted.index_select(0, self.true_owner)
        else:
            label = torch.zeros_like(image)
            area = area.new_zeros(len(image)).scatter_reduce(0, self.true_owner, area, "amax")
        return {
            "ground_truth_image": image.to(torch.int32),
            "ground_truth_label": label.to(torch.int32),
            "ground_truth_area": area,
            "ground_truth_counted": counted.unsqueeze(1),
        }

    def _parts_ok(self) -> Tensor:
        """[N] bool: as many parts of each type, and each part of either side overlaps one.

        With as many of each type on both sides, the official second condition, at least as many
        matched parts as true ones, says that every part of the layout is matched.
        """
        layouts, rules = self.layouts, self.protocol
        fits = self._same_types()
        pairs, overlap = self._part_pairs(fits)
        hits = (overlap >= rules.part_iou_threshold).nonzero().squeeze(1)
        part = pairs.detection.index_select(0, hits)
        true_part = pairs.ground_truth.index_select(0, hits)
        matched = torch.zeros_like(self.owner, dtype=torch.bool).index_fill(0, part, True)
        # A layout that fits has as many parts as its person: slot j of its own stands for part j of
        # the person as well.
        starts, true_starts = (
            torch.cumsum(rows.part_counts, dim=0) - rows.part_counts
            for rows in (layouts, self.persons)
        )
        owner = self.true_owner.index_select(0, true_part)
        position = true_part - true_starts.index_select(0, owner)
        slot = starts.index_select(0, self.owner.index_select(0, part)) + position
        covered = torch.zeros_like(matched).index_fill(0, slot, True)
        missing = torch.zeros_like(layouts.part_counts)
        missing = missing.index_add(0, self.owner, (~(matched & covered)).long())
        least = 2 if rules.single_part == "never_correct" else 1
        return fits & (missing == 0) & (layouts.part_counts >= least)

    def _same_types(self) -> Tensor:
        """[N] bool: layouts of a person that has as many parts of each type."""
        types = len(self.protocol.parts)
        mine, theirs = (
            _histogram(owner * types + rows.part_labels, len(rows.part_counts) * types)
            for owner, rows in ((self.owner, self.layouts), (self.true_owner, self.persons))
        )
        # A last row that equals no histogram stands for NO_ONE.
        theirs = torch.nn.functional.pad(theirs.reshape(-1, types), (0, 0, 0, 1), value=-1)
        partner = self.person % theirs.shape[0]
        return (mine.reshape(-1, types) == theirs.index_select(0, partner)).all(dim=1)

    def _part_pairs(self, chosen: Tensor) -> tuple[Pairs, Tensor]:
        """Pairs of parts of one type of the chosen layouts and their persons, and overlaps."""
        layouts, persons, types = self.layouts, self.persons, len(self.protocol.parts)
        group = self.person.index_select(0, self.owner) * types + layouts.part_labels
        group = torch.where(chosen.index_select(0, self.owner), group, NO_ONE)
        pairs = candidate_pairs(group, self.true_owner * types + persons.part_labels)
        boxes = self._columns(layouts.part_boxes, layouts.part_format)
        others = self._columns(persons.part_boxes, persons.part_format)
        return pairs, self._overlap(pairs, boxes, others)

    def _columns(self, boxes: Tensor, box_format: str) -> BoxColumns:
        inclusive = self.protocol.coordinates == "inclusive_pixels"
        return box_columns(boxes, box_format, inclusive=inclusive)

    def _overlap(self, pairs: Pairs, boxes: BoxColumns, others: BoxColumns) -> Tensor:
        """[pairs] float64 intersection over union."""
        first, second = boxes.rows(pairs.detection), others.rows(pairs.ground_truth)
        inclusive = self.protocol.coordinates == "inclusive_pixels"
        shared = pair_intersections(first, second, inclusive=inclusive)
        return intersection_over_union(shared, first.area, second.area)

    def _refuse_both_without_parts(self, compared: Tensor) -> None:
        counts = torch.nn.functional.pad(self.persons.part_counts, (0, 1), value=-1)
        theirs = counts.index_select(0, self.person % counts.shape[0])
        wrong = compared & (self.layouts.part_counts == 0) & (theirs == 0)
        if not bool(wrong.any()):
            return
        row = int(wrong.long().argmax())
        index = index_in_image(self.layouts.counts, wrong.device)
        raise InputError(
            "a layout without parts stands on a person without parts",
            where=f"layout {int(self.image[row])}, row {int(index[row])}",
            remedy="leave such layouts out: the official code stops at them",
        )


def _owner(rows: LayoutRows) -> Tensor:
    """[P] the row that each part belongs to."""
    counts = rows.part_counts
    owners = torch.arange(counts.shape[0], device=counts.device)
    return torch.repeat_interleave(owners, counts, output_size=rows.part_labels.shape[0])


def _largest(pairs: Pairs, overlap: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """[count] partner of the largest overlap above 0, the first of equal ones, and the overlap."""
    largest = overlap.new_zeros(count).scatter_reduce(0, pairs.detection, overlap, "amax")
    best = (overlap > 0) & (overlap == largest.index_select(0, pairs.detection))
    rows = best.nonzero().squeeze(1)
    nobody = torch.iinfo(torch.int64).max
    partner = pairs.detection.new_full((count,), nobody).scatter_reduce(
        0, pairs.detection.index_select(0, rows), pairs.ground_truth.index_select(0, rows), "amin"
    )
    return torch.where(partner == nobody, NO_ONE, partner), largest


def _first_of_group(group: Tensor, walk: Tensor) -> Tensor:
    """[N] bool: rows that come first of their group when walked; rows of NO_ONE never do."""
    walked = group.index_select(0, walk)
    by_group = torch.argsort(walked, stable=True)
    rows, groups = walk.index_select(0, by_group), walked.index_select(0, by_group)
    leads = (rank_in_group(groups) == 0) & (groups != NO_ONE)
    return torch.zeros_like(leads).index_copy(0, rows, leads)


def _histogram(values: Tensor, size: int) -> Tensor:
    """[size] int64: how often each value occurs."""
    none = torch.zeros(size, dtype=torch.int64, device=values.device)
    return none.index_add(0, values, torch.ones_like(values))
