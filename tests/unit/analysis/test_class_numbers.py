"""One row for each class: the numbers of the result, and the best F1 of the plain loops."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from unit.analysis.problems import many

from torch_vocmetrics import InputError, LogAverageMissRate, reference
from torch_vocmetrics.analysis import class_table
from torch_vocmetrics.reference import operating_point as loops
from torch_vocmetrics.results import ClassNumbers


def test_numbers_are_those_of_the_result_and_f1_that_of_plain_loops() -> None:
    for given in many(range(40), headline=True):
        table = class_table(given.records, iou_threshold=given.iou_threshold)
        result = reference.evaluate(given.rules, *given.problem[:2], **given.problem.kwargs)
        wanted = result.per_class()
        for field in dataclasses.fields(ClassNumbers):
            if field.name in ("class_name", "area_names"):
                assert getattr(table, field.name) == getattr(wanted, field.name)
            else:
                got, value = getattr(table, field.name), getattr(wanted, field.name)
                np.testing.assert_allclose(got, value, rtol=0, atol=1e-12, err_msg=field.name)
        for k in range(len(table.class_name)):
            best = loops.best(given.judged, k, 1.0)
            np.testing.assert_equal(float(table.best_f_score[k]), best.f_beta(1.0))
            assert float(table.best_score[k]) == best.score
        assert "best_score" in table.to_pandas().columns


def test_pedestrians_have_no_such_table() -> None:
    nothing = {"boxes": [], "labels": []}
    metric = LogAverageMissRate("kaist").update([nothing | {"scores": []}], [nothing])
    with pytest.raises(InputError, match="needs a protocol of average precision"):
        class_table(metric)
