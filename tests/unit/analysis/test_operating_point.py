"""Curves against the score, confusion, LRP and calibration, against plain loops and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from helpers.support import Problem
from torch import Tensor
from unit.analysis.problems import Given, many, recorded

from torch_vocmetrics import InputError, StateError, load_protocol
from torch_vocmetrics.analysis import (
    calibration,
    confusion_matrix,
    optimal_lrp,
    score_curves,
)
from torch_vocmetrics.reference import operating_point as loops

SEEDS = range(60)


def close(got: Tensor, wanted: list[float], tolerance: float = 0.0) -> None:
    np.testing.assert_allclose(got.double().numpy(), wanted, rtol=0, atol=tolerance)


def groups(given: Given) -> list[int | None]:
    return [*range(len(given.records.class_names)), None]


def lane(given: Given) -> dict[str, object]:
    return {"iou_threshold": given.iou_threshold, "area": given.area}


def test_curves_are_those_of_plain_loops() -> None:
    for given in many(SEEDS):
        beta = (1.0, 0.5, 2.0)[given.seed % 3]
        curves = score_curves(given.records, beta=beta, **lane(given))
        assert curves.names == (*given.records.class_names, "all")
        for g, label in enumerate(groups(given)):
            part = slice(int(curves.starts[g]), int(curves.starts[g + 1]))
            wanted = loops.curve(given.judged, label)
            close(curves.score[part], [point.score for point in wanted])
            close(curves.true_positives[part], [point.true_positives for point in wanted])
            close(curves.false_positives[part], [point.false_positives for point in wanted])
            close(curves.precision[part], [point.precision for point in wanted])
            close(curves.recall[part], [point.recall for point in wanted])
            close(curves.f_score[part], [point.f_beta(beta) for point in wanted])


def test_points_are_those_of_plain_loops() -> None:
    compared = 0
    for given in many(SEEDS):
        curves = score_curves(given.records, **lane(given))
        best, at = curves.best(), curves.at(0.5)
        common = curves.best_common()
        score = loops.best_common_score(given.judged, 1.0)
        for g, label in enumerate(groups(given)):
            for points, wanted in (
                (best, loops.best(given.judged, label, 1.0)),
                (at, loops.counts_at(given.judged, label, 0.5)),
                (common, loops.counts_at(given.judged, label, score)),
            ):
                close(points.true_positives[g], wanted.true_positives)
                close(points.false_positives[g], wanted.false_positives)
                close(points.false_negatives[g], wanted.false_negatives)
                close(points.f_score[g], wanted.f_beta(1.0))
                close(points.precision[g], wanted.precision)
            close(best.score[g], loops.best(given.judged, label, 1.0).score)
            wanted = loops.curve(given.judged, label)
            reaching = [point for point in wanted if point.recall >= 0.4]
            close(curves.at_recall(0.4).score[g], reaching[0].score if reaching else math.nan)
            precise = [point for point in wanted if point.precision >= 0.6]
            close(curves.at_precision(0.6).score[g], precise[-1].score if precise else math.nan)
            compared += 1
    assert compared > 100


def test_confusion_is_that_of_plain_loops() -> None:
    confused = 0
    for given in many(SEEDS, mixed=True):
        strict = given.rules.comparison == ">"
        bar = min(given.iou_threshold, given.rules.iou_threshold_ceiling)
        for score in (-math.inf, 0.25):
            matrix = confusion_matrix(given.records, score=score, **lane(given))
            wanted = torch.tensor(loops.confusion(given.judged, score, bar, strict=strict))
            assert torch.equal(matrix.counts, wanted), given.seed
            counts = wanted[:-1, :-1]
            confused += int(counts.sum() - counts.diagonal().sum())
    assert confused > 50


def test_optimal_lrp_is_that_of_plain_loops() -> None:
    compared = 0
    for given in many(SEEDS):
        if given.iou_threshold == 1:
            continue
        lrp = optimal_lrp(given.records, **lane(given))
        for k in range(len(lrp.name)):
            close(lrp.value[k], loops.optimal_lrp(given.judged, k, given.iou_threshold).value, 1e-6)
            # Several scores may be as good but for roundings.
            wanted = loops.lrp_at(given.judged, k, given.iou_threshold, float(lrp.score[k]))
            close(lrp.value[k], wanted.value, 1e-6)
            close(lrp.localization[k], wanted.localization, 1e-6)
            close(lrp.false_positive[k], wanted.false_positive, 1e-12)
            close(lrp.false_negative[k], wanted.false_negative, 1e-12)
            compared += 1
    assert compared > 100


def test_calibration_is_that_of_plain_loops() -> None:
    compared = 0
    for given in many(SEEDS, scores_in_unit=True):
        table = calibration(given.records, num_bins=7, **lane(given))
        for g, label in enumerate(groups(given)):
            bins, error = loops.reliability(given.judged, label, 7)
            close(table.count[g], [one.size for one in bins])
            close(table.mean_score[g], [one.mean_score for one in bins], 1e-12)
            close(table.precision[g], [one.precision for one in bins])
            close(table.expected_error[g], error, 1e-12)
            compared += 1
    assert compared > 100


def test_words_and_bounds() -> None:
    given = next(many(range(1)))
    for call, sentence in (
        (lambda: score_curves(given.records, beta=0), "beta: must be above 0 and finite, got 0"),
        (lambda: optimal_lrp(given.records, iou_threshold=1), "must be below 1"),
        (lambda: calibration(given.records, num_bins=0), r"must lie in 1 .. 10,000, got 0"),
        (lambda: score_curves(given.records).best()["fish"], "no group 'fish'"),
        (lambda: confusion_matrix(given.records).normalized("rows"), "objects or detections"),
    ):
        with pytest.raises(InputError, match=sentence):
            call()
    without = recorded(given.rules, given.problem, diagnostics=False)
    with pytest.raises(StateError, match=r"the confusion matrix needs.*diagnostics=True"):
        confusion_matrix(without)
    logits = [{**one, "scores": one["scores"] - 9} for one in given.problem.detections]
    records = recorded(given.rules, given.problem._replace(detections=logits))
    with pytest.raises(InputError, match=r"needs scores in \[0, 1\], got -"):
        calibration(records)


def test_by_hand() -> None:
    """Two cats; boxes of IoU 0.8 and 0.6, and between them one on nothing; one dog, not found."""
    boxes = torch.tensor([[0.0, 0, 8, 10], [500, 0, 510, 10], [100, 0, 106, 10], [200, 0, 210, 10]])
    found = {
        "boxes": boxes,
        "scores": torch.tensor([0.9, 0.8, 0.7, 0.6]),
        "labels": torch.tensor([0, 0, 0, 0]),
    }
    there = {
        "boxes": torch.tensor([[0.0, 0, 10, 10], [100, 0, 110, 10], [200, 0, 210, 10]]),
        "labels": torch.tensor([0, 0, 1]),
    }
    problem = Problem([found], [there], {"class_names": ["cat", "dog"]})
    records = recorded(load_protocol("detection/coco2017"), problem)
    curves = score_curves(records)
    best = curves.best()
    assert best["cat"] == {
        "score": pytest.approx(0.7),
        "true_positives": 2,
        "false_positives": 1,
        "false_negatives": 0,
        "precision": 2 / 3,
        "recall": 1.0,
        "f_score": 0.8,
    }
    assert best["dog"]["score"] == math.inf
    assert curves.at(0.85)["all"]["recall"] == 1 / 3
    assert curves.at_recall(0.5)["cat"]["precision"] == 1.0
    assert curves.at_precision(0.6)["cat"]["recall"] == 1.0
    assert math.isnan(curves.at_recall(0.5)["dog"]["score"])
    frame = curves.to_pandas()
    assert frame[frame.name == "cat"].f_score.tolist() == [2 / 3, 0.5, 0.8, 4 / 6]

    lrp = optimal_lrp(records)
    assert lrp.value.tolist() == pytest.approx([(0.2 / 0.5 + 1) / 2, 1.0])
    assert lrp.localization[0].item() == pytest.approx(0.2)
    assert [lrp.false_positive[0].item(), lrp.false_negative[0].item()] == [0.0, 0.5]
    assert lrp.score.tolist() == [pytest.approx(0.9), math.inf]
    assert lrp.mean["value"] == pytest.approx(0.85)

    matrix = confusion_matrix(records)
    assert matrix.counts.tolist() == [[2, 0, 0], [1, 0, 0], [1, 0, 0]]
    assert matrix.normalized().tolist()[:2] == [[1, 0, 0], [1, 0, 0]]
    assert matrix.normalized("detections")[:, 0].tolist() == [0.5, 0.25, 0.25]
    assert list(matrix.to_pandas().columns)[:2] == ["object", "detected_cat"]

    table = calibration(records, num_bins=2)
    assert table.count.tolist() == [[0, 4], [0, 0], [0, 4]]
    assert table.expected_error[0].item() == pytest.approx(0.75 - 0.5)
    assert len(table.to_pandas()) == 6
