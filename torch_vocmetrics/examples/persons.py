"""Generated persons (a head, up to two hands and two feet), and a predictor of their parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

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
        middle = np.array([down, right]) + rng.uniform(-6, 6, 2)
        half = rng.uniform(3.5, 5.5, 2)
        top, left = np.maximum(np.round(middle - half), 0).astype(int)
        bottom, end = np.minimum(np.round(middle + half), SIZE).astype(int)
        present.append(label == 0 or rng.random() > HIDDEN_SHARE)
        boxes.append([left + 1, top + 1, end, bottom])
        if present[-1]:
            canvas[:, top:bottom, left:end] = np.array(colour)[:, None, None]
    image = torch.from_numpy(canvas.clip(0, 1).astype(np.float32))
    return Person(image, torch.tensor(boxes, dtype=torch.float32), torch.tensor(present))


class LayoutPredictor(nn.Module):
    """A box and a logit for each of five parts."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for inputs, outputs in ((3, 16), (16, 32), (32, 32)):
            convolution = nn.Conv2d(inputs, outputs, 3, stride=2, padding=1, bias=False)
            layers += [convolution, nn.BatchNorm2d(outputs), nn.ReLU()]
        self.body = nn.Sequential(*layers, nn.Flatten())
        self.head = nn.Linear(32 * (SIZE // 8) ** 2, 5 * len(LABELS))

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Boxes [B, 5, 4] and logits [B, 5] of being there."""
        out = self.head(self.body(images - 0.5)).unflatten(1, (len(LABELS), 5))
        start = torch.cat([USUAL - 4, USUAL + 4], dim=1)
        return start + 4 * out[..., :4], out[..., 4]


def train(persons: Sequence[Person], epochs: int) -> LayoutPredictor:
    """A predictor that has seen these persons some times."""
    torch.manual_seed(0)
    model = LayoutPredictor()
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    for _ in range(epochs):
        for rows in torch.randperm(len(persons)).tensor_split(-(-len(persons) // 16)):
            image, box, there = (
                torch.stack(column) for column in zip(*(persons[row] for row in rows), strict=True)
            )
            boxes, logits = model(image)
            loss = functional.smooth_l1_loss(boxes[there], box[there])
            loss = loss + functional.binary_cross_entropy_with_logits(logits, there.float())
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return model.eval()
