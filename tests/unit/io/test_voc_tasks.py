"""Files of classification, actions and layout; writers; VOC to COCO and back; hostile files."""

from __future__ import annotations

import json
import math
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.support import load_extra

from torch_vocmetrics import FileFormatError, VocMetricsWarning, load_protocol
from torch_vocmetrics.io import (
    VocAnnotation,
    VocLayout,
    VocObject,
    VocPart,
    coco_from_voc,
    read_annotation,
    read_class_set,
    read_image_set,
    read_layouts,
    read_object_set,
    read_scores,
    read_voc_classification,
    read_voc_layouts,
    voc_from_coco,
    write_annotation,
    write_class_set,
    write_detections,
    write_image_set,
    write_layouts,
    write_scores,
)
from torch_vocmetrics.io.image_names import ImageIndex
from torch_vocmetrics.io.voc_results import read_results

BOX = (1.0, 2.0, 30.5, 45.70000076293945)
PARTS = (VocPart(name="head", box=BOX), VocPart(name="hand", box=(3.0, 4.0, 5.0, 6.0)))
PERSON = VocObject(
    name="person", box=BOX, difficult=True, truncated=True, occluded=True, view="Frontal",
    parts=PARTS, actions={"running": True, "jumping": False}, point=(12.0, 9.5),
)  # fmt: skip
WHOLE = VocAnnotation(
    image_size=(480, 640), objects=(PERSON, VocObject(name="dog", box=(1.0, 1.0, 2.0, 2.0))),
    depth=3, segmented=True, folder="VOC2012", filename="a&b.jpg", database="db <1>",
    annotation="an", image="flickr",
)  # fmt: skip


PUBLISHED = load_extra("voc_misc", "annotations")


@pytest.mark.parametrize("case", PUBLISHED, ids=lambda case: f"{case['file']}-{case['year']}")
def test_all_fields_are_those_of_pasreadrecord(case: dict[str, Any], tmp_path: Path) -> None:
    path, year = tmp_path / case["file"], case["year"]
    path.write_text(case["text"])
    annotation = read_annotation(path)
    if "segmented" in case:
        assert annotation.segmented == case["segmented"]
        assert annotation.depth == case["imgsize"][2]
    for got, wanted in zip(annotation.objects, case["objects"], strict=True):
        assert got.label(year) == wanted["label"]
        parts = [{"class": part.name, "bbox": list(part.box)} for part in got.parts]
        assert parts == wanted.get("parts", [])
        assert bool(parts) == wanted.get("hasparts", False)
        if "hasactions" in wanted:
            assert (got.actions is not None) == wanted["hasactions"]
            assert (got.actions or {}) == wanted.get("actions", {})
        if "point" in wanted:
            assert list(got.point or ()) == wanted["point"]


def test_annotations_come_back_equal(tmp_path: Path) -> None:
    for number, one in enumerate((WHOLE, VocAnnotation(image_size=None, objects=()))):
        path = tmp_path / f"{number}.xml"
        write_annotation(path, one)
        assert read_annotation(path) == one


def test_the_text_form_comes_back_equal(tmp_path: Path) -> None:
    objects = tuple(
        VocObject(name="car", box=BOX, truncated=bool(k & 1), difficult=bool(k & 2), view=view)
        for k, view in enumerate(("", "Rear", "Side", "Frontal"))
    )
    written = VocAnnotation(image_size=(480, 640), objects=objects)
    write_annotation(tmp_path / "a.txt", written)
    assert read_annotation(tmp_path / "a.txt") == written
    with pytest.raises(FileFormatError, match="text form"):
        write_annotation(tmp_path / "b.txt", WHOLE)


def test_sets_and_scores_come_back_equal(tmp_path: Path) -> None:
    path = tmp_path / "set.txt"
    write_image_set(path, ["b", "a"])
    assert read_image_set(path) == ("b", "a")
    write_image_set(path, [("b", 2), ("a", 1)])
    assert read_object_set(path) == (("b", 2), ("a", 1))
    for objects, keys in ((False, ["b", "a", "c"]), (True, [("b", 1), ("b", 2), ("a", 1)])):
        labels: dict[Any, int] = dict(zip(keys, (1, -1, 0), strict=True))
        write_class_set(path, labels)
        assert list(read_class_set(path, objects=objects).items()) == list(labels.items())
        scores = dict(zip(keys, (0.1 + 0.2, -math.inf, math.inf), strict=True))
        write_scores(path, scores)  # type: ignore[arg-type]
        known = {key: row for row, key in enumerate(keys)}
        assert read_scores(path, known, objects=objects).tolist() == list(scores.values())


