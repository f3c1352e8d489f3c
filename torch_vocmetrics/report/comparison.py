"""The report on two detectors on the same images."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from torch_vocmetrics import analysis

from ..errors import InputError, VocMetricsError
from ..protocols import protocol_title
from .details import MOST_ROWS, Picture, add_picture, threshold_of
from .evaluation import NUM_RESAMPLES, interval_cell
from .page import Figure, Section, cell, drawn, page, table_view, write_page
from .pictures import common_score
from .provenance import provenance


def compare(
    first: Any,
    second: Any,
    path: str | Path | None = None,
    *,
    names: tuple[str, str] = ("first", "second"),
    pictures: tuple[Picture, Picture] | None = None,
    files: Mapping[str, str] | None = None,
    num_resamples: int = NUM_RESAMPLES,
) -> str:
    """One self-contained HTML page on the difference of two detectors.

    Differences are second minus first, so that a gain of the second is positive; intervals and
    p-values are of a paired bootstrap over the images.

    Args:
        first, second: metrics of the same protocol after the same images.
        path: where the page is written; None writes nothing.
        names: of the detectors.
        pictures: give the image of an id with the boxes of each detector drawn, or None.
        files: names of input files and their SHA-256.
        num_resamples: of the bootstrap.

    Returns:
        The HTML.

    Raises:
        InputError: if protocols, classes or images differ, or jinja2 or matplotlib is missing.
        OSError: if the page cannot be written.
    """
    results = [metric.compute() for metric in (first, second)]
    if any(isinstance(result, Mapping) for result in results):
        raise InputError("a comparison is about one protocol", where="first, second")
    if results[0].protocol.fingerprint != results[1].protocol.fingerprint:
        got = " and ".join(protocol_title(result.protocol) for result in results)
        raise InputError("the protocols differ", where="first, second", got=got)
    paired = analysis.paired_bootstrap(second, first, num_resamples=num_resamples)
    sections = [
        _differences(paired, names),
        _changed_classes(paired, names),
        _changed_images((first, second), names, pictures),
        _both_curves(results, names),
        provenance(results[0], files or {}),
    ]
    values = [float(result.headline) for result in results]
    lead = [(name, cell(value).text) for name, value in zip(names, values, strict=True)]
    lead += [
        ("difference", f"{values[1] - values[0]:+.4f}"),
        ("protocol", protocol_title(results[0].protocol)),
        ("images", f"{results[0].num_images:,}"),
    ]
    text = page(f"{names[1]} against {names[0]}", lead, sections)
    if path is not None:
        write_page(path, text)
    return text


def _differences(paired: Any, names: tuple[str, str]) -> Section:
    """Numbers of the whole."""
    rows = [row for row, name in enumerate(paired.name) if "/" not in name]
    if not rows:
        rows = list(range(len(paired.name)))
    text = (
        f"{names[1]} minus {names[0]}, with {100 * paired.level:g}% intervals and two-sided "
        f"p-values of {paired.num_resamples:,} paired resamples of the images."
    )
    columns = _columns(paired, rows, names)
    return Section("summary", "Summary", text, tables=[table_view("Numbers of the whole", columns)])


def _changed_classes(paired: Any, names: tuple[str, str]) -> Section:
    rows = [
        row
        for row, name in enumerate(paired.name)
        if "/" in name and not math.isnan(float(paired.difference[row]))
    ]
    if not rows:
        return Section("classes", "Classes that changed")
    rows.sort(key=lambda row: -abs(float(paired.difference[row])))
    view = table_view("Classes by the size of the change", _columns(paired, rows, names))
    caption = f"{names[1]} minus {names[0]}, each number with its interval"
    figure = drawn(caption, partial(paired.plot, names=(names[1], names[0])))
    return Section("classes", "Classes that changed", "", figures=[figure], tables=[view])


def _columns(paired: Any, rows: Sequence[int], names: tuple[str, str]) -> dict[str, Sequence[Any]]:
    """``paired`` is second minus first, so that its ``first`` is the second detector."""
    ends = [(float(paired.lower[row]), float(paired.upper[row])) for row in rows]
    return {
        "number": [paired.name[row] for row in rows],
        names[0]: [float(paired.second[row]) for row in rows],
        names[1]: [float(paired.first[row]) for row in rows],
        "difference": [float(paired.difference[row]) for row in rows],
        "interval": [interval_cell(one) for one in ends],
        "p": [float(paired.p_value[row]) for row in rows],
    }


def _changed_images(
    metrics: tuple[Any, Any], names: tuple[str, str], pictures: tuple[Picture, Picture] | None
) -> Section:
    try:
        scores = [_image_scores(metric) for metric in metrics]
    except VocMetricsError:  # a task without match records
        return Section("images", "Images that changed")
    values = [
        dict(zip(one.image_id, torch.nan_to_num(one.f_score).tolist(), strict=True))
        for one in scores
    ]
    change = {name: values[1].get(name, 0.0) - value for name, value in values[0].items()}
    order = sorted(change, key=lambda name: -abs(change[name]))[:MOST_ROWS]
    order = [name for name in order if change[name]]
    figures = list[Figure]()
    for name in order if pictures is not None else ():
        for who, draw in zip(names, pictures or (), strict=True):
            add_picture(figures, draw, name, f"{who}: {name}", most=2)
    columns: dict[str, Sequence[Any]] = {
        "image": [str(name) for name in order],
        f"F1 {names[0]}": [values[0][name] for name in order],
        f"F1 {names[1]}": [values[1].get(name, math.nan) for name in order],
        "difference": [change[name] for name in order],
    }
    text = "F1 of each detector at its own score of the best mean F1."
    tables = [table_view("Images by the size of the change", columns)] if order else []
    return Section("images", "Images that changed", text, figures, tables)


def _image_scores(metric: Any) -> Any:
    if not hasattr(metric, "records"):
        raise InputError("the metric has no match records")
    records = metric.records()
    score, threshold = common_score(records), threshold_of(records)
    return analysis.image_scores(records, score=score, iou_threshold=threshold)


def _both_curves(results: Sequence[Any], names: tuple[str, str]) -> Section:
    figures = [drawn(name, result.plot) for name, result in zip(names, results, strict=True)]
    return Section("curves", "Curves", figures=figures)
