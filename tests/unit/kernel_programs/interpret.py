"""Run the kernel in Triton's interpreter beside the plain path; print one line of JSON.

Arguments: how many seeds, and a rule that the kernel is to get wrong.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch

from torch_vocmetrics.matching import fused
from torch_vocmetrics.matching.greedy_cuda import launch
from torch_vocmetrics.matching.matchable import Matchable, Rules

ALL = 2**12 - 1  # twelve lanes: four subsets of three thresholds
THRESHOLDS = torch.tensor([0.5, 0.6, 0.9], dtype=torch.float64)


def columns(boxes: torch.Tensor, *, inclusive: bool) -> torch.Tensor:
    x1, y1, x2, y2 = boxes.double().unbind(1)
    extra = 1 if inclusive else 0
    return torch.stack([x1, y1, x2, y2, (x2 - x1 + extra) * (y2 - y1 + extra)])


def random_rows(seed: int, *, inclusive: bool) -> Matchable:
    """A few images of up to 20 objects: whole pixels, duplicates, midpoints, crowds, cuts."""
    rng = torch.Generator().manual_seed(seed)

    def whole(high: int, *size: int) -> torch.Tensor:
        return torch.randint(0, high, size, generator=rng)

    images = 3
    object_counts = [int(whole(8, 1)), 20 if seed % 10 == 0 else int(whole(5, 1)), 0]
    counts = [int(whole(10, 1)), 12, 3]
    objects = sum(object_counts)
    corner = 10 * whole(4, objects, 2)
    object_boxes = torch.cat([corner, corner + 10 * (1 + whole(3, objects, 2))], 1)
    found = []
    for image in range(images):
        first = sum(object_counts[:image])
        for _ in range(counts[image]):
            if object_counts[image] and whole(5, 1) > 0:
                box = object_boxes[first + int(whole(object_counts[image], 1))].clone()
                kind = int(whole(4, 1))
                if kind == 1:  # overlaps of exactly 0.9, 0.6, 0.5
                    width = int(box[2] - box[0])
                    box[2] = box[0] + width * int([9, 6, 5][int(whole(3, 1))]) // 10
                elif kind == 2:  # between two objects
                    box[::2] += 5
                elif kind == 3:
                    box += whole(7, 4) - 3
            else:
                box = torch.cat([x := whole(40, 2), x + 1 + whole(30, 2)])
            found.append(box)
    boxes = torch.stack(found)
    image_of = torch.repeat_interleave(torch.arange(images), torch.tensor(counts))
    group = (image_of * 2 + whole(2, sum(counts))).sort().values
    object_image = torch.repeat_interleave(torch.arange(images), torch.tensor(object_counts))
    crowd = whole(5, objects) == 0
    subsets = torch.tensor([0b111000111000, 0b111111, ALL, 0b101010101010])
    present = torch.where(whole(8, sum(counts)) == 0, 0, -1)
    return Matchable(
        boxes=columns(boxes, inclusive=inclusive),
        group=group,
        present=torch.where(whole(9, sum(counts)) == 0, ~subsets[0], present),
        out_of_range=subsets[whole(4, sum(counts))] * (whole(2, sum(counts))),
        starts=torch.tensor([0, *torch.tensor(counts).cumsum(0).tolist()]),
        object_boxes=columns(object_boxes, inclusive=inclusive),
        object_group=object_image * 2 + whole(2, objects),
        object_starts=torch.tensor([0, *torch.tensor(object_counts).cumsum(0).tolist()]),
        counted=torch.where(crowd, 0, subsets[whole(4, objects)]),
        exclusive=torch.where(crowd, 0, -1),
        over_area=crowd,
        regions=columns(object_boxes + torch.tensor([-3, -2, 4, 1]), inclusive=inclusive),
        epsilon=torch.tensor([1e-6 * (seed % 5 == 4)], dtype=torch.float64),
        thresholds=THRESHOLDS,
        threshold_bits=torch.tensor([0b001001001001, 0b010010010010, 0b100100100100]),
    )


def crowd_and_ignored() -> Matchable:
    """A crowd against an object that is ignored by its area: the overlap with the crowd decides."""
    objects = torch.tensor([[0, 0, 31, 32], [14, -50, 214, 150]])
    return directed(
        objects,
        torch.tensor([[6, 0, 45, 32], [-4, 0, 25, 32]]),
        counted=[0, 0],
        exclusive=[-1, 0],
        over_area=[False, True],
    )


def midpoint() -> Matchable:
    """Equal overlaps with two objects; which is taken decides what is left for the next one."""
    objects = torch.tensor([[0, 0, 100, 100], [60, 0, 160, 100]])
    found = torch.tensor([[30, 0, 130, 100], [0, 0, 100, 100]])
    return directed(
        objects, found, counted=[ALL, ALL], exclusive=[-1, -1], over_area=[False, False]
    )


def duplicate_beside_difficult() -> Matchable:
    """Two detections best on A, which counts, beside B, which does not: VOC's second is false."""
    objects = torch.tensor([[0, 0, 100, 100], [0, 0, 100, 90]])
    found = torch.tensor([[0, 0, 100, 100], [0, 0, 100, 99]])
    return directed(objects, found, counted=[ALL, 0], exclusive=[-1, -1], over_area=[False, False])


