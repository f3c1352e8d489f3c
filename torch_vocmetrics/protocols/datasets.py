"""Data sets: class names, and the value that files or models give each class."""

from __future__ import annotations

import tomllib
from typing import NamedTuple

from ..errors import ProtocolError
from .files import config_root


class Dataset(NamedTuple):
    """Class names of a data set and the value that its files or models give each class."""

    class_names: tuple[str, ...]
    label_ids: tuple[int, ...]


def load_dataset(name: str) -> Dataset:
    """Class names and label ids of ``"voc2006"``, ``"voc2007"`` or ``"coco2017"``.

    Raises:
        ProtocolError: if the data set is unknown.

    Example:
        >>> load_dataset("coco2017").class_names[0], load_dataset("coco2017").label_ids[-1]
        ('person', 90)
    """
    path = config_root() / "datasets" / f"{name}.toml"
    if not path.is_file():
        known = sorted(entry.stem for entry in path.parent.glob("*.toml"))
        raise ProtocolError(f"unknown data set {name!r}", remedy=f"known: {', '.join(known)}")
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    return Dataset(tuple(content["class_names"]), tuple(content["label_ids"]))
