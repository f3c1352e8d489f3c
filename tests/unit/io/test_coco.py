"""COCO's instances and results files, and files that are none."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from torch_vocmetrics import FileFormatError, VocMetricsWarning
from torch_vocmetrics.io import read_coco_detections, read_coco_ground_truths

INSTANCES: dict[str, Any] = {
    "images": [{"id": 9, "height": 4, "width": 5}, {"id": 3}],
    "categories": [{"id": 7, "name": "dog"}, {"id": 2, "name": "cat"}, {"id": 5, "name": "dog"}],
    "annotations": [
        {"id": 1, "image_id": 9, "category_id": 7, "bbox": [0, 1, 2.5, 3], "area": 6, "iscrowd": 1},
        {"id": 2, "image_id": 9, "category_id": 2, "bbox": [0, 1, 2, 4]},
        {"id": 3, "image_id": 3, "category_id": 5, "bbox": [0.1, 1, 0, 0], "area": 0.0},
    ],
}
RESULTS = [
    {"image_id": 9, "category_id": 2, "bbox": [0, 1, 2, 3], "score": 0.1, "segmentation": {}},
    {"image_id": 3, "category_id": 7, "bbox": [4, 5, 6, 7.5], "score": 1},
    {"image_id": 9, "category_id": 7, "bbox": [1, 1, 1, 1], "score": 0.1},
]


def save(tmp_path: Path, name: str, content: Any) -> Path:
    path = tmp_path / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_ground_truth(tmp_path: Path) -> None:
    got = read_coco_ground_truths(save(tmp_path, "gt.json", INSTANCES))
    assert (got.image_ids, got.label_ids) == ((3, 9), (2, 5, 7))
    assert got.class_names == ("cat", "dog#5", "dog#7")
    assert (got.box_format, got.other_label_ids) == ("xywh", ())
    first, second = got.targets
    assert (first["image_id"], "image_size" in first) == (3, False)
    assert (second["image_id"], second["image_size"]) == (9, (4, 5))
    assert second["boxes"].tolist() == [[0, 1, 2.5, 3], [0, 1, 2, 4]]
    assert second["labels"].tolist() == [7, 2]
    assert second["iscrowd"].tolist() == [True, False]
    assert second["area"].tolist() == [6, 8]
    assert first["area"].tolist() == [0]
    assert "ignore" not in first
    assert first["boxes"].dtype == torch.float64


def test_ignore_is_given_where_the_file_has_it(tmp_path: Path) -> None:
    content = copy.deepcopy(INSTANCES)
    content["annotations"][1]["ignore"] = 1
    got = read_coco_ground_truths(save(tmp_path, "gt.json", content))
    assert [target["ignore"].tolist() for target in got.targets] == [[False], [False, True]]


def test_detections(tmp_path: Path) -> None:
    ground_truths = read_coco_ground_truths(save(tmp_path, "gt.json", INSTANCES))
    got = read_coco_detections(save(tmp_path, "dt.json", RESULTS), ground_truths)
    first, second = got.predictions
    assert first["boxes"].tolist() == [[4, 5, 6, 7.5]]
    assert first["scores"].dtype == torch.float64
    assert second["labels"].tolist() == [2, 7]
    assert second["scores"].tolist() == [0.1, 0.1]
    assert "order" not in second
    assert got.num_detections == (1, 0, 2)
    ordered = read_coco_detections(tmp_path / "dt.json", ground_truths, file_order=True)
    assert [one["order"].tolist() for one in ordered.predictions] == [[1], [0, 2]]


def test_a_choice_of_classes(tmp_path: Path) -> None:
    path = save(tmp_path, "gt.json", INSTANCES)
    ground_truths = read_coco_ground_truths(path, class_names=["dog#7", "cat"])
    assert (ground_truths.label_ids, ground_truths.other_label_ids) == ((7, 2), (5,))
    assert [len(target["labels"]) for target in ground_truths.targets] == [0, 2]
    results = [*RESULTS, {"image_id": 3, "category_id": 5, "bbox": [1, 1, 1, 1], "score": 1}]
    detections = read_coco_detections(save(tmp_path, "dt.json", results), ground_truths)
    assert detections.num_detections == (2, 1)
    assert [len(one["labels"]) for one in detections.predictions] == [1, 2]
    with pytest.raises(FileFormatError, match="no category 'dog'; near names: dog#"):
        read_coco_ground_truths(path, class_names=["dog"])


def test_no_detections_and_no_objects(tmp_path: Path) -> None:
    ground_truths = read_coco_ground_truths(
        save(tmp_path, "gt.json", INSTANCES | {"annotations": []})
    )
    detections = read_coco_detections(save(tmp_path, "dt.json", []), ground_truths)
    for rows in (*ground_truths.targets, *detections.predictions):
        assert rows["boxes"].shape == (0, 4)


def test_image_ids_may_be_strings(tmp_path: Path) -> None:
    content = json.loads(json.dumps(INSTANCES).replace('_id": 9', '_id": "b"'))
    content = json.loads(json.dumps(content).replace('image_id": 3', 'image_id": "a"'))
    content["images"][0]["id"], content["images"][1]["id"] = "b", "a"
    assert read_coco_ground_truths(save(tmp_path, "gt.json", content)).image_ids == ("a", "b")


def test_annotation_id_zero_is_a_warning(tmp_path: Path) -> None:
    content = copy.deepcopy(INSTANCES)
    content["annotations"][1]["id"] = 0
    path = save(tmp_path, "gt.json", content)
    with pytest.warns(VocMetricsWarning, match=r"annotations\[1\]: annotation id 0"):
        assert len(read_coco_ground_truths(path).targets) == 2


# One change of the good file: list, element, key, value; what is then said of the element.
BAD_INSTANCES: list[tuple[str, int, str, Any, str]] = [
    ("images", 1, "id", ..., r"images\[1\]: no 'id'"),
    ("images", 1, "id", 9, r"images\[0\]: id is given twice, got 9"),
    ("images", 1, "id", "3", r"images\[1\]: id must be of one type, got \"3\""),
    ("images", 1, "id", 2**63, r"images\[1\]: id is too large"),
    ("images", 0, "id", 1.5, r"images\[0\]: id must be an integer or a string, got 1\.5"),
    ("categories", 2, "id", 2, r"categories\[1\]: id is given twice"),
    ("categories", 2, "id", "x", r"categories\[2\]: id must be an integer, got"),
    ("categories", 0, "name", None, r"categories\[0\]: name must be a string, got null"),
    ("annotations", 2, "image_id", [], r"annotations\[2\]: image_id must be an integer or a str"),
    ("annotations", 0, "category_id", True, r"annotations\[0\]: category_id must be an integer"),
    ("annotations", 1, "bbox", ..., r"annotations\[1\]: no 'bbox'"),
    ("annotations", 1, "bbox", None, r"annotations\[1\]: bbox must be a list, got null"),
    ("annotations", 1, "bbox", [1, 2, 3], r"annotations\[1\]: bbox must hold 4 numbers"),
    ("annotations", 1, "bbox", [1, 2, 3, "4"], r"annotations\[1\]: bbox must hold 4 numbers"),
    ("annotations", 1, "bbox", [1, 2, 3, True], r"annotations\[1\]: bbox must hold 4 numbers"),
    ("annotations", 1, "bbox", [[1], 2, 3, 4], r"annotations\[1\]: bbox must hold 4 numbers"),
    ("annotations", 1, "bbox", [1, 2, -3, 4], r"annotations\[1\]: bbox must not have a negative"),
    ("annotations", 1, "bbox", [1, 2, float("nan"), 4], r"annotations\[1\]: bbox must be finite"),
    ("annotations", 1, "bbox", [1, 2, 10**400, 4], r"annotations\[1\]: bbox must be finite"),
    ("annotations", 1, "area", -1, r"annotations\[1\]: area must not be negative, got -1"),
    ("annotations", 1, "area", float("inf"), r"annotations\[1\]: area must be finite"),
    ("annotations", 1, "area", "1", r"annotations\[1\]: area must be a number"),
    ("annotations", 1, "iscrowd", 2, r"annotations\[1\]: iscrowd must be 0 or 1, got 2"),
    ("annotations", 1, "iscrowd", "0", r"annotations\[1\]: iscrowd must be 0 or 1, got"),
]


@pytest.mark.parametrize(("name", "place", "key", "value", "said"), BAD_INSTANCES)
def test_bad_instances_are_named(
    tmp_path: Path, name: str, place: int, key: str, value: Any, said: str
) -> None:
    content = copy.deepcopy(INSTANCES)
    content[name][place][key] = value
    if value is ...:
        del content[name][place][key]
    path = save(tmp_path, "gt.json", content)
    with pytest.raises(FileFormatError, match=said) as caught:
        read_coco_ground_truths(path)
    assert str(caught.value).startswith(str(path))
    assert len(str(caught.value)) < 400


BAD_RESULTS: list[tuple[str, Any, str]] = [
    ("image_id", 4, r"dt\.json, \[1\]: image_id is not among the images"),
    ("image_id", ..., r"\[1\]: no 'image_id' in the element; results are a list of"),
    ("bbox", ..., r"\[1\]: no 'bbox'"),
    ("bbox", [1, 2, 3, -4], r"\[1\]: bbox must not have a negative width or height"),
    ("bbox", [1, 2, 3, float("inf")], r"\[1\]: bbox must be finite"),
    ("score", ..., r"\[1\]: no 'score'"),
    ("score", None, r"\[1\]: score must be a number, got null"),
    ("score", float("nan"), r"\[1\]: score must be a number, got NaN"),
]


@pytest.mark.parametrize(("key", "value", "said"), BAD_RESULTS)
def test_bad_results_are_named(tmp_path: Path, key: str, value: Any, said: str) -> None:
    ground_truths = read_coco_ground_truths(save(tmp_path, "gt.json", INSTANCES))
    content = copy.deepcopy(RESULTS)
    content[1][key] = value
    if value is ...:
        del content[1][key]
    with pytest.raises(FileFormatError, match=said):
        read_coco_detections(save(tmp_path, "dt.json", content), ground_truths)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "line 1, column 1: not a JSON file"),
        ('{"images": [\n{]}', "line 2, column 2: not a JSON file"),
        ("[" * 100_000, "lists nested too deep"),
        ("[1" + "0" * 10_000 + "]", "not a JSON file, got Exceeds the limit"),
        ([], "not an instances file, got a JSON list"),
        ({}, "'images' must be a list, got a JSON NoneType"),
        ({"images": 1}, "'images' must be a list, got a JSON int"),
        (INSTANCES | {"images": []}, "images: the list is empty"),
        (INSTANCES | {"images": [1]}, r"images\[0\]: not a JSON object, got 1"),
    ],
)
def test_what_is_no_instances_file(tmp_path: Path, content: Any, said: str) -> None:
    with pytest.raises(FileFormatError, match=said):
        read_coco_ground_truths(save(tmp_path, "gt.json", content))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"annotations": 1}, "not a results file, got a JSON dict; results are a list of"),
        ([1], r"\[0\]: not a JSON object, got 1"),
        ("null", "not a results file, got a JSON NoneType"),
    ],
)
def test_what_is_no_results_file(tmp_path: Path, content: Any, said: str) -> None:
    ground_truths = read_coco_ground_truths(save(tmp_path, "gt.json", INSTANCES))
    with pytest.raises(FileFormatError, match=said):
        read_coco_detections(save(tmp_path, "dt.json", content), ground_truths)


def test_other_bytes_and_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "gt.json"
    path.write_bytes(b'{"images": "\xe9"}')
    with pytest.raises(FileFormatError, match="not a JSON file"):
        read_coco_ground_truths(path)
    save(tmp_path, "gt.json", INSTANCES)
    with pytest.raises(FileFormatError, match="larger than the limit of 100 bytes"):
        read_coco_ground_truths(path, max_bytes=100)
    with pytest.raises(FileNotFoundError):
        read_coco_ground_truths(tmp_path / "none.json")
