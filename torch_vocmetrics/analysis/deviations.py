"""Known ways in which evaluations of detections deviate from the rules of their protocol.

A deviation changes the rules, the images, or the way in which classes are averaged. Each is one
entry of a list; the audit tries them alone and in pairs.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..curves.averages import plain, running_sum
from ..protocols import DetectionProtocol
from ..results import DetectionResult, VocDetectionResult

Image = dict[str, Any]

_IMAGE_KEYS = ("image_id", "image_size")


class Images(NamedTuple):
    """What an evaluation is given.

    Attributes:
        predictions, targets: per image a dict of tensors on the CPU.
        box_format: of both sides.
    """

    predictions: tuple[Image, ...]
    targets: tuple[Image, ...]
    box_format: str

    def with_predictions(self, change: Callable[[Image], Image]) -> Images:
        """The same with other predictions."""
        return self._replace(predictions=tuple(map(change, self.predictions)))

    def with_targets(self, change: Callable[[Image], Image]) -> Images:
        """The same with other targets."""
        return self._replace(targets=tuple(map(change, self.targets)))

    def with_boxes(self, change: Callable[[Tensor], Tensor]) -> Images:
        """The same with other boxes on both sides."""
        changed = partial(_with, "boxes", change)
        return self.with_predictions(changed).with_targets(changed)

    def of(self, rows: Sequence[int]) -> Images:
        """The images at ``rows``; where some repeat, without ids, as copies would be dropped."""
        left_out = ("image_id",) if len(set(rows)) < len(rows) else ()
        predictions, targets = (
            tuple({k: v for k, v in side[row].items() if k not in left_out} for row in rows)
            for side in (self.predictions, self.targets)
        )
        return Images(predictions, targets, self.box_format)


@dataclass(frozen=True)
class Deviation:
    """One way to deviate; exactly one of the three functions is given.

    Attributes:
        name: a phrase that tells what is done.
        family: deviations of one family exclude each other.
        rules: from a protocol to another one; the same protocol if it has these rules already.
        images: from images to others, or None where it does not apply.
        mean: from a result to its headline.
    """

    name: str
    family: str
    rules: Callable[[DetectionProtocol], DetectionProtocol] | None = None
    images: Callable[[Images], Images | None] | None = None
    mean: Callable[[DetectionResult], float] | None = None


def deviations() -> tuple[Deviation, ...]:
    """All known deviations.

    Example:
        >>> sorted({deviation.family for deviation in deviations()})[:2]
        ['areas of objects', 'box clipping']
    """
    return (*_of_rules(), *_of_images(), *_of_means())


# Rules --------------------------------------------------------------------------------------------


def _of_rules() -> Iterator[Deviation]:
    def rule(name: str, family: str, **changes: Any) -> Deviation:
        return Deviation(name, family, rules=partial(_replaced, changes))

    yield rule("overlaps must exceed the threshold (> for >=)", "comparison", comparison=">")
    yield rule("overlaps equal to the threshold match (>= for >)", "comparison", comparison=">=")
    yield rule("box sizes without + 1", "coordinates", coordinates="continuous")
    yield rule("box sizes with + 1", "coordinates", coordinates="inclusive_pixels")
    yield rule("the second best object may be matched", "candidates", candidates="all")
    yield rule("only the best object may be matched", "candidates", candidates="best")
    yield Deviation("IoU thresholds in float32", "thresholds", rules=_float32_thresholds)
    for value in (0.3, 0.5, 0.6, 0.7, 0.75):
        yield rule(f"IoU threshold {value:g}", "thresholds", iou_thresholds=(value,))
    coco = tuple(np.linspace(0.5, 0.95, 10).tolist())
    yield rule("IoU thresholds 0.50:0.95", "thresholds", iou_thresholds=coco)
    every_tenth = tuple(i / 10 for i in range(11))
    grids = (
        ("average over 11 recall levels", "eleven_point", every_tenth),
        ("average over all points of recall", "all_points", ()),
        ("average over 101 recall levels", "recall_grid", tuple(np.linspace(0, 1, 101).tolist())),
    )
    for name, interpolation, levels in grids:
        epsilon = float(np.spacing(1)) if interpolation == "recall_grid" else 0.0
        yield rule(
            name,
            "interpolation",
            interpolation=interpolation,
            recall_levels=levels,
            precision_epsilon=epsilon,
        )
    for limit in (1, 10, 50, 100, 300, 500, 1000):
        yield Deviation(
            f"at most {limit} detections of an image and class",
            "max detections",
            rules=partial(_limited, (limit,)),
        )
    yield Deviation("any number of detections", "max detections", rules=partial(_limited, ()))
    for flag, name in (("difficult", "difficult objects"), ("iscrowd", "crowds")):
        yield Deviation(f"{name} count", flag, rules=partial(_counting, flag))


def _replaced(changes: Mapping[str, Any], protocol: DetectionProtocol) -> DetectionProtocol:
    if changes.get("comparison") == protocol.comparison:
        return protocol
    return dataclasses.replace(protocol, **changes)


def _float32_thresholds(protocol: DetectionProtocol) -> DetectionProtocol:
    thresholds = np.array(protocol.iou_thresholds, dtype=np.float32).astype(np.float64).tolist()
    levels = np.array(protocol.recall_levels, dtype=np.float32).astype(np.float64).tolist()
    return dataclasses.replace(protocol, iou_thresholds=thresholds, recall_levels=levels)


def _limited(limits: tuple[int, ...], protocol: DetectionProtocol) -> DetectionProtocol:
    return dataclasses.replace(protocol, max_detections=limits)


def _counting(flag: str, protocol: DetectionProtocol) -> DetectionProtocol:
    """Objects with the flag count as any other."""
    names = ("ignored_flags", "reusable_flags", "overlap_of_detection_area_flags")
    kept: dict[str, Any] = {
        name: tuple(one for one in getattr(protocol, name) if one != flag) for name in names
    }
    return dataclasses.replace(protocol, **kept)


# Images -------------------------------------------------------------------------------------------


def _of_images() -> Iterator[Deviation]:
    def images(name: str, family: str, change: Callable[[Images], Images | None]) -> Deviation:
        return Deviation(name, family, images=change)

    for digits in (1, 2, 3, 4, 5):
        change = partial(_scores, partial(torch.round, decimals=digits))
        yield images(f"scores rounded to {digits} decimals", "scores", change)
    yield images("scores in half precision", "scores", partial(_scores, _half))
    for limit in (0.001, 0.005, 0.01, 0.05, 0.1, 0.2, 0.25, 0.3, 0.5):
        name = f"detections with scores below {limit:g} left out"
        yield images(name, "score limit", partial(_scores_from, limit))
    yield images("boxes rounded to whole pixels", "box decimals", _boxes(torch.round))
    yield images("boxes cut to whole pixels", "box decimals", _boxes(torch.trunc))
    for digits in (1, 2):
        rounded = _boxes(partial(torch.round, decimals=digits))
        yield images(f"boxes rounded to {digits} decimals", "box decimals", rounded)
    yield images("boxes in half precision", "box decimals", _boxes(_half))
    yield images("boxes of both sides divided by the image size", "box scale", _normalised)
    for step in (-1.0, 1.0):
        name = f"predicted boxes moved by {step:+g} pixel in x and y"
        yield images(name, "box corners", partial(_moved, step))
        name = f"right and lower edges of predicted boxes moved by {step:+g} pixel"
        yield images(name, "box corners", partial(_stretched, step))
    yield images("predicted boxes clipped to the image", "box clipping", _clipped)
    for flag, name in (("difficult", "difficult objects"), ("iscrowd", "crowds")):
        yield images(f"{name} left out", flag, partial(_without_flag, flag))
    yield images("areas of objects taken from their boxes", "areas of objects", _box_areas)
    yield images("images without objects left out", "images", partial(_with_rows, "targets"))
    yield images("images without detections left out", "images", partial(_with_rows, "predictions"))
    for ranks in (2, 3, 4, 6, 8, 16):
        name = f"first images repeated by a sampler of {ranks} processes"
        yield images(name, "images", partial(_padded, ranks))
    yield images("ties of score by image, not by line of a file", "ties", _without_order)
    yield images("all classes as one", "labels", _one_class)


def _with(key: str, change: Callable[[Tensor], Tensor], image: Image) -> Image:
    return {**image, key: change(image[key])} if key in image else image


def _boxes(change: Callable[[Tensor], Tensor]) -> Callable[[Images], Images]:
    return lambda images: images.with_boxes(change)


def _scores(change: Callable[[Tensor], Tensor], images: Images) -> Images:
    return images.with_predictions(partial(_with, "scores", change))


def _half(values: Tensor) -> Tensor:
    return values.to(torch.float16).to(values.dtype)


def _rows(image: Image, keep: Tensor) -> Image:
    """The rows of an image where ``keep`` is set."""
    chosen = keep.nonzero().squeeze(1)
    return {
        key: value
        if key in _IMAGE_KEYS
        else value[chosen]
        if isinstance(value, Tensor)
        else [value[row] for row in chosen.tolist()]
        for key, value in image.items()
    }


def _scores_from(limit: float, images: Images) -> Images:
    return images.with_predictions(lambda image: _rows(image, image["scores"] >= limit))


def _normalised(images: Images) -> Images | None:
    if not all(_has_size(target) for target in images.targets):
        return None

    def scaled(image: Image, target: Image) -> Image:
        return {**image, "boxes": image["boxes"].reshape(-1, 4) / _scale(target["image_size"])}

    pairs = list(zip(images.predictions, images.targets, strict=True))
    changed = images._replace(
        predictions=tuple(scaled(image, target) for image, target in pairs),
        targets=tuple(scaled(target, target) for _, target in pairs),
    )
    # Areas that were given are in pixels; normalised boxes come with areas of their own. Where the
    # sizes of images are known, a metric refuses such boxes.
    return changed.with_targets(partial(_without_keys, ("area", "image_size")))


def _without_keys(keys: tuple[str, ...], image: Image) -> Image:
    return {key: value for key, value in image.items() if key not in keys}


def _has_size(target: Image) -> bool:
    return target.get("image_size") is not None


def _scale(size: Any) -> Tensor:
    height, width = (float(side) for side in size)
    return torch.tensor([width, height, width, height], dtype=torch.float64, device="cpu")


def _moved(step: float, images: Images) -> Images:
    columns = 4 if images.box_format == "xyxy" else 2
    move = torch.tensor([step] * columns + [0.0] * (4 - columns), dtype=torch.float64, device="cpu")
    return images.with_predictions(partial(_with, "boxes", lambda boxes: boxes + move))


def _stretched(step: float, images: Images) -> Images | None:
    if images.box_format == "cxcywh":
        return None
    move = torch.tensor([0.0, 0.0, step, step], dtype=torch.float64, device="cpu")
    return images.with_predictions(partial(_with, "boxes", lambda boxes: boxes + move))


def _clipped(images: Images) -> Images | None:
    """Corners clipped to [0, width] and [0, height]."""
    if images.box_format == "cxcywh" or not all(map(_has_size, images.targets)):
        return None
    is_corners = images.box_format == "xyxy"
    clipped = []
    for image, target in zip(images.predictions, images.targets, strict=True):
        boxes = image["boxes"].reshape(-1, 4)
        start = boxes[:, :2]
        end = boxes[:, 2:] if is_corners else start + boxes[:, 2:]
        limit = _scale(target["image_size"])[:2]
        start, end = (torch.minimum(corner.clamp(min=0), limit) for corner in (start, end))
        rest = end if is_corners else end - start
        clipped.append({**image, "boxes": torch.cat([start, rest], dim=1)})
    return images._replace(predictions=tuple(clipped))


def _without_flag(flag: str, images: Images) -> Images | None:
    if not any(flag in target and bool(target[flag].any()) for target in images.targets):
        return None
    return images.with_targets(
        lambda image: _rows(image, ~image[flag].bool()) if flag in image else image
    )


def _box_areas(images: Images) -> Images | None:
    if not any("area" in target for target in images.targets):
        return None
    return images.with_targets(partial(_without_keys, ("area",)))


def _with_rows(side: str, images: Images) -> Images | None:
    kept = [row for row, image in enumerate(getattr(images, side)) if len(image["labels"])]
    return images.of(kept) if 0 < len(kept) < len(images.targets) else None


def _padded(ranks: int, images: Images) -> Images | None:
    """DistributedSampler repeats the first images until their number is a multiple of the ranks."""
    number = len(images.targets)
    missing = -number % ranks
    return (
        images.of([*range(number), *(row % number for row in range(missing))]) if missing else None
    )


def _without_order(images: Images) -> Images | None:
    if not any("order" in image for image in images.predictions):
        return None
    return images.with_predictions(partial(_without_keys, ("order",)))


def _one_class(images: Images) -> Images | None:
    every = torch.cat([target["labels"] for target in images.targets])
    if not every.numel() or bool((every == every[0]).all()):
        return None
    change = partial(_with, "labels", lambda labels: torch.full_like(labels, int(every[0])))
    return images.with_predictions(change).with_targets(change)


# Means --------------------------------------------------------------------------------------------


def _of_means() -> Iterator[Deviation]:
    yield Deviation("missing classes count as 0 in the mean", "mean", mean=_missing_as_zero)
    yield Deviation("missing classes count as 1 in the mean", "mean", mean=_missing_as_one)
    yield Deviation("mean weighted by the objects of each class", "mean", mean=_by_objects)
    yield Deviation("precision not interpolated", "mean", mean=_not_interpolated)


def _missing_as(value: float, result: DetectionResult) -> float:
    values = torch.where(result.is_averaged, result.average_precision, value)
    return float(values.nan_to_num(value).mean())


_missing_as_zero = partial(_missing_as, 0.0)
_missing_as_one = partial(_missing_as, 1.0)


def _by_objects(result: DetectionResult) -> float:
    weights = result.num_positives.double()
    total = float(weights.sum())
    values = result.average_precision.nan_to_num(0.0)
    return float((values * weights).sum()) / total if total else math.nan


def _not_interpolated(result: DetectionResult) -> float:
    """Average precision as scikit-learn has it, of the first IoU threshold."""
    if not isinstance(result, VocDetectionResult):
        return math.nan
    curves, averaged = result.curves[0], result.is_averaged.tolist()
    values = [
        plain(np.nan_to_num(curve.recall.numpy()), np.nan_to_num(curve.precision.numpy()))
        for curve, kept in zip(curves, averaged, strict=True)
        if kept
    ]
    return running_sum(np.array(values)) / len(values) if values else math.nan
