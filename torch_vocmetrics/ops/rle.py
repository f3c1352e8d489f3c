"""COCO's run lengths and polygons, by pycocotools, which is imported where it is used."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..limits import MAX_MASK_PIXELS, MAX_POLYGON_COORDINATE, MAX_POLYGON_OUTLINE
from .masks import WORD, pack_masks
from .run_lengths import runs_in_pairs

Rle = dict[str, Any]

CORNER_NUMBERS = 6
"""Numbers of a polygon of three corners, the least that has pixels."""


def rle_of(segmentation: Any, height: int, width: int) -> Rle:
    """Compressed run lengths of a COCO segmentation: compressed or not, or polygons.

    Everything is checked before pycocotools sees it, which trusts sizes and coordinates.

    Raises:
        ValueError: saying what is wrong with it.
    """
    from pycocotools import mask as api  # noqa: PLC0415

    if not isinstance(segmentation, Mapping | list | tuple):
        raise ValueError("must be run lengths or a list of polygons; stack masks to [N, H, W]")
    if not isinstance(segmentation, Mapping):
        refuse_large_image(height, width)
        return _rle_of_polygons(segmentation, height, width)
    size, counts = size_of(segmentation), segmentation.get("counts")
    if size != (height, width):
        raise ValueError(f"run lengths of an image of {size} where it is {(height, width)}")
    text = _letters(counts) if isinstance(counts, str | bytes) else None
    runs = _whole_numbers(counts) if text is None else _runs(text)
    pixels = height * width
    if runs.size and (int(runs.min()) < 0 or int(runs.max()) > pixels):
        raise ValueError(f"run lengths must be numbers from 0 to {pixels:,}, the pixels")
    if int(runs.sum()) != pixels:
        raise ValueError(f"run lengths add up to {int(runs.sum()):,} of {pixels:,} pixels")
    if text is not None:
        return {"size": [height, width], "counts": text}
    plain = {"size": [height, width], "counts": runs.tolist()}
    return {"size": [height, width], "counts": api.frPyObjects(plain, height, width)["counts"]}


def size_of(segmentation: Mapping[str, Any]) -> tuple[int, int]:
    """Height and width that run lengths state.

    Raises:
        ValueError: if they state none, or one that is too large.
    """
    if "size" not in segmentation or "counts" not in segmentation:
        raise ValueError("run lengths must have the keys 'size' and 'counts'")
    try:
        size = _whole_numbers(segmentation["size"])
    except ValueError:
        size = np.zeros(0, dtype=np.int64)
    if size.size != 2 or int(size.min()) < 0:
        got = reprlib.repr(segmentation["size"])
        raise ValueError(f"size must be (height, width) in whole pixels, got {got}")
    height, width = map(int, size)
    refuse_large_image(height, width)
    return height, width


def refuse_large_image(height: int, width: int) -> None:
    """Refuse masks whose decoding would take too much memory.

    Raises:
        ValueError: naming the limit.
    """
    if height * width > MAX_MASK_PIXELS:
        raise ValueError(
            f"an image of {height:,} x {width:,} pixels is above the limit of {MAX_MASK_PIXELS:,} "
            "for masks as run lengths or polygons"
        )


def _letters(counts: str | bytes) -> bytes:
    """COCO's compressed text as bytes; what is no ASCII becomes a letter that is none of COCO's."""
    return counts.encode("ascii", "replace") if isinstance(counts, str) else counts


def _whole_numbers(values: Any) -> NDArray[np.int64]:
    """A list of whole numbers; ValueError if it is none."""
    try:
        numbers = np.asarray(values)
    except (TypeError, ValueError, OverflowError):
        numbers = np.zeros((), dtype=np.object_)
    if numbers.ndim == 1 and not numbers.size:
        return np.zeros(0, dtype=np.int64)
    whole = numbers.dtype.kind in "iu" or (
        numbers.dtype.kind == "f"
        and bool(np.isfinite(numbers).all())
        and bool((numbers % 1 == 0).all())
    )
    if numbers.ndim != 1 or not whole or numbers.max() >= 2**62 or numbers.min() <= -(2**62):
        raise ValueError("counts must be text or a list of whole numbers from 0")
    return numbers.astype(np.int64)


def _rle_of_polygons(polygons: Any, height: int, width: int) -> Rle:
    from pycocotools import mask as api  # noqa: PLC0415

    outlines = [_outline(polygon) for polygon in polygons]
    if not outlines:
        empty: Rle = api.frPyObjects(
            {"size": [height, width], "counts": [height * width]}, height, width
        )
        return empty
    merged: Rle = api.merge(api.frPyObjects([one.tolist() for one in outlines], height, width))
    return {"size": [height, width], "counts": merged["counts"]}


def _outline(polygon: Any) -> NDArray[np.float64]:
    """x, y of the corners of one polygon, within the limits of pycocotools."""
    try:
        outline = np.asarray(polygon, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError, OverflowError):
        raise ValueError("must be run lengths or a list of polygons") from None
    if outline.size < CORNER_NUMBERS or outline.size % 2 or not np.isfinite(outline).all():
        raise ValueError("a polygon must be x, y of at least three corners, all finite")
    if np.abs(outline).max() > MAX_POLYGON_COORDINATE:
        raise ValueError(
            f"coordinates of a polygon must be at most {MAX_POLYGON_COORDINATE:,} pixels"
        )
    corners = outline.reshape(-1, 2)
    length = np.abs(corners - np.roll(corners, 1, axis=0)).max(axis=1).sum()
    if length > MAX_POLYGON_OUTLINE:
        raise ValueError(f"the outline of a polygon is above {MAX_POLYGON_OUTLINE:,} pixels")
    return outline


def _runs(text: bytes) -> NDArray[np.int64]:
    """The run lengths behind COCO's compressed text; ValueError if it is none."""
    return runs_in_pairs([text])[0].reshape(-1)


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


def overlaps(
    first: Sequence[Rle], second: Sequence[Rle], over_area: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """[N, M]: pixels of both over pixels of either, or over the first's area.

    Args:
        first, second: masks of one size, at least one each.
        over_area: of each of ``second``, whether it is a crowd.
    """
    from pycocotools import mask as api  # noqa: PLC0415

    found: NDArray[np.float64] = api.iou(first, second, over_area.astype(np.uint8))
    return found
