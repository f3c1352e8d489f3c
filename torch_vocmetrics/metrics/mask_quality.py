"""How good masks are where boxes are right: box against mask IoU of the same detections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from ..errors import InputError, StateError
from ..host_work import host_work
from ..inputs.box_formats import read_box_formats
from ..inputs.images import (
    fault_on_host,
    pack,
    suspects_on_device,
)
from ..inputs.keys import warn_of_unread_keys
from ..inputs.packing import Rows
from ..inputs.per_image import refuse_other_ids
from ..inputs.rules import InputRules
from ..matching.masks import overlaps_of_pairs
from ..matching.pairs import Pairs, candidate_pairs
from ..ops.boxes import box_columns, intersection_over_union, pair_intersections
from ..ragged import image_of_row, starts_of_images
from .classes import ClassNames, read_classes


@dataclass(frozen=True, eq=False, kw_only=True)
class MaskQualityResult:
    """Detections whose box is right, one entry each: the scatter of box against mask IoU.

    Attributes:
        class_names: K names.
        label: [N] int64 class.
        box_iou, mask_iou: [N] float64, with the object of the same class whose box fits best.
        mean_mask_iou: [K] float64, NaN for a class without right boxes.
        num_detections: [K] int64.
    """

    class_names: tuple[str, ...]
    label: Tensor
    box_iou: Tensor
    mask_iou: Tensor
    mean_mask_iou: Tensor
    num_detections: Tensor

    def to_dict(self) -> dict[str, float]:
        """Flat numbers for a logger; undefined is NaN."""
        mean = float(self.mask_iou.mean()) if self.mask_iou.numel() else float("nan")
        values = zip(self.class_names, self.mean_mask_iou.tolist(), strict=True)
        return {"mask_IoU": mean} | {f"mask_IoU/{name}": value for name, value in values}


class MaskQuality:
    """Mask IoU of detections whose box IoU reaches a threshold, over any number of batches.

    Each detection is compared with the object of its class in its image whose box it overlaps most,
    the first among equals; crowds are no objects here. Boxes are continuous.

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
        classes = read_classes(num_classes, class_names, label_ids)
        self.class_names, self.label_ids = classes.names, classes.labels
        self.iou_threshold = iou_threshold
        self._rules = InputRules(
            len(classes.names),
            classes.label_ids,
            read_box_formats(box_format),
            inverted_boxes=False,
            masks=True,
        )
        self._unread_keys = frozenset[str]()
        self._parts: list[tuple[Tensor, ...]] = []

    @host_work()
    def update(self, predictions: Sequence[Rows], targets: Sequence[Rows]) -> Self:
        """Add a batch of images; may wait for the device.

        Args:
            predictions, targets: as for ``DetectionAP`` with boxes and masks.

        Raises:
            InputError: naming image, key and remedy.
        """
        batch = pack(predictions, targets, self._rules, None)
        errors = [fault_on_host(batch)]
        errors += [one.error(one.details.tolist()) for one in suspects_on_device(batch, 0)]
        for error in errors:
            if error is not None:
                raise error
        refuse_other_ids([flag for flag in (batch.other_ids,) if flag is not None])
        if unread := batch.unread_keys - self._unread_keys:
            self._unread_keys |= unread
            warn_of_unread_keys(unread)
        self._parts.append(tuple(column.cpu() for column in self._compared(batch)))
        return self

    @host_work()
    def compute(self) -> MaskQualityResult:
        """The scatter and the means of all since ``reset``."""
        columns = zip(*self._parts, strict=True) if self._parts else ((), (), ())
        kinds = (torch.int64, torch.float64, torch.float64)
        label, box_iou, mask_iou = (
            torch.cat([torch.zeros(0, dtype=kind, device="cpu"), *parts])
            for kind, parts in zip(kinds, columns, strict=True)
        )
        K = len(self.class_names)
        means = [mask_iou[label == k].mean() for k in range(K)]  # of nothing: NaN
        return MaskQualityResult(
            class_names=self.class_names,
            label=label,
            box_iou=box_iou,
            mask_iou=mask_iou,
            mean_mask_iou=torch.stack(means),
            num_detections=torch.bincount(label, minlength=K),
        )

    def merge(self, *others: Self) -> Self:
        """Add the images of others of the same classes and threshold; they keep their own.

        Raises:
            InputError: if an argument is no ``MaskQuality``.
            StateError: if classes, label ids or threshold differ.
        """
        for other in others:
            if not isinstance(other, MaskQuality):
                got = type(other).__name__
                raise InputError("must be MaskQuality objects", where="merge", got=got)
            for name in ("class_names", "label_ids", "iou_threshold"):
                mine, its = getattr(self, name), getattr(other, name)
                if mine != its:
                    raise StateError(
                        f"must be of the same {name} as {mine}", where="merge", got=its
                    )
        for other in others:
            self._parts = [*self._parts, *other._parts]
        return self

    def reset(self) -> Self:
        """Forget everything."""
        self._parts = []
        return self

    def _compared(self, batch: Any) -> tuple[Tensor, Tensor, Tensor]:
        """Label, box IoU and mask IoU of the right boxes of a batch."""
        found, true = batch.detections, batch.ground_truths
        device, K = found.boxes.device, len(self.class_names)
        crowd = true.flags & 2 != 0
        group = image_of_row(found.counts, device) * K + found.labels
        owner = image_of_row(true.counts, device) * K + true.labels
        owner = torch.where(crowd, -1, owner)
        pairs = candidate_pairs(group, owner)
        first = box_columns(found.boxes, found.box_format, inclusive=False).rows(pairs.detection)
        second = box_columns(true.boxes, true.box_format, inclusive=False).rows(pairs.ground_truth)
        common = pair_intersections(first, second, inclusive=False)
        iou = intersection_over_union(common, first.area, second.area)
        best = torch.zeros_like(group, dtype=torch.float64)
        best = best.scatter_reduce(0, pairs.detection, iou, "amax")
        right = (iou == best.index_select(0, pairs.detection)) & (iou >= self.iou_threshold)
        rows = right.nonzero().squeeze(1)
        i, j = (column.index_select(0, rows) for column in pairs)
        if i.numel():  # pairs come by detection: the first of each is the first among equals
            leads = torch.ones_like(i, dtype=torch.bool)
            leads[1:] = i[1:] != i[:-1]
            i, j, rows = i[leads], j[leads], rows[leads]
        starts = (starts_of_images(found.counts, device), starts_of_images(true.counts, device))
        crowds = crowd.index_select(0, j)
        masks = overlaps_of_pairs(Pairs(i, j), (found.masks, true.masks), starts, crowds)
        return found.labels.index_select(0, i), iou.index_select(0, rows), masks
