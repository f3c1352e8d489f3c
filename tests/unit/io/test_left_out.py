"""Entries that readers leave out: outside the evaluation, or at fault where that is asked for."""

from __future__ import annotations

import copy
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from torch_vocmetrics import FileFormatError, InputError, VocMetricsWarning
from torch_vocmetrics.io import (
    read_coco_detections,
    read_coco_ground_truths,
    read_pedestrian_detections,
    read_pedestrian_json,
)

SIZE = {"height": 20, "width": 20}
SQUARE = [[0, 0, 4, 0, 4, 4, 0, 4]]


def instances(*annotations: dict[str, Any], **images: str) -> dict[str, Any]:
    """Two categories, images of the given file names, and annotations of image 1, category 1."""
    names = images or {"a": "a.jpg"}
    box = {"image_id": 1, "category_id": 1, "bbox": [0, 0, 4, 4]}
    return {
        "images": [{"id": k, "file_name": n} | SIZE for k, n in enumerate(names.values(), 1)],
        "categories": [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}],
        "annotations": [{"id": k} | box | one for k, one in enumerate(annotations, 1)],
    }


def result(**change: Any) -> dict[str, Any]:
    return {"image_id": 1, "category_id": 1, "bbox": [0, 0, 4, 4], "score": 0.5} | change


def save(folder: Path, content: Any, name: str = "gt.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(content))
    return path


@pytest.fixture
def warned() -> Iterator[list[str]]:
    """The sentences of all warnings of the package."""
    said: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("always", VocMetricsWarning)
        warnings.showwarning = lambda message, *_: said.append(str(message))  # type: ignore[assignment]
        yield said


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"image_id": 9}, "image_id is not among the images of the file, got 9"),
        ({"category_id": 9}, "category_id is not among the categories, got 9"),
        ({"category_id": 9, "bbox": "x"}, "category_id is not among the categories, got 9"),
        ({"bbox": [float("inf")] * 2 + [float("-inf")] * 2, "segmentation": []}, "no shape"),
        ({"bbox": [float("inf"), 3, float("-inf"), 2], "segmentation": []}, "no shape"),
        ({"bbox": [], "segmentation": []}, "no shape"),
        ({"category_id": 2, "bbox": [1, float("nan"), 1, 1]}, "bbox must be finite"),
        ({"category_id": 2, "iscrowd": 7}, "iscrowd must be 0 or 1"),
    ],
)
def test_annotations_outside_the_evaluation(
    change: dict[str, Any], said: str, tmp_path: Path, warned: list[str]
) -> None:
    path = save(tmp_path, instances({}, change, change))
    got = read_coco_ground_truths(path, class_names=["cat"])
    assert got.targets[0]["boxes"].tolist() == [[0, 0, 4, 4]]
    assert len(warned) == 1
    assert warned[0].startswith(f"{path}: 2 entries are outside the evaluation and ignored")
    assert f"annotations[1]: {said}" in warned[0] or said in warned[0]


def test_results_outside_the_evaluation(tmp_path: Path, warned: list[str]) -> None:
    truth = read_coco_ground_truths(save(tmp_path, instances({})))
    rows = [result(category_id=7, bbox=None), result(), result(category_id=8)]
    got = read_coco_detections(save(tmp_path, rows, "dt.json"), truth)
    assert got.num_detections == (1, 0)
    assert len(warned) == 1
    assert "2 entries are outside" in warned[0]
    assert "dt.json, [0]: category_id is not a known category, got 7" in warned[0]


def test_whole_numbers_may_be_floats(tmp_path: Path) -> None:
    content = instances({"image_id": 1.0, "category_id": 1.0, "iscrowd": 0.0})
    content["images"][0]["id"] = content["categories"][0]["id"] = 1.0
    truth = read_coco_ground_truths(save(tmp_path, content))
    assert (truth.image_ids, truth.label_ids) == ((1,), (1, 2))
    assert isinstance(truth.image_ids[0], int)
    rows = [result(image_id=1.0, category_id=1.0)]
    assert read_coco_detections(save(tmp_path, rows, "dt.json"), truth).num_detections == (1, 0)
    with pytest.raises(FileFormatError, match=r"image_id must be an integer or a string, got 1\.5"):
        read_coco_detections(save(tmp_path, [result(image_id=1.5)], "dt.json"), truth)


