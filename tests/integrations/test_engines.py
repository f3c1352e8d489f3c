"""Shards by engines that start work elsewhere: the real library, and the number of one process."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import torch_vocmetrics
from torch_vocmetrics import Metric
from torch_vocmetrics.cli import main
from torch_vocmetrics.examples.loaders import validate_alone
from torch_vocmetrics.examples.scenes import make_scenes
from torch_vocmetrics.examples.shards import evaluate_shard, trained_detector

pytestmark = pytest.mark.slow

ROOT = Path(torch_vocmetrics.__file__).parents[1]
SCRIPT = Path(torch_vocmetrics.__file__).parent / "examples" / "evaluate_array_job.sh"
SCENES, SHARDS, SECONDS = 37, 3, 240


def alone() -> float:
    return validate_alone(trained_detector(), make_scenes(SCENES, seed=(0, 0))).headline


def output_of(module: str, *arguments: str) -> str:
    """What an example prints; it ends with all its children if it takes too long."""
    with subprocess.Popen(
        [sys.executable, "-m", f"torch_vocmetrics.examples.{module}", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    assert process.returncode == 0, output
    return output


@pytest.mark.parametrize(("engine", "package"), [("ray", "ray"), ("dask", "distributed")])
def test_an_engine_gives_the_number_of_one_process(engine: str, package: str) -> None:
    try:
        print(package, importlib.metadata.version(package))
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{package} is not installed: it comes with the extra {engine}")
    sizes = ["--validation-scenes", str(SCENES), "--shards", str(SHARDS)]
    output = output_of(f"evaluate_with_{engine}", *sizes)
    (number,) = re.findall(f"{SHARDS} shards: {SCENES} images, mAP ([0-9.e-]+)", output)
    assert float(number) == alone() > 0


def test_shards_without_an_engine(tmp_path: Path) -> None:
    """A shard that is evaluated again replaces its file and changes nothing."""
    shards = [*range(SHARDS), 1]
    paths = [evaluate_shard(shard, SHARDS, SCENES, str(tmp_path)) for shard in shards]
    assert len(set(paths)) == SHARDS
    result = Metric.from_states(*paths[:SHARDS]).compute()
    assert (result.num_images, result.headline) == (SCENES, alone())


# Array jobs ---------------------------------------------------------------------------------------


def coco_shard(folder: Path, name: str, images: range) -> None:
    annotations: list[dict[str, Any]] = [
        {"image_id": image, "category_id": 1, "bbox": [10, 5 * image, 40, 30]} for image in images
    ]
    found = [one | {"score": (one["image_id"] * 7) % 5 / 5} for one in annotations]
    truth = {
        "images": [{"id": image} for image in images],
        "categories": [{"id": 1, "name": "cat"}],
        "annotations": [
            one | {"id": n + 1} for n, one in enumerate(annotations) if one["image_id"] % 3
        ],
    }
    (folder / f"gt_{name}.json").write_text(json.dumps(truth))
    (folder / f"dt_{name}.json").write_text(json.dumps(found))


@pytest.fixture
def command(tmp_path: Path) -> dict[str, str]:
    """An environment in which ``vocmetrics`` is this package's."""
    program = tmp_path / "bin" / "vocmetrics"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m torch_vocmetrics "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    return os.environ | {"PATH": path, "PYTHONPATH": str(ROOT)}


@pytest.mark.parametrize("variable", ["SLURM_ARRAY_TASK_ID", "PBS_ARRAY_INDEX"])
def test_an_array_job(
    variable: str, tmp_path: Path, command: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "data of a job"
    folder.mkdir()
    for task in range(2):
        coco_shard(folder, str(task), range(task, 12, 2))
        subprocess.run(
            ["sh", SCRIPT, "shard", folder],
            env=command | {variable: str(task)}, check=True, timeout=SECONDS,
        )  # fmt: skip
    subprocess.run(["sh", SCRIPT, "merge", folder], env=command, check=True, timeout=SECONDS)
    merged = json.loads((folder / "result.json").read_text())
    coco_shard(tmp_path, "all", range(12))
    files = ["--ground-truth", tmp_path / "gt_all.json", "--detections", tmp_path / "dt_all.json"]
    assert main(["evaluate", "coco2017", *map(str, files), "--json", "-"]) == 0
    whole = json.loads(capsys.readouterr().out)
    assert merged["summary"] == whole["summary"]
    assert merged["num_images"] == 12


def test_an_array_job_says_what_it_lacks(tmp_path: Path, command: dict[str, str]) -> None:
    for key in ("SLURM_ARRAY_TASK_ID", "PBS_ARRAY_INDEX", "AWS_BATCH_JOB_ARRAY_INDEX"):
        command.pop(key, None)
    for arguments, words in ((["shard"], "no number of an array task"), (["both"], "usage:")):
        done = subprocess.run(
            ["sh", SCRIPT, *arguments, tmp_path],
            env=command, check=False, capture_output=True, text=True, timeout=SECONDS,
        )  # fmt: skip
        assert done.returncode
        assert words in done.stderr
