"""What a data set is made of: objects per image and class, their sizes, shapes and occlusion."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError
from ..results import Table

EXCUSED = ("difficult", "iscrowd", "ignore")
"""Flags of objects that are counted apart."""

SIZE_BOUNDS = (32.0**2, 96.0**2)
"""COCO's bounds between small, medium and large areas, in square pixels."""

OCCLUSION_BOUNDS = (0.65, 0.20)
"""Visible fractions between partial, heavy and full occlusion (Caltech, section 2.2)."""

PERCENTILES = (5, 25, 50, 75, 95)


@dataclass(frozen=True, eq=False, kw_only=True)
class DatasetStatistics(Table):
    """Counts of a data set by class, and the distributions behind the figures of the papers.

    Objects with a flag (difficult, crowd, ignore) are counted apart, and are in nothing else.

    Attributes:
        class_name: K names.
        num_objects, num_images: [K] int64, objects of the class, and images with such an object.
        num_difficult, num_crowd, num_ignored: [K] int64, objects with each flag.
        median_height, median_area: [K] float64 pixels and square pixels; NaN without objects.
        objects_per_image, classes_per_image: [I] int64.
        label: [M] int64, class index of each object.
        height, width: [M] float64 pixels.
        area: [M] float64 square pixels, as annotated or else that of the box.
        image_share: [M] float64, area over that of the image; NaN where its size is unknown.
        visibility: [M] float64, visible fraction, NaN where it is not annotated.
        occlusion: [M] int64, level of occlusion, -1 where it is not annotated.
    """

    class_name: tuple[str, ...]
    num_objects: Tensor
    num_images: Tensor
    num_difficult: Tensor
    num_crowd: Tensor
    num_ignored: Tensor
    median_height: Tensor
    median_area: Tensor
    objects_per_image: Tensor = field(repr=False)
    classes_per_image: Tensor = field(repr=False)
    label: Tensor = field(repr=False)
    height: Tensor = field(repr=False)
    width: Tensor = field(repr=False)
    area: Tensor = field(repr=False)
    image_share: Tensor = field(repr=False)
    visibility: Tensor = field(repr=False)
    occlusion: Tensor = field(repr=False)

    def columns(self) -> dict[str, Sequence[Any] | Tensor]:
        """A row for each class."""
        rows = super().columns()
        return {name: rows[name] for name in list(rows)[:8]}

    def to_dict(self) -> dict[str, Any]:
        """The columns of classes and :meth:`summary`, as plain values."""
        names = ("class_name", "num_objects", "num_images", "num_difficult", "num_crowd")
        every = super().to_dict()
        kept = (*names, "num_ignored", "median_height", "median_area")
        return {"summary": self.summary(), **{name: every[name] for name in kept}}

    def summary(self) -> dict[str, float]:
        """Numbers of the whole data set; NaN where nothing is annotated.

        ``log_mean_aspect`` is ``exp(mean(log(width / height)))`` (Caltech, section 2.2);
        ``height_p50`` is a percentile; ``share_small`` is the share of objects with areas up to
        COCO's first bound; ``share_unoccluded``, ``share_partial``, ``share_heavy`` and
        ``share_full`` are Caltech's levels, of the objects whose visible part is annotated;
        ``share_occlusion_1`` is of those with an annotated level.
        """
        objects, images = self.label.shape[0], self.objects_per_image.shape[0]
        numbers = {
            "images": float(images),
            "images_without_objects": float((self.objects_per_image == 0).sum()),
            "objects": float(objects),
            "objects_per_image": _mean(self.objects_per_image),
            "classes_per_image": _mean(self.classes_per_image),
        }
        boxes = (self.width > 0) & (self.height > 0)
        numbers["log_mean_aspect"] = math.exp(
            _mean(torch.log(self.width[boxes] / self.height[boxes]))
        )
        for percent in PERCENTILES:
            numbers[f"height_p{percent}"] = _percentile(self.height, percent)
        small, large = SIZE_BOUNDS
        middle = (self.area > small) & (self.area <= large)
        shares = {"small": self.area <= small, "medium": middle, "large": self.area > large}
        known = self.visibility[~self.visibility.isnan()]
        partial, heavy = OCCLUSION_BOUNDS
        levels = {
            "unoccluded": known >= 1,
            "partial": (known < 1) & (known >= partial),
            "heavy": (known < partial) & (known >= heavy),
            "full": known < heavy,
        }
        for name, chosen in (shares | levels).items():
            numbers[f"share_{name}"] = _mean(chosen)
        leveled = self.occlusion[self.occlusion >= 0]
        for level in sorted(set(leveled.tolist())):
            numbers[f"share_occlusion_{level}"] = _mean(leveled == level)
        numbers["median_image_share"] = _percentile(self.image_share, 50)
        return numbers

    def histogram(self, name: str, edges: Sequence[float]) -> Tensor:
        """The share of images or objects with a value in each of the ranges between edges.

        Args:
            name: ``"objects_per_image"``, ``"classes_per_image"``, ``"height"``, ``"width"``,
                ``"area"``, ``"image_share"`` or ``"visibility"``.
            edges: E rising numbers; a range holds its lower edge, the last one both.

        Returns:
            [E - 1] float64, shares of all values that are defined.

        Raises:
            InputError: if there are no such values, or the edges do not rise.
        """
        known = (
            *("objects_per_image", "classes_per_image", "height", "width"),
            *("area", "image_share", "visibility"),
        )
        if name not in known:
            raise InputError(f"must be one of {', '.join(known)}", where="name", got=repr(name))
        bounds = np.asarray(edges, dtype=np.float64)
        if bounds.size < 2 or not (np.diff(bounds) > 0).all():
            raise InputError("must be two or more rising numbers", where="edges", got=edges)
        values = getattr(self, name).double().numpy()
        values = values[~np.isnan(values)]
        counts = np.histogram(values, bounds)[0]
        return torch.from_numpy(counts / max(values.size, 1))


