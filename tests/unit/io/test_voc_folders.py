"""Folders of annotations as people have them: image sets, flat folders, names, faults."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from torch_vocmetrics import FileFormatError, VocMetricsWarning, io
from torch_vocmetrics.cli import main

BOX = "<bndbox><xmin>{x}</xmin><ymin>2</ymin><xmax>30</xmax><ymax>40</ymax></bndbox>"
NAN = BOX.replace("30", "NaN")


def xml(*objects: tuple[str, str]) -> str:
    """An annotation of objects of a class and a box."""
    inside = "".join(
        f"<object><name>{name}</name>{box.format(x=k)}</object>"
        for k, (name, box) in enumerate(objects, 1)
    )
    return f"<annotation>{inside}</annotation>"


def write(folder: Path, **files: str) -> Path:
    """Files of a folder, by their names without the ending."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.xml").write_text(text)
    return folder


def listed(folder: Path, text: str, name: str = "test") -> Path:
    lists = folder / "ImageSets" / "Main"
    lists.mkdir(parents=True, exist_ok=True)
    (lists / f"{name}.txt").write_text(text)
    return folder


@pytest.mark.parametrize("place", ["", "Annotations", "annotations", "Annotations/deep"])
def test_all_annotations_of_a_folder_without_lists(tmp_path: Path, place: str) -> None:
    write(tmp_path / place, b=xml(("cat", BOX)), a=xml())
    (tmp_path / place / "b.txt").write_text("0 0.5 0.5 0.1 0.1\n")  # labels of another tool
    got = io.read_voc_ground_truths(tmp_path)
    prefix = "deep/" if "deep" in place else ""
    assert got.image_ids == (f"{prefix}a", f"{prefix}b")
    assert got.class_names == ("cat",)
    if not prefix:
        with pytest.raises(FileFormatError, match=r"no image set 'val'; .*no ImageSets"):
            io.read_voc_ground_truths(tmp_path, "val")


def test_a_folder_for_each_set(tmp_path: Path) -> None:
    write(tmp_path / "train", a=xml(("cat", BOX)))
    write(tmp_path / "valid", b=xml(("dog", BOX)))
    assert io.read_voc_ground_truths(tmp_path, "valid").class_names == ("dog",)
    for name in (None, "test"):
        with pytest.raises(FileFormatError, match="sets with annotations: train, valid"):
            io.read_voc_ground_truths(tmp_path, name)


def test_a_missing_set_names_those_that_there_are(tmp_path: Path) -> None:
    write(tmp_path / "Annotations", a=xml())
    for name in ("train", "val", "cat_val"):
        listed(tmp_path, "a\n", name)
    with pytest.raises(FileFormatError, match=r"no image set 'test'; there are train, val$"):
        io.read_voc_ground_truths(tmp_path)


@pytest.mark.parametrize(
    ("line", "image_id"),
    [
        ("img 2", "img 2"),
        ("img 1", "img"),
        ("img -1", "img"),
        ("img 0", "img"),
        ("img  2", "img  2"),
        ("  img 2  ", "img 2"),
        ("img 2 1", "img 2"),
        ("img.jpg", "img"),
        ("JPEGImages/img.jpg", "img"),
        ("/data/JPEGImages/img.png", "img"),
        ("img.jpg 1", "img"),
    ],
)
def test_lines_of_an_image_set(tmp_path: Path, line: str, image_id: str) -> None:
    write(tmp_path / "Annotations", **{"img": xml(), "img 2": xml(), "img  2": xml()})
    assert io.find_voc_images(listed(tmp_path, line + "\n")).ids == (image_id,)


def test_a_line_that_may_be_two_images(tmp_path: Path) -> None:
    write(tmp_path / "Annotations", **{"img": xml(), "img 1": xml()})
    with pytest.raises(FileFormatError, match="line 1: the line may be two images, got 'img 1'"):
        io.find_voc_images(listed(tmp_path, "img 1\n"))


