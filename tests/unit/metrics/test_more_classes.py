"""A metric that is given more classes is the metric that had them from the start."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers.generator import random_problem
from helpers.support import differences

from torch_vocmetrics import DetectionAP, InputError, load_protocol

pytestmark = pytest.mark.slow

WIDE = [0, 3, *range(4, 95), 200]


def halves(seed: int, label_ids: list[int]) -> Any:
    """A problem with the labels of ``label_ids`` as rising positions, in two batches."""
    problem = random_problem(seed, load_protocol("detection/coco2017"), "xywh")
    known = {label: n for n, label in enumerate(problem.kwargs["label_ids"])}
    for rows in (*problem.detections, *problem.ground_truths):
        labels = [label_ids[known[int(label)]] for label in rows["labels"]]
        rows["labels"] = torch.tensor(labels, dtype=torch.int64)
    middle = len(problem.detections) // 2
    return [
        tuple(side[part] for side in problem[:2]) for part in (slice(middle), slice(middle, None))
    ]


@pytest.mark.parametrize("protocol", ["voc2007", "coco2017", ["coco2017", "voc2012"]])
@pytest.mark.parametrize("agnostic", [False, True])
def test_growing_changes_no_bit(protocol: Any, agnostic: bool) -> None:
    rules = {"class_agnostic": agnostic, "box_format": "xywh"}
    for seed in range(12):
        first, second = halves(seed, [4, 9, 50, 77])
        narrow = DetectionAP(protocol, label_ids=[4, 9, 50, 77], **rules).update(*first)
        grown = narrow.with_classes(label_ids=WIDE).update(*second)
        whole = DetectionAP(protocol, label_ids=WIDE, **rules).update(*first).update(*second)
        results = [one.compute() for one in (grown, whole)]
        pairs = (
            [results]
            if isinstance(protocol, str)
            else zip(*(r.values() for r in results), strict=True)
        )
        for one, other in pairs:
            assert differences(one, other) == [], f"seed {seed}"
        assert grown.merge(whole).num_images == 2 * whole.num_images
        assert narrow.label_ids == (4, 9, 50, 77)
        assert narrow.num_images == len(first[0])


def test_names_and_numbers() -> None:
    box = {"boxes": [[0.0, 0, 9, 9]], "labels": [5]}
    metric = DetectionAP("voc2012", class_names={5: "dog"}).update([box | {"scores": [1]}], [box])
    wider = metric.with_classes(class_names={2: "cat", 5: "big dog", 7: "cow"})
    assert wider.class_names == ("cat", "big dog", "cow")
    result = wider.compute()
    assert result.num_positives.tolist() == [0, 1, 0]
    assert result["AP/big dog"] == result.headline == 1
    assert metric.compute().class_names == ("dog",)
    assert type(metric)("voc2012", num_classes=2).with_classes(num_classes=4).num_classes == 4


@pytest.mark.parametrize("label_ids", [[1], [2, 1], [2, 3], [9, 2, 1]])
def test_classes_that_are_lost_or_moved_are_refused(label_ids: list[int]) -> None:
    metric = DetectionAP("voc2012", label_ids=[1, 2])
    with pytest.raises(InputError, match=r"label ids of the metric in their order.*\[1, 2\]"):
        metric.with_classes(label_ids=label_ids)
    assert metric.with_classes(label_ids=[1, 0, 2]).label_ids == (1, 0, 2)
