"""Images with the outcomes of their detections and objects drawn on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from torch_vocmetrics import analysis

from ..drawing import OUTCOME_STYLES, Box, Corners, corners_of, draw_boxes, enlarged

if TYPE_CHECKING:
    from PIL.Image import Image

    from ..io import GroundTruthFile

Rows = Mapping[str, Any]
"""Predictions or a target of an image."""
LEAST_SIZE = 320
"""Pixels of the longer side of a picture; smaller images are enlarged."""
BOTTOM_UP = ("ignored", "false", "true", "truth", "missed")
"""Outcomes in the order in which they are drawn over each other."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Images:
    """Both sides of the images that a detection metric was updated with.

    Attributes:
        ids: I ids.
        predictions, targets: I dicts each, rows as the metric has seen them.
        class_names, label_ids: K each; the value of ``labels`` of each class.
        box_format: of both sides.
        file_names: the name of the file of each image, empty where it is not known; () knows none.
    """

    ids: Sequence[int | str]
    predictions: Sequence[Rows]
    targets: Sequence[Rows]
    class_names: tuple[str, ...]
    label_ids: tuple[int, ...]
    box_format: str
    file_names: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, truth: GroundTruthFile, predictions: Sequence[Rows], targets: Sequence[Rows]
    ) -> Self:
        """Both sides of the images of files.

        Args:
            truth: says what the images and classes are.
            predictions, targets: I each.
        """
        return cls(
            ids=truth.image_ids,
            predictions=predictions,
            targets=targets,
            class_names=truth.class_names,
            label_ids=truth.label_ids,
            box_format=truth.box_format,
            file_names=truth.file_names,
        )

    def names(self, labels: Any) -> list[str]:
        """The class of each of ``labels`` [N]; a label of no class as it is."""
        known = dict(zip(self.label_ids, self.class_names, strict=True))
        values = labels.tolist() if hasattr(labels, "tolist") else labels
        return [known.get(int(label), str(label)) for label in values]


def outcome_boxes(
    images: Images,
    index: int,
    outcomes: Any,
    *,
    min_score: float,
    truth: bool = False,
    only_true: bool = False,
) -> list[Box]:
    """The boxes of an image in the styles of their outcomes.

    Args:
        images: both sides.
        index: which image.
        outcomes: :class:`~torch_vocmetrics.analysis.input_rows.ImageOutcomes`.
        min_score: detections below it are left out.
        truth: draw found and ignored objects as well.
        only_true: true positives alone.
    """
    target, rows = images.targets[index], images.predictions[index]
    name = images.ids[index]
    what = outcomes.of(name, len(rows["labels"]), len(target["labels"]))
    layers: dict[str, list[Box]] = {name: [] for name in BOTTOM_UP}

    def add(box: Corners, name: str, text: str) -> None:
        style = OUTCOME_STYLES[name]
        layers[name].append(Box(box, text, style.color, style.dash))

    words = images.names(target["labels"])
    for row, box in enumerate(corners_in(target, images)):
        if only_true or (what.objects[row] != "missed" and not truth):
            continue
        style = "truth" if what.objects[row] == "found" else what.objects[row]
        add(box, style, words[row] if style == "missed" else "")
    words = images.names(rows["labels"])
    scores = values_of(rows["scores"])
    for row, box in enumerate(corners_in(rows, images)):
        if scores[row] < min_score or (only_true and what.detections[row] != "true"):
            continue
        add(box, what.detections[row], f"{words[row]} {scores[row]:.3g}")
    return [box for boxes in layers.values() for box in boxes]


def corners_in(rows: Rows, images: Images) -> list[Corners]:
    """The boxes of one side in pixels from 0; VOC counts from 1."""
    offset = 1.0 if images.box_format == "xyxy" else 0.0
    return corners_of(values_of(rows["boxes"]), images.box_format, offset)


def values_of(rows: Any) -> list[Any]:
    """A column as a list of plain values."""
    values: list[Any] = rows.tolist() if hasattr(rows, "tolist") else list(rows)
    return values


def common_score(records: Any) -> float:
    """The score with the largest mean F1 over classes; lower detections make images crowded.

    Args:
        records: of a metric.
    """
    threshold = records.lanes[records.lane_index()].iou_threshold
    best = analysis.score_curves(records, iou_threshold=float(threshold)).best_common()
    score = float(best.score[0])
    return score if math.isfinite(score) else -math.inf


def outcome_pictures(
    metric: Any,
    images: Images,
    load: Callable[[int], Image | None],
    *,
    min_score: float | None = None,
) -> Callable[[int | str], Image | None]:
    """What gives the image of an id with outcomes drawn, as reports take it.

    Args:
        metric: made with ``diagnostics=True``, after all images.
        images: both sides.
        load: gives the image at an index, or None.
        min_score: detections below it are left out; None is the score of the best mean F1 over
            classes, at which reports count.
    """
    if min_score is None:
        min_score = common_score(metric.records())
    outcomes = analysis.image_outcomes(metric, score=min_score, iou_threshold=None)
    index_of = {name: index for index, name in enumerate(images.ids)}

    def picture(name: int | str) -> Image | None:
        index = index_of[name]
        image = load(index)
        if image is None:
            return None
        boxes = outcome_boxes(images, index, outcomes, min_score=min_score, truth=True)
        return draw_boxes(*enlarged(image, boxes, LEAST_SIZE))

    return picture
