"""Annotations as the development kits read them, and files that are none."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from helpers.support import load_extra

from torch_vocmetrics import FileFormatError
from torch_vocmetrics.io import VocObject, read_annotation

ONE = (
    "<annotation><size><width>640</width><height>480</height><depth>3</depth></size>"
    "<object><name>dog</name>{extra}<bndbox><ymax>40.5</ymax><xmin>10</xmin><ymin>20</ymin>"
    "<xmax>30</xmax></bndbox></object></annotation>"
)
TEXT = """# PASCAL Annotation Version 1.00

Image filename : "VOC2006/PNGImages/000004.png"
Image size (X x Y x C) : 335 x 500 x 3
Objects with ground truth : 2 { "PASdog" "PAScarSideTruncDifficult" }

# Details for object 1 ("PASdog")
Original label for object 1 "PASdog" : "PASdog"
Bounding box for object 1 "PASdog" (Xmin, Ymin) - (Xmax, Ymax) : (30, 20) - (10, 40)

Original label for object 2 "PAScarSideTruncDifficult" : "PAScarSideTruncDifficult"
Bounding box for object 2 "PAScarSideTruncDifficult" (Xmin, Ymin) - (Xmax, Ymax) : (1, 2) - (3, 4)
"""


PUBLISHED = load_extra("voc_misc", "annotations")


@pytest.mark.parametrize("case", PUBLISHED, ids=lambda case: f"{case['file']}-{case['year']}")
def test_fields_are_those_of_pasreadrecord(case: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / case["file"]
    path.write_text(case["text"])
    annotation = read_annotation(path)
    width, height, _ = case["imgsize"]
    assert annotation.image_size == (height, width)
    assert len(annotation.objects) == len(case["objects"])
    for got, wanted in zip(annotation.objects, case["objects"], strict=True):
        assert got.name == wanted["class"]
        assert list(got.box) == wanted["bbox"]
        for flag in ("difficult", "truncated", "occluded", "view"):
            assert getattr(got, flag) == wanted.get(flag, getattr(got, flag)), flag


def read(tmp_path: Path, content: str | bytes, name: str = "a.xml") -> Any:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_annotation(path)


@pytest.mark.parametrize(
    ("written", "difficult"),
    [("1", True), (" 1\n", True), ("0", False), ("2", False), ("true", False), ("", False)],
)
def test_only_1_is_a_set_flag(tmp_path: Path, written: str, difficult: bool) -> None:
    extra = f"<difficult>{written}</difficult>"
    (one,) = read(tmp_path, ONE.format(extra=extra)).objects
    assert one == VocObject(name="dog", box=(10.0, 20.0, 30.0, 40.5), difficult=difficult)


def test_parts_lend_nothing_to_their_object(tmp_path: Path) -> None:
    part = (
        "<part><name>head</name><difficult>1</difficult>"
        "<bndbox><xmin>1</xmin><ymin>1</ymin><xmax>2</xmax><ymax>2</ymax></bndbox></part>"
    )
    (one,) = read(tmp_path, ONE.format(extra=part)).objects
    assert (one.box, one.difficult) == ((10.0, 20.0, 30.0, 40.5), False)


def test_an_image_without_objects_or_size(tmp_path: Path) -> None:
    annotation = read(tmp_path, "<annotation/>")
    assert (annotation.objects, annotation.image_size) == ((), None)


def test_latin_1_is_read_where_it_is_declared(tmp_path: Path) -> None:
    content = '<?xml version="1.0" encoding="ISO-8859-1"?>' + ONE.format(extra="<pose>é</pose>")
    (one,) = read(tmp_path, content.encode("latin-1")).objects
    assert one.view == "é"


def test_text_form(tmp_path: Path) -> None:
    annotation = read(tmp_path, TEXT, "a.txt")
    assert annotation.image_size == (500, 335)
    dog, car = annotation.objects
    assert dog == VocObject(name="dog", box=(10.0, 20.0, 30.0, 40.0))
    assert car == VocObject(
        name="car", box=(1.0, 2.0, 3.0, 4.0), difficult=True, truncated=True, view="Side"
    )


BOMB = (
    '<!DOCTYPE lolz [<!ENTITY a "ha">'
    + "".join(f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in zip("abcdefghi", "bcdefghij"))  # noqa: B905
    + "]><annotation>&j;</annotation>"
)
EXTERNAL = '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/hostname">]><annotation>&x;</annotation>'
BAD_XML: dict[str, tuple[str | bytes, str]] = {
    "entity bomb": (BOMB, r"line 1: document types and entities are not read"),
    "external entity": ("\n\n" + EXTERNAL, r"line 3: document types"),
    "external subset": ('<!DOCTYPE a SYSTEM "http://x/a.dtd"><a/>', "document types"),
    "UTF-16": (BOMB.encode("utf-16"), "not an XML file in UTF-8"),
    "image": (b"\xff\xd8\xff\xe0\x00\x10JFIF", "not an XML file in UTF-8"),
    "huge": ("<annotation>" + "x" * (5 * 2**20) + "</annotation>", "larger than the limit"),
    "huge element": (
        ONE.format(extra="").replace("40.5", "4" * (3 * 2**20)),
        r"object 1 \(dog\), bndbox/ymax: not a finite number, got '4{39}",
    ),
    "deep": ("<annotation>" * 200_000, "not well-formed XML"),
    "truncated": (ONE.format(extra="")[:-20], r"line 1: not well-formed XML"),
    "empty": ("", "not well-formed XML"),
    "undefined entity": (ONE.format(extra="&nbsp;"), "not well-formed XML"),
    "not the encoding declared": (
        ('<?xml version="1.0" encoding="UTF-8"?>\n' + ONE.format(extra="é")).encode("latin-1"),
        r"line 2: not well-formed XML",
    ),
    "unknown encoding": ('<?xml version="1.0" encoding="klingon"?><a/>', "klingon"),
    "multibyte encoding": ('<?xml version="1.0" encoding="utf-7"?><a/>', "not well-formed XML"),
    "another root": ("<annotations/>", "a root element <annotations>"),
    "no name": (ONE.format(extra="").replace("<name>dog</name>", ""), "object 1: no <name>"),
    "no box": (
        "<annotation><object><name>dog</name></object></annotation>",
        r"object 1 \(dog\), bndbox: no <bndbox>",
    ),
    "no corner": (ONE.format(extra="").replace("<xmin>10</xmin>", ""), "bndbox: no <xmin>"),
    "empty corner": (ONE.format(extra="").replace(">10<", "><"), "bndbox/xmin: not a finite"),
    "word": (ONE.format(extra="").replace(">10<", ">ten<"), "xmin: not a finite number, got 'ten'"),
    "NaN": (ONE.format(extra="").replace(">10<", ">nan<"), "bndbox/xmin: not a finite"),
    "infinity": (ONE.format(extra="").replace(">10<", ">-inf<"), "bndbox/xmin: not a finite"),
    "underscore": (ONE.format(extra="").replace(">10<", ">1_0<"), "bndbox/xmin: not a finite"),
    "size": (ONE.format(extra="").replace(">640<", ">wide<"), "size/width: not a finite number"),
}


@pytest.mark.parametrize(("content", "said"), BAD_XML.values(), ids=BAD_XML)
def test_bad_xml_is_one_sentence_at_once(tmp_path: Path, content: str | bytes, said: str) -> None:
    started = time.process_time()
    with pytest.raises(FileFormatError, match=said) as caught:
        read(tmp_path, content)
    assert time.process_time() - started < 1
    assert str(caught.value).startswith(str(tmp_path / "a.xml"))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


BAD_TEXT = {
    "label": (TEXT.replace('1 "PASdog" :', '1 "dog" :'), "line 8: not a PASCAL label, got 'dog'"),
    "corner": (TEXT.replace("(30, 20)", "(30; 20)"), "line 9: not a bounding box"),
    "word": (TEXT.replace("(30, 20)", "(30, x)"), "line 9: not a finite number, got 'x'"),
    "truncated": (TEXT[:-90], "2 objects announced, 2 labels, 1 boxes"),
    "no count": (TEXT.replace("Objects with", "Things with"), "not a complete PASCAL annotation"),
    "huge count": (TEXT.replace("truth : 2", "truth : 999999999"), "999999999 objects announced"),
    "empty": ("", "not a complete PASCAL annotation"),
    "latin-1": (TEXT.encode() + b"# \xe9\n", "line 13: not UTF-8 text, got byte 0xe9"),
    "zero byte": (TEXT + "\0", "line 13: not UTF-8 text, got byte 0x00"),
}


@pytest.mark.parametrize(("content", "said"), BAD_TEXT.values(), ids=BAD_TEXT)
def test_bad_text_is_one_sentence(tmp_path: Path, content: str | bytes, said: str) -> None:
    with pytest.raises(FileFormatError, match=said):
        read(tmp_path, content, "a.txt")


def test_the_limit_can_be_raised(tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    path.write_text(ONE.format(extra=f"<note>{'x' * 5 * 2**20}</note>"))
    with pytest.raises(FileFormatError, match=r"4,194,304 bytes, got 5,243,\d+ bytes"):
        read_annotation(path)
    assert len(read_annotation(path, max_bytes=2**23).objects) == 1


def test_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_annotation(tmp_path / "a.xml")


def test_the_first_of_equal_fields_counts(tmp_path: Path) -> None:
    """As ``find`` of ElementTree, which is the first element of a name."""
    path = tmp_path / "a.xml"
    box = "<bndbox><xmin>1</xmin><ymin>2</ymin><xmax>3</xmax><ymax>4</ymax></bndbox>"
    flags = "<difficult>1</difficult><difficult>0</difficult>"
    path.write_text(
        f"<annotation><object><name>dog</name><name>cat</name>{flags}{box}</object></annotation>"
    )
    only = read_annotation(path).objects[0]
    assert (only.name, only.difficult, only.box) == ("dog", True, (1.0, 2.0, 3.0, 4.0))
