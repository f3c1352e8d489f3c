"""What became of each detection and each object of an image, by the rows of the input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from .lane_view import LaneView
from .source import diagnostics_of

TRUE, FALSE, IGNORED = "true", "false", "ignored"
FOUND, MISSED = "found", "missed"


@dataclass(frozen=True, eq=False)
class ImageOutcome:
    """One image.

    Attributes:
        detections: of each detection, by its row in the input: ``"true"`` or ``"false"`` positive,
            or ``"ignored"``, which also has those beyond the limit of detections.
        ground_truth: the row of the matched object in the input, -1 for none.
        objects: of each object, by its row in the input: ``"found"``, ``"missed"``, or
            ``"ignored"`` if it does not count.
    """

    detections: tuple[str, ...]
    ground_truth: tuple[int, ...]
    objects: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class ImageOutcomes:
    """All images; ``outcomes.of(image_id, num_detections, num_objects)`` is one of them.

    Attributes:
        rows: the row of each image by its id, or by its number in order of arrival.
        image, index, ground_truth: [N] int64 of the detections, sorted by image.
        true_positive, ignored: [N] bool.
        object_image, object_index: [M] int64, sorted by image.
        counted, found: [M] bool.
    """

    rows: dict[int | str, int]
    image: Tensor
    index: Tensor
    ground_truth: Tensor
    true_positive: Tensor
    ignored: Tensor
    object_image: Tensor
    object_index: Tensor
    counted: Tensor
    found: Tensor

    def of(self, image_id: int | str, num_detections: int, num_objects: int) -> ImageOutcome:
        """The outcomes of one image.

        Args:
            image_id: as given to ``update``, or the number of the image in order of arrival.
            num_detections, num_objects: rows of the input.

        Raises:
            InputError: if there is no such image.
        """
        if image_id not in self.rows:
            raise InputError("no such image", where="image_id", got=repr(image_id))
        row = self.rows[image_id]
        detections, matched = [IGNORED] * num_detections, [-1] * num_detections
        for position in _run(self.image, row):
            index = int(self.index[position])
            matched[index] = int(self.ground_truth[position])
            if not self.ignored[position]:
                detections[index] = TRUE if self.true_positive[position] else FALSE
        objects = [IGNORED] * num_objects
        for position in _run(self.object_image, row):
            if self.counted[position]:
                outcome = FOUND if self.found[position] else MISSED
                objects[int(self.object_index[position])] = outcome
        return ImageOutcome(tuple(detections), tuple(matched), tuple(objects))


def image_outcomes(
    source: Any,
    *,
    score: float | None = None,
    iou_threshold: float | None = 0.5,
    area: str | None = None,
) -> ImageOutcomes:
    """What became of every detection and object, so that images can be drawn.

    Args:
        source: a metric made with ``diagnostics=True``, or its records.
        score: objects that only detections of a lower score match are missed; None takes all.
        iou_threshold: one of the protocol's; None is the lowest.
        area: name of an area range or subset; None is that of the headline.

    Raises:
        StateError: if the diagnostics were not kept.
        InputError: for a lane that the protocol does not have.
    """
    view = LaneView.of(source, iou_threshold, area)
    records = view.records
    rows = diagnostics_of(records, "the outcomes of images").row
    detections, objects = records.detections, records.ground_truths
    hits = view.true_positive
    if score is not None:
        hits = hits & (detections.score >= torch.tensor(score, dtype=detections.score.dtype))
    order = torch.argsort(detections.image, stable=True)
    # A row for "no object" behind the last.
    index = torch.nn.functional.pad(objects.index.long(), (0, 1), value=-1)
    by_image = torch.argsort(objects.image, stable=True)
    ids = records.image_ids
    names = range(view.num_images) if ids is None else ids

    def column(values: Tensor, rows: Tensor) -> Tensor:
        return values[rows].cpu()

    return ImageOutcomes(
        rows={name: row for row, name in enumerate(names)},
        image=column(detections.image.long(), order),
        index=column(rows, order),
        ground_truth=column(index[view.ground_truth], order),
        true_positive=column(view.true_positive, order),
        ignored=column(view.ignored, order),
        object_image=column(objects.image.long(), by_image),
        object_index=column(objects.index.long(), by_image),
        counted=column(view.counted, by_image),
        found=column(view.found_by(hits), by_image),
    )


def _run(images: Tensor, row: int) -> range:
    """The indices of an image among sorted ``images``."""
    bounds = torch.searchsorted(images, torch.tensor([row, row + 1]))
    return range(int(bounds[0]), int(bounds[1]))
