"""The campaign of images: every kind runs, reaches all outcomes, and notices a broken rule."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from helpers.image_problems import FORMATS, detection_images, pedestrian_images

from fuzz import images
from torch_vocmetrics import DetectionAP, LogAverageMissRate
from torch_vocmetrics.protocols import DetectionProtocol, MissRateProtocol, load_protocol

COCO = load_protocol("detection/coco2017", DetectionProtocol)


@pytest.fixture(autouse=True)
def few_images(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "IMAGES", 100)
    monkeypatch.setattr(images, "IMAGES_OF_PYCOCOTOOLS", 100)


@pytest.mark.parametrize("kind", images.KINDS)
@pytest.mark.filterwarnings("ignore::torch_vocmetrics.VocMetricsWarning")
def test_every_kind_runs(kind: str) -> None:
    seed = list(images.KINDS).index(kind)
    assert images.case(seed) == {kind: 100}


@pytest.mark.parametrize("name", ["voc2006", "voc2007", "voc2010", "coco2017"])
def test_every_outcome_occurs_in_every_lane(name: str) -> None:
    protocol = load_protocol(f"detection/{name}", DetectionProtocol)
    seen = np.zeros((3, len(protocol.area_ranges) * len(protocol.thresholds)), dtype=np.int64)
    for seed in range(20):
        outcome = images.compare_detection(protocol, seed, 100).outcome
        seen += [(outcome == value).sum(axis=0) for value in (-1, 0, 1)]
    assert seen.min() > 0, seen


def search(compare: Callable[[int], object]) -> None:
    for seed in range(40):
        compare(seed)


BROKEN: list[tuple[str, dict[str, Any]]] = [
    ("voc2007", {"equal_overlaps": "last"}),
    ("voc2007", {"candidates": "all"}),
    ("voc2007", {"comparison": ">"}),
    ("voc2007", {"ignored_flags": ()}),
    ("voc2006", {"reusable_flags": ("difficult",)}),
    ("coco2017", {"equal_overlaps": "first"}),
    ("coco2017", {"comparison": ">"}),
    ("coco2017", {"overlap_of_detection_area_flags": ()}),
    ("coco2017", {"max_detections": (1, 3, 4)}),
    ("coco2017", {"area_ranges": (COCO.area_ranges[0]._replace(upper=9000.0),
                                  *COCO.area_ranges[1:])}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "change"), BROKEN, ids=lambda value: str(value)[:40])
def test_a_broken_rule_is_noticed(
    name: str, change: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    protocol = load_protocol(f"detection/{name}", DetectionProtocol)
    broken = dataclasses.replace(protocol, **change)
    monkeypatch.setattr(
        images, "DetectionAP", lambda rules, **classes: DetectionAP(broken, **classes)
    )
    with pytest.raises(AssertionError, match=r"of image \d+|rows for"):
        search(lambda seed: images.compare_detection(protocol, seed, 100))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("caltech2012", {"equal_overlaps": "first"}),
        ("caltech2012", {"standardised": ()}),
        ("citypersons2017", {"comparison": ">"}),
        ("citypersons2017", {"height_interval": "half_open"}),
        ("crowdhuman2018", {"used_objects": "ignore_detection"}),
    ],
    ids=str,
)
def test_a_broken_rule_of_pedestrians_is_noticed(
    name: str, change: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = load_protocol(f"miss_rate/{name}", MissRateProtocol)
    protocol = dataclasses.replace(shipped, num_images=0)
    broken = dataclasses.replace(protocol, **change)
    monkeypatch.setattr(
        images, "LogAverageMissRate", lambda rules, **kwargs: LogAverageMissRate(broken, **kwargs)
    )
    with pytest.raises(AssertionError, match=r"of image \d+|rows for"):
        search(lambda seed: images.compare_miss_rate(protocol, seed))


def test_a_finding_shows_the_image_alone() -> None:
    problems = detection_images(3, 20, COCO)
    comparison = images.Comparison(COCO, problems)
    wanted = np.arange(20)
    with pytest.raises(AssertionError) as error:
        comparison.same("number", np.where(wanted == 7, -1, wanted), wanted, range(20))
    text = str(error.value)
    assert text.startswith("number of image 7: -1 for 7\n1 of 20 rows are unequal")
    scores = problems.lists()[0][7]["scores"].tolist()
    assert f"'scores': {scores}" in text


@pytest.mark.parametrize("seed", range(4))
def test_both_forms_have_the_same_rows(seed: int) -> None:
    for problems in (detection_images(seed, 30, COCO), pedestrian_images(seed, 30)):
        part = slice(4, 25)
        for packed, lists in zip(problems.packed(part), problems.lists(part), strict=True):
            assert packed["counts"] == [len(one["labels"]) for one in lists]
            assert len(lists) == 21
            for key in lists[0].keys() - {"image_size"}:
                whole = torch.cat([one[key] for one in lists])
                assert torch.equal(packed[key].nan_to_num(-5), whole.nan_to_num(-5)), key


def test_images_stand_on_the_edges() -> None:
    formats, sizes, tied, empty = set(), [], 0, [0, 0]
    for seed in range(30):
        problems = detection_images(seed, 100, COCO)
        formats.add(problems.kwargs["box_format"])
        if problems.kwargs["box_format"] == "xywh":
            sizes += problems.targets["boxes"][:, 2].tolist()
        for one in problems.lists()[0]:
            tied += len(one["scores"]) > len(one["scores"].unique())
        empty[0] += int((problems.detection_counts == 0).sum())
        empty[1] += int((problems.target_counts == 0).sum())
    assert formats == set(FORMATS)
    assert min(size for size in sizes if size) < 1e-4
    assert max(sizes) > 1e6
    assert 0.0 in sizes
    assert 1.0 in sizes
    assert tied > 100
    assert min(empty) > 100


def compare_detection(seed: int) -> None:
    images.compare_detection(COCO, seed, 20)


def compare_pycocotools(seed: int) -> None:
    images.compare_pycocotools(COCO, seed)


def compare_miss_rate(seed: int) -> None:
    protocol = load_protocol("miss_rate/crowdhuman2018", MissRateProtocol)
    images.compare_miss_rate(dataclasses.replace(protocol, num_images=0), seed)


@pytest.mark.parametrize(
    ("compare", "column", "message"),
    [
        (compare_detection, "image", "^image of image"),
        (compare_detection, "score", "^score of image"),
        (compare_detection, "outcome", "^outcome of image"),
        (compare_detection, "counted", "^objects that count of image"),
        (compare_miss_rate, "score", "^image, score and outcome in .* of image"),
        (compare_miss_rate, "counted", "^objects that count in .* of image"),
        (compare_miss_rate, "image_counts", "^counts of the Jaccard index of image"),
    ],
)
def test_a_single_wrong_entry_is_noticed(
    compare: Callable[[int], None], column: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    correct = images.records_of

    def with_a_wrong_entry(*args: Any) -> images.Records:
        records = correct(*args)
        if column == "image_counts":
            assert records.table.image_counts is not None
            records.table.image_counts[-1, -1, -1] += 1
            return records
        values = getattr(records, column).copy()
        kept = np.flatnonzero((records.outcome != -1).any(axis=1))[-1]
        if column == "counted":
            values[-1] = ~values[-1]
        else:
            values[kept] += 1
        return records._replace(**{column: values})

    monkeypatch.setattr(images, "records_of", with_a_wrong_entry)
    with pytest.raises(AssertionError, match=message):
        compare(1)


@pytest.mark.parametrize("column", ["outcome", "counted"])
def test_pycocotools_notices_a_single_wrong_entry(
    column: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    correct = images.compare_detection

    def with_a_wrong_entry(*args: Any) -> images.Records:
        records = correct(*args)
        values = getattr(records, column).copy()
        values[-1, -1] = 1 - values[-1, -1]
        return records._replace(**{column: values})

    monkeypatch.setattr(images, "compare_detection", with_a_wrong_entry)
    with pytest.raises(AssertionError, match="by pycocotools of image"):
        compare_pycocotools(1)
