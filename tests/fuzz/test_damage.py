"""The campaign of damaged files finds what it looks for."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fuzz import damage
from fuzz.damage import check, outcome
from fuzz.formats import FORMATS, Format
from fuzz.mutations import words_damaged
from torch_vocmetrics import FileFormatError

NAMES = [form.name for form in FORMATS]


@pytest.mark.parametrize("form", FORMATS, ids=NAMES)
def test_whole_files_are_read_and_damage_is_seen(form: Format, tmp_path: Path) -> None:
    whole = form.seeds()
    kinds = []
    for number, data in enumerate(whole):
        (tmp_path / f"{number}").mkdir()
        path = tmp_path / f"{number}" / form.name
        path.write_bytes(data)
        kinds.append(outcome(form, path))
    assert set(kinds) == {"a result"}
    assert any(form.damage(random.Random(seed), whole[0]) != whole[0] for seed in range(5))


def failing(read: Callable[[Path], object]) -> Format:
    return Format("a.txt", words_damaged, lambda: [b"a"], read)


def kill(path: Path) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def say(sentence: str) -> Callable[[Path], object]:
    def read(path: Path) -> None:
        error = FileFormatError("")
        error.args = (sentence,)
        raise error

    return read


@pytest.mark.parametrize(
    ("read", "found"),
    [
        (lambda path: {}["key"], "KeyError: 'key'"),
        (kill, "signal 9"),
        (lambda path: bytearray(2 * damage.CHILD_BYTES), "MemoryError"),
        (lambda path: time.sleep(60), "signal 14"),
        (say("two\nlines"), "AssertionError: two"),
        (say(""), "AssertionError: 0"),
        (say("a" * 10_000), "AssertionError: 10000"),
    ],
)
def test_faults_are_found(
    monkeypatch: pytest.MonkeyPatch, read: Callable[[Path], object], found: str
) -> None:
    monkeypatch.setattr(damage, "CHILD_SECONDS", 1)
    with pytest.raises(AssertionError, match=r"a\.txt, file 0: signal") as caught:
        check(failing(read), [b"a", b"b"])
    assert found in str(caught.value)


def test_results_and_errors_are_no_faults() -> None:
    check(failing(lambda path: path.read_bytes()), [b"a", b"b"])
    check(failing(say("a sentence")), [b"a", b"b"])
    check(failing(lambda path: (path / "none").read_bytes()), [b"a"])
