"""Random problems with their records and with what the plain loops make of them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from helpers.generator import random_problem, random_protocol
from helpers.support import Problem

from torch_vocmetrics import DetectionAP
from torch_vocmetrics.protocols import DetectionProtocol, load_protocol
from torch_vocmetrics.records import Records
from torch_vocmetrics.reference.judged import Judged, judge


def recorded(rules: DetectionProtocol, problem: Problem, *, diagnostics: bool = True) -> Records:
    """The records of a metric that has seen the problem in one update."""
    metric = DetectionAP(rules, diagnostics=diagnostics, **problem.kwargs)
    return metric.update(problem.detections, problem.ground_truths).records()


class Given(NamedTuple):
    """A problem, a lane of its protocol, its records, and the judgement of the loops."""

    rules: DetectionProtocol
    problem: Problem
    iou_threshold: float
    area: str
    records: Records
    judged: Judged
    seed: int


@cache
def given(
    seed: int, *, scores_in_unit: bool = False, headline: bool = False, mixed: bool = False
) -> Given:
    """VOC's, COCO's and random rules in turn; ``mixed`` gives half the detections other labels."""
    shipped = ("detection/coco2017", "detection/voc2007", "detection/voc2012")
    kind = seed % 6
    rules = load_protocol(shipped[kind]) if kind < 3 else random_protocol(seed)
    problem = random_problem(seed, rules)
    for one in problem.detections:
        if scores_in_unit:
            one["scores"] = one["scores"].abs()
        if mixed:
            rng = np.random.default_rng(seed)
            half = torch.from_numpy(rng.random(one["labels"].shape[0]) < 0.5)
            others = rng.choice(problem.kwargs["label_ids"], one["labels"].shape[0])
            one["labels"] = torch.where(half, torch.from_numpy(others), one["labels"])
    iou_threshold = rules.iou_thresholds[seed % len(rules.iou_thresholds)]
    areas = [entry.name for entry in rules.area_ranges]
    area = rules.headline_area if headline else areas[seed % len(areas)]
    records = recorded(rules, problem)
    judged = judge(rules, *problem[:2], iou_threshold=iou_threshold, area=area, **problem.kwargs)
    return Given(rules, problem, iou_threshold, area, records, judged, seed)


def many(seeds: range, **kwargs: bool) -> Iterator[Given]:
    """:func:`given` for each seed."""
    return (given(seed, **kwargs) for seed in seeds)
