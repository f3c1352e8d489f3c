"""How many bits of a word are set, on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]


def bit_counts(words: Words) -> NDArray[Any]:
    """The number of bits set in each word, of the same shape."""
    if hasattr(np, "bitwise_count"):
        counts: NDArray[Any] = np.bitwise_count(words)
        return counts
    return bit_counts_by_sums(words)


def bit_counts_by_sums(words: Words) -> NDArray[Any]:
    """The same without ``numpy.bitwise_count``, which NumPy has from 2.0 on.

    Neighbouring groups of 1, 2 and 4 bits are added, then a multiplication adds all bytes.
    """
    one, two, four, last = (np.uint64(shift) for shift in (1, 2, 4, 56))
    pairs = words - ((words >> one) & np.uint64(0x5555555555555555))
    fours = (pairs & np.uint64(0x3333333333333333)) + (
        (pairs >> two) & np.uint64(0x3333333333333333)
    )
    eights = (fours + (fours >> four)) & np.uint64(0x0F0F0F0F0F0F0F0F)
    with np.errstate(over="ignore"):
        counts: NDArray[Any] = (eights * np.uint64(0x0101010101010101)) >> last
    return counts.astype(np.uint8)
