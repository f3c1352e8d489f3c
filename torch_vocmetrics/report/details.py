"""What match records say of errors, classes and images, as sections of a page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from torch_vocmetrics import analysis

from ..drawing import OUTCOME_STYLES
from ..errors import VocMetricsError
from .page import Figure, Section, drawn, pictured, table_view
from .pictures import common_score

if TYPE_CHECKING:
    from PIL.Image import Image

ImageId = int | str
Picture = Callable[[ImageId], "Image | None"]
"""Gives the image of an id with its boxes drawn, or None."""
MOST_ROWS = 20
"""Of false positives, missed objects and images."""
MOST_PICTURES = 6
"""Of each kind."""


class View(NamedTuple):
    """Records, the lane and score that analyses look at, and where images come from."""

    records: Any
    threshold: float
    score: float
    picture: Picture | None

    @property
    def score_text(self) -> str:
        """What the score is, in words."""
        return f"a score of {self.score:.3g} or more, the score of the best mean F1"


def analyses(records: Any, picture: Picture | None) -> list[Section]:
    """The sections that match records give; those that need diagnostics only with them.

    Args:
        records: of a metric.
        picture: gives the image of an id with its boxes drawn, or None.
    """
    view = View(records, threshold_of(records), common_score(records), picture)
    sections = []
    for make in (_error_kinds, _confusion, _images, _false_positives, _missed):
        try:
            sections.append(make(view))
        except VocMetricsError:  # a protocol or metric without what this analysis reads
            continue
    return sections


def threshold_of(records: Any) -> float:
    """The lowest IoU threshold of the headline area range or subset."""
    return float(records.lanes[records.lane_index()].iou_threshold)


def _error_kinds(view: View) -> Section:
    errors = analysis.error_kinds(view.records, iou_threshold=view.threshold)
    columns = {
        "kind": errors.kind,
        "errors": errors.count.tolist(),
        "AP lost": errors.cost.tolist(),
    }
    by_class = {"class": errors.class_names} | {
        kind: errors.count_by_class[row].tolist() for row, kind in enumerate(errors.kind)
    }
    text = (
        f"At IoU {errors.iou_threshold:g}, after TIDE: what mending all errors of one kind would "
        "gain in AP. A false positive is of one kind."
    )
    return Section(
        "errors",
        "Kinds of errors",
        text,
        figures=[drawn("AP that mending each kind of error gains", errors.plot)],
        tables=[table_view("Errors by kind", columns), table_view("Errors by class", by_class)],
    )


def _confusion(view: View) -> Section:
    matrix = analysis.confusion_matrix(view.records, score=view.score, iou_threshold=view.threshold)
    counts = matrix.counts.clone()
    background = len(matrix.names) - 1
    counts.fill_diagonal_(0)
    counts[background, :] = 0
    counts[:, background] = 0
    flat = counts.flatten()
    order = torch.argsort(flat, descending=True, stable=True)[:MOST_ROWS]
    pairs = [divmod(int(at), len(matrix.names)) for at in order if flat[at] > 0]
    columns = {
        "object": [matrix.names[row] for row, _ in pairs],
        "taken for": [matrix.names[column] for _, column in pairs],
        "times": [int(counts[row, column]) for row, column in pairs],
    }
    text = f"Detections with {view.score_text}."
    tables = [table_view("The most frequent confusions", columns)] if pairs else []
    figure = drawn("Share of the objects of each class by detected class", matrix.plot)
    return Section("confusion", "Confused classes", text, figures=[figure], tables=tables)


def _images(view: View) -> Section:
    scores = analysis.image_scores(view.records, score=view.score, iou_threshold=view.threshold)
    tables, figures = [], list[Figure]()
    for word, chosen in (("Worst", scores.worst(MOST_ROWS)), ("Best", scores.best(MOST_ROWS))):
        columns: dict[str, Sequence[Any]] = {
            "image": [str(name) for name in chosen.image_id],
            "F1": chosen.f_score.tolist(),
            "AP": chosen.average_precision.tolist(),
            "TP": chosen.true_positives.tolist(),
            "FP": chosen.false_positives.tolist(),
            "missed": chosen.false_negatives.tolist(),
        }
        tables.append(table_view(f"{word} images by F1", columns))
        for name, value in zip(chosen.image_id, chosen.f_score.tolist(), strict=True):
            add_picture(
                figures, view.picture, name, f"{word}: {name}, F1 {value:.3f}", most=len(tables)
            )
    text = f"Counted at {view.score_text}."
    return _with_pictures(Section("images", "Images", text, figures, tables))


def _false_positives(view: View) -> Section:
    found = analysis.false_positives(view.records, iou_threshold=view.threshold)
    columns: dict[str, Sequence[Any]] = {
        "image": [str(name) for name in found.image_id[:MOST_ROWS]],
        "class": found.class_name[:MOST_ROWS],
        "score": found.score[:MOST_ROWS].double().tolist(),
        "kind": found.kind[:MOST_ROWS],
        "overlap": found.overlap[:MOST_ROWS].double().tolist(),
    }
    figures = list[Figure]()
    for row, name in enumerate(found.image_id[:MOST_ROWS]):
        said = f"{found.class_name[row]} {float(found.score[row]):.3g} ({found.kind[row]}), {name}"
        add_picture(figures, view.picture, name, said)
    tables = [table_view("By falling score", columns)] if found.image_id else []
    section = Section("false-positives", "Most confident false positives", "", figures, tables)
    return _with_pictures(section)


def _missed(view: View) -> Section:
    missed = analysis.missed_objects(view.records, iou_threshold=view.threshold)
    order = torch.argsort(missed.area, descending=True, stable=True)[:MOST_ROWS].tolist()
    columns: dict[str, Sequence[Any]] = {
        "image": [str(missed.image_id[row]) for row in order],
        "class": [missed.class_name[row] for row in order],
        "area": [round(float(missed.area[row])) for row in order],
        "size": [missed.size[row] for row in order],
    }
    figures = list[Figure]()
    for row in order:
        name = missed.image_id[row]
        add_picture(figures, view.picture, name, f"{missed.class_name[row]} missed, {name}")
    tables = [table_view("By falling area in square pixels", columns)] if order else []
    text = f"{len(missed.image_id):,} objects that no detection of any score finds."
    return _with_pictures(Section("missed", "Largest missed objects", text, figures, tables))


def add_picture(
    figures: list[Figure],
    picture: Picture | None,
    name: ImageId,
    caption: str,
    *,
    most: int = 1,
) -> None:
    """Add the image of an id, unless there are enough, or there is none.

    Args:
        figures: so far.
        picture: gives the image of an id.
        name: the id.
        caption: below the image.
        most: multiples of ``MOST_PICTURES``.
    """
    if picture is None or len(figures) >= most * MOST_PICTURES:
        return
    image = picture(name)
    if image is not None:
        figures.append(pictured(caption, image))


def _with_pictures(section: Section) -> Section:
    """The legend of boxes, where there are pictures."""
    if not section.figures:
        return section
    legend = [
        (f"rgb{style.color}", style.dash > 0, style.meaning) for style in OUTCOME_STYLES.values()
    ]
    return section._replace(legend=legend)
