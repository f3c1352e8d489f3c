"""pycocotools' ``COCOeval`` with matching and curves of this package, and the same bits.

What this package refuses or has other rules for, pycocotools' own code evaluates, and a warning
says why: keypoints, annotation id 0 (which pycocotools loses), boxes of negative size, NaN scores,
detections whose area is neither that of their box nor of their mask, thresholds that do not rise.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import datetime
import io
import sys
import warnings
from types import ModuleType, TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from pycocotools import cocoeval
from pycocotools import mask as mask_api

from torch_vocmetrics import (
    CocoDetectionResult,
    DetectionAP,
    DetectionProtocol,
    InputError,
    VocMetricsError,
    VocMetricsWarning,
    load_protocol,
)

OFFICIAL: Any = cocoeval.COCOeval
"""pycocotools' own class, whatever is patched later."""

PARAMETERS = (
    "iouType", "imgIds", "catIds", "iouThrs", "recThrs", "areaRng", "maxDets", "useCats",
)  # fmt: skip
"""Attributes of ``params`` on which the numbers depend."""


class COCOeval(cocoeval.COCOeval):
    """A look-alike of ``pycocotools.cocoeval.COCOeval``, to be used as that is.

    ``params`` may be changed before ``evaluate``. ``eval``, ``stats`` and what ``summarize`` prints
    have pycocotools' bits. ``evalImgs`` and ``ious`` are made by pycocotools when they are first
    read, which takes its time. ``accumulate`` with other parameters than those of ``evaluate``, or
    with ``evalImgs`` that were set, runs pycocotools' code over ``evalImgs``.

    Args:
        cocoGt, cocoDt: ``pycocotools.coco.COCO`` objects of annotations and results.
        iouType: ``"segm"``, ``"bbox"`` or ``"keypoints"`` (evaluated by pycocotools itself).

    Source: pycocotools 2.0.11, cocoeval.py.

    Example:
        >>> from pycocotools.coco import COCO
        >>> truth = COCO()
        >>> truth.dataset = {"images": [{"id": 1}], "categories": [{"id": 7}], "annotations": [
        ...     {"id": 1, "image_id": 1, "category_id": 7, "bbox": [10, 10, 40, 40],
        ...      "area": 1600, "iscrowd": 0}]}
        >>> with contextlib.redirect_stdout(io.StringIO()):
        ...     truth.createIndex()
        ...     found = truth.loadRes([
        ...         {"image_id": 1, "category_id": 7, "bbox": [10, 10, 40, 36], "score": 0.9}])
        ...     evaluation = COCOeval(truth, found, "bbox")
        ...     evaluation.evaluate()
        ...     evaluation.accumulate()
        ...     evaluation.summarize()
        >>> [round(float(number), 3) for number in evaluation.stats[:3]]
        [0.9, 1.0, 1.0]
    """

    eval: dict[str, Any]
    stats: NDArray[np.float64]

    def __init__(self, cocoGt: Any = None, cocoDt: Any = None, iouType: str = "segm") -> None:  # noqa: N803
        self._metric: DetectionAP[Any] | None = None
        self._per_image: dict[str, Any] = {}
        super().__init__(cocoGt, cocoDt, iouType)

    def evaluate(self) -> None:
        """Match every image; ``params`` are put in order as pycocotools does."""
        p = self.params
        if p.useSegm is not None:
            p.iouType = "segm" if p.useSegm == 1 else "bbox"
        p.imgIds = list(np.unique(p.imgIds))
        if p.useCats:
            p.catIds = list(np.unique(p.catIds))
        p.maxDets = sorted(p.maxDets)
        self._metric, self._per_image, self.eval = None, {}, {}
        try:
            metric = _matched(self.cocoGt, self.cocoDt, p)
        except VocMetricsError as error:
            message = f"pycocotools itself evaluates what this package does not: {error}"
            warnings.warn(VocMetricsWarning(message), stacklevel=2)
            super().evaluate()
            return
        self._metric, self._paramsEval = metric, copy.deepcopy(p)

    def accumulate(self, p: Any = None) -> None:
        """Make ``eval``: precision and scores [T, R, K, A, M], recall [T, K, A, M] float64."""
        p = self.params if p is None else p
        if self._metric is None or not _same_parameters(p, self._paramsEval):
            super().accumulate(p)
            return
        self.eval = eval_of(self._metric.compute(sync=False), p)

    @property
    def evalImgs(self) -> Any:  # noqa: N802 - pycocotools' name
        """Matches of each category, area range and image, as pycocotools has them."""
        return self._of_each_image("evalImgs")

    @evalImgs.setter
    def evalImgs(self, value: Any) -> None:  # noqa: N802 - pycocotools' name
        self._metric = None  # what is set from outside is to be accumulated
        self._per_image["evalImgs"] = value

    @property
    def ious(self) -> Any:
        """Overlaps [D, G] of each (image id, category id), as pycocotools has them."""
        return self._of_each_image("ious")

    @ious.setter
    def ious(self, value: Any) -> None:
        self._per_image["ious"] = value

    def _of_each_image(self, name: str) -> Any:
        if name not in self._per_image:
            official = OFFICIAL(self.cocoGt, self.cocoDt, self._paramsEval.iouType)
            official.params = copy.deepcopy(self._paramsEval)
            with contextlib.redirect_stdout(io.StringIO()):
                official.evaluate()
            self._per_image |= {"evalImgs": official.evalImgs, "ious": official.ious}
        return self._per_image[name]


