"""Segmentations of COCO's JSON as run lengths; every fault names the annotation and its image."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import FileFormatError, warn
from ..limits import MAX_IMAGE_SIDE, MAX_POLYGON_COORDINATE
from ..ops.rle import read_compressed, rle_of
from .entry_log import EntryLog
from .json_rows import Rows
from .tables import Integers

_FORM = (
    "polygons x, y, x, y, ..., or run lengths with the height and width as size and text or a list "
    "of integers as counts"
)

CORNER_NUMBERS = 6
"""Numbers of a polygon of three corners, the least that has pixels."""

Size = tuple[int, int]


def read_segmentations(
    rows: Rows,
    image_index: Integers,
    sizes: Sequence[Size | None],
    selected: NDArray[np.bool_],
    log: EntryLog,
) -> list[Any]:
    """Run lengths of the selected elements, as the file has them where the size is not known.

    A polygon of fewer than three corners beside another polygon has no pixels for pycocotools, and
    is ignored. The last number of a polygon of an odd count of numbers is ignored, as pycocotools
    does. The fault of any other segmentation is kept in ``rows``.

    Args:
        rows: elements with the key ``segmentation``.
        image_index: [N] image of each element.
        sizes: height and width of each image, None where they are not known.
        selected: [N] the elements to read.
        log: counts what is ignored.

    Returns:
        N values, None for elements that are not read.

    Warns:
        VocMetricsWarning: if a segmentation is empty: an object that no mask can match; if a
            polygon has an odd count of numbers.
    """
    values: list[Any] = [None] * len(rows)
    empty: list[int] = []
    odd: list[int] = []
    left_out = rows.faults.keys() | rows.outside.keys()
    chosen = [index for index in np.flatnonzero(selected).tolist() if index not in left_out]
    for index, rle in _compressed(rows, chosen, image_index, sizes):
        values[index] = rle
    for index in chosen:
        if values[index] is not None:
            continue
        given = rows.rows[index].get("segmentation")
        if not (_is_polygons(given) if isinstance(given, list) else _is_run_lengths(given)):
            rows.add_fault(index, f"segmentation{_owner(rows, index)} must be {_FORM}", given)
            continue
        if given == []:
            empty.append(index)
        sound = _sound_polygons(rows, index, given, log)
        if isinstance(sound, list) and any(len(one) % 2 for one in sound):
            odd.append(index)
            sound = [one[: len(one) // 2 * 2] for one in sound]
        try:
            values[index] = _run_lengths(sound, sizes[image_index[index]])
        except ValueError as error:
            rows.add_fault(index, f"segmentation{_owner(rows, index)}: {error}", given)
    if empty:
        _warn_of_empty(rows, empty)
    if odd:
        _warn_of_odd(rows, odd)
    return values


def _compressed(
    rows: Rows, chosen: Sequence[int], image_index: Integers, sizes: Sequence[Size | None]
) -> Iterator[tuple[int, Any]]:
    """Index and run lengths of the elements that have them as text, read all at once.

    That takes a tenth of the time. Nothing where any of them is at fault.
    """
    given = [(index, rows.rows[index].get("segmentation")) for index in chosen]
    texts = [
        (index, one)
        for index, one in given
        if type(one) is dict and type(one.get("counts")) is str and type(one.get("size")) is list
    ]
    stated = [one["size"] for _, one in texts]
    sides = list(chain.from_iterable(stated))
    if set(map(type, sides)) != {int} or max(sides) > MAX_IMAGE_SIDE:
        return
    for (index, one), size in zip(texts, stated, strict=True):
        known = sizes[image_index[index]]
        if not one["counts"].isascii() or (known is not None and size != [*known]):
            return
    found = read_compressed([one for _, one in texts])
    if found is not None:
        yield from zip([index for index, _ in texts], found[0], strict=True)


def _sound_polygons(rows: Rows, index: int, given: Any, log: EntryLog) -> Any:
    """The polygons of at least three corners, if there are any among others."""
    if not isinstance(given, list):
        return given
    sound = [one for one in given if len(one) >= CORNER_NUMBERS]
    if not sound or len(sound) == len(given):
        return given
    log.ignore(
        FileFormatError(
            f"a polygon of fewer than three corners beside others{_owner(rows, index)}",
            where=rows.where(index),
            got=json.dumps(next(one for one in given if len(one) < CORNER_NUMBERS)),
        ),
        len(given) - len(sound),
    )
    return sound


def _is_polygons(polygons: list[Any]) -> bool:
    """Whether these are lists of finite numbers that may be coordinates."""
    for polygon in polygons:
        if type(polygon) is not list or not set(map(type, polygon)) <= {int, float}:
            return False
        if max(map(abs, polygon), default=0) > MAX_POLYGON_COORDINATE:
            return False
        if any(map(math.isnan, polygon)):
            return False
    return True


def _is_run_lengths(given: Any) -> bool:
    """Whether these are run lengths of an image of a sensible size."""
    if not isinstance(given, dict):
        return False
    size, counts = given.get("size"), given.get("counts")
    if not (isinstance(size, list) and len(size) == 2 and set(map(type, size)) == {int}):
        return False
    if not all(0 <= side <= MAX_IMAGE_SIDE for side in size):
        return False
    if isinstance(counts, str):
        return counts.isascii()
    if not isinstance(counts, list) or not set(map(type, counts)) <= {int}:
        return False
    return all(0 <= run <= size[0] * size[1] for run in counts)


def _run_lengths(segmentation: Any, size: Size | None) -> Any:
    if isinstance(segmentation, list):
        return segmentation if size is None else rle_of(segmentation, *size)
    height, width = size or (int(side) for side in segmentation["size"])
    return rle_of(segmentation, height, width)


def _owner(rows: Rows, index: int) -> str:
    row = rows.rows[index]
    words = (("annotation id", "id"), ("image_id", "image_id"))
    said = [f"{word} {json.dumps(row[key])[:40]}" for word, key in words if key in row]
    return f" of {', '.join(said)}" if said else ""


def _warn_of_empty(rows: Rows, empty: list[int]) -> None:
    warn(
        f"{rows.where(empty[0])}: an empty segmentation{_owner(rows, empty[0])}, and "
        f"{len(empty) - 1:,} more like it: such an object counts, and no mask can match it"
    )


def _warn_of_odd(rows: Rows, odd: list[int]) -> None:
    warn(
        f"{rows.where(odd[0])}: a polygon of an odd count of numbers{_owner(rows, odd[0])}, and "
        f"{len(odd) - 1:,} more like it: the last number is ignored, as pycocotools does"
    )
