"""Readers of pedestrian benchmarks: what they refuse, and where they say it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from torch_vocmetrics import FileFormatError, InputError, io
from torch_vocmetrics.io.caltech import evaluated_frames, read_vbb
from torch_vocmetrics.protocols import CALTECH_SETS

GOOD = "% bbGt version=3\nperson 1 2 3 4 0 0 0 0 0 0 0\n"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("person 1 2 3 4 0 0 0 0 0 0 0\n", r"one\.txt, line 1: not a bbGt file of version 3"),
        ("% bbGt version=2\n", r"line 1: not a bbGt file of version 3"),
        (GOOD + "person 1 2 3\n", r"one\.txt, line 3: not an object, got 4 columns"),
        (GOOD + "\nperson 1 2 x 4 0 0 0 0 0 0 0\n", r"one\.txt, line 4: not a finite number"),
        (GOOD + "person 1 2 inf 4 0 0 0 0 0 0 0\n", r"one\.txt, line 3: not a finite number"),
    ],
)
def test_bb_gt_faults(text: str, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "one.txt"
    path.write_text(text)
    with pytest.raises(FileFormatError, match=sentence):
        io.read_bb_gt_objects(path)


def test_conditions_from_text() -> None:
    text = "lbls=person; ilbls=people,person?; squarify=3,0.41; hRng=50,inf; ellipse=0; format=1"
    assert io.Conditions.parse(text) == io.Conditions(
        labels=("person",),
        ignored_labels=("people", "person?"),
        squarify=(3, 0.41),
        height_range=(50.0, float("inf")),
        ellipse=False,
        form=1,
    )
    assert io.Conditions.parse("") == io.Conditions()
    with pytest.raises(InputError, match="rng=1: not a parameter of bbLoad"):
        io.Conditions.parse("rng=1")
    with pytest.raises(InputError, match="hRng=50: values do not fit"):
        io.Conditions.parse("hRng=50")


def test_indexed_detections(tmp_path: Path) -> None:
    folder = tmp_path / "gt"
    folder.mkdir()
    for name in ("b", "a"):
        (folder / f"{name}.txt").write_text(GOOD)
    truth = io.read_bb_gt_ground_truths(folder)
    assert truth.image_ids == ("a", "b")
    path = tmp_path / "Dets.txt"
    path.write_text("2 1 2 3 4 0.5\n\n1,1,2,3,4,0.25\n")
    found = io.read_indexed_detections(path, truth)
    assert [one["scores"].tolist() for one in found.predictions] == [[0.25], [0.5]]
    assert found.num_detections == (2,)
    for text, sentence in (
        ("3 1 2 3 4 0.5", r"Dets\.txt, line 1: the image index must be 1 \.\. 2"),
        ("0 1 2 3 4 0.5", r"the image index must be 1 \.\. 2"),
        ("1.5 1 2 3 4 0.5", r"the image index must be 1 \.\. 2"),
        ("1 1 2 3 4 0.5\n1 1 2 3 4", r"Dets\.txt, line 2: another number of columns, got 5"),
        ("1 1 2 3 4 0.5\n1 1 2 3 -4 0.5", r"Dets\.txt, line 2: a box must not have a negative"),
        ("1 1 2 -3 4 0.5", r"Dets\.txt, line 1: a box must not have a negative"),
        ("1 1 2 3 4 nan", r"Dets\.txt, line 1: not a number, got 'nan'"),
        ("1 1 2 3 4 1_0", r"Dets\.txt, line 1: not a number"),
    ):
        path.write_text(text)
        with pytest.raises(FileFormatError, match=sentence):
            io.read_indexed_detections(path, truth)


def test_empty_folders(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"no \.txt files"):
        io.read_bb_gt_ground_truths(tmp_path)
    with pytest.raises(FileFormatError, match=r"no videos setXX/VXXX\.vbb"):
        io.read_caltech_ground_truths(tmp_path)


def test_sets_and_frames() -> None:
    assert CALTECH_SETS["train"] == (0, 1, 2, 3, 4, 5)
    assert CALTECH_SETS["test"] == (6, 7, 8, 9, 10)
    folds = [(CALTECH_SETS[f"fold{i}-train"], CALTECH_SETS[f"fold{i}-test"]) for i in range(6)]
    assert all(set(train) | set(test) == set(range(6)) for train, test in folds)
    assert [test for _, test in folds] == [(i,) for i in range(6)]
    assert list(evaluated_frames(100)) == [29, 59, 89]
    assert list(evaluated_frames(60)) == [29, 59]
    assert list(evaluated_frames(3, 1)) == [0, 1, 2]


def test_files_that_are_no_videos(tmp_path: Path) -> None:
    scipy_io = pytest.importorskip("scipy.io")
    path = tmp_path / "V000.vbb"
    path.write_text("no MATLAB file at all")
    with pytest.raises(FileFormatError, match=r"V000\.vbb: not a MATLAB file"):
        read_vbb(path)
    scipy_io.savemat(str(path), {"B": 1}, appendmat=False)
    with pytest.raises(FileFormatError, match=r"V000\.vbb: not an annotated video"):
        read_vbb(path)
    with pytest.raises(FileFormatError, match="not an annotation of CityPersons"):
        io.read_citypersons_mat(path)


def test_pedestrian_json(tmp_path: Path) -> None:
    path = tmp_path / "gt.json"
    content = {
        "images": [{"id": 2, "height": 9, "width": 8}, {"id": 1}],
        "annotations": [
            {"image_id": 2, "category_id": 1, "bbox": [1, 2, 3, 4], "vis_ratio": 0.5, "ignore": 1},
            {"image_id": 2, "category_id": 2, "bbox": [1, 2, 3, 4], "vis_ratio": 0.5},
        ],
    }
    path.write_text(json.dumps(content))
    truth = io.read_pedestrian_json(path)
    assert truth.image_ids == (1, 2)
    assert truth.targets[0]["boxes"].shape == (0, 4)
    assert truth.targets[1]["ignore"].tolist() == [True]
    assert truth.targets[1]["visibility"].tolist() == [0.5]
    assert truth.targets[1]["image_size"] == (9, 8)
    assert "occlusion" not in truth.targets[1]
    results = tmp_path / "dt.json"
    for text, sentence in (
        ('{"a": 1}', "not a results file"),
        ('[{"image_id": 3, "bbox": [1, 2, 3, 4], "score": 1}]', r"\[0\]: image_id is not among"),
        ('[{"image_id": 1, "bbox": [1, 2, 3], "score": 1}]', r"\[0\]: bbox must hold 4"),
    ):
        results.write_text(text)
        with pytest.raises(FileFormatError, match=sentence):
            io.read_pedestrian_detections(results, truth)
    path.write_text('{"images": []}')
    with pytest.raises(FileFormatError, match="'annotations' must be a list"):
        io.read_pedestrian_json(path)


def test_crowdhuman_ground_truth(tmp_path: Path) -> None:
    path = tmp_path / "gt.odgt"
    boxes = [
        {"tag": "person", "fbox": [1, 2, 3, 4], "extra": {}},
        {"tag": "person", "fbox": [1, 2, 3, 4], "extra": {"ignore": 1}},
        {"tag": "person", "fbox": [1, 2, 3, 4], "extra": {"ignore": 0}},
        {"tag": "mask", "fbox": [1, 2, 3, 4]},
    ]
    path.write_text(json.dumps({"ID": "b", "gtboxes": boxes}) + "\n\n")
    truth = io.read_crowdhuman_ground_truths(path, {"b": (9, 8)})
    assert truth.targets[0]["ignore"].tolist() == [False, True, False, True]
    assert truth.targets[0]["image_size"] == (9, 8)
    with pytest.raises(FileFormatError, match=r"gt\.odgt, line 1: the size of the image"):
        io.read_crowdhuman_ground_truths(path, {"b": None})
    # Without results nothing is clipped; the annotations may say the size as well.
    truth = io.read_crowdhuman_ground_truths(path, {})
    assert truth.targets[0]["image_size"] == (6, 4)
    path.write_text(json.dumps({"ID": "b", "gtboxes": boxes, "height": 7, "width": 8}))
    for sizes, size in (({"b": None}, (7, 8)), ({"b": (9, 8)}, (9, 8)), ({}, (7, 8))):
        truth = io.read_crowdhuman_ground_truths(path, sizes)
        assert truth.targets[0]["image_size"] == size
    path.write_text('{"ID": "b", "gtboxes": [{"tag": "person", "fbox": [1, 2, 3]}]}')
    with pytest.raises(FileFormatError, match=r"gt\.odgt, line 1: fbox must hold 4 numbers"):
        io.read_crowdhuman_ground_truths(path, {"b": (9, 8)})
    path.write_text('{"ID": "b", "gtboxes": []}\n{"ID": "b", "gtboxes": []}')
    with pytest.raises(FileFormatError, match=r"gt\.odgt, line 2: the ID is given twice"):
        io.read_crowdhuman_ground_truths(path, {"b": (9, 8)})
