"""From per-image dicts to packed rows: keys, shapes and dtypes at once, values by one check."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..errors import InputError, VocMetricsWarning
from ..protocols import FLAGS
from ..ragged import Detections, GroundTruths
from ..tables.records import Ids
from ..transfer import from_host
from .faults import UNKNOWN_LABEL, Suspect, explain, first_fault, on_host, suspect
from .masks import read_masks, with_boxes
from .packing import FLAG, FLOATING, INTEGERS, ImageList, PackedRows, Rows, Side

NEAR_MISSES = {
    "boxes": ("bbox", "bboxes", "box", "pred_boxes", "gt_boxes", "box_xyxy", "xyxy"),
    "scores": ("score", "confidence", "confidences", "conf"),
    "labels": ("label", "category_id", "category_ids", "class_ids", "classes", "class_id"),
    "difficult": ("difficulties", "is_difficult", "difficults"),
    "iscrowd": ("is_crowd", "crowd", "iscrowds", "crowds"),
    "ignore": ("ignored", "is_ignored", "ignores"),
    "area": ("areas",),
    "visible_boxes": ("vbox", "vboxes", "bbox_vis", "visible_box"),
    "visibility": ("vis_ratio", "visibilities"),
    "occlusion": ("occ", "occlusions"),
    "image_id": ("img_id", "image_ids", "imageid"),
    "image_size": ("img_size", "image_sizes"),
    "order": ("orders",),
}
NEAR_NAMES = frozenset(chain.from_iterable(NEAR_MISSES.values()))
PREDICTION_KEYS = ("boxes", "scores", "labels", "order")
TARGET_KEYS = ("boxes", "labels", *FLAGS, "area", "image_id", "image_size")
PEDESTRIAN_KEYS = ("visible_boxes", "visibility", "occlusion")


class InputRules(NamedTuple):
    """What a metric expects of its input.

    Attributes:
        num_classes: K.
        label_ids: K values that stand for the classes in ``labels``; None for 0 .. K-1.
        box_format: ``xyxy``, ``xywh`` or ``cxcywh``.
        inverted_boxes: whether boxes of negative width or height are taken.
        pedestrians: whether targets may say what is visible of an object.
        boxes, masks: whether a protocol needs them.
    """

    num_classes: int
    label_ids: tuple[int, ...] | None
    box_format: str
    inverted_boxes: bool
    pedestrians: bool = False
    boxes: bool = True
    masks: bool = False

    @property
    def target_keys(self) -> tuple[str, ...]:
        """Keys that targets may have."""
        return TARGET_KEYS + PEDESTRIAN_KEYS if self.pedestrians else TARGET_KEYS


@dataclass(frozen=True, eq=False)
class Batch:
    """Packed images as they came, on one device, ready to be matched.

    Attributes:
        image_ids: one id an image, still a tensor where it came as one; or None.
        image_sizes: one (height, width) an image; or None.
        faults: 0-d int64 each, where the values of detections and ground truths break the rules;
            read by :func:`fault_on_host` and :func:`suspects_on_device`.
        coarse: 0-d bool each, whether half boxes lie where whole pixels are not exact.
    """

    detections: Detections
    ground_truths: GroundTruths
    image_ids: list[int | str | Tensor] | None
    image_sizes: list[Any] | None
    faults: tuple[Tensor, Tensor]
    coarse: tuple[Tensor, ...]

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
        device: where the rows go; None for the device of the first predicted boxes.

    Raises:
        InputError: naming image, key and remedy.
    """
    if not rules.boxes:
        near = NEAR_MISSES["boxes"]
        predictions, targets = with_boxes(predictions, near), with_boxes(targets, near)
    found = _side(predictions, PREDICTION_KEYS, PREDICTION_KEYS[:3], "prediction", rules.box_format)
    true = _side(targets, rules.target_keys, TARGET_KEYS[:2], "target", rules.box_format)
    if len(found.counts) != len(true.counts):
        raise InputError(
            "predictions and targets must have one entry per image each",
            got=f"{len(found.counts)} and {len(true.counts)}",
        )
    detections = _pack_detections(found, rules)
    ground_truths = _pack_ground_truths(true, rules)
    faults = (
        first_fault(detections, inverted_boxes=rules.inverted_boxes),
        first_fault(ground_truths, inverted_boxes=rules.inverted_boxes),
    )
    sizes = true.of_images("image_size") or ()
    work = work_device(device or detections.boxes.device)
    if rules.masks:
        rows = (detections.counts, ground_truths.counts)
        first, second = read_masks(predictions, targets, rows, work)
        detections = replace(detections, masks=first)
        ground_truths = replace(ground_truths, masks=second)
    return Batch(
        detections.to(work),
        ground_truths.to(work),
        image_ids_of(true),
        [_image_size(value, image) for image, value in enumerate(sizes)] or None,
        faults,
        tuple(side.coarse for side in (found, true) if side.coarse is not None),
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
        if fault.device.type == "cpu":
            error = explain(fault, rows, side, batch.image_ids, 0)
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
        suspect(fault, rows, side, batch.image_ids, images_before)
        for (side, rows), fault in zip(sides, batch.faults, strict=True)
        if fault.device.type != "cpu"
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
    images: Sequence[Rows] | Rows,
    known: tuple[str, ...],
    required: tuple[str, ...],
    name: str,
    box_format: str,
) -> Side:
    """Predictions or targets, in whichever form they came."""
    if isinstance(images, Mapping):
        check_keys(images, known, required, f"{name}s")
        return PackedRows(images, name, box_format)
    if not isinstance(images, Sequence):
        raise InputError(
            "must be a list with one dict per image, or a dict of packed tensors",
            where=f"{name}s",
            got=type(images).__name__,
        )
    if not _keys_are_sound(images, required):
        for image, rows in enumerate(images):
            if not isinstance(rows, Mapping):
                raise InputError(
                    "must be a dict", where=f"{name}s[{image}]", got=type(rows).__name__
                )
            check_keys(rows, known, required, f"{name} {image}")
    return ImageList(images, name, box_format)


