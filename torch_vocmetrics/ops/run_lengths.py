"""COCO's compressed text of run lengths, read and written for many masks at once.

A letter holds 5 bits and says whether more follow. From the fourth run of a mask on, the difference
to the run before the last is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

PORTION = 2**16
"""About so many letters are read at once: so their numbers stay in the cache."""

MOST_LETTERS = 7
"""Of a number: 35 bits, more than any run length or difference of two has."""

_ZERO, _MORE, _SIGN, _BITS = 48, 32, 16, 31


def pixel_counts(texts: Sequence[bytes], pixels: Integers) -> Integers:
    """[N] int64: pixels of each mask.

    Args:
        texts: compressed run lengths of N masks.
        pixels: [N] of their images.

    Raises:
        ValueError: if any is no compressed text, or its runs are negative or do not add up.
    """
    areas = np.zeros(len(texts), np.int64)
    for part in _portions([len(text) for text in texts]):
        runs, lengths = runs_in_pairs(texts[part])
        outside, inside = np.add.reduceat(runs, np.cumsum(lengths) - lengths, axis=0).T
        if (outside + inside != pixels[part]).any() or (runs < 0).any():
            raise ValueError("run lengths do not add up")
        areas[part] = inside
    return areas


def _portions(lengths: Sequence[int]) -> Iterator[slice]:
    start = size = 0
    for index, length in enumerate(lengths):
        if size > PORTION:
            yield slice(start, index)
            start, size = index, 0
        size += length
    if start < len(lengths):
        yield slice(start, len(lengths))


def runs_in_pairs(texts: Sequence[bytes]) -> tuple[Integers, Integers]:
    """The run lengths behind compressed texts.

    Returns:
        [P, 2] runs outside and inside the masks, one mask after the other, and how many pairs each
        mask has. Where a mask ends with a run outside, a run of 0 follows.

    Raises:
        ValueError: if any is no compressed text.
    """
    letters = np.frombuffer(b"0" + b"".join(texts), dtype=np.uint8) - np.uint8(_ZERO)
    ends = np.cumsum(np.fromiter(map(len, texts), dtype=np.int64, count=len(texts)))
    if not texts or not all(texts) or (letters > 63).any() or (letters[ends] & _MORE).any():
        raise ValueError("counts are not run lengths compressed by COCO")
    values, finals = _numbers(letters)
    counts = np.diff(np.searchsorted(finals, ends, side="right"), prepend=0)
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


def _numbers(letters: NDArray[np.uint8]) -> tuple[Integers, Integers]:
    """The signed numbers that letters spell, lowest bits first, and where the last of each is.

    Args:
        letters: a zero that is no letter, then the letters.
    """
    goes_on = letters >= _MORE
    finals = np.flatnonzero(~goes_on[1:]) + 1
    values = ((letters[finals] & _BITS) ^ _SIGN).astype(np.int64) - _SIGN
    unread = np.flatnonzero(goes_on[finals - 1])
    position = finals[unread] - 1
    for _ in range(MOST_LETTERS - 1):
        if not unread.size:
            return values, finals
        values[unread] = (values[unread] << 5) | (letters[position] & _BITS)
        position -= 1
        more = goes_on[position]
        unread, position = unread[more], position[more]
    if unread.size:
        raise ValueError("counts hold a number of too many letters")
    return values, finals


def compressed(runs: Integers, counts: Sequence[int]) -> list[bytes]:
    """The texts of masks, as pycocotools writes them.

    Args:
        runs: run lengths of all masks, one mask after the other.
        counts: how many each mask has.
    """
    texts: list[bytes] = []
    ends = np.cumsum(counts)
    for part in _portions(counts):
        lengths = np.asarray(counts[part], dtype=np.int64)
        first = int(ends[part.start] - lengths[0]) if lengths.size else 0
        texts += _compressed(runs[first : int(ends[part.stop - 1])], lengths)
    return texts


def _compressed(runs: Integers, counts: Integers) -> list[bytes]:
    values = runs.copy()
    values[2:] -= runs[:-2]
    starts = np.cumsum(counts) - counts
    for offset in range(3):
        first = (starts + offset)[counts > offset]
        values[first] = runs[first]
    sizes = np.ones(values.size, dtype=np.int64)
    for letters in range(1, MOST_LETTERS):
        half = 1 << (5 * letters - 1)
        sizes += (values < -half) | (values >= half)
    ends = np.cumsum(sizes)
    text = np.empty(int(ends[-1]) if ends.size else 0, dtype=np.uint8)
    position, written = ends - sizes, np.arange(values.size)
    while written.size:
        more = position[written] + 1 < ends[written]
        text[position[written]] = (values[written] & _BITS) + _MORE * more + _ZERO
        values[written] >>= 5
        position[written] += 1
        written = written[more]
    whole, stops = text.tobytes(), np.concatenate([[0], ends])[np.cumsum(counts)].tolist()
    return [whole[start:stop] for start, stop in zip([0, *stops], stops, strict=False)]


def run_ends(texts: Sequence[bytes]) -> tuple[Integers, list[int]]:
    """Where each run ends, in pixels down the columns, of masks one after the other.

    Returns:
        [R] int64, and how many runs each mask has; a run of 0 may end a mask.
    """
    runs, pairs = runs_in_pairs(texts)
    sums = np.cumsum(runs.reshape(-1))
    before = np.concatenate(([0], sums))[2 * (np.cumsum(pairs) - pairs)]
    return sums - np.repeat(before, 2 * pairs), (2 * pairs).tolist()
