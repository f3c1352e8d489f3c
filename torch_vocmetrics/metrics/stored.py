"""Detection metrics from state files that together are too large to hold: class by class.

Each file is read once as a whole, when its columns are checked, and is forgotten. Then a few
classes at a time are read from all files: :data:`BLOCK_ROWS` detections, or one class. So the peak
is that of the largest file, or of the largest class of all files, whichever is more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, overload

import torch
from torch import Tensor

from ..curves.class_curves import DETAIL_BYTES, ClassCurves, class_curves, detail_bytes
from ..curves.detection_result import Totals, result_of_curves
from ..curves.ranking import Ranker
from ..lanes import Lanes
from ..protocols import DetectionProtocol
from ..results import DetectionResult
from ..states.blocks import BlockReader, damaged
from ..states.files import read_header, read_state
from ..tables.class_slices import (
    MATCH_INDEX,
    RANKED_DETECTIONS,
    RANKED_MATCHES,
    classes_of_images,
    positives_of_classes,
    starts_of_classes,
)
from ..tables.digests import digest_of_detections, digest_of_truth, starts_of_truth
from ..tables.records import GROUND_TRUTH_COLUMNS, MatchRecords, cat_ids
from ..tables.repeats import arranged
from .identity import named_fault

BLOCK_ROWS = 2**20
RANKED = (*RANKED_DETECTIONS, *RANKED_MATCHES)
COMPARED = (*RANKED, "match_ground_truth", "match_overlap")


@dataclass(frozen=True, eq=False)
class StoredFile:
    """A state file whose columns were checked.

    Attributes:
        path: of the file.
        blocks: reads them again.
        image_ids, num_images: of the file.
        class_counts: for each protocol [K] int64 detections of each class.
    """

    path: str | Path
    blocks: BlockReader
    image_ids: tuple[Any, ...] | None
    num_images: int
    class_counts: tuple[Tensor, ...]

    @classmethod
    def of(cls, path: str | Path, tables: Sequence[MatchRecords]) -> StoredFile:
        """Of a file that holds these tables.

        Raises:
            StateError: if its blocks are not the classes.
        """
        blocks = BlockReader(path, read_header(path)["columns"])
        for number, table in enumerate(tables):
            for name, starts in starts_of_classes(table).items():
                if blocks.starts(f"records.{number}.{name}") != starts:
                    raise damaged(f"the blocks of column {name} are not the classes", str(path))
        counts = tuple(table.class_counts.clone() for table in tables)
        return cls(path, blocks, tables[0].image_ids, tables[0].num_images, counts)

    def classes(self, number: int, classes: range, names: Sequence[str]) -> MatchRecords:
        """The named columns of consecutive classes under protocol ``number``."""
        before = int(self.class_counts[number][: classes.start].sum())
        columns = {}
        for name in names:
            key = f"records.{number}.{name}"
            if self.blocks.dtype(key) is not None:
                columns[name] = self.blocks.read(key, classes.start, classes.stop)
        columns[MATCH_INDEX] = columns[MATCH_INDEX] - before
        counts = self.class_counts[number][classes.start : classes.stop]
        return classes_of_images(columns, counts, self.num_images)

    def ground_truths(self, number: int) -> MatchRecords:
        """The ground truths under protocol ``number``, without detections."""
        columns = {
            name: self.blocks.read(f"records.{number}.{name}") for name in GROUND_TRUTH_COLUMNS
        }
        return classes_of_images({}, self.class_counts[number][:0], self.num_images, columns)


class StoredTables(Sequence[tuple[MatchRecords, ...]]):
    """Tables of a metric that lie in files; whoever asks for one has all of them read.

    Args:
        files: at least one.
        updated: whether there was any update.
        blank: a metric of their rules that has seen nothing.
    """

    def __init__(self, files: Sequence[StoredFile], updated: bool, blank: Any) -> None:
        self.files, self.updated, self._blank = tuple(files), updated, blank

    @classmethod
    def of(cls, paths: Sequence[str | Path], metric: Any) -> StoredTables:
        """Of files of the metric's rules, each of which is read and checked.

        Raises:
            StateError: if a file is damaged, or of other rules.
            OSError: if there is no such file.
        """
        files, updated = [], False
        for path in paths:
            state, _ = read_state(path)
            with named_fault(path):
                read = metric._blank()._load(state)._accumulated
            del state
            updated |= read.updated
            files.append(StoredFile.of(path, read.whole))
            del read  # before the next file is read
        return cls(files, updated, metric._blank())

    @property
    def num_images(self) -> int:
        """Images in the files, copies included."""
        return sum(file.num_images for file in self.files)

    def __len__(self) -> int:
        return len(self.files[0].class_counts)

    @overload
    def __getitem__(self, index: int) -> tuple[MatchRecords, ...]: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[tuple[MatchRecords, ...]]: ...

    def __getitem__(self, index: Any) -> Any:
        if self._blank is not None:
            paths = [file.path for file in self.files]
            self._tables = self._blank._of_files(paths)._accumulated.tables
            self._blank = None
        return self._tables[index]


class StoredEvaluation:
    """Evaluates files class by class.

    Args:
        files: at least one.
        protocols: their rules.
        class_names: of the metric.

    Attributes:
        rows_by_class: [K] int64 detections and ground truths under the first protocol so far.

    Raises:
        StateError: if only some images have ids; if an image came twice with different ground
            truth.
    """

    def __init__(
        self,
        files: Sequence[StoredFile],
        protocols: Sequence[DetectionProtocol],
        class_names: tuple[str, ...],
    ) -> None:
        self._files, self._protocols = files, protocols
        self._names = [protocol.evaluated_classes(class_names) for protocol in protocols]
        ids = cat_ids([file.image_ids for file in files if file.num_images]) or ()
        images = [file.num_images for file in files]
        self._arrangement = arranged(ids, images)
        self._spans = [slice(*pair) for pair in pairwise(accumulate(images, initial=0))]
        self._kept = self._arrangement.kept
        self._found = torch.zeros_like(self._arrangement.positions)
        self.rows_by_class = torch.zeros(len(self._names[0]), dtype=torch.int64)
        if len(self._arrangement.copies):
            truth = torch.cat([digest_of_truth(file.ground_truths(0)) for file in files])
            self._arrangement.check_truth(truth, ids)

    def results(self) -> list[DetectionResult]:
        """The result of each protocol.

        Raises:
            StateError: if a file has changed.
            OSError: if a file cannot be read.
        """
        results = [self._result(number) for number in range(len(self._protocols))]
        if len(self._arrangement.copies):
            self._arrangement.warn_of_copies(self._found)
        return results

    def _result(self, number: int) -> DetectionResult:
        protocol, names = self._protocols[number], self._names[number]
        lanes = Lanes.of(protocol)
        positives = self._positives(number, lanes, len(names))
        counts = torch.stack([file.class_counts[number] for file in self._files]).sum(dim=0)
        dtypes = [file.blocks.dtype(f"records.{number}.score") for file in self._files]
        dtype = torch.float64 if torch.float64 in dtypes else torch.float32
        size = detail_bytes(protocol, len(names), int(counts.sum()), dtype)
        curves, num_detections = list[ClassCurves](), 0
        for classes in _blocks(counts.tolist()):
            ranker = Ranker(
                self._parts(number, classes),
                lanes,
                len(classes),
                protocol.max_detections[:-1],
                positions=self._arrangement.positions[self._kept],
                num_positives=positives[:, classes.start : classes.stop],
            )
            num_detections += ranker.num_detections
            curves.append(class_curves(protocol, ranker, details=size <= DETAIL_BYTES))
            del ranker  # before the next classes are read
        totals = Totals(int(self._kept.sum()), num_detections, positives)
        joined = ClassCurves.joined(curves, range(len(names)))
        return result_of_curves(protocol, joined, totals, names)

    def _positives(self, number: int, lanes: Lanes, num_classes: int) -> Tensor:
        """[A, K] int64: ground truths that count, of the kept images of all files."""
        counts = []
        for file, span in zip(self._files, self._spans, strict=True):
            truths = file.ground_truths(number).keep_images(self._kept[span])
            counts.append(positives_of_classes(truths, lanes, num_classes))
            if number == 0:
                labels = truths.ground_truth_label.long()
                self.rows_by_class += torch.bincount(labels, minlength=num_classes)
        return torch.stack(counts).sum(dim=0)

    def _parts(self, number: int, classes: range) -> list[MatchRecords]:
        """The records of consecutive classes, of the kept images of each file."""
        parts = []
        for file, span in zip(self._files, self._spans, strict=True):
            compared = number == 0 and len(self._arrangement.copies) > 0
            part = file.classes(number, classes, COMPARED if compared else RANKED)
            if compared:
                starts = starts_of_truth(file.ground_truths(0))
                self._found[span] += digest_of_detections(part, classes.start, starts)
            if not self._kept[span].all():
                part = part.keep_images(self._kept[span])
            if number == 0:
                self.rows_by_class[classes.start : classes.stop] += part.class_counts
            parts.append(part)
        return parts


def _blocks(counts: Sequence[int]) -> Iterator[range]:
    """Consecutive classes of together at most :data:`BLOCK_ROWS` detections, or one class."""
    start, rows = 0, 0
    for label, count in enumerate(counts):
        if label > start and rows + count > BLOCK_ROWS:
            yield range(start, label)
            start, rows = label, 0
        rows += count
    yield range(start, len(counts))
