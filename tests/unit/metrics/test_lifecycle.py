"""What a metric has seen changes as a whole or not at all, whatever raises, and is its own."""

from __future__ import annotations

import copy
import pickle
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from distributed.registry import SUBJECTS, images

from torch_vocmetrics import DetectionAP, Metric
from torch_vocmetrics.metrics import (
    accumulated,
    classification,
    layout,
    mask_quality,
    recorded,
    segmentation,
)
from torch_vocmetrics.states.plain import from_bytes, to_bytes
from torch_vocmetrics.tables.pixels import PixelCounts
from torch_vocmetrics.testing import same

each_metric = pytest.mark.parametrize("name", SUBJECTS)
COUNT = 8


def updated(name: str, count: int = COUNT) -> Any:
    metric = SUBJECTS[name].new()
    for image in images(SUBJECTS[name], count, ids=True):
        metric.update(*image)
    return metric


def contents(metric: Metric) -> bytes:
    return bytes(to_bytes(copy.deepcopy(metric).state_dict()).numpy().tobytes())


# Exceptions ---------------------------------------------------------------------------------------


class Planted:
    """A function that raises at its ``last``-th call."""

    def __init__(self, function: Callable[..., Any], last: int, error: type[BaseException]) -> None:
        self.function, self.left, self.error = function, last, error

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.left -= 1
        if self.left == 0:
            raise self.error("planted")
        return self.function(*args, **kwargs)


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, torch.cuda.OutOfMemoryError])
@pytest.mark.parametrize("call", [1, 2, 3])
def test_a_flush_commits_all_protocols_or_nothing(
    call: int, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    metric = updated("detection")
    wanted = metric.compute()
    metric.reset()
    for image in images(SUBJECTS["detection"], COUNT, ids=True):
        metric.update(*image)
    with monkeypatch.context() as patch:
        patch.setattr(recorded, "match_chunk", Planted(recorded.match_chunk, call, error))
        with pytest.raises(error, match="planted"):
            metric.compute()
    assert len(metric._accumulated.pending) == COUNT
    assert all(not part.num_images for parts in metric._accumulated.tables for part in parts)
    same(wanted, metric.compute(), "the call after the one that was interrupted")


@each_metric
def test_an_update_that_fails_in_its_flush_adds_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    metric, image = updated(name), SUBJECTS[name].image(COUNT, ids=True)
    before = contents(metric)
    monkeypatch.setattr(accumulated, "MOST_PENDING", 1)
    for module in (recorded, classification, segmentation, layout):
        monkeypatch.setattr(module, "MOST_PENDING", 1)
    with monkeypatch.context() as patch:
        for table in (PixelCounts, classification.ScoreTable):
            patch.setattr(table, "of" if table is PixelCounts else "cat", failing)
        for module in (recorded, mask_quality):
            patch.setattr(module, "match_chunk", failing)
        patch.setattr(type(metric), "_match_batches", failing, raising=False)
        with pytest.raises(MemoryError):
            metric.update(*image)
    assert contents(metric) == before
    assert contents(metric.update(*image)) == contents(updated(name, COUNT + 1))


def failing(*_: Any, **__: Any) -> Any:
    raise MemoryError("planted")


@each_metric
def test_many_pending_batches_are_flushed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = contents(updated(name))
    for module in (recorded, classification, segmentation, layout):
        monkeypatch.setattr(module, "MOST_PENDING", 3)
    metric = updated(name)
    assert len(metric._accumulated.pending) < 3
    assert contents(metric) == wanted


# Threads ------------------------------------------------------------------------------------------


def in_threads(*work: Callable[[], Any]) -> list[Any]:
    """What every function returned, all called at once."""
    start, found = threading.Barrier(len(work)), [None] * len(work)

    def run(number: int) -> None:
        start.wait()
        found[number] = work[number]()

    threads = [
        threading.Thread(target=run, args=(number,), daemon=True) for number in range(len(work))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive(), "the threads wait for one another"
    return found


@each_metric
def test_threads_in_compute_see_the_same_images(name: str) -> None:
    metric = updated(name)
    wanted = copy.deepcopy(metric).compute()
    results = in_threads(*[metric.compute] * 3)
    assert len(results) == 3
    for result in results:
        same(wanted, result, "a thread")


@each_metric
def test_no_update_of_a_thread_is_lost(name: str) -> None:
    metric, subject = SUBJECTS[name].new(), SUBJECTS[name]

    def work(first: int) -> Callable[[], None]:
        def update() -> None:
            for number in range(first, 24, 3):
                metric.update(*subject.image(number, ids=True))
                if number % 5 == 0:
                    metric.state_dict()

        return update

    in_threads(*map(work, range(3)))
    assert metric.num_images == 24
    same(updated(name, 24).compute(), metric.compute(), "updates of three threads")


def test_metrics_that_merge_each_other_do_not_wait_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    joined = DetectionAP._joined

    def slowly(metric: Any) -> Any:
        time.sleep(0.05)  # the other thread takes its lock meanwhile
        return joined(metric)

    monkeypatch.setattr(DetectionAP, "_joined", slowly)
    first, second = updated("detection", 3), updated("detection", 4)

    def merging(one: Any, other: Any) -> Callable[[], Any]:
        return lambda: one.merge(other)

    in_threads(merging(first, second), merging(second, first))
    assert first.merge(first).state_dict()["num_images"] % 2 == 0


@each_metric
def test_copies_have_a_lock_and_a_state_of_their_own(name: str) -> None:
    metric = updated(name, 3)
    before = contents(metric)
    for copied in (copy.copy(metric), copy.deepcopy(metric), pickle.loads(pickle.dumps(metric))):
        assert copied._lock is not metric._lock
        copied.update(*SUBJECTS[name].image(5, ids=True))
        assert contents(copied) != before
        assert contents(metric) == before


# Aliases ------------------------------------------------------------------------------------------


def overwrite(value: Any) -> None:
    """Change whatever can be changed of an input, an output or a state."""
    if isinstance(value, torch.Tensor):
        value.zero_()
    elif isinstance(value, np.ndarray):
        value[...] = 0
    elif isinstance(value, dict):
        for entry in value.values():
            overwrite(entry)
        value.clear()
    elif isinstance(value, list):
        for entry in value:
            overwrite(entry)
        value[:] = [0] * len(value)
    elif isinstance(value, tuple):
        for entry in value:
            overwrite(entry)
    elif hasattr(value, "__dataclass_fields__"):
        overwrite([getattr(value, field) for field in value.__dataclass_fields__])


def mapped(function: Callable[[torch.Tensor], Any], value: Any) -> Any:
    """The same with every tensor replaced."""
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, dict):
        return {key: mapped(function, entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [mapped(function, entry) for entry in value]
    return value


def packed(value: Any) -> Any:
    """The images of one side as packed tensors; sides that have no rows stay."""
    if not (isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict)):
        return value
    (rows,) = value
    length = len(rows.get("labels", rows.get("part_counts")))
    whole = {key: [rows[key]] for key in ("image_id", "image_size") if key in rows}
    return rows | whole | {"counts": [length]}


def dense(value: Any) -> Any:
    """The images of one side as [1, N, ...] tensors."""
    rows = packed(value)
    if not isinstance(rows, dict) or "part_counts" in rows:
        return value
    rows = {key: entry for key, entry in rows.items() if key != "counts"}
    return {
        key: entry.unsqueeze(0) if isinstance(entry, torch.Tensor) else entry
        for key, entry in rows.items()
    }


def with_list_sizes(value: Any) -> Any:
    """Sizes and ids in forms that can be changed later."""
    if not isinstance(value, list) or not value or not isinstance(value[0], dict):
        return value
    number = int(value[0]["labels"].numel()) if "labels" in value[0] else 0
    is_text = isinstance(value[0].get("image_id"), str)
    kinds: dict[str, Callable[[Any], Any]] = {
        "image_size": (list, torch.tensor, np.array)[number % 3],
        "image_id": str if is_text else torch.tensor,
    }
    return [
        {key: kinds[key](entry) if key in kinds else entry for key, entry in rows.items()}
        for rows in value
    ]


FORMS: dict[str, Callable[[Any], Any]] = {
    "tensors": lambda side: side,
    "arrays": lambda side: mapped(lambda tensor: tensor.numpy(), side),
    "lists": lambda side: mapped(lambda tensor: tensor.tolist(), side),
    "double": lambda side: mapped(
        lambda tensor: tensor.double() if tensor.is_floating_point() else tensor.long(), side
    ),
    "packed": packed,
    "dense": dense,
    "sizes in lists": with_list_sizes,
}


@pytest.mark.parametrize("form", FORMS)
@each_metric
def test_nothing_of_an_input_is_kept(name: str, form: str) -> None:
    if name in ("detection_masks", "mask_quality") and form in ("packed", "dense", "lists"):
        pytest.skip("masks come as tensors, arrays or run lengths, image by image")
    subject = SUBJECTS[name]
    metric, wanted = subject.new(), subject.new()
    for number in range(COUNT):
        given = tuple(FORMS[form](copy.deepcopy(side)) for side in subject.image(number, ids=True))
        wanted.update(*copy.deepcopy(given))
        metric.update(*given)
        overwrite(given)
    assert contents(metric) == contents(wanted)
    same(wanted.compute(), metric.compute(), "inputs that were overwritten")


@each_metric
def test_a_saved_state_is_a_copy(name: str) -> None:
    metric = updated(name)
    before, wanted = contents(metric), copy.deepcopy(metric).compute()
    overwrite(metric.state_dict())
    assert contents(metric) == before
    state = metric.state_dict()
    loaded = SUBJECTS[name].new().load_state_dict(state)
    overwrite(state)
    assert contents(loaded) == before
    overwrite(metric.compute())
    assert contents(metric) == before
    same(wanted, metric.compute(), "a result that was overwritten")


def test_states_of_one_row_are_bytes() -> None:
    """A tensor of one entry may have a stride of 0."""
    column = torch.as_strided(torch.tensor([7]), (1,), (0,))
    state = {"num_images": 1, "image_ids": [3], "column": column}
    assert from_bytes(to_bytes(state))["column"].tolist() == [7]


def test_mask_inputs_are_not_kept() -> None:
    """Run lengths and polygons, in forms that can be changed later."""
    counts = {"size": [4, 6], "counts": [4, 8, 12]}
    segmentations: list[Any] = [counts, [[1.0, 1.0, 4.0, 1.0, 4.0, 3.0, 1.0, 3.0]]]
    for one in segmentations:
        target = {"masks": [copy.deepcopy(one)], "labels": [0], "image_size": [4, 6]}
        found = copy.deepcopy(target) | {"scores": [0.5]}
        metric = DetectionAP("coco2017_segm", num_classes=1)
        metric.update([found], [target])
        overwrite(found)
        overwrite(target)
        assert metric.compute().headline > 0.9999
