"""Classification by the metric against the reference, and the laws of its state."""

from __future__ import annotations

import copy
import dataclasses
import io
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from helpers.challenges import unequal
from helpers.fake_cuda import fake_cuda

from torch_vocmetrics import (
    ClassificationAP,
    InputError,
    StateError,
    VocMetricsWarning,
    protocol_names,
    reference,
)

PROTOCOLS = [
    f"{task}/{name}" for task in ("classification", "action") for name in protocol_names(task)
]
SEEDS = range(40)


def problem(seed: int) -> tuple[torch.Tensor, torch.Tensor, list[Any]]:
    """Scores with ties, NaN and infinities, targets of every kind, ids in no order."""
    rng = np.random.default_rng(seed)
    count, classes = int(rng.integers(1, 40)), int(rng.integers(1, 4))
    scores = rng.normal(size=(count, classes))
    if seed % 2:
        scores = np.round(scores, 1)
    odd = rng.random((count, classes))
    for value, low in ((np.nan, 0.0), (-np.inf, 0.1), (np.inf, 0.15), (-0.0, 0.2), (0.0, 0.25)):
        scores[(odd >= low) & (odd < low + 0.05)] = value
    targets = rng.choice([-1, 0, 1], size=(count, classes), p=[0.5, 0.2, 0.3])
    if seed % 5 == 0:
        targets[:, 0] = rng.choice([-1, 0], size=count)
    ids: list[Any] = rng.permutation(1000)[:count].tolist()
    if seed % 3 == 1:
        ids = [f"{value:04d}" for value in ids]
    elif seed % 3 == 2:
        ids = [(f"{value // 3}", value % 3 + 1) for value in ids]
    kind = torch.float32 if seed % 4 else torch.float64
    return torch.tensor(scores).to(kind), torch.tensor(targets), ids


def metric_for(protocol: str, scores: torch.Tensor) -> ClassificationAP:
    return ClassificationAP(protocol, num_classes=scores.shape[1], target_format="signed")


@pytest.mark.parametrize("seed", SEEDS)
def test_metric_equals_reference(seed: int) -> None:
    scores, targets, ids = problem(seed)
    for protocol in PROTOCOLS:
        for image_ids in (None, ids):
            wanted = reference.evaluate_classification(
                protocol, scores, targets, image_ids=image_ids
            )
            metric = metric_for(protocol, scores)
            got = metric.update(scores, targets, image_ids).compute()
            assert not unequal(got, wanted), protocol


@pytest.mark.parametrize("seed", SEEDS)
def test_batches_merges_and_shards_change_nothing(seed: int) -> None:
    scores, targets, ids = problem(seed)
    rng = np.random.default_rng(seed)
    whole = metric_for("voc2012", scores).update(scores, targets, ids).compute()
    shards = [metric_for("voc2012", scores) for _ in range(3)]
    for row in rng.permutation(len(ids)).tolist():
        part = slice(row, row + 1)
        shards[int(rng.integers(3))].update(scores[part], targets[part], ids[part])
    merged = metric_for("voc2012", scores).merge(*shards)
    assert not unequal(merged.compute(), whole)
    reordered = copy.deepcopy(shards[2]).merge(shards[0], shards[1])
    assert not unequal(reordered.compute(), whole)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_state_travels(seed: int) -> None:
    scores, targets, ids = problem(seed)
    metric = metric_for("voc2007", scores).update(scores, targets, ids)
    wanted = metric.compute()
    stream = io.BytesIO()
    torch.save(metric.state_dict(), stream)
    stream.seek(0)
    loaded = metric_for("voc2007", scores).load_state_dict(torch.load(stream, weights_only=True))
    for other in (loaded, pickle.loads(pickle.dumps(metric)), metric.to("cpu")):
        assert not unequal(other.compute(), wanted)
    assert not metric.reset().state_dict()["updated"]


def test_the_first_copy_of_an_image_counts() -> None:
    scores, targets = torch.tensor([[0.9], [0.1]]), torch.tensor([[1], [-1]])
    metric = metric_for("voc2012", scores).update(scores, targets, [1, 2])
    wanted = metric.compute()
    metric.update(torch.tensor([[0.2], [0.1]]), targets, [1, 2])
    with pytest.warns(VocMetricsWarning, match="2 repeated images .* scores of 1 of them"):
        assert not unequal(metric.compute(), wanted)
    metric.update(scores[:1], targets[1:], [1])
    with pytest.raises(StateError, match="different targets"):
        metric.compute()


def test_images_without_ids_never_repeat() -> None:
    scores, targets = torch.tensor([[0.9], [0.1]]), torch.tensor([[1], [-1]])
    metric = metric_for("voc2012", scores).update(scores, targets).update(scores, targets)
    assert metric.compute().num_images == 4


