"""A warning names the line of the caller, from however deep in the package it comes."""

from __future__ import annotations

import inspect
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from torch_vocmetrics import DetectionAP, VocMetricsWarning, io
from torch_vocmetrics.errors import warn, warnings_of_one_rank
from torch_vocmetrics.integrations.torchmetrics import TorchMetricsAdapter

FRACTIONS = torch.rand(25, 4).sort(1).values
ROWS = {"boxes": FRACTIONS, "labels": [0] * 25}
FOUND = ROWS | {"scores": torch.rand(25)}
BOX = {"boxes": [[1, 1, 9, 9]], "labels": [0], "image_id": 3}


def never_updated() -> None:
    DetectionAP("coco2017", num_classes=1).compute()


def fractions() -> None:
    DetectionAP("coco2017", num_classes=1).update([FOUND], [ROWS | {"labels": [0] * 25}])


def unread_key() -> None:
    DetectionAP("coco2017", num_classes=1).update([None], [BOX | {"weather": 3}])


def coarse_halves() -> None:
    half = torch.full((1, 4), 4096.0).half()
    DetectionAP("coco2017", num_classes=1).update([None], [BOX | {"boxes": half}])


def repeated_images() -> None:
    metric = DetectionAP("coco2017", num_classes=1).update([None, None], [BOX, BOX])
    metric.compute()


def labels_from_1() -> None:
    many = {"boxes": [[1, 1, 9, 9]] * 3, "labels": [1, 2, 3]}
    DetectionAP("coco2017", num_classes=4).update([None], [many]).compute()


def of_an_adapter() -> None:
    TorchMetricsAdapter(DetectionAP("coco2017", num_classes=1)).metric.compute()


def within_a_callback() -> None:
    with torch.no_grad():
        list(map(lambda metric: metric.compute(), [DetectionAP("coco2017", num_classes=1)]))  # noqa: C417


SITUATIONS = [
    never_updated, fractions, unread_key, coarse_halves, repeated_images, labels_from_1,
    of_an_adapter, within_a_callback,
]  # fmt: skip


def lines_of(function: Callable[..., None]) -> range:
    source, first = inspect.getsourcelines(function)
    return range(first, first + len(source))


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda function: function.__name__)
def test_the_line_is_that_of_the_caller(situation: Callable[[], None]) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        situation()
    assert caught
    for one in caught:
        assert one.category is VocMetricsWarning
        assert one.filename == __file__
        assert one.lineno in lines_of(situation)


def test_readers_of_files(tmp_path: Path) -> None:
    truth = {
        "images": [{"id": 1, "width": 9, "height": 9}],
        "categories": [{"id": 1, "name": "cat"}],
        "annotations": [
            {"id": i, "image_id": 1, "category_id": 1, "bbox": [0, 0, 4, 4]} for i in (7, 7)
        ],
    }
    path = tmp_path / "truth.json"
    path.write_text(json.dumps(truth))
    results = tmp_path / "results.json"
    row = {"image_id": 1, "bbox": [0, 0, 4, 4], "score": 0.5}
    results.write_text(json.dumps([row | {"category_id": 1}, row | {"category_id": 2}]))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        given = io.read_coco_ground_truths(path)
        io.read_coco_detections(results, given)
    assert len(caught) == 2
    lines = lines_of(test_readers_of_files)
    assert {(one.filename, one.lineno in lines) for one in caught} == {(__file__, True)}


def test_every_line_is_warned_of_once_by_the_usual_filter() -> None:
    """Python shows a warning once for a line: for that of the caller, not of the package."""

    def repeat(metric: Any) -> None:
        metric.compute()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            repeat(DetectionAP("coco2017", num_classes=1))
        DetectionAP("coco2017", num_classes=1).compute()
    assert len({one.lineno for one in caught}) == 2


def test_another_rank_says_nothing() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with warnings_of_one_rank(warns=False):
            warn("no")
        warn("yes")
    assert [str(one.message) for one in caught] == ["yes"]
    assert caught[0].filename == __file__
