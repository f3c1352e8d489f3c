"""Exceptions planted at random steps of every call: the state is the one before or after the call.

A step is a call of torch, where memory may run out, or a line of the package, where Ctrl-C may
come. The steps of a call are counted first on a copy of the metric; then the call runs again, and
one step raises.
"""

from __future__ import annotations

import copy
import linecache
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

import numpy as np
import torch
from distributed.registry import SUBJECTS, Subject
from torch.overrides import TorchFunctionMode

import torch_vocmetrics
from torch_vocmetrics.metrics import accumulated, base, record_state, segmentation
from torch_vocmetrics.states.plain import from_bytes, to_bytes

from .campaign import Campaign

PACKAGE = str(Path(torch_vocmetrics.__file__).parent)
ERRORS = (KeyboardInterrupt, MemoryError, torch.cuda.OutOfMemoryError, RuntimeError)


class Steps:
    """Counts steps, and raises an error at one of them.

    Attributes:
        count: steps so far.
        last: the number of the step that raises; None for none.
    """

    def __init__(self, last: int | None = None, error: type[BaseException] = RuntimeError) -> None:
        self.count, self.last, self.error = 0, last, error

    def step(self) -> None:
        self.count += 1
        if self.count == self.last:
            raise self.error("planted")


class _Calls(TorchFunctionMode):
    """Every call of torch is a step."""

    def __init__(self, steps: Steps) -> None:
        super().__init__()
        self.steps = steps

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not torch._C._set_grad_enabled:  # Else no_grad() could not undo its own setting.
            self.steps.step()
        return func(*args, **(kwargs or {}))


@contextmanager
def _lines(steps: Steps) -> Iterator[None]:
    """Every line of the package is a step.

    The line of a ``with`` comes once more when its block is left; Python handles no Ctrl-C there.
    """

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
        if event == "line" and not line.lstrip().startswith("with "):
            steps.step()
        return trace

    previous = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(previous)


WAYS: dict[str, Callable[[Steps], Any]] = {"torch calls": _Calls, "lines": _lines}


# Calls --------------------------------------------------------------------------------------------


class Scene:
    """A metric that has seen some batches, and what its next call takes."""

    def __init__(self, subject: Subject, rng: np.random.Generator, folder: Path) -> None:
        with_ids = bool(rng.random() < 0.5)
        images = [subject.image(i, ids=with_ids) for i in range(int(rng.integers(2, 9)))]
        cut = int(rng.integers(0, len(images)))
        self.subject, self.path = subject, folder / "state.npz"
        self.metric = subject.new()
        for image in images[:cut]:
            self.metric.update(*image)
            if rng.random() < 0.2:
                self.metric.state_dict()
        self.image = images[cut]
        self.other = subject.new()
        for image in images[cut:]:
            self.other.update(*image)
        subject.new().update(*images[-1]).save_state(self.path)

    def copied(self) -> Scene:
        """The same with metrics of its own."""
        scene = copy.copy(self)
        scene.metric, scene.other = copy.deepcopy(self.metric), copy.deepcopy(self.other)
        return scene


def _update(scene: Scene) -> Any:
    return scene.metric.update(*scene.image)


def _compute(scene: Scene) -> Any:
    return scene.metric.compute()


def _merge(scene: Scene) -> Any:
    return scene.metric.merge(scene.other)


def _sync(scene: Scene) -> Any:
    """``compute`` of two ranks, the other of which is ``scene.other``."""

    def sync(state: Any, *_: Any, **__: Any) -> list[Any]:
        if isinstance(state, Exception):
            raise state
        return [from_bytes(to_bytes(one)) for one in (state, scene.other.state_dict())]

    with (
        mock.patch.object(base, "num_ranks", return_value=2),
        mock.patch.object(base, "warns_for_all", return_value=True),
        mock.patch.object(base, "sync", sync),
    ):
        return scene.metric.compute()


