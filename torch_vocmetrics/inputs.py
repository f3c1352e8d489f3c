"""From per-image dicts to packed rows: keys, shapes and dtypes at once, values by one check."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import torch
from torch import Tensor

from .errors import InputError
from .faults import NO_FAULT, UNKNOWN_LABEL, explain, first_fault
from .packing import FLAG, FLOATING, INTEGERS, Rows, Side
from .protocols import FLAGS
from .ragged import Detections, GroundTruths
from .records import Ids, cat_ids

NEAR_MISSES = {
    "boxes": ("bbox", "bboxes", "box", "pred_boxes", "gt_boxes", "box_xyxy", "xyxy"),
    "scores": ("score", "confidence", "confidences", "conf"),
    "labels": ("label", "category_id", "category_ids", "class_ids", "classes", "class_id"),
    "difficult": ("difficulties", "is_difficult", "difficults"),
    "iscrowd": ("is_crowd", "crowd", "iscrowds", "crowds"),
    "ignore": ("ignored", "is_ignored", "ignores"),
    "area": ("areas",),
    "image_id": ("img_id", "image_ids", "imageid"),
    "image_size": ("img_size", "image_sizes"),
    "order": ("orders",),
}
PREDICTION_KEYS = ("boxes", "scores", "labels", "order")
TARGET_KEYS = ("boxes", "labels", *FLAGS, "area", "image_id", "image_size")


class InputRules(NamedTuple):
    """What a metric expects of its input.

    Attributes:
        num_classes: K.
        label_ids: K values that stand for the classes in ``labels``; None for 0 .. K-1.
        box_format: ``xyxy``, ``xywh`` or ``cxcywh``.
        inverted_boxes: whether boxes of negative width or height are taken.
    """

    num_classes: int
    label_ids: tuple[int, ...] | None
    box_format: str
    inverted_boxes: bool


@dataclass(frozen=True, eq=False)
class Batch:
    """Packed images as they came, ready to be matched.

    Attributes:
        image_ids: one id an image, or None.
        image_sizes: [B, 2] int32 height and width on the CPU, -1 where unknown.
        faults: 0-d int64 each, where the values of detections and ground truths break the rules;
            read by :func:`fault_of`.
    """

    detections: Detections
    ground_truths: GroundTruths
    image_ids: Ids | None
    image_sizes: Tensor
    faults: tuple[Tensor, Tensor]

    @classmethod
    def cat(cls, parts: Sequence[Self]) -> Self:
        """One batch of all images; faults are not carried over, so read them first."""
        none = torch.tensor(NO_FAULT)
        return cls(
            Detections.cat([part.detections for part in parts]),
            GroundTruths.cat([part.ground_truths for part in parts]),
            cat_ids([part.image_ids for part in parts]),
            torch.cat([part.image_sizes for part in parts]),
            (none, none),
        )


def pack(
    predictions: Sequence[Rows],
    targets: Sequence[Rows],
    rules: InputRules,
    device: torch.device | None,
) -> Batch:
    """Check shapes and types of a batch and pack it.

    Args:
        predictions: per image ``boxes`` [N, 4], ``scores``, ``labels`` [N], maybe ``order`` [N].
        targets: per image ``boxes`` [M, 4], ``labels`` [M], maybe ``difficult``, ``iscrowd``,
            ``ignore``, ``area`` [M], ``image_id``, ``image_size``.
        device: where the rows go; None for the device of the first predicted boxes.

    Raises:
        InputError: naming image, key and remedy.
    """
    _check_sequences(predictions, targets)
    for image, (prediction, target) in enumerate(zip(predictions, targets, strict=True)):
        _check_keys(prediction, PREDICTION_KEYS, PREDICTION_KEYS[:3], f"prediction {image}")
        _check_keys(target, TARGET_KEYS, TARGET_KEYS[:2], f"target {image}")
    detections = _pack_detections(predictions, rules, device)
    ground_truths = _pack_ground_truths(targets, rules, detections.boxes.device)
    return Batch(
        detections,
        ground_truths,
        _image_ids(targets),
        _image_sizes(targets),
        (
            first_fault(detections, inverted_boxes=rules.inverted_boxes),
            first_fault(ground_truths, inverted_boxes=rules.inverted_boxes),
        ),
    )


def fault_of(batch: Batch) -> InputError | None:
    """The error that the values of a batch deserve, or None; reads the device."""
    found, true = batch.faults
    return explain(found, batch.detections, "prediction", batch.image_ids) or explain(
        true, batch.ground_truths, "target", batch.image_ids
    )


def _check_sequences(predictions: Sequence[Rows], targets: Sequence[Rows]) -> None:
    for name, value in (("predictions", predictions), ("targets", targets)):
        if isinstance(value, Mapping) or not isinstance(value, Sequence):
            raise InputError(
                "must be a list with one dict per image",
                where=name,
                got=type(value).__name__,
                remedy="wrap a single image in a list",
            )
        for image, entry in enumerate(value):
            if not isinstance(entry, Mapping):
                raise InputError(
                    "must be a dict", where=f"{name}[{image}]", got=type(entry).__name__
                )
    if len(predictions) != len(targets):
        raise InputError(
            "predictions and targets must have one entry per image each",
            got=f"{len(predictions)} and {len(targets)}",
        )


def _check_keys(rows: Rows, known: tuple[str, ...], required: tuple[str, ...], where: str) -> None:
    """Required keys must be there, and no known key may hide under a near name."""
    for key in known:
        if key in rows:
            continue
        near = [name for name in NEAR_MISSES[key] if name in rows]
        if not near and key in required:
            near = difflib.get_close_matches(key, list(map(str, rows)), n=1, cutoff=0.6)
        if near:
            raise InputError(
                f"key {near[0]!r} is not known", where=where, remedy=f"name it {key!r}"
            )
        if key in required:
            found = ", ".join(map(str, rows)) or "no keys"
            raise InputError(f"key {key!r} is missing", where=where, got=found)


def _pack_detections(
    predictions: Sequence[Rows], rules: InputRules, device: torch.device | None
) -> Detections:
    side = Side(predictions, "prediction", device)
    scores = side.column("scores", FLOATING)
    labels = side.column("labels", INTEGERS)
    order = None
    with_rows = [rows for rows, count in zip(predictions, side.counts, strict=True) if count]
    ordered = sum("order" in rows for rows in with_rows)
    if ordered:
        if ordered < len(with_rows):
            raise InputError(
                "key 'order' is given for some images only", remedy="give it in all or in none"
            )
        order = side.column("order", INTEGERS, missing=0)
    return Detections(
        side.counts, side.boxes, scores, _class_index(labels, rules), order, rules.box_format
    )


def _pack_ground_truths(
    targets: Sequence[Rows], rules: InputRules, device: torch.device
) -> GroundTruths:
    side = Side(targets, "target", device)
    labels = side.column("labels", INTEGERS)
    flags = torch.zeros(sum(side.counts), dtype=torch.uint8, device=device)
    for bit, key in enumerate(FLAGS):
        if any(key in rows for rows in targets):
            flags = flags | side.column(key, FLAG, missing=0) << bit
    if any("area" in rows for rows in targets):
        area = side.column("area", FLOATING, missing=torch.nan).double()
    else:
        area = torch.full_like(labels, torch.nan, dtype=torch.float64)
    return GroundTruths(
        side.counts, side.boxes, _class_index(labels, rules), flags, area, rules.box_format
    )


def _class_index(labels: Tensor, rules: InputRules) -> Tensor:
    """Class index of each label; of an unknown one the label itself, moved far below 0."""
    if rules.label_ids is None:
        known, classes = (labels >= 0) & (labels < rules.num_classes), labels
    else:
        ids, index = torch.tensor(rules.label_ids, device=labels.device).sort()
        place = torch.searchsorted(ids, labels).clamp(max=rules.num_classes - 1)
        known, classes = ids.index_select(0, place) == labels, index.index_select(0, place)
    return torch.where(known, classes, labels + UNKNOWN_LABEL)


def _image_ids(targets: Sequence[Rows]) -> Ids | None:
    given = [rows["image_id"] for rows in targets if "image_id" in rows]
    if not given:
        return None
    if len(given) < len(targets):
        raise InputError(
            "some targets have an image_id and others have none",
            remedy="give image_id in every target or in none",
        )
    ids = [_image_id(value, image) for image, value in enumerate(given)]
    if len({type(entry) for entry in ids}) > 1:
        raise InputError("image ids must be all int or all str", where="targets")
    return tuple(ids)


def _image_id(value: object, image: int) -> int | str:
    if isinstance(value, Tensor) and value.numel() == 1 and not value.is_floating_point():
        value = value.item()
    if isinstance(value, str):
        return value
    if hasattr(value, "__index__") and not isinstance(value, bool):
        return int(value)
    raise InputError(
        "must be an int or a str", where=f"target {image}, key 'image_id'", got=repr(value)
    )


def _image_sizes(targets: Sequence[Rows]) -> Tensor:
    """[B, 2] int32 on the CPU."""
    sizes = []
    for image, rows in enumerate(targets):
        size = rows.get("image_size", (-1, -1))
        size = size.tolist() if isinstance(size, Tensor) else list(size)
        if len(size) != 2:
            raise InputError(
                "must be (height, width)", where=f"target {image}, key 'image_size'", got=size
            )
        sizes.append(size)
    return torch.tensor(sizes, dtype=torch.int32).reshape(-1, 2)
