"""What evaluating files gives: the commands evaluate, report, compare and view read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch_vocmetrics import Metric

from ..results import Result


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
    predictions: Sequence[Mapping[str, Any]]
    targets: Sequence[Mapping[str, Any]]
    class_names: tuple[str, ...]
    label_ids: tuple[int, ...]
    box_format: str
    file_names: tuple[str, ...] = ()


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
