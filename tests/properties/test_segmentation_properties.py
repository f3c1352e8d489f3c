"""Segmentation: fast path = reference on random label maps, to the last bit; and laws that hold."""

from __future__ import annotations

import itertools
import math
import os
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from helpers.support import differences

from torch_vocmetrics import InputError, MeanIoU, StateError, VocMetricsWarning, reference
from torch_vocmetrics.metrics import segmentation
from torch_vocmetrics.ops import confusion
from torch_vocmetrics.protocols import load_protocol, protocol_names

FUZZ = int(os.environ.get("VOCMETRICS_FUZZ", "0"))
CASES = FUZZ or 150
DTYPES = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16]


def random_maps(seed: int, protocol: Any) -> tuple[list[Any], list[Any], dict[str, Any]]:
    """Images of different sizes, labels of any integer type, void and absent classes."""
    rng = np.random.default_rng([seed, 21])
    K = int(rng.integers(1, 7))
    names = [f"class {k}" for k in range(K)]
    ids = rng.choice(120, K, replace=False).tolist()
    ids = [one for one in ids if one not in protocol.void_labels] or [40]
    kwargs: dict[str, Any] = {"class_names": names[: len(ids)], "label_ids": ids}
    if protocol.dataset == "cityscapes" and rng.random() < 0.5:
        kwargs, ids = {}, list(MeanIoU(protocol).label_ids)
    pool = ids[: int(rng.integers(1, len(ids) + 1))] if rng.random() < 0.3 else ids
    void = list(protocol.void_labels)
    found, true = [], []
    for _ in range(int(rng.integers(1, 6))):
        size = tuple(int(side) for side in rng.integers(0 if rng.random() < 0.1 else 1, 12, 2))
        truth = rng.choice(pool, size)
        truth = np.where(rng.random(size) < 0.2, rng.choice(void, size), truth)
        other = rng.choice(ids, size)
        if protocol.void_predictions == "miss":
            other = np.where(rng.random(size) < 0.1, rng.choice(void, size), other)
        same = (rng.random(size) < 0.6) & np.isin(truth, ids)
        found.append(np.where(same, truth, other))
        true.append(truth)
    top = max(ids + void)
    fitting = [one for one in DTYPES if torch.iinfo(one).max >= top]
    types = [fitting[int(rng.integers(len(fitting)))] for _ in range(2)]
    return (
        [torch.from_numpy(one.astype(np.int64)).to(types[0]) for one in found],
        [torch.from_numpy(one.astype(np.int64)).to(types[1]) for one in true],
        kwargs,
    )


@pytest.mark.parametrize("name", protocol_names("segmentation"))
def test_metric_is_reference(name: str) -> None:
    protocol = load_protocol(f"segmentation/{name}")
    for seed in range(CASES):
        found, true, kwargs = random_maps(seed, protocol)
        fast = MeanIoU(protocol, **kwargs).update(found, true).compute()
        plain = reference.evaluate_segmentation(
            protocol, [one.tolist() for one in found], [one.tolist() for one in true], **kwargs
        )
        assert not differences(fast, plain), f"seed {seed}"
    if FUZZ:
        print(f"\n{CASES} cases compared: metric = reference, {name}")


def test_counting_by_bytes_is_counting_by_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """The way of devices, in pieces of a few pixels, gives what the way of the host gives."""
    protocol = load_protocol("segmentation/cityscapes")
    for seed in range(CASES):
        found, true, kwargs = random_maps(seed, protocol)
        whole = MeanIoU(protocol, **kwargs).update(found, true).compute()
        with monkeypatch.context() as patch:
            patch.setattr(confusion, "as_bytes", lambda labels: None)
            patch.setattr(confusion, "PIXELS_AT_ONCE", 7)
            other = MeanIoU(protocol, **kwargs).update(found, true).compute()
        assert not differences(whole, other), f"seed {seed}"


def test_splits_merges_duplicates_and_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(CASES):
        protocol = load_protocol("segmentation/voc2012")
        found, true, kwargs = random_maps(seed, protocol)
        rng = np.random.default_rng([seed, 22])
        ids = rng.choice(99, len(found), replace=False).tolist()
        whole = MeanIoU(protocol, **kwargs).update(found, true).compute()
        cuts = [0, int(rng.integers(0, len(found) + 1)), len(found)]
        parts = [slice(a, b) for a, b in itertools.pairwise(cuts)]
        with monkeypatch.context() as patch:
            patch.setattr(segmentation, "CHUNK_CELLS", int(rng.integers(1, 100)))
            split = MeanIoU(protocol, **kwargs)
            pieces = []
            for part in parts:
                split.update(found[part], true[part], ids[part])
                pieces.append(MeanIoU(protocol, **kwargs))
                pieces[-1].update(found[part], true[part], ids[part])
            merged = pieces[1].merge(pieces[0])
            loaded = MeanIoU(protocol, **kwargs).load_state_dict(merged.state_dict())
            for metric in (split, merged, loaded):
                assert not differences(whole, metric.compute()), f"seed {seed}"
            with pytest.warns(VocMetricsWarning, match=f"{len(found)} repeated images"):
                again = split.update(found, true, ids).compute()
            assert not differences(whole, again), f"seed {seed}"


