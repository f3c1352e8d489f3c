"""``vocmetrics audit``: what it says of a number, and what it writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from torch_vocmetrics.cli import main


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """One object in two images each; one detection hits at IoU 0.5 exactly, one misses."""
    truth = {
        "images": [{"id": 1, "height": 50, "width": 50}, {"id": 2, "height": 50, "width": 50}],
        "categories": [{"id": 8, "name": "dog"}],
        "annotations": [
            {"id": i, "image_id": i, "category_id": 8, "bbox": [0, 0, 20, 20]} for i in (1, 2)
        ],
    }
    results = [
        {"image_id": 1, "category_id": 8, "bbox": [0, 0, 20, 10], "score": 0.5},
        {"image_id": 2, "category_id": 8, "bbox": [30, 30, 10, 10], "score": 0.4},
    ]
    (tmp_path / "gt.json").write_text(json.dumps(truth))
    (tmp_path / "dt.json").write_text(json.dumps(results))
    return ["--ground-truth", str(tmp_path / "gt.json"), "--detections", str(tmp_path / "dt.json")]


def test_a_protocol_as_it_is(files: list[str], capsys: Any) -> None:
    """AP50 has precision 1 at the 51 of 101 levels up to recall 0.5; the mean is a tenth of it."""
    assert main(["audit", "0.0504950", *files, "--quiet", "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(one["protocol"], one["number"]) for one in found["explanations"]] == [
        ("detection/coco2017", "AP")
    ]
    assert main(["audit", "50.4950", *files]) == 0
    assert "AP50 of detection/coco2017 = 0.504950" in capsys.readouterr().out


def test_a_deviation_and_none(files: list[str], tmp_path: Path, capsys: Any) -> None:
    argv = ["audit", "0", *files, "--protocols", "coco2017", "--number", "AP50"]
    assert main([*argv, "--json", str(tmp_path / "out.json")]) == 0
    assert "AP50 of detection/coco2017 with overlaps must exceed" in capsys.readouterr().out
    found = json.loads((tmp_path / "out.json").read_text())
    assert found["explanations"][0]["deviations"][0].startswith("overlaps must exceed")
    assert main(["audit", "0.123", *files, "--deviations", "1", "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    assert main(["audit", "0.123", *files, "--deviations", "1"]) == 0
    assert capsys.readouterr().out.startswith("none of these gives 0.123\nnearest: ")


def test_what_is_no_number(files: list[str], capsys: Any) -> None:
    assert main(["audit", "dog", *files]) == 2
    assert "reported: is no number from 0 to 100, got dog" in capsys.readouterr().err
    assert main(["audit", "0.5", *files, "--protocols", "voc2013"]) == 2
    assert "voc2013" in capsys.readouterr().err


def test_label_images(tmp_path: Path, capsys: Any) -> None:
    """Two images of IoU 1 and, for one class of two, 1/2: per image (1 + 1/4) / 2."""
    for folder, rows in (("truth", [[[0, 0]], [[0, 0]]]), ("found", [[[0, 0]], [[0, 1]]])):
        (tmp_path / folder).mkdir()
        for number, row in enumerate(rows):
            image = Image.fromarray(np.array(row, dtype=np.uint8))
            image.save(tmp_path / folder / f"{number}.png")
    argv = ["--ground-truth", str(tmp_path / "truth"), "--detections", str(tmp_path / "found")]
    assert main(["audit", "0.62500", *argv, "--classes", "background,cat"]) == 0
    assert "mean over images of the IoU of their classes = 0.625" in capsys.readouterr().out
    assert main(["audit", "0.6", *argv, "--number", "AP"]) == 2
    assert "--number: label images have the mean IoU alone" in capsys.readouterr().err