def test_names_with_blanks_in_results(tmp_path: Path) -> None:
    write(tmp_path, **{"a b": xml(("cat", BOX)), "a": xml()})
    truth = io.read_voc_ground_truths(tmp_path)
    path = tmp_path / "cat.txt"
    path.write_text("a b 0.5 1 2 30 40\na.jpg .25 1 2 3 4\n")
    got = io.read_voc_detections({"cat": path}, truth)
    assert [one["scores"].tolist() for one in got.predictions] == [[0.25], [0.5]]
    path.write_text("a c 0.5 1 2 30 40\n")
    with pytest.raises(FileFormatError, match="line 1: not a row of a results file, got 7 columns"):
        io.read_voc_detections({"cat": path}, truth)
    path.write_text("b c 0.5 1 2 30 40\n")
    with pytest.raises(FileFormatError, match="line 1: the image is not in the image set"):
        io.read_voc_detections({"cat": path}, truth)


def test_names_with_blanks_in_the_sets_of_classes(tmp_path: Path) -> None:
    lists = listed(tmp_path, "a b 1\n\nc -1\n", "cat_test") / "ImageSets" / "Main"
    assert io.read_class_set(lists / "cat_test.txt") == {"a b": 1, "c": -1}
    (tmp_path / "s.txt").write_text("a b 0.5\nc 1\n")
    assert io.read_scores(tmp_path / "s.txt", {"a b": 0, "c": 1}).tolist() == [0.5, 1]
    io.write_class_set(tmp_path / "again.txt", {"a b": 1, "c": -1})
    assert io.read_class_set(tmp_path / "again.txt") == {"a b": 1, "c": -1}


# Faults -------------------------------------------------------------------------------------------


def test_faults_of_objects(tmp_path: Path) -> None:
    write(tmp_path, a=xml(("cat", BOX), ("dog", NAN), ("dog", "")), b=xml(("cat", NAN)))
    with pytest.warns(VocMetricsWarning) as seen:
        got = io.read_voc_ground_truths(tmp_path, class_names=["cat"], on_fault="skip")
    assert [len(one["boxes"]) for one in got.targets] == [1, 0]
    assert len(seen) == 2
    assert "1 entry is at fault and left out; the first: (1) " in str(seen[0].message)
    assert "2 entries are outside" in str(seen[1].message)
    assert "a.xml, object 2 (dog), bndbox/xmax: not a finite number" in str(seen[1].message)
    assert got.other_objects == {"dog": 2}
    with pytest.raises(FileFormatError, match=r"a\.xml, object 2 .*; 2 more entries are at fault"):
        io.read_voc_ground_truths(tmp_path)


def test_an_empty_object_is_none(tmp_path: Path) -> None:
    write(tmp_path, a=xml(("cat", BOX)).replace("</annotation>", "<object> </object></annotation>"))
    with pytest.warns(VocMetricsWarning, match="object 2: the object is empty"):
        got = io.read_voc_ground_truths(tmp_path)
    assert len(got.targets[0]["boxes"]) == 1
    write(tmp_path, a=xml(("", BOX)))
    with pytest.raises(FileFormatError, match="no <name> in the object"):
        io.read_voc_ground_truths(tmp_path, class_names=["cat"])


def test_an_annotation_at_fault_leaves_its_image_out(tmp_path: Path) -> None:
    write(tmp_path, a=xml(("cat", BOX)), b="", c="<x/>")
    path = tmp_path / "cat.out"
    path.write_text("a .5 1 2 30 40\nb .5 1 2 30 40\na x 1 2 30 40\n")
    with pytest.raises(FileFormatError, match=r"b\.xml, line 1: not well-formed XML.*1 more entry"):
        io.read_voc_ground_truths(tmp_path)
    with pytest.warns(VocMetricsWarning, match="2 entries are at fault"):
        truth = io.read_voc_ground_truths(tmp_path, on_fault="skip")
    assert truth.image_ids == ("a",)
    with pytest.raises(FileFormatError, match=r"line 2: the image is not in .*1 more entry is at"):
        io.read_voc_detections({"cat": path}, truth)
    with pytest.warns(VocMetricsWarning, match="2 entries are at fault"):
        got = io.read_voc_detections({"cat": path}, truth, on_fault="skip")
    assert got.predictions[0]["order"].tolist() == [0]


