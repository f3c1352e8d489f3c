"""Typed columns of COCO's files: the same as element by element, whatever a file holds."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pycocotools import mask as api

from torch_vocmetrics import VocMetricsError
from torch_vocmetrics.io import (
    coco_lists,
    plain_rows,
    read_coco_detections,
    read_coco_ground_truths,
    segmentations,
)

TRUTH = (
    '{"images": [{"id": 9, "height": 4, "width": 5}, {"id": 3, "file_name": "000003.jpg"}], '
    '"categories": [{"id": 7, "name": "dog"}, {"id": 2, "name": "cat"}], "annotations": [%s]}'
)
SOUND = '{"id": 1, "image_id": 9, "category_id": 7, "bbox": [0, 1.5, 2, 3], "area": 6}'
OBJECTS = [
    SOUND,
    "",
    f'{SOUND}, {{"image_id": 3, "category_id": 2, "bbox": [1, 1, 1, 1], "iscrowd": 1}}',
    *(
        SOUND.replace(old, new)
        for old, new in (
            ("}", ', "ignore": true, "difficult": 0, "truncated": 1}'),
            ("}", ', "iscrowd": 2}'),
            ("}", ', "iscrowd": 1.0}'),
            ("}", ', "segmentation": [{"a": 1}, {"b": 2}], "name": "}, {"}'),
            ("}", ', "caption": "\xe9\u20ac"}'),
            ('"image_id": 9', '"image_id": 4'),
            ('"image_id": 9', '"image_id": "9"'),
            ('"image_id": 9', '"image_id": 9.0'),
            ('"image_id": 9', '"image_id": 9223372036854775808'),
            ('"id": 1, "image_id": 9', '"id": 1, "image_id": -9223372036854775808'),
            ('"category_id": 7', '"category_id": -9223372036854775808'),
            ('"image_id": 9, ', ""),
            ('"category_id": 7', '"category_id": 1'),
            ("[0, 1.5, 2, 3]", "[0, 1.5, 2]"),
            ("[0, 1.5, 2, 3]", "[0, 1.5, -2, 3]"),
            ("[0, 1.5, 2, 3]", "[0, 1.5, NaN, 3]"),
            ("[0, 1.5, 2, 3]", "[0, 1e400, 2, 3]"),
            ("[0, 1.5, 2, 3]", "[0, 12345678901234567890, 0.1, 1e-400]"),
            ('"area": 6', '"area": -1'),
            ('"area": 6', '"area": null'),
            ('"id": 1', '"id": 0'),
            ('"id": 1', '"id": null'),
            ('"id": 1', '"id": "a"'),
            ('"id": 1', '"id": 1, "id": 0'),
            ("}", ",}"),
            ("}", ', "x": [1}'),
            ("}", ', "x": "\\q"}'),
        )
    ),
]
ROW = '{"image_id": 9, "category_id": 2, "bbox": [0, 1, 2, 3], "score": 0.1}'
RESULTS = [
    "[]",
    " [ ] \n",
    f"[{ROW}]",
    f"[{ROW},\n {ROW.replace('9', '3')} , {ROW}]",
    f"[{ROW},]",
    f"[{ROW}] 1",
    f"[{ROW}",
    "{}",
    f'{{"annotations": [{ROW}]}}',
    f"[{ROW}, 1]",
    *(
        f"[{ROW}, {ROW.replace(old, new)}]"
        for old, new in (
            ("0.1", "Infinity"),
            ("0.1", "1"),
            ("0.1", "true"),
            ("0.1", '"0.1"'),
            ('"image_id": 9', '"image_id": 1'),
            ('"image_id": 9', '"image_id": "000003.jpg"'),
            ('"category_id": 2', '"category_id": 3'),
            ("}", ', "id": 5}'),
            ("}", ', "image_id": 3}'),
        )
    ),
]


def _plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor | np.ndarray):
        return str(value.dtype), value.tolist()
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_plain(one) for one in value]
    return value


def outcome(read: Callable[[], Any]) -> tuple[Any, list[str]]:
    """What a reader gives or says, and its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            got = {key: _plain(value) for key, value in vars(read()).items()}
        except VocMetricsError as error:
            got = {"error": str(error)}
    return got, [str(one.message) for one in caught]


def _refuse(*_: object) -> Any:
    raise plain_rows.NotPlain


