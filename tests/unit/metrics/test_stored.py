"""State files that are too large to hold give the bits of files that are read whole."""

from __future__ import annotations

import copy
import json
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed.registry import SUBJECTS, images

from torch_vocmetrics import DetectionAP, Metric, StateError, VocMetricsWarning
from torch_vocmetrics.metrics import base, stored
from torch_vocmetrics.states.blocks import BlockReader
from torch_vocmetrics.states.files import read_header, sealed
from torch_vocmetrics.testing import differences, quietly

pytestmark = pytest.mark.slow

NAMES = [name for name in SUBJECTS if name.startswith("detection")]
COUNT = 13


@pytest.fixture
def on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files stay on the disk, and are read a few rows at a time."""
    monkeypatch.setattr(base, "IN_MEMORY_BYTES", 0)
    monkeypatch.setattr(stored, "BLOCK_ROWS", 20)


def saved(folder: Path, name: str, shards: list[list[Any]]) -> list[Path]:
    paths = []
    for number, shard in enumerate(shards):
        metric = SUBJECTS[name].new()
        for image in shard:
            metric.update(*image)
        paths.append(folder / f"{number}.npz")
        metric.save_state(paths[-1])
    return paths


def sampled(name: str, *, ids: bool, files: int = 3) -> list[list[Any]]:
    given = images(SUBJECTS[name], COUNT, ids=ids)
    return [given[number::files] for number in range(files)]


def told(work: Callable[[], Any]) -> tuple[Any, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = work()
    return result, [str(w.message) for w in caught if issubclass(w.category, VocMetricsWarning)]


@pytest.mark.parametrize("ids", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_class_by_class_gives_the_same_bits(
    name: str, ids: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shards = [*sampled(name, ids=ids), []]
    paths = saved(tmp_path, name, shards)
    wanted = Metric.from_states(*paths).compute()
    monkeypatch.setattr(base, "IN_MEMORY_BYTES", 0)
    for rows in (1, 20, 10**6):
        monkeypatch.setattr(stored, "BLOCK_ROWS", rows)
        metric = Metric.from_states(*paths)
        assert isinstance(metric._accumulated.tables, stored.StoredTables)
        assert metric.num_images == COUNT
        assert f"{COUNT} images" in repr(metric)
        assert not list(differences(wanted, metric.compute()))
        assert not list(differences(wanted, metric.compute(shard_by="class")))
        assert isinstance(metric._accumulated.tables, stored.StoredTables)
        assert not list(differences(wanted, metric.compute(shard_by="none")))


@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_images_in_several_files_count_once(
    name: str, noisy: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shards = sampled(name, ids=True)
    copy_of = SUBJECTS[name].noisy if noisy else SUBJECTS[name].image
    shards[2] += [copy_of(0), copy_of(5)]
    shards[0] += [SUBJECTS[name].image(5)]
    paths = saved(tmp_path, name, shards)
    wanted, words = told(lambda: Metric.from_states(*paths).compute())
    assert any("3 repeated images" in word for word in words)
    monkeypatch.setattr(base, "IN_MEMORY_BYTES", 0)
    monkeypatch.setattr(stored, "BLOCK_ROWS", 20)
    found, again = told(lambda: Metric.from_states(*paths).compute())
    assert not list(differences(wanted, found))
    assert again == words


def test_copies_that_differ_in_class_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "IN_MEMORY_BYTES", 0)
    monkeypatch.setattr(stored, "BLOCK_ROWS", 1)
    paths = [tmp_path / f"{label}.npz" for label in range(2)]
    for label, path in enumerate(paths):
        found = {"boxes": [[0.0, 0.0, 9.0, 9.0]], "scores": [0.5], "labels": [label]}
        true = {"boxes": np.zeros((0, 4)), "labels": [], "image_id": 3}
        metric = DetectionAP("coco2017", num_classes=2, label_ids=[0, 1])
        metric.update([found], [true]).save_state(path)
    _, words = told(lambda: Metric.from_states(*paths).compute())
    assert any("1 repeated images" in word and "of 1 of them differed" in word for word in words)


@pytest.mark.usefixtures("on_disk")
def test_files_that_do_not_belong_together(tmp_path: Path) -> None:
    name = "detection"
    shards = sampled(name, ids=True)
    shards[1].append(SUBJECTS[name].other_truth(3))
    paths = saved(tmp_path, name, shards)
    with pytest.raises(StateError, match="image_id 21: the same image came with different ground"):
        Metric.from_states(*paths).compute()
    paths = saved(tmp_path, name, [sampled(name, ids=True)[0], sampled(name, ids=False)[1]])
    with pytest.raises(StateError, match="some images have an image_id and others have none"):
        Metric.from_states(*paths).compute()
    other = tmp_path / "other.npz"
    SUBJECTS[name].other_rules().update([], []).save_state(other)
    with pytest.raises(StateError, match=f"{other}: the states are of different class_names"):
        Metric.from_states(paths[0], other)


@pytest.mark.usefixtures("on_disk")
def test_any_other_method_reads_the_files(tmp_path: Path) -> None:
    name = "detection"
    paths = saved(tmp_path, name, sampled(name, ids=True))
    with quietly():
        whole = SUBJECTS[name].new()
        for image in images(SUBJECTS[name], COUNT + 1, ids=True):
            whole.update(*image)
        wanted = whole.compute()
    more = SUBJECTS[name].image(COUNT)
    updated = Metric.from_states(*paths).update(*more)
    assert not list(differences(wanted, updated.compute()))
    merged = SUBJECTS[name].new().update(*more).merge(Metric.from_states(*paths))
    assert not list(differences(wanted, merged.compute()))
    for copied in (copy.deepcopy, lambda metric: pickle.loads(pickle.dumps(metric))):
        metric = copied(Metric.from_states(*paths))
        assert not list(differences(wanted, metric.update(*more).compute()))
    again = tmp_path / "again.npz"
    metric = Metric.from_states(*paths).save_state(again)
    assert not list(differences(Metric.from_states(again).compute(), metric.compute()))
    assert Metric.from_states(*paths).reset().num_images == 0
    loaded = Metric.from_states(*paths).load_state_dict(whole.state_dict())
    assert not list(differences(wanted, loaded.compute()))


@pytest.mark.usefixtures("on_disk")
@pytest.mark.parametrize("name", ["classification", "segmentation", "miss_rate"])
def test_other_metrics_are_read_whole(name: str, tmp_path: Path) -> None:
    paths = saved(tmp_path, name, sampled(name, ids=True))
    metric = Metric.from_states(*paths)
    assert not isinstance(metric._accumulated.tables, stored.StoredTables)
    assert metric.num_images == COUNT


@pytest.mark.usefixtures("on_disk")
def test_without_any_update(tmp_path: Path) -> None:
    path = tmp_path / "state"
    DetectionAP("coco2017", num_classes=2).save_state(path)
    _, words = told(lambda: Metric.from_states(path).compute())
    assert any("compute() came before update()" in word for word in words)


# Damage -------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("on_disk")
def test_a_file_that_changes_afterwards_is_refused(tmp_path: Path) -> None:
    name = "detection"
    paths = saved(tmp_path, name, sampled(name, ids=True))
    metric = Metric.from_states(*paths)
    content = paths[1].read_bytes()
    with np.load(paths[1]) as file:
        score = file["records.2.score"].tobytes()
    place = content.rindex(score)
    paths[1].write_bytes(content[:place] + b"\7" + content[place + 1 :])
    with pytest.raises(StateError, match=f"{paths[1]}: .* SHA-256 does not fit"):
        metric.compute()
    with pytest.raises(StateError, match=f"{paths[1]}: .*(CRC|SHA)"):
        Metric.from_states(*paths)
    paths[1].write_bytes(content[:place])
    with pytest.raises(StateError, match="it ends too early"):
        metric.compute()
    paths[1].unlink()
    with pytest.raises(FileNotFoundError):
        metric.compute()


def resealed(path: Path, starts: dict[str, list[int]]) -> None:
    """Give the columns of a file other blocks, with the right digests."""
    with np.load(path) as file:
        arrays = dict(file)
    header = json.loads(arrays.pop("header").tobytes())
    letters = np.frombuffer(json.dumps(sealed(header, arrays, starts)).encode(), np.uint8)
    with path.open("wb") as out:
        np.savez(out, header=letters, **arrays)


def test_blocks_that_are_no_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (path,) = saved(tmp_path, "detection", sampled("detection", ids=True)[:1])
    wanted = Metric.from_states(path).compute()
    resealed(path, {})
    assert not list(differences(wanted, Metric.from_states(path).compute()))
    monkeypatch.setattr(base, "IN_MEMORY_BYTES", 0)
    with pytest.raises(StateError, match=r"blocks of column image are not the classes"):
        Metric.from_states(path)


def damaged_header(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change what the header says of the scores, and make its own digest fit."""
    from torch_vocmetrics.states.files import _digest  # noqa: PLC0415

    with np.load(path) as file:
        arrays = dict(file)
    header = json.loads(arrays.pop("header").tobytes())
    change(header["columns"]["records.0.score"])
    header["sha256"] = _digest(header)
    letters = np.frombuffer(json.dumps(header).encode(), np.uint8)
    with path.open("wb") as out:
        np.savez(out, header=letters, **arrays)


