"""The commands beside detection: what they refuse, what they print, what they draw."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from torch_vocmetrics.cli import main
from torch_vocmetrics.io import (
    VocAnnotation,
    VocLayout,
    VocObject,
    VocPart,
    write_annotation,
    write_class_set,
    write_detections,
    write_image_set,
    write_layouts,
    write_scores,
)

CAT, DOG = (11.0, 11.0, 40.0, 40.0), (50.0, 20.0, 90.0, 60.0)
HEAD = VocPart(name="head", box=(1.0, 1.0, 9.0, 9.0))


@pytest.fixture
def kit(tmp_path: Path) -> Path:
    """Two images of 100 x 80 pixels with a cat, a difficult dog and a person."""
    folder = tmp_path / "kit"
    for name in ("Annotations", "ImageSets/Main", "ImageSets/Layout", "JPEGImages", "results"):
        (folder / name).mkdir(parents=True)
    objects = (
        VocObject(name="cat", box=CAT),
        VocObject(name="dog", box=DOG, difficult=True),
        VocObject(name="person", box=(1.0, 1.0, 30.0, 70.0), parts=(HEAD,)),
    )
    for image_id, own in (("a", objects), ("b", ())):
        one = VocAnnotation(image_size=(80, 100), objects=own, filename=f"{image_id}.jpg")
        write_annotation(folder / "Annotations" / f"{image_id}.xml", one)
        Image.new("RGB", (100, 80), "white").save(folder / "JPEGImages" / f"{image_id}.jpg")
    write_image_set(folder / "ImageSets" / "Main" / "test.txt", ["a", "b"])
    write_image_set(folder / "ImageSets" / "Layout" / "test.txt", [("a", 3)])
    write_class_set(folder / "ImageSets" / "Main" / "cat_test.txt", {"a": 1, "b": -1})
    write_scores(folder / "results" / "comp1_cls_test_cat.txt", {"b": 0.5})
    rows = [("a", 0.9, CAT), ("a", 0.8, CAT), ("b", 0.7, DOG)]
    write_detections(folder / "results" / "comp3_det_test_cat.txt", rows)
    layout = VocLayout(image_id="a", confidence=0.5, parts=(HEAD,), object_index=3)
    write_layouts(folder / "results" / "layout.xml", [layout])
    return folder


def run(*argv: object) -> int:
    return main([str(one) for one in argv])


def evaluate(kit: Path, protocol: str, results: str, *more: object) -> int:
    found = kit / "results" / results
    return run("evaluate", protocol, "--ground-truth", kit, "--detections", found, *more)


def test_tables(kit: Path, capsys: Any) -> None:
    assert evaluate(kit, "classification/voc2012", "comp1_cls_test_{class}.txt") == 0
    table = capsys.readouterr().out.splitlines()
    assert table[:2] == ["classification/voc2012", "2 images"]
    assert ["cat", "1", "1", "0.5000", "0.0000"] in [line.split() for line in table]
    assert ["dog", "not", "entered"] in [line.split() for line in table]
    assert evaluate(kit, "layout/voc2012", "layout.xml") == 0
    table = capsys.readouterr().out.splitlines()
    assert table[:2] == ["layout/voc2012", "1 images, 0 skipped"]
    assert ["head", "1", "1", "0", "1.0000"] in [line.split() for line in table]
    assert evaluate(kit, "layout/voc2008", "layout.xml") == 0  # one part is never right
    assert ["layout", "1", "0", "1", "0.0000"] in [
        line.split() for line in capsys.readouterr().out.splitlines()
    ]


@pytest.mark.parametrize(
    ("protocol", "results", "more", "words"),
    [
        ("layout/voc2012", "layout.xml", ("--iou-thresholds", "0.5"), "not an option of layout"),
        ("layout/voc2012", "layout.xml", ("--classes", "cat"), "not an option of layout"),
        ("layout/voc2012", "none.xml", (), "No such file"),
        ("layout/voc2007", "layout.xml", (), "no <bndbox> in the layout"),
        (
            "classification/voc2012",
            "comp1_cls_test_{class}.txt",
            ("--max-detections", "3"),
            "not an option of classification",
        ),
        ("classification/voc2012", "comp1.txt", (), "not a pattern of results files"),
        (
            "action/voc2012",
            "comp9_{class}.txt",
            (),
            "no image set 'test' with a list <class>_test.txt",
        ),
    ],
)
def test_one_sentence(
    kit: Path, protocol: str, results: str, more: tuple[str, ...], words: str, capsys: Any
) -> None:
    assert evaluate(kit, protocol, results, *more) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


def test_all_tasks_are_listed(capsys: Any) -> None:
    assert run("protocols") == 0
    listed = {line.split()[0] for line in capsys.readouterr().out.splitlines()}
    assert {"detection/voc2007", "classification/voc2006", "action/voc2012"} < listed
    assert "layout/voc2009_file_order" in listed


def test_convert_and_statistics(kit: Path, tmp_path: Path, capsys: Any) -> None:
    source = tmp_path / "a.json"
    assert run("convert", kit, source, "--classes", "dog,cat") == 0
    content = json.loads(source.read_text())
    assert [one["name"] for one in content["categories"]] == ["dog", "cat"]
    assert content["annotations"][0]["bbox"] == [11, 11, 29, 29]
    capsys.readouterr()
    assert run("statistics", kit) == 0
    assert capsys.readouterr().out.splitlines()[-1].split() == ["total", "2", "2"]
    assert run("statistics", kit, "--task", "Layout", "--json") == 0
    assert json.loads(capsys.readouterr().out)["test"]["objects"] == {"person": 1}
    assert run("statistics", kit, "--task", "Segmentation") == 2
    assert "no image sets" in capsys.readouterr().err
    assert run("convert", tmp_path / "a.txt", source) == 2
    assert "must be a folder or a .json" in capsys.readouterr().err


def test_every_command_has_a_limit_on_files(kit: Path, tmp_path: Path, capsys: Any) -> None:
    annotation, found = kit / "Annotations" / "a.xml", kit / "results" / "comp3_det_test_cat.txt"
    pattern, instances = kit / "results" / "comp3_det_test_{class}.txt", tmp_path / "a.json"
    assert run("convert", kit, instances) == 0
    lists = kit / "ImageSets" / "Segmentation"
    lists.mkdir()
    write_image_set(lists / "test.txt", ["a", "b"])
    drawn = ("--detections", pattern, "--output")
    commands: list[tuple[Path, tuple[object, ...]]] = [
        (annotation, ("convert", kit, tmp_path / "b.json")),
        (annotation, ("statistics", kit)),
        (annotation, ("view", kit, "--output", tmp_path / "out")),
        (found, ("view", kit, *drawn, tmp_path / "out")),
        (instances, ("convert", instances, tmp_path / "voc")),
        (found, ("paint", "--images", kit, *drawn, tmp_path / "out")),
        (lists / "test.txt", ("paint", "--images", kit, *drawn, tmp_path / "out")),
    ]
    for path, command in commands:
        text = path.read_text()
        path.write_text(text + " " * 2**20)
        assert run(*command, "--max-file-size", 1) == 2, command
        error = capsys.readouterr().err
        assert f"{path}: the file is larger than the limit of 1,048,576 bytes" in error
        force = () if command[0] == "statistics" else ("--force",)
        assert run(*command, "--max-file-size", 2, *force) == 0, command
        path.write_text(text)
