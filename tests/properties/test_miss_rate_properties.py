"""Fast path = reference on random edge cases, to the last bit; and laws that hold.

``VOCMETRICS_FUZZ=N`` compares N cases for each set of rules in place of the suite's few.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import pickle
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from helpers.pedestrian_generator import random_problem, random_protocol, shipped
from helpers.pedestrians import differences, evaluate_by_metric, evaluate_by_reference
from helpers.support import Problem

from torch_vocmetrics import LogAverageMissRate, VocMetricsWarning
from torch_vocmetrics.protocols import MissRateProtocol, protocol_names

FUZZ = int(os.environ.get("VOCMETRICS_FUZZ", "0"))
CASES = FUZZ or 120

Rules = Callable[[int], MissRateProtocol]


def fixed(name: str) -> Rules:
    protocol = shipped(name)
    subsets = tuple(s._replace(images=((0, 2),) if s.images else ()) for s in protocol.subsets)
    few = dataclasses.replace(protocol, subsets=subsets, num_images=0)
    return lambda seed: few


RULES: dict[str, Rules] = {
    **{name: fixed(name) for name in protocol_names("miss_rate")},
    "any rules": random_protocol,
}


@pytest.fixture(autouse=True)
def no_warnings_of_ours() -> Iterator[None]:
    """Empty sets and stops of dbEval 3.0.0 are warned of; both are part of the cases."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VocMetricsWarning)
        yield


@pytest.mark.parametrize("name", RULES)
def test_metric_is_reference(name: str) -> None:
    seen = {"matches": 0, "ignored": 0, "averages": 0, "sizes": set[int]()}
    for seed in range(CASES if name != "any rules" else 4 * CASES):
        protocol = RULES[name](seed)
        problem = random_problem(seed, protocol)
        fast = evaluate_by_metric(protocol, *problem[:2], **problem.kwargs)
        plain = evaluate_by_reference(protocol, *problem[:2], **problem.kwargs)
        assert not differences(fast, plain), f"seed {seed}, rules {protocol}"
        seen["matches"] += int(fast.true_positives.sum())
        total = fast.num_detections * len(protocol.subsets)
        seen["ignored"] += total - int((fast.true_positives + fast.false_positives).sum())
        seen["averages"] += int((fast.log_average_miss_rate > 0).sum())
        seen["sizes"].add(fast.num_images)
    assert seen["matches"] > 20
    assert seen["ignored"] > 20
    assert seen["averages"] > 20
    assert seen["sizes"] >= {0, 1, 6}
    if FUZZ:
        print(f"\nmetric = reference, {name}: {seen}")


def parts_of(problem: Problem, rng: np.random.Generator) -> list[tuple[Any, Any]]:
    """The images cut into batches, some of which are empty."""
    count = len(problem.detections)
    cuts = np.sort(rng.integers(0, count + 1, int(rng.integers(0, 4))))
    bounds = [0, *cuts.tolist(), count]
    return [
        (problem.detections[a:b], problem.ground_truths[a:b]) for a, b in itertools.pairwise(bounds)
    ]


def metric(
    protocol: MissRateProtocol, problem: Problem, batches: list[tuple[Any, Any]]
) -> LogAverageMissRate:
    made = LogAverageMissRate(protocol, **problem.kwargs)
    for batch in batches:
        made.update(*batch)
    return made


