"""``compute(predictions=, references=)``, as Hugging Face ``evaluate`` has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch_vocmetrics import DetectionAP, InputError

Rows = Mapping[str, Any]


class DetectionEvaluation:
    """An evaluation module of detections: ``add``, ``add_batch``, ``compute``.

    Unlike ``evaluate.EvaluationModule`` it writes no files: images are matched when they come, and
    numbers keep their precision. ``evaluate.combine`` takes it beside modules of that library.

    Args:
        protocol: see :class:`torch_vocmetrics.DetectionAP`.
        arguments: other keyword arguments of it, such as ``class_names``.

    Attributes:
        name: what ``evaluate.combine`` calls it.
        result: of the last ``compute``; None before.

    Example:
        >>> module = DetectionEvaluation("voc2012", num_classes=1)
        >>> rows = {"boxes": [[1, 1, 9, 9]], "labels": [0]}
        >>> module.compute(predictions=[rows | {"scores": [0.5]}], references=[rows])["mAP"]
        1.0
    """

    name = "torch_vocmetrics_detection"

    def __init__(self, protocol: Any = "coco2017", **arguments: Any) -> None:
        self.metric: DetectionAP[Any] = DetectionAP(protocol, **arguments)
        self.result: Any = None

    def add(self, *, prediction: Rows, reference: Rows) -> None:
        """Add an image."""
        self.metric.update([prediction], [reference])

    def add_batch(self, *, predictions: Sequence[Rows], references: Sequence[Rows]) -> None:
        """Add images: a dict of each, as ``DetectionAP.update`` takes them."""
        self.metric.update(predictions, references)

    def compute(
        self,
        *,
        predictions: Sequence[Rows] | None = None,
        references: Sequence[Rows] | None = None,
        **options: Any,
    ) -> dict[str, float]:
        """Flat numbers over all images since the last call, those given here included.

        In a process group this is a collective, and all ranks get the numbers.

        Raises:
            InputError: if one side is missing, or an option is given: there are none.
        """
        if options:
            raise InputError("has no such option", where="compute", got=sorted(options))
        if (predictions is None) != (references is None):
            raise InputError("must be given together", where="predictions and references")
        if predictions is not None and references is not None:
            self.metric.update(predictions, references)
        result = self.metric.compute()
        self.metric.reset()
        self.result = result
        if not isinstance(result, Mapping):
            result = {"": result}
        return {
            f"{name}/{key}".lstrip("/"): number
            for name, one in result.items()
            for key, number in one.to_dict().items()
        }

    def _feature_names(self) -> list[str]:
        """The arguments that ``evaluate.combine`` hands on."""
        return ["predictions", "references"]
