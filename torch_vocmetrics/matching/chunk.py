"""Match a chunk of whole images, whatever the task: candidates, lanes, matcher, match records."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..image_masks import BitMasks, ImageMasks
from ..lanes import Lanes
from ..ops.ordering import stable_order
from ..ops.selection import rows_where
from ..protocols import DetectionProtocol, MissRateProtocol
from ..ragged import Detections, GroundTruths, Ids, index_in_image, starts_of_images
from ..tables.records import MatchRecords
from ..transfer import from_host, reads_are_free
from .best_overlaps import best_overlaps
from .detection import detection_setup
from .fused import kernel_takes, match_word
from .greedy import Matches
from .masks import overlaps_of_stacks
from .overlaps import known_overlaps, match_by_overlaps
from .pairs import is_among
from .pedestrians import crowd_counts, pedestrian_setup
from .problem import MatchProblem, MatchSetup

HOST = torch.device("cpu")

SPARE_MATCHES = 1.0
"""Rows of a device's match table for each ground truth, beside one for each detection."""


@dataclass(frozen=True, eq=False)
class Chunk:
    """Whole images, matched independently of all others.

    Attributes:
        detections, ground_truths: of the same images, on one device.
        num_classes: labels lie in [0, num_classes).
        image_ids: one id an image, or None.
        image_sizes: [I, 2] int32 height and width, -1 where unknown.
        overlaps: of masks that a device has compared and dropped, see :class:`MatchProblem`; or
            None.
    """

    detections: Detections
    ground_truths: GroundTruths
    num_classes: int
    image_ids: Ids | None
    image_sizes: Tensor
    overlaps: Tensor | None = None

    @property
    def device(self) -> torch.device:
        """Where the rows are."""
        return self.detections.boxes.device

    def to(self, device: torch.device) -> Chunk:
        """The same chunk on another device."""
        return replace(
            self,
            detections=self.detections.to(device),
            ground_truths=self.ground_truths.to(device),
            image_sizes=self.image_sizes.to(device),
            overlaps=None if self.overlaps is None else self.overlaps.to(device),
        )

    def comparing_masks(self, over_area: Tensor) -> Chunk:
        """The same chunk with the overlaps of masks in place of their bits; waits for nothing."""
        detections, ground_truths = self.detections, self.ground_truths
        return replace(
            self,
            detections=detections.with_masks(_without_bits(detections.masks)),
            ground_truths=ground_truths.with_masks(_without_bits(ground_truths.masks)),
            overlaps=overlaps_of_stacks(detections, ground_truths, over_area),
        )

    def of_one_class(self) -> Chunk:
        """The same chunk as if all labels were equal."""
        return replace(
            self,
            detections=self.detections.of_one_class(),
            ground_truths=self.ground_truths.of_one_class(),
            num_classes=1,
        )


class MatchedChunk(NamedTuple):
    """Records of a chunk.

    Attributes:
        records: on the device of the chunk; on CUDA to be made compact when they are read.
        overflow: [1] int32 on CUDA, not 0 if the table of matches was too small, so that ``chunk``
            must be matched again on the host; None on the host.
        chunk: what is needed for that.
    """

    records: MatchRecords
    overflow: Tensor | None = None
    chunk: Chunk | None = None


def match_chunk(
    protocol: DetectionProtocol | MissRateProtocol, chunk: Chunk, *, diagnostics: bool = False
) -> MatchedChunk:
    """Match the images of a chunk.

    Args:
        protocol: the rules.
        chunk: the images.
        diagnostics: also record which row of its image a detection was and its best overlaps (see
            :class:`~torch_vocmetrics.tables.records.MatchRecords`); done on the host.

    Returns:
        The records on the same device. On CUDA the host reads nothing, unless the kernel cannot be
        used, overlaps are neither of boxes nor of masks, or diagnostics are wanted: then the host
        matches.
    """
    if isinstance(protocol, DetectionProtocol) and protocol.class_agnostic:
        chunk = chunk.of_one_class()
    by_boxes, device = protocol.overlap_of == "boxes", chunk.device
    if device.type == "cuda" and (diagnostics or not _matches_there(protocol, chunk)):
        found = match_chunk(protocol, chunk.to(HOST), diagnostics=diagnostics)
        return MatchedChunk(found.records.to(device))
    setup = _setup(protocol, chunk)
    if not reads_are_free(device) and protocol.overlap_of == "masks":
        chunk = chunk.comparing_masks(setup.ground_truths.over_area)
    if chunk.overlaps is not None:
        setup = setup._replace(rules=setup.rules._replace(known_overlaps=True))
    lanes = Lanes.of(protocol)
    # The kernel, and overlaps other than those of boxes, go through the candidates image by image.
    by_image = not reads_are_free(device) or not by_boxes
    candidates = _candidates(setup, chunk, lanes, by_image=by_image)
    problems = [_problem(setup, chunk, candidates, word) for word in range(lanes.words)]
    matches, overflow = _matches(protocol, setup, chunk, candidates, problems)
    records = _records(setup, chunk, matches)
    if isinstance(protocol, MissRateProtocol) and protocol.jaccard_scores:
        everything = _candidates(setup, chunk, lanes, all_detections=True)
        counts = crowd_counts(protocol, setup, _problem(setup, chunk, everything, 0), records.score)
        records = replace(records, image_counts=counts)
    if diagnostics:
        records = replace(records, **_diagnostics(protocol, setup, chunk, lanes))
    if reads_are_free(device) or overflow is None:
        records = records.compact()
    return MatchedChunk(records, overflow, chunk)