@pytest.fixture(name="both")
def _both(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], list[Any]]:
    """Gives what the two slower ways of reading give or say otherwise than the typed one."""
    pytest.importorskip("msgspec")

    def compare(read: Callable[[], Any]) -> list[Any]:
        typed = outcome(read)
        with monkeypatch.context() as patch:
            patch.setattr(coco_lists, "read_plain_list", _refuse)
            others = [outcome(read)]
            patch.setattr(segmentations, "read_many", lambda *_: None)
            others.append(outcome(read))
        return [other for other in others if other != typed]

    return compare


SHAPES = [
    "[[0, 0, 3, 0, 3, 3]]",
    "[[0, 0, 3, 0, 3, 3], [1, 1, 2.5, 1, 2, 4]]",
    '{"size": [4, 5], "counts": [4, 8, 8]}',
    '{"size": [4, 5], "counts": "488"}',
    '{"counts": "488", "size": [4, 5], "more": null}',
    '{"size": [5, 4], "counts": "488"}',
    '{"size": [4, 5], "counts": "489"}',
    '{"size": [4, 5], "counts": [4, 8, 9]}',
    '{"size": [4, 5], "counts": [4.0, 8, 8]}',
    '{"size": [4, 5], "counts": [4, true, 15]}',
    '{"size": [4, 5, 3], "counts": "488"}',
    '{"size": [4, 5]}',
    '{"size": [4, 5], "counts": "\u00e9"}',
    "[]",
    "[[]]",
    "[[0, 0, 3, 0, 3, 3, 1]]",
    "[[0, 0, 3, 0, 3, 3], [1, 1]]",
    "[[0, 0, 3, 0, 3, 1e400]]",
    "[[0, 0, 3, 0, 3, 12345678901]]",
    "[[0, 0, 3, 0, 3, true]]",
    "[0, 0, 3, 0, 3, 3]",
    "null",
    '"488"',
]


