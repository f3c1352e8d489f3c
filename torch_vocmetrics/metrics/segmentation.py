"""Mean intersection over union of semantic segmentation: PASCAL VOC of every year, Cityscapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Self, cast

import torch
from torch import Tensor

from ..curves.pixel_result import segmentation_result
from ..errors import InputError
from ..host_work import host_work
from ..inputs.binary_targets import WHITE, WhitePixels
from ..inputs.label_maps import LabelRules, MapBatch, count, explain, read_maps
from ..inputs.per_image import ImageIds, ids_of, ids_on_host, kind_of_ids
from ..ops.label_tallies import by_cell, faults
from ..protocols import SegmentationProtocol, load_dataset, load_protocol, with_rules
from ..results import SegmentationResult
from ..tables.pixels import PixelCounts
from ..transfer import memory_of, to_host
from .accumulated import MOST_PENDING, Accumulated, appended
from .base import Metric
from .classes import ClassNames, read_classes

CHUNK_CELLS = 2**22
"""Dense counts become sparse when so many cells are open: 32 MiB."""


SHARE_OF_MEMORY = 64
"""Of a device's memory, one part in so many is for dense counts, as making them sparse waits."""


def most_cells(device: torch.device) -> int:
    """Cells of dense counts that a chunk may hold."""
    return max(CHUNK_CELLS, memory_of(device) // SHARE_OF_MEMORY // torch.int64.itemsize)


class OpenCounts(NamedTuple):
    """Pixel counts of a batch.

    Attributes:
        dense: [B, cells and faults] int64, see :func:`count`; on a device they are not read yet.
        image_ids: B ids, still tensors where they are on a device; or None.
    """

    dense: Tensor
    image_ids: ImageIds | None

    @property
    def num_images(self) -> int:
        """B."""
        return self.dense.shape[0]


@dataclass(frozen=True, eq=False, kw_only=True)
class AccumulatedPixels(Accumulated):
    """What a metric of label maps has seen; pending are :class:`OpenCounts`.

    Attributes:
        rules: of the labels, on the device of the work.
        cells: of the pending counts.
        white: pixels of the first targets that may be those of objects.
    """

    rules: LabelRules
    cells: int = 0
    white: WhitePixels


class MeanIoU(Metric[SegmentationResult]):
    """Pixel counts of label maps over any number of batches, and the measures made of them.

    Counts are summed over the data set before anything is divided: a mean over images is another
    number. Without classes, those of the protocol's data set are taken: 21 with background for VOC.

    Args:
        protocol: ``"voc2012"``, ``"voc2012_present_classes"``, ``"cityscapes"``, the path of a
            protocol file, or a :class:`SegmentationProtocol`.
        num_classes, class_names: how many classes there are, background included, or their names: a
            list in class order, or a dict {label id: name}.
        label_ids: the label of each class in label maps; default 0 .. K-1. Channels of logits are
            in class order.
        binary_threshold: for two classes and predictions of one channel: numbers above it are of
            the second class. 0.0 for logits, 0.5 for probabilities.
        ignore_index: a label, or several, that count nowhere in place of the protocol's void
            labels: short for ``dataclasses.replace(protocol, void_labels=...)``.

    Raises:
        ProtocolError: if the protocol is unknown (with the near names) or faulty.
        InputError: if the classes are missing, disagree, or occur twice.

    Source: the protocol's file names the official code behind each rule.

    Example:
        >>> import torch
        >>> metric = MeanIoU("voc2012", class_names=["background", "cat"])
        >>> truth = torch.tensor([[[0, 0, 1, 255]]])
        >>> result = metric.update(torch.tensor([[[0, 1, 1, 0]]]), truth).compute()
        >>> result.iou.tolist(), result.headline, result.confusion_matrix.tolist()
        ([0.5, 0.5], 0.5, [[1, 1], [0, 1]])
    """

    def __init__(
        self,
        protocol: str | Path | SegmentationProtocol,
        *,
        num_classes: int | None = None,
        class_names: ClassNames | None = None,
        label_ids: Sequence[int] | None = None,
        ignore_index: int | Sequence[int] | None = None,
        binary_threshold: float | None = None,
    ) -> None:
        several = ignore_index is None or isinstance(ignore_index, Sequence)
        void = ignore_index if several else [ignore_index]
        protocol = with_rules(load_protocol(protocol, SegmentationProtocol), void_labels=void)
        self.protocol = protocol
        self.class_names, self.label_ids, self._categories = _classes(
            protocol, num_classes, class_names, label_ids
        )
        self._binary_threshold = _threshold(binary_threshold, len(self.class_names))
        self._rules = LabelRules.of(
            self.label_ids,
            protocol.void_labels,
            void_predictions=protocol.void_predictions == "miss",
        )
        self._told_of_binary = False  # kept by reset
        self._accumulated: AccumulatedPixels = self._nothing()

    def _nothing(self) -> AccumulatedPixels:
        watched = WHITE in self.protocol.void_labels and 0 in self.label_ids
        white = WhitePixels() if watched and not self._told_of_binary else WhitePixels(stacks=0)
        return AccumulatedPixels(((PixelCounts.empty(),),), rules=self._rules, white=white)

    @property
    def _cells(self) -> int:
        return len(self.class_names) * (len(self.class_names) + 1)

    @host_work()
    def update(
        self, predictions: Any, targets: Any, image_ids: Sequence[int | str] | Tensor | None = None
    ) -> Self:
        """Add a batch of images.

        Args:
            predictions: [B, H, W] labels of any integer type; or [B, K, H, W] logits or
                probabilities, of which the largest counts (the first among equals); or with
                ``binary_threshold`` [B, H, W] or [B, 1, H, W] real numbers; or a list of one [H, W]
                or [K, H, W] an image, for images of different sizes.
            targets: [B, H, W] or [B, 1, H, W] labels, or a list of [H, W]; void labels count
                nowhere.
            image_ids: B ids, int or str, or none in all batches. Of several copies of an image the
                first counts.

        Work happens on the device of the first predictions; targets may be on the CPU. Labels are
        checked at once on the CPU; on other devices by ``compute``, so that ``update`` need not
        wait.

        Raises:
            InputError: naming image, pixel and remedy; the state is then as it was.
        """
        with self._lock:
            state = self._accumulated
            batch = read_maps(
                predictions, targets, len(self.class_names), state.device, self._binary_threshold
            )
            ids = ids_of(image_ids, batch.num_images)
            _check_kind_of_ids(ids, batch.num_images, state)
            self._accumulated = self._with_batch(state, batch, ids)
        return self

    def _with_batch(
        self, state: AccumulatedPixels, batch: MapBatch, ids: ImageIds | None
    ) -> AccumulatedPixels:
        """With one batch more, counted; a chunk that is full becomes sparse."""
        if not batch.num_images:
            return replace(state, updated=True)
        device = batch.stacks[0][1].device
        rules = state.rules if device == state.device else self._rules.to(device)
        dense = count(batch, rules)
        if device.type == "cpu":
            error = explain(faults(dense), batch, rules, ids)
            if error is not None:
                raise error
        state = replace(
            state,
            updated=True,
            device=device,
            rules=rules,
            pending=(*state.pending, OpenCounts(dense, ids)),
            cells=state.cells + dense.numel(),
            white=state.white.after(truth for _, truth in batch.stacks),
        )
        full = state.cells >= most_cells(device) or len(state.pending) >= MOST_PENDING
        return self._flushed(state) if full else state

    def _distinct(self) -> PixelCounts:
        counts: PixelCounts = self._joined().whole[0]
        return counts.without_repeats(len(self.class_names) + 1)

    def _result(self, distinct: PixelCounts) -> SegmentationResult:
        K = len(self.class_names)
        matrix = distinct.total(self._cells).reshape(K, K + 1).cpu().numpy()
        if 0 in self.label_ids and not self._told_of_binary:
            black = int(matrix[self.label_ids.index(0)].sum())
            white = self._accumulated.white
            self._told_of_binary = white.warn_of_binary_targets(black, int(matrix.sum()) - black)
        return segmentation_result(
            self.protocol, matrix, self.class_names, self._categories, distinct.num_images
        )

    def _columns(self, tables: Sequence[PixelCounts]) -> dict[str, Any]:
        return {"counts": tables[0].columns()}

    def _read(self, ids: list[Any] | None, state: dict[str, Any]) -> list[PixelCounts]:
        image_ids = None if ids is None else tuple(ids)
        return [PixelCounts.read(image_ids, state["num_images"], self._cells, state["counts"])]

    def _holding(
        self, tables: Sequence[Any], device: torch.device | None, updated: bool
    ) -> AccumulatedPixels:
        state = cast(AccumulatedPixels, super()._holding(tables, device, updated))
        rules = self._rules if device is None else self._rules.to(device)
        return replace(state, rules=rules)

    def _settled(self, state: AccumulatedPixels) -> AccumulatedPixels:
        return self._flushed(state)

    def _flushed(self, state: AccumulatedPixels) -> AccumulatedPixels:
        """The same with the pending counts checked and made sparse; may wait for the device."""
        if not state.pending:
            return state
        images = state.num_images
        given = [batch.image_ids for batch in state.pending if batch.image_ids is not None]
        ids: list[Any] = [*ids_on_host(given)] or [None] * len(state.pending)
        counts = torch.cat([batch.dense for batch in state.pending])
        (flags,) = to_host([faults(counts)])
        for batch, of_batch in zip(state.pending, ids, strict=True):
            mine = flags[images - state.num_images :][: batch.num_images]
            if (error := explain(mine, None, self._rules, of_batch, images)) is not None:
                raise error
            images += batch.num_images
        read = list(chain.from_iterable(of_batch for of_batch in ids if of_batch))
        part = PixelCounts.of(by_cell(counts), tuple(read) or None)
        return replace(state, tables=(appended(state.tables[0], [part]),), pending=(), cells=0)

    @classmethod
    def _of(
        cls, protocols: Sequence[Any], class_names: Sequence[str], label_ids: Sequence[int]
    ) -> Self:
        return cls(protocols[0], class_names=class_names, label_ids=label_ids)

    def _all_protocols(self) -> list[SegmentationProtocol]:
        return [self.protocol]


def _threshold(given: float | None, num_classes: int) -> float | None:
    """The argument ``binary_threshold``."""
    if given is None:
        return None
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    if num_classes != 2 or not (is_number and math.isfinite(given)):
        raise InputError(
            "must be a finite number, for two classes",
            where="binary_threshold",
            got=f"{given!r} for {num_classes} classes",
        )
    return float(given)


def _check_kind_of_ids(ids: ImageIds | None, num_images: int, state: AccumulatedPixels) -> None:
    """Ids must be given always or never, and be of one kind."""
    earlier: list[Any] = [part.image_ids for part in state.tables[0][:1] if part.num_images]
    earlier += [counts.image_ids for counts in state.pending[:1]]
    if num_images and earlier and kind_of_ids(ids) != kind_of_ids(earlier[0]):
        raise InputError(
            "image ids must be of one kind in all batches",
            where="image_ids",
            got=f"{kind_of_ids(ids)} after {kind_of_ids(earlier[0])}",
        )


def _classes(
    protocol: SegmentationProtocol,
    num_classes: int | None,
    class_names: ClassNames | None,
    label_ids: Sequence[int] | None,
) -> tuple[tuple[str, ...], tuple[int, ...], tuple[str, ...]]:
    """Names, labels and categories: those of the protocol's data set unless something is given."""
    dataset = load_dataset(protocol.dataset)
    if num_classes is None and class_names is None and label_ids is None:
        return dataset.class_names, dataset.label_ids, dataset.category_names
    names, labels = read_classes(num_classes, class_names, label_ids)
    if class_names is None and len(names) == len(dataset.class_names):
        names = dataset.class_names
    if names == dataset.class_names:
        return names, labels or dataset.label_ids, dataset.category_names
    return names, labels or tuple(range(len(names))), ()
