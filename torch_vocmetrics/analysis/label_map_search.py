"""Which protocol, or which known deviation, gives a mean IoU that was read elsewhere.

The counts of every image are kept, so that each deviation is a sum and a quotient: all of them are
tried, those that change the images with those that change the measure and the classes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..curves.pixel_result import segmentation_result
from ..errors import InputError
from ..metrics.segmentation import MeanIoU
from ..protocols import SegmentationProtocol, load_protocol, protocol_title
from .audit_result import Audit, Candidate, Reported, explanations
from .source import distinct_of

USUAL_SEGMENTATION = ("voc2012_present_classes", "voc2012", "voc2007")

_RANKS = (2, 3, 4, 6, 8, 16)


class _Counts(NamedTuple):
    """Pixels of I images by truth and prediction, [I, K, K + 1]; the last column is void."""

    of_image: Tensor

    @property
    def iou(self) -> Tensor:
        """[I, K] float64: intersection over union, NaN where a class is in neither map."""
        return _iou(self.of_image)

    @property
    def whole(self) -> Tensor:
        """[K, K + 1]: the sum over the images."""
        return self.of_image.sum(dim=0)

    @property
    def there(self) -> Tensor:
        """[I, K] bool: classes of each ground truth."""
        return self.of_image.sum(dim=2) > 0


def _iou(counts: Tensor) -> Tensor:
    """[..., K] float64 of counts [..., K, K + 1], NaN for 0/0."""
    square = counts[..., :-1]
    hits = square.diagonal(dim1=-2, dim2=-1)
    return hits / (counts.sum(dim=-1) + square.sum(dim=-2) - hits).double()


def _mean(values: Tensor) -> float:
    return float(values.nanmean())


Measure = Callable[[_Counts, slice], float]


def _over_images(absent: float, truth_only: bool) -> Measure:
    """The mean over images of the mean over their classes."""

    def measure(counts: _Counts, classes: slice) -> float:
        iou = counts.iou
        if truth_only:
            iou = torch.where(counts.there, iou, math.nan)
        if not math.isnan(absent):
            iou = iou.nan_to_num(absent)
        return _mean(iou[:, classes].nanmean(dim=1))

    return measure


def _per_class_over_images(counts: _Counts, classes: slice) -> float:
    return _mean(counts.iou.nanmean(dim=0)[classes])


def _with_missing(value: float) -> Measure:
    """The mean over classes, with a value for those that never occur."""
    return lambda counts, classes: _mean(_iou(counts.whole).nan_to_num(value)[classes])


def _present(counts: _Counts, classes: slice) -> float:
    return _mean(_iou(counts.whole)[classes])


def _pixel_accuracy(counts: _Counts, classes: slice) -> float:
    whole = counts.whole[classes]
    return float(counts.whole.diagonal()[classes].sum()) / max(float(whole.sum()), 1.0)


def _mean_accuracy(counts: _Counts, classes: slice) -> float:
    whole = counts.whole
    return _mean((whole.diagonal() / whole.sum(dim=1).double())[classes])


def _frequency_weighted(counts: _Counts, classes: slice) -> float:
    weights = counts.whole.sum(dim=1).double()[classes]
    return float((weights * _iou(counts.whole)[classes].nan_to_num(0.0)).sum() / weights.sum())


def _classes_as_one(counts: _Counts, classes: slice) -> float:
    square = counts.whole[:, :-1]
    hits = float(square.diagonal()[classes].sum())
    union = float(counts.whole.sum(dim=1)[classes].sum() + square.sum(dim=0)[classes].sum()) - hits
    return hits / union if union else math.nan


MEASURES: dict[str, Measure] = {
    "mean over images of the IoU of their classes": _over_images(math.nan, False),
    "mean over images of the IoU of the classes of their ground truth": _over_images(
        math.nan, True
    ),
    "mean over images of the IoU of all classes, absent ones 0": _over_images(0.0, False),
    "mean over images of the IoU of all classes, absent ones 1": _over_images(1.0, False),
    "for every class the mean over images, then over classes": _per_class_over_images,
    "missing classes left out of the mean": _present,
    "missing classes count as 0": _with_missing(0.0),
    "missing classes count as 1": _with_missing(1.0),
    "share of pixels that are right": _pixel_accuracy,
    "mean over classes of the share of their pixels": _mean_accuracy,
    "IoU weighted by the pixels of each class": _frequency_weighted,
    "IoU of all classes taken together": _classes_as_one,
}
"""What is computed in place of the protocol's headline; classes are chosen by a slice."""

WITHOUT_FIRST = "the first class (background) left out of the mean"
VOID_COUNTS = "void pixels count as the first class"