def _matches_there(protocol: DetectionProtocol | MissRateProtocol, chunk: Chunk) -> bool:
    """Whether the CUDA device of a chunk can match it by itself."""
    largest = max(chunk.ground_truths.counts, default=0)
    return protocol.overlap_of in ("boxes", "masks") and kernel_takes(largest, chunk.device)


def _without_bits(masks: tuple[ImageMasks, ...] | None) -> tuple[ImageMasks, ...]:
    return tuple(one.without_bits() if isinstance(one, BitMasks) else one for one in masks or ())


def _setup(protocol: DetectionProtocol | MissRateProtocol, chunk: Chunk) -> MatchSetup:
    if isinstance(protocol, DetectionProtocol):
        return detection_setup(protocol, chunk.detections, chunk.ground_truths, chunk.num_classes)
    return pedestrian_setup(protocol, chunk.detections, chunk.ground_truths, chunk.image_sizes)


class _Candidates(NamedTuple):
    """Detections that may match a ground truth, [H] each.

    Attributes:
        row: [H] int64 rows of the recorded detections.
        present: [H, words] int64 lanes in which they exist.
        starts: [I + 1] int64 rows of each image, where candidates stand image by image.
        match_starts: [I + 1] int64 rows of the match table for each image, on a device.
        capacity: rows of that table.
    """

    row: Tensor
    present: Tensor
    starts: Tensor
    match_starts: Tensor
    capacity: int


def _candidates(
    setup: MatchSetup,
    chunk: Chunk,
    lanes: Lanes,
    *,
    by_image: bool = False,
    all_detections: bool = False,
) -> _Candidates:
    """On the host the detections with a ground truth of their group, on a device all."""
    rows, device = setup.detections, chunk.device
    starts = starts_of_images(chunk.detections.counts, device)
    match_starts, capacity = starts, 0
    if reads_are_free(device) and not all_detections:
        index = rows_where(is_among(rows.group, setup.ground_truths.group))
    else:
        index = torch.arange(rows.row.shape[0], device=device)
    if not reads_are_free(device):
        firsts = _match_starts(chunk)
        match_starts, capacity = from_host(firsts, torch.int64, device), firsts[-1]
    if by_image and chunk.num_classes > 1:
        index = index.index_select(0, stable_order(rows.image.index_select(0, index).long()))
    if rows.present is None:
        present = torch.full((index.shape[0], lanes.words), -1, device=device)
    else:
        present = rows.present.index_select(0, index)
    return _Candidates(index, present, starts, match_starts, capacity)


def _match_starts(chunk: Chunk) -> list[int]:
    """Rows of the device's match table for each image, with the total appended.

    A detection mostly matches one ground truth; each ground truth has a spare row for detections
    that match different ones at different thresholds.
    """
    counts = zip(chunk.detections.counts, chunk.ground_truths.counts, strict=True)
    rows = (n + int(SPARE_MATCHES * m) if n and m else 0 for n, m in counts)
    return list(accumulate(rows, initial=0))


def _problem(setup: MatchSetup, chunk: Chunk, candidates: _Candidates, word: int) -> MatchProblem:
    """The candidates in one word of lanes."""
    device, rows, objects = candidates.row.device, setup.detections, setup.ground_truths
    bits = [words[word] for words in setup.threshold_lanes]
    return MatchProblem(
        boxes=rows.box_table(candidates.row),
        group=rows.group.index_select(0, candidates.row),
        present=candidates.present[:, word].contiguous(),
        starts=candidates.starts,
        match_starts=candidates.match_starts,
        object_boxes=objects.boxes,
        object_group=objects.group,
        object_starts=objects.starts,
        counted=objects.counted[:, word].contiguous(),
        exclusive=objects.exclusive[:, word].contiguous(),
        over_area=objects.over_area,
        regions=objects.regions,
        epsilon=from_host([setup.epsilon], torch.float64, device),
        thresholds=from_host(setup.thresholds, torch.float64, device),
        threshold_bits=from_host(bits, torch.int64, device),
        **_known_overlaps(setup, chunk, candidates),
    )


