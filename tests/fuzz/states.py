"""Forged states: files with the right SHA-256 and state dicts, in which anything was changed."""

from __future__ import annotations

import copy
import json
import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from distributed.registry import SUBJECTS, images
from helpers.generator import random_problem, random_protocol
from torch import Tensor

from torch_vocmetrics import DetectionAP, Metric, StateError, VocMetricsError
from torch_vocmetrics.states.files import _digest, sealed
from torch_vocmetrics.testing import differences, rebatched, same

from .campaign import Campaign

Rng = np.random.Generator

JUNK: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**31, 2**63, -(2**70), 0.5, 1e308, "", "x", "inf", [], {}, [[]],
    [0.5], ["a", 1], [None], {"tensor": "nothing"}, {"tensor": 5}, {"numbers": "x"}, {"pairs": []},
    {"text": []}, {"linspace": [0, 1, 10**7]}, "\x00", "\ud800", [1, 2, 3], [True, False],
)  # fmt: skip
DTYPES = (
    np.bool_, np.uint8, np.int8, np.int16, np.int32, np.int64, np.float16, np.float32, np.float64,
    np.dtype(">i8"), np.dtype(">f4"), np.complex64, np.uint64,
)  # fmt: skip
EXTREMES = (-1, 0, 1, 2, 127, 128, 2**31 - 1, -(2**31), 2**62, 2**63 - 1, -(2**63))


def case(seed: int) -> str:
    """One state, saved, changed and read again: it is refused and nothing lost, or it is sound."""
    rng = np.random.default_rng(seed)
    metric = _metric(seed, rng)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state"
        metric.save_state(path)
        same(metric.state_dict(), Metric.from_states(path).state_dict(), "a state through a file")
        if seed % 3 == 0:
            return "state dict: " + _forged_dict(metric, rng, path)
        return "file: " + _forged_file(metric, rng, path)


def _metric(seed: int, rng: Rng) -> Metric[Any]:
    """Any metric with some images; one in eight follows rules made at random."""
    if rng.random() < 0.125:
        protocol = random_protocol(seed)
        problem = random_problem(seed, protocol)
        return DetectionAP(protocol, **problem.kwargs).update(*problem[:2])
    subject = SUBJECTS[_any(rng, list(SUBJECTS))]
    metric = subject.new()
    count = int(rng.integers(0, 9))
    for batch in rebatched(images(subject, count, ids=bool(rng.random() < 0.7)), 4):
        metric.update(*batch)
    return metric


def _forged_dict(metric: Metric[Any], rng: Rng, path: Path) -> str:
    state = copy.deepcopy(metric.state_dict())
    for _ in range(int(rng.integers(1, 3))):
        _change(state, rng)
    return _outcome(metric, lambda: copy.deepcopy(metric).reset().load_state_dict(state), path)


def _forged_file(metric: Metric[Any], rng: Rng, path: Path) -> str:
    with np.load(path) as file:
        arrays = dict(file)
    header = json.loads(arrays.pop("header").tobytes())
    content = {"header": header, "arrays": arrays}
    for _ in range(int(rng.integers(1, 3))):
        part = _any(rng, ["header", "arrays", "arrays"])
        _change(content[part] if content[part] else content, rng)
    header, arrays = content.get("header"), content.get("arrays")
    if not isinstance(header, dict) or not isinstance(arrays, dict):
        return "no file"
    arrays = {str(name): np.asarray(array) for name, array in arrays.items()}
    arrays = {name: array for name, array in arrays.items() if array.dtype != object}
    columns = header.get("columns")
    header = sealed(header, arrays, {})
    if rng.random() < 0.1:
        header["columns"] = columns
        header["sha256"] = _digest(header)
    letters = np.frombuffer(json.dumps(header).encode(), np.uint8)
    with path.open("wb") as out:
        np.savez(out, **{**arrays, "header": letters})
    read = _any(rng, [lambda: Metric.from_states(path), lambda: metric.load_state(path)])
    return _outcome(metric, read, path)


