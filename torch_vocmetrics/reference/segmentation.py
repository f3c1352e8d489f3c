"""Segmentation as the official code computes it: pixels counted one by one, sums in its order.

Each function is one step of the official code and names it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import InputError
from ..protocols import SegmentationProtocol, load_dataset, load_protocol
from ..results import SegmentationResult, as_tensor
from .arithmetic import float64, mean_in_sequence, quotient
from .reading import whole

VOID = "void"


def evaluate_segmentation(
    protocol: str | SegmentationProtocol,
    predictions: Sequence[Any],
    targets: Sequence[Any],
    *,
    num_classes: int | None = None,
    class_names: Sequence[str] | None = None,
    label_ids: Sequence[int] | None = None,
) -> SegmentationResult:
    """Evaluate label maps of a whole data set at once, by plain loops.

    Args:
        protocol: ``"voc2012"``, ``"segmentation/voc2012"``, the path of a TOML file, or a protocol.
        predictions: per image [H, W] labels.
        targets: per image [H, W] labels.
        num_classes, class_names, label_ids: K, K names, K labels; by default those of the
            protocol's data set, or names "0", "1", ... and labels 0 .. K - 1.

    Raises:
        InputError: for a label that no class and no void label has, or images of different sizes.

    Source:
        VOCcode/VOCevalseg.m (2007; 2008-2012), cityscapesscripts 2.3.0
        evaluation/evalPixelLevelSemanticLabeling.py.

    Example:
        >>> evaluate_segmentation("voc2012", [[[0, 1]]], [[[0, 1]]], num_classes=2).headline
        1.0
    """
    protocol = load_protocol(protocol, SegmentationProtocol)
    names, labels, categories = classes_of(protocol, num_classes, class_names, label_ids)
    if len(predictions) != len(targets):
        raise InputError("as many images are needed on both sides", where="evaluate_segmentation")
    index: dict[int, int | str] = {label: k for k, label in enumerate(labels)}
    confusion = [[0] * len(names) for _ in names]
    missed = [0] * len(names)
    for number, (predicted, true) in enumerate(zip(predictions, targets, strict=True)):
        for (t, p), pixels in count_image(predicted, true, index, protocol, number).items():
            if t == VOID:
                continue
            if p == VOID:
                missed[t] += pixels
            else:
                confusion[t][p] += pixels
    return summarize(protocol, confusion, missed, names, categories, len(targets))


def classes_of(
    protocol: SegmentationProtocol,
    num_classes: int | None,
    class_names: Sequence[str] | None,
    label_ids: Sequence[int] | None,
) -> tuple[tuple[str, ...], tuple[int, ...], tuple[str, ...]]:
    """Names, labels and categories of the classes."""
    dataset = load_dataset(protocol.dataset)
    counts = {len(given) for given in (class_names, label_ids) if given is not None}
    counts |= set() if num_classes is None else {whole(num_classes, "num_classes")}
    if len(counts) > 1:
        raise InputError("num_classes, class_names and label_ids must agree", got=sorted(counts))
    K = counts.pop() if counts else len(dataset.class_names)
    given = None if label_ids is None else tuple(whole(one, "label_ids") for one in label_ids)
    if class_names is None and len(dataset.class_names) == K:
        return dataset.class_names, given or dataset.label_ids, dataset.category_names
    names = tuple(str(k) for k in range(K)) if class_names is None else tuple(class_names)
    known = names == dataset.class_names
    default = dataset.label_ids if known else tuple(range(K))
    return names, given or default, dataset.category_names if known else ()


def count_image(
    predicted: Any,
    true: Any,
    index: dict[int, int | str],
    rules: SegmentationProtocol,
    number: int,
) -> Counter[tuple[Any, Any]]:
    """Count the pixels of each pair of classes; either may be void.

    Source: VOCevalseg.m: the checks of size and of result labels, then hs = histc(sumim(locs));
    addToConfusionMatrix.pyx of the Cityscapes scripts.
    """
    there, found = np.asarray(true), np.asarray(predicted)
    if there.shape != found.shape:
        raise InputError("wrong size", where=f"image {number}", got=(found.shape, there.shape))
    for label in set(found.ravel().tolist()):
        allowed = rules.void_predictions == "miss" and label in rules.void_labels
        if label not in index and not allowed:
            raise InputError("label out of range", where=f"prediction {number}", got=label)
    counts: Counter[tuple[Any, Any]] = Counter()
    for (t, p), pixels in Counter(
        zip(there.ravel().tolist(), found.ravel().tolist(), strict=True)
    ).items():
        if t not in index and t not in rules.void_labels:
            raise InputError("label out of range", where=f"target {number}", got=t)
        counts[index.get(t, VOID), index.get(p, VOID)] += pixels
    return counts


def summarize(
    rules: SegmentationProtocol,
    confusion: list[list[int]],
    missed: list[int],
    names: tuple[str, ...],
    categories: tuple[str, ...],
    num_images: int,
) -> SegmentationResult:
    """Compute every measure of a confusion matrix.

    Source: VOCevalseg.m, accuracies and avacc; evalPixelLevelSemanticLabeling.py,
    getIouScoreForLabel, getIouScoreForCategory and getScoreAverage.
    """
    K = len(names)
    iou, precision, recall = [], [], []
    for k in range(K):
        hits = confusion[k][k]
        true = sum(confusion[k]) + missed[k]
        predicted = sum(confusion[t][k] for t in range(K))
        iou.append(measure(hits, true + predicted - hits, rules))
        precision.append(measure(hits, predicted, rules))
        recall.append(measure(hits, true, rules))
    true_pixels = [sum(confusion[k]) + missed[k] for k in range(K)]
    total = sum(true_pixels)
    weighted = 0.0
    for pixels, value in zip(true_pixels, iou, strict=True):
        if pixels:
            weighted += pixels * value
    groups = list(dict.fromkeys(categories))
    by_category = [category_iou(g, categories, confusion, missed, rules) for g in groups]
    measured = recall if rules.class_measure == "pixel_recall" else iou
    return SegmentationResult(
        protocol=rules,
        class_names=names,
        confusion_matrix=as_tensor(np.array(confusion, dtype=np.int64)),
        missed=as_tensor(np.array(missed, dtype=np.int64)),
        iou=float64(iou),
        pixel_precision=float64(precision),
        pixel_recall=float64(recall),
        mean_iou=mean_in_sequence(taken(iou, rules)),
        mean_accuracy=mean_in_sequence(taken(recall, rules)),
        num_classes_averaged=len(taken(measured, rules)),
        pixel_accuracy=quotient(sum(confusion[k][k] for k in range(K)), total),
        frequency_weighted_iou=quotient(weighted, total),
        category_names=tuple(groups),
        category_iou=float64(by_category),
        mean_category_iou=mean_in_sequence(taken(by_category, rules)),
        num_images=num_images,
    )


def measure(hits: int, pixels: int, rules: SegmentationProtocol) -> float:
    """Divide; the protocol says what 0/0 is.

    Source: VOCevalseg.m 2007 (if rowsum > 0), 2008 (0/0 is NaN).
    """
    if pixels:
        return hits / pixels
    return 0.0 if rules.undefined_class == "zero" else math.nan


def category_iou(
    category: str,
    of_class: tuple[str, ...],
    confusion: list[list[int]],
    missed: list[int],
    rules: SegmentationProtocol,
) -> float:
    """IoU of a category: confusions inside it are hits.

    Source: evalPixelLevelSemanticLabeling.py getIouScoreForCategory.
    """
    inside = [k for k, one in enumerate(of_class) if one == category]
    outside = [k for k, one in enumerate(of_class) if one != category]
    tp = sum(confusion[t][p] for t in inside for p in inside)
    fn = sum(sum(confusion[t]) + missed[t] for t in inside) - tp
    fp = sum(confusion[t][p] for t in outside for p in inside)
    return measure(tp, tp + fp + fn, rules)


def taken(values: list[float], rules: SegmentationProtocol) -> list[float]:
    """Choose the values that the protocol averages."""
    if rules.mean_over == "all_classes":
        return values
    return [value for value in values if not math.isnan(value)]