PENN_FUDAN = """# Compatible with PASCAL Annotation Version 1.00
Image filename : "PennFudanPed/PNGImages/FudanPed00001.png"
Image size (X x Y x C) : 559 x 536 x 3
Database : "The Penn-Fudan-Pedestrian Database"
Objects with ground truth : 2 { "PASpersonWalking" "PASperson" }
# Note there may be some objects not included in the ground truth list
Original label for object 1 "PASpersonWalking" : "PennFudanPed"
Bounding box for object 1 "PASpersonWalking" (Xmin, Ymin) - (Xmax, Ymax) : (160, 182) - (302, 431)
Pixel mask for object 1 "PASpersonWalking" : "PennFudanPed/PedMasks/FudanPed00001_mask.png"

# Details for object 2 ("PASperson")
Original label for object 2 "PASperson" : "UprightPerson"
Bounding box for object 2 "PASperson" (Xmin, Ymin) - (Xmax, Ymax) : (420, 171) - (535, 486)
"""


def test_the_class_is_the_quoted_pascal_label(tmp_path: Path) -> None:
    """The forms of Penn-Fudan and INRIA, whose original labels are words of their own."""
    (tmp_path / "FudanPed00001.txt").write_text(PENN_FUDAN)
    got = io.read_voc_ground_truths(tmp_path)
    assert (got.image_ids, got.class_names) == (("FudanPed00001",), ("person",))
    assert got.targets[0]["boxes"].tolist() == [[160, 182, 302, 431], [420, 171, 535, 486]]
    assert got.targets[0]["image_size"] == (536, 559)


# Classes of the command ---------------------------------------------------------------------------


def evaluate(folder: Path, *more: str) -> int:
    results = str(folder / "det_{class}.out")
    argv = ["evaluate", "voc2012", "--ground-truth", str(folder), "--detections", results]
    return main([*argv, "--json", str(folder / "out.json"), "--quiet", *more])


def numbers(folder: Path) -> dict[str, float]:
    return json.loads((folder / "out.json").read_text())["summary"]


def test_classes_of_the_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, a=xml(("plate", BOX), ("cup", BOX), ("bottle", BOX)))
    (tmp_path / "det_cup.out").write_text("a .5 2 2 30 40\n")
    assert evaluate(tmp_path) == 0
    assert numbers(tmp_path) == {"mAP": 1 / 3, "AP/bottle": 0.0, "AP/cup": 1.0, "AP/plate": 0.0}
    errors = capsys.readouterr().err
    assert "the classes are those of the annotations, bottle, cup, plate" in errors
    assert "no results file for bottle, plate" in errors
    assert evaluate(tmp_path, "--classes", "cup") == 0
    assert "2 objects of classes not evaluated: plate (1), bottle (1)" in capsys.readouterr().err
    assert evaluate(tmp_path, "--classes", "cup,plat") == 2
    assert "--classes: class 'plat' has neither" in (errors := capsys.readouterr().err)
    assert "near names: plate" in errors


def test_the_twenty_classes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, a=xml(("cat", BOX)))
    (tmp_path / "det_cat.out").write_text("a .5 1 2 30 40\n")
    assert evaluate(tmp_path) == 0
    assert len(numbers(tmp_path)) == 21
    assert capsys.readouterr().err == ""
    assert evaluate(tmp_path, "--classes", "cat,dog") == 0
    assert capsys.readouterr().err == ""


def test_capitals_are_pointed_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, a=xml(("Cat", BOX), ("cat", BOX)))
    (tmp_path / "det_cat.out").write_text("")
    assert evaluate(tmp_path, "--classes", "cat") == 0
    assert "'cat' and 'Cat' are different classes" in capsys.readouterr().err


def test_faults_are_skipped_on_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, a=xml(("cat", BOX)), b="")
    (tmp_path / "det_cat.out").write_text("a .5 1 2 30 40\nb .5 1 2 30 40\n")
    assert evaluate(tmp_path) == 2
    assert "--on-fault skip" in capsys.readouterr().err
    assert evaluate(tmp_path, "--on-fault", "skip") == 0
    assert numbers(tmp_path)["AP/cat"] == 1.0
    assert capsys.readouterr().err.count("1 entry is at fault") == 2


