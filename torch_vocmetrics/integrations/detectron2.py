"""Detectron2's ``DatasetEvaluator`` for COCO and for PASCAL VOC."""

from __future__ import annotations

import contextlib
import io
import math
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

try:
    from detectron2.data import MetadataCatalog
    from detectron2.evaluation import DatasetEvaluator
except ImportError as error:  # pragma: no cover - depends on what is installed
    raise ImportError(
        "detectron2 is missing: install it as its documentation says, it is on no package index"
    ) from error

from pycocotools.coco import COCO

from torch_vocmetrics import DetectionAP, InputError
from torch_vocmetrics.io import read_voc_ground_truths

from .coco_truth import PROTOCOLS, CocoTruth, as_masks, as_xywh

SUMMARY = ("AP", "AP50", "AP75", "APs", "APm", "APl")
PERCENT = 100.0


class _Evaluator(DatasetEvaluator):
    """Images are matched when they come; ``evaluate`` adds those that never came."""

    _metric: DetectionAP[Any]
    _distributed = True

    def reset(self) -> None:
        """Forget everything."""
        self._metric.reset()
        self._seen: set[Any] = set()

    def process(
        self, inputs: Iterable[Mapping[str, Any]], outputs: Iterable[Mapping[str, Any]]
    ) -> None:
        """Add images.

        Args:
            inputs: dicts with ``image_id``.
            outputs: dicts with ``instances``: ``pred_boxes``, ``scores``, ``pred_classes``, and
                ``pred_masks`` where masks are compared.

        Raises:
            InputError: naming image, key and remedy; the state is then as it was.
        """
        ids = [one["image_id"] for one in inputs]
        predictions = [self._prediction(one["instances"]) for one in outputs]
        self._metric.update(predictions, [self._target(image_id) for image_id in ids])
        self._seen.update(ids)

    def evaluate(self) -> OrderedDict[str, dict[str, float]]:
        """Numbers in percent on the first rank, an empty dict on the others: a collective."""
        ranks = torch.distributed.is_available() and torch.distributed.is_initialized()
        together = self._distributed and ranks
        seen = self._seen
        if together:
            every: list[Any] = [None] * torch.distributed.get_world_size()
            torch.distributed.all_gather_object(every, seen)
            seen = set().union(*every)
        first = not together or torch.distributed.get_rank() == 0
        if first and (missing := [one for one in self._all_images() if one not in seen]):
            nothing: list[Any] = [None] * len(missing)
            self._metric.update(nothing, [self._target(one) for one in missing])
            self._seen.update(missing)
        result = self._metric.compute(sync=together, dst=0 if together else None)
        return OrderedDict() if result is None else self._numbers(result)

    def _prediction(self, instances: Any) -> dict[str, Any]:
        raise NotImplementedError

    def _target(self, image_id: Any) -> dict[str, Any]:
        raise NotImplementedError

    def _all_images(self) -> Sequence[Any]:
        raise NotImplementedError

    def _numbers(self, result: Any) -> OrderedDict[str, dict[str, float]]:
        raise NotImplementedError


