"""From per-image dicts to packed rows: keys, shapes and dtypes at once, values by one check."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError, warn
from ..protocols import FLAGS
from ..ragged import OPTIONAL_COLUMNS, Detections, GroundTruths, Ids
from ..transfer import from_host, on_one_device, work_device
from .box_formats import FRACTIONS, in_pixels, suspects_of_fractions
from .faults import (
    BAD_SIZE,
    Subject,
    Suspect,
    suspect,
    suspects_of_rows,
    unknown_label,
)
from .forms import as_images
from .inverted_boxes import num_inverted
from .keys import PREDICTION, TARGET, added_keys, check_images, check_keys, keys_of
from .masks import read_masks, suspects_of_masks, with_boxes
from .numbers import on_host
from .packing import ImageList, PackedRows, Rows, Side, columns_of
from .per_image import (
    ImageIds,
    ImageSizes,
    bad_sizes,
    compare_ids,
    ids_on_host,
    read_ids,
    read_sizes,
    sizes_as_tensor,
)
from .row_tensors import from_row_tensors
from .rules import InputRules

READ_IF_GIVEN = (*FLAGS, "area", *OPTIONAL_COLUMNS)
"""Columns of targets for which there is a value where they are not given."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Packed images as they came, on one device, ready to be matched.

    Attributes:
        image_ids, image_sizes: see :mod:`per_image`; or None.
        suspects: where values may break the rules, unless it is plain that none does; read by
            :func:`fault_on_host` and :func:`suspects_on_device`.
        coarse: 0-d bool each, whether half boxes lie where whole pixels are not exact.
        other_ids: as of :func:`compare_ids`.
        unread_keys: of targets, keys that no metric reads.
        inverted: as of :func:`num_inverted`, where such boxes are taken.
        unchecked: sides whose rows came on a device; :func:`suspects_of_batches` checks them.
    """

    detections: Detections
    ground_truths: GroundTruths
    image_ids: ImageIds | None
    image_sizes: ImageSizes | None
    suspects: list[Suspect]
    coarse: tuple[Tensor, ...]
    other_ids: Tensor | None
    unread_keys: frozenset[str]
    inverted: Tensor | None = None
    unchecked: tuple[str, ...] = ()

    @property
    def box_formats(self) -> tuple[str, str]:
        """Of detections and of ground truths."""
        return self.detections.box_format, self.ground_truths.box_format

    @property
    def num_images(self) -> int:
        """B."""
        return len(self.detections.counts)

    def to(self, device: torch.device) -> Self:
        """The same batch on another device."""
        return replace(
            self,
            detections=self.detections.to(device),
            ground_truths=self.ground_truths.to(device),
        )

    @property
    def mask_bytes(self) -> int:
        """Memory that masks take."""
        if self.detections.masks is None:
            return 0
        masks = (*self.detections.masks, *(self.ground_truths.masks or ()))
        return sum(one.num_bytes for one in masks)


def pack(
    predictions: Sequence[Rows] | Rows,
    targets: Sequence[Rows] | Rows,
    rules: InputRules,
    device: torch.device | None,
) -> Batch:
    """Check keys, shapes and types of a batch and pack it; waits for no device.

    Args:
        predictions: per image ``boxes`` [N, 4], ``scores``, ``labels`` [N], maybe ``order`` [N]; or
            one dict of packed tensors with ``counts`` [B], or dense [B, Q, 4] and [B, Q].
        targets: per image ``boxes`` [M, 4], ``labels`` [M], maybe ``difficult``, ``iscrowd``,
            ``ignore``, ``area`` [M], ``image_id``, ``image_size``; or packed likewise.
            In either list None is an image without rows.
        device: where the rows go; None for the device of the first predicted boxes.

    Raises:
        InputError: naming image, key and remedy.
    """
    predictions, targets = from_row_tensors(predictions, targets, rules.columns)
    predictions = as_images(predictions, keys_of(rules.task, PREDICTION), PREDICTION)
    targets = as_images(targets, keys_of(rules.task, TARGET), TARGET)
    if not rules.boxes:
        predictions, targets = with_boxes(predictions), with_boxes(targets)
    found, _ = _side(predictions, PREDICTION, rules)
    true, unread = _side(targets, TARGET, rules)
    if len(found.counts) != len(true.counts):
        raise InputError(
            "predictions and targets must have one entry per image each",
            got=f"{len(found.counts)} and {len(true.counts)}",
        )
    # Images without predictions, which are often on the host, say nothing of the device.
    home = true if found.boxes.is_cpu and not sum(found.counts) else found
    work = work_device(device or home.boxes.device)
    ids, sizes = image_ids_of(true), image_sizes_of(true)
    suspects = suspects_of_fractions(true.boxes, true.box_format, true.counts, TARGET, ids)
    if isinstance(sizes, Tensor):
        sizes = sizes.to(work)
        suspects.append(_suspect_of_sizes(sizes, ids))
    detections, doubtful = _pack_detections(found, rules, sizes)
    ground_truths, also_doubtful = _pack_ground_truths(true, rules, sizes)
    if rules.masks:
        counts = (found.counts, true.counts)
        own, others = read_masks(predictions, targets, counts, sizes, work)
        detections, ground_truths = detections.with_masks(own), ground_truths.with_masks(others)
    unchecked = () if work.type == "cpu" else _on_device(detections, ground_truths)
    detections, first = _checked(detections, doubtful, PREDICTION, ids, rules, work)
    ground_truths, second = _checked(ground_truths, also_doubtful, TARGET, ids, rules, work)
    return Batch(
        detections,
        ground_truths,
        ids,
        sizes,
        [*suspects, *first, *second],
        tuple(side.coarse for side in (found, true) if side.coarse is not None),
        compare_ids(image_ids_of(found, PREDICTION), ids),
        unread,
        num_inverted(detections, ground_truths) if rules.inverted_boxes else None,
        unchecked,
    )


def _on_device(detections: Detections, ground_truths: GroundTruths) -> tuple[str, ...]:
    """The sides that did not come on the host."""
    sides = {PREDICTION: detections.is_cpu, TARGET: ground_truths.is_cpu}
    return tuple(side for side, is_cpu in sides.items() if not is_cpu)


R = TypeVar("R", Detections, GroundTruths)


def _checked(
    rows: R,
    doubtful: Collection[str],
    side: str,
    ids: ImageIds | None,
    rules: InputRules,
    work: torch.device,
) -> tuple[R, list[Suspect]]:
    """Rows, and what may be wrong with their values and masks.

    Rows on the host are checked there before they are moved. Others, and columns on several
    devices, are moved before; on a device the rows of many batches are checked together, later.
    """
    if not rows.is_cpu:
        rows = rows.to(work)
    if rules.drop_unknown and "labels" in doubtful:
        rows = rows.where(rows.labels >= 0)
    suspects = []
    if rows.is_cpu:
        suspects = suspects_of_rows(
            rows,
            side,
            ids,
            rules.num_labels,
            inverted_boxes=rules.inverted_boxes,
            doubtful=doubtful,
        )
    if rows.masks is not None:
        suspects += suspects_of_masks(rows.masks, side, ids, work)
    return rows.to(work), suspects


def fault_on_host(batch: Batch) -> InputError | None:
    """The error that values checked on the host deserve, or None."""
    errors = (one.read() for one in batch.suspects if one.details.is_cpu)
    return next((error for error in errors if error is not None), None)


def suspects_on_device(batch: Batch, images_before: int) -> list[Suspect]:
    """What a device has checked, to be read later; ``images_before`` came before the batch."""
    return [
        one._replace(images_before=images_before)
        for one in batch.suspects
        if not one.details.is_cpu
    ]


def suspects_of_batches(
    batches: Sequence[Batch],
    rows: tuple[Detections, GroundTruths],
    rules: InputRules,
    images_before: int,
) -> list[Suspect]:
    """Check what came on a device, all batches at once; waits for nothing.

    Args:
        batches: of one device.
        rows: of all of them, one after the other.
        rules: of the metric.
        images_before: how many images came before the batches.
    """
    suspects: list[Suspect] = []
    sides: list[tuple[str, Detections | GroundTruths]] = [(PREDICTION, rows[0]), (TARGET, rows[1])]
    for side, of_side in sides:
        if any(side in batch.unchecked for batch in batches):
            suspects += suspects_of_rows(
                of_side,
                side,
                _AllIds(batches) if batches[0].image_ids is not None else None,
                rules.num_labels,
                inverted_boxes=rules.inverted_boxes,
            )
    return [one._replace(images_before=images_before) for one in suspects]


class _AllIds(Sequence[object]):
    """The ids of the images of several batches, which are looked up when a sentence names one."""

    def __init__(self, batches: Sequence[Batch]) -> None:
        self._ids = [batch.image_ids for batch in batches if batch.image_ids is not None]

    def __len__(self) -> int:
        return sum(map(len, self._ids))

    def __getitem__(self, image: Any) -> Any:
        for ids in self._ids:
            if image < len(ids):
                return ids[image]
            image -= len(ids)
        raise IndexError(image)


def warn_of_coarse_boxes(flags: Sequence[Tensor]) -> None:
    """Warn if half boxes lie where whole pixels are not exact; reads their device."""
    if any(map(bool, flags)):
        warn(
            "half precision boxes beyond 2048 pixels (bfloat16: 256) are not whole pixels any "
            "more; convert boxes to float32 before autocast"
        )


def read_image_ids(batches: Sequence[Batch]) -> Ids | None:
    """The ids of all images of the batches; those on a device are read now, in one copy."""
    given = [batch.image_ids for batch in batches if batch.image_ids is not None]
    return tuple(chain.from_iterable(ids_on_host(given))) or None


def read_image_sizes(batches: Sequence[Batch]) -> Tensor:
    """[I, 2] int32 heights and widths, -1 where unknown; on the device if some are there."""
    sizes = [sizes_as_tensor(batch.image_sizes, batch.num_images) for batch in batches]
    return torch.cat(on_one_device(sizes))


def _side(
    images: Sequence[Rows] | Rows, name: str, rules: InputRules
) -> tuple[Side, frozenset[str]]:
    """Predictions or targets, in whichever form they came, and keys that no metric reads."""
    keys, box_format = keys_of(rules.task, name), rules.box_formats[name == TARGET]
    if isinstance(images, Mapping):
        unread = check_keys(images, keys, f"{name}s")
        return PackedRows(images, name, box_format), unread
    columns, distinct = columns_of(images)
    unread = check_images(images, distinct, keys, name)
    return ImageList(images, name, box_format, columns=columns), unread


def _pack_detections(
    side: Side, rules: InputRules, sizes: ImageSizes | None
) -> tuple[Detections, list[str]]:
    """Detections, and the columns that are not yet known to be sound."""
    order = None
    if sum(side.counts) and "order" in side:
        if not side.complete("order"):
            raise InputError(
                "key 'order' is given for some images only", remedy="give it in all or in none"
            )
        order = side.column("order")
    scores = side.column("scores")
    labels, known = _class_index(side.column("labels"), rules)
    boxes = in_pixels(side.boxes, side.counts, side.box_format, sizes)
    box_format = FRACTIONS.get(side.box_format, side.box_format)
    extra = _extra(side, rules, PREDICTION)
    detections = Detections(side.counts, boxes, scores, labels, order, box_format, extra=extra)
    return detections, [] if known else ["labels"]


def _pack_ground_truths(
    side: Side, rules: InputRules, sizes: ImageSizes | None
) -> tuple[GroundTruths, list[str]]:
    """Ground truths, and the columns that are not yet known to be sound."""
    names = keys_of(rules.task, TARGET).names
    read = {name for name in READ_IF_GIVEN if name in names and name in side}
    labels, known = _class_index(side.column("labels"), rules)
    doubtful = [] if known else ["labels"]
    flags = None
    for bit, key in enumerate(FLAGS):
        if key in read:
            flag = side.column(key)
            if flag.dtype != torch.bool:
                doubtful.append("flags")
            bits = _shifted(flag, bit)
            flags = bits if flags is None else torch.add(*on_one_device([flags, bits]))
    if flags is None:
        flags = torch.zeros_like(labels, dtype=torch.uint8)
    if "area" in read:
        area = side.column("area")
        doubtful.append("area")
    else:
        area = torch.full_like(labels, torch.nan, dtype=torch.float64)
    more: dict[str, Any] = {name: side.column(name) for name in OPTIONAL_COLUMNS if name in read}
    boxes = in_pixels(side.boxes, side.counts, side.box_format, sizes)
    if (visible := more.get("visible_boxes")) is not None:
        more["visible_boxes"] = in_pixels(visible, side.counts, side.box_format, sizes)
    box_format = FRACTIONS.get(side.box_format, side.box_format)
    more["extra"] = _extra(side, rules, TARGET)
    ground_truths = GroundTruths(side.counts, boxes, labels, flags, area, box_format, **more)
    return ground_truths, doubtful


def _extra(side: Side, rules: InputRules, name: str) -> dict[str, Tensor]:
    """Columns of keys that were registered from outside."""
    return {key: side.column(key) for key in added_keys(keys_of(rules.task, name))}


def _shifted(flag: Tensor, bit: int) -> Tensor:
    """[M] uint8: a column of flags, bool or uint8, moved to a bit."""
    numbers = flag.view(torch.uint8)
    if not on_host(numbers):
        return numbers << bit
    return torch.from_numpy(np.left_shift(numbers.numpy(), bit, dtype=np.uint8))


def _class_index(labels: Tensor, rules: InputRules) -> tuple[Tensor, bool]:
    """Class index of each label, negative for an unknown one; and whether all are known."""
    if not labels.shape[0]:
        return labels, True
    if rules.label_ids is None:
        if on_host(labels):
            # As unsigned numbers negative labels are above all classes: one pass.
            largest = np.maximum.reduce(labels.numpy().view(np.uint64))
            if largest < rules.num_classes:
                return labels, True
        known, classes = (labels >= 0) & (labels < rules.num_classes), labels
    else:
        ids, index = from_host(rules.label_ids, torch.int64, labels.device).sort()
        position = torch.searchsorted(ids, labels).clamp(max=rules.num_classes - 1)
        known, classes = ids.index_select(0, position) == labels, index.index_select(0, position)
    return torch.where(known, classes, unknown_label(labels)), False


def image_ids_of(side: Side, name: str = TARGET) -> ImageIds | None:
    """One id an image, all int or all str, or None."""
    entries = side.of_images("image_id")
    return None if entries is None else read_ids(entries, f"{name} {{}}, key 'image_id'")


def image_sizes_of(side: Side) -> ImageSizes | None:
    """Height and width of each image, or None."""
    entries = side.of_images("image_size")
    return None if entries is None else read_sizes(entries, "target {}, key 'image_size'")


def _suspect_of_sizes(sizes: Tensor, ids: ImageIds | None) -> Suspect:
    """Sizes on a device, which are checked there."""
    return suspect([(BAD_SIZE, bad_sizes(sizes))], {"size": sizes}, Subject(TARGET, None, ids))
