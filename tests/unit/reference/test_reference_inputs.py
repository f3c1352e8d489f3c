"""The reference refuses what the metrics refuse."""

from __future__ import annotations

from typing import Any

import pytest

from torch_vocmetrics import InputError
from torch_vocmetrics.reference import evaluate, evaluate_layout, evaluate_segmentation

NAN = float("nan")
BOX = [[10.0, 10.0, 50.0, 50.0]]
PREDICTION = {"boxes": BOX, "scores": [0.9], "labels": [0]}
TARGET = {"boxes": BOX, "labels": [0]}
PARTS = {"part_boxes": BOX, "part_labels": [0], "part_counts": [1]}
LAYOUT, PERSON = {"boxes": BOX, "scores": [0.9]} | PARTS, {"boxes": BOX} | PARTS


@pytest.mark.parametrize("box", [[0, 0, 1e200, 5], [-3.5e38, 0, 1, 1], [0, NAN, 1, 1]])
def test_boxes_beyond_float32(box: list[float]) -> None:
    boxes = {"boxes": [box]}
    for protocol in ("voc2007", "coco2017", "miss_rate/caltech2012"):
        for sides in ((PREDICTION | boxes, TARGET), (PREDICTION, TARGET | boxes)):
            with pytest.raises(InputError, match="boxes must be finite and within"):
                evaluate(protocol, *([side] for side in sides), num_classes=1)
    for wrong in (PERSON | boxes, PERSON | {"part_boxes": [box]}):
        with pytest.raises(InputError, match="boxes must be finite and within"):
            evaluate_layout("voc2007", [LAYOUT], [wrong])


@pytest.mark.parametrize("flag", [-1, 2, 0.5, NAN])
def test_flags_that_are_neither_0_nor_1(flag: float) -> None:
    for protocol, key in (("voc2007", "difficult"), ("miss_rate/caltech2012", "ignore")):
        with pytest.raises(InputError, match=f"key '{key}': flags must be 0 or 1"):
            evaluate(protocol, [PREDICTION], [TARGET | {key: [flag]}], num_classes=1)
    with pytest.raises(InputError, match="key 'difficult': flags must be 0 or 1"):
        evaluate_layout("voc2007", [LAYOUT], [PERSON | {"difficult": [flag]}])


@pytest.mark.parametrize("image_id", [2**63, -(2**63) - 1, 1.5, True])
def test_ids_that_are_no_ids(image_id: Any) -> None:
    with pytest.raises(InputError, match="image_id: must be"):
        evaluate("voc2007", [PREDICTION], [TARGET | {"image_id": image_id}], num_classes=1)


@pytest.mark.parametrize("count", [2.0, "2", 0, -1, 10**30])
def test_numbers_of_classes(count: Any) -> None:
    with pytest.raises(InputError, match="num_classes"):
        evaluate("voc2007", [PREDICTION], [TARGET], num_classes=count)


def test_a_number_of_classes_of_label_maps_is_whole() -> None:
    with pytest.raises(InputError, match="num_classes: must be integers"):
        evaluate_segmentation("voc2012", [[[0]]], [[[0]]], num_classes=2.0)
