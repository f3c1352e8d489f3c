"""Cross-dataset tables and ranks of images, by hand."""

from __future__ import annotations

import math
import statistics
from typing import Any

import numpy as np
import pytest
import torch

from torch_vocmetrics import ClassificationAP, DetectionAP, InputError
from torch_vocmetrics.analysis import cross_dataset_table, image_difficulty


def result(names: list[str], found: dict[str, int], missing: tuple[str, ...] = ()) -> Any:
    """AP of a class under voc2012 is the share of its four objects that are found."""
    metric = DetectionAP("voc2012", class_names=names)
    boxes = [[0.0, 0, 9, 9], [20, 0, 29, 9], [40, 0, 49, 9], [60, 0, 69, 9]]
    predictions: dict[str, list[Any]] = {"boxes": [], "scores": [], "labels": []}
    targets: dict[str, list[Any]] = {"boxes": [], "labels": []}
    for label, name in enumerate(names):
        for row, box in enumerate(boxes):
            if name not in missing:
                targets["boxes"].append(box)
                targets["labels"].append(label)
            if row < found.get(name, 0):
                predictions["boxes"].append(box)
                predictions["scores"].append(0.5)
                predictions["labels"].append(label)
    return metric.update([predictions], [targets]).compute()


def test_drops_by_hand() -> None:
    results = {
        "P": {
            "VOC": result(["cat", "plane", "sofa"], {"cat": 4, "plane": 2}),
            "COCO": result(["airplane", "cat", "owl"], {"cat": 2, "airplane": 1, "owl": 4}),
        },
        "C": {
            "VOC": result(["cat", "plane", "sofa"], {"cat": 3, "plane": 3}),
            "COCO": result(["airplane", "cat", "owl"], {"cat": 3, "airplane": 4}),
        },
    }
    mapping = {"cat": {}, "plane": {"COCO": "airplane"}}
    table = cross_dataset_table(results, {"P": "VOC", "C": "COCO"}, class_mapping=mapping)
    assert table.average_precision.tolist() == [
        [[1.0, 0.5], [0.5, 0.25]],
        [[0.75, 0.75], [0.75, 1.0]],
    ]
    assert table.mean.tolist() == [[0.75, 0.375], [0.75, 0.875]]
    assert table.drop.tolist() == [[0.0, 0.375], [0.125, 0.0]]
    assert table.relative_drop.tolist() == [[0.0, 0.5], [0.125 / 0.875, 0.0]]
    frame = table.to_pandas()
    assert list(frame["class_name"]) == ["cat", "plane", "mean"]
    assert list(frame["P on COCO"]) == [0.5, 0.25, 0.375]
    shared = cross_dataset_table(results, {"P": "VOC", "C": "COCO"})
    assert shared.class_name == ("cat",)


def test_classes_without_objects_are_in_no_mean() -> None:
    results = {
        "P": {"a": result(["x", "y"], {"x": 4, "y": 1}), "b": result(["x", "y"], {"x": 2}, ("y",))}
    }
    table = cross_dataset_table(results, {"P": "a"})
    assert math.isnan(table.average_precision[0, 1, 1])
    assert table.mean.tolist() == [[1.0, 0.5]]


def test_what_cannot_be_crossed() -> None:
    one = result(["x"], {})
    with pytest.raises(InputError, match=r"results\['q'\]: must have results on a, b, got a"):
        cross_dataset_table({"p": {"a": one, "b": one}, "q": {"a": one}}, {"p": "a", "q": "a"})
    with pytest.raises(InputError, match=r"home\['p'\]: must be one of a, got None"):
        cross_dataset_table({"p": {"a": one}}, {})
    with pytest.raises(InputError, match="p on a: there is no such class, got 'z'"):
        cross_dataset_table({"p": {"a": one}}, {"p": "a"}, class_mapping={"z": {}})
    with pytest.raises(InputError, match="no class is in all results"):
        cross_dataset_table({"p": {"a": one, "b": result(["y"], {})}}, {"p": "a"})


def test_median_ranks_of_images() -> None:
    rng = np.random.default_rng(2)
    targets = rng.choice([-1, 0, 1], (15, 2))
    scores = {name: rng.integers(0, 8, (15, 2)) / 8 for name in "abc"}
    methods = {}
    for name, values in scores.items():
        methods[name] = ClassificationAP("voc2012", class_names=["cat", "dog"])
        order = rng.permutation(15)
        methods[name].update(
            torch.tensor(values[order]), torch.tensor(targets[order]), image_ids=order.tolist()
        )
    found = image_difficulty(methods)
    assert found.image_id == tuple(range(15))
    for k in range(2):
        for image in range(15):
            ranks = []
            for values in scores.values():
                above = sum(other > values[image, k] for other in values[:, k])
                equal = sum(other == values[image, k] for other in values[:, k])
                ranks.append(above + (equal + 1) / 2)
            assert found.median_rank[image, k].item() == statistics.median(ranks)
    easy = found.easy("dog", 3)
    assert [one.median_rank for one in easy] == sorted(
        found.median_rank[targets[:, 1] == 1, 1].tolist()
    )[:3]
    hard, confusing = found.hard("dog", 1)[0], found.confusing("dog", 1)[0]
    assert targets[hard.image_id, 1] == 1
    assert hard.median_rank == max(found.median_rank[targets[:, 1] == 1, 1].tolist())
    assert targets[confusing.image_id, 1] == -1
    assert confusing.median_rank == min(found.median_rank[targets[:, 1] == -1, 1].tolist())
    assert "cat median rank" in found.to_pandas()
    with pytest.raises(InputError, match="class_name: must be one of cat, dog"):
        found.easy("owl")


def test_images_of_detectors() -> None:
    """An image scores as its best detection; without one it ranks last."""
    box = [0.0, 0, 9, 9]
    targets = [
        {"boxes": [box], "labels": [0], "image_id": 3},
        {"boxes": [], "labels": [], "image_id": 1},
        {"boxes": [box], "labels": [0], "difficult": [True], "image_id": 2},
    ]
    metric = DetectionAP("voc2012", class_names=["cat"])
    metric.update(
        [
            {"boxes": [box, box], "scores": [0.2, 0.6], "labels": [0, 0]},
            {"boxes": [box], "scores": [0.9], "labels": [0]},
            {"boxes": [], "scores": [], "labels": []},
        ],
        targets,
    )
    found = image_difficulty({"one": metric, "records": metric.records()})
    assert found.image_id == (1, 2, 3)
    assert found.median_rank[:, 0].tolist() == [1.0, 3.0, 2.0]
    assert found.target[:, 0].tolist() == [-1, 0, 1]
    assert found.confusing("cat")[0].image_id == 1
    assert [one.image_id for one in found.hard("cat")] == [3]


def test_methods_must_have_the_same_images() -> None:
    methods = {}
    for name, rows in (("a", 2), ("b", 3)):
        methods[name] = ClassificationAP("voc2012", num_classes=1)
        methods[name].update(torch.rand(rows, 1), torch.ones(rows, 1, dtype=torch.int64))
    with pytest.raises(InputError, match="b: has other images, classes or targets than a"):
        image_difficulty(methods)
    with pytest.raises(InputError, match="at least one method"):
        image_difficulty({})
