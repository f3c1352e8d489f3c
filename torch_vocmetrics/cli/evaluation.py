"""What evaluating files gives: the commands evaluate, report, compare and view read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from torch_vocmetrics import Metric

from ..results import Result

if TYPE_CHECKING:
    from ..io import GroundTruthFile

Rows = Mapping[str, Any]
"""Predictions or a target of an image."""


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


@dataclass(frozen=True, eq=False, kw_only=True)
class Evaluation:
    """A metric after all images, its result, and what the files say beside.

    Attributes:
        metric: holds all images.
        result: of its one protocol.
        facts: what the files say beside the result, for programs.
        without_numbers: names that the result lacks, and the word that says why.
        images: of detection and pedestrian benchmarks; None elsewhere.
    """

    metric: Metric[Any]
    result: Result
    facts: Mapping[str, Any] = field(default_factory=dict)
    without_numbers: Mapping[str, str] = field(default_factory=dict)
    images: Images | None = None