def test_classification_of_a_kit(tmp_path: Path) -> None:
    """Classes as columns, images in the order of the set; without a row the score is -inf."""
    sets = tmp_path / "ImageSets" / "Main"
    sets.mkdir(parents=True)
    (sets / "cat_test.txt").write_text("b 1\na -1\n")
    (sets / "dog_test.txt").write_text("b 0\na 1\n")
    (tmp_path / "cat.txt").write_text("a .25\nb .5\n")
    (tmp_path / "dog.txt").write_text("a .75\n")
    results = {name: tmp_path / f"{name}.txt" for name in ("cat", "dog")}
    read = read_voc_classification(tmp_path, "test", results)
    assert read.image_ids == ("b", "a")
    assert read.scores.tolist() == [[0.5, -math.inf], [0.25, 0.75]]
    assert read.targets.tolist() == [[1, 0], [-1, 1]]


def test_scores_of_missing_and_repeated_images(tmp_path: Path) -> None:
    path = tmp_path / "scores.txt"
    path.write_text("b 0.5\n\nb NaN\nc Inf\n")
    got = read_scores(path, {"a": 0, "b": 1, "c": 2}).tolist()
    assert (got[0], got[2]) == (-math.inf, math.inf)
    assert math.isnan(got[1])


@pytest.mark.parametrize(
    ("read", "content", "words"),
    [
        (read_class_set, "a 1\nb\n", "line 2: not a row of this file, got 1 columns"),
        (read_class_set, "a 2\n", "line 1: not a label, got '2'"),
        (read_class_set, "a 1\na 1\n", "line 2: listed twice, got 'a'"),
        (read_class_set, "\n", "the image set is empty"),
        (read_object_set, "a 0\n", "line 1: not an object index, got '0'"),
        (read_object_set, "a 1.5\n", "not an object index"),
        (read_object_set, "a -1\n", "not an object index"),
        (read_object_set, "a " + "9" * 5000, "not an object index"),
        (lambda path: read_scores(path, {"a": 0}), "b 1\n", "line 1: not in the image set"),
        (lambda path: read_scores(path, {"a": 0}), "a x\n", "not a number, got 'x'"),
    ],
)
def test_malformed_lists(
    read: Callable[[Path], Any], content: str, words: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.txt"
    path.write_text(content)
    with pytest.raises(FileFormatError, match=words):
        read(path)


def test_detections_come_back_equal(tmp_path: Path) -> None:
    rows = [("b", 0.1 + 0.2, BOX), ("a", -1e-300, (1.0, 2.0, 3.0, 4.0))]
    write_detections(tmp_path / "a.txt", rows)
    got = read_results(tmp_path / "a.txt", ImageIndex(["a", "b"]))
    assert got.image_index.tolist() == [1, 0]
    assert got.scores.tolist() == [row[1] for row in rows]
    assert [tuple(box) for box in got.boxes.tolist()] == [row[2] for row in rows]


# Layout -------------------------------------------------------------------------------------------


def layouts() -> list[VocLayout]:
    return [
        VocLayout(image_id="a", confidence=0.1 + 0.2, parts=PARTS, object_index=2),
        VocLayout(image_id="a&<b", confidence=-1e300, parts=(), object_index=None, box=BOX),
    ]


def test_layouts_come_back_equal(tmp_path: Path) -> None:
    for written in (layouts(), []):
        write_layouts(tmp_path / "a.xml", written)
        assert read_layouts(tmp_path / "a.xml") == written


def layout_xml(**changes: str) -> str:
    box = "<bndbox><xmin>1</xmin><ymin>1</ymin><xmax>9</xmax><ymax>9</ymax></bndbox>"
    fields = {
        "image": "<image>a</image>",
        "object": "<object>1</object>",
        "confidence": "<confidence>0.5</confidence>",
        "part": f"<part><class>head</class>{box}</part>",
        "root": "results",
    } | changes
    inner = "".join(fields[key] for key in ("image", "object", "confidence", "part"))
    return f"<{fields['root']}><layout>{inner}</layout></{fields['root']}>"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"root": "annotation"}, "root element <annotation>"),
        ({"image": ""}, "layout 1: no <image>"),
        ({"object": "<object>0</object>"}, "layout 1, object: not an object index"),
        ({"object": "<object>1.5</object>"}, "not an object index"),
        ({"confidence": ""}, "layout 1, confidence: not a number"),
        ({"confidence": "<confidence>NaN</confidence>"}, "not a number"),
        ({"part": "<part><class>head</class></part>"}, "layout 1, part 1, bndbox: no <bndbox>"),
    ],
)
def test_malformed_layouts(changes: dict[str, str], words: str, tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    path.write_text(layout_xml(**changes))
    with pytest.raises(FileFormatError, match=words):
        read_layouts(path)


def kit(tmp_path: Path, listed: str) -> Path:
    for name in ("Annotations", "ImageSets/Layout"):
        (tmp_path / name).mkdir(parents=True)
    write_annotation(tmp_path / "Annotations" / "a.xml", WHOLE)
    (tmp_path / "ImageSets" / "Layout" / "test.txt").write_text(listed)
    return tmp_path


def read_kit(folder: Path, content: str, protocol: str) -> Any:
    path = folder / "results.xml"
    path.write_text(content)
    return read_voc_layouts(folder, "test", path, load_protocol(f"layout/{protocol}"))


@pytest.mark.parametrize(
    ("protocol", "listed", "content", "words"),
    [
        ("voc2008", "a 3\n", layout_xml(), "asks for an object that is not there, got object 3"),
        ("voc2008", "a 1\n", layout_xml(object=""), "no <object> in the layout"),
        ("voc2007", "a\n", layout_xml(), "no <bndbox> in the layout"),
        ("voc2008", "a 1\n", layout_xml().replace("head", "nose"), "unknown part, got 'nose'"),
    ],
)
def test_layouts_that_do_not_fit(
    protocol: str, listed: str, content: str, words: str, tmp_path: Path
) -> None:
    with pytest.raises(FileFormatError, match=words):
        read_kit(kit(tmp_path, listed), content, protocol)


def test_unknown_persons_are_skipped_with_a_warning(tmp_path: Path) -> None:
    folder = kit(tmp_path, "a 1\n")
    with pytest.warns(VocMetricsWarning, match="1 layouts of unknown persons"):
        got = read_kit(folder, layout_xml(image="<image>z</image>"), "voc2008")
    assert (got.num_layouts, got.num_unknown) == (1, 1)
    with pytest.warns(VocMetricsWarning, match="1 layouts of unknown persons"):
        got = read_kit(folder, layout_xml(object="<object>2</object>"), "voc2008")
    assert got.layouts[0]["object_index"].tolist() == [2]


# COCO ---------------------------------------------------------------------------------------------


def test_voc_to_coco_and_back(tmp_path: Path) -> None:
    """Boxes, classes, sizes and flags come back to the bit, also boxes with decimals."""
    boxes = [(1.0, 1.0, 1.0, 1.0), (0.1, 2.3, 45.70000076293945, 99.9), (123.0, 29.0, 379.0, 275.0)]
    objects = tuple(
        VocObject(
            name=name, box=box, difficult=k == 0, truncated=k == 1, occluded=k == 2, view="Rear"
        )
        for k, (name, box) in enumerate(zip(("dog", "cat", "dog"), boxes, strict=True))
    )
    images = [
        ("000005", VocAnnotation(image_size=(480, 640), objects=objects, filename="000005.jpg")),
        ("x_1", VocAnnotation(image_size=(1, 2), objects=(), filename="x_1.png")),
    ]
    content = coco_from_voc(images, ["cat", "dog"])
    assert content["annotations"][2]["bbox"] == [123, 29, 256, 246]
    assert content["annotations"][2]["area"] == 256 * 246
    assert [one["ignore"] for one in content["annotations"]] == [1, 0, 0]
    assert [one["category_id"] for one in content["annotations"]] == [2, 1, 2]
    path = tmp_path / "a.json"
    path.write_text(json.dumps(content))
    back, dropped = voc_from_coco(path)
    assert back == images
    assert not any(dropped.values())
    assert coco_from_voc(back, ["cat", "dog"]) == content


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"images": None}, "'images' must be a list"),
        ({"images": [{"id": 1, "file_name": ".."}]}, "not a file name"),
        ({"annotations": [{"image_id": [], "category_id": 1, "bbox": [1, 1, 1, 1]}]}, "image_id"),
        ({"annotations": [{"image_id": 1, "category_id": "", "bbox": [1, 1, 1, 1]}]}, "category"),
        ({"annotations": [{"image_id": 1, "category_id": 1, "bbox": [1, 1]}]}, "4 numbers"),
    ],
)
def test_malformed_coco(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    whole = {
        "images": [{"id": 1, "file_name": "a.jpg"}],
        "categories": [{"id": 1, "name": "dog"}],
        "annotations": [],
    }
    path = tmp_path / "a.json"
    path.write_text(json.dumps(whole | change))
    with pytest.raises(FileFormatError, match=words):
        voc_from_coco(path)


# Hostile files ------------------------------------------------------------------------------------

MIB = 2**20
HOSTILE = {
    "entity bomb": b'<!DOCTYPE a [<!ENTITY b "ha"><!ENTITY c "&b;&b;&b;">]><a>&c;</a>',
    "external entity": b'<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/hostname">]><a>&b;</a>',
    "parameter entity": b'<!DOCTYPE a [<!ENTITY % b SYSTEM "http://127.0.0.1/"> %b;]><annotation/>',
    "element of 100 MB": b"<annotation><folder>" + b"x" * (100 * MIB) + b"</folder></annotation>",
    "100 MB of elements": b"<annotation>" + b"<a/>" * (25 * MIB) + b"</annotation>",
    "deep nesting": b"<a>" * MIB,
    "nothing but tags": b"<annotation>" + b"<a/>" * (MIB - 10) + b"</annotation>",
    "a million closed levels": b"<a>" * (MIB // 2) + b"</a>" * (MIB // 2),
    "wrong encoding": b'<?xml version="1.0" encoding="utf-8"?><annotation>\xff\xfe</annotation>',
    "unknown encoding": b'<?xml version="1.0" encoding="klingon"?><annotation/>',
    "utf-16": "<annotation/>".encode("utf-16"),
    "truncated": b"<annotation><object><name>dog</name><bndbox><xmin>1</xm",
    "binary": bytes(range(256)) * 100,
    "empty": b"",
    "no coordinates": b"<annotation><object><name>a</name><bndbox/></object></annotation>",
}  # fmt: skip
READERS: dict[str, Callable[[Path], Any]] = {"annotation": read_annotation, "layout": read_layouts}


@pytest.mark.parametrize("reader", list(READERS))
@pytest.mark.parametrize("kind", list(HOSTILE))
def test_hostile_files_end_in_one_sentence(kind: str, reader: str, tmp_path: Path) -> None:
    """Within a second, and without 200 MB beyond what the process held before."""
    path = tmp_path / "a.xml"
    path.write_bytes(HOSTILE[kind])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    with pytest.raises(FileFormatError) as caught:
        READERS[reader](path)
    assert time.process_time() - start < 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("value", ["1e400", "1e30", "-1e12", "NaN", "Infinity", "", "1_0", "٣"])
def test_absurd_coordinates(value: str, tmp_path: Path) -> None:
    box = f"<bndbox><xmin>{value}</xmin><ymin>1</ymin><xmax>9</xmax><ymax>9</ymax></bndbox>"
    path = tmp_path / "a.xml"
    path.write_text(f"<annotation><object><name>dog</name>{box}</object></annotation>")
    with pytest.raises(FileFormatError, match=r"bndbox/xmin: not a"):
        read_annotation(path)
    path.write_text(layout_xml(part=f"<part><class>head</class>{box}</part>"))
    with pytest.raises(FileFormatError, match=r"layout 1, part 1, bndbox/xmin: not a"):
        read_layouts(path)


def test_words_that_are_missing_in_a_row_do_not_come_from_the_next(tmp_path: Path) -> None:
    """Seven words and five make twelve, the words of two rows."""
    path = tmp_path / "a.txt"
    path.write_text("a .5 1 2 3 4 5\n.5 1 2 3 4\n")
    with pytest.raises(FileFormatError, match="line 1"):
        read_results(path, ImageIndex(["a", "5"]))
    path.write_text("5 .5 1 2 3 4 5\n1 2 3 4 5\n")
    with pytest.raises(FileFormatError, match="line 1"):
        read_results(path, ImageIndex(["a", "5"]))
