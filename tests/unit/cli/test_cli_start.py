"""Help, versions, lists of protocols and usage errors need no torch: they answer at once."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

import torch_vocmetrics
from torch_vocmetrics.cli import main
from torch_vocmetrics.cli.arguments import SUBCOMMANDS, command_parser

HEAVY = ("torch", "numpy", "PIL", "scipy", "pycocotools")
CODE = f"""
import sys
from torch_vocmetrics.cli import main
code = main(sys.argv[1:])
print("CODE", code, *(name for name in {HEAVY!r} if name in sys.modules), file=sys.stderr)
"""

QUICK = [
    ([], 0),
    (["--help"], 0),
    (["--version"], 0),
    (["protocols"], 0),
    (["protocols", "--json"], 0),
    (["bogus"], 2),
    (["evaluate"], 2),
    (["evaluate", "detection/voc2007", "--max-file-size", "x"], 2),
    (["paint", "--painting", "oil"], 2),
    (["statistics", "--task", "none", "x"], 2),
    *(([name, "--help"], 0) for name in SUBCOMMANDS),
]


@pytest.mark.parametrize(("argv", "code"), QUICK, ids=str)
def test_answers_that_need_no_torch(argv: list[str], code: int) -> None:
    run = subprocess.run(
        [sys.executable, "-c", CODE, *argv], capture_output=True, text=True, check=True, timeout=120
    )
    assert run.stderr.splitlines()[-1] == f"CODE {code}", "more was imported than is needed"
    assert run.stdout or code


def test_one_protocol_needs_no_torch() -> None:
    run = subprocess.run(
        [sys.executable, "-c", CODE, "protocols", "coco2017"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert "torch" not in run.stderr.split()
    assert run.stdout.startswith("detection/coco2017: ")


def test_the_command_alone_prints_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    alone = capsys.readouterr().out
    assert main(["--help"]) == 0
    assert alone == capsys.readouterr().out
    assert all(name in alone for name in SUBCOMMANDS)


def test_every_subcommand_has_its_function() -> None:
    for subcommand in SUBCOMMANDS.values():
        module, function = subcommand.run.split(":")
        assert callable(getattr(import_module(f"torch_vocmetrics.cli.{module}"), function))


def test_other_words_for_the_interrupted_import(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(name: str, package: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("torch_vocmetrics.cli.command.import_module", interrupted)
    assert main(["protocols"]) == 130


def test_descriptions_are_sentences() -> None:
    for name, subcommand in SUBCOMMANDS.items():
        text = subcommand.add_arguments.__doc__ or ""
        assert text.strip().split("\n")[0].endswith("."), name
    assert command_parser().parse_args([]).run is None


# The package --------------------------------------------------------------------------------------


def test_the_package_is_imported_without_torch() -> None:
    code = "import sys, torch_vocmetrics; print('torch' in sys.modules, 'numpy' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["False", "False"]


def test_all_names_are_there() -> None:
    assert set(torch_vocmetrics.__all__) <= set(dir(torch_vocmetrics))
    for name in torch_vocmetrics.__all__:
        assert getattr(torch_vocmetrics, name).__name__ == name
    assert set(torch_vocmetrics._MODULES) <= set(torch_vocmetrics.__all__)
    with pytest.raises(AttributeError, match="module 'torch_vocmetrics' has no attribute 'nothi"):
        torch_vocmetrics.nothing  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        exec("from torch_vocmetrics import nothing")


def test_a_star_import_gives_all_names() -> None:
    names: dict[str, object] = {}
    exec("from torch_vocmetrics import *", names)
    assert set(torch_vocmetrics.__all__) <= set(names)
