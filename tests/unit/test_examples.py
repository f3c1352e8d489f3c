"""The example programs run, and what they generate is what they say."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest
import torch

from torch_vocmetrics.examples import size_bias_study, validate_every_epoch
from torch_vocmetrics.examples.detector import TinyDetector
from torch_vocmetrics.examples.scenes import CLASS_NAMES, SIZE, SMALLEST_VISIBLE, make_scenes

pytestmark = pytest.mark.slow


def test_program_prints_one_row_per_epoch_and_the_map_rises(tmp_path):
    command = [sys.executable, "-m", "torch_vocmetrics.examples.validate_every_epoch"]
    sizes = ["--epochs", "2", "--train-scenes", "400", "--validation-scenes", "50"]
    has_jinja = importlib.util.find_spec("jinja2") is not None  # else without a report
    report = ["--report", str(tmp_path / "demo" / "report.html")] if has_jinja else []
    done = subprocess.run(
        [*command, *sizes, "--device", "cpu", *report], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    header, *rows = done.stdout.splitlines()
    if report:
        assert rows.pop() == f"report: {report[1]}"
        text = (tmp_path / "demo" / "report.html").read_text()
        assert "A tiny detector on generated scenes" in text
        assert text.count("data:image/jpeg") > 10
    for name in ("epoch", "loss", "mAP voc2007", "mAP voc2012", "AP coco2017", "AP50"):
        assert name in header
    assert {len(row) for row in rows} == {len(header)}
    table = [[float(cell) for cell in row.split()] for row in rows]
    assert [row[0] for row in table] == [1, 2]
    assert all(len(row) == 8 for row in table)
    assert all(0 <= value <= 1 for row in table for value in row[2:6])
    assert all(row[5] >= row[4] for row in table)  # AP50 is the easiest threshold of AP


@pytest.mark.parametrize("history", [[0.5, 0.4], [0.5, 0.5], [0.5, 0.9, float("nan")]])
def test_program_fails_if_the_map_does_not_rise(monkeypatch, history):
    monkeypatch.setattr(validate_every_epoch, "run", lambda options: history)
    with pytest.raises(SystemExit, match="did not rise"):
        validate_every_epoch.main([])


@pytest.mark.parametrize("history", [[0.5], [0.1, 0.05, 0.6]])
def test_program_succeeds_if_it_rises_or_there_is_one_epoch(monkeypatch, history):
    monkeypatch.setattr(validate_every_epoch, "run", lambda options: history)
    assert validate_every_epoch.main([]) is None


@pytest.mark.parametrize("number", ["0", "-1", "many"])
def test_program_refuses_sizes_that_are_none(capsys, number):
    with pytest.raises(SystemExit, match="2"):
        validate_every_epoch.main(["--epochs", number])
    assert "--epochs" in capsys.readouterr().err


def test_scenes_are_the_same_for_the_same_seed():
    first, again, other = (make_scenes(20, seed=seed) for seed in (3, 3, 4))
    for a, b in zip(first, again, strict=True):
        assert torch.equal(a.image, b.image)
        assert torch.equal(a.owner, b.owner)
        assert a.target.keys() == b.target.keys()
        for key, value in a.target.items():
            same = b.target[key]
            assert torch.equal(value, same) if isinstance(value, torch.Tensor) else value == same
    assert not torch.equal(first[0].image, other[0].image)
    shorter = make_scenes(5, seed=3)
    assert all(torch.equal(a.image, b.image) for a, b in zip(shorter, first[:5], strict=True))


def test_boxes_of_scenes_are_tight_around_what_is_visible():
    for scene in make_scenes(200, seed=0):
        boxes = scene.target["boxes"]
        assert boxes.shape == (len(scene.target["labels"]), 4)
        assert int(scene.owner.max()) == len(boxes) - 1
        for row, box in enumerate(boxes.tolist()):
            down, right = torch.where(scene.owner == row)
            assert len(down) >= SMALLEST_VISIBLE
            tight = [right.min(), down.min(), right.max() + 1, down.max() + 1]
            assert box == [float(edge) for edge in tight]


def test_scenes_hold_what_the_protocols_treat_differently():
    scenes = make_scenes(300, seed=0)
    targets = [scene.target for scene in scenes]
    assert [target["image_id"] for target in targets] == list(range(300))
    assert all(scene.image.shape == (3, SIZE, SIZE) for scene in scenes)
    assert all(scene.image.min() >= 0 and scene.image.max() <= 1 for scene in scenes)
    labels = torch.cat([target["labels"] for target in targets])
    difficult = torch.cat([target["difficult"] for target in targets])
    crowd = torch.cat([target["iscrowd"] for target in targets])
    assert labels.bincount().shape == (len(CLASS_NAMES),)
    assert 0.05 < difficult.float().mean() < 0.3
    assert 0.01 < crowd.float().mean() < 0.1
    assert difficult[crowd].all()


def test_detector_trains_on_scenes_without_objects():
    torch.manual_seed(0)
    model = TinyDetector(len(CLASS_NAMES))
    empty = {
        "boxes": torch.zeros(0, 4),
        "labels": torch.zeros(0, dtype=torch.int64),
        "iscrowd": torch.zeros(0, dtype=torch.bool),
    }
    images = torch.rand(2, 3, SIZE, SIZE)
    loss = model.loss(images, [empty, empty])
    loss.backward()
    assert torch.isfinite(loss)
    assert all(torch.isfinite(weight.grad).all() for weight in model.parameters())


def test_detections_have_the_form_of_torchvision():
    torch.manual_seed(0)
    model = TinyDetector(len(CLASS_NAMES)).eval()
    with torch.inference_mode():
        detections = model(torch.rand(2, 3, SIZE, SIZE))
    for image in detections:
        count = len(image["scores"])
        assert image["boxes"].shape == (count, 4)
        assert image["labels"].dtype == torch.int64
        assert (image["boxes"][:, 2:] > image["boxes"][:, :2]).all()
        assert (image["scores"].diff() <= 0).all()
        assert ((image["labels"] >= 0) & (image["labels"] < len(CLASS_NAMES))).all()


def test_the_torchrun_program_runs_without_torchrun():
    command = [sys.executable, "-m", "torch_vocmetrics.examples.train_with_torchrun"]
    sizes = ["--train-scenes", "4", "--validation-scenes", "3"]
    env = {name: value for name, value in os.environ.items() if name != "RANK"}
    done = subprocess.run([*command, *sizes], capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("rank 0 of 1: 3 images, mAP ")
    assert "rank 0 alone: 3 images" in done.stdout
    assert "Traceback" not in done.stderr


def test_the_size_biased_detector_loses_and_wins(capsys):
    assert size_bias_study.main(["--seeds", "0", "1", "--resamples", "60"]) == 0
    assert "from 1 % of the image on it wins" in capsys.readouterr().out
    rows = [(0.0, 0.5, 0.4, 0.01), (0.01, 0.5, 0.4, 0.01)]
    with pytest.raises(AssertionError, match=r"with a limit of 0\.01 the biased detector must win"):
        size_bias_study.check(rows)
