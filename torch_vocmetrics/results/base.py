"""What all results have in common: numbers by name, as a dict, and as JSON."""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from .._version import __version__
from ..errors import InputError
from ..protocols import Protocol, protocol_title


class Result(ABC):
    """A frozen result; ``result["AP"]`` is ``result.to_dict()["AP"]``, ``dict(result)`` works."""

    protocol: Protocol

    @abstractmethod
    def to_dict(self) -> dict[str, float]:
        """Flat numbers for a logger; undefined is NaN."""

    @property
    def _names(self) -> tuple[str, ...]:
        """The names of what counts are per: classes or subsets."""
        return getattr(self, "class_names", ())

    def to_json(self) -> str:
        """:meth:`to_dict` as JSON text with protocol, counts and versions; undefined is ``null``.

        Beside the numbers there are ``protocol`` and its ``fingerprint``, ``counts`` (images,
        detections, ground truths that count per class, ...) and ``versions``.
        """
        numbers = {
            key: value if math.isfinite(value) else None for key, value in self.to_dict().items()
        }
        head = {
            "protocol": protocol_title(self.protocol),
            "fingerprint": self.protocol.fingerprint,
            "counts": self._counts(),
            "versions": {"torch_vocmetrics": __version__, "torch": str(torch.__version__)},
        }
        return json.dumps(head | numbers, indent=2)

    def _counts(self) -> dict[str, Any]:
        """Whole numbers of the result, and those of each class or subset."""
        counts: dict[str, Any] = {}
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            if not field.name.startswith("num_"):
                continue
            value = getattr(self, field.name)
            if isinstance(value, int):
                counts[field.name] = value
            elif value.dim() == 1:
                counts[field.name] = dict(zip(self._names, value.tolist(), strict=True))
        return counts

    def keys(self) -> list[str]:
        """The keys of :meth:`to_dict`."""
        return list(self.to_dict())

    def __getitem__(self, key: str) -> float:
        numbers = self.to_dict()
        if key not in numbers:
            near = difflib.get_close_matches(str(key), list(numbers), n=3, cutoff=0.5)
            raise InputError(
                f"the result has no number {key!r}",
                remedy=f"it has {', '.join(near or list(numbers)[:12])}",
            )
        return numbers[key]

    def __contains__(self, key: object) -> bool:
        return key in self.to_dict()

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())


def only_averaged(values: Tensor, averaged: Tensor) -> list[float]:
    """[K] values as numbers, NaN for classes over which no mean runs."""
    return torch.where(averaged, values, torch.nan).tolist()
