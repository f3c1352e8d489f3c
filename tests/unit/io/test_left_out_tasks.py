"""Rows at fault of classification, actions and person layout: an error, or left out on request."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from torch_vocmetrics import FileFormatError, VocMetricsWarning, load_protocol
from torch_vocmetrics.cli import main
from torch_vocmetrics.io import read_layouts, read_voc_classification, read_voc_layouts
from torch_vocmetrics.protocols import LayoutProtocol

BOX = "<bndbox><xmin>1</xmin><ymin>1</ymin><xmax>9</xmax><ymax>9</ymax></bndbox>"
HEAD = f"<part><name>head</name>{BOX}</part>"
FOUND = f"<part><class>head</class>{BOX}</part>"


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    """Labels of two classes for three images; the label of image b is no label for the cat."""
    folder = tmp_path / "ImageSets" / "Main"
    folder.mkdir(parents=True)
    (folder / "cat_test.txt").write_text("a 1\nb yes\nc -1\n")
    (folder / "dog_test.txt").write_text("a -1\nb 1\nc 1\n")
    (tmp_path / "cat.txt").write_text("a 0.9\nb 0.8\nc 0.7\n")
    (tmp_path / "dog.txt").write_text("a 0.1\nb high\nx 0.5\nc\n")
    return tmp_path


def test_labels_and_scores_at_fault(lists: Path) -> None:
    results = {name: lists / f"{name}.txt" for name in ("cat", "dog")}
    with pytest.raises(FileFormatError, match=r"line 2: not a label, got 'yes'"):
        read_voc_classification(lists, "test", results)
    with pytest.warns(VocMetricsWarning) as told:
        file = read_voc_classification(lists, "test", results, on_fault="skip")
    said = sorted(str(one.message) for one in told)
    assert len(said) == 2
    assert said[0].startswith(f"{lists}: 1 entry is at fault")
    assert said[1].startswith("results files: 3 entries are at fault")
    assert [f"dog.txt, line {number}: " in said[1] for number in range(1, 5)] == [0, 1, 1, 1]
    assert file.targets.tolist() == [[1, -1], [0, 1], [-1, 1]]
    assert file.scores.T.tolist() == [[0.9, 0.8, 0.7], [0.1, -math.inf, -math.inf]]


def test_the_command_skips_rows_of_classification(
    lists: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["evaluate", "classification/voc2012", "--ground-truth", str(lists), "--classes"]
    command += ["cat,dog", "--detections", str(lists / "{class}.txt")]
    assert main(command) == 2
    assert "--on-fault skip" in capsys.readouterr().err
    assert main([*command, "--on-fault", "skip"]) == 0
    assert "3 entries are at fault" in capsys.readouterr().err


@pytest.fixture
def layouts(tmp_path: Path) -> Path:
    """A person in each of three images; in b with a box that is none, and so is a layout of c."""
    for name in ("Annotations", "ImageSets/Layout"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "ImageSets" / "Layout" / "test.txt").write_text("a 1\nb 1\nc 1\n")
    for image_id, box in (("a", BOX), ("b", BOX.replace("1<", "nan<")), ("c", BOX)):
        person = f"<object><name>person</name>{box}{HEAD}</object>"
        (tmp_path / "Annotations" / f"{image_id}.xml").write_text(
            f"<annotation>{person}</annotation>"
        )
    rows = [("a", "0.9"), ("b", "0.8"), ("c", "sure"), ("c", "0.5")]
    text = "".join(
        f"<layout><image>{image_id}</image><object>1</object><confidence>{score}</confidence>"
        f"{FOUND}</layout>"
        for image_id, score in rows
    )
    (tmp_path / "results.xml").write_text(f"<results>{text}</results>")
    return tmp_path


def test_layouts_at_fault(layouts: Path) -> None:
    protocol = load_protocol("layout/voc2010")
    assert isinstance(protocol, LayoutProtocol)
    results = layouts / "results.xml"
    with pytest.raises(FileFormatError, match="layout 3, confidence"):
        read_voc_layouts(layouts, "test", results, protocol)
    with pytest.warns(VocMetricsWarning, match="1 entry is at fault and left out") as told:
        file = read_voc_layouts(layouts, "test", results, protocol, on_fault="skip")
    assert [str(layouts / "Annotations" / "b.xml") in str(one.message) for one in told] == [0, 1]
    assert file.image_ids == ("a", "c")
    assert [one["image_id"] for one in file.persons] == ["a", "c"]
    assert [one["scores"].tolist() for one in file.layouts] == [[0.9], [0.5]]
    assert [one["order"].tolist() for one in file.layouts] == [[0], [3]]


def test_layouts_of_a_file_alone(layouts: Path) -> None:
    with pytest.raises(FileFormatError, match=r"layout 3, confidence.*on_fault=\"skip\""):
        read_layouts(layouts / "results.xml")
    with pytest.warns(VocMetricsWarning, match="1 entry is at fault"):
        found = read_layouts(layouts / "results.xml", on_fault="skip")
    assert [one.confidence for one in found] == [0.9, 0.8, 0.5]


def test_faults_of_other_classes_do_not_matter_where_persons_are_detected(layouts: Path) -> None:
    """In 2007 no object indices are given, so that other objects play no part."""
    path = layouts / "Annotations" / "a.xml"
    path.write_text(
        path.read_text().replace("<annotation>", "<annotation><object><name>cat</name></object>")
    )
    (layouts / "ImageSets" / "Layout" / "test.txt").write_text("a\n")
    (layouts / "results.xml").write_text("<results></results>")
    protocol = load_protocol("layout/voc2007")
    assert isinstance(protocol, LayoutProtocol)
    with pytest.warns(VocMetricsWarning, match="1 entry is outside the evaluation"):
        file = read_voc_layouts(layouts, "test", layouts / "results.xml", protocol)
    assert file.persons[0]["boxes"].tolist() == [[1, 1, 9, 9]]


def test_the_command_skips_layouts(layouts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["evaluate", "layout/voc2010", "--ground-truth", str(layouts)]
    command += ["--detections", str(layouts / "results.xml")]
    assert main(command) == 2
    assert "--on-fault skip" in capsys.readouterr().err
    assert main([*command, "--on-fault", "skip"]) == 0
    assert "2 images, 0 skipped" in capsys.readouterr().out
