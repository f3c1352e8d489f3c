"""States that hold together in form, in which a column says what no ``update`` can have said."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from distributed.registry import SUBJECTS, images
from torch import Tensor

from torch_vocmetrics import DetectionAP, Metric, StateError
from torch_vocmetrics.states.files import sealed
from torch_vocmetrics.states.plain import flatten, from_bytes, restore, to_bytes
from torch_vocmetrics.testing import differences, rebatched

Change = Callable[[Tensor], Any]


def updated(name: str) -> Metric:
    metric = SUBJECTS[name].new()
    for batch in rebatched(images(SUBJECTS[name], 8, ids=True), 4):
        metric.update(*batch)
    return metric


def at(row: Any, value: Any) -> Change:
    """Another value in one entry."""

    def change(column: Tensor) -> Tensor:
        column = column.clone()
        column[row] = value
        return column

    return change


def shorter(column: Tensor) -> Tensor:
    return column[:-1]


def deeper(column: Tensor) -> Tensor:
    return column.unsqueeze(-1)


def backwards(column: Tensor) -> Tensor:
    return column.flip(0)


def as_(dtype: torch.dtype) -> Change:
    return lambda column: column.to(dtype)


def same_for_all(value: int) -> Change:
    return lambda column: torch.full_like(column, value)


RECORDS: list[tuple[str, Change, str]] = [
    *((name, change, "shape|differ|length|beside|add up|ids for|fit|column") for name in (
        "image_sizes", "ground_truth_image", "ground_truth_label", "ground_truth_area",
        "ground_truth_counted", "class_counts", "image", "score", "out_of_range",
        "match_detection", "match_ground_truth", "match_overlap", "match_true_positive",
        "match_ignored",
    ) for change in (
        shorter, deeper, as_(torch.float16), as_(torch.int16), lambda column: column.tolist(),
        lambda column: None, lambda column: column.to("meta"), lambda column: column.to_sparse(),
    )),
    ("image_sizes", at((0, 0), -2), "goes from -2"),
    ("image_sizes", at((0, 0), 5), "a height without a width"),
    ("ground_truth_image", at(0, -1), "goes from -1"),
    ("ground_truth_image", at(-1, 8), "to 8"),
    ("ground_truth_image", backwards, "objects are not ordered"),
    ("ground_truth_label", at(0, 2), "to 2"),
    ("ground_truth_area", at(0, torch.nan), "nan"),
    ("ground_truth_counted", at((0, 0), -1), "bits that stand for nothing"),
    ("ground_truth_counted", at((0, 0), 2), "bits that stand for nothing"),
    ("ground_truth_counted", same_for_all(0), "a ground truth that does not count"),
    ("class_counts", at(0, -1), "goes from -1"),
    ("class_counts", at(0, 2**63 - 1), "to 9223372036854775807"),
    ("class_counts", lambda column: column + torch.tensor([0, 1]), "does not add up"),
    ("class_counts", backwards, "not ordered by class and image"),
    ("image", at(0, -1), "goes from -1"),
    ("image", at(0, 8), "to 8"),
    ("image", backwards, "not ordered by class and image"),
    ("score", at(0, torch.nan), "nan"),
    ("score", lambda column: -column, "do not fall"),
    ("score", as_(torch.int64), "must not be torch.int64"),
    ("out_of_range", at((0, 0), 2), "bits that stand for nothing"),
    ("match_detection", at(0, -1), "goes from -1"),
    ("match_detection", at(-1, 10**6), "to 1000000"),
    ("match_detection", backwards, "not ordered by detection and ground truth"),
    ("match_ground_truth", at(0, -1), "goes from -1"),
    ("match_ground_truth", at(-1, 10**6), "to 1000000"),
    ("match_ground_truth", backwards, "of another (image|class)"),
    ("match_overlap", at(0, -1.0), "goes from -1"),
    ("match_overlap", at(0, torch.nan), "nan"),
    ("match_true_positive", at((0, 0), 2), "bits that stand for nothing"),
    ("match_true_positive", same_for_all(0), "a match is in no lane"),
    ("ground_truth_label", lambda column: 1 - column, "of another class"),
    ("match_ignored", at((0, 0), -1), "bits that stand for nothing"),
    ("match_ignored", same_for_all(1), "both a true positive and ignored"),
    ("order", lambda column: torch.zeros(3, dtype=torch.int64), "column order has shape"),
    ("image_counts", lambda column: torch.zeros(8, 1, 3, dtype=torch.int32), "image_counts"),
]  # fmt: skip

JACCARD: list[tuple[str, Change, str]] = [
    ("image_counts", lambda column: None, "does not fit the protocol"),
    ("image_counts", lambda column: column[:, :-1], "has shape"),
    ("image_counts", lambda column: column[..., :2], "has shape"),
    ("image_counts", at((0, 0, 0), -1), "goes from -1"),
    ("image_counts", at((0, 0, 0), 100), "more matches than"),
]

SCORES: list[tuple[str, Change, str]] = [
    *((name, change, f"column {name}") for name in ("scores", "targets") for change in (
        lambda column: column[:, :-1], deeper, as_(torch.int32), lambda column: None,
    )),
    ("scores", as_(torch.float16), "must not be torch.float16"),
    ("targets", shorter, "has shape"),
    ("targets", at((0, 0), 2), "to 2"),
    ("targets", at((0, 0), -128), "goes from -128"),
]  # fmt: skip

PIXELS: list[tuple[str, Change, str]] = [
    *((name, change, "column") for name in ("rows", "cell", "count") for change in (
        shorter, deeper, as_(torch.int16), as_(torch.float64), lambda column: None,
    )),
    ("rows", at(0, -1), "goes from -1"),
    ("rows", at(0, 2**31 - 1), "beyond 0 to 12"),
    ("rows", lambda column: column + torch.eye(8, dtype=torch.int32)[0], "do not fit each other"),
    ("cell", at(0, 12), "to 12"),
    ("cell", at(0, -1), "goes from -1"),
    ("cell", backwards, "cells of an image do not rise"),
    ("cell", lambda column: column.index_fill(0, torch.tensor([1]), int(column[0])), "do not rise"),
    ("count", at(0, 0), "goes from 0"),
    ("count", at(0, 2**62 + 1), "to 4611686018427387905"),
    ("count", same_for_all(2**62), "do not fit each other"),
]  # fmt: skip

COLUMNS = [
    *(("detection", *one) for one in RECORDS),
    *(("crowdhuman", *one) for one in JACCARD),
    *(("classification", *one) for one in SCORES),
    *(("segmentation", *one) for one in PIXELS),
]


def columns_of(state: dict[str, Any]) -> dict[str, Any]:
    return state["records"][0] if "records" in state else state.get("counts", state)


def refused(metric: Metric, state: Any, words: str) -> str:
    """What is said of a state that is refused; the metric stays as it was."""
    before = copy.deepcopy(metric.state_dict())
    with pytest.raises(
        StateError, match=f"load_state_dict: the state is damaged: .*({words})"
    ) as caught:
        metric.load_state_dict(state)
    assert not list(differences(before, metric.state_dict()))
    return str(caught.value)


@pytest.mark.parametrize(("name", "column", "change", "words"), COLUMNS)
def test_forged_columns_are_refused(name: str, column: str, change: Change, words: str) -> None:
    metric = updated(name)
    state = copy.deepcopy(metric.state_dict())
    columns = columns_of(state)
    columns[column] = change(columns[column])
    assert refused(metric, state, words)


@pytest.mark.parametrize("name", SUBJECTS)
@pytest.mark.parametrize("ids", [True, False])
def test_own_states_pass_every_check(name: str, ids: bool) -> None:
    metric = SUBJECTS[name].new()
    for batch in rebatched(images(SUBJECTS[name], 14, ids=ids), 3):
        metric.update(*batch)
        state = metric.state_dict()
        loaded = SUBJECTS[name].new().load_state_dict(state)
        assert not list(differences(state, loaded.state_dict()))


IDS: list[tuple[Any, str]] = [
    ([1.5, *range(7)], "1.5 is no image id"),
    ([float(n) for n in range(8)], "0.0 is no image id"),
    ([True, *range(7)], "True is no image id"),
    ([2**63, *range(7)], f"{2**63} is no image id"),
    ([(2**63, n) for n in range(8)], "no image id"),
    ([None] * 8, "None is no image id"),
    (["a", *range(7)], "different kinds"),
    (list(range(7)), "7 image ids for 8 images"),
    ("abcdefgh", "must be a list"),
    ({n: n for n in range(8)}, "must be a list"),
    ([(1, 2, 3)] * 8, "no image id"),
    ([[1, 0.5]] * 8, "no image id"),
    (5, "must be a list"),
]


@pytest.mark.parametrize(("ids", "words"), IDS)
@pytest.mark.parametrize("name", ["detection", "classification", "segmentation", "layout_2012"])
def test_forged_ids_are_refused(name: str, ids: Any, words: str) -> None:
    metric = updated(name)
    assert refused(metric, metric.state_dict() | {"image_ids": ids}, words)


@pytest.mark.parametrize("name", SUBJECTS)
def test_no_ids_of_no_images(name: str) -> None:
    metric = SUBJECTS[name].new()
    metric.load_state_dict(metric.state_dict() | {"image_ids": [], "updated": True})
    assert metric.compute() is not None
    assert metric.state_dict()["image_ids"] is None


OTHER: list[tuple[str, Any, str]] = [
    ("num_images", 7, "num_images"),
    ("num_images", 8.0, "num_images"),
    ("num_images", "8", "num_images|'8'"),
    ("num_images", 10**12, "num_images"),
    ("updated", False, "updated is False beside 8 images"),
    ("updated", 1, "updated is 1"),
    ("records", [], "a list of 3 records"),
    ("records", {}, "a list of 3 records"),
    ("records", None, "a list of 3 records"),
    ("records", [{}, {}, {}], "records must have the columns"),
    ("records", [1, 2, 3], "records|keys"),
]


@pytest.mark.parametrize(("key", "value", "words"), OTHER)
def test_other_forged_entries_are_refused(key: str, value: Any, words: str) -> None:
    metric = updated("detection")
    assert refused(metric, metric.state_dict() | {key: value}, words)


@pytest.mark.parametrize("name", ["classification", "segmentation"])
def test_forged_numbers_of_images_are_refused(name: str) -> None:
    metric = updated(name)
    for value in (7, 9, -1, 8.0, "8", None, 2**62, True):
        assert refused(metric, metric.state_dict() | {"num_images": value}, "")


def test_records_of_several_protocols_are_of_the_same_images() -> None:
    metric = updated("detection")
    records = metric.state_dict()["records"]
    assert refused(metric, metric.state_dict() | {"records": records[:2]}, "a list of 3 records")
    others = SUBJECTS["detection"].new()
    for batch in images(SUBJECTS["detection"], 9, ids=True)[1:]:
        others.update(*batch)
    mixed = [*records[:2], others.state_dict()["records"][2]]
    assert refused(
        metric, metric.state_dict() | {"records": mixed}, "the protocols differ in column"
    )


# Bytes and files ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ids",
    [
        {},
        {"pairs": ["a"]},
        {"pairs": [{"numbers": "ids"}]},
        {"words": "ids"},
        {"numbers": "floats"},
        {"numbers": "table"},
        {"text": "negative"},
        {"text": "more"},
        {"text": "floats"},
    ],
)
def test_forged_ids_of_a_file_are_refused(ids: Any) -> None:
    tensors = {
        "ids": torch.arange(3),
        "floats": torch.tensor([0.5, 1.0, 2.0]),
        "table": torch.zeros(3, 1, dtype=torch.int64),
        "negative.bytes": torch.zeros(4, dtype=torch.uint8),
        "negative.lengths": torch.tensor([4, -4, 4]),
        "more.bytes": torch.zeros(4, dtype=torch.uint8),
        "more.lengths": torch.tensor([4, 4]),
        "floats.bytes": torch.zeros(4),
        "floats.lengths": torch.tensor([4]),
    }
    with pytest.raises(StateError, match="the state is damaged"):
        restore({"image_ids": ids}, tensors)


def test_ids_that_are_no_integers_do_not_hang() -> None:
    state = {"image_ids": [1.5, 2.5], "num_images": 2}
    assert from_bytes(to_bytes(state))["image_ids"] == [1.5, 2.5]
    assert flatten(state)[0]["image_ids"] == [1.5, 2.5]


def forged(path: Path, change: Callable[[dict[str, Any], dict[str, Any]], Any]) -> None:
    """Change a file and make its SHA-256 fit."""
    with np.load(path) as file:
        arrays = dict(file)
    header = json.loads(arrays.pop("header").tobytes())
    change(header, arrays)
    header = sealed(header, arrays, {})
    letters = np.frombuffer(json.dumps(header).encode(), np.uint8)
    with path.open("wb") as out:
        np.savez(out, **arrays, header=letters)


def nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


FORGERIES: dict[str, tuple[Callable[[dict[str, Any], dict[str, Any]], Any], str]] = {
    "score": (lambda _, a: a.update({"records.0.score": a["records.0.score"] * np.nan}), "nan"),
    "byte order": (
        lambda _, a: a.update({"records.0.score": a["records.0.score"].astype(">f4")}),
        "is of another type",
    ),
    "complex": (
        lambda _, a: a.update({"records.0.score": a["records.0.score"].astype("c8")}),
        "is of another type",
    ),
    "float ids": (lambda h, _: h["state"].update(image_ids=[0.5] * 8), "no image id"),
    "deep state": (lambda h, _: h["state"].update(records=nested(900)), "damaged"),
    "NaN": (lambda h, _: h["state"].update(num_images=float("nan")), "NaN is no JSON"),
    "metric": (lambda h, _: h["state"].update(metric=[]), "another metric"),
    "classes": (lambda h, _: h["state"].update(class_names=5), "damaged|class_names"),
    "labels": (lambda h, _: h["state"].update(label_ids=[0.5, 1.5]), "damaged|label_ids"),
    "state": (lambda h, _: h.update(state=[]), "its header has no state"),
    "protocols": (lambda h, _: h.update(protocols=[5]), "protocol"),
    "rules": (lambda h, _: h["protocols"][0].update(rules=[1]), "protocol"),
    "task": (lambda h, _: h["protocols"][0].update(task={}), "protocol"),
    "fewer protocols": (lambda h, _: h["protocols"].pop(), "fingerprint"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_files_with_the_right_digest_are_refused(name: str, tmp_path: Path) -> None:
    change, words = FORGERIES[name]
    path = tmp_path / "state"
    updated("detection").save_state(path)
    forged(path, change)
    with pytest.raises(StateError, match=words) as raised:
        Metric.from_states(path)
    assert str(raised.value).startswith(str(path))


def test_a_file_of_the_first_schema_names_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "state"
    updated("detection").save_state(path)
    forged(path, lambda header, _: header.update(schema=1))
    with pytest.raises(StateError, match=r"got 1, written by .*; use that version, or evaluate"):
        DetectionAP("voc2007", num_classes=2).load_state(path)


def test_overlapping_entries_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "state"
    updated("detection").save_state(path)
    content = path.read_bytes()
    size = path.stat().st_size
    # The size of the first entry in the central directory.
    place = content.index(b"PK\x01\x02") + 24
    path.write_bytes(content[:place] + (size + 1).to_bytes(4, "little") + content[place + 4 :])
    with pytest.raises(StateError, match="entries overlap"):
        Metric.from_states(path)
