"""Annotations of a ``pycocotools.coco.COCO`` object as targets, image by image."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torch_vocmetrics import InputError

PROTOCOLS = {"bbox": "coco2017", "segm": "coco2017_segm"}
"""By pycocotools' name of what is compared."""


class CocoTruth:
    """What an evaluator needs of the annotations of a data set.

    Args:
        coco: a ``COCO`` object.
        masks: whether targets have masks.

    Attributes:
        class_names: {category id: name}, of all categories.
    """

    def __init__(self, coco: Any, *, masks: bool) -> None:
        self._coco, self._masks = coco, masks
        categories = coco.loadCats(coco.getCatIds())
        names = {one["id"]: str(one.get("name", one["id"])) for one in categories}
        distinct = len({*names.values()}) == len(names)
        self.class_names: dict[int, str] = {
            category: names[category] if distinct else f"{names[category]}#{category}"
            for category in sorted(names)
        }

    def target(self, image_id: int) -> dict[str, Any]:
        """Boxes as ``xywh``, labels that are category ids, areas, crowds and the image id.

        Raises:
            InputError: if the data set has no such image.
        """
        if image_id not in self._coco.imgs:
            raise InputError("the annotations have no such image", where="image_id", got=image_id)
        rows = self._coco.imgToAnns.get(image_id, [])
        boxes = torch.tensor([one["bbox"] for one in rows], dtype=torch.float64)
        target: dict[str, Any] = {
            "boxes": boxes.reshape(-1, 4),
            "labels": torch.tensor([one["category_id"] for one in rows], dtype=torch.int64),
            "area": torch.tensor([one["area"] for one in rows], dtype=torch.float64),
            "iscrowd": torch.tensor([bool(one.get("iscrowd", 0)) for one in rows]),
            "image_id": image_id,
        }
        if self._masks:
            target["masks"] = [self._coco.annToRLE(one) for one in rows]
        return target


def as_xywh(boxes: Tensor) -> Tensor:
    """Corners as corner and size, subtracted in the type of ``boxes`` as evaluators of COCO do."""
    boxes = boxes.reshape(-1, 4)
    return torch.cat([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]], dim=1)


def as_masks(masks: Tensor) -> Tensor:
    """[N, H, W] bool of masks or probabilities [N, H, W] or [N, 1, H, W]: those above one half."""
    masks = masks.squeeze(1) if masks.dim() == 4 else masks
    return masks if masks.dtype == torch.bool else masks > 0.5
