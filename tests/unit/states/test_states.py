"""States as bytes and as files: what comes back, and what is refused."""

from __future__ import annotations

import copy
import dataclasses
import io
import json
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from distributed.registry import SUBJECTS, images

from torch_vocmetrics import (
    DetectionAP,
    LogAverageMissRate,
    Metric,
    StateError,
    load_protocol,
    protocol_names,
)
from torch_vocmetrics.protocols import protocol_of_rules
from torch_vocmetrics.states.files import _as_json, _from_json
from torch_vocmetrics.states.plain import (
    DTYPES,
    flatten,
    from_bytes,
    order_of_arrival,
    restore,
    to_bytes,
)
from torch_vocmetrics.testing import differences, rebatched

IDS: list[Any] = [
    None,
    [],
    [3, -(2**63), 2**63 - 1],
    [2**63, 1],
    ["a", "", "\N{SNOWMAN} \ud800"],
    [(1, 2), (3, 4)],
    [("a", 2), ("bc", 4)],
]


@pytest.mark.parametrize("ids", IDS, ids=str)
def test_bytes_and_back(ids: Any) -> None:
    columns = {name: torch.ones(3, 2).to(dtype) for name, dtype in DTYPES.items()}
    empty = {"empty": torch.zeros(0, 4), "none": None, "0d": torch.tensor(2.0)}
    state = {"image_ids": ids, "num_images": 3, "deep": [columns, {"more": [empty, "text"]}]}
    text, tensors = flatten(state)
    assert json.loads(json.dumps(text)) == text
    for got in (restore(text, tensors), from_bytes(to_bytes(state))):
        assert not list(differences(state, got))


def test_bytes_hold_tensors_as_they_are_and_leave_the_state_alone() -> None:
    view = torch.arange(12).reshape(3, 4).T
    state = {"image_ids": [1], "num_images": 1, "view": view}
    before = copy.deepcopy(state)
    run = to_bytes(state)
    got = from_bytes(run)["view"]
    assert torch.equal(got, view)
    got.zero_()
    assert not list(differences(before, state))
    assert torch.equal(from_bytes(run)["view"], torch.zeros_like(view)), "no copy was made"


@pytest.mark.parametrize("cut", [0, 7, 20, 200])
def test_bytes_that_are_no_state(cut: int) -> None:
    run = to_bytes({"image_ids": [1], "num_images": 1, "one": torch.ones(99)})
    with pytest.raises(StateError, match="the bytes are no state"):
        from_bytes(run[:cut])


def test_order_of_arrival() -> None:
    assert order_of_arrival([3, 0, 2]).tolist() == [0, 3, 1, 4, 2]
    assert order_of_arrival([]).tolist() == []
    sampled = [list(range(10))[rank::4] for rank in range(4)]
    flat = [image for part in sampled for image in part]
    assert [flat[row] for row in order_of_arrival([len(p) for p in sampled])] == list(range(10))


TASKS = ("detection", "miss_rate", "classification", "action", "layout", "segmentation")


@pytest.mark.parametrize("task", TASKS)
def test_rules_go_through_json(task: str) -> None:
    names = protocol_names(task)
    assert names
    for name in names:
        protocol = load_protocol(f"{task}/{name}")
        text = json.dumps(_as_json(protocol.rules), allow_nan=False)
        again = protocol_of_rules(task, name, _from_json(json.loads(text)))
        assert (again, again.fingerprint) == (protocol, protocol.fingerprint)


# Files --------------------------------------------------------------------------------------------


def updated(name: str = "detection") -> Metric:
    metric = SUBJECTS[name].new()
    for batch in rebatched(images(SUBJECTS[name], 8, ids=True), 4):
        metric.update(*batch)
    return metric


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "state"
    updated().save_state(path)
    return path


def test_a_file_is_plain_arrays_and_json(saved: Path) -> None:
    with np.load(saved, allow_pickle=False) as file:
        header = json.loads(file["header"].tobytes())
        arrays = {name: file[name] for name in file.files if name != "header"}
    assert set(header["columns"]) == set(arrays)
    assert header["state"]["metric"] == "DetectionAP"
    assert header["state"]["class_names"] == ["a", "b"]
    assert header["state"]["label_ids"] == [0, 1]
    protocols = [load_protocol(f"detection/{one['name']}") for one in header["protocols"]]
    assert header["state"]["fingerprints"] == [one.fingerprint for one in protocols]
    assert header["protocols"][0]["rules"]["candidates"] == "best"
    assert arrays["records.0.score"].dtype == np.float32
    assert [path.name for path in saved.parent.iterdir()] == ["state"], "no partial file is left"


def test_a_file_has_the_rights_of_a_new_one(saved: Path) -> None:
    plain = saved.with_name("plain")
    plain.touch()
    assert saved.stat().st_mode == plain.stat().st_mode
    updated().save_state(saved)
    assert Metric.from_states(saved).compute()["voc2007"].num_images == 8


def test_own_rules_go_with_the_file(tmp_path: Path) -> None:
    rules = dataclasses.replace(
        load_protocol("detection/coco2017"), name="mine", max_detections=(3, 7)
    )
    path = tmp_path / "state"
    DetectionAP(rules, class_names=["x"]).update([], []).save_state(path)
    metric = DetectionAP.from_states(path)
    assert metric.protocols == (rules,)
    with pytest.raises(StateError, match="another metric than LogAverageMissRate"):
        LogAverageMissRate.from_states(path)


