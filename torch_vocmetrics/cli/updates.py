"""Updates of a metric from files: a row that the metric refuses is named by its file."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from torch_vocmetrics import DetectionAP, LogAverageMissRate

from ..errors import FileFormatError, InputError, VocMetricsWarning
from ..io.entry_log import EntryLog
from ..report.pictures import Images

if TYPE_CHECKING:
    from ..io import DetectionFile, GroundTruthFile

_CHUNK = 512
"""Images of one update: enough to be fast, few enough to show progress."""

_KEYS_OF_IMAGES = ("image_id", "image_size")
"""Keys of a target that are no columns of rows."""

Metric = DetectionAP[Any] | LogAverageMissRate

Image = dict[str, Any]
"""Predictions or a target of one image."""


class Files(NamedTuple):
    """The images that a metric is updated with, and the files that they were read from.

    Attributes:
        ground_truths, detections: of the readers.
        truth_path: file or folder of the ground truth.
        results_path: file of the detections, or pattern with ``{class}`` of several files.
        on_fault: ``"error"`` or ``"skip"``.
    """

    ground_truths: GroundTruthFile
    detections: DetectionFile
    truth_path: str | Path
    results_path: str | Path
    on_fault: str


def update_from_files(
    metric: Metric, files: Files, progress: Callable[[int, int], object] | None = None
) -> Images:
    """Update a new metric with all images of the files.

    Values are checked where they were read, on the CPU, so that a fault is known at once, whatever
    the device of the metric is.

    Args:
        metric: without any images.
        files: the images.
        progress: called with the number of images so far and their total.

    Returns:
        The images without rows that were skipped.

    Raises:
        FileFormatError: for a row that the metric refuses, naming file, image id and, as far as the
            file has them, element and annotation id; unless such rows are to be skipped.

    Warns:
        VocMetricsWarning: of rows that are skipped.
    """
    truth = files.ground_truths
    predictions, targets = list(files.detections.predictions), list(truth.targets)
    screen = _Screen(copy.deepcopy(metric), files)
    for start in range(0, len(targets), _CHUNK):
        end = min(start + _CHUNK, len(targets))
        try:
            metric.update(predictions[start:end], targets[start:end])
        except InputError:
            for image in range(start, end):
                predictions[image], targets[image] = screen.sound(image)
                metric.update([predictions[image]], [targets[image]])
        if progress is not None:
            progress(end, len(targets))
    screen.finish()
    return Images.of(truth, predictions, targets)


class _Screen:
    """Finds the rows that a metric refuses, by an update with each of them alone."""

    def __init__(self, metric: Metric, files: Files) -> None:
        self._metric, self._files = metric, files
        self._truth_log = EntryLog(files.truth_path, files.on_fault)
        self._results_log = EntryLog(files.results_path, files.on_fault)

    def sound(self, image: int) -> tuple[Image, Image]:
        """Predictions and target of an image, without the rows that are skipped.

        Raises:
            FileFormatError: for the first row that is refused, unless such rows are skipped; for an
                image that is refused although each of its rows alone is taken.
        """
        prediction = self._files.detections.predictions[image]
        target = self._files.ground_truths.targets[image]
        if self._refusal(prediction, target) is None:
            return prediction, target
        nothing = _rows_of(prediction, [])
        refused = {
            row: error
            for row in range(len(target["labels"]))
            if (error := self._refusal(nothing, _rows_of(target, [row]))) is not None
        }
        target = self._without(image, target, refused, self._truth_log)
        nothing = _rows_of(target, [])
        refused = {
            row: error
            for row in range(len(prediction["labels"]))
            if (error := self._refusal(_rows_of(prediction, [row]), nothing)) is not None
        }
        prediction = self._without(image, prediction, refused, self._results_log)
        if (error := self._refusal(prediction, target)) is not None:
            where = f"{self._files.truth_path} and {self._files.results_path}"
            raise self._named(error, where, image)
        return prediction, target

    def finish(self) -> None:
        """Warn of the rows that were skipped."""
        self._truth_log.finish()
        self._results_log.finish()

    def _refusal(self, prediction: Image, target: Image) -> InputError | None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", VocMetricsWarning)
            try:
                self._metric.reset().update([prediction], [target])
            except InputError as error:
                return error
        return None

    def _without(
        self, image: int, rows: Image, refused: dict[int, InputError], log: EntryLog
    ) -> Image:
        """The rows of an image that are not refused; the others are logged."""
        if not refused:
            return rows
        errors = [
            self._named(error, self._where(image, row, rows, log), image)
            for row, error in refused.items()
        ]
        log.add_faults(len(errors), errors)
        if log.on_fault == "error":
            log.finish()
        return _rows_of(rows, [row for row in range(len(rows["labels"])) if row not in refused])

    def _where(self, image: int, row: int, rows: Image, log: EntryLog) -> str:
        files = self._files
        side = files.ground_truths if log is self._truth_log else files.detections
        if side.origins is not None:
            return side.origins.where(image, row)
        names = dict(
            zip(files.ground_truths.label_ids, files.ground_truths.class_names, strict=True)
        )
        name = names.get(int(rows["labels"][row]), "")
        return f"{str(log.source).replace('{class}', name)}, row {row + 1} of the image"

    def _named(self, error: InputError, where: str, image: int) -> FileFormatError:
        image_id = self._files.ground_truths.image_ids[image]
        return FileFormatError(
            error.what, where=f"{where}, image_id {image_id!r}", got=error.got, remedy=error.remedy
        )


def _rows_of(rows: Image, chosen: Sequence[int]) -> Image:
    """Some rows of an image, as another image of the same id and size."""
    return {
        key: value
        if key in _KEYS_OF_IMAGES
        else value[list(chosen)]
        if isinstance(value, torch.Tensor)
        else [value[row] for row in chosen]
        for key, value in rows.items()
    }