class COCOEvaluator(_Evaluator):
    """Boxes and masks by COCO's rules.

    Args:
        dataset_name: its metadata must name the annotations, ``json_file``.
        tasks: of ``"bbox"`` and ``"segm"``; None for boxes.
        distributed: whether ``evaluate`` takes the images of all ranks together.
        max_dets_per_image: limits of detections; None for 1, 10 and 100.

    Raises:
        InputError: if the metadata name no ``json_file``, or a task is none of these.

    Source: the documented interface of Detectron2 0.6, evaluation/coco_evaluation.py.
    """

    def __init__(
        self,
        dataset_name: str,
        tasks: Sequence[str] | None = None,
        distributed: bool = True,
        *,
        max_dets_per_image: Sequence[int] | None = None,
    ) -> None:
        self._tasks = ["bbox"] if tasks is None else list(tasks)
        if isinstance(tasks, str) or not {*self._tasks} <= PROTOCOLS.keys():
            remedy = f"a list of {', '.join(PROTOCOLS)}"
            raise InputError("cannot be evaluated", where="tasks", got=tasks, remedy=remedy)
        self._distributed = distributed
        metadata = MetadataCatalog.get(dataset_name)
        if getattr(metadata, "json_file", None) is None:
            raise InputError(
                "its metadata name no json_file",
                where=f"data set {dataset_name}",
                remedy="write one by detectron2.data.datasets.convert_to_coco_json",
            )
        with contextlib.redirect_stdout(io.StringIO()):
            coco = COCO(metadata.json_file)
        self._truth = CocoTruth(coco, masks="segm" in self._tasks)
        self._images = sorted(coco.getImgIds())
        contiguous = getattr(metadata, "thing_dataset_id_to_contiguous_id", None)
        categories = {k: k for k in self._truth.class_names} if contiguous is None else contiguous
        names = getattr(metadata, "thing_classes", None)
        # Classes in the order of the model's numbers.
        self._ids = sorted(categories, key=categories.__getitem__)
        self._categories = {categories[one]: one for one in self._ids}
        class_names = [
            self._truth.class_names[one] if names is None else names[index]
            for index, one in enumerate(self._ids)
        ]
        self._metric = DetectionAP(
            [PROTOCOLS[task] for task in self._tasks],
            class_names=class_names,
            label_ids=self._ids,
            box_format="xywh",
            max_detections=max_dets_per_image,
            unknown_labels="drop",
        )
        self.reset()

    def _prediction(self, instances: Any) -> dict[str, Any]:
        labels = instances.pred_classes
        known = [self._categories[label] for label in labels.tolist()]
        rows: dict[str, Any] = {
            "boxes": as_xywh(instances.pred_boxes.tensor),
            "scores": instances.scores,
            "labels": torch.tensor(known, dtype=torch.int64, device=labels.device),
        }
        if "segm" in self._tasks:
            rows["masks"] = as_masks(instances.pred_masks)
        return rows

    def _target(self, image_id: Any) -> dict[str, Any]:
        return self._truth.target(image_id)

    def _all_images(self) -> Sequence[Any]:
        return self._images

    def _numbers(self, result: Any) -> OrderedDict[str, dict[str, float]]:
        found = OrderedDict[str, dict[str, float]]()
        for task in sorted(self._tasks):
            values = result[PROTOCOLS[task]].to_dict()
            found[task] = {name: PERCENT * values[name] for name in SUMMARY}
            if len(self._ids) > 1:
                names = self._metric.class_names
                found[task] |= {f"AP-{name}": PERCENT * values[f"AP/{name}"] for name in names}
        return found


class PascalVOCDetectionEvaluator(_Evaluator):
    """Boxes by PASCAL VOC's rules: 11 points for 2007, else all points; IoU 0.50 to 0.95.

    Detectron2's boxes begin at 0 and end behind their last pixel; 1 is added to their first corner.
    Its own evaluator rounds boxes to one decimal and scores to three, and wants IoU above the
    threshold; here nothing is rounded, and the threshold itself is enough, as in VOC's kit.

    Args:
        dataset_name: its metadata must have ``dirname``, ``split``, ``year`` and ``thing_classes``.

    Source: the documented interface of Detectron2 0.6, evaluation/pascal_voc_evaluation.py.
    """

    def __init__(self, dataset_name: str) -> None:
        metadata = MetadataCatalog.get(dataset_name)
        truth = read_voc_ground_truths(
            metadata.dirname, metadata.split, class_names=list(metadata.thing_classes)
        )
        self._targets = dict(zip(truth.image_ids, truth.targets, strict=True))
        self._metric = DetectionAP(
            "voc2007" if metadata.year == 2007 else "voc2012",
            class_names=truth.class_names,
            iou_thresholds=[percent / 100 for percent in range(50, 100, 5)],
        )
        self.reset()

    def _prediction(self, instances: Any) -> dict[str, Any]:
        boxes = instances.pred_boxes.tensor.reshape(-1, 4)
        return {
            "boxes": boxes + boxes.new_tensor([1, 1, 0, 0]),
            "scores": instances.scores,
            "labels": instances.pred_classes,
        }

    def _target(self, image_id: Any) -> dict[str, Any]:
        if image_id not in self._targets:
            raise InputError("the image set has no such image", where="image_id", got=image_id)
        target: dict[str, Any] = self._targets[image_id]
        return target

    def _all_images(self) -> Sequence[Any]:
        return list(self._targets)

    def _numbers(self, result: Any) -> OrderedDict[str, dict[str, float]]:
        numbers = result.to_dict()
        named = {"AP": "mAP", "AP50": "mAP@0.5", "AP75": "mAP@0.75"}
        return OrderedDict(
            bbox={name: PERCENT * numbers.get(key, math.nan) for name, key in named.items()}
        )
