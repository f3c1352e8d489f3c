"""Overlaps of all pairs of an image and label, which torchmetrics calls ``ious``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from pycocotools import mask as mask_api
from torch import Tensor

Overlaps = dict[int, Tensor]
"""By label: [D, G] float32, detections by falling score; only where there are both."""


def overlaps_of_image(
    prediction: Mapping[str, Any],
    target: Mapping[str, Any],
    shapes: str,
    *,
    limit: int,
    box_format: str,
    one_label: bool,
) -> Overlaps:
    """IoU as COCO defines it, of a crowd the share of the detection that it holds.

    Args:
        prediction, target: ``labels``, ``scores`` and the ``shapes``; the target's ``iscrowd``.
        shapes: ``"boxes"`` or ``"masks"``.
        limit: how many detections of a label there may be.
        box_format: of the boxes.
        one_label: whether all labels are one, which is 0.
    """
    labels, there = (
        torch.zeros_like(rows["labels"]).tolist() if one_label else rows["labels"].tolist()
        for rows in (prediction, target)
    )
    order = prediction["scores"].double().argsort(descending=True, stable=True).tolist()
    seen, known = (_readable(rows[shapes], shapes, box_format) for rows in (prediction, target))
    crowds = target["iscrowd"].tolist()
    found: Overlaps = {}
    for label in {*labels} & {*there}:
        mine = [row for row in order if labels[row] == label][:limit]
        theirs = [row for row, one in enumerate(there) if one == label]
        overlaps = mask_api.iou(
            [seen[row] for row in mine],
            [known[row] for row in theirs],
            [int(crowds[row]) for row in theirs],
        )
        found[label] = torch.from_numpy(np.asarray(overlaps)).float()
    return found


def _readable(values: Tensor, shapes: str, box_format: str) -> list[Any]:
    """Boxes [x, y, w, h] or run lengths, for pycocotools."""
    if shapes == "masks":
        masks = (values != 0).to("cpu", torch.uint8).numpy()
        return [mask_api.encode(np.asfortranarray(mask)) for mask in masks]
    boxes = values.reshape(-1, 4).double().cpu()
    first, last = boxes[:, :2], boxes[:, 2:]
    if box_format == "xyxy":
        last = last - first
    elif box_format == "cxcywh":
        first = first - last / 2
    rows: list[Any] = torch.cat([first, last], dim=1).tolist()
    return rows
