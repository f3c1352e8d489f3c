"""The command with broken streams, hostile text and options that cannot be followed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from torch_vocmetrics import FileFormatError, InputError, VocMetricsWarning
from torch_vocmetrics.cli import main
from torch_vocmetrics.errors import printable
from torch_vocmetrics.io import write_label_map
from torch_vocmetrics.io.caltech import evaluated_frames

ROOT = Path(__file__).parents[3]
HOSTILE = "a\nb\r\x1b[31m\x9b2J\u202e\u2028\ud800"
ESCAPED = r"a\nb\r\x1b[31m\x9b2J\u202e\u2028\ud800"
COMMAND = f"{sys.executable} -m torch_vocmetrics"


def test_printable() -> None:
    assert printable("plain text, ä, 猫") == "plain text, ä, 猫"
    assert printable(HOSTILE) == ESCAPED


def test_errors_and_warnings_are_one_printable_line() -> None:
    error = FileFormatError(HOSTILE, where=HOSTILE, got=HOSTILE, remedy=HOSTILE)
    assert str(error) == f"{ESCAPED}: {ESCAPED}, got {ESCAPED}; {ESCAPED}"
    assert str(VocMetricsWarning(HOSTILE)) == ESCAPED
    with pytest.warns(VocMetricsWarning) as caught:
        warnings.warn(HOSTILE, VocMetricsWarning, stacklevel=1)
    assert str(caught[0].message) == ESCAPED


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    environment.pop("PYTHONUNBUFFERED", None)  # argparse passes over what fails at once
    return subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        cwd=folder,
        timeout=120,
    )


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("protocols >&-", 2, "vocmetrics: error: standard output: Bad file descriptor\n"),
        ("protocols > /dev/full", 2, "error: standard output: No space left on device\n"),
        ("--help > /dev/full", 2, "error: standard output: No space left on device\n"),
        ("> /dev/full", 2, "error: standard output: No space left on device\n"),
        ("protocols voc207 2> /dev/full", 2, ""),
        ("protocols >&- 2>&-", 2, ""),
    ],
)
def test_streams_that_are_closed_or_full(
    tmp_path: Path, command: str, code: int, said: str
) -> None:
    done = shell(f"{COMMAND} {command}", tmp_path)
    assert done.returncode == code
    assert done.stderr.endswith(said)
    assert done.stderr.count("\n") == bool(said)


@pytest.fixture
def coco(tmp_path: Path) -> Path:
    box = [0, 0, 10, 10]
    ground_truth = {
        "images": [{"id": 1}],
        "categories": [{"id": 4, "name": HOSTILE}, {"id": 8, "name": "x" * 10**6}],
        "annotations": [{"id": 0, "image_id": 1, "category_id": 8, "bbox": box}],
    }
    (tmp_path / "gt.json").write_text(json.dumps(ground_truth))
    (tmp_path / "dt.json").write_text("[]")
    return tmp_path


def of_coco(folder: Path, *more: str) -> list[str]:
    files = ["--ground-truth", str(folder / "gt.json"), "--detections", str(folder / "dt.json")]
    return ["evaluate", "detection/coco2017", *files, *more]


def test_text_from_files_is_escaped_and_cut(coco: Path, capsys: Any) -> None:
    assert main(of_coco(coco)) == 0
    printed = capsys.readouterr()
    assert ESCAPED in printed.out
    assert len(printed.out) < 10_000
    assert "\x1b" not in printed.out + printed.err
    moved = coco / "x\x1b[2Jy"
    (coco / "gt.json").rename(moved.with_suffix(".json"))
    argv = [
        str(moved.with_suffix(".json")) if one.endswith("gt.json") else one for one in of_coco(coco)
    ]
    (coco / "dt.json").write_text('[{"image_id": "\\u001b[2J"}]')
    assert main(argv) == 2
    assert "\x1b" not in capsys.readouterr().err
    argv[argv.index(str(coco / "dt.json"))] = str(coco / "no\x1b[2J")
    assert main(argv) == 2
    assert r"no\x1b[2J: No such file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--json", "{}"), "is a folder"),
        (("--json", "{}/none/a.json"), "the folder does not exist"),
        (("--save-state", "{}"), "is a folder"),
        (("--save-state", "{}/none/a.npz"), "the folder does not exist"),
    ],
)
def test_outputs_are_refused_before_the_work(
    coco: Path, more: tuple[str, str], said: str, capsys: Any
) -> None:
    (coco / "gt.json").write_text("damaged")
    assert main(of_coco(coco, more[0], more[1].format(coco))) == 2
    assert said in capsys.readouterr().err


def test_folders_are_refused_before_the_work(tmp_path: Path, capsys: Any) -> None:
    taken = tmp_path / "file"
    taken.write_text("kept")
    for argv in (
        ("view", "none", "--output", str(taken)),
        ("view", "none", "--output", str(taken / "below")),
        ("paint", "--images", "none", "--detections", "none", "--output", str(taken)),
        ("convert", "none.json", str(taken)),
    ):
        assert main([*argv]) == 2
        assert "is not a folder" in capsys.readouterr().err
    assert main(["convert", str(tmp_path), str(tmp_path)]) == 2
    assert "is a folder" in capsys.readouterr().err


def test_a_full_disk_names_the_file(coco: Path, capsys: Any) -> None:
    assert main(of_coco(coco, "--json", "/dev/full")) == 2
    assert capsys.readouterr().err.endswith("/dev/full: No space left on device\n")


def test_memory_that_is_not_enough(coco: Path, capsys: Any, monkeypatch: Any) -> None:
    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("torch_vocmetrics.io.read_coco_ground_truths", fail)
    assert main(of_coco(coco)) == 2
    assert "the memory is not enough" in capsys.readouterr().err


def test_an_interruption_while_modules_are_imported(capsys: Any, monkeypatch: Any) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("torch_vocmetrics.cli.command.import_module", interrupt)
    assert main(["protocols"]) == 130
    assert capsys.readouterr().err == "vocmetrics: interrupted\n"


def test_lists_that_are_not_utf8(tmp_path: Path, capsys: Any) -> None:
    for task in ("Main", "Layout"):
        listed = tmp_path / "ImageSets" / task / "test.txt"
        listed.parent.mkdir(parents=True)
        listed.write_bytes(b"000001\n\xff\n")
        assert main(["statistics", str(tmp_path), "--task", task]) == 2
        assert "test.txt, line 2: not UTF-8 text" in capsys.readouterr().err


def test_a_step_beyond_all_frames(tmp_path: Path, capsys: Any) -> None:
    for step in (0, -1, 2**31, 10**30):
        with pytest.raises(InputError, match="step: must be at least 1 and below"):
            evaluated_frames(100, step)
    assert list(evaluated_frames(100, 2**31 - 1)) == []


def test_a_larger_image_on_request(tmp_path: Path, capsys: Any) -> None:
    for name in ("true", "found"):
        (tmp_path / name).mkdir()
        write_label_map(tmp_path / name / "a.png", np.zeros((9, 9), np.uint8))
    argv = ["evaluate", "segmentation/voc2012", "--ground-truth", str(tmp_path / "true")]
    argv += ["--detections", str(tmp_path / "found"), "--max-pixels"]
    assert main([*argv, "80"]) == 2
    assert "a.png: the image is larger than the limit of 80 pixels" in capsys.readouterr().err
    assert main([*argv, "81"]) == 0


def test_output_errors_are_input_errors() -> None:
    from torch_vocmetrics.cli.outputs import check_output_file  # noqa: PLC0415

    with pytest.raises(InputError, match="--json /: is a folder"):
        check_output_file(Path("/"), "--json")
