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
    positions: Tensor

    @property
    def x1(self) -> Tensor:
        return self.table.x1.index_select(0, self.positions)

    @property
    def y1(self) -> Tensor:
        return self.table.y1.index_select(0, self.positions)

    @property
    def x2(self) -> Tensor:
        return self.table.x2.index_select(0, self.positions)

    @property
    def y2(self) -> Tensor:
        return self.table.y2.index_select(0, self.positions)

    @property
    def area(self) -> Tensor:
        return self.table.area.index_select(0, self.positions)


def box_columns(boxes: Tensor, box_format: str, *, inclusive: bool) -> BoxColumns:
    """Corners and areas of ``boxes`` [N, 4] in ``xyxy``, ``xywh`` or ``cxcywh``."""
    return BoxColumns(*box_table(boxes, box_format, inclusive=inclusive))


def box_table(boxes: Tensor, box_format: str, *, inclusive: bool) -> Tensor:
    """[5, N] float64: :func:`box_columns` in one tensor, as what follows reads whole columns."""
    table = boxes.new_empty((5, boxes.shape[0]), dtype=torch.float64)
    table[:4] = boxes.t()
    start, end, area = table[0:2], table[2:4], table[4]
    size = end - start if box_format == "xyxy" else end.clone()
    if box_format == "xywh":
        end += start
    elif box_format == "cxcywh":
        torch.add(start, size / 2, out=end)
        start -= size / 2
    if inclusive:
        size = end - start + 1
    torch.mul(size[0], size[1], out=area)
    return table


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