@pytest.mark.parametrize(
    "change",
    [
        {"bbox": [1, 1, -1, 1]},
        {"bbox": [1, 1, 1]},
        {"bbox": [1, 1, 10**400, 1]},
        {"area": -1},
        {"iscrowd": "0"},
        {"category_id": True},
    ],
)
def test_faults_stop_or_are_skipped(
    change: dict[str, Any], tmp_path: Path, warned: list[str]
) -> None:
    path = save(tmp_path, instances({}, change, *[change] * 6, {"bbox": [1, 1, 2, 2]}))
    with pytest.raises(FileFormatError, match=r"annotations\[1\]: .*; 6 more entries are at fault"):
        read_coco_ground_truths(path)
    assert warned == []
    got = read_coco_ground_truths(path, on_fault="skip")
    assert got.targets[0]["boxes"].tolist() == [[0, 0, 4, 4], [1, 1, 2, 2]]
    (sentence,) = warned
    assert "7 entries are at fault and left out" in sentence
    shown = [k for k in range(9) if f"annotations[{k}]" in sentence]
    assert shown == [1, 2, 3, 4, 5]


def test_results_at_fault(tmp_path: Path, warned: list[str]) -> None:
    truth = read_coco_ground_truths(save(tmp_path, instances({})))
    rows = [result(), result(image_id=5), result(score=None), 7, result(score=0.25)]
    path = save(tmp_path, rows, "dt.json")
    with pytest.raises(
        FileFormatError, match=r"\[1\]: image_id is not among the images of the gro"
    ):
        read_coco_detections(path, truth)
    got = read_coco_detections(path, truth, on_fault="skip", file_order=True)
    assert got.predictions[0]["scores"].tolist() == [0.5, 0.25]
    assert got.predictions[0]["order"].tolist() == [0, 4]
    assert "3 entries are at fault" in warned[0]
    with pytest.raises(InputError, match="on_fault: must be one of error, skip, got 'ignore'"):
        read_coco_detections(path, truth, on_fault="ignore")


# Names of images ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("x/6.jpg", 0),
        ("y/6.jpg", 1),
        ("x/6", 0),
        ("x\\6.jpg", 0),
        ("./x/6.jpg", 0),
        ("b.c", 2),
        ("b.c.png", 2),
        ("any/b.c.png", 2),
        ("3", 2),
        ("6", None),
        ("6.jpg", None),
        ("z/6.jpg", None),
        ("z/9.jpg", None),
        ("9.jpg", 3),
        ("b", None),
        ("", None),
    ],
)
def test_images_by_the_names_of_their_files(name: str, index: int | None, tmp_path: Path) -> None:
    content = instances({}, x="x/6.jpg", y="y/6.jpg", z="b.c.png", w="w/9.jpg")
    truth = read_coco_ground_truths(save(tmp_path, content))
    path = save(tmp_path, [result(image_id=name)], "dt.json")
    if index is None:
        with pytest.raises(FileFormatError, match="image_id is not among the images"):
            read_coco_detections(path, truth)
        return
    counts = [len(one["scores"]) for one in read_coco_detections(path, truth).predictions]
    assert counts == [int(k == index) for k in range(4)]


def test_names_on_the_side_of_the_ground_truth(tmp_path: Path) -> None:
    content = instances({"image_id": "b.jpg"}, {"image_id": "a"}, x="a.jpg", y="b.jpg")
    truth = read_coco_ground_truths(save(tmp_path, content))
    assert [len(one["boxes"]) for one in truth.targets] == [1, 1]
    for row, name in zip(content["images"], ("p.jpg", "q.jpg"), strict=True):
        row["id"] = name
    content["annotations"][0]["image_id"] = "q.jpg"
    content["annotations"][1]["image_id"] = "p.jpg"
    truth = read_coco_ground_truths(save(tmp_path, content))
    path = save(tmp_path, [result(image_id="q")], "dt.json")
    assert [len(p["boxes"]) for p in read_coco_detections(path, truth).predictions] == [0, 1]


def test_numbers_in_names_only_if_all_are(tmp_path: Path, warned: list[str]) -> None:
    content = instances({}, x="0007.jpg", y="0001.jpg")
    truth = read_coco_ground_truths(save(tmp_path, content))
    path = save(tmp_path, [result(image_id=7), result(image_id=1)], "dt.json")
    got = read_coco_detections(path, truth)
    assert [len(one["boxes"]) for one in got.predictions] == [1, 1]
    assert "numbers in the names" in warned[0]
    save(tmp_path, [result(image_id=7), result(image_id=2)], "dt.json")
    with pytest.raises(FileFormatError, match=r"\[0\]: image_id is not among the images"):
        read_coco_detections(path, truth)


