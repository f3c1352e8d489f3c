"""Layouts by the metric against the reference, and the laws of its state."""

from __future__ import annotations

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
    InputError,
    LayoutAP,
    StateError,
    VocMetricsWarning,
    load_protocol,
    protocol_names,
    reference,
)
from torch_vocmetrics.inputs.layouts import pack_layouts

PROTOCOLS = protocol_names("layout")
SEEDS = range(60)
SAME_BOX_SHARE, EXACT_SHARE = 0.3, 0.3


def boxes(rng: np.random.Generator, count: int) -> np.ndarray:
    corner = rng.integers(1, 40, size=(count, 2))
    return np.concatenate([corner, corner + rng.integers(-1, 30, size=(count, 2))], axis=1).astype(
        float
    )


def perturbed(rng: np.random.Generator, true: np.ndarray) -> np.ndarray:
    shifts = rng.integers(-4, 5, size=true.shape) * (rng.random((len(true), 1)) > EXACT_SHARE)
    return true + shifts


def labels_of(rng: np.random.Generator) -> list[int]:
    """Parts of a person: none, exactly one, many of one type, in any order."""
    count = int(rng.choice([0, 1, 1, 2, 3, 5, 7], p=[0.08, 0.1, 0.1, 0.2, 0.22, 0.2, 0.1]))
    return rng.integers(0, 3, size=count).tolist()


def a_person(rng: np.random.Generator) -> dict[str, Any]:
    labels = labels_of(rng)
    parts = boxes(rng, len(labels))
    if len(parts) > 1 and rng.random() < SAME_BOX_SHARE:
        parts[:] = parts[0]
    return {"box": boxes(rng, 1)[0], "difficult": bool(rng.random() < 0.2), "labels": labels,
            "parts": parts}  # fmt: skip


def an_estimate(rng: np.random.Generator, one: dict[str, Any]) -> dict[str, Any]:
    labels, parts = list(one["labels"]), perturbed(rng, one["parts"])
    order = rng.permutation(len(labels))
    if labels and rng.random() < 0.2:
        order = order[:-1]
    labels = [labels[i] for i in order]
    if labels and rng.random() < 0.2:
        labels[0] = int(rng.integers(0, 3))
    return {"box": perturbed(rng, one["box"][None])[0], "labels": labels, "parts": parts[order]}


def side(rows: list[dict[str, Any]], rules: Any, index: list[int]) -> dict[str, Any]:
    columns: dict[str, Any] = {
        "part_boxes": torch.tensor(
            np.concatenate([r["parts"] for r in rows] or [np.zeros((0, 4))])
        ),
        "part_labels": torch.tensor([label for r in rows for label in r["labels"]]).long(),
        "part_counts": torch.tensor([len(r["labels"]) for r in rows]).long(),
    }
    if rules.persons == "detected":
        columns["boxes"] = torch.tensor(np.array([r["box"] for r in rows]).reshape(-1, 4))
    else:
        columns["object_index"] = torch.tensor(index).long()
    return columns


def problem(seed: int, rules: Any) -> tuple[list[Any], list[Any]]:
    """Images with and without persons; several layouts of a person, and some of no one."""
    rng = np.random.default_rng(seed)
    layouts, persons, place = [], [], 0
    ids = rng.permutation(100).tolist()
    for image in range(int(rng.integers(1, 7))):
        people = [a_person(rng) for _ in range(int(rng.integers(0, 4)))]
        index = (rng.permutation(6)[: len(people)] + 1).tolist()
        chosen = rng.integers(0, len(people) + 1, size=int(rng.integers(0, 7))).tolist()
        estimates, about = [], []
        for who in chosen:
            person = people[who] if who < len(people) else a_person(rng)
            estimate = an_estimate(rng, person)
            if not person["labels"] and rules.both_without_parts == "error":
                estimate["labels"], estimate["parts"] = [0], boxes(rng, 1)
            elif not estimate["labels"] and rules.both_without_parts == "error":
                continue  # another part-less person might be meant
            estimates.append(estimate)
            about.append(index[who] if who < len(people) else int(rng.choice([99, 1])))
        scores = np.round(rng.random(len(estimates)), 1 if seed % 2 else 6)
        layout = side(estimates, rules, about)
        layout["scores"] = torch.tensor(scores, dtype=torch.float64 if seed % 3 else torch.float32)
        if seed % 4 < 2:
            layout["order"] = torch.arange(place, place + len(estimates))
            place += len(estimates)
        person = side(people, rules, index)
        person["difficult"] = torch.tensor([one["difficult"] for one in people], dtype=torch.bool)
        layouts.append(layout)
        persons.append(person | {"image_id": ids[image]})
    if seed % 4 == 0:  # places in the file that follow neither images nor rows
        shuffled = torch.from_numpy(rng.permutation(place))
        for layout in layouts:
            layout["order"] = shuffled[layout["order"]]
    return layouts, persons


