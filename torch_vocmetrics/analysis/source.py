"""Where an analysis takes its records from, and which lane of them it reads."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor

from ..errors import InputError, StateError
from ..metrics.base import Metric
from ..records import Records


def records_of(source: Any) -> Records:
    """The match records of a metric, or records as they are.

    Args:
        source: a metric that has ``records()``, or the :class:`~torch_vocmetrics.records.Records`
            that it returned.

    Raises:
        InputError: if ``source`` is neither.
    """
    records = source.records() if callable(getattr(source, "records", None)) else source
    if isinstance(records, Records):
        return records
    raise InputError(
        "must be a detection metric or its records",
        where="source",
        got=type(source).__name__,
        remedy="pass metric.records()",
    )


def distinct_of(metric: Metric[Any]) -> Any:
    """What a metric of label maps or of scores has seen, without repeated images.

    A collective where several ranks hold parts, as ``compute`` is.
    """
    return metric._of_all(lambda _, distinct: distinct, True, None, None)


class Diagnostics(NamedTuple):
    """The columns of detections that a metric keeps with ``diagnostics=True``.

    Attributes:
        row: [N] int64 row of the detection in its image as it came.
        own, other: [N] float32 largest overlap with an object of the same class, or of another.
        own_object, other_object: [N] int64 rows of these objects, -1 for none.
    """

    row: Tensor
    own: Tensor
    own_object: Tensor
    other: Tensor
    other_object: Tensor


def diagnostics_of(records: Records, what: str) -> Diagnostics:
    """The diagnostics of every detection.

    Args:
        records: of one protocol.
        what: the analysis that needs them, for the error.

    Raises:
        StateError: if the metric was made without ``diagnostics=True``.
    """
    table = records.detections
    if (
        table.index is None
        or table.best_overlap is None
        or table.best_ground_truth is None
        or table.best_other_overlap is None
        or table.best_other_ground_truth is None
    ):
        raise StateError(
            f"{what} needs the best overlaps of every detection, which were not kept",
            remedy="make the metric with diagnostics=True",
        )
    return Diagnostics(
        table.index.long(),
        table.best_overlap,
        table.best_ground_truth.long(),
        table.best_other_overlap,
        table.best_other_ground_truth.long(),
    )
