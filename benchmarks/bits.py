"""Comparing two metrics bit for bit: their records and every value of their results."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor


@dataclasses.dataclass
class Comparison:
    """How many values were compared, and the names of those that differ."""

    compared: int = 0
    values: int = 0
    differing: list[str] = dataclasses.field(default_factory=list)

    def __add__(self, other: Comparison) -> Comparison:
        return Comparison(
            self.compared + other.compared,
            self.values + other.values,
            self.differing + other.differing,
        )

    def as_dict(self) -> dict[str, Any]:
        return {
            "arrays_compared": self.compared,
            "values_compared": self.values,
            "differing": self.differing[:50],
        }


def compare_metrics(name: str, host: Any, other: Any, device: torch.device) -> Comparison:
    """Records, which must lie on ``device``, and results of two metrics."""
    found = Comparison()
    records, others = host.state_dict()["records"], other.state_dict()["records"]
    away = [
        key
        for table in others
        for key, column in table.items()
        if isinstance(column, Tensor) and column.device.type != device.type
    ]
    found.differing += [f"{name}: {key} is not on {device.type}" for key in away]
    found += compare(f"{name}: records", records, others)
    return found + compare(f"{name}: result", host.compute(), other.compute())


def compare(name: str, first: Any, second: Any) -> Comparison:
    """All leaves of two structures of the same form."""
    mine, theirs = dict(leaves(first)), dict(leaves(second))
    found = Comparison()
    found.differing += [f"{name}{path} is on one side only" for path in mine.keys() ^ theirs.keys()]
    for path in mine.keys() & theirs.keys():
        found.compared += 1
        found.values += mine[path][1]
        if mine[path] != theirs[path]:
            found.differing.append(f"{name}{path}")
    return found


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, tuple[str, int, bytes]]]:
    """Every tensor, number and word under a value: its path, type and shape, size, and bits."""
    if isinstance(value, Tensor):
        held = value.detach().cpu().contiguous()
        bits = held.numpy().tobytes()
        yield path, (f"{held.dtype} {tuple(held.shape)}", held.numel(), bits)
    elif isinstance(value, float):
        yield path, ("float", 1, struct.pack("<d", value))
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from leaves(getattr(value, field.name), f"{path}.{field.name}")
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield from leaves(one, f"{path}[{key!r}]")
    elif isinstance(value, tuple | list):
        for place, one in enumerate(value):
            yield from leaves(one, f"{path}[{place}]")
    else:
        yield path, (type(value).__name__, 1, repr(value).encode())
