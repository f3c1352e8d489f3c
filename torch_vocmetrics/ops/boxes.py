"""Areas and overlaps of pairs of boxes, in float64 and in the operation order of the official code.

Boxes stay in the format in which they came: ``xywh`` has its area from w * h and its far corner
from x + w, ``xyxy`` its width from x2 - x1. A conversion there and back would change decisions at
exact thresholds. ``inclusive`` adds the pixel that VOC's boxes include (x2 - x1 + 1).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class BoxColumns(NamedTuple):
    """Corners and area of N boxes as six columns [N] float64."""

    x1: Tensor
    y1: Tensor
    x2: Tensor
    y2: Tensor
    area: Tensor

    def rows(self, index: Tensor) -> BoxRows:
        """The boxes at ``index`` [P]."""
        return BoxRows(self, index)


class BoxRows(NamedTuple):
    """Some boxes of a table; a column is read when it is asked for, as pairs are many."""

    table: BoxColumns
    places: Tensor

    @property
    def x1(self) -> Tensor:
        return self.table.x1.index_select(0, self.places)

    @property
    def y1(self) -> Tensor:
        return self.table.y1.index_select(0, self.places)

    @property
    def x2(self) -> Tensor:
        return self.table.x2.index_select(0, self.places)

    @property
    def y2(self) -> Tensor:
        return self.table.y2.index_select(0, self.places)

    @property
    def area(self) -> Tensor:
        return self.table.area.index_select(0, self.places)


def box_columns(boxes: Tensor, box_format: str, *, inclusive: bool) -> BoxColumns:
    """Corners and areas of ``boxes`` [N, 4] in ``xyxy``, ``xywh`` or ``cxcywh``."""
    # Column by column: what follows reads whole columns.
    a, b, c, d = boxes.t().to(torch.float64, memory_format=torch.contiguous_format)
    if box_format == "xyxy":
        x1, y1, x2, y2, width, height = a, b, c, d, c - a, d - b
    elif box_format == "xywh":
        x1, y1, x2, y2, width, height = a, b, a + c, b + d, c, d
    else:
        x1, y1, x2, y2, width, height = a - c / 2, b - d / 2, a + c / 2, b + d / 2, c, d
    if inclusive:
        return BoxColumns(x1, y1, x2, y2, (x2 - x1 + 1) * (y2 - y1 + 1))
    return BoxColumns(x1, y1, x2, y2, width * height)


def pair_intersections(
    first: BoxColumns | BoxRows, second: BoxColumns | BoxRows, *, inclusive: bool
) -> Tensor:
    """[P] float64 areas of intersection; 0 unless both its sides are above 0."""
    width = torch.minimum(first.x2, second.x2) - torch.maximum(first.x1, second.x1)
    height = torch.minimum(first.y2, second.y2) - torch.maximum(first.y1, second.y1)
    if inclusive:
        width, height = width + 1, height + 1
    return torch.where((width > 0) & (height > 0), width * height, 0.0)


def intersection_over_union(
    intersection: Tensor, first: Tensor, second: Tensor, epsilon: Tensor | float = 0.0
) -> Tensor:
    """[P] ``i / (a + b - i + epsilon)``, in the order of bbIou and VOCevaldet.m; 0 where i is 0."""
    union = first + second - intersection + epsilon
    return torch.where(intersection > 0, intersection / union, 0.0)


def intersection_over_area(intersection: Tensor, area: Tensor) -> Tensor:
    """[P] ``i / area``: overlap with a crowd or an ignore region; 0 where i is 0."""
    return torch.where(intersection > 0, intersection / area, 0.0)
