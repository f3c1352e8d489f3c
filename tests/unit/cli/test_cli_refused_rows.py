"""Rows of files that only the metric refuses: the sentence names the file; skip leaves them out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from torch_vocmetrics.cli import main, updates

HUGE = [0, 0, 1e60, 4]  # beyond float32
FOUND = [0, 0, 4, 4]


def save(folder: Path, annotations: list[Any], results: list[Any], **size: int) -> list[str]:
    """A command that evaluates images 1 to 4 of one category."""
    truth = {
        "images": [{"id": k} | size for k in range(1, 5)],
        "categories": [{"id": 3, "name": "cat"}],
        "annotations": [{"id": 10 + k} | one for k, one in enumerate(annotations)],
    }
    paths = folder / "gt.json", folder / "dt.json"
    for path, content in zip(paths, (truth, results), strict=True):
        path.write_text(json.dumps(content))
    return ["--ground-truth", str(paths[0]), "--detections", str(paths[1])]


def entry(image_id: int, bbox: list[float], **more: Any) -> dict[str, Any]:
    return {"image_id": image_id, "category_id": 3, "bbox": bbox} | more


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Image 3, in the second block, has a sound object beside one that is refused."""
    monkeypatch.setattr(updates, "_CHUNK", 2)
    annotations = [entry(1, FOUND), entry(3, HUGE), entry(3, FOUND), entry(4, FOUND)]
    results = [entry(k, FOUND, score=1 - k / 10) for k in (1, 4, 3)]
    return save(tmp_path, annotations, results)


def test_a_refused_annotation_is_named_by_its_file(files: list[str], capsys: Any) -> None:
    assert main(["evaluate", "coco2017", *files]) == 2
    said = capsys.readouterr().err
    assert f"{files[1]}, annotations[1], annotation id 11, image_id 3: a coordinate" in said
    assert "--on-fault skip" in said
    assert "target" not in said


def test_a_refused_annotation_is_skipped(files: list[str], tmp_path: Path, capsys: Any) -> None:
    report = tmp_path / "report.json"
    arguments = ["--on-fault", "skip", "--json", str(report), "--quiet"]
    assert main(["evaluate", "coco2017", *files, *arguments]) == 0
    assert f"{files[1]}: 1 entry is at fault and left out" in capsys.readouterr().err
    content = json.loads(report.read_text())
    assert content["classes"][0]["num_positives"] == 3
    assert content["summary"]["AP"] == pytest.approx(1.0)


def test_a_refused_result_is_named_and_skipped(tmp_path: Path, capsys: Any) -> None:
    results = [entry(1, FOUND, score=0.5), entry(2, HUGE, score=0.9), entry(2, HUGE, score=0.8)]
    files = save(tmp_path, [entry(1, FOUND)], results)
    assert main(["evaluate", "coco2017", *files]) == 2
    said = capsys.readouterr().err
    assert f"{files[3]}, [1], image_id 2: a coordinate" in said
    assert "1 more entry is at fault" in said
    report = tmp_path / "report.json"
    skip = ["--on-fault", "skip", "--json", str(report)]
    assert main(["evaluate", "coco2017", *files, *skip]) == 0
    content = json.loads(report.read_text())
    assert content["num_detections"] == content["classes"][0]["num_detections"] == 1
    assert content["summary"]["AP"] == pytest.approx(1.0)


def test_masks_that_differ_in_size_name_files_and_image(tmp_path: Path, capsys: Any) -> None:
    """Each alone is sound: the file does not say how large the image is."""
    small, large = ({"size": [n, n], "counts": [0, n * n]} for n in (2, 3))
    truth = [entry(4, FOUND, segmentation=small, area=4)]
    files = save(tmp_path, truth, [entry(4, FOUND, segmentation=large, score=1)])
    assert main(["evaluate", "coco2017_segm", *files]) == 2
    said = capsys.readouterr().err
    assert (
        f"{files[1]} and {files[3]}, image_id 4: masks of prediction and target differ in size"
        in said
    )
    assert "got (3, 3) and (2, 2)" in said


def test_polygons_without_a_size_name_the_annotation(tmp_path: Path, capsys: Any) -> None:
    truth = [entry(2, FOUND, segmentation=[[0, 0, 4, 0, 4, 4]], area=8)]
    files = save(tmp_path, truth, [])
    assert main(["evaluate", "coco2017_segm", *files]) == 2
    assert f"{files[1]}, annotations[0], annotation id 10, image_id 2: " in capsys.readouterr().err


def test_a_refused_row_of_a_kit_names_its_results_file(tmp_path: Path, capsys: Any) -> None:
    """Inverted boxes are for VOC's rules to match nothing, for COCO's a fault."""
    box = "<xmin>1</xmin><ymin>1</ymin><xmax>9</xmax><ymax>9</ymax>"
    xml = f"<annotation><object><name>cat</name><bndbox>{box}</bndbox></object></annotation>"
    (tmp_path / "a.xml").write_text(xml)
    (tmp_path / "det_cat.txt").write_text("a 0.9 1 1 9 9\na 0.8 9 9 1 1\n")
    files = ["--ground-truth", str(tmp_path), "--detections", str(tmp_path / "det_{class}.txt")]
    assert main(["evaluate", "coco2017", *files]) == 2
    where = f"{tmp_path / 'det_cat.txt'}, row 2 of the image, image_id 'a': the box is inverted"
    assert where in capsys.readouterr().err


def test_a_refused_pedestrian_names_its_file(tmp_path: Path, capsys: Any) -> None:
    person = {"category_id": 1, "height": 4, "vis_ratio": 1}
    files = save(tmp_path, [entry(2, HUGE) | person], [entry(1, HUGE, score=1) | person])
    command = ["evaluate", "miss_rate/citypersons_derived", *files]
    assert main(command) == 2
    assert f"{files[3]}, [0], image_id 1: a coordinate" in capsys.readouterr().err
    assert main([*command, "--on-fault", "skip"]) == 0
    assert f"{files[1]}, annotations[0], annotation id 10, image_id 2: " in capsys.readouterr().err
