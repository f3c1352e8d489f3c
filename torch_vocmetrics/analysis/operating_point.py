"""Precision, recall and F-beta against the score: which score to cut at, and what it gives."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError
from ..results import Table
from .lane_view import LaneView
from .score_points import ScorePoints


def score_curves(
    source: Any, *, iou_threshold: float = 0.5, area: str | None = None, beta: float = 1.0
) -> ScoreCurves:
    """Precision, recall and F-beta of each class, and of all pooled, at every distinct score.

    A cut at score s keeps the detections with a score of s or more. Matching goes by falling score,
    so the outcomes of those kept are the same as if the others had never been there.

    Args:
        source: a metric or its records.
        iou_threshold: one of the protocol's.
        area: name of an area range or subset; None is the headline one.
        beta: weight of recall: ``F = (1 + beta^2) TP / ((1 + beta^2) TP + beta^2 FN + FP)``.

    Raises:
        InputError: for a lane that the protocol does not have, or a beta that is not above 0.

    Source: van Rijsbergen, "Information Retrieval", 1979, chapter 7.
    """
    if not (beta > 0 and math.isfinite(beta)):
        raise InputError("must be above 0 and finite", where="beta", got=repr(beta))
    view = LaneView.of(source, iou_threshold, area)
    points = ScorePoints.of(view)
    return ScoreCurves(
        names=points.names,
        iou_threshold=iou_threshold,
        area=view.area,
        beta=beta,
        starts=points.starts.cpu(),
        score=points.score.cpu(),
        true_positives=points.true_positives.cpu(),
        false_positives=points.false_positives.cpu(),
        num_positives=points.num_positives.cpu(),
    )


@dataclass(frozen=True, eq=False)
class OperatingPoints(Table):
    """What a score gives in each group: the classes, then all of them pooled.

    Attributes:
        name: G names.
        score: [G] float64, detections with it or a higher one are kept; infinite where none is
            kept, NaN where no score gives what was asked (then counts are 0 and ratios NaN).
        true_positives, false_positives, false_negatives: [G] int64.
        precision, recall, f_score: [G] float64, NaN for 0/0.
    """

    name: tuple[str, ...]
    score: Tensor
    true_positives: Tensor
    false_positives: Tensor
    false_negatives: Tensor
    precision: Tensor
    recall: Tensor
    f_score: Tensor

    def __getitem__(self, name: str) -> dict[str, float]:
        """The numbers of one group by name."""
        if name not in self.name:
            raise InputError(
                f"there is no group {name!r}", remedy=f"there are {', '.join(self.name[:12])}"
            )
        row = self.name.index(name)
        columns = {key: value for key, value in self.columns().items() if key != "name"}
        return {key: float(value[row]) for key, value in columns.items()}


@dataclass(frozen=True, eq=False)
class ScoreCurves(Table):
    """Curves of G groups: the classes, then "all", in which all classes are pooled.

    Points of a group stand together, one at each distinct score, by falling score.

    Attributes:
        names: G names.
        iou_threshold, area, beta: what was asked.
        starts: [G + 1] int64, points starts[g] .. starts[g + 1] are of group g.
        score: [P] as the detections have them.
        true_positives, false_positives: [P] int64, among detections with this score or more.
        num_positives: [G] int64, objects that count.
    """

    names: tuple[str, ...]
    iou_threshold: float
    area: str
    beta: float
    starts: Tensor
    score: Tensor
    true_positives: Tensor
    false_positives: Tensor
    num_positives: Tensor

    @property
    def group(self) -> Tensor:
        """[P] int64: the group of each point."""
        return torch.repeat_interleave(self.starts.diff(), output_size=self.score.shape[0])

    @property
    def precision(self) -> Tensor:
        """[P] float64: ``TP / (TP + FP)``."""
        return self.true_positives / (self.true_positives + self.false_positives).double()

    @property
    def recall(self) -> Tensor:
        """[P] float64: ``TP / positives``, NaN for 0/0."""
        return self.true_positives / self.num_positives[self.group].double()

    @property
    def f_score(self) -> Tensor:
        """[P] float64: F-beta."""
        missed = self.num_positives[self.group] - self.true_positives
        return f_beta(self.true_positives, self.false_positives, missed, self.beta)

    def columns(self) -> dict[str, Any]:
        """The points: name, score, counts and ratios."""
        return {
            "name": tuple(self.names[group] for group in self.group.tolist()),
            "score": self.score,
            "true_positives": self.true_positives,
            "false_positives": self.false_positives,
            "precision": self.precision,
            "recall": self.recall,
            "f_score": self.f_score,
        }

    def at(self, score: float) -> OperatingPoints:
        """What is kept by a score: each group at its last point with this score or more."""
        # Compared as the scores are stored: a float32 score of 0.9 is above the float64 of 0.9.
        bar = float(torch.tensor(score, dtype=self.score.dtype))
        return self._points(lambda part: int((self.score[part] >= bar).sum()) - 1)

    def best(self) -> OperatingPoints:
        """The score of the largest F-beta of each group, the highest of several."""
        f_score = self.f_score
        return self._points(lambda part: _first_largest(f_score[part].numpy()))

    def at_recall(self, recall: float) -> OperatingPoints:
        """The highest score at which each group reaches a recall, and the precision there."""
        reached = self.recall >= recall
        return self._points(lambda part: _first(reached[part].numpy()))

    def at_precision(self, precision: float) -> OperatingPoints:
        """The lowest score at which each group has a precision, and the recall there."""
        reached = self.precision >= precision
        return self._points(lambda part: _last(reached[part].numpy()))

    def best_common(self) -> OperatingPoints:
        """All groups at the one score with the largest mean F-beta over classes with positives.

        The scores that are tried are those of all detections; the highest of several is taken.
        """
        pooled = len(self.names) - 1
        scores = self.score[self._slice(pooled)].numpy()
        total, f_score = np.zeros(scores.size), self.f_score.numpy()
        for group in range(pooled):
            if not self.num_positives[group]:
                continue
            part = self._slice(group)
            # Above its first point a class keeps nothing and has an F-beta of 0.
            values = np.append(0.0, f_score[part])
            total += values[np.searchsorted(-self.score[part].numpy(), -scores, side="right")]
        return self.at(float(scores[total.argmax()]) if scores.size else math.inf)

    def _slice(self, group: int) -> slice:
        return slice(int(self.starts[group]), int(self.starts[group + 1]))

    def _points(self, choose: Callable[[slice], int | None]) -> OperatingPoints:
        """Each group at the point that is chosen; -1 keeps nothing, None has no answer."""
        scores, counts = [], []
        for group in range(len(self.names)):
            part = self._slice(group)
            chosen = choose(part)
            row = [0, 0, int(self.num_positives[group])]
            score = math.inf
            if chosen is None:
                score, row = math.nan, [0, 0, 0]
            elif chosen >= 0:
                point = part.start + chosen
                score = float(self.score[point])
                found = int(self.true_positives[point])
                row = [found, int(self.false_positives[point]), row[2] - found]
            scores.append(score)
            counts.append(row)
        true, false, missed = torch.tensor(counts, dtype=torch.int64).unbind(dim=1)
        return OperatingPoints(
            name=self.names,
            score=torch.tensor(scores, dtype=torch.float64),
            true_positives=true,
            false_positives=false,
            false_negatives=missed,
            precision=true / (true + false).double(),
            recall=true / (true + missed).double(),
            f_score=f_beta(true, false, missed, self.beta),
        )


def f_beta(true: Tensor, false: Tensor, missed: Tensor, beta: float = 1.0) -> Tensor:
    """F-beta float64 of counts of true positives, false positives and missed objects."""
    weighted = (1 + beta * beta) * true.double()
    return weighted / (weighted + beta * beta * missed.double() + false.double())


def _first_largest(values: np.ndarray[Any, Any]) -> int:
    """The first index of the largest value above 0, -1 where there is none: nothing is kept."""
    known = np.nan_to_num(values, nan=0.0)
    return int(known.argmax()) if known.size and known.max() > 0 else -1


def _first(holds: np.ndarray[Any, Any]) -> int | None:
    """The first index that holds."""
    return int(holds.argmax()) if holds.any() else None


def _last(holds: np.ndarray[Any, Any]) -> int | None:
    """The last index that holds."""
    return int(np.flatnonzero(holds)[-1]) if holds.any() else None
