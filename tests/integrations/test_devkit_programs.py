"""The development kit's programs: files evaluated by the command equal tensors by the metric."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from torch_vocmetrics import io
from torch_vocmetrics.examples import devkit, persons
from torch_vocmetrics.examples.scenes import CLASS_NAMES, make_scenes

SIZES = ["--train-scenes", "160", "--epochs", "2", "--scenes", "30"]
FILES = {
    "classifier": ["ImageSets/Main/disc_test.txt", "results/comp1_cls_test_disc.txt"],
    "detector": ["Annotations/000029.xml", "results/comp3_det_test_square.txt"],
    "segmenter": ["SegmentationClass/000000.png", "results/comp5_test_cls/000029.png"],
    "layout": ["ImageSets/Layout/test.txt", "results/comp7_layout_test.xml"],
}
HEADLINES = {"classifier": "mAP", "detector": "mAP", "segmenter": "mIoU", "layout": "AP/head"}


@pytest.fixture
def program(request: pytest.FixtureRequest) -> Any:
    threads = torch.get_num_threads()
    yield lambda name: importlib.import_module(f"torch_vocmetrics.examples.devkit_{name}").main
    torch.set_num_threads(threads)


@pytest.mark.parametrize("name", FILES)
def test_files_and_tensors_give_the_same_bits(
    name: str, program: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    numbers = program(name)([*SIZES, "--output", str(tmp_path / "kit")])
    assert 0 < numbers[HEADLINES[name]] <= 1
    for path in FILES[name]:
        assert (tmp_path / "kit" / path).stat().st_size > 0
    printed = capsys.readouterr().out
    assert re.search(r"equal from files and from tensors: \d+ numbers", printed)
    assert "30 images" in printed


@pytest.mark.parametrize("name", ["detector"])
def test_a_difference_is_an_error(name: str, program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    right: Callable[..., Any] = io.write_detections
    monkeypatch.setattr(io, "write_detections", lambda path, rows: right(path, list(rows)[1:]))
    with pytest.raises(SystemExit, match="tensors give"):
        program(name)(SIZES)


def test_kit_holds_the_scenes(tmp_path: Path) -> None:
    scenes = make_scenes(20, seed=3)
    devkit.write_kit(tmp_path, scenes)
    truth = io.read_voc_ground_truths(tmp_path, "test", class_names=CLASS_NAMES)
    assert list(truth.image_ids) == devkit.image_ids(scenes)
    for scene, target in zip(scenes, truth.targets, strict=True):
        first, last = torch.as_tensor(target["boxes"]).split(2, dim=1)
        edges = torch.cat([first - 1, last], dim=1)
        assert torch.equal(edges.float(), scene.target["boxes"])
        assert torch.equal(torch.as_tensor(target["labels"]), scene.target["labels"])
        assert torch.equal(torch.as_tensor(target["difficult"]), scene.target["difficult"])
    for image_id, scene in zip(truth.image_ids, scenes, strict=True):
        labels = io.read_label_map(tmp_path / "SegmentationClass" / f"{image_id}.png")
        assert torch.equal(labels == 0, scene.owner < 0)
        for row, label in enumerate(scene.target["labels"]):
            assert (labels[scene.owner == row] == label + 1).all()


def test_persons_have_their_parts_where_they_say() -> None:
    some, again = (persons.make_persons(20, seed=1) for _ in range(2))
    for one, other in zip(some, again, strict=True):
        assert torch.equal(one.image, other.image)
        assert one.present[0]
        for box, present, place in zip(
            one.boxes.long().tolist(), one.present, persons.PLACES.values(), strict=True
        ):
            left, top, right, bottom = box
            assert 1 <= left <= right <= persons.SIZE
            assert 1 <= top <= bottom <= persons.SIZE
            shown = one.image[:, (top + bottom) // 2 - 1, (left + right) // 2 - 1]
            if present and place[2] == 2:  # feet are painted last
                assert shown.tolist() == pytest.approx(place[3])
    assert 0.1 < 1 - torch.stack([one.present[1:] for one in some]).float().mean() < 0.35
