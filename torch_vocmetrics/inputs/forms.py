"""The forms in which predictions and targets may come."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from .keys import KEYS, SideKeys

Rows = Mapping[str, Any]


def as_images(images: Any, keys: SideKeys, name: str) -> Sequence[Rows] | Rows:
    """A list with one dict per image, or one dict of packed tensors, out of what was given.

    An iterator is read, and None stands for an image without rows.

    Raises:
        InputError: for anything else, with what to give in its place.
    """
    if isinstance(images, Mapping):
        if advice := _advice(images):
            raise InputError(
                "not understood", where=f"{name}s", got=type(images).__name__, remedy=advice
            )
        return images
    if isinstance(images, str | bytes | Tensor) or not isinstance(images, Iterable):
        raise InputError(
            "must be a list with one dict per image, or a dict of packed tensors",
            where=f"{name}s",
            got=type(images).__name__,
            remedy=_advice(images),
        )
    rows = images if isinstance(images, list) else list(images)
    if set(map(type, rows)) <= {dict}:
        return rows
    rows = [_empty_image(keys) if entry is None else entry for entry in rows]
    for image, entry in enumerate(rows):
        if not isinstance(entry, Mapping):
            raise InputError(
                "must be a dict",
                where=f"{name}s[{image}]",
                got=type(entry).__name__,
                remedy=_advice(entry) or f"give a dict of {', '.join(sorted(keys.required))}",
            )
    return rows


def _empty_image(keys: SideKeys) -> Rows:
    """An image without rows, on the CPU: the required keys with no values."""
    kinds = {name: KEYS[name].kind for name in keys.required}
    return {
        name: torch.zeros((0, *KEYS[name].shape), dtype=kind.dtype, device="cpu")
        for name, kind in kinds.items()
        if kind is not None
    }


def _advice(value: object) -> str:
    """What to do with tensors of rows, and with an output class of a well-known library."""
    if isinstance(value, Tensor) or type(value).__name__ == "ndarray":
        return (
            "a metric takes tensors of rows where it knows their columns: "
            "prediction_columns=('boxes', 'scores', 'labels') or target_columns="
        )
    if hasattr(value, "logits") or (isinstance(value, Mapping) and "logits" in value):
        return (
            "outputs of a model of transformers become a list of dicts by "
            "processor.post_process_object_detection(outputs, target_sizes=...)"
        )
    for attribute in ("pred_instances", "pred_boxes", "gt_boxes", "xyxy", "boxes"):
        if hasattr(value, attribute):
            return (
                "give a dict of its tensors: boxes [N, 4] in pixels, scores [N] and labels [N] "
                f"(see its attribute {attribute!r})"
            )
    return ""
