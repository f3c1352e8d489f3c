"""Repeated images of label maps: which copy counts, what is said of the others, and how fast."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode

from torch_vocmetrics import StateError, VocMetricsWarning
from torch_vocmetrics.tables.pixels import PixelCounts

COLUMNS = 3
"""Two classes: cells are ``truth * 3 + prediction``."""


def counts(*images: list[int], ids: tuple[int, ...]) -> PixelCounts:
    return PixelCounts.of(torch.tensor(images), ids)


def test_the_first_copy_counts_and_others_are_compared() -> None:
    """Images a, b, a as it was, b with one pixel predicted otherwise, a as it was."""
    a, b, other_b = [4, 0, 0, 0, 2, 0], [1, 1, 0, 1, 1, 0], [2, 0, 0, 1, 1, 0]
    table = counts(a, b, a, other_b, a, ids=(7, 8, 7, 8, 7))
    with pytest.warns(VocMetricsWarning, match="3 repeated images .* predictions of 1 of them"):
        distinct = table.without_repeats(COLUMNS)
    assert distinct.image_ids == (7, 8)
    assert distinct.total(6).tolist() == [5, 1, 0, 1, 3, 0]


@pytest.mark.parametrize(
    ("copy", "what"),
    [([3, 0, 0, 1, 2, 0], "other classes"), ([4, 0, 0, 0, 3, 0], "more pixels"),
     ([0, 0, 0, 0, 0, 0], "no pixels"), ([6, 0, 0, 0, 0, 0], "one class less")],
)  # fmt: skip
def test_copies_of_other_truth_are_an_error(copy: list[int], what: str) -> None:
    first = [4, 0, 0, 0, 2, 0]
    table = counts(first, first, first, copy, copy, ids=(5, 6, 5, 6, 5))
    with pytest.raises(StateError, match=r"image_id 6: .*different ground truth"):
        table.without_repeats(COLUMNS)


def test_images_without_pixels_may_repeat() -> None:
    nothing = [0] * 6
    with pytest.warns(VocMetricsWarning, match="1 repeated images .* of 0 of them"):
        assert counts(nothing, nothing, ids=(5, 5)).without_repeats(COLUMNS).num_images == 1


def test_neighbours_of_one_class_are_images_of_their_own() -> None:
    """The last class of an image is the first of the next."""
    only = [4, 0, 0, 0, 0, 0]
    with pytest.warns(VocMetricsWarning, match="1 repeated images .* of 0 of them"):
        assert counts(only, only, ids=(5, 5)).without_repeats(COLUMNS).num_images == 1


class Counting(TorchFunctionMode):
    calls = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls += 1
        return func(*args, **(kwargs or {}))


def test_more_copies_need_no_more_operations() -> None:
    """Each operation is over all copies, so that the time is linear in them."""
    calls = []
    for copies in (2, 200):
        table = counts(*[[1, 2, 0, 0, 3, 0]] * copies, ids=(5,) * copies)
        with Counting() as counting, pytest.warns(VocMetricsWarning, match="repeated images"):
            table.without_repeats(COLUMNS)
        calls.append(counting.calls)
    assert calls[0] == calls[1]
