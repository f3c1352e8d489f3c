"""Notices true masks of black and white where white is void: only the background is evaluated.

Label images of one object are often saved as 0 and 255, and 255 is the void label of VOC. The first
target that holds another label shows that all is well, after which the check costs nothing; what
lies on a device is read when somebody may wait for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Self

import torch
from torch import Tensor

from ..errors import warn
from .numbers import on_host

WHITE = 255
"""The label of the object in a mask that was saved as a black and white image."""
LEAST_PIXELS = 100
"""So many pixels of either color are needed before anything is said."""
READ_TYPES = (torch.uint8, torch.int16, torch.int32, torch.int64)
"""Types of labels that are looked at: those that all versions of torch compare, and hold 255."""
MOST_UNREAD = 64
"""So many stacks of a device are looked at; they hold other labels, or are not read."""


class BinaryTargets(NamedTuple):
    """What the targets have shown so far.

    Attributes:
        known: whether nothing is left to be said.
        black, white: pixels of targets on the host.
        unread: [3] int64 each on a device, pixels of other labels, black and white of a stack.
    """

    known: bool = False
    black: int = 0
    white: int = 0
    unread: tuple[Tensor, ...] = ()

    @classmethod
    def of(cls, label_ids: Sequence[int], void_labels: Sequence[int]) -> Self:
        """Before the first target; known where white is not void or black is no class."""
        return cls(known=WHITE not in void_labels or 0 not in label_ids)

    def after(self, targets: Iterable[Tensor]) -> Self:
        """What is known after some more true label maps; does not wait."""
        seen = self
        for labels in targets:
            if seen.known or len(seen.unread) >= MOST_UNREAD or labels.dtype not in READ_TYPES:
                break
            black, white = (labels == 0).sum(), (labels == WHITE).sum()
            pixels = torch.stack([labels.numel() - black - white, black, white])
            if on_host(pixels):
                seen = seen._plus(*pixels.tolist())
            else:
                seen = seen._replace(unread=(*seen.unread, pixels))
        return seen

    def read(self) -> Self:
        """What is known now that the device may be read.

        Warns:
            VocMetricsWarning: if all targets hold black and white alone; once.
        """
        if self.known:
            return self
        seen = self
        if self.unread:
            seen = self._plus(*torch.stack(self.unread).sum(dim=0).tolist())._replace(unread=())
        if seen.known or min(seen.black, seen.white) < LEAST_PIXELS:
            return seen
        warn(
            f"the targets hold 0 and {WHITE} alone, and {WHITE} is void here, so that only label 0 "
            f"is evaluated: for masks of black and white give label 1 to the object, or "
            f"label_ids=[0, {WHITE}] with ignore_index=-1 (--label-ids 0,{WHITE} --void -1)"
        )
        return seen._replace(known=True)

    def _plus(self, other: int, black: int, white: int) -> Self:
        """With so many pixels more."""
        return self._replace(known=other > 0, black=self.black + black, white=self.white + white)
