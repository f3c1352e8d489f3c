"""The lines of files.jsonl: files as people have them, a command, and what it should say.

A case that the command cannot take may be refused: ``any_of`` lists the answers that are right.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.support import name_of, shared_file
from PIL import Image

from torch_vocmetrics.cli import main

TOLERANCE = 1e-9
KEYS = {"exit", "numbers", "says", "says_not"}


def load_file_cases() -> list[dict[str, Any]]:
    path = shared_file("cases", "files.jsonl")
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return [json.loads(line) for line in lines if line.strip()]


CASES = load_file_cases()


def test_every_line_of_the_file_is_a_case() -> None:
    """A folder may have no such file, but an empty list beside a file would test nothing."""
    assert bool(CASES) == shared_file("cases", "files.jsonl").is_file()


def write_files(folder: Path, files: dict[str, Any]) -> None:
    """Write text as it is, ``{"png": rows of RGB pixels}`` as an image, the rest as JSON."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            path.write_bytes(content.encode())
        elif isinstance(content, dict) and content.keys() == {"png"}:
            Image.fromarray(np.array(content["png"], dtype=np.uint8)).save(path)
        else:
            path.write_text(json.dumps(content), encoding="utf-8")


def numbers_by_key(content: Any) -> dict[str, list[Any]]:
    """The values of every key of a JSON document, at whatever depth."""
    found: dict[str, list[Any]] = {}
    entries = content.items() if isinstance(content, dict) else enumerate(content)
    for key, value in entries:
        found.setdefault(str(key), []).append(value)
        if isinstance(value, dict | list):
            for name, values in numbers_by_key(value).items():
                found.setdefault(name, []).extend(values)
    return found


def is_close(got: Any, wanted: float | None) -> bool:
    if got is None or wanted is None:
        return got is wanted
    return isinstance(got, int | float) and math.isclose(got, wanted, abs_tol=TOLERANCE, rel_tol=0)


def differences(expected: dict[str, Any], status: int, output: str, errors: str) -> list[str]:
    """Say how an answer differs from the expected one."""
    assert expected.keys() <= KEYS, expected.keys() - KEYS
    found = [] if status == expected["exit"] else [f"exit status {status}: {errors}"]
    for word in expected.get("says", ()):
        if word not in errors:
            found.append(f"does not say {word!r}: {errors}")
    for word in expected.get("says_not", ()):
        if word in errors:
            found.append(f"says {word!r}: {errors}")
    if expected.get("numbers") and not found:
        values = numbers_by_key(json.loads(output))
        for key, wanted in expected["numbers"].items():
            if not any(is_close(got, wanted) for got in values.get(key, ())):
                found.append(f"{key} is {values.get(key)} and not {wanted}")
    return found


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_files(
    case: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_files(tmp_path, case["files"])
    monkeypatch.chdir(tmp_path)
    program, *arguments = shlex.split(case["command"])
    assert program == "vocmetrics"
    status = main(arguments)
    output, errors = capsys.readouterr()
    assert "Traceback" not in errors
    if status:  # A refusal is the last line, after any warnings.
        assert re.fullmatch(r"vocmetrics( \w+)?: error: .+", errors.splitlines()[-1])
    expected = case["expected"]
    answers = expected.get("any_of", [expected])
    results = [differences(answer, status, output, errors) for answer in answers]
    assert not all(results), results
