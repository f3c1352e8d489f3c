"""Analyses of records on a device give the numbers of the host; a stand-in refuses device mixes."""

from __future__ import annotations

from typing import Any

import pytest
from helpers.host_backed_cuda import host_backed_cuda, moved
from unit.analysis.problems import given

from torch_vocmetrics import DetectionAP, analysis
from torch_vocmetrics.results import Table


def answers(source: Any) -> dict[str, dict[str, Any]]:
    """All analyses of one metric or its records."""
    objects = [float(number % 3) for number in range(source.ground_truths.label.shape[0])]
    tables: dict[str, Table] = {
        "curves": analysis.score_curves(source),
        "best": analysis.score_curves(source).best_common(),
        "confusion": analysis.confusion_matrix(source, score=-9),
        "lrp": analysis.optimal_lrp(source),
        "calibration": analysis.calibration(source),
        "errors": analysis.error_kinds(source),
        "images": analysis.image_scores(source),
        "false": analysis.false_positives(source),
        "missed": analysis.missed_objects(source),
        "iou": analysis.sweep_iou(source),
        "areas": analysis.sweep_area_ranges(source),
        "size": analysis.sweep_smallest_size(source, [0.0, 500.0]),
        "objects": analysis.sweep_objects(source, objects),
        "of_images": analysis.sweep_images(source),
        "classes": analysis.class_table(source),
    }
    return {name: table.to_dict() for name, table in tables.items()}


@pytest.mark.parametrize("seed", [0, 1, 8])
def test_numbers_of_a_device_are_those_of_the_host(seed: int) -> None:
    one = given(seed, scores_in_unit=True, mixed=True)
    wanted = answers(one.records)
    with host_backed_cuda():
        metric = DetectionAP(one.rules, diagnostics=True, **one.problem.kwargs)
        metric.update(moved(one.problem.detections), moved(one.problem.ground_truths))
        records = metric.records()
        assert records.device.type == "cuda"
        got = answers(records)
    assert repr(got) == repr(wanted)  # NaN is equal to NaN here
