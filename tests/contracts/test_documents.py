"""The documents for developers name files, commands and rules that exist, and all rules."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import torch_vocmetrics
from torch_vocmetrics.protocols import TASKS
from torch_vocmetrics.protocols.rules import rules_of

ROOT = Path(__file__).parents[2]
PACKAGE = Path(torch_vocmetrics.__file__).parent
DOCUMENTS = [
    ROOT / "CONTRIBUTING.md",
    PACKAGE / "README.md",
    *(ROOT / folder / "README.md" for folder in ("configs", "tests", "benchmarks")),
]
PATH = re.compile(r"`((?:[\w.-]+/)+[\w.-]*|[\w-]+\.(?:py|toml|md))`")
LINK = re.compile(r"\]\(([\w./-]+)\)")
MODULE_COMMAND = re.compile(r"python -m ((?:benchmarks|torch_vocmetrics)[\w.]*)")
SCRIPT_COMMAND = re.compile(r"python ((?:benchmarks|tests)/[\w/]+\.py)")
MAKE_COMMAND = re.compile(r"make ([\w-]+)")
MADE_UP = {"my_rules.toml"}


def _names(path: Path) -> set[str]:
    text = path.read_text(encoding="utf-8")
    modules = {name.replace(".", "/") for name in MODULE_COMMAND.findall(text)}
    return {*PATH.findall(text), *LINK.findall(text), *SCRIPT_COMMAND.findall(text), *modules}


def _exists(name: str, document: Path) -> bool:
    folders = (ROOT, document.parent, PACKAGE)
    return any((folder / end).exists() for folder in folders for end in (name, f"{name}.py"))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_that_are_named_exist(document: Path) -> None:
    names = _names(document) - MADE_UP
    assert [name for name in sorted(names) if not _exists(name, document)] == []


def test_the_patterns_find_what_the_documents_name() -> None:
    names = set[str]().union(*map(_names, DOCUMENTS))
    assert {"tests/README.md", "tests/unit", "matching/greedy.py", "benchmarks/scale"} <= names


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_make_targets_that_are_named_exist(document: Path) -> None:
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    blocks = re.findall(r"^\$ (make .*)$|`(make [\w-]+)[^`]*`", document.read_text("utf-8"), re.M)
    named = {name for block in blocks for text in block for name in MAKE_COMMAND.findall(text)}
    assert sorted(named - set(targets)) == []


def _section(text: str, task: str) -> str:
    """The part of ``configs/README.md`` that explains the keys of a task."""
    parts = re.split(r"^## Keys of ", text, flags=re.M)[1:]
    return next(part for part in parts if f"`{task}`" in part.splitlines()[0])


@pytest.mark.parametrize("task", sorted(TASKS))
def test_every_key_of_a_protocol_is_explained(task: str) -> None:
    section = _section((ROOT / "configs" / "README.md").read_text(encoding="utf-8"), task)
    explained = set(re.findall(r"`(\w+)`", section))
    rules = {rule.name for rule in rules_of(TASKS[task])}
    assert sorted(rules - explained) == []
    tables = {rule.metadata["table"] for rule in rules_of(TASKS[task])}
    assert sorted(tables - explained) == []