def eval_of(result: CocoDetectionResult, params: Any) -> dict[str, Any]:
    """The dict that ``COCOeval.accumulate`` makes: -1 where a class has no objects.

    Args:
        result: of a protocol with the thresholds, levels, areas and limits of ``params``.
        params: a ``pycocotools.cocoeval.Params``; the dict holds a copy.
    """
    shown = copy.copy(params)
    shown.catIds = params.catIds if params.useCats == 1 else [-1]
    arrays = {name: getattr(result, name).double() for name in ("precision", "recall", "scores")}
    return {
        "params": shown,
        "counts": list(arrays["precision"].shape),
        "date": datetime.datetime.now().strftime("%Y-%m-%d %H:%M:%S"),
    } | {name: np.ascontiguousarray(one.nan_to_num(nan=-1.0)) for name, one in arrays.items()}


class patch_pycocotools(contextlib.AbstractContextManager["patch_pycocotools"]):  # noqa: N801
    """Put :class:`COCOeval` where pycocotools' is, in every module that has imported it by name.

    Works from the call on; leaving the ``with`` block or :meth:`undo` puts pycocotools' back. A
    module that is imported meanwhile keeps the class that it has found.

    Example:
        >>> from pycocotools import cocoeval
        >>> with patch_pycocotools():
        ...     cocoeval.COCOeval is COCOeval
        True
        >>> cocoeval.COCOeval is COCOeval
        False
    """

    def __init__(self) -> None:
        self._replaced = [
            (module, name)
            for module in list(sys.modules.values())
            if isinstance(module, ModuleType) and not module.__name__.startswith(__package__)
            for name, value in list(vars(module).items())
            if value is OFFICIAL
        ]
        for module, name in self._replaced:
            setattr(module, name, COCOeval)

    def undo(self) -> None:
        """Put pycocotools' class back; a second time does nothing."""
        while self._replaced:
            setattr(*self._replaced.pop(), OFFICIAL)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.undo()


def _same_parameters(one: Any, other: Any) -> bool:
    """Whether two ``Params`` ask for the same numbers."""
    return all(
        np.array_equal(np.asarray(getattr(one, name)), np.asarray(getattr(other, name)))
        for name in PARAMETERS
    )


class _Side(NamedTuple):
    """Annotations or results that are evaluated, in the order in which pycocotools has them.

    Attributes:
        annotations: N dicts.
        image: [N] rising positions among ``params.imgIds``.
        category: [N] positions among ``params.catIds``, rising within an image.
    """

    annotations: list[dict[str, Any]]
    image: list[int]
    category: list[int]

    @classmethod
    def of(cls, coco: Any, params: Any) -> Self:
        """What pycocotools loads: of two annotations with one id it takes the later twice."""
        images = {image_id: index for index, image_id in enumerate(params.imgIds)}
        categories = {category: index for index, category in enumerate(params.catIds)}
        rows = []
        for image_id in params.imgIds:
            for listed in coco.imgToAnns.get(image_id, ()):
                one = coco.anns[listed["id"]]
                index, category = images.get(one["image_id"]), categories.get(one["category_id"])
                if index is not None and category is not None:
                    rows.append((index, category, one))
        rows.sort(key=lambda row: row[:2])
        return cls([row[2] for row in rows], [row[0] for row in rows], [row[1] for row in rows])

    def numbers(self, key: str) -> NDArray[np.float64]:
        """[N] or [N, 4] float64 values of a key."""
        return np.array([one[key] for one in self.annotations], dtype=np.float64)

    def per_image(self, columns: dict[str, Any], num_images: int) -> list[dict[str, Any]]:
        """One dict per image of tensors, or of lists."""
        counts = np.bincount(np.array(self.image, dtype=np.int64), minlength=num_images)
        ends = counts.cumsum().tolist()
        starts = [0, *ends[:-1]]
        return [
            {key: values[start:end] for key, values in columns.items()}
            for start, end in zip(starts, ends, strict=True)
        ]


