"""COCO results that follow another convention: corners as boxes, numbers of classes as ids."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from torch_vocmetrics import FileFormatError, VocMetricsWarning
from torch_vocmetrics.cli import main
from torch_vocmetrics.io import (
    read_coco_detections,
    read_coco_ground_truths,
    read_pedestrian_detections,
    read_pedestrian_json,
)

SIZE = (480, 640)
RNG = np.random.default_rng(4)


def boxes(count: int = 60) -> list[list[float]]:
    """x, y, width and height of boxes anywhere in the image."""
    near = RNG.random((count, 2)) * [500, 400]
    far = near + 10 + RNG.random((count, 2)) * ([630, 470] - near - 10)
    return np.concatenate([near, far - near], 1).round(1).tolist()


def corners(rows: list[list[float]]) -> list[list[float]]:
    return [[x, y, x + w, y + h] for x, y, w, h in rows]


def truth(folder: Path, *, sizes: bool = True, ids: tuple[int, ...] = (1, 2, 17)) -> Path:
    size = {"height": SIZE[0], "width": SIZE[1]} if sizes else {}
    content = {
        "images": [{"id": 1, **size}, {"id": 2, **size}],
        "categories": [{"id": one, "name": f"class {one}"} for one in ids],
        "annotations": [{"id": 1, "image_id": 1, "category_id": ids[0], "bbox": [0, 0, 9, 9]}],
    }
    path = folder / "truth.json"
    path.write_text(json.dumps(content))
    return path


def results(folder: Path, rows: list[list[float]], category: Any = 1, **more: Any) -> Path:
    listed = [
        {"image_id": 1 + i % 2, "category_id": category, "bbox": box, "score": 0.5} | more
        for i, box in enumerate(rows)
    ]
    path = folder / "results.json"
    path.write_text(json.dumps(listed))
    return path


def said(folder: Path, rows: list[list[float]], **options: Any) -> list[str]:
    ground_truths = read_coco_ground_truths(truth(folder, **options))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        read_coco_detections(results(folder, rows), ground_truths)
    return [str(one.message) for one in caught]


def test_corners_are_pointed_out(tmp_path: Path) -> None:
    rows = corners(boxes())
    beyond = sum(x + w > SIZE[1] + 2 or y + h > SIZE[0] + 2 for x, y, w, h in rows)
    assert 20 < beyond < 60
    (sentence,) = said(tmp_path, rows)
    assert f"results.json: {beyond} of 60 boxes reach beyond their image as x, y, width" in sentence
    assert "box_format='xyxy'" in sentence
    (sentence,) = said(tmp_path, [*rows, [30.0, 30.0, 20.0, 20.0]])  # a single mistake in 61
    assert "of 61 boxes" in sentence


def test_boxes_that_say_nothing(tmp_path: Path) -> None:
    right, wrong = boxes(), corners(boxes())
    assert said(tmp_path, right) == []
    assert said(tmp_path, [[x, y, w * 3, h * 3] for x, y, w, h in right]) == []  # poor boxes
    assert said(tmp_path, right + wrong[:20]) == []
    assert said(tmp_path, wrong[:9]) == []
    assert said(tmp_path, wrong, sizes=False) == []
    assert said(tmp_path, [[0.0, 0.0, 640.0, 480.0]] * 30) == []
    assert said(tmp_path, [[0.0, 0.0, 641.5, 481.0]] * 30) == []


@pytest.mark.parametrize("category", [0, 3, 99])
@pytest.mark.parametrize("on_fault", ["error", "skip"])
def test_results_of_no_known_category(category: int, on_fault: str, tmp_path: Path) -> None:
    ground_truths = read_coco_ground_truths(truth(tmp_path))
    path = results(tmp_path, boxes(3), category)
    sentence = (
        f"no result is of a category of the ground truth, got category_id {category}; "
        "the ids of the categories are 1, 2, 17; the number of a class is no id"
    )
    with pytest.raises(FileFormatError, match=sentence):
        read_coco_detections(path, ground_truths, on_fault=on_fault)


def test_many_ids_are_cut_short(tmp_path: Path) -> None:
    ground_truths = read_coco_ground_truths(truth(tmp_path, ids=tuple(range(1, 26))))
    path = results(tmp_path, boxes(2), 50)
    with pytest.raises(FileFormatError, match="are 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 15 more"):
        read_coco_detections(path, ground_truths)


def test_the_command_says_so_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["evaluate", "coco2017", "--ground-truth", str(truth(tmp_path))]
    argv += ["--detections", str(results(tmp_path, boxes(3), 4))]
    assert main(argv) == 2
    assert "the ids of the categories are 1, 2, 17" in capsys.readouterr().err


def test_some_or_no_results_are_no_error(tmp_path: Path) -> None:
    ground_truths = read_coco_ground_truths(truth(tmp_path))
    assert (
        read_coco_detections(results(tmp_path, []), ground_truths).predictions[0]["scores"].tolist()
        == []
    )
    content = json.loads(results(tmp_path, boxes(4)).read_text())
    content[0]["category_id"] = 5
    path = tmp_path / "some.json"
    path.write_text(json.dumps(content))
    with pytest.warns(VocMetricsWarning, match="1 entry is outside the evaluation"):
        read_coco_detections(path, ground_truths)
    one = read_coco_ground_truths(truth(tmp_path), class_names=["class 2"])
    assert (
        len(read_coco_detections(results(tmp_path, boxes(4), 17), one).predictions[0]["scores"])
        == 0
    )


def test_faults_come_first(tmp_path: Path) -> None:
    ground_truths = read_coco_ground_truths(truth(tmp_path))
    with pytest.raises(FileFormatError, match="category_id must be"):
        read_coco_detections(results(tmp_path, boxes(2), "cat"), ground_truths)


def test_pedestrians_of_another_category(tmp_path: Path) -> None:
    path = truth(tmp_path, ids=(1,))
    content = json.loads(path.read_text())
    content["annotations"][0] |= {"ignore": 0, "vis_ratio": 1.0, "height": 9}
    path.write_text(json.dumps(content))
    ground_truths = read_pedestrian_json(path)
    with pytest.raises(FileFormatError, match=r"no result is of the category of pedestrians; .* 1"):
        read_pedestrian_detections(results(tmp_path, boxes(2), 2), ground_truths)
