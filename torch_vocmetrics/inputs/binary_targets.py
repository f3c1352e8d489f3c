"""Notices true masks of black and white where white is void: only the background is evaluated.

Label images of one object are often saved as 0 and 255, and 255 is the void label of VOC. White
pixels are looked for in the first targets; whether there are other labels, the counts say.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Self

import torch
from torch import Tensor

from ..errors import warn
from .numbers import on_host

WHITE = 255
"""The label of the object in a mask that was saved as a black and white image."""
LEAST_PIXELS = 100
"""So many pixels of either color are needed before anything is said."""
MOST_STACKS, MOST_STACKS_ON_DEVICE = 16, 1
"""White is looked for in so many stacks of label maps: on a device each costs two operators."""
READ_TYPES = (torch.uint8, torch.int16, torch.int32, torch.int64)
"""Types of labels that are looked at: those that all versions of torch compare, and hold 255."""


class WhitePixels(NamedTuple):
    """How many white pixels the first targets have.

    Attributes:
        stacks: how many stacks may still be looked at.
        number: white pixels on the host.
        unread: 0-d int64 each, those on a device.
    """

    stacks: int = MOST_STACKS
    number: int = 0
    unread: tuple[Tensor, ...] = ()

    def after(self, targets: Iterable[Tensor]) -> Self:
        """What is known after some more true label maps; does not wait."""
        seen = self
        for labels in targets:
            if seen.stacks <= 0 or labels.dtype not in READ_TYPES:
                break
            white = (labels == WHITE).sum()
            if on_host(white):
                seen = seen._replace(stacks=seen.stacks - 1, number=seen.number + int(white))
            else:
                left = seen.stacks - MOST_STACKS // MOST_STACKS_ON_DEVICE
                seen = seen._replace(stacks=left, unread=(*seen.unread, white))
        return seen

    def warn_of_binary_targets(self, black: int, others: int) -> bool:
        """Say so if the targets hold black and white alone, and white is void.

        Args:
            black: evaluated pixels of label 0.
            others: evaluated pixels of other labels.

        Returns:
            Whether it was said.
        """
        if others or black < LEAST_PIXELS:
            return False
        if self.number + sum(map(int, self.unread)) < LEAST_PIXELS:
            return False
        warn(
            f"the targets hold 0 and {WHITE} alone, and {WHITE} is void here, so that only label 0 "
            f"is evaluated: for masks of black and white give label 1 to the object, or "
            f"label_ids=[0, {WHITE}] with ignore_index=-1 (--label-ids 0,{WHITE} --void -1)"
        )
        return True
