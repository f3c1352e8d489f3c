"""The ``CocoEvaluator`` of torchvision's detection references, which DETR and its kin copied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from torch_vocmetrics import CocoDetectionResult, DetectionAP, InputError

from .coco_truth import PROTOCOLS, CocoTruth, as_masks, as_xywh
from .pycocotools import COCOeval, eval_of, rules_of


class CocoEvaluator:
    """A look-alike: ``update``, ``synchronize_between_processes``, ``accumulate``, ``summarize``.

    Images are matched when they come; neither results nor tables of each image are kept, and ranks
    exchange match records. An image that several ranks have seen counts once.

    Args:
        coco_gt: a ``pycocotools.coco.COCO`` object of the annotations.
        iou_types: of ``"bbox"`` and ``"segm"``.

    Raises:
        InputError: (a ValueError) if there is another type, such as ``"keypoints"``.

    Attributes:
        coco_eval: {type: COCOeval}, whose ``params`` may be changed before the first ``update``
            (``imgIds`` and ``useCats`` are not read), and which has ``eval`` after ``accumulate``
            and ``stats`` after ``summarize``.
        img_ids: ids of the images that this rank has seen.

    Source: torchvision 0.29, references/detection/coco_eval.py.
    """

    def __init__(self, coco_gt: Any, iou_types: Sequence[str]) -> None:
        if isinstance(iou_types, str) or not {*iou_types} <= PROTOCOLS.keys() or not iou_types:
            remedy = f"a list of {', '.join(PROTOCOLS)}; pycocotools evaluates keypoints"
            raise InputError("cannot be evaluated", where="iou_types", got=iou_types, remedy=remedy)
        self.coco_gt, self.iou_types = coco_gt, list(iou_types)
        self.coco_eval = {kind: COCOeval(coco_gt, iouType=kind) for kind in iou_types}
        self.img_ids: list[Any] = []
        self._truth = CocoTruth(coco_gt, masks="segm" in iou_types)
        self._metric: DetectionAP[Any] | None = None
        self._results: dict[str, CocoDetectionResult] | None = None

    def update(self, predictions: Mapping[Any, Mapping[str, Tensor]]) -> None:
        """Add images.

        Args:
            predictions: {image id: output of the model}, which is a dict of ``boxes`` [N, 4] as
                ``xyxy`` in pixels, ``scores`` [N], ``labels`` [N] (category ids; others than those
                of the data set are left out), and ``masks`` [N, 1, H, W] or [N, H, W]
                probabilities where masks are compared.

        Raises:
            InputError: naming image, key and remedy; the state is then as it was.
        """
        targets = [self._truth.target(image_id) for image_id in predictions]
        outputs = [self._output(one) for one in predictions.values()]
        if self._metric is None:
            self._metric = self._new_metric()
        self._metric.update(outputs, targets)
        self.img_ids += predictions
        self._results = None

    def synchronize_between_processes(self) -> None:
        """Compute over the images of all ranks: a collective that every rank calls."""
        self._compute(sync=True)

    def accumulate(self) -> None:
        """Fill ``coco_eval[...].eval``, over this rank's images if they were not synchronized."""
        results = self._results or self._compute(sync=False)
        for kind, judge in self.coco_eval.items():
            judge.eval = eval_of(results[PROTOCOLS[kind]], judge.params)

    def summarize(self) -> None:
        """Print the twelve lines of pycocotools, and keep their numbers as ``stats``."""
        for kind, judge in self.coco_eval.items():
            print(f"IoU metric: {kind}")  # noqa: T201 - it is what the method is for
            judge.summarize()

    def _compute(self, *, sync: bool) -> dict[str, CocoDetectionResult]:
        metric = self._metric or self._new_metric()
        self._results = metric.compute(sync=sync)
        return self._results

    def _new_metric(self) -> DetectionAP[Any]:
        rules = []
        for kind, judge in self.coco_eval.items():
            judge.params.maxDets = sorted(judge.params.maxDets)
            rules.append(rules_of(judge.params, PROTOCOLS[kind]))
        return DetectionAP(
            rules,
            class_names=self._truth.class_names,
            box_format="xywh",
            unknown_labels="drop",
        )

    def _output(self, output: Mapping[str, Tensor]) -> dict[str, Any]:
        rows: dict[str, Any] = {key: output[key] for key in ("scores", "labels")}
        rows["boxes"] = as_xywh(output["boxes"])
        if "segm" in self.iou_types:
            rows["masks"] = as_masks(output["masks"])
        return rows
