"""Segmentations of many masks at once, in a tenth of the time that they take one by one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..limits import MAX_MASK_PIXELS, MAX_POLYGON_COORDINATE, MAX_POLYGON_OUTLINE
from .rle import CORNER_NUMBERS
from .run_lengths import compressed, pixel_counts

Size = tuple[int, int]
Integers = NDArray[np.int64]


def read_many(
    segmentations: Sequence[Any], sizes: Sequence[Size]
) -> tuple[list[bytes], Integers] | None:
    """Compressed run lengths and areas [N] of COCO's segmentations.

    Args:
        segmentations: of N masks, each as :func:`rle.rle_of` takes it.
        sizes: height and width of the image of each.

    Returns:
        None where one of them has a fault or an unusual form, which ``rle_of`` says or reads.
    """
    try:
        return _read_many(segmentations, sizes)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return None


def _read_many(segmentations: Sequence[Any], sizes: Sequence[Size]) -> tuple[list[bytes], Integers]:
    sides = np.array(sizes, dtype=np.float64).reshape(-1, 2)
    pixels = sides.prod(axis=1)
    if (sides < 0).any() or (pixels > MAX_MASK_PIXELS).any():
        raise ValueError("no size, or too large an image")
    texts: list[bytes] = [b""] * len(segmentations)
    areas = np.zeros(len(segmentations), dtype=np.int64)
    as_text, as_runs, as_polygons = [], [], []
    for index, (one, (height, width)) in enumerate(zip(segmentations, sizes, strict=True)):
        if type(one) is list:
            as_polygons.append(index)
            continue
        counts, (own_height, own_width) = one["counts"], one["size"]
        if own_height != height or own_width != width:
            raise ValueError("another size than that of the image")
        if type(counts) is list:
            as_runs.append(index)
        else:
            as_text.append(index)
            texts[index] = counts if type(counts) is bytes else counts.encode("ascii")
    areas[as_text] = pixel_counts([texts[index] for index in as_text], pixels[as_text])
    for read, chosen in ((_of_runs, as_runs), (_of_polygons, as_polygons)):
        if chosen:
            given = [segmentations[index] for index in chosen]
            made, areas[chosen] = read(given, [sizes[index] for index in chosen])
            for index, text in zip(chosen, made, strict=True):
                texts[index] = text
    return texts, areas


def _of_runs(given: Sequence[Any], sizes: Sequence[Size]) -> tuple[list[bytes], Integers]:
    """Masks whose counts are lists of integers."""
    counts = [len(one["counts"]) for one in given]
    flat = list(chain.from_iterable(one["counts"] for one in given))
    if set(map(type, flat)) != {int} or not all(counts):
        raise ValueError("no plain integers")
    runs = np.array(flat, dtype=np.int64)
    pixels = np.array(sizes, dtype=np.int64).prod(axis=1)
    starts = np.cumsum(counts, dtype=np.int64) - counts
    if runs.min() < 0 or runs.max() > pixels.max():
        raise ValueError("no run lengths")
    if (np.add.reduceat(runs, starts) != pixels).any():
        raise ValueError("run lengths do not add up")
    inside = (np.arange(runs.size) - np.repeat(starts, counts)) % 2
    return compressed(runs, counts), np.add.reduceat(runs * inside, starts)


def _of_polygons(given: Sequence[Any], sizes: Sequence[Size]) -> tuple[list[bytes], Integers]:
    """Masks of polygons, those of images of one size together."""
    from pycocotools import mask as api  # noqa: PLC0415

    polygons = list(chain.from_iterable(given))
    _check_polygons(polygons)
    if not all(given):
        raise ValueError("a mask without polygons")
    texts: list[bytes] = [b""] * len(given)
    for size in set(sizes):
        chosen = [index for index, one in enumerate(sizes) if one == size]
        parts = api.frPyObjects([part for index in chosen for part in given[index]], *size)
        start = 0
        for index in chosen:
            end = start + len(given[index])
            whole = parts[start] if end == start + 1 else api.merge(parts[start:end])
            texts[index] = whole["counts"]
            start = end
    return texts, pixel_counts(texts, np.array(sizes, dtype=np.int64).prod(axis=1))


def _check_polygons(polygons: Sequence[Any]) -> None:
    """Refuse what pycocotools would not survive; see :func:`rle.rle_of`."""
    if set(map(type, polygons)) != {list}:
        raise TypeError("no lists")
    lengths = np.array([len(one) for one in polygons], dtype=np.int64)
    numbers = list(chain.from_iterable(polygons))
    flat = np.array(numbers, dtype=np.float64)
    if (
        not set(map(type, numbers)) <= {int, float}
        or (lengths < CORNER_NUMBERS).any()
        or (lengths % 2).any()
    ):
        raise ValueError("no corners")
    if not (np.abs(flat) <= MAX_POLYGON_COORDINATE).all():
        raise ValueError("no coordinates")
    corners = flat.reshape(-1, 2)
    starts = np.cumsum(lengths // 2) - lengths // 2
    before = np.roll(corners, 1, axis=0)
    before[starts] = corners[starts + lengths // 2 - 1]
    sides = np.abs(corners - before).max(axis=1)
    if (np.add.reduceat(sides, starts) > MAX_POLYGON_OUTLINE).any():
        raise ValueError("too long an outline")
