"""The keys of predictions and targets in one table, from which all that concerns a key is read.

Packing, checks of keys, and the test of the documentation of ``update`` read the table. A new key
is one row here, and its use.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import torch

from ..errors import InputError
from .numbers import FLAG, FLOATING, INTEGERS, Kind

PREDICTION, TARGET = "prediction", "target"
DETECTION, MISS_RATE, LAYOUT = "detection", "miss_rate", "layout"
MASKS = "masks"
"""Stands for the detection protocols that compare masks."""
_BOXES = (DETECTION, MISS_RATE)


class Key(NamedTuple):
    """A key of the dicts that ``update`` takes.

    Attributes:
        name: how the key is written.
        sides: ``"prediction"``, ``"target"`` or both.
        tasks: tasks of the protocols that read the key.
        kind: of its numbers; None where values are read in a way of their own.
        per: what has a value: a ``"row"``, a ``"part"`` of a layout, or an ``"image"``.
        shape: of the value of a row or part.
        missing: the value where an image lacks the key; None if every image must have it.
        near: names under which the key is met elsewhere, and which are refused with a hint.
    """

    name: str
    sides: tuple[str, ...]
    tasks: tuple[str, ...]
    kind: Kind | None
    per: str = "row"
    shape: tuple[int, ...] = ()
    missing: float | None = None
    near: tuple[str, ...] = ()


_BOTH = (PREDICTION, TARGET)
_NAN = torch.nan

TABLE = (
    Key(
        "boxes", _BOTH, (*_BOXES, LAYOUT), FLOATING, shape=(4,),
        near=("bbox", "bboxes", "box", "pred_boxes", "gt_boxes", "box_xyxy", "xyxy"),
    ),
    Key("object_index", _BOTH, (LAYOUT,), INTEGERS),
    Key(
        "scores", (PREDICTION,), (*_BOXES, LAYOUT), FLOATING,
        near=("score", "confidence", "confidences", "conf"),
    ),
    Key(
        "labels", _BOTH, _BOXES, INTEGERS,
        near=("label", "category_id", "category_ids", "class_ids", "classes", "class_id"),
    ),
    Key("part_boxes", _BOTH, (LAYOUT,), FLOATING, "part", shape=(4,)),
    Key("part_labels", _BOTH, (LAYOUT,), INTEGERS, "part"),
    Key("part_counts", _BOTH, (LAYOUT,), INTEGERS),
    Key("order", (PREDICTION,), (*_BOXES, LAYOUT), INTEGERS, missing=0, near=("orders",)),
    Key(
        "difficult", (TARGET,), (DETECTION, LAYOUT), FLAG, missing=0,
        near=("difficulties", "is_difficult", "difficults"),
    ),
    Key(
        "iscrowd", (TARGET,), (DETECTION,), FLAG, missing=0,
        near=("is_crowd", "crowd", "iscrowds", "crowds"),
    ),
    Key(
        "ignore", (TARGET,), _BOXES, FLAG, missing=0, near=("ignored", "is_ignored", "ignores")
    ),
    Key("area", (TARGET,), (DETECTION,), FLOATING, missing=_NAN, near=("areas",)),
    Key(
        "visible_boxes", (TARGET,), (MISS_RATE,), FLOATING, shape=(4,), missing=_NAN,
        near=("vbox", "vboxes", "bbox_vis", "visible_box"),
    ),
    Key(
        "visibility", (TARGET,), (MISS_RATE,), FLOATING, missing=_NAN,
        near=("vis_ratio", "visibilities"),
    ),
    Key(
        "occlusion", (TARGET,), (MISS_RATE,), INTEGERS, missing=0, near=("occ", "occlusions")
    ),
    Key(
        "masks", _BOTH, (MASKS,), None,
        near=("mask", "segmentation", "segmentations", "segm", "rle", "rles", "pred_masks"),
    ),
    Key(
        "image_id", (TARGET,), (*_BOXES, LAYOUT), None, "image", missing=_NAN,
        near=("img_id", "image_ids", "imageid"),
    ),
    Key(
        "image_size", (TARGET,), _BOXES, None, "image", missing=_NAN,
        near=("img_size", "image_sizes"),
    ),
)  # fmt: skip

KEYS = {key.name: key for key in TABLE}


class SideKeys(NamedTuple):
    """The keys that the images of one side may have.

    Attributes:
        keys: rows of the table.
        names: of all keys.
        required: of the keys that every image must have.
        near: near names of any of the keys, which show a mistake.
    """

    keys: tuple[Key, ...]
    names: frozenset[str]
    required: frozenset[str]
    near: frozenset[str]


@cache
def keys_of(task: str, side: str, without: str = "") -> SideKeys:
    """The keys that predictions or targets of a task may have, ``without`` one of them."""
    keys = tuple(
        key for key in TABLE if task in key.tasks and side in key.sides and key.name != without
    )
    return SideKeys(
        keys,
        frozenset(key.name for key in keys),
        frozenset(key.name for key in keys if key.missing is None),
        frozenset(near for key in keys for near in key.near),
    )


def check_images(images: Sequence[Mapping[str, Any]], keys: SideKeys, side: str) -> None:
    """Every image must be a dict with the required keys and without near names of absent keys.

    Raises:
        InputError: naming the first image at fault.
    """
    if _keys_are_sound(images, keys):
        return
    for image, rows in enumerate(images):
        if not isinstance(rows, Mapping):
            raise InputError("must be a dict", where=f"{side}s[{image}]", got=type(rows).__name__)
        check_keys(rows, keys, f"{side} {image}")


def _keys_are_sound(images: Sequence[Mapping[str, Any]], keys: SideKeys) -> bool:
    """Whether it is plain that :func:`check_keys` finds nothing; most images have the same keys."""
    if not all(issubclass(kind, Mapping) for kind in set(map(type, images))):
        return False
    return all(
        keys.near.isdisjoint(names) and keys.required.issubset(names)
        for names in set(map(tuple, images))
    )


def check_keys(rows: Mapping[str, Any], keys: SideKeys, where: str) -> None:
    """Required keys must be there, and no known key may hide under a near name.

    Raises:
        InputError: with the right name.
    """
    for key in keys.keys:
        if key.name in rows:
            continue
        required = key.name in keys.required
        near = [name for name in key.near if name in rows]
        if not near and required:
            strange = [str(name) for name in rows if name not in keys.names]
            near = difflib.get_close_matches(key.name, strange, n=1, cutoff=0.6)
        if near:
            raise InputError(
                f"key {near[0]!r} is not known", where=where, remedy=f"name it {key.name!r}"
            )
        if required:
            names = ", ".join(map(str, rows)) or "no keys"
            raise InputError(f"key {key.name!r} is missing", where=where, got=names)
