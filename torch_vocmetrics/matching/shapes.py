"""Boxes of pedestrians by their corners and sides: clipped to the image, of the standard width."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..ops.boxes import BoxColumns
from ..protocols import MissRateProtocol


class Shapes(NamedTuple):
    """Corners and sides of N boxes as six columns [N] float64."""

    x1: Tensor
    y1: Tensor
    x2: Tensor
    y2: Tensor
    width: Tensor
    height: Tensor

    @property
    def columns(self) -> BoxColumns:
        """Corners and area, the product of the sides."""
        return BoxColumns(self.x1, self.y1, self.x2, self.y2, self.width * self.height)


def shapes_of(boxes: Tensor, box_format: str, image: Tensor, sizes: Tensor | None) -> Shapes:
    """Boxes [N, 4] without a conversion there and back; clipped to ``sizes`` [I, 2] if given."""
    a, b, c, d = boxes.to(torch.float64).unbind(1)
    if box_format == "xyxy":
        shapes = Shapes(a, b, c, d, c - a, d - b)
    elif box_format == "xywh":
        shapes = Shapes(a, b, a + c, b + d, c, d)
    else:
        shapes = Shapes(a - c / 2, b - d / 2, a + c / 2, b + d / 2, c, d)
    if sizes is None:
        return shapes
    height, width = sizes.index_select(0, image).unbind(1)
    x1, y1 = (
        torch.minimum(near.clamp(min=0), side - 1)
        for near, side in ((shapes.x1, width), (shapes.y1, height))
    )
    x2, y2 = (
        torch.minimum(far.clamp(min=0), side)
        for far, side in ((shapes.x2, width), (shapes.y2, height))
    )
    return Shapes(x1, y1, x2, y2, x2 - x1, y2 - y1)


def standardised(shapes: Shapes, protocol: MissRateProtocol, what: str) -> Shapes:
    """The standard width about the centre, if boxes of this kind get it (bbApply.m resize)."""
    if what not in protocol.standardised:
        return shapes
    more = shapes.height * protocol.standard_aspect_ratio - shapes.width
    x1, width = shapes.x1 - more / 2, shapes.width + more
    return shapes._replace(x1=x1, x2=x1 + width, width=width)
