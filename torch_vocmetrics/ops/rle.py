"""COCO's run lengths and polygons, by pycocotools, which is imported where it is used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .masks import WORD, pack_masks

Rle = dict[str, Any]


def rle_of(segmentation: Any, height: int, width: int) -> Rle:
    """Compressed run lengths of a COCO segmentation: compressed or not, or polygons.

    Raises:
        ValueError: saying what is wrong with it.
    """
    from pycocotools import mask as api  # noqa: PLC0415

    if not isinstance(segmentation, Mapping | list | tuple):
        raise ValueError("must be run lengths or a list of polygons; stack masks to [N, H, W]")
    if not isinstance(segmentation, Mapping):
        return _rle_of_polygons(segmentation, height, width)
    if "size" not in segmentation or "counts" not in segmentation:
        raise ValueError("run lengths must have the keys 'size' and 'counts'")
    size, counts = [int(side) for side in segmentation["size"]], segmentation["counts"]
    if size != [height, width]:
        raise ValueError(f"run lengths of an image of {size} where it is {[height, width]}")
    if isinstance(counts, str | bytes):
        text = counts.encode("ascii") if isinstance(counts, str) else counts
        runs = _runs(text)
    else:
        runs = np.asarray(counts, dtype=np.int64)
        if runs.ndim != 1 or (runs < 0).any():
            raise ValueError("counts must be text or a list of numbers from 0")
        text = b""
    if int(runs.sum()) != height * width or (runs < 0).any():
        raise ValueError(f"run lengths add up to {int(runs.sum())} of {height * width} pixels")
    if not text:
        plain = {"size": size, "counts": runs.tolist()}
        text = api.frPyObjects(plain, height, width)["counts"]
    return {"size": size, "counts": text}


def _rle_of_polygons(polygons: Any, height: int, width: int) -> Rle:
    from pycocotools import mask as api  # noqa: PLC0415

    try:
        outlines = [np.asarray(polygon, dtype=np.float64).reshape(-1) for polygon in polygons]
    except (TypeError, ValueError):
        raise ValueError("must be run lengths or a list of polygons") from None
    if any(one.size < 6 or one.size % 2 or not np.isfinite(one).all() for one in outlines):
        raise ValueError("a polygon must be x, y of at least three corners, all finite")
    if not outlines:
        empty: Rle = api.frPyObjects(
            {"size": [height, width], "counts": [height * width]}, height, width
        )
        return empty
    merged: Rle = api.merge(api.frPyObjects([one.tolist() for one in outlines], height, width))
    return {"size": [height, width], "counts": merged["counts"]}


def _runs(text: bytes) -> NDArray[np.int64]:
    """The run lengths behind COCO's compressed text; ValueError if it is none.

    A letter holds 5 bits and says whether more follow; from the fourth run on, the difference to
    the run before the last is written.
    """
    letters = np.frombuffer(text, dtype=np.uint8).astype(np.int64) - 48
    if not letters.size or (letters < 0).any() or (letters > 63).any() or letters[-1] & 32:
        raise ValueError("counts are not run lengths compressed by COCO")
    last = letters & 32 == 0
    number = np.cumsum(last) - last
    starts = np.concatenate(([0], np.flatnonzero(last)[:-1] + 1))
    shift = 5 * (np.arange(letters.size) - starts[number])
    if shift.max() > 55:
        raise ValueError("counts hold a number of too many letters")
    values = np.bincount(number, minlength=starts.size) * 0
    np.add.at(values, number, (letters & 31) << shift)
    final = np.flatnonzero(last)
    negative = letters[final] & 16 != 0
    values[negative] -= np.int64(1) << (shift[final[negative]] + 5)
    for parity in (0, 1):  # differences begin at the fourth run, as rleFrString has it
        chain = np.arange(values.size)[1:][parity::2]
        values[chain] = np.cumsum(values[chain])
    return values


def decode(rles: Sequence[Rle], height: int, width: int) -> Tensor:
    """[N, H, ceil(W / 64)] int64: packed bits, one mask at a time."""
    shape = (len(rles), height, -(-width // WORD))
    words = torch.zeros(shape, dtype=torch.int64, device="cpu")
    for number, rle in enumerate(rles):
        runs = _runs(rle["counts"])
        inside = np.arange(runs.size) % 2 == 1
        columns = np.repeat(inside, runs).reshape(width, height)
        words[number] = pack_masks(torch.from_numpy(columns.T).unsqueeze(0))[0]
    return words


def areas(rles: Sequence[Rle]) -> Tensor:
    """[N] int64: pixels of each mask."""
    from pycocotools import mask as api  # noqa: PLC0415

    found = api.area(list(rles)) if rles else []
    return torch.from_numpy(np.asarray(found, dtype=np.int64))


def overlaps(first: Sequence[Rle], second: Sequence[Rle], over_area: Sequence[bool]) -> Tensor:
    """[N, M] float64: pixels of both over pixels of either, or over the first's area.

    Args:
        first, second: masks of one size.
        over_area: of each of ``second``, whether it is a crowd.
    """
    from pycocotools import mask as api  # noqa: PLC0415

    found = api.iou(list(first), list(second), [int(flag) for flag in over_area])
    return torch.from_numpy(np.asarray(found, dtype=np.float64)).reshape(len(first), len(second))
