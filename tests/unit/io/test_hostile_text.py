"""JSON, .odgt, TOML and parameters with values of wrong types and sizes: one sentence each."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from torch_vocmetrics import FileFormatError, InputError, ProtocolError, io, load_protocol
from torch_vocmetrics.ops.rle import rle_of
from torch_vocmetrics.protocols.files import config_root

BOX = [0, 0, 10, 10]
DIGITS = 10**399
SQUARE = [0, 0, 9, 0, 9, 9, 0, 9]


def coco(tmp_path: Path, annotation: dict[str, Any], **lists: Any) -> Path:
    content = {
        "images": [{"id": 1, "height": 10, "width": 10}],
        "categories": [{"id": 1, "name": "a"}],
        "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": BOX} | annotation],
    }
    path = tmp_path / "gt.json"
    path.write_text(json.dumps(content | lists))
    return path


@pytest.mark.parametrize(
    "segmentation",
    [
        {"size": [10, 10], "counts": None},
        {"size": [10, 10], "counts": {}},
        {"size": [10, 10], "counts": [2**70]},
        {"size": [10, 10], "counts": [-1, 101]},
        {"size": [10, 10], "counts": [50.0, 50.0]},
        {"size": [10, 10], "counts": [True]},
        {"size": [10, 10], "counts": "\u00e9"},
        {"size": None, "counts": [100]},
        {"size": [1e400, 10], "counts": [100]},
        {"size": [DIGITS, 10], "counts": [100]},
        {"size": [10], "counts": [10]},
        {"size": [-1, -1], "counts": [1]},
        {"counts": [100]},
        [1, 2, 3],
        [SQUARE, None],
        [[*SQUARE, "1"]],
        [[*SQUARE, True, False]],
        [[*SQUARE, float("nan"), 1]],
        [[1, float("nan"), *SQUARE]],
        [[*SQUARE, float("inf"), 1]],
        [[*SQUARE, DIGITS, 1]],
        [[*SQUARE, -(2**40), 1]],
        [[1e8, 0, 1e8, 1e8, 0, 1e8]],
        {"size": [10**9, 10**9], "counts": [10**18]},
    ],
)
def test_segmentations(tmp_path: Path, segmentation: Any) -> None:
    path = coco(tmp_path, {"segmentation": segmentation})
    with pytest.raises(FileFormatError, match=r"gt\.json, annotations\[0\]: segmentation of"):
        io.read_coco_ground_truths(path, masks=True)


@pytest.mark.parametrize(
    "segmentation",
    [[SQUARE], [SQUARE, SQUARE], {"size": [10, 10], "counts": [0, 100]}, [[0.5, -3.0] * 3]],
)
def test_other_segmentations_are_taken(tmp_path: Path, segmentation: Any) -> None:
    path = coco(tmp_path, {"segmentation": segmentation})
    targets = io.read_coco_ground_truths(path, masks=True).targets
    assert targets[0]["masks"] == [rle_of(segmentation, 10, 10)]


@pytest.mark.parametrize(
    ("annotation", "lists"),
    [
        ({"bbox": [DIGITS, 0, 1, 1]}, {}),
        ({"area": DIGITS}, {}),
        ({"iscrowd": DIGITS}, {}),
        ({"category_id": DIGITS}, {}),
        ({"image_id": [1]}, {}),
        ({}, {"categories": [{"id": 2**63, "name": "a"}]}),
        ({}, {"categories": [{"id": DIGITS, "name": "a"}]}),
        ({}, {"images": [{"id": 2**63}]}),
        ({}, {"images": [{"id": None}]}),
        ({}, {"images": {}}),
    ],
)
def test_numbers_and_ids_of_coco(
    tmp_path: Path, annotation: dict[str, Any], lists: dict[str, Any]
) -> None:
    with pytest.raises(FileFormatError, match=r"gt\.json"):
        io.read_coco_ground_truths(coco(tmp_path, annotation, **lists))


@pytest.mark.parametrize("size", [DIGITS, 1e400, float("nan"), True, "10", None, [10], 2**31, 0])
def test_sizes_without_sense_are_no_sizes(tmp_path: Path, size: Any) -> None:
    path = coco(tmp_path, {}, images=[{"id": 1, "height": size, "width": 10}])
    assert "image_size" not in io.read_coco_ground_truths(path).targets[0]


@pytest.mark.parametrize(
    "change",
    [
        {"category_id": 2**63},
        {"category_id": DIGITS},
        {"occlusion": 2**63},
        {"vis_ratio": DIGITS},
        {"ignore": DIGITS},
        {"bbox": [DIGITS, 1, 1, 1]},
    ],
)
def test_pedestrian_json(tmp_path: Path, change: dict[str, Any]) -> None:
    with pytest.raises(FileFormatError, match=r"gt\.json, annotations\[0\]"):
        io.read_pedestrian_json(coco(tmp_path, change))
    truth = io.read_pedestrian_json(coco(tmp_path, {}))
    row = {"image_id": 1, "category_id": 1, "bbox": BOX, "score": 0.5} | change
    if change.keys() & {"category_id", "bbox"}:
        (tmp_path / "dt.json").write_text(json.dumps([row]))
        with pytest.raises(FileFormatError, match=r"dt\.json, \[0\]"):
            io.read_pedestrian_detections(tmp_path / "dt.json", truth)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"extra": [1]}, "extra.ignore must be 0 or 1"),
        ({"extra": "ignore"}, "extra.ignore must be 0 or 1"),
        ({"extra": 7}, "extra.ignore must be 0 or 1"),
        ({"extra": {"ignore": "no"}}, "extra.ignore must be 0 or 1"),
        ({"extra": {"ignore": 2}}, "extra.ignore must be 0 or 1"),
        ({"extra": {"ignore": [0]}}, "extra.ignore must be 0 or 1"),
        ({"extra": {"ignore": 0.0}}, "extra.ignore must be 0 or 1"),
        ({"fbox": [DIGITS, 0, 1, 1]}, "not a finite number"),
        ({"fbox": [True, 0, 1, 1]}, "not a finite number"),
        ({"fbox": {"0": 1}}, "fbox must hold 4 numbers"),
    ],
)
def test_odgt(tmp_path: Path, row: dict[str, Any], said: str) -> None:
    path = tmp_path / "gt.odgt"
    path.write_text(json.dumps({"ID": "a", "gtboxes": [{"tag": "person", "fbox": BOX} | row]}))
    with pytest.raises(FileFormatError, match=rf"gt\.odgt, line 1: {said}"):
        io.read_crowdhuman_ground_truths(path, {"a": (10, 10)})


@pytest.mark.parametrize("text", ['{"ID": ' + "9" * 5000 + "}", "[" * 10**5, "{", "\x00"])
def test_odgt_that_is_no_json(tmp_path: Path, text: str) -> None:
    path = tmp_path / "gt.odgt"
    path.write_text(text)
    with pytest.raises(FileFormatError, match=r"gt\.odgt, line 1: not "):
        io.read_crowdhuman_sizes(path)


def test_flags_of_odgt_that_are_taken(tmp_path: Path) -> None:
    rows = [{"extra": extra} for extra in (None, {}, {"ignore": 0}, {"ignore": 1})] + [{}]
    boxes = [{"tag": "person", "fbox": BOX} | row for row in rows]
    path = tmp_path / "gt.odgt"
    path.write_text(json.dumps({"ID": "a", "gtboxes": boxes}))
    truth = io.read_crowdhuman_ground_truths(path, {"a": (10, 10)})
    assert truth.targets[0]["ignore"].tolist() == [False, False, False, True, False]


@pytest.mark.parametrize(
    "text",
    [
        *("squarify=nan,1", "squarify=3,nan", "squarify=3,0", "squarify=3,inf", "squarify=3,-1"),
        *("squarify=5,1", "squarify=2.5,1", "squarify=inf,1", "squarify=1e400,1", "squarify=3"),
        *("format=nan", "format=7", "format=1.5", "format=inf", "ellipse=nan", "ellipse=2"),
        *("hRng=nan,1", "hRng=1,nan", "hRng=1,2,3", "ellipse=1,1", "format=", "xRng=a,b"),
    ],
)
def test_parameters_of_bb_load(text: str) -> None:
    with pytest.raises(InputError, match="values do not fit the parameter"):
        io.Conditions.parse(text)


# TOML ---------------------------------------------------------------------------------------------

COCO = (config_root() / "protocols" / "detection" / "coco2017.toml").read_text()
LEVELS = "{ linspace = [0.5, 0.95, 10] }"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('task = "detection"', 'task = ["detection"]'),
        ('task = "detection"', 'task = { a = "detection" }'),
        ("schema = 1", "schema = []"),
        (LEVELS, "{ linspace = [0, 1, 1000000000] }"),
        (LEVELS, "{ linspace = [0, 1, -1] }"),
        (LEVELS, "{ linspace = [0, 1, 10.0] }"),
        (LEVELS, "{ linspace = [0, 1] }"),
        (LEVELS, '{ linspace = ["a", 1, 10] }'),
        (LEVELS, "{ linspace = [0, " + "9" * 400 + ", 10] }"),
        (LEVELS, "{ linspace = [nan, 1, 10] }"),
        (LEVELS, "[]"),
        (LEVELS, "[[0.5]]"),
        (LEVELS, "[" + "9" * 400 + "]"),
        ("[1, 10, 100]", "[[1], 10]"),
        ("[1, 10, 100]", "[" + "9" * 400 + "]"),
        ("[1, 10, 100]", "[true]"),
        ('comparison = ">="', "comparison = []"),
        ('comparison = ">="', "comparison = " + "[" * 5000 + "]" * 5000),
        ('["small", 0.0, 1024.0]', "[[], 0.0, 1024.0]"),
        ('["small", 0.0, 1024.0]', "[]"),
        ("[matching]", "matching = 1\n[other]"),
        ("[matching.sources]", "[matching]\nsources = 3\n[other]"),
        ("precision_epsilon = 2.220446049250313e-16", "precision_epsilon = 0.0"),
    ],
)
def test_toml(tmp_path: Path, old: str, new: str) -> None:
    path = tmp_path / "own.toml"
    assert old in COCO
    path.write_text(COCO.replace(old, new, 1))
    with pytest.raises(ProtocolError, match=r"own\.toml: ") as caught:
        load_protocol(path)
    assert len(str(caught.value)) < 3000


def test_sources_that_are_no_table(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    table = COCO.index("[matching.sources]")
    rest = COCO.index("\n[", table + 1)
    path.write_text(COCO[:table] + "sources = [1]\n" + COCO[rest:])
    with pytest.raises(ProtocolError, match=r"own\.toml: 1 mistake: \[matching\.sources\] must be"):
        load_protocol(path)


def test_toml_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    for content in (b"\xff", b"a = " + b"9" * 5000, b"#" * (2**20 + 1), b"a = " + b"[" * 10**5):
        path.write_bytes(content)
        with pytest.raises(ProtocolError, match=r"own\.toml: not a readable TOML file"):
            load_protocol(path)
    with pytest.raises(ProtocolError, match="not a readable TOML file"):
        load_protocol(tmp_path / "none.toml")
    with pytest.raises(ProtocolError, match="not a readable TOML file"):
        load_protocol(Path("/dev/zero").parent / "zero" / "a.toml")


def test_rules_of_other_kinds_in_replace() -> None:
    protocol = load_protocol("detection/coco2017")
    for change in (
        {"precision_epsilon": "a"},
        {"iou_thresholds": ("a",)},
        {"max_detections": ([],)},
        {"iou_threshold_ceiling": DIGITS},
        {"area_ranges": (1,)},
    ):
        with pytest.raises(ProtocolError, match=next(iter(change))):
            dataclasses.replace(protocol, **change)
