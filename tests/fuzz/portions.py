"""Limits of the matcher at random, so that few pairs take the ways of many."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import numpy as np

from torch_vocmetrics.matching import greedy, pairs


@contextmanager
def random_portions(rng: np.random.Generator, smallest: int = 1) -> Iterator[None]:
    """Make pairs in portions of a random size, and match few of them in either way.

    Args:
        rng: draws the limits.
        smallest: pairs of the smallest portion.
    """
    portion = int(rng.choice([smallest, 7 * smallest, pairs.MOST_PAIRS]))
    sequential = int(rng.choice([0, greedy.SEQUENTIAL_BELOW]))
    with (
        mock.patch.object(pairs, "MOST_PAIRS", portion),
        mock.patch.object(greedy, "SEQUENTIAL_BELOW", sequential),
    ):
        yield
