"""Segmentations of COCO's JSON as run lengths; every fault names the annotation and its image."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ..errors import FileFormatError, warn
from ..image_masks import RleMasks
from ..limits import MAX_IMAGE_SIDE, MAX_POLYGON_COORDINATE
from ..ops.rle import CORNER_NUMBERS, rle_of
from ..ops.rle_batch import read_many
from .entry_log import EntryLog
from .json_rows import Rows
from .plain_rows import NotPlain, PlainRows
from .tables import Integers

_FORM = (
    "polygons x, y, x, y, ..., or run lengths with the height and width as size and text or a list "
    "of integers as counts"
)

Size = tuple[int, int]


class CheckedMasks(NamedTuple):
    """Sound run lengths of the elements of a list.

    Attributes:
        texts, areas, sizes: compressed run lengths, pixels, and height and width of the image of
            each element; nothing of elements that were not read.
    """

    texts: list[bytes]
    areas: Integers
    sizes: list[Size]

    def by_image(
        self, image_index: Integers, num_images: int, keep: NDArray[np.bool_]
    ) -> list[RleMasks]:
        """The masks of each image that are kept, in the order of the file."""
        kept = np.flatnonzero(keep)
        kept = kept[np.argsort(image_index[kept], kind="stable")]
        ends = np.cumsum(np.bincount(image_index[kept], minlength=num_images)).tolist()
        elements, areas = kept.tolist(), torch.from_numpy(self.areas[kept])
        return [
            RleMasks(
                self.sizes[elements[start]] if start < end else (0, 0),
                [self.texts[element] for element in elements[start:end]],
                areas[start:end],
            )
            for start, end in pairwise([0, *ends])
        ]


def read_segmentations(
    rows: Rows | PlainRows,
    image_index: Integers,
    sizes: Sequence[Size | None],
    selected: NDArray[np.bool_],
    log: EntryLog,
) -> CheckedMasks | list[Any]:
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
        Where all are sound, all at once; else N values, None for elements that are not read.

    Raises:
        NotPlain: if a segmentation of ``PlainRows`` needs a closer look.

    Warns:
        VocMetricsWarning: if a segmentation is empty: an object that no mask can match; if a
            polygon has an odd count of numbers.
    """
    left_out = rows.faults.keys() | rows.outside.keys() if isinstance(rows, Rows) else ()
    chosen = [index for index in np.flatnonzero(selected).tolist() if index not in left_out]
    given = rows.objects("segmentation")
    checked = _all_at_once(given, chosen, image_index, sizes)
    if checked is not None:
        return checked
    if not isinstance(rows, Rows):
        raise NotPlain
    return _one_by_one(rows, given, chosen, image_index, sizes, log)


def _all_at_once(
    given: Sequence[Any],
    chosen: Sequence[int],
    image_index: Integers,
    sizes: Sequence[Size | None],
) -> CheckedMasks | None:
    """The chosen masks in a tenth of the time, None if any is unusual or at fault."""
    known, images = list(sizes), image_index.tolist()
    if None in known:
        for index in chosen:
            image = images[index]
            known[image] = known[image] or _stated_size(given[index])
            if known[image] is None:
                return None
    own: list[Any] = [known[images[index]] for index in chosen]
    found = read_many([given[index] for index in chosen], own)
    if found is None:
        return None
    texts, areas, of_all = [b""] * len(given), np.zeros(len(given), np.int64), [(0, 0)] * len(given)
    areas[chosen] = found[1]
    for index, text, size in zip(chosen, found[0], own, strict=True):
        texts[index], of_all[index] = text, size
    return CheckedMasks(texts, areas, of_all)


def _stated_size(given: Any) -> Size | None:
    """The size that sound run lengths state; None of others, and of polygons."""
    if not isinstance(given, dict):
        return None
    size: Any = given.get("size")
    if type(size) not in (list, tuple) or [*map(type, size)] != [int, int]:
        return None
    return (size[0], size[1]) if max(size) <= MAX_IMAGE_SIDE else None


def _one_by_one(
    rows: Rows,
    given_of: Sequence[Any],
    chosen: Sequence[int],
    image_index: Integers,
    sizes: Sequence[Size | None],
    log: EntryLog,
) -> list[Any]:
    values: list[Any] = [None] * len(rows)
    empty: list[int] = []
    odd: list[int] = []
    for index in chosen:
        given = given_of[index]
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