def audit_label_maps(
    predictions: Sequence[Any],
    targets: Sequence[Any],
    reported: str | float,
    *,
    class_names: Sequence[str] | None = None,
    num_classes: int | None = None,
    label_ids: Sequence[int] | None = None,
    protocols: Sequence[str | SegmentationProtocol] = USUAL_SEGMENTATION,
    most_deviations: int = 2,
) -> Audit:
    """Find the protocol or the known deviations that give a mean IoU which was read elsewhere.

    Args:
        predictions, targets: a label map [H, W] for each image, as
            :class:`~torch_vocmetrics.MeanIoU` takes them.
        reported: the number, best as a string with all its digits; above 1 it is percent.
        class_names, num_classes, label_ids: as for :class:`MeanIoU`.
        protocols: to begin with.
        most_deviations: 0, 1 or 2 at a time.

    Raises:
        InputError: if ``reported`` is no number, or the maps cannot be evaluated.

    Example:
        >>> truth, found = torch.tensor([[0, 0, 1, 1]]), torch.tensor([[0, 1, 1, 1]])
        >>> print(audit_label_maps([found], [truth], "0.75", num_classes=2))
        0.75 is, to 2 decimals:
        mIoU of segmentation/voc2007 = 0.750000
    """
    wanted = Reported.parse(reported)
    if most_deviations not in (0, 1, 2):
        raise InputError("must be 0, 1 or 2", where="most_deviations", got=most_deviations)
    classes = {"class_names": class_names, "num_classes": num_classes, "label_ids": label_ids}
    found: list[Candidate] = []
    counted = set()
    for one in protocols:
        protocol = load_protocol(one, SegmentationProtocol)
        metric = MeanIoU(protocol, **classes)  # type: ignore[arg-type]
        images = _images(metric, predictions, targets)
        # Measures of their own depend on no other rules than those of what is counted.
        rules = protocol.void_labels, protocol.void_predictions
        measures = {} if rules in counted else MEASURES
        counted.add(rules)
        for names, value in _values(metric, images, measures):
            if len(names) <= most_deviations and not math.isnan(value):
                title, digits = protocol_title(protocol), wanted.digits_of(value)
                candidate = Candidate(
                    protocol=title, deviations=names, number="mIoU", value=value, digits=digits
                )
                found.append(candidate)
    explained = explanations(wanted, found)
    if explained:  # what has more deviations than an explanation was tried in vain
        found = [one for one in found if len(one.deviations) <= len(explained[0].deviations)]
    return Audit.of(wanted, found)


def _images(
    metric: MeanIoU, predictions: Sequence[Any], targets: Sequence[Any]
) -> dict[tuple[str, ...], _Counts]:
    """The counts of the images as they are, and with each deviation of images."""
    classes = {"class_names": metric.class_names, "label_ids": metric.label_ids}
    maps = [_without_void(one, metric) for one in targets]
    plain = _counts(metric, predictions, targets)
    counts: dict[tuple[str, ...], _Counts] = {(): plain}
    for ranks in _RANKS:
        if len(plain.of_image) % ranks:
            name = f"first images repeated by a sampler of {ranks} processes"
            counts[name,] = _padded(plain, ranks)
    if metric.protocol.void_labels:
        counts[VOID_COUNTS,] = _counts(MeanIoU(metric.protocol, **classes), predictions, maps)  # type: ignore[arg-type]
    return counts


def _values(
    metric: MeanIoU, images: dict[tuple[str, ...], _Counts], known: dict[str, Measure]
) -> Iterator[tuple[tuple[str, ...], float]]:
    """The names of the deviations and the number, for all combinations."""
    measures: dict[tuple[str, ...], Measure | None] = {(): None}
    measures |= {(name,): measure for name, measure in known.items()}
    starts: dict[tuple[str, ...], int] = {(): 0, (WITHOUT_FIRST,): 1}
    for of_images, of_measure, of_classes in itertools.product(images, measures, starts):
        counts, measure, first = images[of_images], measures[of_measure], starts[of_classes]
        names = of_images + of_measure + of_classes
        if measure is None:
            yield names, _headline(metric, counts, first)
        else:
            yield names, measure(counts, slice(first, None))


def _headline(metric: MeanIoU, counts: _Counts, first: int) -> float:
    """The number of the protocol; over the classes from ``first`` on."""
    result = segmentation_result(
        metric.protocol, counts.whole.numpy(), metric.class_names, (), len(counts.of_image)
    )
    if not first:
        return result.headline
    rules = metric.protocol
    values = result.pixel_recall if rules.class_measure == "pixel_recall" else result.iou
    kept = values[first:]
    return float(kept.mean()) if rules.mean_over == "all_classes" else _mean(kept)


def _counts(metric: MeanIoU, predictions: Sequence[Any], targets: Sequence[Any]) -> _Counts:
    """The counts of every image."""
    table = distinct_of(metric.update(list(predictions), list(targets)))
    K = len(metric.class_names)
    dense = torch.zeros((table.num_images, K * (K + 1)), dtype=torch.int64, device="cpu")
    dense[table.image.cpu().long(), table.cell.cpu().long()] = table.count.cpu()
    return _Counts(dense.reshape(-1, K, K + 1))


def _padded(counts: _Counts, ranks: int) -> _Counts:
    """With the first images once more, until their number is a multiple of the ranks."""
    number = len(counts.of_image)
    rows = [*range(number), *(row % number for row in range(-number % ranks))]
    return _Counts(counts.of_image[rows])


def _without_void(target: Any, metric: MeanIoU) -> Tensor:
    """A label map whose void pixels have the label of the first class."""
    labels = torch.as_tensor(target)
    void = torch.tensor(metric.protocol.void_labels, dtype=labels.dtype, device=labels.device)
    return torch.where(torch.isin(labels, void), metric.label_ids[0], labels)
