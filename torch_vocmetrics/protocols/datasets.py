"""Data sets: class names, and the value that files or models give each class."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import ProtocolError
from .files import config_root
from .rules import Protocol

CALTECH_FRAME_STEP = 30
"""Every 30th frame of Caltech's videos is evaluated: 29, 59, ... counted from 0."""

CALTECH_SETS: dict[str, tuple[int, ...]] = {
    "train": tuple(range(6)),
    "test": tuple(range(6, 11)),
    **{f"fold{i}-train": tuple(k for k in range(6) if k != i) for i in range(6)},
    **{f"fold{i}-test": (i,) for i in range(6)},
}
"""Sets of videos: dbInfo's train and test, and the six folds of scenario B, which test on set i."""

SET_TASKS = ("Main", "Segmentation", "Layout")
"""Folders of VOC's image sets."""

PAINTINGS = ("class_order", "increasing_confidence")
"""In which order VOC's kits of 2007 and of 2008 on paint boxes over each other."""


class Dataset(NamedTuple):
    """Class names of a data set and the value that its files or models give each class.

    Attributes:
        class_names: K names.
        label_ids: K values.
        category_names: the category of each class; empty if there are none.
        ignored_label_ids: values that stand for no class and are not evaluated.
        void_label: of label images, the value of pixels that belong to nothing; None elsewhere.
    """

    class_names: tuple[str, ...]
    label_ids: tuple[int, ...]
    category_names: tuple[str, ...] = ()
    ignored_label_ids: tuple[int, ...] = ()
    void_label: int | None = None


@functools.cache
def _contents() -> dict[Path, dict[str, Any]]:
    """The content of every shipped file."""
    paths = sorted((config_root() / "datasets").glob("*.toml"))
    return {path: tomllib.loads(path.read_text(encoding="utf-8")) for path in paths}


def _by(key: str) -> dict[str, dict[str, Any]]:
    """The content of the file that has a name in the list ``key``, by that name."""
    contents = _contents().values()
    return {name: content for content in contents for name in content.get(key, ())}


def dataset_names() -> list[str]:
    """Names of the shipped data sets, sorted."""
    return sorted(_by("names"))


def load_dataset(name: str) -> Dataset:
    """Class names and label ids of ``"voc2012"``, ``"coco2017"`` or another shipped data set.

    Args:
        name: ``"voc2007"`` is VOC's twenty object classes, as every year since has them;
            ``"voc2012_action"`` and ``"voc_segmentation"`` are the classes of other tasks.

    Raises:
        ProtocolError: if the data set is unknown.

    Example:
        >>> load_dataset("coco2017").class_names[0], load_dataset("coco2017").label_ids[-1]
        ('person', 90)
    """
    content = _by("names").get(name) if isinstance(name, str) else None
    if content is None:
        known = ", ".join(dataset_names())
        raise ProtocolError(f"unknown data set {name!r}", remedy=f"known: {known}")
    return _dataset(content)


def dataset_of(protocol: Protocol) -> Dataset | None:
    """The data set that a shipped protocol, or a variant of it, was made for.

    None for protocols of other names, and for tasks whose classes are not those of a data set.

    Example:
        >>> from torch_vocmetrics import load_protocol
        >>> dataset_of(load_protocol("detection/voc2010")).class_names[:2]
        ('aeroplane', 'bicycle')
    """
    content = _by("protocols").get(f"{protocol.task}/{protocol.name}")
    return None if content is None else _dataset(content)


def _dataset(content: Mapping[str, Any]) -> Dataset:
    return Dataset(
        tuple(content["class_names"]),
        tuple(content["label_ids"]),
        tuple(content.get("category_names", ())),
        tuple(content.get("ignored_label_ids", ())),
        content.get("void_label"),
    )