def test_a_string_that_fits_an_id_and_another_file_fits_neither(tmp_path: Path) -> None:
    truth = read_coco_ground_truths(save(tmp_path, instances({}, x="2.jpg", y="1.jpg")))
    path = save(tmp_path, [result(image_id="2")], "dt.json")
    with pytest.raises(FileFormatError, match="image_id is not among the images"):
        read_coco_detections(path, truth)


# Forms of files -----------------------------------------------------------------------------------


def test_results_in_a_whole_instances_file(tmp_path: Path) -> None:
    truth = read_coco_ground_truths(save(tmp_path, instances({})))
    path = save(tmp_path, instances({"score": 0.5}), "dt.json")
    assert read_coco_detections(path, truth).predictions[0]["scores"].tolist() == [0.5]
    path = save(tmp_path, instances({}), "dt.json")
    with pytest.raises(FileFormatError, match=r"dt.json, annotations\[0\]: no 'score'"):
        read_coco_detections(path, truth)


def test_masks_need_no_boxes(tmp_path: Path) -> None:
    content = instances({"segmentation": SQUARE})
    del content["annotations"][0]["bbox"]
    path = save(tmp_path, content)
    got = read_coco_ground_truths(path, masks=True, boxes=False)
    assert "boxes" not in got.targets[0]
    assert got.targets[0]["area"].isnan().all()
    assert read_coco_ground_truths(path, masks=True).targets[0]["boxes"].tolist() == [[0] * 4]
    with pytest.raises(FileFormatError, match="no 'bbox' in the element"):
        read_coco_ground_truths(path)


@pytest.mark.parametrize(
    ("segmentation", "said"),
    [
        ([[1, 1, 5, 5]], "three corners"),
        ([1, 1, 5, 5, 1, 5], "polygon"),
        (None, "must be polygons x, y, x, y, ..., or run lengths"),
        ({"size": [20, 20]}, "must be polygons x, y, x, y, ..., or run lengths"),
        ({"size": [20, 20], "counts": [3]}, "add up to 3 of 400"),
        ({"size": [9, 9], "counts": [81]}, "image of"),
    ],
)
def test_faults_of_masks_name_the_annotation(
    segmentation: Any, said: str, tmp_path: Path, warned: list[str]
) -> None:
    content = instances({"segmentation": SQUARE}, {"id": 77, "segmentation": segmentation})
    path = save(tmp_path, content)
    with pytest.raises(FileFormatError, match=said) as caught:
        read_coco_ground_truths(path, masks=True)
    assert f"{path}, annotations[1]: segmentation of annotation id 77, image_id 1" in str(
        caught.value
    )
    got = read_coco_ground_truths(path, masks=True, on_fault="skip")
    assert len(got.targets[0]["masks"]) == len(got.targets[0]["boxes"]) == 1
    assert "1 entry is at fault and left out" in warned[0]


def test_a_broken_polygon_beside_another_has_no_pixels(tmp_path: Path, warned: list[str]) -> None:
    alone = read_coco_ground_truths(save(tmp_path, instances({"segmentation": SQUARE})), masks=True)
    content = instances({"segmentation": [*SQUARE, [9, 9], [], [9, 9, 12, 12]]})
    both = read_coco_ground_truths(save(tmp_path, content), masks=True)
    assert both.targets[0]["masks"] == alone.targets[0]["masks"]
    assert "3 entries are outside the evaluation" in warned[0]
    assert "fewer than three corners beside others of annotation id 1, image_id 1" in warned[0]


# Warnings -----------------------------------------------------------------------------------------


def test_an_empty_segmentation_is_pointed_out(tmp_path: Path, warned: list[str]) -> None:
    content = instances({"segmentation": SQUARE}, {"segmentation": []}, {"segmentation": []})
    path = save(tmp_path, content)
    assert len(read_coco_ground_truths(path, masks=True).targets[0]["masks"]) == 3
    assert len(warned) == 1
    assert "annotations[1]: an empty segmentation of annotation id 2" in warned[0]
    read_coco_ground_truths(path)
    assert len(warned) == 1