@pytest.mark.parametrize(
    ("scores", "targets", "ids", "words"),
    [
        ([[0.1, 0.2]], [[1, 1]], None, r"scores: must have shape \[B, 1\]"),
        ([0.1], [1], None, r"scores: must have shape"),
        ([[0.1]], [[1], [1]], None, "one row per image"),
        ([[0.1]], [[2]], [8], r"targets\[0, 0\]: targets must be 1"),
        ([[0.1]], [[1.0]], None, "integers -1, 0 or 1"),
        ([[True]], [[1]], None, "must be real numbers"),
        ([[0.1]], [[1]], [1, 2], "one entry per image"),
        ([[0.1], [0.2]], [[1], [1]], [1, "a"], "of one kind"),
        ([[0.1]], [[1]], [1.5], "must be an int, a str, or an"),
        ([[0.1]], [[1]], ["a"], "of one kind in all batches, got str after int"),
        ([[0.1]], [[1]], None, "of one kind in all batches, got none after int"),
        ("text", [[1]], None, "must be a tensor of numbers"),
    ],
)
def test_wrong_input_changes_nothing(scores: Any, targets: Any, ids: Any, words: str) -> None:
    metric = ClassificationAP("voc2012", num_classes=1).update([[0.5]], [[1]], [7])
    before = metric.compute()
    with pytest.raises(InputError, match=words):
        metric.update(scores, targets, ids)
    assert not unequal(metric.compute(), before)


def test_states_of_other_rules_and_damaged_ones_are_refused() -> None:
    metric = ClassificationAP("voc2012", num_classes=1).update([[0.5]], [[1]])
    with pytest.raises(StateError, match="different protocols"):
        metric.merge(ClassificationAP("voc2007", num_classes=1))
    with pytest.raises(StateError, match="different protocols"):
        metric.merge(ClassificationAP("action/voc2012", num_classes=1))
    with pytest.raises(StateError, match="different class_names"):
        metric.load_state_dict(ClassificationAP("voc2012", num_classes=2).state_dict())
    state = metric.state_dict()
    for key, value in (("scores", state["scores"][:0]), ("targets", None), ("image_ids", [1, 2])):
        with pytest.raises(StateError, match="damaged"):
            metric.load_state_dict(state | {key: value})
    assert metric.compute().num_images == 1


def test_nothing_seen() -> None:
    metric = ClassificationAP("voc2012", num_classes=2)
    with pytest.warns(VocMetricsWarning, match="before update"):
        result = metric.compute()
    assert result.num_images == 0
    assert all(np.isnan(result.average_precision.tolist()))
    assert metric.update(torch.zeros(0, 2), torch.zeros(0, 2, dtype=torch.int64)).compute()
    assert '"mAP": null' in result.to_json()


def test_normalized_and_chance() -> None:
    """By hand: one positive second of three: R N / (R N + F) = 1 * N / (N + 1)."""
    metric = ClassificationAP("voc2012", class_names=["rare", "all"])
    scores = [[0.9, 0.9], [0.8, 0.8], [0.7, 0.7]]
    result = metric.update(scores, [[-1, 1], [1, 1], [-1, 1]]).compute()
    assert result.average_precision.tolist() == [0.5, 1.0]
    assert result.normalized_average_precision(1).tolist() == [0.5, 1.0]
    assert result.normalized_average_precision(3).tolist() == [0.75, 1.0]
    assert result.normalized_average_precision().tolist() == [2 / 3, 1.0]
    assert result.chance_average_precision.tolist() == [1 / 3, 1.0]
    with pytest.raises(InputError, match="above 0"):
        result.normalized_average_precision(0)


@pytest.mark.parametrize("seed", SEEDS)
def test_normalized_with_the_true_number_is_plain(seed: int) -> None:
    """With N the number of positives of the class, normalised precision is precision itself."""
    scores, targets, _ = problem(seed)
    for protocol in ("voc2007", "voc2012"):
        result = metric_for(protocol, scores).update(scores, targets).compute()
        for k, positives in enumerate(result.num_positives.tolist()):
            if positives:
                same = result.normalized_average_precision(positives)[k]
                assert abs(float(same) - float(result.average_precision[k])) < 1e-12


def test_update_on_a_device_waits_for_nothing() -> None:
    with fake_cuda():
        scores = torch.empty(4, 2, device="cuda")
        targets = torch.zeros(4, 2, dtype=torch.int64)
        metric = ClassificationAP("voc2012", num_classes=2)
        metric.update(scores, targets, [1, 2, 3, 4])
        metric.update(scores, torch.zeros(4, 2, dtype=torch.int64, device="cuda"), [5, 6, 7, 8])
        assert {table.scores.device.type for table, *_ in metric._accumulated.pending} == {"cuda"}


def test_a_fault_found_on_a_device_stays_until_reset() -> None:
    metric = ClassificationAP("voc2012", num_classes=1).update([[0.5]], [[1]])
    state = metric._accumulated
    metric._accumulated = dataclasses.replace(state, wrong=(torch.tensor(True),))
    for _ in range(2):
        with pytest.raises(InputError, match="earlier update: must be 1"):
            metric.compute()
    assert metric.reset().update([[0.5]], [[1]]).compute().num_images == 1
