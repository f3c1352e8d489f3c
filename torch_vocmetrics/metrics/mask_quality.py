"""How good masks are where boxes are right: box against mask IoU of the same detections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor

from ..matching import Chunk, MatchedChunk, match_chunk
from ..matching.masks import overlaps_of_pairs
from ..matching.pairs import Pairs
from ..protocols import DetectionProtocol, load_protocol
from ..ragged import starts_of_images
from ..results.table import Table
from ..tables.records import MatchRecords
from .classes import ClassNames
from .recorded import RecordMetric
from .unread import HOST


@dataclass(frozen=True, eq=False, kw_only=True)
class MaskQualityResult(Table):
    """Detections whose box is right, one entry each: the scatter of box against mask IoU.

    Attributes:
        class_names: K names.
        label: [N] int64 class.
        box_iou, mask_iou: [N] float32, with the object of the same class whose box fits best.
        mean_mask_iou: [K] float64, NaN for a class without right boxes.
        num_detections: [K] int64.
    """

    class_names: tuple[str, ...]
    label: Tensor
    box_iou: Tensor
    mask_iou: Tensor
    mean_mask_iou: Tensor
    num_detections: Tensor

    def columns(self) -> dict[str, Sequence[Any] | Tensor]:
        """The scatter: one row for each detection whose box is right."""
        return {"label": self.label, "box_iou": self.box_iou, "mask_iou": self.mask_iou}

    def to_dict(self) -> dict[str, float]:
        """Flat numbers for a logger; undefined is NaN."""
        mean = float(self.mask_iou.double().mean())  # of nothing: NaN
        values = zip(self.class_names, self.mean_mask_iou.tolist(), strict=True)
        return {"mask_IoU": mean} | {f"mask_IoU/{name}": value for name, value in values}


class MaskQuality(RecordMetric[MaskQualityResult]):
    """Mask IoU of detections whose box IoU reaches a threshold, over any number of batches.

    Each detection is compared with the object of its class in its image whose box it overlaps most,
    the first among equals; crowds are no objects here. Boxes are continuous. Overlaps are recorded
    as float32, and matching is done on the host.

    Args:
        num_classes, class_names, label_ids, box_format: as for ``DetectionAP``.
        iou_threshold: a box is right from this IoU on.

    Source: COCO paper (Lin et al. 2014, arXiv:1405.0312), section 7.2 and figure 9: segmentation
    against bounding box IoU of correct detections.

    Example:
        >>> mask = torch.zeros(1, 4, 4, dtype=torch.bool)
        >>> mask[:, :, :2] = True
        >>> box, one = torch.tensor([[0.0, 0.0, 2.0, 4.0]]), torch.tensor([0])
        >>> found = {"boxes": box, "labels": one, "scores": torch.ones(1), "masks": mask}
        >>> half = mask.clone()
        >>> half[:, 2:] = False
        >>> quality = MaskQuality(class_names=["cat"])
        >>> quality.update([found | {"masks": half}], [found]).compute().to_dict()
        {'mask_IoU': 0.5, 'mask_IoU/cat': 0.5}
    """

    def __init__(
        self,
        *,
        num_classes: int | None = None,
        class_names: ClassNames | None = None,
        label_ids: Sequence[int] | None = None,
        box_format: str = "xyxy",
        iou_threshold: float = 0.5,
    ) -> None:
        coco = load_protocol("detection/coco2017", DetectionProtocol)
        protocol = replace(
            coco,
            name="mask_quality",
            iou_thresholds=(iou_threshold,),
            area_ranges=coco.area_ranges[:1],
            max_detections=(),
        )
        super().__init__(
            [protocol],
            num_classes=num_classes,
            class_names=class_names,
            label_ids=label_ids,
            box_format=box_format,
            diagnostics=True,
        )
        self._rules = self._rules._replace(masks=True)

    @property
    def iou_threshold(self) -> float:
        """The box IoU from which a box is right."""
        threshold: float = self.protocols[0].iou_thresholds[0]
        return threshold

    def _match(self, protocol: Any, chunk: Chunk) -> MatchedChunk:
        """Records with the mask overlap of each detection and its best ground truth."""
        device, chunk = chunk.device, chunk.to(HOST)
        records = match_chunk(protocol, chunk, diagnostics=True).records
        assert records.index is not None
        assert records.best_ground_truth is not None
        partner, image = records.best_ground_truth.long(), records.image.long()
        sides = chunk.detections, chunk.ground_truths
        starts = [starts_of_images(side.counts, HOST) for side in sides]
        came = starts[0].index_select(0, image) + records.index
        rows = (partner >= 0).nonzero().squeeze(1)
        rows = rows.index_select(0, came.index_select(0, rows).argsort())  # images must rise
        overlaps = overlaps_of_pairs(
            Pairs(came.index_select(0, rows), partner.index_select(0, rows)),
            (chunk.detections.masks or (), chunk.ground_truths.masks or ()),
            starts,
            torch.zeros_like(rows, dtype=torch.bool),
        )
        column = torch.zeros(records.num_detections, dtype=torch.float32, device="cpu")
        column.index_copy_(0, rows, overlaps.float())
        return MatchedChunk(replace(records, mask_overlap=column).to(device))

    def _result(self, distinct: Sequence[Sequence[MatchRecords]]) -> MaskQualityResult:
        records = MatchRecords.cat(distinct[0]).to(HOST)
        K = len(self.class_names)
        if records.best_overlap is None or records.mask_overlap is None:
            nothing = torch.zeros(0, dtype=torch.float32, device="cpu")
            label, box_iou, mask_iou = nothing.long(), nothing, nothing
        else:
            right = (records.best_overlap.double() >= self.iou_threshold).nonzero().squeeze(1)
            label, box_iou, mask_iou = (
                column.index_select(0, right)
                for column in (records.label, records.best_overlap, records.mask_overlap)
            )
        means = [mask_iou[label == k].double().mean() for k in range(K)]  # of nothing: NaN
        return MaskQualityResult(
            class_names=self.class_names,
            label=label,
            box_iou=box_iou,
            mask_iou=mask_iou,
            mean_mask_iou=torch.stack(means),
            num_detections=torch.bincount(label, minlength=K),
        )

    @classmethod
    def _of(
        cls, protocols: Sequence[Any], class_names: Sequence[str], label_ids: Sequence[int]
    ) -> Self:
        return cls(
            class_names=class_names,
            label_ids=label_ids,
            iou_threshold=protocols[0].iou_thresholds[0],
        )
