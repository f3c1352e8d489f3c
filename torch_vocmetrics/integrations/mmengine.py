"""mmengine's ``BaseMetric``, for data samples as mmdetection has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

try:
    from mmengine.evaluator import BaseMetric
    from mmengine.registry import METRICS
except ImportError as error:  # pragma: no cover - depends on what is installed
    raise ImportError("mmengine is missing: pip install mmengine") from error

from torch_vocmetrics import DetectionAP, DetectionProtocol, InputError, load_protocol

KEYS = {"bboxes": "boxes", "scores": "scores", "labels": "labels", "masks": "masks"}
"""Names of instances there, and here."""


@METRICS.register_module(name="TorchVocmetricsDetection")
class DetectionMetric(BaseMetric):
    """Average precision of detections; ``dict(type="TorchVocmetricsDetection")`` in a config.

    mmengine gathers the images of all ranks and drops those that fill up the last batch. Class
    names are those of ``dataset_meta["classes"]``. Ignored instances are COCO's crowds, or VOC's
    difficult objects, as the protocol has it.

    Args:
        protocol: see :class:`torch_vocmetrics.DetectionAP`.
        rules: other keyword arguments of it, such as ``iou_thresholds``.
        collect_device, prefix, collect_dir: see ``mmengine.evaluator.BaseMetric``.

    Raises:
        ProtocolError: if the protocol is unknown or faulty.
    """

    default_prefix = "detection"

    def __init__(
        self,
        protocol: str = "coco2017",
        rules: Mapping[str, Any] | None = None,
        collect_device: str = "cpu",
        prefix: str | None = None,
        collect_dir: str | None = None,
    ) -> None:
        super().__init__(collect_device=collect_device, prefix=prefix, collect_dir=collect_dir)
        self.protocol = load_protocol(protocol, DetectionProtocol)
        self.rules = dict(rules or {})

    def process(self, data_batch: Any, data_samples: Sequence[Mapping[str, Any]]) -> None:
        """Keep predictions and objects of a batch on the host.

        Args:
            data_batch: not read.
            data_samples: dicts of ``pred_instances`` (``bboxes`` as ``xyxy``, ``scores``,
                ``labels``, maybe ``masks``), ``gt_instances``, maybe ``ignored_instances``,
                ``img_id`` and ``ori_shape``.
        """
        del data_batch
        self.results += [self._image(sample) for sample in data_samples]

    def compute_metrics(self, results: Sequence[tuple[Any, Any]]) -> dict[str, float]:
        """Flat numbers of all images.

        Raises:
            InputError: naming image, key and remedy.
        """
        names = (self.dataset_meta or {}).get("classes")
        if names is None:
            remedy = "give the data set METAINFO, or set metric.dataset_meta"
            raise InputError("has no classes", where="dataset_meta", remedy=remedy)
        metric: DetectionAP[Any] = DetectionAP(self.protocol, class_names=names, **self.rules)
        for prediction, target in results:
            metric.update([prediction], [target])
        numbers: dict[str, float] = metric.compute(sync=False).to_dict()
        return numbers

    def _image(self, sample: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        objects, ignored = _rows(sample["gt_instances"]), _rows(sample.get("ignored_instances", {}))
        counts = [len(rows.get("labels", ())) for rows in (objects, ignored)]
        if counts[1]:
            objects = {key: torch.cat([objects[key], ignored[key]]) for key in objects}
        flag = self.protocol.ignored_flags[0]
        objects[flag] = torch.tensor([False] * counts[0] + [True] * counts[1])
        for key, name in (("img_id", "image_id"), ("ori_shape", "image_size")):
            if sample.get(key) is not None:
                objects[name] = sample[key]
        return _rows(sample["pred_instances"]), objects


def _rows(instances: Mapping[str, Any]) -> dict[str, Any]:
    """Tensors on the host, whatever holds them: mmdetection's boxes and masks have classes."""
    rows = {}
    for key, name in KEYS.items():
        if key in instances:
            values = instances[key]
            if hasattr(values, "to_tensor"):
                values = values.to_tensor(torch.bool, "cpu")
            rows[name] = getattr(values, "tensor", values).detach().cpu()
    return rows
