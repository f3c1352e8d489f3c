"""Detection as the official code computes it, by plain loops over Python floats.

Each function is one step of the official code and names it. Which step runs, and with which rules,
is read off the fields of the protocol and never off its name.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..protocols import DetectionProtocol, load_protocol
from ..results import (
    CocoDetectionResult,
    PrecisionRecallCurve,
    VocDetectionResult,
    as_tensor,
)
from .arithmetic import (
    by_score,
    float64,
    matlab_max,
    mean_in_sequence,
    mean_of_entries,
    quotient,
)
from .matching import FALSE_POSITIVE, TRUE_POSITIVE, ImageOutcome, evaluate_image
from .reading import read_classes, read_images

Result = VocDetectionResult | CocoDetectionResult


def evaluate(
    protocol: str | Path | DetectionProtocol,
    detections: Sequence[Mapping[str, Any]],
    ground_truths: Sequence[Mapping[str, Any]],
    *,
    num_classes: int | None = None,
    class_names: Sequence[str] | None = None,
    label_ids: Sequence[int] | None = None,
    box_format: str = "xyxy",
) -> Result:
    """Evaluate detections of a whole data set at once, by plain loops.

    Args:
        protocol: ``"voc2007"``, ``"detection/voc2007"``, the path of a TOML file, or a protocol.
        detections: per image ``boxes`` [N, 4], ``scores`` [N], ``labels`` [N]; ``order`` [N], where
            given, breaks ties of score in place of (image, index).
        ground_truths: per image ``boxes`` [M, 4], ``labels`` [M]; where given ``difficult``,
            ``iscrowd``, ``ignore``, ``area`` [M] (NaN: the area of the box) and ``image_id``.
        num_classes: K, where neither names nor ids say it.
        class_names: K names; "0", "1", ... by default.
        label_ids: the value of each class in ``labels``; 0 .. K - 1 by default.
        box_format: "xyxy", "xywh" or "cxcywh".

    Returns:
        VocDetectionResult for eleven_point and all_points, CocoDetectionResult for recall_grid.

    Raises:
        InputError: for inputs that do not fit together, an unknown label or a repeated image id.

    Source:
        VOCcode/VOCpr.m (2006), VOCcode/VOCevaldet.m (2007-2012), pycocotools 2.0.11 cocoeval.py.

    Example:
        >>> boxes = [[1, 1, 10, 10]]
        >>> evaluate("voc2012", [{"boxes": boxes, "scores": [0.9], "labels": [0]}],
        ...          [{"boxes": boxes, "labels": [0]}], num_classes=1).headline
        1.0
    """
    protocol = load_protocol(protocol, DetectionProtocol)
    names, ids = read_classes(num_classes, class_names, label_ids)
    names, ids = (("all",), dict.fromkeys(ids, 0)) if protocol.class_agnostic else (names, ids)
    images = read_images(protocol, detections, ground_truths, ids, box_format)
    # matched[k][a][i]: class, area range, image; the order in which pycocotools keeps evalImgs.
    matched = [
        [
            [evaluate_image(i.detections[k], i.ground_truths[k], area, protocol) for i in images]
            for area in protocol.area_ranges
        ]
        for k in range(len(names))
    ]
    common = {"protocol": protocol, "class_names": names, **counts_of(images, matched)}
    if protocol.interpolation == "recall_grid":
        return coco_result(matched, protocol, common)
    return voc_result([by_area[headline_of(protocol)] for by_area in matched], protocol, common)


def headline_of(rules: DetectionProtocol) -> int:
    """Index of the area range that means over classes and counts are about."""
    return [area.name for area in rules.area_ranges].index(rules.headline_area)


def counts_of(images: Sequence[Any], matched: list[list[list[ImageOutcome]]]) -> dict[str, Any]:
    """How much was evaluated; detections beyond the largest limit are not.

    Args:
        images: of the data set.
        matched: [K][A][images].
    """
    by_class = [sum(len(i.detections) for i in by_area[0]) for by_area in matched]
    return {
        "num_images": len(images),
        "num_detections": sum(by_class),
        "num_detections_by_class": as_tensor(np.array(by_class, dtype=np.int64)),
    }


def collect(
    images: list[ImageOutcome], t: int, limit: int | None
) -> tuple[list[float], list[int], int]:
    """Scores and outcomes of all images by falling score, and the number of objects that count.

    Source: cocoeval.py COCOeval.accumulate, up to npig; VOCevaldet.m, sort(-confidence).
    """
    rows = [
        row
        for image in images
        for row in zip(image.detections[:limit], image.outcomes[t][:limit], strict=True)
    ]
    rows = by_score(rows, key=lambda row: row[0])
    num_positives = sum(image.num_positives for image in images)
    return [row[0].score for row in rows], [row[1] for row in rows], num_positives


def voc_curve(
    outcomes: list[int], num_positives: int, epsilon: float
) -> tuple[list[float], list[float]]:
    """Recall and precision after each detection; NaN where the quotient is 0/0.

    Source: VOCevaldet.m, rec = tp / npos and prec = tp ./ (fp + tp); cocoeval.py, rc and pr.
    """
    recall, precision = [], []
    tp, fp = 0, 0
    for outcome in outcomes:
        tp += outcome == TRUE_POSITIVE
        fp += outcome == FALSE_POSITIVE
        recall.append(quotient(tp, num_positives))
        precision.append(quotient(tp, fp + tp + epsilon))
    return recall, precision


def eleven_point_ap(recall: list[float], precision: list[float], levels: Sequence[float]) -> float:
    """Mean over the recall levels of the largest precision at that recall or beyond.

    Source: VOCpr.m and VOCevaldet.m (2007-2009): p = max(prec(rec >= t)), ap = ap + p / 11.
    """
    ap = 0.0
    for level in levels:
        reached = [p for r, p in zip(recall, precision, strict=True) if r >= level]
        ap = ap + (matlab_max(reached) if reached else 0.0) / len(levels)
    return ap


def all_points_ap(recall: list[float], precision: list[float]) -> float:
    """Area under the precision made monotone from the right.

    Source: VOCap.m: mrec = [0; rec; 1], mpre = [0; prec; 0], the sum over the steps of mrec; NaN
    differs from everything and so counts as a step.
    """
    mrec = [0.0, *recall, 1.0]
    mpre = [0.0, *precision, 0.0]
    for i in range(len(mpre) - 2, -1, -1):
        mpre[i] = matlab_max([mpre[i], mpre[i + 1]])
    ap = 0.0
    for i in range(1, len(mrec)):
        if mrec[i] != mrec[i - 1]:
            ap = ap + (mrec[i] - mrec[i - 1]) * mpre[i]
    return ap


def voc_result(
    matched: list[list[ImageOutcome]], rules: DetectionProtocol, common: dict[str, Any]
) -> VocDetectionResult:
    """Curves and average precision of every class in the headline area range, at no smaller limit.

    Args:
        matched: [K][images].
        rules: the protocol.
        common: the fields that do not depend on the interpolation.

    Source: VOCevaldet.m after the loop. The mean over classes is the protocol's own choice.
    """
    T, K = len(rules.thresholds), len(matched)
    by_threshold = np.full((T, K), math.nan)
    counts = np.zeros((2, T, K), dtype=np.int64)
    num_positives = [sum(image.num_positives for image in images) for images in matched]
    curves = []
    for t in range(T):
        row = []
        for k, images in enumerate(matched):
            scores, outcomes, positives = collect(images, t, None)
            recall, precision = voc_curve(outcomes, positives, rules.precision_epsilon)
            if not common["num_images"]:
                pass  # without any image nothing is defined
            elif rules.interpolation == "eleven_point":
                by_threshold[t, k] = eleven_point_ap(recall, precision, rules.recall_levels)
            else:
                by_threshold[t, k] = all_points_ap(recall, precision)
            counts[:, t, k] = outcomes.count(TRUE_POSITIVE), outcomes.count(FALSE_POSITIVE)
            row.append(PrecisionRecallCurve(*map(float64, (recall, precision, scores))))
        curves.append(tuple(row))
    average_precision = [mean_in_sequence(column) for column in by_threshold.T.tolist()]
    mean, classes = mean_over_classes(average_precision, num_positives, rules)
    return VocDetectionResult(
        **common,
        mean_average_precision=mean,
        num_classes_averaged=classes,
        average_precision=float64(average_precision),
        average_precision_by_threshold=as_tensor(by_threshold),
        curves=tuple(curves),
        num_positives=as_tensor(np.array(num_positives, dtype=np.int64)),
        true_positives=as_tensor(counts[0]),
        false_positives=as_tensor(counts[1]),
    )


def mean_over_classes(
    average_precision: list[float], num_positives: list[int], rules: DetectionProtocol
) -> tuple[float, int]:
    """Mean of the classes that the protocol takes, and how many those are."""
    if rules.mean_over == "classes_with_positives":
        pairs = zip(average_precision, num_positives, strict=True)
        chosen = [value for value, positives in pairs if positives > 0]
    else:
        chosen = [value for value in average_precision if not math.isnan(value)]
    # numpy.mean, as the Python tools take that published means over VOC classes.
    return (float(np.mean(chosen)) if chosen else math.nan), len(chosen)


def coco_accumulate(
    scores: list[float], outcomes: list[int], num_positives: int, rules: DetectionProtocol
) -> tuple[float, list[float], list[float]]:
    """Read off the largest recall, and precision and score at each level; 0 where not reached.

    Source: cocoeval.py COCOeval.accumulate, the loop over t.
    """
    rc, pr = voc_curve(outcomes, num_positives, rules.precision_epsilon)
    for i in range(len(pr) - 1, 0, -1):
        if pr[i] > pr[i - 1]:  # noqa: PLR1730 - as written there: NaN is never larger
            pr[i - 1] = pr[i]
    precision, score = [0.0] * len(rules.recall_levels), [0.0] * len(rules.recall_levels)
    for r, level in enumerate(rules.recall_levels):
        first = bisect.bisect_left(rc, level)
        if first < len(rc):
            precision[r], score[r] = pr[first], scores[first]
    return rc[-1] if rc else 0.0, precision, score


def coco_result(
    matched: list[list[list[ImageOutcome]]], rules: DetectionProtocol, common: dict[str, Any]
) -> CocoDetectionResult:
    """Fill the arrays of pycocotools, NaN where they hold -1 since no object counts.

    Args:
        matched: [K][A][images].
        rules: the protocol.
        common: the fields that do not depend on the interpolation.

    Source: cocoeval.py COCOeval.accumulate and summarize.
    """
    limits, headline = rules.max_detections or (None,), headline_of(rules)
    T, K, A, M = len(rules.thresholds), len(matched), len(rules.area_ranges), len(limits)
    precision = np.full((T, len(rules.recall_levels), K, A, M), math.nan)
    scores, recall = precision.copy(), np.full((T, K, A, M), math.nan)
    counts = np.zeros((2, T, K), dtype=np.int64)
    num_positives = np.zeros((A, K), dtype=np.int64)
    for t, k, a, m in itertools.product(range(T), range(K), range(A), range(M)):
        ranked, outcomes, positives = collect(matched[k][a], t, limits[m])
        num_positives[a, k] = positives
        if a == headline and m == M - 1:
            counts[:, t, k] = outcomes.count(TRUE_POSITIVE), outcomes.count(FALSE_POSITIVE)
        if positives > 0:
            reached, at_levels, levels = coco_accumulate(ranked, outcomes, positives, rules)
            recall[t, k, a, m] = reached
            precision[t, :, k, a, m], scores[t, :, k, a, m] = at_levels, levels
    shown = precision[..., headline, -1]
    positives = num_positives[headline]
    average_precision = [mean_of_entries(shown[..., k]) for k in range(K)]
    mean, classes = mean_over_classes(average_precision, positives.tolist(), rules)
    if rules.mean_over == "defined_values":
        # summarize takes the mean of all entries at once, which rounds otherwise.
        mean, classes = mean_of_entries(shown), int((positives > 0).sum())
    largest = [precision[..., a, -1] for a in range(A)]
    return CocoDetectionResult(
        **common,
        average_precision_by_area=float64([mean_of_entries(one) for one in largest]),
        mean_precision_by_area=float64(
            [[mean_of_entries(one[t]) for t in range(T)] for one in largest]
        ),
        mean_average_precision=mean,
        num_classes_averaged=classes,
        average_precision=float64(average_precision),
        precision=as_tensor(precision),
        recall=as_tensor(recall),
        scores=as_tensor(scores),
        num_positives=as_tensor(positives),
        num_positives_by_area=as_tensor(num_positives),
        true_positives=as_tensor(counts[0]),
        false_positives=as_tensor(counts[1]),
    )