@pytest.mark.parametrize("name", RULES)
def test_splits_merges_states_and_image_order_change_nothing(name: str) -> None:
    moved = 0
    for seed in range(max(CASES // 4, 30)):
        rng = np.random.default_rng([seed, 4])
        protocol = RULES[name](seed)
        problem = random_problem(seed, protocol)
        if not problem.detections:
            continue
        whole = evaluate_by_metric(protocol, *problem[:2], **problem.kwargs)
        batches = parts_of(problem, rng)
        pieces = [metric(protocol, problem, [batch]) for batch in batches]
        ways = {
            "split": metric(protocol, problem, batches),
            "merged": pieces[0].merge(*pieces[1:]),
        }
        state = metric(protocol, problem, batches).state_dict()
        ways["loaded"] = LogAverageMissRate(protocol, **problem.kwargs).load_state_dict(state)
        ways["pickled"] = pickle.loads(pickle.dumps(metric(protocol, problem, batches)))
        if "image_id" in problem.ground_truths[0]:
            moved += 1
            order = rng.permutation(len(problem.detections)).tolist()
            other = Problem(*([side[i] for i in order] for side in problem[:2]), problem.kwargs)
            ways["shuffled"] = metric(protocol, problem, parts_of(other, rng))
            backwards = [metric(protocol, problem, [batch]) for batch in parts_of(other, rng)]
            ways["merged backwards"] = backwards[-1].merge(*backwards[-2::-1])
            again = (problem.detections[:1], problem.ground_truths[:1])
            ways["repeated"] = metric(protocol, problem, [*batches, again])
        for way, made in ways.items():
            assert not differences(whole, made.compute()), f"seed {seed}, {way}, rules {protocol}"
    assert moved > 5


def test_boxes_of_all_formats_agree_on_whole_pixels() -> None:
    """With whole pixels, a conversion between formats rounds nothing."""
    compared = 0
    for seed in range(CASES):
        protocol = shipped("citypersons2017")
        problem = random_problem(seed, protocol)
        wanted = evaluate_by_metric(protocol, *problem[:2], box_format="xywh")
        corners = []
        for side in problem[:2]:
            rows = [{**one, "boxes": one["boxes"].round()} for one in side]
            corners.append(rows)
        wanted = evaluate_by_metric(protocol, *corners, box_format="xywh")
        for side in corners:
            for one in side:
                for key in ("boxes", "visible_boxes"):
                    if key in one:
                        near, size = one[key][:, :2], one[key][:, 2:]
                        one[key] = torch.cat([near, near + size], dim=1)
        got = evaluate_by_metric(protocol, *corners, box_format="xyxy")
        if not any("visible_boxes" in one for one in corners[1]):
            assert not differences(wanted, got), f"seed {seed}"
            compared += 1
    assert compared > CASES // 3


# The generator finds what is broken ---------------------------------------------------------------

MUTATIONS: list[tuple[str, dict[str, Any]]] = [
    ("citypersons2017", {"equal_overlaps": "first"}),
    ("crowdhuman2018", {"equal_overlaps": "last"}),
    ("caltech2012", {"comparison": ">"}),
    ("caltech2012", {"used_objects": "ignore_detection"}),
    ("caltech2012", {"height_interval": "closed"}),
    ("caltech2012", {"standardised": ("detections", "objects", "ignored_objects")}),
    ("caltech2012", {"standardised": ("detections",)}),
    ("caltech2012", {"standardised": ("objects",)}),
    ("caltech2012", {"standard_aspect_ratio": 0.5}),
    ("caltech2012", {"bounds": ()}),
    ("caltech2012", {"unoccluded_visibility": 1.0}),
    ("caltech2012", {"zero_visible_box": "area_ratio"}),
    ("caltech2012", {"detection_filter": "after_matching"}),
    ("caltech2012", {"detection_filter": "none"}),
    ("caltech2012", {"curve_reading": "last_or_final"}),
    ("caltech2012", {"curve_reading": "last_or_undefined"}),
    ("caltech2012", {"miss_rate_floor": 1e-10}),
    ("caltech2012", {"recall_levels": (0.5,)}),
    ("citypersons2017", {"height_interval": "half_open"}),
    ("citypersons2017", {"max_detections": (2,)}),
    ("citypersons2017", {"without_positives": "as_computed"}),
    ("citypersons2017", {"curve_reading": "first_or_final"}),
    ("citypersons2017", {"overlap_epsilon": 1e-6}),
    ("citypersons2017", {"sums": "in_sequence"}),
    ("kaist", {"undetected_images": "drop_objects"}),
    ("crowdhuman2018", {"clipping": "none"}),
    ("crowdhuman2018", {"overlap_epsilon": 0.0, "comparison": ">="}),
    ("crowdhuman2018", {"jaccard_epsilon": 0.0}),
    ("crowdhuman2018", {"jaccard_scores": tuple(i / 10 + 0.05 for i in range(10))}),
]


@pytest.mark.parametrize(
    ("name", "change"), MUTATIONS, ids=lambda v: v if isinstance(v, str) else "-".join(v)
)
def test_a_broken_rule_is_noticed(name: str, change: dict[str, Any]) -> None:
    protocol = RULES[name](0)
    broken = dataclasses.replace(protocol, **change)

    def told_apart(seed: int) -> bool:
        problem = random_problem(seed, protocol)
        good = evaluate_by_reference(protocol, *problem[:2], **problem.kwargs)
        bad = evaluate_by_reference(broken, *problem[:2], **problem.kwargs)
        return bool(set(differences(good, bad)) - {"protocol"})

    assert any(map(told_apart, range(300))), f"no case tells {change} from the rules of {name}"
