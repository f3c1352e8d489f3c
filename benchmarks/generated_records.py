"""States of detection metrics without images behind them: many detections in little time."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torch_vocmetrics import DetectionAP
from torch_vocmetrics.lanes import Lanes
from torch_vocmetrics.ops.ordering import stable_order

OBJECTS = 7  # an image has, as COCO's have


def generated_state(
    metric: DetectionAP[Any], images: int, per_image: int, seed: int, first_id: int
) -> dict[str, Any]:
    """A state of COCO's rules: ``images`` with so many detections each, of uneven classes.

    Each object is matched by one detection, up to some IoU threshold; the others match nothing.
    """
    rng = torch.Generator().manual_seed(seed)
    lanes, num_classes = Lanes.of(metric.protocols[0]), metric.num_classes
    N, M = images * per_image, images * OBJECTS
    image = torch.arange(images).repeat_interleave(per_image)
    place = torch.arange(per_image).repeat(images)
    weights = 1 / (torch.arange(num_classes) + 10.0)
    label = torch.multinomial(weights, N, replacement=True, generator=rng)
    owner = torch.arange(images).repeat_interleave(OBJECTS)
    true_label = label.view(images, per_image)[:, :OBJECTS].flatten()
    area = torch.rand(M, generator=rng, dtype=torch.float64) * 120**2
    score = torch.rand(N, generator=rng)
    order = score.argsort(descending=True)
    order = order[stable_order((label * images + image)[order])]
    ranges = metric.protocols[0].area_ranges
    size = torch.rand(N, generator=rng) * 120**2
    out_of_range = sum(
        ((size < one.lower) | (size > one.upper)).to(torch.uint8) << bit
        for bit, one in enumerate(ranges)
    )
    inside = [(area >= one.lower) & (area <= one.upper) for one in ranges]
    counted = torch.stack([_bits(lanes, a) * within.long() for a, within in enumerate(inside)]).sum(
        0
    )
    overlap = 0.5 + 0.5 * torch.rand(M, generator=rng)
    matched = torch.floor((overlap - 0.5) * 20).long() + 1
    reached = sum(((1 << matched) - 1) << (a * lanes.num_thresholds) for a in range(len(ranges)))
    assert isinstance(out_of_range, Tensor)
    assert isinstance(reached, Tensor)
    new = torch.empty_like(order).index_copy_(0, order, torch.arange(N))
    detection, at = new[(place < OBJECTS).nonzero().squeeze(1)].sort()
    records = {
        "image_sizes": torch.full((images, 2), 500, dtype=torch.int32),
        "ground_truth_image": owner.int(),
        "ground_truth_label": true_label.int(),
        "ground_truth_area": area,
        "ground_truth_counted": counted.unsqueeze(1),
        "class_counts": torch.bincount(label, minlength=num_classes),
        "image": image[order].int(),
        "score": score[order],
        "out_of_range": out_of_range[order].unsqueeze(1),
        "match_detection": detection,
        "match_ground_truth": at.int(),
        "match_overlap": overlap[at],
        "match_true_positive": (reached & counted)[at].unsqueeze(1),
        "match_ignored": (reached & ~counted)[at].unsqueeze(1),
    }
    state = metric.state_dict()
    ids = list(range(first_id, first_id + images))
    none = dict.fromkeys(set(state["records"][0]) - set(records))
    return state | {
        "updated": True,
        "num_images": images,
        "image_ids": ids,
        "records": [records | none],
    }


def _bits(lanes: Lanes, area: int) -> int:
    return lanes.area_bits(area)[0]


def bytes_of(state: dict[str, Any]) -> int:
    """Memory of the tensors of a state."""
    return sum(
        column.numel() * column.element_size()
        for records in state["records"]
        for column in records.values()
        if column is not None
    )
