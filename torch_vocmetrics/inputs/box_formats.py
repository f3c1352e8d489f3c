"""Formats of boxes: of either side, and as fractions of the image.

Boxes that are fractions are multiplied by the size of their image in float64. The product of a
float32 and a whole number of pixels is exact there, so that what is compared is what was given.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..errors import InputError
from ..ragged import BOX_FORMATS, image_of_row
from ..transfer import from_host, on_one_device
from .faults import NOT_FRACTIONS, Subject, Suspect, suspect
from .per_image import ImageIds, ImageSizes

BoxFormat = str | Sequence[str]
"""One format, or that of predictions and that of targets."""

FRACTIONS = {f"{name}n": name for name in BOX_FORMATS}
"""Formats whose numbers are fractions of the width and height of the image, and those in pixels."""

ALL_FORMATS = (*BOX_FORMATS, *FRACTIONS)

LARGEST_FRACTION = 2
"""No target lies beyond so many widths or heights of its image."""


def read_box_formats(box_format: BoxFormat) -> tuple[str, str]:
    """The formats of predictions and of targets that the argument ``box_format`` says.

    Raises:
        InputError: naming the formats that there are.
    """
    if isinstance(box_format, list | tuple):
        formats = tuple(box_format)
    else:
        formats = (box_format, box_format)
    if len(formats) != 2 or any(one not in ALL_FORMATS for one in formats):
        raise InputError(
            f"must be one of {', '.join(ALL_FORMATS)}, or two of them, of predictions and targets",
            where="box_format",
            got=repr(box_format),
        )
    return formats


def in_pixels(
    boxes: Tensor, counts: Sequence[int], box_format: str, sizes: ImageSizes | None
) -> Tensor:
    """Boxes in pixels, in the format that ``FRACTIONS`` names; waits for no device.

    Args:
        boxes: [N, 4] fractions of the image.
        counts: rows of each image.
        box_format: one of ``FRACTIONS``; boxes of others are returned as they are.
        sizes: of the images.

    Returns:
        [N, 4] float64; NaN stays NaN.

    Raises:
        InputError: if the sizes are missing.
    """
    if box_format not in FRACTIONS or not boxes.shape[0]:
        return boxes
    if sizes is None:
        raise InputError(
            f"boxes are fractions of the image ({box_format}), whose size is missing",
            where="targets, key 'image_size'",
            remedy="give (height, width) in every target",
        )
    given = sizes if isinstance(sizes, Tensor) else from_host(sizes, torch.int64, boxes.device)
    given, boxes = on_one_device([given, boxes])
    width_and_height = given.flip(1).repeat(1, 2)
    return boxes.double() * width_and_height.index_select(0, image_of_row(counts, boxes.device))


def suspects_of_fractions(
    boxes: Tensor, box_format: str, counts: Sequence[int], side: str, image_ids: ImageIds | None
) -> list[Suspect]:
    """Check that boxes of targets which should be fractions are no pixels; waits for no device."""
    if box_format not in FRACTIONS or not boxes.shape[0]:
        return []
    beyond = (boxes.abs() > LARGEST_FRACTION).any(dim=1)
    subject = Subject(side, tuple(counts), image_ids, box_format)
    return [suspect([(NOT_FRACTIONS, beyond)], {"box": boxes}, subject)]
