"""Miss rate against false positives per image as the official code computes it, by plain loops.

Each function is one step of the official code and names it. Which rules it follows is read off the
fields of the protocol and never off its name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..protocols import MissRateProtocol, Subset, load_protocol
from ..results import CrowdMissRateResult, MissRateCurve, MissRateResult, as_tensor
from .arithmetic import below, float64, matlab_max, mean_in_sequence, quotient
from .jaccard import jaccard_counts, jaccard_index
from .pedestrians import Pedestrian, Picture, Rect, read_pictures
from .reading import read_classes

TRUE_POSITIVE, FALSE_POSITIVE = 1, 0


class Scored(NamedTuple):
    """A detection that is not ignored."""

    score: float
    order: int
    outcome: int


def evaluate(
    protocol: str | MissRateProtocol,
    detections: Sequence[Mapping[str, Any]],
    ground_truths: Sequence[Mapping[str, Any]],
    *,
    num_classes: int | None = None,
    class_names: Sequence[str] | None = None,
    label_ids: Sequence[int] | None = None,
    box_format: str = "xyxy",
) -> MissRateResult:
    """Evaluate detections of a whole data set at once, by plain loops.

    Args:
        protocol: ``"caltech2012"``, the path of a TOML file, or a protocol.
        detections: per image ``boxes`` [N, 4], ``scores`` [N], ``labels`` [N]; maybe ``order`` [N].
        ground_truths: per image ``boxes`` [M, 4], ``labels`` [M]; where given ``ignore``,
            ``visibility``, ``occlusion`` [M], ``visible_boxes`` [M, 4], ``image_id``,
            ``image_size``.
        num_classes, class_names, label_ids: one class; its label is 0 unless ``label_ids`` says
            otherwise.
        box_format: "xyxy", "xywh" or "cxcywh".

    Returns:
        CrowdMissRateResult where the protocol has score limits for the Jaccard index.

    Raises:
        InputError: for inputs that do not fit together, an unknown label or a repeated image id.

    Source:
        toolbox bbGt.m evalRes and compRoc, acfTest.m; Caltech dbEval.m; CityPersons
        eval_MR_multisetup.py; CrowdDet lib/evaluate.
    """
    protocol = load_protocol(protocol, MissRateProtocol)
    _, ids = read_classes(num_classes, class_names, label_ids or [0])
    pictures = read_pictures(protocol, detections, ground_truths, ids, box_format)
    return result_of(pictures, protocol)


def result_of(pictures: list[Picture], protocol: MissRateProtocol) -> MissRateResult:
    """Evaluate every subset, and the Jaccard index where the protocol has one."""
    per_subset = [evaluate_subset(pictures, subset, protocol) for subset in protocol.subsets]
    common: dict[str, Any] = {
        key: [one[key] for one in per_subset] for key in ("log_average_miss_rate", "mean_precision")
    }
    common = {key: float64(values) for key, values in common.items()}
    for key in ("num_positives", "true_positives", "false_positives", "num_images_of_subset"):
        common[key] = as_tensor(np.array([one[key] for one in per_subset], dtype=np.int64))
    common |= {
        "protocol": protocol,
        "miss_rate": as_tensor(np.array([one["miss_rate"] for one in per_subset], dtype=float)),
        "curves": tuple(one["curve"] for one in per_subset),
        "num_images": len(pictures),
        "num_detections": sum(len(cut(picture, protocol)) for picture in pictures),
    }
    if not protocol.jaccard_scores:
        return MissRateResult(**common)
    counts = [
        jaccard_counts(picture._replace(detections=cut(picture, protocol)), protocol)
        for picture in pictures
    ]
    by_score = jaccard_index(counts, protocol)
    levels = len(protocol.jaccard_scores)
    return CrowdMissRateResult(
        **common,
        average_precision=per_subset[0]["average_precision"],
        jaccard_index=matlab_max(by_score),
        jaccard_by_score=float64(by_score),
        jaccard_counts=as_tensor(np.array(counts, dtype=np.int32).reshape(-1, levels, 3)),
    )


def cut(picture: Picture, rules: MissRateProtocol) -> list[Any]:
    """Take the best detections of an image, as many as the protocol allows.

    Source: eval_MR_multisetup.py evaluateImg, the sort by score and maxDets; KAIST
    evaluation_script.py evaluateImg, ``self.ious[imgId, catId][dtind, :]``, whose rows computeIoU
    has sorted by score already.
    """
    listed = sorted(picture.detections, key=lambda d: d.order)
    dtind = sorted(range(len(listed)), key=lambda i: -listed[i].score)
    ranked = [listed[i] for i in dtind]
    if rules.ranked_boxes == "permuted_twice":
        ranked = [d._replace(box=ranked[i].box) for d, i in zip(ranked, dtind, strict=True)]
    return ranked[: rules.max_detections[0]] if rules.max_detections else ranked


def counts(one: Pedestrian, subset: Subset, rules: MissRateProtocol) -> bool:
    """Whether an object counts in a subset; all others are ignore regions.

    Source: dbEval.m, the filter of loadGt; eval_MR_multisetup.py _prepare.
    """
    box = one.box
    lower, upper = subset.height
    high = box.height < upper if rules.height_interval == "half_open" else box.height <= upper
    if one.ignored or not (box.height >= lower and high):
        return False
    if not subset.visibility[0] <= one.visibility <= subset.visibility[1]:
        return False
    if subset.occlusion and one.occlusion not in subset.occlusion:
        return False
    if subset.aspect_ratio:
        away = abs(quotient(box.width, box.height) - rules.standard_aspect_ratio)
        if not math.copysign(1, subset.aspect_ratio) * away < subset.aspect_ratio:
            return False
    if rules.bounds:
        left, top, right, bottom = rules.bounds
        return box.x1 >= left and box.y1 >= top and box.x2 <= right and box.y2 <= bottom
    return True


def kept(box: Rect, subset: Subset, rules: MissRateProtocol, expansion: float) -> bool:
    """Whether a detection lies in the range of heights, expanded by a factor.

    Source: dbEval.m evalAlgs, ``hr.*[1/filter filter]``; eval_MR_multisetup.py evaluateImg,
    ``hRng[0] / expFilter``.
    """
    lower, upper = subset.height
    product = rules.least_height == "product"
    least = lower * (1 / expansion) if product else lower / expansion
    return least <= box.height < upper * expansion


def overlap(detection: Rect, other: Rect, rules: MissRateProtocol, *, of_detection: bool) -> float:
    """Intersection over union, or over the detection's area; 0 where the boxes do not meet.

    Source: bbGt.m compOas; box_overlap_opr of CrowdDet adds an epsilon to the denominator.
    """
    width = min(detection.x2, other.x2) - max(detection.x1, other.x1)
    height = min(detection.y2, other.y2) - max(detection.y1, other.y1)
    if width <= 0 or height <= 0:
        return 0.0
    shared = width * height
    base = detection.area if of_detection else detection.area + other.area - shared
    return quotient(shared, base + rules.overlap_epsilon)


def match_picture(
    picture: Picture, subset: Subset, rules: MissRateProtocol
) -> tuple[list[Scored], int]:
    """Match one image: the detections that are not ignored, and how many objects count.

    Source: bbGt.m evalRes; the same loops in eval_MR_multisetup.py and CrowdDet's image.py.
    """
    objects = [(one, counts(one, subset, rules)) for one in picture.objects]
    if rules.undetected_images == "drop_objects" and not picture.detections:
        objects = [(one, False) for one, _ in objects]
    objects.sort(key=lambda pair: not pair[1])
    taken = [False] * len(objects)
    outcomes = []
    for d in cut(picture, rules):
        early = rules.detection_filter == "before_matching"
        if early and not kept(d.box, subset, rules, subset.filter_expansion):
            continue
        best, match = subset.iou_threshold, -1
        for g, (one, counted) in enumerate(objects):
            if taken[g] and rules.used_objects == "next_best":
                continue
            if match >= 0 and not counted:
                break
            shape = one.standard if counted else one.region
            value = overlap(d.box, shape, rules, of_detection=not counted)
            strict = rules.equal_overlaps == "first" if match >= 0 else rules.comparison == ">"
            if not below(value, best, strict=strict):
                best, match = value, g
        if match < 0:
            late = rules.detection_filter == "after_matching"
            if not (late and not kept(d.box, subset, rules, 1.0)):
                outcomes.append(Scored(d.score, d.order, FALSE_POSITIVE))
        elif objects[match][1]:
            if not taken[match]:
                outcomes.append(Scored(d.score, d.order, TRUE_POSITIVE))
            taken[match] = True
    return outcomes, sum(counted for _, counted in objects)


def evaluate_subset(
    pictures: list[Picture], subset: Subset, rules: MissRateProtocol
) -> dict[str, Any]:
    """Everything that the result says of one subset."""
    count = len(pictures)
    indices = [i for first, end in subset.images for i in range(first, min(end, count))]
    chosen = [pictures[i] for i in sorted(indices)] if subset.images else pictures
    if subset.images and rules.num_images not in (0, count):
        chosen = []
    matched = [match_picture(picture, subset, rules) for picture in chosen]
    rows = [row for outcomes, _ in matched for row in outcomes]
    rows.sort(key=lambda row: (-row.score, row.order))
    positives = sum(number for _, number in matched)
    fppi, recall, precision = curve_of(rows, positives, len(chosen), rules)
    levels = rules.fppi_of(subset)
    missed = [1 - read_recall(fppi, recall, level, rules) for level in levels]
    undefined = rules.without_positives == "undefined" and positives == 0
    if undefined or not chosen:
        missed = [math.nan] * len(levels)
    found = sum(row.outcome for row in rows)
    return {
        "log_average_miss_rate": log_average(missed, rules),
        "miss_rate": missed,
        "mean_precision": mean_precision(recall, precision, rules) if chosen else math.nan,
        "average_precision": trapezoids(recall, precision) if positives else math.nan,
        "curve": MissRateCurve(
            float64(fppi), float64(recall), float64(precision), float64([r.score for r in rows])
        ),
        "num_positives": positives,
        "true_positives": found,
        "false_positives": len(rows) - found,
        "num_images_of_subset": len(chosen),
    }


def curve_of(
    rows: list[Scored], positives: int, num_images: int, rules: MissRateProtocol
) -> tuple[list[float], list[float], list[float]]:
    """False positives per image, recall and precision after each detection.

    Source: bbGt.m compRoc; compCurve of dbEval.m 3.0.0 divides by max(eps, positives).
    """
    fppi, recall, precision = [], [], []
    tp, fp = 0, 0
    for row in rows:
        tp += row.outcome == TRUE_POSITIVE
        fp += row.outcome == FALSE_POSITIVE
        fppi.append(fp / num_images)
        recall.append(quotient(tp, max(positives, rules.positives_floor)))
        precision.append(tp / (tp + fp))
    return fppi, recall, precision


def read_recall(
    fppi: list[float], recall: list[float], reference: float, rules: MissRateProtocol
) -> float:
    """Read the recall at a reference; NaN where the official code stops.

    Source: bbGt.m compRoc, a point (-inf, 0) before the curve; compCurve of dbEval.m 3.0.0, none;
    eval_MR_multisetup.py accumulate, where index -1 is the last; CrowdDet's database.py eval_MR,
    which takes the mean of nothing where no detection counts.
    """
    if not fppi:
        return math.nan if rules.curve_reading == "first_or_final" else 0.0
    if rules.curve_reading == "first_or_final":
        for x, y in zip(fppi, recall, strict=True):
            if x >= reference:
                return y
        return recall[-1]
    reached = [y for x, y in zip(fppi, recall, strict=True) if x <= reference]
    if reached:
        return reached[-1]
    return {"last_from_zero": 0.0, "last_or_final": recall[-1]}.get(rules.curve_reading, math.nan)


def log_average(missed: list[float], rules: MissRateProtocol) -> float:
    """Geometric mean of the miss rates, 0 if one of them is.

    Source: dbEval.m plotExps, no floor; acfTest.m, max(1e-10, miss), which turns NaN into 1e-10;
    eval_MR_multisetup.py summarize and CrowdDet's eval_MR take numpy.mean, which adds in pairs.
    """
    floor = rules.miss_rate_floor
    if floor:
        missed = [floor if math.isnan(value) else max(floor, value) for value in missed]
    # MATLAB and NumPy give -inf for log(0), where Python raises.
    logs = [math.log(value) if value != 0 else -math.inf for value in missed]
    mean = float(np.mean(logs)) if rules.sums == "numpy" else mean_in_sequence(logs)
    return math.exp(mean)


def mean_precision(recall: list[float], precision: list[float], rules: MissRateProtocol) -> float:
    """Mean over the recall levels of the precision where they are first reached, 0 where not.

    Source: bbGt.m compRoc with roc = 0; dbEval.m plotExps.
    """
    values = []
    for level in rules.recall_levels:
        reached = [p for r, p in zip(recall, precision, strict=True) if r >= level]
        values.append(reached[0] if reached else 0.0)
    return mean_in_sequence(values)


def trapezoids(recall: list[float], precision: list[float]) -> float:
    """Area between the points of the curve, which begins at the first detection.

    Source: CrowdDet lib/evaluate, database.py eval_AP.
    """
    area = 0.0
    for i in range(1, len(recall)):
        area += (recall[i] - recall[i - 1]) * ((precision[i - 1] + precision[i]) / 2)
    return area