def test_logits_are_their_largest_channel() -> None:
    for seed in range(max(CASES // 3, 20)):
        rng = np.random.default_rng([seed, 23])
        K = int(rng.integers(1, 6))
        size = (int(rng.integers(1, 4)), 5, 7)
        logits = torch.from_numpy(rng.integers(-2, 3, (size[0], K, *size[1:]))).float()
        true = torch.from_numpy(rng.choice([*range(K), 255], size))
        labels = torch.from_numpy(logits.numpy().argmax(1))  # the first among equals
        wanted = MeanIoU("voc2012", num_classes=K).update(labels, true).compute()
        for kind in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
            got = MeanIoU("voc2012", num_classes=K).update(logits.to(kind), true).compute()
            assert not differences(wanted, got), f"seed {seed}, {kind}"
        listed = MeanIoU("voc2012", num_classes=K).update(list(logits), list(true)).compute()
        assert not differences(wanted, listed)


def test_measures_are_what_their_names_say() -> None:
    for seed in range(CASES):
        protocol = load_protocol("segmentation/voc2012")
        found, true, kwargs = random_maps(seed, protocol)
        result = MeanIoU(protocol, **kwargs).update(found, true).compute()
        shown = result.to_dict()
        flat = torch.cat([one.flatten().long() for one in true])
        guess = torch.cat([one.flatten().long() for one in found])
        counted = flat != 255
        total = int(counted.sum())
        hits = int((flat == guess)[counted].sum())
        assert (
            math.isnan(shown["pixel_accuracy"])
            if not total
            else (shown["pixel_accuracy"] == hits / total)
        )
        for k, label in enumerate(kwargs["label_ids"]):
            here, said = (flat == label) & counted, (guess == label) & counted
            both, either = int((here & said).sum()), int((here | said).sum())
            value = float(result.iou[k])
            assert math.isnan(value) if not either else value == both / either


# What cannot be -----------------------------------------------------------------------------------

BAD: dict[str, tuple[Any, Any, str]] = {
    "label above": (torch.tensor([[[0, 2]]]), torch.zeros(1, 1, 2).long(), "column 1.*got 2"),
    "void predicted": (torch.tensor([[[255, 0]]]), torch.zeros(1, 1, 2).long(), "got 255"),
    "void predicted under void": (torch.tensor([[[255]]]), torch.tensor([[[255]]]), "got 255"),
    "negative": (torch.tensor([[[-1, 0]]]), torch.zeros(1, 1, 2).long(), "prediction 0.*got -1"),
    "truth": (torch.zeros(2, 1, 2).long(), torch.tensor([[[0, 1]], [[254, 0]]]), "target 1.*254"),
    "beyond a byte": (torch.tensor([[[256]]]), torch.tensor([[[0]]]), "got 256"),
    "size": (torch.zeros(1, 2, 3).long(), torch.zeros(1, 3, 2).long(), "differ in size"),
    "sizes in a list": ([torch.zeros(2, 3).long()], [torch.zeros(3, 2).long()], "differ in size"),
    "batch": (torch.zeros(2, 2, 3).long(), torch.zeros(1, 2, 3).long(), "differ in size"),
    "channels": (torch.zeros(1, 3, 2, 3), torch.zeros(1, 2, 3).long(), "each of the 2 classes"),
    "float labels": (torch.zeros(1, 2, 3), torch.zeros(1, 2, 3).long(), "needs a threshold"),
    "float truth": (torch.zeros(1, 2, 3).long(), torch.zeros(1, 2, 3), "integer labels"),
    "no batch": (torch.zeros(2, 3).long(), torch.zeros(2, 3).long(), "integer labels"),
    "NaN": (torch.tensor([[[[math.nan]], [[1.0]]]]), torch.zeros(1, 1, 1).long(), "NaN"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_is_an_error_and_leaves_the_state(name: str) -> None:
    predictions, targets, words = BAD[name]
    metric = MeanIoU("voc2012", num_classes=2)
    good = torch.tensor([[[0, 1]]]), torch.tensor([[[0, 255]]])
    metric.update(*good)
    before = metric.compute()
    with pytest.raises(InputError, match=words):
        metric.update(predictions, targets)
    assert not differences(before, metric.compute())


def test_ids_and_rules_must_agree() -> None:
    maps = torch.zeros(2, 1, 1).long(), torch.zeros(2, 1, 1).long()
    metric = MeanIoU("voc2012", num_classes=2).update(*maps, ["a", "b"])
    for ids in (None, [1, 2], ["a"], [True, False]):
        with pytest.raises(InputError):
            metric.update(*maps, ids)
    other = torch.ones(1, 1, 1).long()
    metric.update(other, other, ["a"])
    with pytest.raises(StateError, match="different ground truth"):
        metric.compute()
    with pytest.raises(StateError, match="different protocol"):
        metric.merge(MeanIoU("voc2007", num_classes=2))
    with pytest.raises(StateError, match="class_names"):
        metric.load_state_dict(MeanIoU("voc2012", num_classes=3).state_dict())
    damaged = MeanIoU("voc2012", num_classes=2).update(*maps).state_dict()
    damaged["counts"]["cell"] = damaged["counts"]["cell"] + 6
    with pytest.raises(StateError, match="damaged"):
        metric.load_state_dict(damaged)


@pytest.mark.parametrize(
    "kwargs",
    [
        {"num_classes": 2, "label_ids": [1]},
        {"label_ids": [1, 1]},
        {"label_ids": [0, 255]},
        {"label_ids": [0, 2**40]},
        {"class_names": "cat"},
        {"num_classes": 0},
    ],
)
def test_classes_that_cannot_be(kwargs: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        MeanIoU("voc2012", **kwargs)


def test_before_update() -> None:
    metric = MeanIoU("voc2007")
    with pytest.warns(VocMetricsWarning, match="before update"):
        result = metric.compute()
    assert math.isnan(result.headline)
    assert result.num_images == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        empty = torch.zeros(0, 4, 4).long()
        assert metric.update(empty, empty).compute().num_images == 0