def _outcome(metric: Metric[Any], read: Callable[[], Metric[Any]], path: Path) -> str:
    """Refused with one sentence and the state as before, or a metric that works."""
    before = copy.deepcopy(metric.state_dict())
    try:
        forged = read()
    except StateError as error:
        if "\n" in str(error):
            raise
        assert not list(differences(before, metric.state_dict()))
        return "refused"
    try:
        result = forged.compute()
    except VocMetricsError:
        return "accepted, no result"
    for one in result.values() if isinstance(result, dict) else [result]:
        rules = getattr(one, "protocol", None)
        if set(getattr(rules, "reusable_flags", ())) - {*_ignored(rules)}:
            continue  # objects that count may be matched twice
        for key, value in one.to_dict().items():
            assert math.isnan(value) or -1e-12 <= value <= 1 + 1e-12, (key, value)
    state = forged.state_dict()
    same(state, copy.deepcopy(forged).reset().load_state_dict(state).state_dict(), "read again")
    forged.save_state(path)
    same(state, Metric.from_states(path).state_dict(), "saved again")
    copy.deepcopy(forged).reset().merge(forged).compute()
    return "accepted, unchanged" if not list(differences(before, state)) else "accepted, changed"


def _ignored(protocol: Any) -> tuple[str, ...]:
    return getattr(protocol, "ignored_flags", ())


# Changes ------------------------------------------------------------------------------------------


def _change(tree: Any, rng: Rng) -> None:
    """Change one entry of nested dicts and lists, somewhere."""
    while True:
        keys = list(tree) if isinstance(tree, dict) else list(range(len(tree)))
        if not keys:
            return
        key = _any(rng, keys)
        below = tree[key]
        if not (isinstance(below, dict | list) and below and rng.random() < 0.9):
            break
        tree = below
    kind = rng.random()
    if isinstance(below, Tensor | np.ndarray) and kind < 0.85:
        tree[key] = _changed_column(below, rng)
    elif kind < 0.9 and isinstance(below, int | float) and not isinstance(below, bool):
        tree[key] = _any(rng, [below + 1, below - 1, below + 0.5, -below, below * 2**40])
    elif kind < 0.95:
        tree[key] = copy.deepcopy(_any(rng, list(JUNK)))
    else:
        del tree[key]


def _changed_column(column: Any, rng: Rng) -> Any:
    """Other values, another order, shape or dtype."""
    array = column.numpy().copy() if isinstance(column, Tensor) else column.copy()
    change = _any(rng, [_values, _values, _values, _order, _shape, _dtype])
    with np.errstate(all="ignore"):
        array = change(array, rng)
    if not isinstance(column, Tensor):
        return array
    try:
        return torch.from_numpy(np.ascontiguousarray(array))
    except (TypeError, ValueError):
        return array


def _values(array: Any, rng: Rng) -> Any:
    if not array.size:
        return array
    flat = array.reshape(-1)
    rows = rng.integers(0, flat.size, int(rng.integers(1, 3)))
    if array.dtype.kind == "f":
        flat[rows] = _any(rng, [math.nan, math.inf, -math.inf, -1.0, 2.0, 1e300, 0.5])
    elif rng.random() < 0.5:
        flat[rows] += np.array(_any(rng, [1, -1])).astype(array.dtype)
    else:
        flat[rows] = np.array(_any(rng, list(EXTREMES))).astype(array.dtype)
    return array


def _order(array: Any, rng: Rng) -> Any:
    return array[::-1] if rng.random() < 0.5 else rng.permutation(array)


def _shape(array: Any, rng: Rng) -> Any:
    return _any(
        rng,
        [array[:-1], array[None], array.reshape(-1), array[:, None], array.sum(), array[..., :0],
         np.concatenate([array, array])],
    ) if array.ndim else array  # fmt: skip


def _dtype(array: Any, rng: Rng) -> Any:
    return array.astype(_any(rng, list(DTYPES)))


def _any(rng: Rng, choices: list[Any]) -> Any:
    return choices[int(rng.integers(len(choices)))]


CAMPAIGN = Campaign("states", "forged states that are accepted, or end in another error", case, 120)