def rewritten(change: Callable[[dict[str, Any], dict[str, Any]], Any]) -> Callable[[Path], None]:
    """Damage that keeps the form of the file: change header and arrays, and write them again."""

    def damage(path: Path) -> None:
        with np.load(path) as file:
            arrays = dict(file)
        header = json.loads(arrays.pop("header").tobytes())
        change(header, arrays)
        letters = np.frombuffer(json.dumps(header).encode(), np.uint8)
        with path.open("wb") as out:
            np.savez(out, header=letters, **arrays)

    return damage


def written(path: Path, save: Callable[..., None], *arrays: Any) -> None:
    with path.open("wb") as out:
        save(out, *arrays)


def compressed(path: Path) -> None:
    with np.load(path) as file:
        arrays = dict(file)
    with path.open("wb") as out:
        np.savez_compressed(out, **arrays)


class Evil:
    def __reduce__(self) -> Any:
        return (os.system, ("exit 1",))


def pickled(path: Path) -> None:
    with path.open("wb") as out:
        np.savez(out, header=np.array([Evil()], dtype=object))


def repeated(path: Path) -> None:
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(path, "a") as archive:
        archive.writestr("header.npy", b"")


def drop_array(header: dict[str, Any], arrays: dict[str, Any]) -> None:
    del arrays["records.0.score"]


def change_score(header: dict[str, Any], arrays: dict[str, Any]) -> None:
    arrays["records.0.score"] = arrays["records.0.score"] + 1


def change_rule(header: dict[str, Any], arrays: dict[str, Any]) -> None:
    header["protocols"][0]["rules"]["comparison"] = ">"


DAMAGE: dict[str, tuple[Callable[[Path], Any], str]] = {
    "empty": (lambda path: path.write_bytes(b""), "not a state file"),
    "text": (lambda path: path.write_text("mAP 0.5"), "not a state file"),
    "cut": (lambda path: path.write_bytes(path.read_bytes()[:-40]), "not a state file"),
    "pickle": (lambda path: path.write_bytes(pickle.dumps({"a": 1})), "not a state file"),
    "pickled array": (pickled, "not a state file"),
    "plain array": (lambda path: written(path, np.save, np.ones(2)), "not a state file"),
    "other arrays": (lambda path: written(path, np.savez, np.ones(2)), "not a state file"),
    "compressed": (compressed, "compressed or repeated"),
    "repeated": (repeated, "compressed or repeated"),
    "array lost": (rewritten(drop_array), "other arrays than its header"),
    "array changed": (rewritten(change_score), "SHA-256"),
    "rule changed": (rewritten(change_rule), "SHA-256"),
    "schema": (rewritten(lambda header, _: header.update(schema=99)), "another schema.* 99"),
    "no schema": (rewritten(lambda header, _: header.pop("schema")), "another schema"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_files_are_refused(saved: Path, name: str) -> None:
    damage, words = DAMAGE[name]
    damage(saved)
    metric = updated()
    before = metric.state_dict()
    for read in (metric.load_state, Metric.from_states):
        with pytest.raises(StateError, match=words) as raised:
            read(saved)
        assert str(raised.value).startswith(str(saved))
    assert not list(differences(before, metric.state_dict()))


def test_any_damaged_byte_is_noticed(saved: Path) -> None:
    """The file is refused; or it was a byte that means nothing, and the state is as it was."""
    content, wanted = saved.read_bytes(), updated().state_dict()
    reasons = []
    for place in range(0, len(content), max(len(content) // 400, 1)):
        damaged = bytearray(content)
        damaged[place] ^= 0x15
        saved.write_bytes(damaged)
        try:
            found = Metric.from_states(saved)
        except StateError as error:
            reasons.append(str(error))
        else:
            assert not list(differences(wanted, found.state_dict())), place
    assert len(reasons) > 300
    assert all(reason.startswith(str(saved)) for reason in reasons)


def test_foreign_files_are_refused(saved: Path, tmp_path: Path) -> None:
    with pytest.raises(StateError, match="different metric: LogAverageMissRate here"):
        LogAverageMissRate("caltech2012").load_state(saved)
    with pytest.raises(StateError, match="different protocols"):
        DetectionAP("voc2007", class_names=["a", "b"]).load_state(saved)
    other = tmp_path / "other"
    SUBJECTS["detection"].other_rules().update([], []).save_state(other)
    with pytest.raises(StateError, match=f"{other}: the states are of different class_names"):
        Metric.from_states(saved, other)
    with pytest.raises(FileNotFoundError):
        Metric.from_states(tmp_path / "missing")


@pytest.mark.parametrize("column", ["class_counts", "image", "match_ignored", "ground_truth_label"])
def test_rows_that_cannot_be_are_refused(column: str) -> None:
    """A state that holds together in form, with numbers that no update makes."""
    metric = DetectionAP("coco2017", num_classes=2)
    for batch in images(SUBJECTS["detection"], 8, ids=True):
        metric.update(*batch)
    state = copy.deepcopy(metric.state_dict())
    values = state["records"][0][column]
    damaged = values.flip(0) if column == "image" else values + 2
    state["records"][0][column] = values[:, :0] if column == "match_ignored" else damaged
    with pytest.raises(StateError, match="damaged"):
        metric.load_state_dict(state)


def test_a_state_file_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nowhere"):
        updated().save_state(tmp_path / "nowhere" / "state")
    assert list(tmp_path.iterdir()) == []


def test_torch_save_and_a_file_hold_the_same(saved: Path) -> None:
    file = io.BytesIO()
    torch.save(updated().state_dict(), file)
    file.seek(0)
    state = torch.load(file, weights_only=True)
    assert not list(differences(state, Metric.from_states(saved).state_dict()))
