"""The short way to read annotations: what it takes, and that it says what the parser says."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from torch_vocmetrics import FileFormatError
from torch_vocmetrics.io import read_voc_set, voc
from torch_vocmetrics.io.voc_annotations import ParsedAnnotation, parse_annotation
from torch_vocmetrics.io.voc_plain import PlainAnnotation, match_plain_annotation

OBJECT = """
  <object>
    <name>{name}</name><pose>Left</pose>
    <truncated>1</truncated><difficult>{difficult}</difficult>
    <bndbox><xmin>{0}</xmin><ymin>{1}</ymin><xmax>{2}</xmax><ymax>{3}</ymax></bndbox>
    <part><name>head</name>
      <bndbox><xmin>1</xmin><ymin>2</ymin><xmax>3</xmax><ymax>4.5</ymax></bndbox></part>
  </object>"""
FILE = """<?xml version="1.0" encoding="UTF-8"?>
<annotation>
  <folder>VOC</folder><filename>a.jpg</filename>
  <source><database>?</database><annotation>-</annotation><image>flickr</image></source>
  <owner><flickrid>x</flickrid><name>?</name></owner>
  <size><width>353</width><height>500</height><depth>3</depth></size>
  <segmented>0</segmented>{objects}
</annotation>
"""
DOG = OBJECT.format(48, -2.25, 195, 371.125, name="dog ", difficult=1)
CAT = OBJECT.format(1, 2, 3, 4, name="big cat", difficult=0)
PLAIN = FILE.format(objects=DOG + CAT)

OTHER_FORMS = {
    "an attribute": PLAIN.replace("<object>", '<object id="1">'),
    "a comment": PLAIN.replace("<size>", "<!-- --><size>"),
    "an entity": PLAIN.replace("dog", "d&#111;g"),
    "no class": PLAIN.replace("dog", ""),
    "two classes": PLAIN.replace("<pose>", "<name>other</name><pose>", 1),
    "blanks around a number": PLAIN.replace("195", " 195 "),
    "a number in letters": PLAIN.replace("195", "1.95e2"),
    "a number beyond all pixels": PLAIN.replace("195", "12345678901"),
    "a missing number": PLAIN.replace("195", ""),
    "a digit of another script": PLAIN.replace("195", "\u0661"),
    "a part without a box": PLAIN.replace("4.5", "x"),
    "a flag in words": PLAIN.replace("<difficult>1", "<difficult>yes"),
    "two sizes": PLAIN.replace("<size>", "<size><width>1</width><height>1</height></size><size>"),
    "a size behind": PLAIN.replace("</annotation>\n", "<size></size></annotation>"),
    "a tag that is not closed": PLAIN.replace("</folder>", "</filename>"),
    "a second root": PLAIN + "<annotation></annotation>",
    "cut off": PLAIN[:-5],
    "an unknown element": PLAIN.replace("<pose>", "<actions></actions><pose>"),
    "a control character": PLAIN.replace("Left", "\x07"),
    "a document type": "<!DOCTYPE annotation>" + PLAIN,
}


def test_what_the_plain_form_says() -> None:
    found = match_plain_annotation(Path("a.xml"), PLAIN.encode())
    assert found is not None
    assert (found.names, found.difficult) == (["dog", "big cat"], [True, False])
    assert found.corners == [48.0, -2.25, 195.0, 371.125, 1.0, 2.0, 3.0, 4.0]
    assert found.image_size == (500, 353)


@pytest.mark.parametrize("content", OTHER_FORMS.values(), ids=OTHER_FORMS)
def test_other_forms_are_left_to_the_parser(content: str) -> None:
    assert match_plain_annotation(Path("a.xml"), content.encode()) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("<difficult>1</difficult>", ""),
        ("<pose>Left</pose>", ""),
        ('<?xml version="1.0" encoding="UTF-8"?>\n', ""),
        ("  <size><width>353</width><height>500</height><depth>3</depth></size>\n", ""),
        ("<width>353", "<width>0"),
        ("\n", "\r\n"),
        (DOG + CAT, ""),
        ("</bndbox>\n    <part>", "</bndbox><difficult>1</difficult><part>"),
    ],
)
def test_forms_that_are_plain_too(old: str, new: str, tmp_path: Path) -> None:
    assert_as_parsed(tmp_path / "a.xml", PLAIN.replace(old, new).encode(), matched=True)


def assert_as_parsed(path: Path, data: bytes, *, matched: bool = False) -> bool:
    """If the short way takes a file, the parser finds the same and no fault."""
    short = match_plain_annotation(path, data)
    if short is None:
        assert not matched
        return False
    path.write_bytes(data)
    whole = parse_annotation(path)
    assert (short.names, short.difficult) == (whole.names, whole.difficult)
    assert (short.corners, short.image_size) == (whole.corners, whole.image_size)
    assert not whole.faults
    assert not whole.empty
    assert short.parsed() == whole
    return True


def test_damaged_files(tmp_path: Path) -> None:
    rng = random.Random(0)
    pieces = [*"\n \t<>&/0159.-x\x00\x7fé", "", "", "<name>", "</object>", "]]>", "<!--", DOG]
    taken = 0
    for _ in range(20_000):
        text = PLAIN
        for _ in range(rng.randint(1, 2)):
            start = rng.randrange(len(text))
            end = start + rng.choice((0, 0, 1, 1, 2, 30))
            text = text[:start] + rng.choice(pieces) + text[end:]
        taken += assert_as_parsed(tmp_path / "a.xml", text.encode())
    assert taken > 500


def test_a_set_is_read_alike_by_both_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, content in {"a": PLAIN, "b": OTHER_FORMS["a comment"], "c": PLAIN[:-5]}.items():
        (tmp_path / f"{name}.xml").write_text(content)
    short = read_voc_set(tmp_path)
    assert [type(one) for one in short.parsed][::2] == [PlainAnnotation, FileFormatError]
    monkeypatch.setattr(voc, "match_plain_annotation", lambda _path, _data: None)
    long = read_voc_set(tmp_path)
    assert short.num_objects == long.num_objects == {"dog": 2, "big cat": 2}
    with pytest.warns(match="left out"):
        both = [one.annotations(on_fault="skip") for one in (short, long)]
    assert both[0] == both[1]
    with pytest.warns(match="left out"):
        truths = [one.ground_truths(["dog"], on_fault="skip") for one in (short, long)]
    assert truths[0].other_objects == truths[1].other_objects == {"big cat": 2}
    for one, other in zip(*(truth.targets for truth in truths), strict=True):
        assert one["image_id"] == other["image_id"]
        assert one["image_size"] == other["image_size"] == (500, 353)
        for key in ("boxes", "labels", "difficult"):
            assert one[key].tolist() == other[key].tolist()
            assert one[key].dtype == other[key].dtype


def test_a_file_with_many_tags_for_its_limit_is_counted(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text(PLAIN)
    assert isinstance(read_voc_set(tmp_path).parsed[0], PlainAnnotation)
    (counted,) = read_voc_set(tmp_path, max_bytes=len(PLAIN)).parsed
    assert isinstance(counted, ParsedAnnotation)
