"""What evaluating files gives: the commands evaluate, report, compare and view read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch_vocmetrics import Metric

from ..report.pictures import Images
from ..results import Result


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