@pytest.mark.parametrize("seed", SEEDS)
def test_metric_equals_reference(seed: int) -> None:
    for name in PROTOCOLS:
        rules = load_protocol(f"layout/{name}")
        inputs = problem(seed, rules)
        wanted = reference.evaluate_layout(rules, *inputs)
        got = LayoutAP(rules).update(*inputs).compute()
        assert not unequal(got, wanted), name


def test_the_fuzz_meets_every_outcome() -> None:
    """Otherwise it would show nothing: right, wrong and skipped rows for every set of rules."""
    for name in PROTOCOLS:
        rules = load_protocol(f"layout/{name}")
        results = [LayoutAP(rules).update(*problem(seed, rules)).compute() for seed in SEEDS]
        assert sum(int(r.true_positives.sum()) for r in results) > 20, name
        assert sum(int(r.false_positives.sum()) for r in results) > 20, name
        assert rules.persons == "detected" or sum(r.num_skipped for r in results) > 20, name


def packed(images: list[Any]) -> dict[str, Any]:
    columns = {k: torch.cat([one[k] for one in images]) for k in images[0] if k != "image_id"}
    if "image_id" in images[0]:
        columns["image_id"] = [one["image_id"] for one in images]
    columns["counts"] = [len(one["part_counts"]) for one in images]
    return columns


@pytest.mark.parametrize("seed", SEEDS)
def test_batches_forms_merges_and_copies_change_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for name in ("voc2007", "voc2008", "voc2009", "voc2012"):
        rules = load_protocol(f"layout/{name}")
        layouts, persons = problem(seed, rules)
        wanted = LayoutAP(rules).update(layouts, persons).compute()
        assert not unequal(
            LayoutAP(rules).update(packed(layouts), packed(persons)).compute(), wanted
        )
        shards = [LayoutAP(rules) for _ in range(3)]
        for i in rng.permutation(len(layouts)).tolist():
            shards[int(rng.integers(3))].update([layouts[i]], [persons[i]])
        merged = LayoutAP(rules).merge(*shards)
        assert not unequal(merged.compute(), wanted)
        stream = io.BytesIO()
        torch.save(merged.state_dict(), stream)
        stream.seek(0)
        loaded = LayoutAP(rules).load_state_dict(torch.load(stream, weights_only=True))
        assert not unequal(loaded.compute(), wanted)
        assert not unequal(pickle.loads(pickle.dumps(merged)).to("cpu").compute(), wanted)


def one_person(**changes: Any) -> dict[str, Any]:
    parts = {"part_boxes": [[1.0, 1, 9, 9], [20, 20, 29, 29]], "part_labels": [0, 1]}
    return parts | {"part_counts": [2], "object_index": [1]} | changes


def test_the_first_copy_of_an_image_counts() -> None:
    layout, person = one_person(scores=[0.5]), one_person(image_id=3)
    metric = LayoutAP("voc2009").update([layout], [person])
    wanted = metric.compute()
    metric.update([one_person(scores=[0.7])], [person])
    with pytest.warns(VocMetricsWarning, match="1 repeated images"):
        assert not unequal(metric.compute(), wanted)
    metric.update(
        [layout], [one_person(image_id=3, part_boxes=[[1.0, 1, 99, 99], [20, 20, 29, 29]])]
    )
    with pytest.raises(StateError, match="different ground truth"):
        metric.compute()


@pytest.mark.parametrize(
    ("layout", "person", "words"),
    [
        ({"scores": [float("nan")]}, {}, "layout 0 .*, row 0: the score is NaN"),
        ({"scores": [0.1, 0.2]}, {}, "layout 0, key 'scores': must have one entry per box"),
        ({"part_labels": [0, 3]}, {}, "parts of layout 0 .*, row 1: the label is unknown, got 3"),
        ({"part_counts": [3]}, {}, "layout 0: part_counts must be whole numbers .* add up"),
        ({"part_counts": [1.5]}, {}, "must be integers"),
        ({"part_boxes": [[1, 2, 3]]}, {}, "shape"),
        ({"part_boxes": [[1, 2, 3, float("inf")], [1, 2, 3, 4]]}, {}, "box is not finite"),
        ({}, {"part_labels": [0]}, "must have one entry per box"),
        ({}, {"part_labels": [-1, 0]}, "parts of person 0 .*, row 0: the label is unknown"),
        ({}, {"object_index": [1, 1], "part_counts": [1, 1]}, "a person comes twice, got 1"),
        ({}, {"image_id": 1.5}, "int or a str"),
        ({}, {"image_id": "a"}, "of one kind in all batches"),
        ({"order": [1]}, {}, "order': must be given in all batches or in none"),
    ],
)
def test_wrong_input_changes_nothing(layout: Any, person: Any, words: str) -> None:
    metric = LayoutAP("voc2012").update([one_person(scores=[0.5])], [one_person(image_id=1)])
    before = metric.compute()
    with pytest.raises(InputError, match=words):
        metric.update([one_person(scores=[0.9]) | layout], [one_person(image_id=2) | person])
    assert not unequal(metric.compute(), before)


