"""Bits that are set in words, by NumPy and without its newer function."""

from __future__ import annotations

import numpy as np
import pytest

from torch_vocmetrics.ops.bit_counts import bit_counts, bit_counts_by_sums

WORDS = [0, 1, 2**63, 2**64 - 1, 0x5555555555555555, 0xAAAAAAAAAAAAAAAA, 0x0123456789ABCDEF]


@pytest.mark.parametrize("count", [bit_counts, bit_counts_by_sums])
def test_bits_are_counted(count: object) -> None:
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, 2**64, 500, dtype=np.uint64)
    words = np.concatenate([np.array(WORDS, dtype=np.uint64), drawn]).reshape(13, 39)
    wanted = [[int(word).bit_count() for word in row] for row in words]
    assert count(words).tolist() == wanted  # type: ignore[operator]
    assert count(words[:0]).shape == (0, 39)  # type: ignore[operator]


def test_an_older_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(np, "bitwise_count", raising=False)
    assert bit_counts(np.array(WORDS, dtype=np.uint64)).tolist() == [
        word.bit_count() for word in WORDS
    ]
