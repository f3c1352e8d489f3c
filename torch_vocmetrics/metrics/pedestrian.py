"""Log-average miss rate of pedestrian detection: Caltech, CityPersons, KAIST, CrowdHuman.

Boxes are continuous pixels (width x2 - x1). Differences to the official tools, each with its
effect:

* undefined is NaN where the CityPersons and KAIST scripts print -1; CrowdHuman's eval_MR gives NaN
  itself where no detection counts, and divides by zero where no object does, which is NaN too;
* a NaN score is an error, where the scripts rank it last; infinite scores are ranked as floats;
* annotation ids play no part, where the CityPersons and KAIST scripts lose matches of object 0;
* ``kaist_python`` permutes the boxes of an image that is not listed by falling score, as its script
  does by mistake: such files give other numbers under ``kaist``. An image of more than 1,000
  detections, at which that script stops, has its best 1,000 evaluated;
* a subset at which dbEval 3.0.0 stops is NaN and named in a warning, the others stand;
* an image without objects or detections is taken everywhere, where CrowdHuman's reader fails;
* CrowdHuman's Jaccard index is summed in the order of image positions; the official order depends
  on how its processes finish (differences of 1e-16).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Self

from ..curves.miss_rate_result import miss_rate_result
from ..errors import InputError
from ..inputs.box_formats import BoxFormat
from ..inputs.images import Batch
from ..inputs.packing import Rows
from ..protocols import MissRateProtocol, load_protocol
from ..results import MissRateResult
from ..tables.records import MatchRecords
from .record_state import AccumulatedRecords
from .recorded import RecordMetric


class LogAverageMissRate(RecordMetric[MissRateResult]):
    """Log-average miss rate of one class, over any number of batches.

    Args:
        protocol: ``"caltech2012"``, ``"citypersons2017"``, ``"kaist"``, ``"crowdhuman2018"`` or
            another shipped one, the path of a protocol file, or a :class:`MissRateProtocol`.
        class_name: how the class is called.
        label_id: the value of the class in ``labels``.
        box_format, prediction_columns, target_columns, unknown_labels: as for
            :class:`DetectionAP <torch_vocmetrics.DetectionAP>`.
        diagnostics: as for :class:`~torch_vocmetrics.DetectionAP`.

    Raises:
        ProtocolError: if the protocol is unknown (with the near names) or faulty.
        InputError: if a format or a column is unknown.

    Source: the protocol's file names the official code behind each rule.

    Example:
        >>> import torch
        >>> box, none = torch.tensor([[100.0, 100.0, 141.0, 200.0]]), torch.tensor([0])
        >>> prediction = {"boxes": box, "scores": torch.tensor([0.9]), "labels": none}
        >>> target = {"boxes": box.repeat(2, 1) + torch.tensor([[0.0], [200.0]]),
        ...           "labels": torch.tensor([0, 0])}
        >>> metric = LogAverageMissRate("caltech2012")
        >>> round(metric.update([prediction], [target]).compute().headline, 6)
        0.5
    """

    def __init__(
        self,
        protocol: str | Path | MissRateProtocol,
        *,
        class_name: str = "person",
        label_id: int = 0,
        box_format: BoxFormat = "xyxy",
        prediction_columns: Sequence[str] | None = None,
        target_columns: Sequence[str] | None = None,
        unknown_labels: Literal["error", "drop"] = "error",
        diagnostics: bool = False,
    ) -> None:
        protocol = load_protocol(protocol, MissRateProtocol)
        self.protocol = protocol
        super().__init__(
            [protocol],
            num_classes=1,
            class_names=[class_name],
            label_ids=None if label_id == 0 else [label_id],
            box_format=box_format,
            prediction_columns=prediction_columns,
            target_columns=target_columns,
            unknown_labels=unknown_labels,
            diagnostics=diagnostics,
        )

    def update(self, predictions: Sequence[Rows] | Rows, targets: Sequence[Rows] | Rows) -> Self:
        """Add a batch of images, empty ones too: every image counts.

        Args:
            predictions: per image a dict of ``boxes`` [N, 4] in pixels, ``scores`` [N], ``labels``
                [N], and maybe ``order`` [N] int64, which breaks ties of score, and
                ``image_id``, which must be that of the target.
            targets: per image a dict of ``boxes`` [M, 4], ``labels`` [M], and maybe ``ignore`` [M]
                (regions, and objects of other labels), ``visible_boxes`` [M, 4] or ``visibility``
                [M] (a fraction; without either nothing is hidden), ``occlusion`` [M] levels,
                ``image_id`` (int or str), ``image_size`` (height, width), which protocols that clip
                boxes need.

        Either may be one dict of packed tensors instead, as for
        :meth:`DetectionAP.update <torch_vocmetrics.DetectionAP.update>`.

        Raises:
            InputError: naming image, key and remedy; the state is then as it was.
        """
        return super().update(predictions, targets)

    def _result(self, distinct: Sequence[Sequence[MatchRecords]]) -> MissRateResult:
        return miss_rate_result(self.protocol, MatchRecords.cat(distinct[0]))

    @classmethod
    def _of(
        cls, protocols: Sequence[Any], class_names: Sequence[str], label_ids: Sequence[int]
    ) -> Self:
        return cls(protocols[0], class_name=class_names[0], label_id=label_ids[0])

    def _check_conventions(self, batch: Batch, state: AccumulatedRecords) -> None:
        super()._check_conventions(batch, state)
        if self.protocol.clipping == "image" and batch.num_images and batch.image_sizes is None:
            raise InputError(
                "boxes are clipped to the image, whose size is missing",
                where="targets, key 'image_size'",
                remedy="give (height, width) in every target",
            )