def _keys_are_sound(images: Sequence[Rows], required: tuple[str, ...]) -> bool:
    """Whether it is plain that :func:`check_keys` finds nothing; most images have the same keys."""
    if not all(issubclass(kind, Mapping) for kind in set(map(type, images))):
        return False
    return all(
        NEAR_NAMES.isdisjoint(keys) and set(required).issubset(keys)
        for keys in set(map(tuple, images))
    )


def check_keys(rows: Rows, known: tuple[str, ...], required: tuple[str, ...], where: str) -> None:
    """Required keys must be there, and no known key may hide under a near name."""
    for key in known:
        if key in rows:
            continue
        near = [name for name in NEAR_MISSES.get(key, ()) if name in rows]
        if not near and key in required:
            strange = [str(name) for name in rows if name not in known]
            near = difflib.get_close_matches(key, strange, n=1, cutoff=0.6)
        if near:
            raise InputError(
                f"key {near[0]!r} is not known", where=where, remedy=f"name it {key!r}"
            )
        if key in required:
            found = ", ".join(map(str, rows)) or "no keys"
            raise InputError(f"key {key!r} is missing", where=where, got=found)


def _pack_detections(side: Side, rules: InputRules) -> Detections:
    order = None
    if sum(side.counts) and "order" in side:
        if not side.complete("order"):
            raise InputError(
                "key 'order' is given for some images only", remedy="give it in all or in none"
            )
        order = side.column("order", INTEGERS, missing=0)
    return Detections(
        side.counts,
        side.boxes,
        side.column("scores", FLOATING),
        _class_index(side.column("labels", INTEGERS), rules),
        order,
        side.box_format,
    )


def _pack_ground_truths(side: Side, rules: InputRules) -> GroundTruths:
    labels = _class_index(side.column("labels", INTEGERS), rules)
    flags = torch.zeros_like(labels, dtype=torch.uint8)
    for bit, key in enumerate(FLAGS):
        if key in side:
            flags.add_(side.column(key, FLAG, missing=0), alpha=1 << bit)
    if "area" in side:
        area = side.column("area", FLOATING, missing=torch.nan).double()
    else:
        area = torch.full_like(labels, torch.nan, dtype=torch.float64)
    more: dict[str, Any] = _pedestrian_columns(side) if rules.pedestrians else {}
    return GroundTruths(side.counts, side.boxes, labels, flags, area, side.box_format, **more)


def _pedestrian_columns(side: Side) -> dict[str, Tensor]:
    """What targets say of the visible part of objects."""
    columns = {}
    if "visible_boxes" in side:
        columns["visible_boxes"] = side.column(
            "visible_boxes", FLOATING, missing=torch.nan, shape=(4,)
        )
    if "visibility" in side:
        columns["visibility"] = side.column("visibility", FLOATING, missing=torch.nan)
    if "occlusion" in side:
        columns["occlusion"] = side.column("occlusion", INTEGERS, missing=0)
    return columns


def _class_index(labels: Tensor, rules: InputRules) -> Tensor:
    """Class index of each label; of an unknown one the label itself, moved far below 0."""
    if rules.label_ids is None:
        if labels.numel() and on_host(labels):
            lowest, highest = torch.aminmax(labels)
            if lowest.item() >= 0 and highest.item() < rules.num_classes:
                return labels
        known, classes = (labels >= 0) & (labels < rules.num_classes), labels
    else:
        ids, index = from_host(rules.label_ids, torch.int64, labels.device).sort()
        place = torch.searchsorted(ids, labels).clamp(max=rules.num_classes - 1)
        known, classes = ids.index_select(0, place) == labels, index.index_select(0, place)
    return torch.where(known, classes, labels + UNKNOWN_LABEL)


def image_ids_of(side: Side) -> list[int | str | Tensor] | None:
    """One id an image, all int or all str, or None; those on a device stay tensors."""
    given = side.of_images("image_id")
    if given is None:
        return None
    ids = [_image_id(value, image) for image, value in enumerate(given)]
    if len({kind_of_ids([entry]) for entry in ids}) > 1:
        raise InputError("image ids must be all int or all str", where="targets")
    return ids


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
