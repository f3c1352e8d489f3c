"""The report on one evaluation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch_vocmetrics import analysis

from ..errors import InputError
from ..protocols import DetectionProtocol, MissRateProtocol, SegmentationProtocol, protocol_title
from .details import Picture, analyses, threshold_of
from .page import (
    Cell,
    Section,
    cell,
    drawn,
    page,
    table_view,
    write_page,
)
from .provenance import provenance

Ends = tuple[float, float]
"""Lower and upper end of an interval."""
NUM_RESAMPLES = 500
"""Of the bootstrap; more move the ends of intervals by little."""


def report(
    metric: Any,
    path: str | Path | None = None,
    *,
    title: str = "",
    picture: Picture | None = None,
    files: Mapping[str, str] | None = None,
    num_resamples: int = NUM_RESAMPLES,
) -> str:
    """One self-contained HTML page on what a metric has computed.

    Numbers with intervals over images, curves, a table of the classes that sorts, errors by kind,
    confused classes, the best and worst images, the most confident false positives, the largest
    missed objects, and every rule with its source. What needs the diagnostics of a detection
    metric (``diagnostics=True``) is left out without them.

    Args:
        metric: with one protocol, after all updates.
        path: where the page is written; None writes nothing.
        title: heading; the protocol by default.
        picture: gives the image of an id with its boxes drawn, or None; without it there are no
            images in the page.
        files: names of input files and their SHA-256.
        num_resamples: of the bootstrap over images; 0 leaves the intervals out.

    Returns:
        The HTML.

    Raises:
        InputError: if the metric has several protocols, or jinja2 or matplotlib is not installed.
        OSError: if the page cannot be written.
    """
    result = metric.compute()
    if isinstance(result, Mapping):
        raise InputError(
            "a report is about one protocol",
            where="metric",
            got=", ".join(map(str, result)),
            remedy="make a metric of one protocol",
        )
    has_boxes = isinstance(result.protocol, DetectionProtocol | MissRateProtocol)
    records = metric.records() if has_boxes else None
    resampled = has_boxes or isinstance(result.protocol, SegmentationProtocol)
    ends = intervals_of(metric, num_resamples) if resampled else {}
    sections = [
        _summary(result, ends, num_resamples),
        _curves(result, records),
        _classes(result, ends),
        *(analyses(records, picture) if records is not None else ()),
        provenance(result, files or {}),
    ]
    text = page(title or f"Report: {protocol_title(result.protocol)}", _lead(result), sections)
    if path is not None:
        write_page(path, text)
    return text


def _lead(result: Any) -> list[tuple[str, str]]:
    """What a reader looks for first."""
    counts = result.table().counts.items()
    return [
        (_headline_name(result), cell(float(result.headline)).text),
        ("protocol", protocol_title(result.protocol)),
        *((what, f"{count:,}") for what, count in counts),
    ]


def _headline_name(result: Any) -> str:
    """The key of the number that a protocol publishes."""
    numbers = result.to_dict()
    same = (key for key, value in numbers.items() if value == result.headline)
    return next(same, "headline")


# Numbers ------------------------------------------------------------------------------------------


def intervals_of(metric: Any, num_resamples: int) -> dict[str, Ends]:
    """Lower and upper end of the interval of each number; empty where there are none."""
    if num_resamples < 1:
        return {}
    try:
        found = analysis.bootstrap(metric, num_resamples=num_resamples)
    except InputError:  # no images
        return {}
    ends = zip(found.lower.tolist(), found.upper.tolist(), strict=True)
    return dict(zip(found.name, ends, strict=True))


def interval_cell(ends: Ends | None) -> Cell:
    """An interval as a cell, sorted by its width."""
    if ends is None or any(math.isnan(end) for end in ends):
        return Cell("", "", is_number=True)
    return Cell(f"{ends[0]:.4f} to {ends[1]:.4f}", ends[1] - ends[0], is_number=True)


def _summary(result: Any, ends: Mapping[str, Ends], num_resamples: int) -> Section:
    table = result.table()
    numbers = dict(table.summary) or {_headline_name(result): float(result.headline)}
    columns: dict[str, Sequence[Any]] = {
        "number": list(numbers),
        "value": [float(value) for value in numbers.values()],
    }
    text = "Fractions, not percent."
    if any(name in ends for name in numbers):
        columns["95% interval"] = [interval_cell(ends.get(name)) for name in numbers]
        text += f" Intervals: percentiles of {num_resamples:,} resamples of the images."
    return Section("summary", "Summary", text, tables=[table_view("Numbers of the whole", columns)])


def _classes(result: Any, ends: Mapping[str, Ends]) -> Section:
    """The table of the command line; what is averaged and its intervals stand first."""
    table = result.table()
    columns = sorted(table.shown_columns, key=lambda column: column.key not in table.mean)
    of_row: dict[str, Sequence[Any]] = {table.row_kind: list(table.names)}
    foot = [cell(f"mean over {table.num_averaged}")]
    for column in columns:
        values = list[Any](column.values)
        if column.of_mean:
            left_out = Cell("not in the mean", "", is_number=True)
            pairs = zip(values, table.is_averaged, strict=True)
            values = [value if averaged else left_out for value, averaged in pairs]
        of_row[column.title] = values
        foot.append(cell(table.mean[column.key]) if column.key in table.mean else cell(""))
        keys = [f"{column.title}/{name}" for name in table.names]  # as in ``to_dict``
        if any(key in ends for key in keys):
            of_row["95% interval"] = [interval_cell(ends.get(key)) for key in keys]
            foot.append(cell(""))
    if not table.names:
        return Section("classes", "Classes")
    view = table_view(f"{len(table.names)} rows, which the headings sort", of_row)
    view = view._replace(foot=foot if table.mean else ())
    name = {"class": "Classes", "part": "Parts", "subset": "Subsets"}[table.row_kind]
    return Section("classes", name, tables=[view])


# Drawings -----------------------------------------------------------------------------------------


def _curves(result: Any, records: Any) -> Section:
    figures = [drawn(_main_caption(result), result.plot)]
    if records is not None and hasattr(result.protocol, "iou_thresholds"):
        curves = analysis.score_curves(records, iou_threshold=threshold_of(records))
        figures.append(
            drawn("Precision, recall and F1 against the score, all classes", curves.plot)
        )
        scores = records.detections.score
        if scores.numel() and float(scores.min()) >= 0 and float(scores.max()) <= 1:
            table = analysis.calibration(records, iou_threshold=threshold_of(records))
            figures.append(drawn("Reliability: precision of detections by score", table.plot))
    roc: Sequence[Any] = getattr(result, "roc_curves", ())
    if len(roc) == 1:
        figures.append(drawn("ROC curve", roc[0].plot))
    return Section("curves", "Curves", figures=figures)


def _main_caption(result: Any) -> str:
    if hasattr(result, "confusion_matrix"):
        return "Share of the pixels of each true class by predicted class"
    if hasattr(result, "miss_rate"):
        return "Miss rate against false positives per image, and what the average reads"
    return "Precision against recall"
