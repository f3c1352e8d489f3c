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

Rle = dict[str, Any]


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
    if outline.size < 6 or outline.size % 2 or not np.isfinite(outline).all():
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


def read_compressed(segmentations: Sequence[Any]) -> tuple[list[Rle], Tensor] | None:
    """Many masks at once that are all compressed run lengths, and their areas [N] int64.

    None where one of them is in another form or at fault, which :func:`rle_of` says.
    """
    if set(map(type, segmentations)) != {dict}:
        return None
    try:
        sizes = np.array([one["size"] for one in segmentations])
        texts = [_letters(one["counts"]) for one in segmentations]
        runs, lengths = _runs_in_pairs(texts)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return None
    if sizes.dtype.kind not in "iu" or sizes.shape != (len(texts), 2) or (sizes < 0).any():
        return None
    pixels = np.prod(sizes, axis=1, dtype=np.float64)
    outside, inside = np.add.reduceat(runs, np.cumsum(lengths) - lengths, axis=0).T
    unequal = outside + inside != pixels
    if unequal.any() or (runs < 0).any() or (pixels > MAX_MASK_PIXELS).any():
        return None
    rles = zip(sizes.tolist(), texts, strict=True)
    return [{"size": size, "counts": text} for size, text in rles], torch.from_numpy(inside.copy())


def _runs(text: bytes) -> NDArray[np.int64]:
    """The run lengths behind COCO's compressed text; ValueError if it is none."""
    return _runs_in_pairs([text])[0].reshape(-1)


def _runs_in_pairs(texts: Sequence[bytes]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The run lengths behind COCO's compressed texts; ValueError if they are none.

    A letter holds 5 bits and says whether more follow; from the fourth run on, the difference to
    the run before the last is written.

    Returns:
        [P, 2] runs outside and inside the masks, one mask after the other, and how many pairs each
        mask has. Where a mask ends with a run outside, a run of 0 follows.
    """
    letters = np.frombuffer(b"".join(texts), dtype=np.uint8) - np.uint8(48)
    ends = np.cumsum(np.fromiter(map(len, texts), dtype=np.int64, count=len(texts)))
    if not texts or not all(texts) or (letters > 63).any() or (letters[ends - 1] & 32).any():
        raise ValueError("counts are not run lengths compressed by COCO")
    values, finals = _numbers(letters)
    counts = np.diff(np.searchsorted(finals, ends), prepend=0)
    lengths = (counts + 1) // 2
    firsts = np.cumsum(lengths) - lengths
    odd = np.flatnonzero(counts % 2)
    pairs = np.zeros((int(lengths.sum()), 2), dtype=np.int64)
    last = firsts[odd] + lengths[odd] - 1
    filled = np.ones(pairs.size, dtype=bool)
    filled[2 * last + 1] = False
    pairs.reshape(-1)[filled] = values
    # Differences run from pair to pair, but for the first run outside, which has no part in them.
    start = pairs[firsts, 0]
    pairs[firsts, 0] = 0
    before = pairs[firsts]
    pairs = np.cumsum(pairs, axis=0)
    pairs -= np.repeat(pairs[firsts] - before, lengths, axis=0)
    pairs[firsts, 0] = start
    pairs[last, 1] = 0
    return pairs, lengths


def _numbers(letters: NDArray[np.uint8]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The signed numbers that letters spell, lowest bits first, and where the last of each is."""
    finals = np.flatnonzero(letters < 32)
    starts = np.concatenate(([0], finals[:-1] + 1))
    values = (letters[starts] & 31).astype(np.int64)
    unread = np.flatnonzero(finals > starts)
    for shift in range(5, 35, 5):  # 35 bits: more than any run length or difference of two
        letter = letters[starts[unread] + shift // 5]
        values[unread] |= (letter & 31).astype(np.int64) << shift
        unread = unread[letter >= 32]
        if not unread.size:
            break
    if unread.size:
        raise ValueError("counts hold a number of too many letters")
    negative = np.flatnonzero(letters[finals] & 16)
    values[negative] -= np.int64(1) << (5 * (finals[negative] - starts[negative] + 1))
    return values, finals


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


def overlaps(first: Sequence[Rle], second: Sequence[Rle], over_area: NDArray[np.bool_]) -> Tensor:
    """[N, M] float64: pixels of both over pixels of either, or over the first's area.

    Args:
        first, second: masks of one size.
        over_area: of each of ``second``, whether it is a crowd.
    """
    from pycocotools import mask as api  # noqa: PLC0415

    found = api.iou(list(first), list(second), over_area.astype(np.uint8))
    return torch.from_numpy(np.asarray(found, dtype=np.float64)).reshape(len(first), len(second))