# vocmetrics convert -------------------------------------------------------------------------------


def test_convert_keeps_all_classes_and_no_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, path = tmp_path / "voc", tmp_path / "gt.json"
    write(folder, a=xml(("plate", BOX), ("cup", BOX)), b=xml())
    assert main(["convert", str(folder), str(path)]) == 0
    content = json.loads(path.read_text())
    assert [one["name"] for one in content["categories"]] == ["cup", "plate"]
    assert [one["bbox"] for one in content["annotations"]] == [[1, 2, 29, 38], [2, 2, 28, 38]]
    assert capsys.readouterr().err == f"2 images written to {path}\n"
    assert main(["convert", str(folder), str(path)]) == 2
    assert "the file exists" in capsys.readouterr().err
    assert main(["convert", str(folder), str(path), "--force", "--classes", "cup"]) == 0
    assert "not converted: 1 objects of other classes" in capsys.readouterr().err
    assert main(["convert", str(folder), str(tmp_path / "b.json"), "--classes", "cap"]) == 2
    assert "no object of class 'cap'; near names: cup" in capsys.readouterr().err
    assert not (tmp_path / "b.json").exists()


def test_convert_counts_what_voc_has_no_place_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = {
        "images": [{"id": 1, "file_name": "x/1.jpg"}, {"id": 2, "file_name": "y/1.jpg"}],
        "categories": [{"id": k, "name": name} for k, name in enumerate(("a", "b", "c"))],
        "annotations": [
            {"image_id": 1, "category_id": 0, "bbox": [1, 1, 2, 2], "segmentation": [[1] * 6]},
            {"image_id": 2, "category_id": 1, "bbox": [1, 1, 2, 2], "keypoints": [1, 1, 2]},
            {"image_id": 9, "category_id": 1, "bbox": [1, 1, 2, 2]},
        ],
    }
    source, out = tmp_path / "gt.json", tmp_path / "out"
    source.write_text(json.dumps(content))
    assert main(["convert", str(source), str(out)]) == 0
    errors = capsys.readouterr().err
    assert "1 segmentations, 1 lists of keypoints, 1 categories without objects" in errors
    assert "1 entry is outside the evaluation" in errors
    assert (out / "ImageSets" / "Main" / "test.txt").read_text() == "x/1\ny/1\n"
    assert io.read_voc_ground_truths(out).class_names == ("a", "b")
    assert main(["convert", str(source), str(out)]) == 2
    assert "the file exists, got 3 such files" in capsys.readouterr().err
    content["images"][1]["file_name"] = "x/1.png"
    source.write_text(json.dumps(content))
    assert main(["convert", str(source), str(tmp_path / "other")]) == 2
    assert "'x/1.jpg' and 'x/1.png'" in capsys.readouterr().err