def test_missing_and_misspelt_keys() -> None:
    layout, person = one_person(scores=[0.5]), one_person()
    metric = LayoutAP("voc2012")
    for key in ("object_index", "scores", "part_boxes", "part_labels", "part_counts"):
        broken = {name: value for name, value in layout.items() if name != key}
        with pytest.raises(InputError, match=f"layout 0: key '{key}' is missing"):
            metric.update([broken], [person])
    with pytest.raises(InputError, match="key 'boxes' is missing"):
        LayoutAP("voc2007").update([layout], [person])
    with pytest.raises(InputError, match="one entry per image"):
        metric.update([layout], [])
    with pytest.raises(InputError, match="must be a list"):
        metric.update(7, [person])
    with pytest.raises(InputError, match="must be a dict"):
        metric.update([1], [person])


@pytest.mark.parametrize("name", ["voc2007", "voc2008"])
def test_the_official_stop_leaves_the_state(name: str) -> None:
    empty = {"part_boxes": [], "part_labels": [], "part_counts": [0]}
    empty |= {"object_index": [1], "boxes": [[1.0, 1, 50, 50]]}
    metric = LayoutAP(name)
    with pytest.raises(InputError, match="layout 0, row 0: a layout without parts"):
        metric.update([empty | {"scores": [0.5]}], [empty])
    with pytest.warns(VocMetricsWarning, match="before update"):
        assert metric.compute().num_images == 0


def test_no_images_and_no_layouts() -> None:
    none = {"part_boxes": [], "part_labels": [], "part_counts": [], "object_index": []}
    for name in ("voc2008", "voc2012"):
        assert LayoutAP(name).update([], []).compute().num_images == 0
        result = LayoutAP(name).update([none | {"scores": []}], [one_person()]).compute()
        assert result.headline == 0.0
        assert int(result.num_positives.sum()) == (1 if name == "voc2008" else 2)


def test_update_on_a_device_waits_for_nothing() -> None:
    def empty(images: list[Any], device: str) -> list[Any]:
        return [
            {
                key: torch.empty(value.shape, dtype=value.dtype, device=device)
                for key, value in one.items()
                if key != "image_id"
            }
            for one in images
        ]

    for name in ("voc2007", "voc2012"):
        rules = load_protocol(f"layout/{name}")
        layouts, persons = problem(3, rules)
        with fake_cuda():
            there = empty(layouts, "cuda")
            metric = LayoutAP(rules).update(there, empty(persons, "cpu"))
            metric.update(packed(there), packed(empty(persons, "cuda")))
            assert metric._accumulated.device is not None
            assert metric._accumulated.device.type == "cuda"


def leave_pending(metric: LayoutAP, batch: Any) -> None:
    """As ``update`` leaves a batch on a device."""
    state = metric._accumulated
    metric._accumulated = dataclasses.replace(state, pending=(*state.pending, batch))


@pytest.mark.parametrize("seed", range(10))
def test_what_waits_on_a_device_is_checked_and_matched_later(seed: int) -> None:
    rules = load_protocol("layout/voc2008")
    layouts, persons = problem(seed, rules)
    wanted = LayoutAP(rules).update(layouts, persons).compute()
    metric = LayoutAP(rules).update([], [])
    for layout, person in zip(layouts, persons, strict=True):
        leave_pending(metric, pack_layouts([layout], [person], rules, None))
    assert not unequal(metric.compute(), wanted)
    wrong = one_person(scores=[float("nan")])
    person = one_person(image_id=5)
    leave_pending(metric, pack_layouts([wrong], [person], rules, None))
    for _ in range(2):
        with pytest.raises(InputError, match=f"layout {len(layouts)} .*score is NaN"):
            metric.compute()
    metric.reset().update(layouts, persons)
    assert not unequal(metric.compute(), wanted)
