"""Image sets, ground truth and results files of the VOC development kits."""

from __future__ import annotations

import random
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from torch_vocmetrics import FileFormatError, VocMetricsWarning
from torch_vocmetrics.io import (
    GroundTruthFile,
    create_segmentations_from_detections,
    find_results,
    read_image_set,
    read_voc_detections,
    read_voc_ground_truths,
    voc_results,
)
from torch_vocmetrics.io.voc_coco import _image_ids

OBJECT = (
    "<object><name>{name}</name><difficult>{difficult}</difficult><bndbox><xmin>{k}</xmin>"
    "<ymin>2</ymin><xmax>30</xmax><ymax>40</ymax></bndbox></object>"
)


@pytest.fixture
def kit(tmp_path: Path) -> Path:
    """Three images: two dogs and a cat, nothing, a difficult cat."""
    (tmp_path / "ImageSets" / "Main").mkdir(parents=True)
    (tmp_path / "ImageSets" / "Main" / "test.txt").write_text("b\na\nc\n")
    (tmp_path / "Annotations").mkdir()
    contents = {
        "b": [("dog", 0, 1), ("cat", 0, 2), ("dog", 0, 3)],
        "a": [("zebra", 0, 1)],
        "c": [("cat", 1, 4)],
    }
    for image_id, objects in contents.items():
        inside = "".join(OBJECT.format(name=n, difficult=d, k=k) for n, d, k in objects)
        size = "<size><width>50</width><height>60</height></size>" * (image_id != "c")
        text = f"<annotation>{size}{inside}</annotation>"
        (tmp_path / "Annotations" / f"{image_id}.xml").write_text(text)
    return tmp_path


def truth(*image_ids: str, classes: tuple[str, ...] = ("dog",)) -> GroundTruthFile:
    return GroundTruthFile(
        image_ids=image_ids,
        class_names=classes,
        label_ids=tuple(range(len(classes))),
        box_format="xyxy",
        targets=[{} for _ in image_ids],
    )