@pytest.mark.parametrize("protocol", ["voc2006", "voc2007", "voc2012", "coco2017"])
def test_a_folder_and_its_conversion_have_equal_numbers(
    tmp_path: Path, protocol: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Difficult objects and the last pixel mean the same in the folder, the file and back."""
    box = (1.0, 1.0, 10.0, 10.0)
    hit, miss = (1.0, 1.0, 10.0, 5.0), (1.0, 1.0, 10.0, 4.9)  # 50 and 49 of 100 pixels
    objects = [(box, False), ((31.0, 31.0, 44.5, 40.7), True), ((61.0, 5.0, 70.0, 14.0), False)]
    annotation = io.VocAnnotation(
        image_size=(100, 100),
        objects=tuple(io.VocObject(name="cat", box=b, difficult=d) for b, d in objects),
        filename="a.jpg",
    )
    folder = tmp_path / "V"
    write(folder / "Annotations")
    io.write_annotation(folder / "Annotations" / "a.xml", annotation)
    boxes = [hit, objects[1][0], (61.0, 5.0, 70.0, 8.9), miss]
    rows = [("a", 0.9 - k / 10, box) for k, box in enumerate(boxes)]
    io.write_detections(tmp_path / "det_cat.txt", rows)
    source, back = tmp_path / "gt.json", tmp_path / "back"
    assert main(["convert", str(folder), str(source)]) == 0
    assert main(["convert", str(source), str(back)]) == 0
    assert io.read_annotation(back / "Annotations" / "a.xml") == annotation
    found = [
        {"image_id": 1, "category_id": 1, "score": s, "bbox": [x, y, x2 - x, y2 - y]}
        for _, s, (x, y, x2, y2) in rows
    ]
    (tmp_path / "dt.json").write_text(json.dumps(found))
    capsys.readouterr()
    answers = []
    for truth, detections in (
        (folder, tmp_path / "det_{class}.txt"),
        (source, tmp_path / "dt.json"),
        (back, tmp_path / "det_{class}.txt"),
    ):
        argv = ["evaluate", protocol, "--ground-truth", str(truth), "--json", "-"]
        assert main([*argv, "--detections", str(detections), *_cat(truth)]) == 0
        out, errors = capsys.readouterr()
        assert errors == ""
        answer = json.loads(out)
        answers.append([answer["summary"], answer["classes"]])
    assert answers[0] == answers[1] == answers[2]


def _cat(truth: Path) -> list[str]:
    return ["--classes", "cat"] if truth.is_dir() else []


def test_other_files_say_how_their_boxes_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = {
        "images": [{"id": 1}],
        "categories": [{"id": 1, "name": "cat"}],
        "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [0, 0, 9, 9]}],
    }
    (tmp_path / "gt.json").write_text(json.dumps(content))
    # 10 x 5 of 10 x 10 pixels, both ends included: exactly half.
    row = {"image_id": 1, "category_id": 1, "bbox": [0, 0, 9, 4], "score": 0.5}
    (tmp_path / "dt.json").write_text(json.dumps([row]))
    argv = ["--ground-truth", str(tmp_path / "gt.json"), "--json", "-"]
    argv += ["--detections", str(tmp_path / "dt.json")]
    assert main(["evaluate", "voc2012", *argv]) == 0
    out, errors = capsys.readouterr()
    assert json.loads(out)["summary"]["mAP"] == 1.0
    assert "they are read as x = xmin, y = ymin, width = xmax - xmin" in errors
    assert main(["evaluate", "coco2017", *argv]) == 0
    assert capsys.readouterr().err == ""


# Other tasks --------------------------------------------------------------------------------------


def test_options_of_other_tasks_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, a=xml(("cat", BOX)))
    (tmp_path / "det_cat.out").write_text("")
    for option in (("--void", "255"), ("--label-ids", "1"), ("--reduce-zero-label",)):
        assert evaluate(tmp_path, *option) == 2
        assert f"{option[0]}: not an option of detection" in capsys.readouterr().err


def test_classes_of_classification(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("cup", "plate"):
        listed(tmp_path, "a 1\nb -1\n", f"{name}_test")
    (tmp_path / "cls_cup.out").write_text("a 0.9\nb 0.1\n")
    argv = ["evaluate", "classification/voc2012", "--ground-truth", str(tmp_path), "--quiet"]
    argv += ["--detections", str(tmp_path / "cls_{class}.out"), "--classes"]
    assert main([*argv, "cup,plate"]) == 0
    assert "no results file for plate: not evaluated" in capsys.readouterr().err
    assert main([*argv, "cup,plat"]) == 2
    assert "class 'plat' has no list plat_test.txt; near names: plate" in capsys.readouterr().err


def test_missing_sets_of_other_tasks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lists = tmp_path / "ImageSets" / "Segmentation"
    lists.mkdir(parents=True)
    (lists / "train.txt").write_text("a\n")
    argv = ["evaluate", "segmentation/voc2012", "--ground-truth", str(tmp_path)]
    assert main([*argv, "--detections", str(tmp_path)]) == 2
    assert "no image set 'test'; there are train" in capsys.readouterr().err
