"""Where an analysis takes its records from, and which lane of them it reads."""

from __future__ import annotations

from typing import Any

from ..errors import InputError, StateError

# ``torch_vocmetrics.records.Records``, or any object that has its fields.
Records = Any


def records_of(source: Any) -> Records:
    """The match records of a metric, or records as they are.

    Args:
        source: a metric that has ``records()``, or the :class:`~torch_vocmetrics.records.Records`
            that it returned.

    Raises:
        InputError: if ``source`` is neither.
    """
    if hasattr(source, "matches") and hasattr(source, "detections"):
        return source
    if callable(getattr(source, "records", None)):
        return source.records()
    raise InputError(
        "must be a detection metric or its records",
        where="source",
        got=type(source).__name__,
        remedy="pass metric.records()",
    )


def require_diagnostics(records: Records, what: str) -> None:
    """Raise unless the records hold the best overlaps of every detection.

    Args:
        records: of one protocol.
        what: the analysis that needs them, for the error.

    Raises:
        StateError: if the metric was made without ``diagnostics=True``.
    """
    if records.detections.best_overlap is None:
        raise StateError(
            f"{what} needs the best overlaps of every detection, which were not kept",
            remedy="make the metric with diagnostics=True",
        )
