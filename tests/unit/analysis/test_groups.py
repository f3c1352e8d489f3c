"""Subsets of pedestrians, supercategories, and classification by the share of the image."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
from helpers.generator import random_problem
from helpers.pedestrian_generator import random_problem as random_pedestrians

from torch_vocmetrics import (
    ClassificationAP,
    InputError,
    LogAverageMissRate,
    load_protocol,
    reference,
)
from torch_vocmetrics.analysis import (
    subset_table,
    subsets_by,
    supercategory_means,
    sweep_covered_share,
)

COCO = load_protocol("detection/coco2017")
CALTECH = load_protocol("miss_rate/caltech2012")


def test_subsets_differ_in_one_property_and_are_evaluated_as_any() -> None:
    rules = subsets_by("caltech2012", "height", [20, 30, 50, 80, math.inf], subset="All")
    assert rules.subset_names == ("height 20-30", "height 30-50", "height 50-80", "height 80-inf")
    assert [entry.height for entry in rules.subsets][:2] == [(20.0, 30.0), (30.0, 50.0)]
    base = next(entry for entry in CALTECH.subsets if entry.name == "All")
    for entry in rules.subsets:
        assert entry._replace(name=base.name, height=base.height) == base
    for seed in range(10):
        problem = random_pedestrians(seed, rules)
        metric = LogAverageMissRate(rules, box_format=problem.kwargs["box_format"])
        metric.update(problem.detections, problem.ground_truths)
        wanted = reference.evaluate(rules, *problem[:2], **problem.kwargs)
        for table in (subset_table(metric), subset_table(wanted)):
            np.testing.assert_array_equal(table.log_average_miss_rate, wanted.log_average_miss_rate)
            assert torch.equal(table.num_positives, wanted.num_positives)
        assert list(table.to_pandas().height) == [list(entry.height) for entry in rules.subsets]


def test_other_properties_of_subsets() -> None:
    assert [s.occlusion for s in subsets_by("kaist", "occlusion", [0, [1, 2]]).subsets] == [
        (0,),
        (1, 2),
    ]
    assert [s.visibility for s in subsets_by(CALTECH, "visibility", [0.2, 0.65, 1]).subsets] == [
        (0.2, 0.65),
        (0.65, 1.0),
    ]
    by_ratio = subsets_by(CALTECH, "aspect_ratio", [0.1, -0.1])
    assert by_ratio.subset_names == ("aspect_ratio 0.1", "aspect_ratio -0.1")
    for arguments, sentence in (
        (("width", [1, 2]), "property: must be one of height"),
        (("height", [2, 1]), "values: must be at least two rising bounds"),
    ):
        with pytest.raises(InputError, match=sentence):
            subsets_by(CALTECH, *arguments)
    with pytest.raises(InputError, match=r"subset: must be one of Reasonable, .* got Tiny"):
        subsets_by(CALTECH, "height", [1, 2], subset="Tiny")
    with pytest.raises(InputError, match="must be a LogAverageMissRate or its result, got str"):
        subset_table("caltech")


def test_supercategories_are_means_over_their_classes_with_objects() -> None:
    for seed in range(20):
        problem = random_problem(seed, COCO)
        result = reference.evaluate(COCO, *problem[:2], **problem.kwargs)
        groups = {
            name: "even" if k % 2 == 0 else "odd" for k, name in enumerate(result.class_names)
        }
        table = supercategory_means(result, groups)
        for row, group in enumerate(table.supercategory):
            members = [k for k, name in enumerate(result.class_names) if groups[name] == group]
            there = [k for k in members if result.num_positives[k] > 0]
            values = [float(result.average_precision[k]) for k in there]
            wanted = sum(values) / len(values) if values else math.nan
            np.testing.assert_allclose(table.average_precision[row], wanted, atol=1e-12)
            assert int(table.num_classes[row]) == len(there)
            assert int(table.num_positives[row]) == int(result.num_positives[members].sum())
        from_table = supercategory_means(result.per_class(), groups)
        np.testing.assert_array_equal(from_table.average_recall, table.average_recall)
    with pytest.raises(InputError, match="groups: has no group of class"):
        supercategory_means(result, {})
    with pytest.raises(InputError, match="must be a detection result"):
        supercategory_means(3, {})


def test_classification_by_share() -> None:
    rng = np.random.default_rng(0)
    scores, shares = rng.random((60, 3)), rng.random((60, 3))
    present = torch.from_numpy(rng.random((60, 3)) < 0.4)
    sweep = sweep_covered_share(scores, present, shares, [0.0, 0.3, 1.0], class_names=list("abc"))
    assert sweep.value == ("[0, 0.3)", "[0.3, 1)")
    for row, (lower, upper) in enumerate([(0, 0.3), (0.3, 1)]):
        for k in range(3):
            # Images of the class with another share take no part: without them nothing changes.
            inside = (shares[:, k] >= lower) & (shares[:, k] < upper)
            kept = torch.from_numpy(inside) | ~present[:, k]
            metric = ClassificationAP("voc2012", num_classes=1)
            metric.update(torch.from_numpy(scores[:, k : k + 1])[kept], present[kept][:, k : k + 1])
            result = metric.compute()
            assert float(sweep.average_precision[row, k]) == float(result.average_precision[0])
            assert int(sweep.num_positives[row, k]) == int(result.num_positives[0])
    np.testing.assert_allclose(sweep.mean, sweep.average_precision.mean(dim=1), atol=1e-15)
    assert list(sweep.to_pandas().columns)[:3] == ["covered_share", "mean", "average_precision_a"]
    for arguments in ((scores[0], present, shares, [0, 1]), (scores, present, shares, [1])):
        with pytest.raises(InputError, match="must be"):
            sweep_covered_share(*arguments)


def test_a_variant_has_a_name_of_its_own() -> None:
    assert subsets_by(CALTECH, "height", [1, 2]).name == "caltech2012_by_height"
    assert dataclasses.replace(CALTECH).name == "caltech2012"