CHANGES: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "dtype": (lambda entry: entry.update(dtype="<f8"), "is not the one that its header names"),
    "shape": (lambda entry: entry["shape"].append(1), "is not the one that its header names"),
    "first": (lambda entry: entry["starts"].__setitem__(0, 1), "are not all of its rows"),
    "last": (lambda entry: entry["starts"].__setitem__(-1, 1), "are not all of its rows"),
    "order": (lambda entry: entry["starts"].__setitem__(1, -1), "are not all of its rows"),
    "kind": (lambda entry: entry["starts"].__setitem__(1, 1.0), "are not all of its rows"),
    "none": (lambda entry: entry.update(starts=[]), "are not all of its rows"),
    "digests": (lambda entry: entry["sha256"].pop(), "not one SHA-256 for each block"),
    "digest": (lambda entry: entry["sha256"].__setitem__(0, 5), "does not fit its content"),
    "missing": (lambda entry: entry.pop("starts"), "not a state file"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_forged_descriptions_of_columns_are_refused(name: str, tmp_path: Path) -> None:
    change, words = CHANGES[name]
    (path,) = saved(tmp_path, "detection", sampled("detection", ids=True)[:1])
    damaged_header(path, change)
    with pytest.raises(StateError, match=words) as raised:
        Metric.from_states(path)
    assert str(raised.value).startswith(str(path))


def test_blocks_are_read_by_themselves(tmp_path: Path) -> None:
    (path,) = saved(tmp_path, "detection", sampled("detection", ids=True, files=1))
    columns = read_header(path)["columns"]
    reader = BlockReader(path, columns)
    with np.load(path) as file:
        for name in columns:
            whole = file[name]
            assert np.array_equal(reader.read(name).numpy(), whole), name
            starts = reader.starts(name)
            for block in range(len(starts) - 1):
                got = reader.read(name, block, block + 1).numpy()
                assert np.array_equal(got, whole[starts[block] : starts[block + 1]]), name
                assert got.dtype == whole.dtype
    assert len(reader.starts("records.0.score")) == 3
    assert reader.dtype("records.0.order") is None
