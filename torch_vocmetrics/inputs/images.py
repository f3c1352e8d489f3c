"""From per-image dicts to packed rows: keys, shapes and dtypes at once, values by one check."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..errors import InputError, VocMetricsWarning
from ..protocols import FLAGS
from ..ragged import OPTIONAL_COLUMNS, Detections, GroundTruths
from ..tables.records import Ids
from ..transfer import from_host
from .faults import UNKNOWN_LABEL, Suspect, explain, first_fault, on_host, suspect
from .forms import as_images
from .keys import DETECTION, PREDICTION, TARGET, check_images, check_keys, keys_of
from .masks import read_masks, with_boxes
from .packing import ImageList, PackedRows, Rows, Side


class InputRules(NamedTuple):
    """What a metric expects of its input.

    Attributes:
        num_classes: K.
        label_ids: K values that stand for the classes in ``labels``; None for 0 .. K-1.
        box_format: ``xyxy``, ``xywh`` or ``cxcywh``.
        inverted_boxes: whether boxes of negative width or height are taken.
        task: of the protocols, which says the keys that are read.
        boxes, masks: whether a protocol needs them.
    """

    num_classes: int
    label_ids: tuple[int, ...] | None
    box_format: str
    inverted_boxes: bool
    task: str = DETECTION
    boxes: bool = True
    masks: bool = False


@dataclass(frozen=True, eq=False)
class Batch:
    """Packed images as they came, on one device, ready to be matched.

    Attributes:
        image_ids: one id an image, still a tensor where it came as one; or None.
        image_sizes: one (height, width) an image; or None.
        faults: of detections and of ground truths what :func:`first_fault` says; read by
            :func:`fault_on_host` and :func:`suspects_on_device`.
        coarse: 0-d bool each, whether half boxes lie where whole pixels are not exact.
        other_ids: as of :func:`compare_ids`.
        unread_keys: of targets, keys that no metric reads.
        num_labels: K where labels are 0 .. K-1; 0 where the user says which they are.
    """

    detections: Detections
    ground_truths: GroundTruths
    image_ids: list[int | str | Tensor] | None
    image_sizes: list[Any] | None
    faults: tuple[Tensor | None, Tensor | None]
    coarse: tuple[Tensor, ...]
    other_ids: Tensor | None
    unread_keys: frozenset[str]
    num_labels: int

    @property
    def box_formats(self) -> tuple[str, str]:
        """Of detections and of ground truths."""
        return self.detections.box_format, self.ground_truths.box_format

    @property
    def num_images(self) -> int:
        """B."""
        return len(self.detections.counts)

    @property
    def mask_bytes(self) -> int:
        """Memory that masks take."""
        masks = (*(self.detections.masks or ()), *(self.ground_truths.masks or ()))
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
    detections, fault = _pack_detections(found, rules)
    ground_truths, true_fault = _pack_ground_truths(true, rules)
    sizes = true.of_images("image_size") or ()
    work = work_device(device or detections.boxes.device)
    if rules.masks:
        rows = (detections.counts, ground_truths.counts)
        first, second = read_masks(predictions, targets, rows, work)
        detections = replace(detections, masks=first)
        ground_truths = replace(ground_truths, masks=second)
    ids = image_ids_of(true)
    return Batch(
        detections.to(work),
        ground_truths.to(work),
        ids,
        [_image_size(value, image) for image, value in enumerate(sizes)] or None,
        (fault, true_fault),
        tuple(side.coarse for side in (found, true) if side.coarse is not None),
        compare_ids(found, ids),
        unread,
        0 if rules.label_ids else rules.num_classes,
    )


def work_device(wanted: torch.device) -> torch.device:
    """Where rows are matched: not on MPS, which has no float64, in which overlaps are computed."""
    return torch.device("cpu") if wanted.type == "mps" else wanted


def fault_on_host(batch: Batch) -> InputError | None:
    """The error that values checked on the host deserve, or None."""
    sides: list[tuple[str, Detections | GroundTruths]] = [
        ("prediction", batch.detections),
        ("target", batch.ground_truths),
    ]
    for (side, rows), fault in zip(sides, batch.faults, strict=True):
        if fault is not None and fault.device.type == "cpu":
            error = explain(fault, rows, side, batch.image_ids, 0, batch.num_labels)
            if error is not None:
                return error
    return None


def suspects_on_device(batch: Batch, images_before: int) -> list[Suspect]:
    """What a device has checked, to be read later; ``images_before`` came before the batch."""
    sides: list[tuple[str, Detections | GroundTruths]] = [
        ("prediction", batch.detections),
        ("target", batch.ground_truths),
    ]
    return [
        suspect(fault, rows, side, batch.image_ids, images_before, batch.num_labels)
        for (side, rows), fault in zip(sides, batch.faults, strict=True)
        if fault is not None and fault.device.type != "cpu"
    ]


def warn_of_coarse_boxes(flags: Sequence[Tensor]) -> None:
    """Warn if half boxes lie where whole pixels are not exact; reads their device."""
    if any(map(bool, flags)):
        warnings.warn(
            "half precision boxes beyond 2048 pixels (bfloat16: 256) are not whole pixels any "
            "more; convert boxes to float32 before autocast",
            VocMetricsWarning,
            stacklevel=4,
        )


def read_image_ids(batches: Sequence[Batch]) -> Ids | None:
    """The ids of all images of the batches; those that came as tensors are read now."""
    given = [value for batch in batches for value in batch.image_ids or ()]
    return tuple(int(v) if isinstance(v, Tensor) else v for v in given) if given else None


def read_image_sizes(batches: Sequence[Batch]) -> Tensor:
    """[I, 2] int32 heights and widths on the CPU, -1 where unknown."""
    images = sum(batch.num_images for batch in batches)
    sizes = torch.full((images, 2), -1, dtype=torch.int32, device="cpu")
    first = 0
    for batch in batches:
        if batch.image_sizes:
            given = [[int(side) for side in size] for size in batch.image_sizes]
            sizes[first : first + len(given)] = torch.tensor(given, dtype=torch.int32, device="cpu")
        first += batch.num_images
    return sizes


def _side(
    images: Sequence[Rows] | Rows, name: str, rules: InputRules
) -> tuple[Side, frozenset[str]]:
    """Predictions or targets, in whichever form they came, and keys that no metric reads."""
    keys = keys_of(rules.task, name)
    if isinstance(images, Mapping):
        unread = check_keys(images, keys, f"{name}s")
        return PackedRows(images, name, rules.box_format), unread
    unread = check_images(images, keys, name)
    return ImageList(images, name, rules.box_format), unread


def _pack_detections(side: Side, rules: InputRules) -> tuple[Detections, Tensor | None]:
    """Detections, and what :func:`first_fault` says of them."""
    order = None
    if sum(side.counts) and "order" in side:
        if not side.complete("order"):
            raise InputError(
                "key 'order' is given for some images only", remedy="give it in all or in none"
            )
        order = side.column("order")
    labels, known = _class_index(side.column("labels"), rules)
    detections = Detections(
        side.counts, side.boxes, side.column("scores"), labels, order, side.box_format
    )
    inverted = rules.inverted_boxes
    return detections, first_fault(detections, inverted_boxes=inverted, labels_known=known)


def _pack_ground_truths(side: Side, rules: InputRules) -> tuple[GroundTruths, Tensor | None]:
    """Objects, and what :func:`first_fault` says of them."""
    read = {name for name in keys_of(rules.task, TARGET).names if name in side}
    labels, known = _class_index(side.column("labels"), rules)
    flags = torch.zeros_like(labels, dtype=torch.uint8)
    for bit, key in enumerate(FLAGS):
        if key in read:
            flags.add_(side.column(key), alpha=1 << bit)
    if "area" in read:
        area = side.column("area")
    else:
        area = torch.full_like(labels, torch.nan, dtype=torch.float64)
    more: dict[str, Any] = {name: side.column(name) for name in OPTIONAL_COLUMNS if name in read}
    objects = GroundTruths(side.counts, side.boxes, labels, flags, area, side.box_format, **more)
    inverted = rules.inverted_boxes
    return objects, first_fault(objects, inverted_boxes=inverted, labels_known=known)


def _class_index(labels: Tensor, rules: InputRules) -> tuple[Tensor, bool]:
    """Class index of each label; of an unknown one the label itself, moved far below 0.

    Also whether the host has seen at once that all are known.
    """
    if rules.label_ids is None:
        if labels.numel() and on_host(labels):
            lowest, highest = torch.aminmax(labels)
            if lowest.item() >= 0 and highest.item() < rules.num_classes:
                return labels, True
        known, classes = (labels >= 0) & (labels < rules.num_classes), labels
    else:
        ids, index = from_host(rules.label_ids, torch.int64, labels.device).sort()
        place = torch.searchsorted(ids, labels).clamp(max=rules.num_classes - 1)
        known, classes = ids.index_select(0, place) == labels, index.index_select(0, place)
    return torch.where(known, classes, labels + UNKNOWN_LABEL), False


def image_ids_of(side: Side) -> list[int | str | Tensor] | None:
    """One id an image, all int or all str, or None; those on a device stay tensors."""
    given = side.of_images("image_id")
    if given is None:
        return None
    ids = [_image_id(value, image) for image, value in enumerate(given)]
    if len({kind_of_ids([entry]) for entry in ids}) > 1:
        raise InputError("image ids must be all int or all str", where="targets")
    return ids


def compare_ids(predictions: Side, ids: list[int | str | Tensor] | None) -> Tensor | None:
    """Compare the ids that predictions have with those of their targets.

    Returns:
        0-d bool, whether any two differ, where ids lie on a device; None where all are compared.

    Raises:
        InputError: naming the first image whose ids differ.
    """
    if ids is None or "image_id" not in predictions:
        return None
    on_device = []
    given = predictions.of_images("image_id") or ()
    for image, (value, wanted) in enumerate(zip(given, ids, strict=True)):
        own = _image_id(value, image)
        differ: Any = own != wanted
        if isinstance(differ, Tensor):
            on_device.append(differ.reshape(()))
        elif differ:
            raise InputError(
                "differs from the id of its target",
                where=f"prediction {image}, key 'image_id'",
                got=f"{own!r} beside {wanted!r}",
                remedy="give predictions and targets in the same order of images",
            )
    return torch.stack(on_device).any() if on_device else None


def refuse_other_ids(flags: Sequence[Tensor]) -> None:
    """Raise InputError if ids that lie on a device differ, as :func:`compare_ids` flagged it."""
    if flags and torch.stack(list(flags)).any().item():
        raise InputError(
            "some differ from the id of their target",
            where="predictions, key 'image_id'",
            remedy="give predictions and targets in the same order of images",
        )


def kind_of_ids(ids: Sequence[object] | None) -> str:
    """``"int"``, ``"str"`` or ``"none"``, by the first id."""
    return "none" if ids is None else "str" if isinstance(ids[0], str) else "int"


def _image_size(value: Any, image: int) -> Any:
    if len(value) != 2:
        raise InputError(
            "must be (height, width)", where=f"target {image}, key 'image_size'", got=value
        )
    return value


def _image_id(value: object, image: int) -> int | str | Tensor:
    if isinstance(value, Tensor) and value.numel() == 1 and not value.is_floating_point():
        return value.clone() if value.device.type != "cpu" else int(value)
    if isinstance(value, str):
        return value
    if hasattr(value, "__index__") and not isinstance(value, bool):
        return int(value)
    raise InputError(
        "must be an int or a str", where=f"target {image}, key 'image_id'", got=repr(value)
    )