def test_the_last_number_of_an_odd_polygon_is_ignored(tmp_path: Path, warned: list[str]) -> None:
    """``frPoly`` of pycocotools reads half as many corners as there are numbers, rounded down."""
    odd = [[*SQUARE[0], 19]]
    content = instances(*({"segmentation": one} for one in (SQUARE, odd, odd)))
    first, *others = read_coco_ground_truths(save(tmp_path, content), masks=True).targets[0][
        "masks"
    ]
    assert others == [first, first]
    assert len(warned) == 1
    said = "annotations[1]: a polygon of an odd count of numbers of annotation id 2, image_id 1"
    assert f"{said}, and 1 more like it" in warned[0]


def test_equal_annotation_ids_are_pointed_out(tmp_path: Path, warned: list[str]) -> None:
    content = instances({"id": 5}, {"id": 5}, {"id": 6}, {"id": 5}, {"id": 8}, {"id": 8})
    read_coco_ground_truths(save(tmp_path, content))
    assert len(warned) == 1
    assert "annotation id 5 is given 3 times, and 1 more ids likewise" in warned[0]
    missing = copy.deepcopy(content)
    for row in missing["annotations"]:
        del row["id"]
    read_coco_ground_truths(save(tmp_path, missing))
    assert len(warned) == 1


def test_boxes_beside_masks_are_pointed_out(tmp_path: Path, warned: list[str]) -> None:
    content = instances({"segmentation": SQUARE})
    truth = read_coco_ground_truths(save(tmp_path, content), masks=True)
    path = save(tmp_path, [result(segmentation=SQUARE)], "dt.json")
    read_coco_detections(path, truth, masks=True, boxes=True)
    assert warned == []
    read_coco_detections(path, truth, masks=True, boxes=False)
    assert "coco2017_segm_box_area" in warned[0]


def test_pedestrians_of_category_0_are_pointed_out(tmp_path: Path, warned: list[str]) -> None:
    content = instances({"category_id": 0}, {}, {"category_id": 2, "bbox": "x"}, {"image_id": 9})
    truth = read_pedestrian_json(save(tmp_path, content))
    assert len(truth.targets[0]["boxes"]) == 1
    assert "annotations[0]: category_id 0" in warned[0]
    assert "2 entries are outside the evaluation" in warned[1]
    assert len(warned) == 2
    rows = [result(), result(image_id="a", category_id=0), result(image_id="a")]
    path = save(tmp_path, rows, "dt.json")
    assert read_pedestrian_detections(path, truth).num_detections == (2,)
    assert "[1]: category_id 0" in warned[2]
    path = save(tmp_path, [result(), result(score="x")], "dt.json")
    with pytest.raises(FileFormatError, match=r"\[1\]: score must be a number"):
        read_pedestrian_detections(path, truth)
    assert read_pedestrian_detections(path, truth, on_fault="skip").num_detections == (1,)


def test_what_difficult_means(tmp_path: Path) -> None:
    """The key of that name goes before ``ignore``, and that before ``iscrowd``."""
    content = instances(
        {"difficult": 0, "ignore": 1, "iscrowd": 1},
        {"ignore": 0, "iscrowd": 1},
        {"iscrowd": 1},
        {"difficult": 1, "ignore": 0},
        {},
    )
    truth = read_coco_ground_truths(save(tmp_path, content))
    assert truth.targets[0]["difficult"].tolist() == [False, False, True, True, False]


def test_boxes_of_files_of_version_0_1(tmp_path: Path, warned: list[str]) -> None:
    """x = xmin - 1 and width = xmax - xmin + 1, in decimals, for rules of inclusive pixels."""
    keys = {"difficult": 0, "truncated": 0, "occluded": 0, "view": ""}
    for box, corners in (([0, 0, 10, 4], [1, 1, 10, 4]), ([0.1, 0, 10.2, 4], [1.1, 1, 10.3, 4])):
        path = save(tmp_path, instances(keys | {"bbox": box}))
        truth = read_coco_ground_truths(path, inclusive_pixels=True)
        assert truth.box_format == "xyxy"
        assert truth.targets[0]["boxes"].tolist() == [corners]
        dt = save(tmp_path, [result(bbox=box)], "dt.json")
        assert read_coco_detections(dt, truth).predictions[0]["boxes"].tolist() == [corners]
        assert read_coco_ground_truths(path).targets[0]["boxes"].tolist() == [box]
    assert all("as version 0.1 converted them" in sentence for sentence in warned)