def test_image_set_keeps_its_order_and_passes_over_flags(tmp_path: Path) -> None:
    path = tmp_path / "dog_test.txt"
    path.write_bytes(b"\xef\xbb\xbf000002  1\r\n\r\n000001 -1\r\n2008_000003\n")
    assert read_image_set(path) == ("000002", "000001", "2008_000003")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a\nb\na 1\n", "line 3: image a is listed twice, got the id of line 1"),
        ("\n \n", "the image set is empty"),
        ("a\n\udce9\n", "line 2: not UTF-8 text"),
    ],
)
def test_bad_image_sets(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "test.txt"
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(FileFormatError, match=said):
        read_image_set(path)


def test_targets(kit: Path) -> None:
    seen: list[tuple[int, int]] = []
    ground_truths = read_voc_ground_truths(
        kit, "test", class_names=["cat", "dog"], progress=lambda *counts: seen.append(counts)
    )
    assert (ground_truths.image_ids, ground_truths.class_names) == (("b", "a", "c"), ("cat", "dog"))
    assert (ground_truths.label_ids, ground_truths.box_format) == ((0, 1), "xyxy")
    b, a, c = ground_truths.targets
    assert b["boxes"].tolist() == [[1, 2, 30, 40], [2, 2, 30, 40], [3, 2, 30, 40]]
    assert b["labels"].tolist() == [1, 0, 1]
    assert (b["image_id"], b["image_size"]) == ("b", (60, 50))
    assert a["boxes"].shape == (0, 4)
    assert a["labels"].dtype == torch.int64
    assert (c["difficult"].tolist(), "image_size" in c) == ([True], False)
    assert b["boxes"].dtype == torch.float64
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_the_text_form_is_read_where_there_is_no_xml(kit: Path) -> None:
    (kit / "Annotations" / "a.txt").write_text(
        "Objects with ground truth : 1 {}\n"
        'Original label for object 1 "PAScatDifficult" : "x"\n'
        'Bounding box for object 1 "PAScatDifficult" (Xmin, Ymin) - (Xmax, Ymax) : (9, 9) - (1, 1)'
    )
    for boxes in ([], [[1, 1, 9, 9]]):
        got = read_voc_ground_truths(kit, "test", class_names=["cat"])
        assert got.targets[1]["boxes"].tolist() == boxes
        (kit / "Annotations" / "a.xml").unlink(missing_ok=True)


def test_a_missing_annotation_is_named(kit: Path) -> None:
    (kit / "Annotations" / "a.xml").unlink()
    with pytest.raises(FileFormatError, match=r"a\.xml: there is no annotation"):
        read_voc_ground_truths(kit, "test", class_names=["cat"])
    with pytest.warns(VocMetricsWarning, match="1 entry is at fault and left out"):
        got = read_voc_ground_truths(kit, "test", class_names=["cat"], on_fault="skip")
    assert got.image_ids == ("b", "c")


def test_predictions_keep_bits_and_rows(tmp_path: Path) -> None:
    (tmp_path / "dog.txt").write_text(
        "c .5 1 2 3 4\nb 0.1 -1e1 2 3.25 4\r\n\n  c\t1e-300 5 6 7 8  "
    )
    (tmp_path / "cat.txt").write_text("b 123456789.125 1 1 2 2\n")
    ground_truths = truth("b", "a", "c", classes=("cat", "dog"))
    files = {name: tmp_path / f"{name}.txt" for name in ("dog", "cat")}
    detections = read_voc_detections(files, ground_truths)
    b, a, c = detections.predictions
    assert b["labels"].tolist() == [0, 1]
    assert b["order"].tolist() == [0, 1]
    assert b["scores"].tolist() == [123456789.125, 0.1]
    assert b["boxes"].tolist() == [[1, 1, 2, 2], [-10, 2, 3.25, 4]]
    assert c["scores"].tolist() == [0.5, 1e-300]
    assert c["order"].tolist() == [0, 2]
    assert a["boxes"].shape == (0, 4)
    assert b["scores"].dtype == b["boxes"].dtype == torch.float64
    assert detections.num_detections == (1, 3)
    without = read_voc_detections(files, ground_truths, file_order=False)
    assert all("order" not in prediction for prediction in without.predictions)


def test_a_class_without_rows_or_without_file(tmp_path: Path) -> None:
    (tmp_path / "dog.txt").write_text("")
    detections = read_voc_detections(
        {"dog": tmp_path / "dog.txt"}, truth("a", classes=("cat", "dog"))
    )
    assert detections.num_detections == (0, 0)
    assert detections.predictions[0]["boxes"].shape == (0, 4)


BAD_ROWS = {
    "five columns": ("a .5 1 2 3", "line 3: not a row of a results file, got 5 columns"),
    "seven columns": ("a .5 1 2 3 4 5", "line 3: not a row of a results file, got 7 columns"),
    "word": ("a .5 1 two 3 4", "line 3, ymin: not a finite number, got 'two'"),
    "comma": ("a .5 1, 2 3 4", "line 3, xmin: not a finite number, got '1,'"),
    "NaN score": ("a nan 1 2 3 4", "line 3, confidence: not a number"),
    "infinite box": ("a .5 1 2 inf 4", "line 3, xmax: not a finite number"),
    "huge": ("a .5 1 2 1e999 4", "line 3, xmax: not a finite number"),
    "underscore": ("a .5 1 2 1_0 4", "line 3, xmax: not a finite number"),
    "other digits": ("a .5 1 2 \u0661 4", "line 3, xmax: not a finite number"),
    "unknown image": ("z .5 1 2 3 4", "line 3: the image is not in the image set, got 'z'"),
    "two faults": ("z .5 1 2 3 4\na", "line 3: the image is not in the image set"),
}


@pytest.mark.parametrize(("row", "said"), BAD_ROWS.values(), ids=BAD_ROWS)
def test_bad_rows_are_named(tmp_path: Path, row: str, said: str) -> None:
    path = tmp_path / "dog.txt"
    path.write_text(f"a .9 1 2 3 4\n\n{row}\na .8 1 2 3 4\n", encoding="utf-8")
    with pytest.raises(FileFormatError, match=said) as caught:
        read_voc_detections({"dog": path}, truth("a"))
    assert str(caught.value).startswith(str(path))


def test_find_results(tmp_path: Path) -> None:
    (tmp_path / "comp4_det_test_dog.txt").touch()
    pattern = str(tmp_path / "comp4_det_test_{class}.txt")
    assert list(find_results(pattern, ["cat", "dog"])) == ["dog"]
    with pytest.raises(FileFormatError, match="none of the 1 classes has a results file"):
        find_results(pattern, ["cat"])
    with pytest.raises(FileFormatError, match=r"write \{class\}"):
        find_results(str(tmp_path / "comp4_det_test_dog.txt"), ["dog"])


def test_a_hundred_thousand_rows_take_no_time(tmp_path: Path) -> None:
    image_ids = [f"2008_{k:06d}" for k in range(5000)]
    numbers = np.random.default_rng(0).random((100_000, 5)).round(6).tolist()
    lines = [" ".join([image_ids[k % 5000], *map(str, row)]) for k, row in enumerate(numbers)]
    path = tmp_path / "dog.txt"
    path.write_text("\n".join(lines))
    started = time.process_time()
    detections = read_voc_detections({"dog": path}, truth(*image_ids))
    assert time.process_time() - started < 2
    assert detections.num_detections == (100_000,)
    assert detections.predictions[7]["scores"][1].item() == numbers[5007][0]


@pytest.mark.parametrize("column", [2, 3, 4, 5])
def test_every_coordinate_is_finite(column: int, tmp_path: Path) -> None:
    fields = ["a", "0.5", "1", "2", "3", "4"]
    fields[column] = "inf"
    path = tmp_path / "cat.txt"
    path.write_text(" ".join(fields) + "\n")
    painted = create_segmentations_from_detections(
        {"cat": path}, {"a": (9, 9)}, class_names=["cat"]
    )
    with pytest.raises(FileFormatError, match="line 1"):
        list(painted)


def test_images_of_equal_names_in_several_folders() -> None:
    files = ["train/x.jpg", "val/x.jpg", "val/y.jpg"]
    assert _image_ids(files, Path("gt.json")) == ["train/x", "val/x", "y"]


def test_rows_of_six_words_are_those_that_split_makes() -> None:
    rng = random.Random(1)
    for _ in range(500):
        text = "".join(rng.choices("ab012\n\n    \t\x0b\x1c\x1f\x01", k=rng.randint(0, 60)))
        text = rng.choice([text, "a 1 2 3 4 5\n" + text, "a\t1 2\x1c3 4 5 \n \n b 1 2 3 4 5"])
        rows = [row for line in text.split("\n") if (row := line.split())]
        columns = voc_results._columns_of_plain(text)
        plain = all(len(row) == 6 for row in rows)
        assert columns == ([[row[k] for row in rows] for k in range(6)] if plain else None)