def _matched(truth: Any, found: Any, params: Any) -> DetectionAP[Any]:
    """A metric that has seen everything that is evaluated.

    Raises:
        VocMetricsError: if pycocotools evaluates the input by rules that this package has not.
    """
    if params.iouType not in ("bbox", "segm"):
        raise InputError("keypoints are not compared here", where="iouType", got=params.iouType)
    if not params.imgIds or not params.catIds or len({*params.catIds}) < len(params.catIds):
        raise InputError("must be distinct ids, and some", where="imgIds and catIds")
    sides = _Side.of(truth, params), _Side.of(found, params)
    _refuse_lost_ids(*sides)
    objects, detections = sides
    there, seen = (
        _boxes(side) if params.iouType == "bbox" else _masks(side, coco)
        for side, coco in zip(sides, (truth, found), strict=True)
    )
    areas = objects.numbers("area")
    if np.isnan(areas).any():
        raise InputError("must be numbers", where="annotations, key 'area'", got="NaN")
    num_classes = len(params.catIds) if params.useCats else 1
    metric: DetectionAP[Any] = DetectionAP(
        rules_of(params, _protocol_name(params, detections.numbers("area"), seen)),
        num_classes=num_classes,
        # From 1 on: a first category without objects is no sign of a mistake here.
        label_ids=range(1, num_classes + 1),
        box_format="xywh",
    )
    crowds = [bool(one.get("iscrowd", 0)) for one in objects.annotations]
    there |= {"iscrowd": torch.tensor(crowds, dtype=torch.bool), "area": torch.from_numpy(areas)}
    seen["scores"] = torch.from_numpy(detections.numbers("score"))
    for side, columns in ((objects, there), (detections, seen)):
        categories = torch.tensor(side.category, dtype=torch.int64)
        columns["labels"] = categories + 1 if params.useCats else torch.ones_like(categories)
    count = len(params.imgIds)
    return metric.update(detections.per_image(seen, count), objects.per_image(there, count))


def _boxes(side: _Side) -> dict[str, Any]:
    return {"boxes": torch.from_numpy(side.numbers("bbox").reshape(-1, 4))}


def _masks(side: _Side, coco: Any) -> dict[str, Any]:
    boxes = _boxes(side) if all("bbox" in one for one in side.annotations) else {}
    return boxes | {"masks": [coco.annToRLE(one) for one in side.annotations]}


def _refuse_lost_ids(objects: _Side, detections: _Side) -> None:
    """An object of id 0 is lost by pycocotools; a detection of id 0 or less uses up no object."""
    lost = [one["id"] == 0 for one in objects.annotations]
    unused = [one["id"] <= 0 for one in detections.annotations]
    for where, found in (("annotations", lost), ("results", unused)):
        if any(found):
            raise InputError(
                "pycocotools counts a match with annotation id 0 as none",
                where=where,
                got=f"{sum(found)} such ids",
                remedy="number annotations from 1 to have them counted",
            )


def rules_of(params: Any, protocol: str) -> DetectionProtocol:
    """A protocol of COCO with the thresholds, levels, limits and area ranges of a ``Params``.

    Raises:
        ProtocolError: if they are no rising numbers.
    """
    rules: dict[str, Any] = {
        "iou_thresholds": np.asarray(params.iouThrs, dtype=np.float64),
        "recall_levels": np.asarray(params.recThrs, dtype=np.float64),
        "max_detections": [int(limit) for limit in params.maxDets],
        "area_ranges": [(f"range {n}", *pair) for n, pair in enumerate(_bounds(params))],
        "headline_area": "range 0",
    }
    return dataclasses.replace(load_protocol(protocol, DetectionProtocol), **rules)


def _bounds(params: Any) -> list[list[float]]:
    return [[float(bound) for bound in pair] for pair in params.areaRng]


def _protocol_name(params: Any, areas: NDArray[np.float64], shapes: dict[str, Any]) -> str:
    """The protocol that puts detections into the area ranges into which ``area`` puts them."""

    def in_ranges(values: Any) -> NDArray[np.bool_]:
        lower, upper = np.array(_bounds(params)).reshape(-1, 2, 1).swapaxes(0, 1)
        outside: NDArray[np.bool_] = (values < lower) | (values > upper)
        return outside

    if params.iouType == "segm":
        # One by one: pycocotools' count of masks is a uint8, which NumPy 2 refuses above 255.
        by_mask = np.array([mask_api.area(one) for one in shapes["masks"]], dtype=np.float64)
        if np.array_equal(in_ranges(areas), in_ranges(by_mask)):
            return "coco2017_segm"
    if "boxes" in shapes:
        by_box = (shapes["boxes"][:, 2] * shapes["boxes"][:, 3]).numpy()
        if np.array_equal(in_ranges(areas), in_ranges(by_box)):
            return "coco2017" if params.iouType == "bbox" else "coco2017_segm_box_area"
    raise InputError("must be the area of the box or of the mask", where="results, key 'area'")
