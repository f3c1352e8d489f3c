"""From per-image dicts to packed rows: shapes and dtypes at once, values by one fused check.

Coordinates are pixels. Nothing is converted but the number type: float32 and float64 stay, half
types widen to float32, integers to float64, all exactly.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from .errors import InputError
from .protocols import FLAGS
from .ragged import Detections, GroundTruths
from .records import Ids, cat_ids

Rows = Mapping[str, Any]

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

FAULTS = (
    "the box is not finite",
    "the box is inverted",
    "the score is not finite",
    "the label is unknown",
    "the area is negative or infinite",
)
_NO_FAULT = -1


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
        none = torch.tensor(_NO_FAULT)
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
            _first_fault(detections.boxes, detections.labels, rules, scores=detections.scores),
            _first_fault(ground_truths.boxes, ground_truths.labels, rules, area=ground_truths.area),
        ),
    )


def fault_of(batch: Batch) -> InputError | None:
    """The error that the values of a batch deserve, or None. Reads the device."""
    sides: list[tuple[str, Detections | GroundTruths]] = [
        ("prediction", batch.detections),
        ("target", batch.ground_truths),
    ]
    for fault, (side, rows) in zip(batch.faults, sides, strict=True):
        code = int(fault)
        if code == _NO_FAULT:
            continue
        packed, kind = divmod(code, len(FAULTS))
        image, row = 0, packed
        while row >= rows.counts[image]:
            row -= rows.counts[image]
            image += 1
        got, remedy = _explain(kind, rows, packed)
        name = "" if batch.image_ids is None else f" (image_id {batch.image_ids[image]!r})"
        return InputError(
            FAULTS[kind], where=f"{side} {image}{name}, row {row}", got=got, remedy=remedy
        )
    return None


def _explain(kind: int, rows: Detections | GroundTruths, row: int) -> tuple[object, str]:
    """What was found and what to do, for a fault at a packed row."""
    if kind in (0, 1):
        inverted = f"boxes must be {rows.box_format} with a far corner not before the near one"
        return rows.boxes[row].tolist(), inverted if kind else "check the model's output"
    if kind == 2 and isinstance(rows, Detections):
        return rows.scores[row].item(), "scores must be finite"
    if kind == 3:
        return None, "labels must be 0 .. num_classes - 1, or among label_ids if those are given"
    return (rows.area[row].item() if isinstance(rows, GroundTruths) else None), "give pixels"


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
    side = _Side(predictions, "prediction", device)
    scores = side.column("scores", _FLOATING)
    labels = side.column("labels", _INTEGERS)
    order = None
    with_rows = [rows for rows, count in zip(predictions, side.counts, strict=True) if count]
    ordered = sum("order" in rows for rows in with_rows)
    if ordered:
        if ordered < len(with_rows):
            raise InputError(
                "key 'order' is given for some images only", remedy="give it in all or in none"
            )
        order = side.column("order", _INTEGERS, missing=0)
    return Detections(
        side.counts, side.boxes, scores, _class_index(labels, rules), order, rules.box_format
    )


def _pack_ground_truths(
    targets: Sequence[Rows], rules: InputRules, device: torch.device
) -> GroundTruths:
    side = _Side(targets, "target", device)
    labels = side.column("labels", _INTEGERS)
    flags = torch.zeros(sum(side.counts), dtype=torch.uint8, device=device)
    for bit, key in enumerate(FLAGS):
        if any(key in rows for rows in targets):
            flags = flags | side.column(key, _FLAG, missing=0) << bit
    if any("area" in rows for rows in targets):
        area = side.column("area", _FLOATING, missing=torch.nan).double()
    else:
        area = torch.full_like(labels, torch.nan, dtype=torch.float64)
    return GroundTruths(
        side.counts, side.boxes, _class_index(labels, rules), flags, area, rules.box_format
    )


class _Kind(NamedTuple):
    """A kind of number: how to convert a tensor (None: impossible), and words for the error."""

    convert: Callable[[Tensor], Tensor | None]
    nothing: Tensor
    expected: str
    remedy: str


def _to_floating(values: Tensor) -> Tensor | None:
    if values.dtype in (torch.float32, torch.float64):
        return values
    if values.dtype in (torch.float16, torch.bfloat16):
        return values.to(torch.float32)
    return None if values.dtype == torch.bool or values.is_complex() else values.to(torch.float64)


def _to_integers(values: Tensor) -> Tensor | None:
    fractional = values.is_floating_point() or values.is_complex() or values.dtype == torch.bool
    return None if fractional else values.to(torch.int64)


def _to_flag(values: Tensor) -> Tensor | None:
    return None if values.is_complex() else (values != 0).to(torch.uint8)


_NOTHING = torch.zeros(0)
_FLOATING = _Kind(_to_floating, _NOTHING, "must be real numbers", "convert with .float()")
_INTEGERS = _Kind(_to_integers, _NOTHING.long(), "must be integers", "convert with .long()")
_FLAG = _Kind(_to_flag, _NOTHING.byte(), "must be bool, or 0 and 1", "convert with .bool()")


class _Side:
    """Predictions or targets of a batch: packs one key after the other on one device."""

    def __init__(self, images: Sequence[Rows], name: str, device: torch.device | None) -> None:
        self._images, self._name = images, name
        parts = [self._boxes(image) for image in range(len(images))]
        self._device = device or (parts[0].device if parts else torch.device("cpu"))
        if self._device.type == "mps":  # it has no float64, in which overlaps are computed
            self._device = torch.device("cpu")
        self.counts = tuple(part.shape[0] for part in parts)
        self.boxes = self._cat("boxes", parts, _FLOATING).reshape(-1, 4)

    def column(self, key: str, kind: _Kind, *, missing: float | None = None) -> Tensor:
        """One value per row, [N]; rows of images without the key get ``missing``."""
        parts = []
        for image, (rows, count) in enumerate(zip(self._images, self.counts, strict=True)):
            if missing is not None and key not in rows:
                parts.append(torch.full((count,), missing, device=self._device))
                continue
            values = self._tensor(image, key)
            if values.shape != (count,) and (count or values.numel()):
                raise InputError(
                    "must have one entry per box",
                    where=self._where(image, key),
                    got=f"shape {tuple(values.shape)} beside {count} boxes",
                )
            parts.append(values)
        return self._cat(key, parts, kind)

    def _boxes(self, image: int) -> Tensor:
        boxes = self._tensor(image, "boxes")
        if boxes.shape in ((0,), (0, 4)):
            return boxes.reshape(0, 4)
        if boxes.dim() != 2 or boxes.shape[1] != 4:
            raise InputError(
                "must have shape [N, 4]", where=self._where(image, "boxes"), got=tuple(boxes.shape)
            )
        return boxes

    def _tensor(self, image: int, key: str) -> Tensor:
        value = self._images[image][key]
        if isinstance(value, Tensor):
            return value
        try:
            return torch.as_tensor(value)
        except (TypeError, ValueError, RuntimeError) as error:
            raise InputError(
                f"must be a tensor of numbers ({error})", where=self._where(image, key)
            ) from None

    def _cat(self, key: str, parts: list[Tensor], kind: _Kind) -> Tensor:
        """One tensor on the device; several number types are widened before they are mixed."""
        if not any(part.numel() for part in parts):
            return kind.nothing.to(self._device)
        parts = [part for part in parts if part.numel()]
        if len({part.dtype for part in parts}) > 1:
            parts = [self._converted(key, part, kind) for part in parts]
        packed = torch.cat([part.to(self._device, non_blocking=True) for part in parts])
        return self._converted(key, packed, kind)

    def _converted(self, key: str, values: Tensor, kind: _Kind) -> Tensor:
        numbers = kind.convert(values)
        if numbers is None:
            raise InputError(
                kind.expected,
                where=f"{self._name}s, key {key!r}",
                got=values.dtype,
                remedy=kind.remedy,
            )
        return numbers

    def _where(self, image: int, key: str) -> str:
        return f"{self._name} {image}, key {key!r}"


def _class_index(labels: Tensor, rules: InputRules) -> Tensor:
    """Class index of each label; -1 where it is unknown."""
    if rules.label_ids is None:
        return torch.where((labels >= 0) & (labels < rules.num_classes), labels, -1)
    ids, classes = torch.tensor(rules.label_ids, device=labels.device).sort()
    place = torch.searchsorted(ids, labels).clamp(max=rules.num_classes - 1)
    return torch.where(ids.index_select(0, place) == labels, classes.index_select(0, place), -1)


def _first_fault(
    boxes: Tensor,
    labels: Tensor,
    rules: InputRules,
    *,
    scores: Tensor | None = None,
    area: Tensor | None = None,
) -> Tensor:
    """0-d int64: ``row * len(FAULTS) + kind`` of the first row at fault, or -1."""
    none = torch.tensor(_NO_FAULT, device=boxes.device)
    if boxes.shape[0] == 0:
        return none
    sides = boxes[:, 2:] - boxes[:, :2] if rules.box_format == "xyxy" else boxes[:, 2:]
    found = [
        ~torch.isfinite(boxes).all(dim=1),
        (sides < 0).any(dim=1) & (not rules.inverted_boxes),
        torch.zeros_like(labels, dtype=torch.bool) if scores is None else ~torch.isfinite(scores),
        labels < 0,
        torch.zeros_like(labels, dtype=torch.bool) if area is None else _bad_area(area),
    ]
    faults = torch.stack(found, dim=1).flatten()
    first = faults.to(torch.uint8).argmax()
    return torch.where(faults.any(), first, none)


def _bad_area(area: Tensor) -> Tensor:
    return (area < 0) | torch.isinf(area)


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
