"""Data sets: class names, and the value that files or models give each class."""

from __future__ import annotations

import functools
import tomllib
from pathlib import Path
from typing import NamedTuple

from ..errors import ProtocolError
from .files import config_root

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
def _shipped() -> dict[str, Path]:
    """The name of every shipped data set and the file that holds it."""
    return {
        name: path
        for path in sorted((config_root() / "datasets").glob("*.toml"))
        for name in tomllib.loads(path.read_text(encoding="utf-8"))["names"]
    }


def dataset_names() -> list[str]:
    """Names of the shipped data sets, sorted."""
    return sorted(_shipped())


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
    path = _shipped().get(name) if isinstance(name, str) else None
    if path is None:
        known = ", ".join(dataset_names())
        raise ProtocolError(f"unknown data set {name!r}", remedy=f"known: {known}")
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    return Dataset(
        tuple(content["class_names"]),
        tuple(content["label_ids"]),
        tuple(content.get("category_names", ())),
        tuple(content.get("ignored_label_ids", ())),
        content.get("void_label"),
    )