def _known_overlaps(setup: MatchSetup, chunk: Chunk, candidates: _Candidates) -> dict[str, Tensor]:
    """Columns of overlaps that are known; where there are none, columns that nobody reads."""
    row, device = candidates.row, candidates.row.device
    if chunk.overlaps is None:
        none = torch.zeros(1, dtype=torch.float64, device=device)
        return {"came": row, "overlaps": none, "overlap_starts": candidates.starts}
    counts = zip(chunk.detections.counts, chunk.ground_truths.counts, strict=True)
    pairs = list(accumulate((n * m for n, m in counts), initial=0))
    return {
        "came": setup.detections.row.index_select(0, row),
        "overlaps": chunk.overlaps,
        "overlap_starts": from_host(pairs, torch.int64, device),
    }


def _matches(
    protocol: DetectionProtocol | MissRateProtocol,
    setup: MatchSetup,
    chunk: Chunk,
    candidates: _Candidates,
    problems: list[MatchProblem],
) -> tuple[list[Matches], Tensor | None]:
    """Matches of each word of lanes, of recorded detections; whether a device's table was full."""
    largest, flags, found = max(chunk.ground_truths.counts, default=0), [], []
    if protocol.overlap_of == "boxes" or chunk.overlaps is not None:
        for problem in problems:
            matches, overflow = match_word(problem, setup.rules, largest, candidates.capacity)
            found.append(matches)
            flags.append(overflow)
    else:
        known = known_overlaps(
            protocol.overlap_of,
            (chunk.detections, chunk.ground_truths),
            (problems[0].group, setup.ground_truths.group),
            setup.detections.row.index_select(0, candidates.row),
            (candidates.present != 0).any(1),
            setup.ground_truths.over_area,
            min(setup.thresholds),
        )
        found = [match_by_overlaps(problem, setup.rules, known) for problem in problems]
    recorded = [_of_records(matches, candidates.row) for matches in found]
    if reads_are_free(chunk.device) or not flags:
        return recorded, None
    return recorded, torch.stack(flags).amax(dim=0)


def _of_records(matches: Matches, index: Tensor) -> Matches:
    """Matches whose candidates are replaced by recorded detections; unused rows stay -1."""
    if not index.shape[0] or not matches.detection.shape[0]:
        return matches
    unused = matches.detection < 0
    detection = index.index_select(0, matches.detection.clamp(min=0))
    return matches._replace(detection=detection.masked_fill_(unused, -1))


def _records(setup: MatchSetup, chunk: Chunk, matches: list[Matches]) -> MatchRecords:
    """The records, with one row for each word of lanes in which a pair matched."""
    rows, objects = setup.detections, setup.ground_truths
    positive = torch.cat([_in_word(one.true_positive, n, matches) for n, one in enumerate(matches)])
    ignored = torch.cat([_in_word(one.ignored, n, matches) for n, one in enumerate(matches)])
    order = chunk.detections.order
    return MatchRecords(
        image_ids=chunk.image_ids,
        image_sizes=chunk.image_sizes,
        ground_truth_image=objects.image,
        ground_truth_label=chunk.ground_truths.labels.to(torch.int32),
        ground_truth_area=objects.area,
        ground_truth_counted=objects.counted,
        class_counts=rows.class_counts,
        image=rows.image,
        score=chunk.detections.scores.index_select(0, rows.row),
        out_of_range=rows.out_of_range,
        match_detection=torch.cat([one.detection for one in matches]),
        match_ground_truth=torch.cat([one.ground_truth for one in matches]).to(torch.int32),
        match_overlap=torch.cat([one.overlap for one in matches]),
        match_true_positive=positive,
        match_ignored=ignored,
        order=None if order is None else order.index_select(0, rows.row),
    )


def _in_word(bits: Tensor, word: int, words: list[Matches]) -> Tensor:
    """[H, words] lane bits of which all but those of one word are 0."""
    columns = [bits if n == word else torch.zeros_like(bits) for n in range(len(words))]
    return torch.stack(columns, dim=1)


def _diagnostics(
    protocol: DetectionProtocol | MissRateProtocol, setup: MatchSetup, chunk: Chunk, lanes: Lanes
) -> dict[str, Any]:
    """Columns of detections that are kept on request, for a chunk on the host."""
    by_image = protocol.overlap_of != "boxes"
    everything = _candidates(setup, chunk, lanes, by_image=by_image, all_detections=True)
    index = index_in_image(chunk.detections.counts, HOST).to(torch.int32)
    return {
        "index": index.index_select(0, setup.detections.row),
        **best_overlaps(
            protocol.overlap_of,
            (chunk.detections, chunk.ground_truths),
            setup,
            _problem(setup, chunk, everything, 0),
            everything.row,
        ),
    }
