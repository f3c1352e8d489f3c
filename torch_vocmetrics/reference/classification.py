"""Classification as the official code computes it, by plain loops over Python floats."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import InputError
from ..protocols import ClassificationProtocol, load_protocol
from ..results import ClassificationResult, PrecisionRecallCurve, RocCurve, as_tensor
from .arithmetic import float64, quotient
from .detection import all_points_ap, eleven_point_ap, voc_curve
from .matching import FALSE_POSITIVE, IGNORED, TRUE_POSITIVE
from .reading import plain

Image = tuple[float, int]
"""Score and target (1, -1, or 0 for neither) of one image."""


def evaluate_classification(
    protocol: str | ClassificationProtocol,
    scores: Any,
    targets: Any,
    *,
    image_ids: Sequence[Any] | None = None,
    class_names: Sequence[str] | None = None,
) -> ClassificationResult:
    """Evaluate the scores of a whole data set at once, by plain loops.

    Args:
        protocol: ``"voc2007"``, ``"action/voc2010"``, the path of a TOML file, or a protocol.
        scores: [B, K]; -inf for none, NaN ranks last.
        targets: [B, K] of 1, -1, and 0 for images that are neither.
        image_ids: B ids, or (image, object) pairs of actions, whose order breaks ties of score;
            by default the order of the rows does.
        class_names: K names; "0", "1", ... by default.

    Raises:
        InputError: for inputs that do not fit together, another target or a repeated id.

    Source:
        VOCcode/VOCroc.m (2006), VOCcode/VOCevalcls.m (2007-2012), VOCcode/VOCevalaction.m.

    Example:
        >>> evaluate_classification("voc2012", [[0.9], [0.1]], [[1], [-1]]).headline
        1.0
    """
    protocol = load_protocol(protocol, ClassificationProtocol)
    table = read_table(scores, targets, image_ids)
    count = np.shape(plain(scores))[1] if np.ndim(plain(scores)) == 2 else 0
    names = tuple(map(str, range(count)) if class_names is None else class_names)
    if len(names) != count or not names:
        raise InputError("must name each of the K classes", where="class_names", got=names)
    classes = [class_result(protocol, [row[k] for row in table]) for k in range(count)]
    npos = [entry["num_positives"] for entry in classes]
    return ClassificationResult(
        protocol=protocol,
        class_names=names,
        average_precision=float64([entry["average_precision"] for entry in classes]),
        plain_average_precision=float64([entry["plain"] for entry in classes]),
        num_classes_averaged=sum(positives > 0 for positives in npos),
        num_positives=as_tensor(np.array(npos, dtype=np.int64)),
        num_negatives=as_tensor(
            np.array([entry["num_negatives"] for entry in classes], dtype=np.int64)
        ),
        num_images=len(table),
        curves=tuple(entry["curve"] for entry in classes),
        roc_curves=tuple(entry["roc"] for entry in classes),
    )


def read_table(scores: Any, targets: Any, image_ids: Sequence[Any] | None) -> list[list[Image]]:
    """Scores and targets image by image, in the order of the ids."""
    values, truth = plain(scores), plain(targets)
    if np.shape(values) != np.shape(truth):
        raise InputError(
            "scores and targets must have one shape", got=(np.shape(values), np.shape(truth))
        )
    order = list(range(len(values)))
    if image_ids is not None:
        if len(image_ids) != len(order):
            raise InputError("must be one id an image", where="image_ids", got=len(image_ids))
        if len(set(image_ids)) != len(order):
            raise InputError("an image comes twice", where="image_ids")
        order.sort(key=lambda i: image_ids[i])
    table = []
    for i in order:
        row = [(float(s), int(t)) for s, t in zip(values[i], truth[i], strict=True)]
        if any(target not in (-1, 0, 1) for _, target in row):
            raise InputError("targets must be -1, 0 or 1", where=f"image {i}", got=truth[i])
        table.append(row)
    return table


def class_result(rules: ClassificationProtocol, images: list[Image]) -> dict[str, Any]:
    """Rank the images of one class and take every number from the ranking.

    Source: VOCevalcls.m, ``[so,si]=sort(-out)`` on: a stable sort that puts NaN last.
    """
    ranked = sorted(
        images, key=lambda one: (math.isnan(one[0]), 0.0 if math.isnan(one[0]) else -one[0])
    )
    outcome = {1: TRUE_POSITIVE, -1: FALSE_POSITIVE, 0: IGNORED}
    positives = sum(target > 0 for _, target in images)
    negatives = sum(target < 0 for _, target in images)
    recall, precision = voc_curve([outcome[target] for _, target in ranked], positives, 0.0)
    if rules.interpolation == "eleven_point":
        average = eleven_point_ap(recall, precision, rules.recall_levels)
    elif rules.interpolation == "all_points":
        average = all_points_ap(recall, precision)
    else:
        average = plain_ap(recall, precision)
    return {
        "average_precision": average if images else math.nan,
        "plain": plain_ap(recall, precision) if images else math.nan,
        "num_positives": positives,
        "num_negatives": negatives,
        "curve": PrecisionRecallCurve(
            *map(float64, (recall, precision, [score for score, _ in ranked]))
        ),
        "roc": roc_curve(ranked, positives, negatives),
    }


def plain_ap(recall: list[float], precision: list[float]) -> float:
    """Precision summed over the steps of recall, without interpolation."""
    ap, before = 0.0, 0.0
    for r, p in zip(recall, precision, strict=True):
        if r != before:
            ap = ap + (r - before) * p
        before = r
    return ap


def roc_curve(ranked: list[Image], positives: int, negatives: int) -> RocCurve:
    """Rates after each group of equal scores, and the area below the lower envelope.

    Source: VOCroc.m of VOC2006: tp and fp at ties, di, auc.
    """
    fp, tp = [0.0], [0.0]
    seen = {1: 0, -1: 0, 0: 0}
    for i, (score, target) in enumerate(ranked):
        seen[target] += 1
        if i + 1 < len(ranked) and ranked[i + 1][0] == score:
            continue
        fp.append(quotient(seen[-1], negatives))
        tp.append(quotient(seen[1], positives))
    fp.append(1.0)
    tp.append(1.0)
    last = len(tp) - 1
    kept = [i for i in range(len(tp)) if i in (0, last) or tp[i] != tp[i - 1]]
    area = 0.0
    for i, j in itertools.pairwise(kept):
        area = area + (fp[j] - fp[i]) * tp[i]
    return RocCurve(float64(fp), float64(tp), area)
