"""The keys of predictions and targets in one table, from which all that concerns a key is read.

Packing, checks of keys, and the test of the documentation of ``update`` read the table. A new key
is one row here, and its use.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

import torch

from ..errors import InputError, warn
from .numbers import FLAG, FLOATING, INTEGERS, LABELS, Kind

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
        "labels", _BOTH, _BOXES, LABELS,
        near=(
            "label", "category_id", "category_ids", "class_ids", "classes", "class_id",
            "class_labels",
        ),
    ),
    Key("part_boxes", _BOTH, (LAYOUT,), FLOATING, "part", shape=(4,)),
    Key("part_labels", _BOTH, (LAYOUT,), INTEGERS, "part"),
    Key("part_counts", _BOTH, (LAYOUT,), INTEGERS),
    Key("order", (PREDICTION,), (*_BOXES, LAYOUT), INTEGERS, missing=0, near=("orders",)),
    Key(
        "difficult", (TARGET,), (DETECTION, LAYOUT), FLAG, missing=0,
        near=("difficulties", "difficults"),
    ),
    Key(
        "iscrowd", (TARGET,), (DETECTION,), FLAG, missing=0,
        near=("crowd", "iscrowds", "crowds"),
    ),
    Key(
        "ignore", (TARGET,), _BOXES, FLAG, missing=0, near=("ignored", "ignores")
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
        "image_id", _BOTH, (*_BOXES, LAYOUT), None, "image", missing=_NAN,
        near=("img_id", "image_ids", "imageid"),
    ),
    Key(
        "image_size", (TARGET,), _BOXES, None, "image", missing=_NAN,
        near=("img_size", "image_sizes"),
    ),
)  # fmt: skip

KEYS = {key.name: key for key in TABLE}


def register_key(key: Key) -> None:
    """Make a key of rows known: ``update`` takes it, and overlaps read it from ``rows.extra``.

    Args:
        key: its name must be new, its numbers have a kind, and images may lack it (``missing``).

    Raises:
        InputError: if the key is not of this form.

    Example:
        >>> register_key(Key("angles", (PREDICTION, TARGET), (DETECTION,), FLOATING, missing=0))
        >>> del KEYS["angles"]
        >>> keys_of.cache_clear()
    """
    if key.name in KEYS or key.kind is None or key.missing is None or key.per != "row":
        raise InputError(
            "must be a new key of rows, with a kind and a missing value", where="key", got=key
        )
    KEYS[key.name] = key
    keys_of.cache_clear()


def added_keys(side: SideKeys) -> list[str]:
    """Those of a side's keys that :func:`register_key` made known."""
    return [key.name for key in side.keys if key.name not in _BUILT_IN]


_BUILT_IN = frozenset(KEYS)


_FILLERS = frozenset({"is", "flag", "flags", "gt", "target", "targets", "object", "objects"})
"""Words that are added to the names of keys without another meaning."""
_LEAST_LETTERS = 6
"""A key needs so many letters before a similar name is taken for a typing error."""


class SideKeys(NamedTuple):
    """The keys that the images of one side may have.

    Attributes:
        keys: rows of the table.
        names: of all keys.
        required: of the keys that every image must have.
        near: near names of the keys by their letters, each with the name of the key.
    """

    keys: tuple[Key, ...]
    names: frozenset[str]
    required: frozenset[str]
    near: tuple[tuple[str, str], ...]


@cache
def keys_of(task: str, side: str, without: str = "") -> SideKeys:
    """The keys that predictions or targets of a task may have, ``without`` one of them."""
    keys = tuple(
        key
        for key in KEYS.values()
        if task in key.tasks and side in key.sides and key.name != without
    )
    near = {_letters(name): key.name for key in keys for name in (key.name, *key.near)}
    near |= {
        f"is{_letters(name)}": key.name
        for key in keys
        for name in (key.name, *key.near)
        if key.kind is FLAG
    }
    return SideKeys(
        keys,
        frozenset(key.name for key in keys),
        frozenset(key.name for key in keys if key.missing is None),
        tuple(near.items()),
    )


def _letters(name: str) -> str:
    return re.sub("[^a-z]", "", name.lower())


@lru_cache(maxsize=1024)
def meant_by(name: str, near: tuple[tuple[str, str], ...]) -> str | None:
    """The key that a name looks like: of another case, with a word more, or mistyped.

    Args:
        name: that is no key.
        near: as of :class:`SideKeys`.
    """
    keys = dict(near)
    words = re.findall("[A-Z]?[a-z]+|[A-Z]+", name)
    rest = "".join(word.lower() for word in words if word.lower() not in _FILLERS)
    for letters in (_letters(name), rest):
        if letters in keys:
            return keys[letters]
    long = [letters for letters in keys if len(letters) >= _LEAST_LETTERS]
    mistyped = difflib.get_close_matches(_letters(name), long, n=1, cutoff=0.85)
    return keys[mistyped[0]] if mistyped else None


def check_images(
    images: Sequence[Mapping[str, Any]],
    distinct: Collection[tuple[str, ...]],
    keys: SideKeys,
    side: str,
) -> frozenset[str]:
    """Check the keys of every image of a batch, most of which have the same ones.

    Args:
        images: one mapping per image.
        distinct: the keys of the images; those that several images share once.
        keys: which there may be.
        side: predictions or targets.

    Returns:
        Names that no metric reads.

    Raises:
        InputError: naming the first image at fault, as :func:`check_keys`.
    """
    unread = frozenset[str]()
    for names in distinct:
        if not (keys.required.issubset(names) and keys.names.issuperset(names)):
            image = next(index for index, rows in enumerate(images) if set(rows) == set(names))
            unread |= check_keys(names, keys, f"{side} {image}")
    return unread


def check_keys(names: Collection[str], keys: SideKeys, where: str) -> frozenset[str]:
    """Required keys must be there, and no absent key may hide under a near name.

    Returns:
        Names that no metric reads.

    Raises:
        InputError: with the right name.
    """
    strange = [str(name) for name in names if name not in KEYS and name != "counts"]
    for name in strange:
        right = meant_by(name, keys.near)
        if right is not None and right not in names:
            raise InputError(f"key {name!r} is not known", where=where, remedy=f"name it {right!r}")
    for key in keys.keys:
        if key.name in keys.required and key.name not in names:
            near = difflib.get_close_matches(key.name, strange, n=1, cutoff=0.6)
            if near:
                raise InputError(
                    f"key {near[0]!r} is not known", where=where, remedy=f"name it {key.name!r}"
                )
            got = ", ".join(map(str, names)) or "no keys"
            raise InputError(f"key {key.name!r} is missing", where=where, got=got)
    return frozenset(strange)


def warn_of_unread_keys(names: Collection[str]) -> None:
    """Say which keys of targets play no part."""
    listed = ", ".join(map(repr, sorted(names)))
    warn(f"targets have keys that no metric reads, which are ignored: {listed}")
