"""Classification: average precision against the share of the image that the objects cover."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch

from ..errors import InputError
from ..metrics.classification import ClassificationAP
from ..protocols import ClassificationProtocol
from .sweeps import Sweep


def sweep_covered_share(
    scores: Any,
    targets: Any,
    shares: Any,
    edges: Sequence[float],
    *,
    protocol: str | ClassificationProtocol = "voc2012",
    class_names: Sequence[str] | None = None,
) -> Sweep:
    """Average precision of each class over positive images whose objects cover a range of shares.

    In a range [lower, upper) the positives of a class are the images in which its objects cover
    such a share. The other images with the class are neither positives nor negatives, as images of
    difficult objects only; all images without the class stay negatives.

    Args:
        scores: [I, K] numbers, higher is better.
        targets: [I, K] 1 present, -1 absent, 0 only difficult objects; or bool.
        shares: [I, K] share of the image that the objects of the class cover; what stands where the
            class is absent does not matter.
        edges: rising bounds of ranges.
        protocol: of classification.
        class_names: K names; "0", "1", ... by default.

    Raises:
        InputError: if the shapes differ or edges do not rise.

    Source: Everingham et al., "The PASCAL Visual Object Classes (VOC) Challenge", IJCV 2010,
        figures 14 and 15.
    """
    scores, shares = torch.as_tensor(scores), torch.as_tensor(shares)
    targets = torch.as_tensor(targets)
    if targets.dtype == torch.bool:
        targets = targets.to(torch.int64) * 2 - 1
    if scores.dim() != 2 or not scores.shape == targets.shape == shares.shape:
        shapes = [tuple(one.shape) for one in (scores, targets, shares)]
        raise InputError(
            "scores, targets and shares must be [images, classes] alike", where="shapes", got=shapes
        )
    ranges = list(pairwise(float(edge) for edge in edges))
    if not ranges or any(upper <= lower for lower, upper in ranges):
        raise InputError("must be at least two rising numbers", where="edges", got=list(edges))
    names = [str(k) for k in range(scores.shape[1])] if class_names is None else list(class_names)
    results = []
    for lower, upper in ranges:
        inside = (shares >= lower) & (shares < upper)
        of_range = torch.where((targets > 0) & ~inside, 0, targets)
        metric = ClassificationAP(protocol, class_names=names)
        results.append(metric.update(scores, of_range).compute())
    averages = [
        torch.where(result.is_averaged, result.average_precision, torch.nan) for result in results
    ]
    return Sweep(
        property="covered_share",
        value=tuple(f"[{lower:g}, {upper:g})" for lower, upper in ranges),
        mean=torch.tensor([one.mean_average_precision for one in results], dtype=torch.float64),
        average_precision=torch.stack(averages),
        num_positives=torch.stack([result.num_positives for result in results]),
        class_names=tuple(names),
    )
