"""Notices boxes that are fractions of the image where pixels are needed.

Such boxes give plausible wrong numbers: under VOC's rules every box is one pixel larger than it is
wide, and under COCO's all objects are small. The first boxes of either side decide, after which
the check costs nothing; what lies on a device is read when somebody may wait for it.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import torch
from torch import Tensor

from ..errors import InputError, warn
from .numbers import on_host
from .per_image import ImageSizes

SIDES = ("predictions", "targets")
LARGEST_FRACTION = 1.5
"""Boxes that reach a little beyond the image are fractions still."""
ENOUGH_BOXES = 20
"""So many boxes must lie within ``LARGEST_FRACTION`` before anything is said."""
LEAST_SIDE = 10 * LARGEST_FRACTION
"""Not all objects of images larger than this lie in one corner of 1.5 pixels."""

REMEDY = "multiply x by the width and y by the height of the image"


class BoxScale(NamedTuple):
    """What the boxes of one side have shown so far.

    Attributes:
        side: ``"predictions"`` or ``"targets"``.
        known: whether it is known that they are pixels, or somebody has been told that they are
            not.
        num_boxes: boxes so far, as long as that is not known.
        unread: 0-d bool on a device each, whether the boxes of a batch look like fractions.
        large_images: whether the sizes of all images with such boxes are known and large.
    """

    side: str
    known: bool = False
    num_boxes: int = 0
    unread: tuple[Tensor, ...] = ()
    large_images: bool = True

    def after(self, boxes: Tensor, image_sizes: ImageSizes | None) -> Self:
        """What is known after another batch, [N, 4] boxes in any format; does not wait.

        Raises:
            InputError: if boxes on the host are fractions of images of known sizes. Where models
                are at fault, whose boxes may be anything before they are trained, it is a warning.

        Warns:
            VocMetricsWarning: if boxes on the host look like fractions.
        """
        if self.known or not boxes.shape[0] or self.num_boxes >= ENOUGH_BOXES:
            return self
        inside = ((boxes >= 0) & (boxes <= LARGEST_FRACTION)).all()
        seen = self._replace(
            num_boxes=self.num_boxes + boxes.shape[0],
            large_images=self.large_images and _all_large(image_sizes),
        )
        if not on_host(boxes):
            return seen._replace(unread=(*self.unread, inside))
        if not inside.item():
            return self._replace(known=True, unread=())
        return seen.read() if seen.num_boxes >= ENOUGH_BOXES else seen

    def read(self) -> Self:
        """What is known now that the device may be read; raises and warns as :meth:`after`."""
        if self.known or self.num_boxes == 0:
            return self
        if self.unread and not torch.stack(self.unread).all().item():
            return self._replace(known=True, unread=())
        if self.num_boxes < ENOUGH_BOXES:
            return self._replace(unread=())
        if self.side == "targets" and self.large_images:
            raise InputError(
                "must be pixels, and not fractions of the image",
                where="targets, key 'boxes'",
                got=f"{self.num_boxes} boxes that all lie within [0, {LARGEST_FRACTION}], in "
                f"images whose sides are all above {LEAST_SIDE:g}",
                remedy=REMEDY,
            )
        warn(
            f"all {self.num_boxes} boxes of the {self.side} so far lie within "
            f"[0, {LARGEST_FRACTION}]: they look like fractions of the image, but are taken as "
            f"pixels; {REMEDY}"
        )
        return self._replace(known=True, unread=())


def _all_large(image_sizes: ImageSizes | None) -> bool:
    """Whether all sizes are known on the host and large."""
    if not isinstance(image_sizes, list) or not image_sizes:
        return False
    return min(map(min, image_sizes)) > LEAST_SIDE