def dataset_statistics(
    targets: Sequence[Mapping[str, Any]],
    class_names: Sequence[str],
    *,
    label_ids: Sequence[int] | None = None,
    box_format: str = "xyxy",
    inclusive_pixels: bool = False,
) -> DatasetStatistics:
    """Count the objects of a data set.

    Args:
        targets: per image a dict, as readers give it and metrics take it: ``boxes``, ``labels``,
            and where there are ``area``, the flags, ``visibility`` or ``visible_boxes``, and
            ``image_size``.
        class_names: K names.
        label_ids: the value of each class in ``labels``; default 0 .. K-1.
        box_format: ``"xyxy"``, ``"xywh"`` or ``"cxcywh"``.
        inclusive_pixels: whether corners include their last pixel, as VOC's do.

    Raises:
        InputError: for an unknown label or box format.

    Source: Lin et al., "Microsoft COCO", ECCV 2014, figure 5; Dollar et al., "Pedestrian Detection:
        An Evaluation of the State of the Art", PAMI 2012, section 2.2.

    Example:
        >>> boxes = [[0, 0, 10, 40], [0, 0, 100, 100]]
        >>> target = {"boxes": boxes, "labels": [0, 1], "image_size": (200, 100)}
        >>> statistics = dataset_statistics([target], ["cat", "dog"])
        >>> statistics.num_objects.tolist(), statistics.image_share.tolist()
        ([1, 1], [0.02, 0.5])
    """
    names = tuple(class_names)
    values = list(range(len(names))) if label_ids is None else list(label_ids)
    class_of = {value: index for index, value in enumerate(values)}
    rows = [_Objects(row, target, class_of, box_format) for row, target in enumerate(targets)]
    return _statistics(rows, names, inclusive_pixels)


def _statistics(
    rows: Sequence[_Objects], names: tuple[str, ...], inclusive_pixels: bool
) -> DatasetStatistics:
    """The statistics of the objects of all images."""
    label = _joined([one.label for one in rows], torch.int64)
    sizes = torch.tensor([len(one.label) for one in rows], dtype=torch.int64, device="cpu")
    image = torch.repeat_interleave(sizes)
    flags = {name: _joined([one.flag(name) for one in rows], torch.bool) for name in EXCUSED}
    plain = ~(flags["difficult"] | flags["iscrowd"] | flags["ignore"])
    size = _joined([one.size(inclusive_pixels) for one in rows], torch.float64).reshape(-1, 2)
    width, height = size[plain].unbind(1)
    area = _joined([one.area(inclusive_pixels) for one in rows], torch.float64)[plain]
    of_image = torch.tensor([one.image_area for one in rows], dtype=torch.float64, device="cpu")
    objects, images = label[plain], image[plain]
    seen = torch.zeros((len(rows), len(names)), dtype=torch.bool, device="cpu")
    seen[images, objects] = True
    counted = {name: _counts(label[flag], len(names)) for name, flag in flags.items()}
    return DatasetStatistics(
        class_name=names,
        num_objects=_counts(objects, len(names)),
        num_images=seen.sum(dim=0),
        num_difficult=counted["difficult"],
        num_crowd=counted["iscrowd"],
        num_ignored=counted["ignore"],
        median_height=_medians(height, objects, len(names)),
        median_area=_medians(area, objects, len(names)),
        objects_per_image=_counts(images, len(rows)),
        classes_per_image=seen.sum(dim=1),
        label=objects,
        height=height,
        width=width,
        area=area,
        image_share=area / of_image[images],
        visibility=_joined([one.visibility() for one in rows], torch.float64)[plain],
        occlusion=_joined([one.occlusion() for one in rows], torch.int64)[plain],
    )


