"""Generated persons for the layout program: a head, up to two hands and up to two feet."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

SIZE = 48  # height and width of a person's image in pixels
PLACES = {  # usual middle of a part (down, right), its type, and its colour
    "head": (9.0, 24.0, 0, (0.9, 0.7, 0.6)),
    "left hand": (24.0, 9.0, 1, (0.9, 0.6, 0.2)),
    "right hand": (24.0, 39.0, 1, (0.9, 0.6, 0.2)),
    "left foot": (41.0, 16.0, 2, (0.3, 0.2, 0.7)),
    "right foot": (41.0, 32.0, 2, (0.3, 0.2, 0.7)),
}
HIDDEN_SHARE = 0.2  # of the hands and feet; a head is always there


class Person(NamedTuple):
    """One person.

    Attributes:
        image: [3, SIZE, SIZE] float32 in [0, 1].
        boxes: [5, 4] float32 of the parts in the order of ``PLACES``, VOC's pixels from 1.
        present: [5] bool, whether each part is to be seen.
    """

    image: Tensor
    boxes: Tensor
    present: Tensor


LABELS = torch.tensor([place[2] for place in PLACES.values()])
USUAL = torch.tensor([[right, down] for down, right, *_ in PLACES.values()])


def make_persons(count: int, *, seed: int | tuple[int, int]) -> list[Person]:
    """``count`` persons; the same seed gives the same."""
    rng = np.random.default_rng(seed)
    return [_make_person(rng) for _ in range(count)]


def _make_person(rng: np.random.Generator) -> Person:
    canvas = rng.uniform(0.2, 0.5, (3, 1, 1)) + rng.normal(0, 0.03, (3, SIZE, SIZE))
    canvas[:, 15:36, 18:31] = rng.uniform(0, 1, (3, 1, 1))  # the body
    boxes, present = [], []
    for down, right, label, colour in PLACES.values():
        middle = np.array([down, right]) + rng.uniform(-4, 4, 2)
        half = rng.uniform(3.5, 5.5, 2)
        top, left = np.maximum(np.round(middle - half), 0).astype(int)
        bottom, end = np.minimum(np.round(middle + half), SIZE).astype(int)
        present.append(label == 0 or rng.random() > HIDDEN_SHARE)
        boxes.append([left + 1, top + 1, end, bottom])
        if present[-1]:
            canvas[:, top:bottom, left:end] = np.array(colour)[:, None, None]
    image = torch.from_numpy(canvas.clip(0, 1).astype(np.float32))
    return Person(image, torch.tensor(boxes, dtype=torch.float32), torch.tensor(present))