@pytest.mark.parametrize("boxes", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_masks(tmp_path: Path, both: Any, shape: str, boxes: bool) -> None:
    truth, found = tmp_path / "gt.json", tmp_path / "dt.json"
    sound = '{"size": [4, 5], "counts": "488"}'
    keys = ('"image_id": 9, "category_id": 7', '"image_id": 3, "category_id": 2')
    for file_name, image in ((truth, 0), (found, 1)):
        rows = [
            f'{{{keys[k]}, "segmentation": {one}, "score": 0.5, "bbox": [1, 1, 2, 2], '
            f'"id": {n}, "area": 6}}'
            for n, (k, one) in enumerate([(0, sound), (image, shape), (0, shape), (1, sound)], 1)
        ]
        listed = ",".join(rows)
        file_name.write_text(TRUTH % listed if file_name is truth else f"[{listed}]")
    options = {"boxes": boxes, "masks": True}
    assert both(lambda: read_coco_ground_truths(truth, **options)) == []
    assert (
        both(
            lambda: read_coco_ground_truths(truth, class_names=["cat"], on_fault="skip", **options)
        )
        == []
    )
    truth.write_text(TRUTH % rows[0])
    images = read_coco_ground_truths(truth, **options)
    assert both(lambda: read_coco_detections(found, images, **options)) == []
    assert both(lambda: read_coco_detections(found, images, on_fault="skip", **options)) == []


def test_masks_of_images_are_those_of_the_file(tmp_path: Path) -> None:
    rows = [(9, "[[0, 0, 3, 0, 3, 3]]"), (3, '{"size": [2, 3], "counts": "222"}')]
    rows += [(9, '{"size": [4, 5], "counts": [4, 8, 8]}'), (4, "[]")]
    listed = [
        f'{{"image_id": {image}, "category_id": 7, "segmentation": {shape}}}'
        for image, shape in rows
    ]
    path = tmp_path / "gt.json"
    path.write_text(TRUTH % ",".join(listed))
    with pytest.warns(match="not among the images"):
        truth = read_coco_ground_truths(path, boxes=False, masks=True)
    polygon = api.merge(api.frPyObjects([[0, 0, 3, 0, 3, 3]], 4, 5))["counts"]
    first, second = truth.targets
    assert [one["image_id"] for one in truth.targets] == [3, 9]
    assert first["masks"] == [{"size": [2, 3], "counts": b"222"}]
    assert second["masks"] == [
        {"size": [4, 5], "counts": polygon},
        {"size": [4, 5], "counts": b"488"},
    ]
    assert second["masks"].areas.tolist() == [int(api.area({"size": [4, 5], "counts": polygon})), 8]
    second["masks"][1]["counts"] = b"0"
    assert second["masks"][1]["counts"] == b"488"


@pytest.mark.parametrize("inclusive", [False, True])
@pytest.mark.parametrize("objects", OBJECTS)
def test_ground_truths(tmp_path: Path, both: Any, objects: str, inclusive: bool) -> None:
    path = tmp_path / "gt.json"
    path.write_text(TRUTH % objects, encoding="utf-8")
    assert both(lambda: read_coco_ground_truths(path, inclusive_pixels=inclusive)) == []
    assert both(lambda: read_coco_ground_truths(path, class_names=["cat"], on_fault="skip")) == []


@pytest.mark.parametrize("results", RESULTS)
def test_results(tmp_path: Path, both: Any, results: str) -> None:
    (tmp_path / "gt.json").write_text(TRUTH % SOUND)
    truth = read_coco_ground_truths(tmp_path / "gt.json")
    path = tmp_path / "dt.json"
    path.write_text(results)
    assert both(lambda: read_coco_detections(path, truth, file_order=True)) == []
    assert both(lambda: read_coco_detections(path, truth, on_fault="skip")) == []


@pytest.mark.parametrize("text", [b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf"])
def test_letters_that_are_no_plain_utf8(tmp_path: Path, both: Any, text: bytes) -> None:
    (tmp_path / "gt.json").write_text(TRUTH % SOUND)
    truth = read_coco_ground_truths(tmp_path / "gt.json")
    path = tmp_path / "dt.json"
    named = ROW.encode().replace(b"}", b', "x": "%s"}' % text)
    for row in (b"[%s]" % named, text + b"[%s]" % ROW.encode()):
        path.write_bytes(row)
        assert both(lambda: read_coco_detections(path, truth, on_fault="skip")) == []


def test_sound_files_are_read_in_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("msgspec")
    monkeypatch.setattr(plain_rows, "_BLOCK", 64)  # several blocks
    monkeypatch.setattr(coco_lists, "parse_json", _refuse)
    (tmp_path / "gt.json").write_text(TRUTH % ", ".join([SOUND] * 5).replace('"id": 1,', ""))
    (tmp_path / "dt.json").write_text(f"[{', '.join([ROW] * 5)}]")
    truth = read_coco_ground_truths(tmp_path / "gt.json")
    found = read_coco_detections(tmp_path / "dt.json", truth)
    assert truth.targets[1]["boxes"].tolist() == [[0, 1.5, 2, 3]] * 5
    assert truth.targets[1]["area"].tolist() == [6] * 5
    assert found.predictions[1]["scores"].tolist() == [0.1] * 5
    assert found.num_detections == (5, 0)


def test_without_the_library_files_are_read_by_the_standard_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plain_rows, "_msgspec", _refuse)
    monkeypatch.setattr(plain_rows, "_members_decoder", _refuse)
    monkeypatch.setattr(plain_rows, "_decoder", _refuse)
    (tmp_path / "gt.json").write_text(TRUTH % SOUND)
    truth = read_coco_ground_truths(tmp_path / "gt.json")
    assert truth.targets[1]["boxes"].tolist() == [[0, 1.5, 2, 3]]


def test_blocks_end_between_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_rows, "_BLOCK", 4)
    text = b'[{"a": 1}, {"a": 2} ,\n{"a": 3},{"a": 4}]'
    blocks = list(plain_rows._blocks(text, 1, len(text) - 1))
    assert len(blocks) > 1
    assert [row["a"] for block in blocks for row in json.loads(block)] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "values", [[], [5], [3, 1, 3, 2], [-7, -7, 0], [2**62, -(2**62), 2**62], [10**6, 1]]
)
def test_distinct(values: list[int]) -> None:
    column = np.array(values, np.int64)
    distinct, inverse = plain_rows._distinct(column)
    assert distinct.tolist() == sorted(set(values))
    assert distinct[inverse].tolist() == values


def test_masks_of_another_size_are_a_fault(tmp_path: Path) -> None:
    """Twenty pixels each, of an image of 5 x 4 where it is 4 x 5."""
    (tmp_path / "gt.json").write_text(TRUTH % "")
    truth = read_coco_ground_truths(tmp_path / "gt.json", boxes=False, masks=True)
    row = {"image_id": 9, "category_id": 2, "score": 0.5}
    masks = [{"size": size, "counts": "0d0"} for size in ([4, 5], [5, 4])]
    for mask in masks:
        (tmp_path / "dt.json").write_text(json.dumps([row | {"segmentation": mask}]))
        if mask is masks[0]:
            found = read_coco_detections(tmp_path / "dt.json", truth, boxes=False, masks=True)
            assert len(found.predictions[1]["masks"]) == 1
        else:
            with pytest.raises(VocMetricsError, match=r"5, 4"):
                read_coco_detections(tmp_path / "dt.json", truth, boxes=False, masks=True)
