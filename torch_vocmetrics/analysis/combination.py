"""Whether methods complement one another: average precision of classifiers that are combined."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from ..metrics.classification import ClassificationAP
from ..results import Table
from .source import distinct_of


@dataclass(frozen=True, eq=False, kw_only=True)
class CombinedClassifiers(Table):
    """Average precision of combined methods beside that of the best single one, by class.

    Attributes:
        class_name: K names.
        best: [K] float64, of the best single method.
        best_method: K names.
        mean: [K] float64, of the mean of the standardised scores of all methods.
        learned: [K] float64, of a weighted sum of them, learned on the other images.
        mean_best, mean_mean, mean_learned: over the classes that are defined.
    """

    class_name: tuple[str, ...]
    best: Tensor
    best_method: tuple[str, ...]
    mean: Tensor
    learned: Tensor
    mean_best: float
    mean_mean: float
    mean_learned: float


def combine_classifiers(
    methods: Mapping[str, ClassificationAP],
    *,
    folds: int = 10,
    regularization: float = 1.0,
    seed: int = 0,
) -> CombinedClassifiers:
    """Combine the scores of several methods and evaluate the sum by their protocol.

    Scores of each method and class are standardised to mean 0 and variance 1 over the images with a
    finite score; the others have the lowest of those. The learned weights are those of logistic
    regression with an L2 penalty, on all folds of the images but the one that is scored. They are
    learned on the test set, and say what methods know together, not how well a combination does on
    new images.

    Args:
        methods: by name, metrics of the same images, classes and protocol.
        folds: parts of the images, at least 2.
        regularization: weight of the penalty ``|w|^2 / 2`` against the sum over the images.
        seed: of the folds.

    Raises:
        InputError: if there are fewer than two methods, or they have other images, classes,
            targets or protocols, or an argument is outside its range.

    Source: Everingham et al., "The PASCAL Visual Object Classes Challenge: A Retrospective", IJCV
        2015, on combining the methods of a challenge.
    """
    _check(methods, folds, regularization)
    tables = {name: distinct_of(metric).by_id() for name, metric in methods.items()}
    first_name, first = next(iter(methods.items()))
    reference = tables[first_name]
    for name, table in tables.items():
        same = table.image_ids == reference.image_ids
        if not same or not torch.equal(table.targets, reference.targets):
            raise InputError(f"has other images or targets than {first_name}", where=name)
        if methods[name].protocol != first.protocol:
            raise InputError(f"has another protocol than {first_name}", where=name)
    targets = reference.targets.cpu()
    scores = torch.stack([_standardised(table.scores.cpu().double()) for table in tables.values()])
    fold = _folds(targets.shape[0], folds, seed)
    columns = zip(scores.unbind(2), targets.unbind(1), strict=True)
    learned = torch.stack(
        [_learned(values, target, fold, regularization) for values, target in columns], dim=1
    )
    singles = torch.stack([_evaluated(first, scores[row], targets) for row in range(len(tables))])
    best = singles.nan_to_num(-math.inf).amax(dim=0)
    best = torch.where(best > -math.inf, best, math.nan)
    mean, weighted = (_evaluated(first, values, targets) for values in (scores.mean(0), learned))
    names = tuple(methods)
    return CombinedClassifiers(
        class_name=first.class_names,
        best=best,
        best_method=tuple(names[row] for row in singles.nan_to_num(-math.inf).argmax(0).tolist()),
        mean=mean,
        learned=weighted,
        mean_best=float(best.nanmean()),
        mean_mean=float(mean.nanmean()),
        mean_learned=float(weighted.nanmean()),
    )


def _check(methods: Mapping[str, Any], folds: int, regularization: float) -> None:
    if len(methods) < 2:
        raise InputError("at least two methods are needed", where="methods", got=len(methods))
    if folds < 2:
        raise InputError("must be at least 2", where="folds", got=folds)
    if not regularization > 0:
        raise InputError("must be above 0", where="regularization", got=regularization)


def _standardised(scores: Tensor) -> Tensor:
    """[N, K] scores of mean 0 and variance 1 in each class; -inf and NaN become the lowest."""
    columns = []
    for column in scores.unbind(1):
        known = column[column.isfinite()]
        if not known.numel():
            columns.append(torch.zeros_like(column))
            continue
        column = torch.where(column == math.inf, known.max(), column)  # noqa: PLW2901
        filled = torch.where(column.isfinite(), column, known.min())
        spread = filled.std(correction=0)
        columns.append((filled - filled.mean()) / torch.where(spread > 0, spread, 1.0))
    return torch.stack(columns, dim=1)


def _folds(num_images: int, folds: int, seed: int) -> Tensor:
    """[N] int64: the fold of each image, all of nearly one size."""
    generator = torch.Generator(device="cpu").manual_seed(seed)
    order = torch.randperm(num_images, generator=generator, device="cpu")
    return order % folds


def _learned(scores: Tensor, target: Tensor, fold: Tensor, regularization: float) -> Tensor:
    """[N] scores of the weighted sum that was learned without each image's fold.

    Args:
        scores: [M, N] standardised.
        target: [N]; images of 0 are scored, and not learned from.
        fold: [N] int64.
        regularization: of the weights.
    """
    rows = torch.cat([scores.t(), torch.ones_like(scores[:1]).t()], dim=1)
    result = torch.zeros_like(scores[0])
    for number in range(int(fold.max()) + 1 if fold.numel() else 0):
        inside = fold == number
        chosen = ~inside & (target != 0)
        weights = _logistic(rows[chosen], (target[chosen] > 0).double(), regularization)
        result[inside] = rows[inside] @ weights
    return result


def _logistic(rows: Tensor, positive: Tensor, regularization: float) -> Tensor:
    """[M + 1] weights of logistic regression by Newton's method; the last one has no penalty."""
    size = rows.shape[1]
    penalty = torch.full((size,), regularization, dtype=torch.float64, device="cpu")
    penalty[-1] = 1e-9  # keeps the system solvable if all targets are equal
    weights = torch.zeros(size, dtype=torch.float64, device="cpu")
    for _ in range(50):
        chance = torch.sigmoid(rows @ weights)
        slope = rows.t() @ (chance - positive) + penalty * weights
        curvature = (rows.t() * (chance * (1 - chance))) @ rows + torch.diag(penalty)
        step = torch.linalg.solve(curvature, slope)
        step = step / max(1.0, float(step.norm()) / 5)  # a long step may overshoot
        weights = weights - step
        if float(step.abs().max()) < 1e-10:
            break
    return weights


def _evaluated(like: ClassificationAP, scores: Tensor, targets: Tensor) -> Tensor:
    """[K] average precision of scores by the protocol of a metric; NaN for classes in no mean."""
    metric = ClassificationAP(like.protocol, class_names=like.class_names, target_format="signed")
    result = metric.update(scores, targets.long()).compute(sync=False)
    return torch.where(result.is_averaged, result.average_precision, math.nan)
