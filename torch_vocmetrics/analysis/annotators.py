"""How well many workers annotate what is in images, against the majority of experts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from ..results import Table


@dataclass(frozen=True, eq=False, kw_only=True)
class AnnotatorAgreement(Table):
    """Precision and recall of the union of k workers, and of each expert.

    Attributes:
        num_workers: [W] int64, the numbers k = 1 .. W.
        precision, recall: [W] float64, of the union of k workers against the majority of all
            experts, over all choices of k workers.
        expert_precision, expert_recall: [E] float64, of each expert against the majority of the
            others; items on which the others are evenly split are left out.
        num_positives: items that the majority of all experts marks.
    """

    num_workers: Tensor
    precision: Tensor
    recall: Tensor
    expert_precision: Tensor
    expert_recall: Tensor
    num_positives: int

    def columns(self) -> dict[str, Tensor]:  # type: ignore[override]
        """A row for each number of workers."""
        return {
            "num_workers": self.num_workers, "precision": self.precision, "recall": self.recall
        }  # fmt: skip


def annotator_agreement(experts: Any, workers: Any) -> AnnotatorAgreement:
    """Compare workers with experts, who have all marked the same items.

    An item is an image and a category (or anything else that is marked or not). It is positive if
    more than half of the experts mark it. The union of k workers marks what any of them marks. All
    choices of k workers are taken together: of n workers who mark an item out of W, a choice of k
    holds one with probability ``1 - C(W - n, k) / C(W, k)``; precision is the expected number of
    right marks over the expected number of marks.

    Args:
        experts: [E, ...] bool, at least three experts.
        workers: [W, ...] bool, of the same items.

    Raises:
        InputError: if the items differ, or there are too few experts or no workers.

    Source: Lin et al., "Microsoft COCO: Common Objects in Context", ECCV 2014, figure 4.

    Example:
        >>> experts = [[1, 1, 0, 0], [1, 1, 0, 0], [1, 0, 0, 0]]
        >>> result = annotator_agreement(experts, [[1, 0, 0, 0], [0, 1, 1, 0]])
        >>> result.recall.tolist(), [round(one, 4) for one in result.precision.tolist()]
        ([0.5, 1.0], [0.6667, 0.6667])
    """
    expert, worker = (
        torch.as_tensor(side, device="cpu").bool().flatten(1) for side in (experts, workers)
    )
    E, W = expert.shape[0], worker.shape[0]
    if E < 3 or W < 1:
        got = f"{E} experts, {W} workers"
        raise InputError("needs three experts and a worker", where="experts and workers", got=got)
    if expert.shape[1] != worker.shape[1]:
        got = f"{expert.shape[1]} and {worker.shape[1]} items"
        raise InputError("must have marked the same items", where="experts and workers", got=got)
    votes = expert.sum(dim=0)
    truth = 2 * votes > E
    marked = worker.sum(dim=0)
    precision, recall = [], []
    for k in range(1, W + 1):
        chance = _chance_of_union(W, k)[marked]
        found = float(chance[truth].sum())
        precision.append(_ratio(found, float(chance.sum())))
        recall.append(_ratio(found, int(truth.sum())))
    alone = [_against_others(expert, row, votes) for row in range(E)]
    column: Callable[[list[float]], Tensor] = lambda values: torch.tensor(  # noqa: E731
        values, dtype=torch.float64, device="cpu"
    )
    return AnnotatorAgreement(
        num_workers=torch.arange(1, W + 1, device="cpu"),
        precision=column(precision),
        recall=column(recall),
        expert_precision=column([one[0] for one in alone]),
        expert_recall=column([one[1] for one in alone]),
        num_positives=int(truth.sum()),
    )


def _chance_of_union(num_workers: int, k: int) -> Tensor:
    """[W + 1] float64: that k of W workers hold one of the n who mark an item, n = 0 .. W."""
    every = math.comb(num_workers, k)
    chances = [1 - math.comb(num_workers - n, k) / every for n in range(num_workers + 1)]
    return torch.tensor(chances, dtype=torch.float64, device="cpu")


def _against_others(expert: Tensor, row: int, votes: Tensor) -> tuple[float, float]:
    """Precision and recall of an expert against the majority of the others."""
    others = 2 * (votes - expert[row].long())
    size = expert.shape[0] - 1
    decided, truth = others != size, others > size
    mine = expert[row] & decided
    right = int((mine & truth).sum())
    return _ratio(right, int(mine.sum())), _ratio(right, int(truth.sum()))


def _ratio(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator else math.nan
