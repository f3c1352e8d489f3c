"""Numbers under image weights are those of the data set in which images occur so often.

The judge is ``torch_vocmetrics.reference``, plain loops that are given every copy of every image.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from helpers.generator import random_coco_protocol, random_problem, random_protocol
from helpers.pedestrian_generator import random_problem as random_pedestrians
from helpers.pedestrian_generator import random_protocol as random_miss_rate_protocol
from helpers.support import Problem

from torch_vocmetrics import (
    DetectionAP,
    InputError,
    LayoutAP,
    LogAverageMissRate,
    VocMetricsWarning,
    load_protocol,
    reference,
)
from torch_vocmetrics.analysis import (
    bootstrap,
    image_statistics,
    paired_bootstrap,
    weighted_average,
)
from torch_vocmetrics.analysis.resampling import bootstrap_weights, resampling_generator

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def no_warnings_of_ours() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VocMetricsWarning)
        yield


def copies(problem: Problem, weights: list[int]) -> Problem:
    """Each image as often as its weight says, copies adjacent, images by their id."""

    def position(row: int) -> Any:
        image_id = problem.ground_truths[row].get("image_id", row)
        return image_id.item() if isinstance(image_id, torch.Tensor) else image_id

    order = sorted(range(len(weights)), key=position)
    chosen = [row for row in order for _ in range(weights[row])]
    sides = (
        [{k: v for k, v in side[row].items() if k != "image_id"} for row in chosen]
        for side in (problem.detections, problem.ground_truths)
    )
    return Problem(*sides, problem.kwargs)


def numbers_of_detection(result: Any) -> dict[str, float]:
    numbers = {key: value for key, value in result.to_dict().items() if "/" not in key}
    averaged = result.is_averaged.tolist()
    for name, value, kept in zip(
        result.class_names, result.average_precision.tolist(), averaged, strict=True
    ):
        numbers[f"AP/{name}"] = value if kept else math.nan
    return numbers


def weights_of(problem: Problem, seed: int) -> torch.Tensor:
    images = len(problem.detections)
    drawn = bootstrap_weights(images, 10, resampling_generator(seed))
    rng = np.random.default_rng(seed)
    return torch.cat([drawn, torch.tensor(rng.integers(0, 5, (2, images)), dtype=torch.int32)])


RULES = {
    "voc2007": lambda seed: load_protocol("voc2007"),
    "voc2012": lambda seed: load_protocol("voc2012"),
    "coco2017": lambda seed: load_protocol("coco2017"),
    "coco": random_coco_protocol,
    "any": random_protocol,
}


@pytest.mark.parametrize("rules", RULES)
def test_detection(rules: str) -> None:
    compared = tied = 0
    for seed in range(6 if rules == "coco2017" else 25):
        protocol = RULES[rules](seed)
        problem = random_problem(seed, protocol)
        metric = DetectionAP(protocol, **problem.kwargs)
        metric.update(problem.detections, problem.ground_truths)
        statistics = image_statistics(metric)
        weights = weights_of(problem, seed)
        values = statistics.evaluate(weights)
        for row, value in zip(weights.tolist(), values.tolist(), strict=True):
            if not sum(row):
                assert all(map(math.isnan, value))
                continue
            again = reference.evaluate(protocol, *copies(problem, row)[:2], **problem.kwargs)
            expected = numbers_of_detection(again)
            for name, threshold in (("AP50", 0.5), ("AP75", 0.75)):
                if threshold not in protocol.iou_thresholds:
                    expected.pop(name, None)
            for name, mine in zip(statistics.names, value, strict=True):
                if name in expected:
                    close = pytest.approx(expected[name], abs=1e-12, nan_ok=True)
                    assert mine == close, f"seed {seed}, weights {row}, {name}"
                    compared += 1
        for one in problem.detections:
            pairs = list(zip(one["labels"].tolist(), one["scores"].tolist(), strict=True))
            tied += len(set(pairs)) < len(pairs)
    assert compared > 500
    assert tied > 3


@pytest.mark.parametrize(("order", "expected"), [(None, 0.5 + 0.5 * 2 / 3), ([0, 1], 1.0)])
def test_copies_of_tied_detections(order: list[int] | None, expected: float) -> None:
    """A hit and an error of one score: copies of the image come as hit, error, hit, error.

    With lines of a results file the copies of a line follow one another: hit, hit, error, error.
    """
    found: dict[str, Any] = {
        "boxes": [[0.0, 0, 9, 9], [50, 50, 59, 59]],
        "scores": [0.5, 0.5],
        "labels": [0, 0],
    }
    if order is not None:
        found["order"] = order
    metric = DetectionAP("voc2012", num_classes=1)
    metric.update([found], [{"boxes": [[0.0, 0, 9, 9]], "labels": [0]}])
    values = image_statistics(metric).evaluate(torch.tensor([[1], [2]], dtype=torch.int32))
    assert values[:, 0].tolist() == pytest.approx([1.0, expected], abs=1e-12)


def test_f1_by_counting() -> None:
    protocol = load_protocol("voc2012")
    for seed in range(20):
        problem = random_problem(seed, protocol)
        metric = DetectionAP(protocol, **problem.kwargs)
        metric.update(problem.detections, problem.ground_truths)
        statistics = image_statistics(metric, score_threshold=0.25)
        weights = weights_of(problem, seed)
        values = statistics.evaluate(weights)[:, statistics.names.index("F1")]
        for row, value in zip(weights.tolist(), values.tolist(), strict=True):
            if not sum(row):
                continue
            kept = copies(problem, row)
            found = [
                {k: v[one["scores"] >= 0.25] for k, v in one.items()} for one in kept.detections
            ]
            found = [{**one, "boxes": one["boxes"].reshape(-1, 4)} for one in found]
            result = reference.evaluate(protocol, found, kept.ground_truths, **problem.kwargs)
            hits, errors = (
                int(x.sum()) for x in (result.true_positives[0], result.false_positives[0])
            )
            missed = int(result.num_positives.sum()) - hits
            total = 2 * hits + errors + missed
            expected = 2 * hits / total if total else math.nan
            assert value == pytest.approx(expected, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("part", range(4))
def test_miss_rates(part: int) -> None:
    compared = between = 0
    for seed in range(100 * part, 100 * part + 60):
        protocol = random_miss_rate_protocol(seed)
        subsets = tuple(subset._replace(images=()) for subset in protocol.subsets)
        protocol = dataclasses.replace(protocol, subsets=subsets)
        problem = random_pedestrians(seed, protocol)
        if not problem.detections:
            continue
        metric = LogAverageMissRate(protocol, **problem.kwargs)
        metric.update(problem.detections, problem.ground_truths)
        statistics = image_statistics(metric)
        assert not statistics.larger_is_better
        weights = weights_of(problem, seed)
        values = statistics.evaluate(weights)
        for row, value in zip(weights.tolist(), values.tolist(), strict=True):
            if not sum(row):
                continue
            again = reference.evaluate(protocol, *copies(problem, row)[:2], **problem.kwargs)
            expected = again.log_average_miss_rate.tolist()
            close = pytest.approx(expected, abs=1e-12, nan_ok=True)
            assert value == close, f"seed {seed}, weights {row}"
            compared += len(value)
            between += sum(0 < one < 1 for one in expected)
    assert compared > 500
    assert between > 50


def test_images_of_subsets() -> None:
    """A subset of image positions keeps its images, however often they occur."""
    protocol = load_protocol("miss_rate/caltech_acftest")
    first = protocol.subsets[0]
    halves = tuple(
        first._replace(name=name, images=images)
        for name, images in (("low", ((0, 2),)), ("high", ((2, 4),)), ("all", ()))
    )
    protocol = dataclasses.replace(protocol, subsets=halves, num_images=4)
    plain = dataclasses.replace(protocol, subsets=(first,), num_images=0)
    tried = 0
    for seed in range(200):
        problem = random_pedestrians(seed, protocol)
        if len(problem.detections) != 4:
            continue
        for row, one in enumerate(problem.ground_truths):
            one["image_id"] = row
        metric = LogAverageMissRate(protocol, **problem.kwargs)
        metric.update(problem.detections, problem.ground_truths)
        values = image_statistics(metric).evaluate(torch.tensor([[2, 1, 0, 3]], dtype=torch.int32))
        for value, row in zip(
            values[0].tolist(), ([2, 1, 0, 0], [0, 0, 0, 3], [2, 1, 0, 3]), strict=True
        ):
            again = reference.evaluate(plain, *copies(problem, row)[:2], **problem.kwargs)
            assert value == pytest.approx(again.headline, abs=1e-12, nan_ok=True)
        tried += 1
    assert tried > 5


def test_tiles_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = random_problem(3, load_protocol("coco2017"))
    metric = DetectionAP("coco2017", **problem.kwargs)
    metric.update(problem.detections, problem.ground_truths)
    whole = bootstrap(metric, num_resamples=30)
    monkeypatch.setattr(weighted_average, "TILE_BYTES", 1)
    parts = bootstrap(metric, num_resamples=30)
    assert torch.equal(whole.samples.nan_to_num(-1), parts.samples.nan_to_num(-1))
    assert torch.equal(
        bootstrap(metric, num_resamples=9).samples.nan_to_num(-1), whole.samples.nan_to_num(-1)[:9]
    )


def test_numbers_of_area_ranges_and_limits() -> None:
    problem = random_problem(8, load_protocol("coco2017"))
    metric = DetectionAP("coco2017", **problem.kwargs)
    metric.update(problem.detections, problem.ground_truths)
    result, statistics = metric.compute(), image_statistics(metric, area="small")
    ones = torch.ones((1, statistics.num_images), dtype=torch.int32)
    small = dict(zip(statistics.names, statistics.evaluate(ones)[0].tolist(), strict=True))
    assert small["AP"] == pytest.approx(result["APs"], abs=1e-12)
    assert small["AR100"] == pytest.approx(result["ARs"], abs=1e-12)
    every = bootstrap(metric, num_resamples=2)
    for name in (
        "AP",
        "AP50",
        "AP75",
        "AR1",
        "AR10",
        "AR100",
        *(f"AP/{k}" for k in metric.class_names),
    ):
        assert every[name].estimate == pytest.approx(result[name], abs=1e-12, nan_ok=True)
    with pytest.raises(InputError, match="area: must be one of all, small"):
        image_statistics(metric, area="tiny")


def test_two_detectors_of_the_same_images() -> None:
    protocol = load_protocol("voc2012")
    problem = random_problem(11, protocol)
    better = DetectionAP(protocol, **problem.kwargs)
    perfect = [
        {"boxes": one["boxes"], "scores": torch.ones(len(one["labels"])), "labels": one["labels"]}
        for one in problem.ground_truths
    ]
    better.update(perfect, problem.ground_truths)
    worse = DetectionAP(protocol, **problem.kwargs)
    worse.update(problem.detections, problem.ground_truths)
    result = paired_bootstrap(better, worse, num_resamples=50)
    assert result.difference[0].item() == pytest.approx(
        better.compute().headline - worse.compute().headline
    )


def test_nothing_is_made_on_the_default_device() -> None:
    """With the meta device as default, whatever is made without a device has no values."""
    problem = random_problem(5, load_protocol("coco2017"))
    numbers = []
    for default in ("cpu", "meta"):
        metric = DetectionAP("coco2017", **problem.kwargs)
        metric.update(problem.detections, problem.ground_truths)
        pedestrians = random_pedestrians(7, load_protocol("miss_rate/caltech_acftest"))
        rates = LogAverageMissRate("caltech_acftest", **pedestrians.kwargs)
        rates.update(pedestrians.detections, pedestrians.ground_truths)
        records, of_rates = metric.records(), rates.records()
        with torch.device(default):
            statistics = image_statistics(records, score_threshold=0.2)
            found = [
                bootstrap(one, num_resamples=4, method="bca") for one in (statistics, of_rates)
            ]
            numbers.append(
                [value for one in found for value in (one.samples, one.lower, one.upper)]
            )
    for mine, theirs in zip(*numbers, strict=True):
        assert torch.equal(mine.nan_to_num(-1), theirs.nan_to_num(-1))


@pytest.mark.parametrize("rules", [{"class_agnostic": True}, {"max_detections": [1, 5]}])
def test_rules_of_ones_own(rules: dict[str, Any]) -> None:
    for seed in range(6):
        problem = random_problem(seed, load_protocol("coco2017"))
        metric: Any = DetectionAP("coco2017", **rules, **problem.kwargs)
        metric.update(problem.detections, problem.ground_truths)
        found = bootstrap(metric, num_resamples=1)["AP"].estimate
        assert found == pytest.approx(metric.compute().headline, abs=1e-12, nan_ok=True)


def test_layouts_have_no_images_to_resample() -> None:
    parts = {"part_boxes": [[30, 1, 60, 40]], "part_labels": [0], "part_counts": [1]}
    layout, person = parts | {"object_index": [1], "scores": [0.9]}, parts | {"object_index": [1]}
    metric = LayoutAP("voc2012").update([layout], [person])
    with pytest.raises(InputError, match="must be of detection, pedestrians or segmentation"):
        bootstrap(metric)
