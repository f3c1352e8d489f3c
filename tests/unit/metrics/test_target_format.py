"""What targets of classification mean: signed, multi-hot, or bool."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.fake_cuda import fake_cuda

from torch_vocmetrics import ClassificationAP, InputError, Metric

SCORES = [[0.9, 0.2], [0.8, 0.7], [0.1, 0.6]]
SIGNED = [[1, -1], [-1, 1], [1, -1]]
PRESENT = [[1, 0], [0, 1], [1, 0]]
# By hand: cat is found at ranks 1 and 3, so (1 + 2/3) / 2; dog at rank 1.
RIGHT = {"mAP": (5 / 6 + 1) / 2, "AP/0": 5 / 6, "AP/1": 1.0}


def new(target_format: str = "auto", **classes: Any) -> Any:
    classes = classes or {"num_classes": 2}
    return ClassificationAP("voc2012", target_format=target_format, **classes)


def numbers(metric: Any) -> Any:
    return pytest.approx(metric.compute().to_dict())


@pytest.mark.parametrize(
    ("target_format", "targets"),
    [
        ("auto", torch.tensor(PRESENT).bool()),
        ("signed", torch.tensor(PRESENT).bool()),
        ("multi_hot", torch.tensor(PRESENT).bool()),
        ("auto", np.array(PRESENT, dtype=bool)),
        ("auto", [[True, False], [False, True], [True, False]]),
        ("multi_hot", torch.tensor(PRESENT)),
        ("multi_hot", torch.tensor(PRESENT).to(torch.uint8)),
        ("multi_hot", torch.tensor(PRESENT).float()),
        ("multi_hot", torch.tensor(PRESENT).half()),
        ("auto", SIGNED),
        ("signed", torch.tensor(SIGNED).to(torch.int8)),
    ],
)
def test_present_and_absent_in_every_form(target_format: str, targets: Any) -> None:
    assert numbers(new(target_format).update(SCORES, targets)) == RIGHT


def test_multi_hot_targets_are_refused_where_nothing_says_so() -> None:
    metric = new(class_names=["cat", "dog"]).update(SCORES, PRESENT)
    sentence = r"class 'cat': targets are 1 and 0 without .*target_format=\"multi_hot\" or bool"
    for _ in range(2):
        with pytest.raises(InputError, match=sentence):
            metric.compute()
    assert metric.state_dict()["num_images"] == 3
    # A class that has negatives somewhere is signed, and so is a class without positives.
    metric.update([[0.5, 0.5]], [[-1, 0]])
    with pytest.raises(InputError, match="class 'dog'"):
        metric.compute()
    metric.update([[0.5, 0.5]], [[0, -1]])
    assert metric.compute().num_negatives.tolist() == [1, 1]


@pytest.mark.parametrize("targets", [[[1], [1]], [[0], [0]], [[-1], [0]], [[1], [-1]]])
def test_other_integers_are_taken(targets: Any) -> None:
    result = new(num_classes=1).update([[0.2], [0.1]], targets).compute()
    assert result.num_positives.tolist() == [targets.count([1])]


def test_signed_targets_may_have_no_negatives() -> None:
    result = new("signed", num_classes=1).update([[0.2], [0.1]], [[1], [0]]).compute()
    assert result.num_negatives.tolist() == [0]
    assert result.headline == 1.0


@pytest.mark.parametrize(
    ("target_format", "targets", "sentence"),
    [
        ("auto", [[0.5]], 'bool, or integers -1, 0 or 1, got torch.float64; give .*"multi_hot"'),
        ("signed", [[1.0]], 'must be bool, or integers .*give target_format="multi_hot"'),
        ("auto", [[2]], r"targets\[0, 0\]: targets must be 1 \(present\), -1 \(absent\)"),
        ("auto", [[-(2**63)]], r"targets must be .* got -9223372036854775808"),
        ("multi_hot", [[-1]], r"must be 1 \(present\) or 0 \(absent\), got -1; give .*signed"),
        ("multi_hot", [[0.5]], r"must be 1 \(present\) or 0 \(absent\), got 0.5"),
        ("multi_hot", [[float("nan")]], "must be 1 .* got nan"),
        ("auto", torch.tensor([[255]], dtype=torch.uint8), "must be .* got 255"),
    ],
)
def test_other_targets_are_refused_and_lose_nothing(
    target_format: str, targets: Any, sentence: str
) -> None:
    metric = new(target_format, num_classes=1).update([[0.5]], [[True]])
    with pytest.raises(InputError, match=sentence):
        metric.update([[0.5]], targets)
    assert metric.compute().num_images == 1


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(InputError, match="target_format: must be one of auto, signed, multi_hot"):
        new("multihot")


def test_states_remember_what_was_ambiguous(tmp_path: Path) -> None:
    path = str(tmp_path / "state.npz")
    new().update(SCORES, PRESENT).save_state(path)
    with pytest.raises(InputError, match="without a single -1"):
        Metric.from_states(path).compute()
    with pytest.raises(InputError, match="without a single -1"):
        new("signed").merge(new().update(SCORES, PRESENT)).compute()
    new("signed").update(SCORES, [[1, 0], [0, 1], [1, 0]]).save_state(path)
    assert Metric.from_states(path).compute().num_images == 3


def test_targets_are_copied() -> None:
    for dtype, target_format in ((torch.int8, "signed"), (torch.bool, "auto")):
        targets = torch.tensor(SIGNED).clamp(min=0).to(dtype)
        metric = new(target_format).update(SCORES, targets)
        wanted = metric.compute().to_dict()
        targets.fill_(1)
        assert str(metric.compute().to_dict()) == str(wanted)


def test_no_format_waits_for_a_device() -> None:
    with fake_cuda():
        for target_format in ("auto", "signed", "multi_hot"):
            for dtype in (torch.bool, torch.int64):
                targets = torch.zeros(3, 2, dtype=dtype, device="cuda")
                metric = new(target_format).update(torch.zeros(3, 2, device="cuda"), targets)
                assert len(metric._accumulated.pending) == 1