def _state_dict(scene: Scene) -> Any:
    return scene.metric.state_dict()


def _load_state_dict(scene: Scene) -> Any:
    return scene.metric.load_state_dict(scene.other.state_dict())


def _save(scene: Scene) -> Any:
    return scene.metric.save_state(scene.path)


def _load(scene: Scene) -> Any:
    return scene.metric.load_state(scene.path)


def _to(scene: Scene) -> Any:
    return scene.metric.to("cpu")


def _reset(scene: Scene) -> Any:
    return scene.metric.reset()


CALLS: dict[str, Callable[[Scene], Any]] = {
    "update": _update,
    "compute": _compute,
    "merge": _merge,
    "sync": _sync,
    "state_dict": _state_dict,
    "load_state_dict": _load_state_dict,
    "save_state": _save,
    "load_state": _load,
    "to": _to,
    "reset": _reset,
}


def contents(metric: Any) -> bytes:
    """All that a metric has seen, whatever of it is pending."""
    return bytes(to_bytes(copy.deepcopy(metric).state_dict()).numpy().tobytes())


@contextmanager
def _small_chunks(rng: np.random.Generator) -> Iterator[None]:
    """Chunks are full after a few images, so that ``update`` matches too."""
    small = int(rng.integers(1, 60))
    with (
        mock.patch.object(record_state, "CHUNK_ROWS", small),
        mock.patch.object(segmentation, "CHUNK_CELLS", small),
        mock.patch.object(accumulated, "MOST_PENDING", 3),
    ):
        yield


def case(seed: int) -> str:
    """One call of one metric in which one step raises."""
    rng = np.random.default_rng([seed, 41])
    names = list(SUBJECTS)
    name, call = names[seed % len(names)], str(rng.choice(list(CALLS)))
    way = str(rng.choice(list(WAYS)))
    with tempfile.TemporaryDirectory() as folder, _small_chunks(rng):
        scene = Scene(SUBJECTS[name], rng, Path(folder))
        return f"{call}, {way}: {_interrupted(scene, call, way, rng)}"


def _interrupted(scene: Scene, call: str, way: str, rng: np.random.Generator) -> str:
    before, other = contents(scene.metric), contents(scene.other)
    counted, finished, old = Steps(), scene.copied(), scene.path.read_bytes()
    with WAYS[way](counted):
        CALLS[call](finished)
    after, new = contents(finished.metric), scene.path.read_bytes()
    scene.path.write_bytes(old)
    error = ERRORS[int(rng.integers(len(ERRORS)))]
    steps = Steps(int(rng.integers(1, counted.count + 1)) if counted.count else None, error)
    try:
        with WAYS[way](steps):
            CALLS[call](scene)
    except BaseException as raised:
        if "planted" not in str(raised):
            raise
        outcome = "raised"
    else:
        outcome = "went on"  # no step of that number, or the call has another way
    found = contents(scene.metric)
    assert found in (before, after), f"the state is neither that before nor that after {call}"
    assert contents(scene.other) == other, f"{call} changed another metric"
    assert scene.path.read_bytes() in (old, new), f"{call} left half of a file"
    assert [path.name for path in scene.path.parent.iterdir()] == [scene.path.name]
    assert _is_free(scene.metric), f"{call} keeps the lock"
    if found == before:  # nothing is lost: the same call succeeds now
        CALLS[call](scene)
        assert contents(scene.metric) == after, f"{call} gives another state the second time"
    return outcome


def _is_free(metric: Any) -> bool:
    """Whether another thread may take the lock of a metric."""
    taken: list[bool] = []

    def take() -> None:
        taken.append(metric._lock.acquire(timeout=5))
        metric._lock.release()

    thread = threading.Thread(target=take)
    thread.start()
    thread.join()
    return taken == [True]


CAMPAIGN = Campaign("interruption", "exceptions that leave half of a change", case, 60)