def directed(
    objects: torch.Tensor,
    found: torch.Tensor,
    *,
    counted: list[int],
    exclusive: list[int],
    over_area: list[bool],
) -> Matchable:
    """Two detections and two objects of one class and image."""
    return Matchable(
        boxes=columns(found, inclusive=False),
        group=torch.tensor([0, 0]),
        present=torch.tensor([-1, -1]),
        out_of_range=torch.tensor([0, 0]),
        starts=torch.tensor([0, 2]),
        object_boxes=columns(objects, inclusive=False),
        object_group=torch.tensor([0, 0]),
        object_starts=torch.tensor([0, 2]),
        counted=torch.tensor(counted),
        exclusive=torch.tensor(exclusive),
        over_area=torch.tensor(over_area),
        regions=columns(objects, inclusive=False),
        epsilon=torch.zeros(1, dtype=torch.float64),
        thresholds=THRESHOLDS,
        threshold_bits=torch.tensor([1, 2, 4]),
    )


def mutated(rows: Matchable, rules: Rules, mutation: str) -> Any:
    if mutation == "first":
        return rows, rules._replace(last_wins=not rules.last_wins)
    if mutation == "strict":
        return rows, rules._replace(strict=not rules.strict)
    if mutation == "reusable":
        return rows._replace(exclusive=torch.full_like(rows.exclusive, -1)), rules
    if mutation == "iou for crowds":
        return rows._replace(over_area=torch.zeros_like(rows.over_area)), rules
    if mutation == "one shape":
        return rows, rules._replace(two_shapes=not rules.two_shapes)
    if mutation == "used":
        return rows, rules._replace(claims_used=not rules.claims_used)
    return rows, rules


def main() -> None:
    seeds, mutation = int(sys.argv[1]), (sys.argv[2:] or [""])[0]
    report: dict[str, Any] = {"differing": [], "detections": 0, "true_positives": 0}
    report |= {"ignored": 0, "contested": 0}
    coco = Rules(inclusive=False, strict=False, best_only=False, last_wins=True)
    cases: list[tuple[Any, Matchable, Rules]] = [
        ("crowd and ignored", crowd_and_ignored(), coco),
        ("midpoint", midpoint(), coco),
        ("duplicate", duplicate_beside_difficult(), coco._replace(best_only=True, last_wins=False)),
    ]
    # Beyond the seeds asked for, half as many in which only the best object is tried.
    for seed in range(seeds + seeds // 2):
        best_only = seed % 3 == 1 or seed >= seeds
        rules = Rules(
            inclusive=best_only,
            strict=seed % 4 == 2,
            best_only=best_only,
            last_wins=not best_only,
            two_shapes=seed % 3 == 2 and not best_only,
            claims_used=seed % 6 == 5 and not best_only,
        )
        cases.append((seed, random_rows(seed, inclusive=rules.inclusive), rules))
    for name, rows, rules in cases:
        largest = int(rows.object_starts.diff().max())
        wanted = fused.match_word(rows, rules, largest)
        got = launch(*mutated(rows, rules, mutation), largest)
        if not all(torch.equal(a, b) for a, b in zip(got, wanted, strict=True)):
            report["differing"].append(name)
            break  # interpreting is slow, and a difference is enough to know
        report["detections"] += rows.group.shape[0]
        report["true_positives"] += int((wanted[0] != 0).sum())
        report["ignored"] += int((wanted[1] != 0).sum())
        report["contested"] += int(((wanted[0] != 0) & (wanted[0] != wanted[0].max())).sum())
    print(json.dumps(report))


main()