class _Objects:
    """The objects of one image, as tensors on the CPU."""

    def __init__(
        self, row: int, target: Mapping[str, Any], class_of: Mapping[int, int], box_format: str
    ) -> None:
        self._target, self._format = target, box_format
        if box_format not in ("xyxy", "xywh", "cxcywh"):
            known = "xyxy, xywh, cxcywh"
            raise InputError(f"must be one of {known}", where="box_format", got=repr(box_format))
        labels = torch.as_tensor(target["labels"]).reshape(-1).tolist()
        unknown = next((value for value in labels if value not in class_of), None)
        if unknown is not None:
            raise InputError(
                "label is not among the classes", where=f"target {row}", got=unknown,
                remedy="give label_ids",
            )  # fmt: skip
        self.label = torch.tensor([class_of[one] for one in labels], dtype=torch.int64)
        sides = target.get("image_size")
        self.image_area = math.nan if sides is None else float(sides[0]) * float(sides[1])

    def _column(self, key: str, missing: float) -> Tensor:
        given = self._target.get(key)
        if given is None:
            return torch.full(self.label.shape, missing, dtype=torch.float64, device="cpu")
        return torch.as_tensor(given).cpu().double().reshape(-1)

    def flag(self, name: str) -> Tensor:
        """[m] bool: objects with a flag."""
        return self._column(name, 0.0) != 0

    def size(self, inclusive: bool) -> Tensor:
        """[m, 2] float64: width and height."""
        boxes = torch.as_tensor(self._target["boxes"]).cpu().double().reshape(-1, 4)
        return self._sides(boxes) + float(inclusive and self._format == "xyxy")

    def _sides(self, boxes: Tensor) -> Tensor:
        return boxes[:, 2:] - boxes[:, :2] if self._format == "xyxy" else boxes[:, 2:]

    def area(self, inclusive: bool) -> Tensor:
        """[m] float64: as annotated, or else that of the box."""
        given = self._column("area", math.nan)
        return torch.where(given.isnan(), self.size(inclusive).prod(dim=1), given)

    def occlusion(self) -> Tensor:
        """[m] int64: the level of occlusion, -1 where it is not annotated."""
        return self._column("occlusion", -1.0).long()

    def visibility(self) -> Tensor:
        """[m] float64: the visible fraction; 1 where a visible box of zeros says unoccluded."""
        if self._target.get("visible_boxes") is None:
            return self._column("visibility", math.nan)
        visible = torch.as_tensor(self._target["visible_boxes"]).cpu().double().reshape(-1, 4)
        share = self._sides(visible).prod(dim=1) / self.size(False).prod(dim=1)
        return torch.where((visible == 0).all(dim=1), 1.0, share)


def _joined(columns: Sequence[Tensor], dtype: torch.dtype) -> Tensor:
    return torch.cat([torch.zeros(0, dtype=dtype, device="cpu"), *(c.reshape(-1) for c in columns)])


def _counts(values: Tensor, size: int) -> Tensor:
    return torch.bincount(values, minlength=size)


def _medians(values: Tensor, label: Tensor, num_classes: int) -> Tensor:
    medians = [_percentile(values[label == k], 50) for k in range(num_classes)]
    return torch.tensor(medians, dtype=torch.float64, device="cpu")


def _percentile(values: Tensor, percent: float) -> float:
    defined = values[~values.isnan()].numpy()
    return float(np.percentile(defined, percent)) if defined.size else math.nan


def _mean(values: Tensor) -> float:
    return float(values.double().mean())
