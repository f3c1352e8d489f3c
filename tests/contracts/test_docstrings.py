"""Public names are documented, and the examples in docstrings run."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil

import torch_vocmetrics

# These need extras, and one of their packages changes torch: see tests/integrations.
TRAINERS = (
    "torch_vocmetrics.integrations.",
    "torch_vocmetrics.examples.train_with_",
    "torch_vocmetrics.examples.evaluate_with_",
)

MODULES = [
    importlib.import_module(module.name)
    for module in pkgutil.walk_packages(torch_vocmetrics.__path__, "torch_vocmetrics.")
    if not module.name.endswith("__main__") and not module.name.startswith(TRAINERS)
]


def test_examples_run() -> None:
    tried = 0
    for module in MODULES:
        outcome = doctest.testmod(module, verbose=False)
        assert outcome.failed == 0, module.__name__
        tried += outcome.attempted
    assert tried > 5


def test_public_names_say_what_they_are() -> None:
    checked = 0
    for module in MODULES:
        assert module.__doc__, module.__name__
        for name, value in vars(module).items():
            if name.startswith("_") or getattr(value, "__module__", None) != module.__name__:
                continue
            if not (inspect.isclass(value) or inspect.isfunction(value)):
                continue
            assert value.__doc__, f"{module.__name__}.{name}"
            checked += 1
            for member, method in vars(value).items() if inspect.isclass(value) else ():
                if inspect.isfunction(method) and not member.startswith("_"):
                    documented = method.__doc__ or getattr(value.__mro__[1], member, None)
                    assert documented, f"{module.__name__}.{name}.{member}"
    assert checked > 50
