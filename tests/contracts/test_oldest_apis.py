"""Nothing newer than the oldest supported versions is used, as far as names tell.

``make test-oldest`` runs the tests under these versions; their wheels are too large for every run
of CI, which checks names only. Arguments that a function has got later are not noticed here.
"""

from __future__ import annotations

import re

import pytest
import torch
from contracts.apis import CLASSES, LIST, PACKAGE, sources, used_attributes, used_names

LINES = LIST.read_text().splitlines()
VERSIONS = dict(part.split(" ") for part in LINES[0].removeprefix("# ").split(", "))
KNOWN = set(LINES[1:])
MODULES = {name.rpartition(".")[0] for name in KNOWN} - set(CLASSES)

AMBIGUOUS = {"index"}
"""Methods of newer tensors that lists have too."""

GUARDED = {"numpy.bitwise_count"}
"""Used behind ``hasattr`` only."""


def unknown(text: str) -> set[str]:
    """Names in a module that the oldest versions do not have."""
    missing = set()
    for name in used_names(text) - GUARDED:
        parts = name.split(".")
        for length in range(1, len(parts) + 1):
            prefix = ".".join(parts[:length])
            if parts[length - 1].startswith("__"):
                break
            if prefix not in KNOWN:
                missing.add(prefix)
                break
            if prefix not in MODULES:  # an object, whose attributes the list does not have
                break
    for attribute in used_attributes(text):
        newer = hasattr(torch.Tensor, attribute) and f"torch.Tensor.{attribute}" not in KNOWN
        if newer and attribute not in AMBIGUOUS and not attribute.startswith("_"):
            missing.add(f"torch.Tensor.{attribute}")
    return missing


@pytest.mark.parametrize("module", sources())
def test_no_name_is_newer_than_the_lower_bounds(module: str) -> None:
    assert not unknown(sources()[module])


def test_the_lower_bounds_are_those_of_the_list() -> None:
    project = (PACKAGE.parent / "pyproject.toml").read_text(encoding="utf-8")
    for name in ("torch", "torchvision", "numpy"):
        bound = re.search(rf'"{name}>=([\d.]+)"', project)
        assert bound is not None, name
        listed = VERSIONS[name].split("+")[0]
        assert listed == bound[1] or listed.startswith(f"{bound[1]}."), name


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("import torch\ntorch.no_such_function(1)", {"torch.no_such_function"}),
        ("import torch as t\nt.nn.functional.no_such(1)", {"torch.nn.functional.no_such"}),
        ("import torch.distributed as dist\ndist.no_such()", {"torch.distributed.no_such"}),
        ("from torch import NoSuch", {"torch.NoSuch"}),
        ("import numpy as np\nnp.no_such(1)", {"numpy.no_such"}),
        ("import numpy as np\nnp.add.reduceat([1], [0])", set()),
        ("import torch\ntorch.zeros(3).sum()", set()),
    ],
)
def test_newer_names_are_noticed(text: str, names: set[str]) -> None:
    assert unknown(text) == names


def test_newer_methods_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.Tensor, "no_such_method", None, raising=False)
    assert unknown("x.no_such_method()") == {"torch.Tensor.no_such_method"}
