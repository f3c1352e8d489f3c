"""A detector small enough to learn on a CPU in a minute: centres on a heat map, sides of boxes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

STRIDE = 4  # pixels from one cell of the heat map to the next
MAX_DETECTIONS, MIN_SCORE = 20, 0.01  # what is kept of an image
BOX_WEIGHT = 2.0  # of the box loss beside the heat loss


class TinyDetector(nn.Module):
    """Anchor-free detector after CenterNet (heat map) and FCOS (distances to the four sides).

    Images are [B, 3, H, W] float32 in [0, 1], height and width multiples of 8. There are K classes,
    and P = H/4 * W/4 cells in the maps.
    """

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.fine = nn.Sequential(_block(3, 16, 2), _block(16, 32, 2))
        self.coarse = nn.Sequential(_block(32, 64, 2), _block(64, 64), _block(64, 64))
        self.join = nn.Sequential(_block(96, 64), _block(64, 64))
        self.head = nn.Conv2d(64, num_classes + 4, 1)
        start = torch.tensor([-3.0] * num_classes + [2.0] * 4)  # rare centres, sides of 8 pixels
        self.head.bias = nn.Parameter(start)

    def forward(self, images: Tensor) -> list[dict[str, Tensor]]:
        """Per image ``boxes`` [N, 4] xyxy in pixels, ``scores`` [N], ``labels`` [N] int64."""
        logits, boxes, shape = self._maps(images)
        heat = logits.sigmoid().view(len(images), self.num_classes, *shape)
        is_peak = heat == functional.max_pool2d(heat, 3, stride=1, padding=1)
        scores, places = (heat * is_peak).flatten(1).topk(MAX_DETECTIONS)  # [B, 20]
        cells, labels = places % boxes.shape[1], places // boxes.shape[1]
        boxes = boxes.gather(1, cells[..., None].expand(-1, -1, 4))
        return [
            {"boxes": box[keep], "scores": score[keep], "labels": label[keep]}
            for box, score, label, keep in zip(
                boxes, scores, labels, scores > MIN_SCORE, strict=True
            )
        ]

    def loss(self, images: Tensor, targets: list[dict[str, Any]]) -> Tensor:
        """Focal loss of the heat map per object plus mean 1 - IoU of the boxes near centres."""
        logits, boxes, shape = self._maps(images)
        heat, best, weight = _encode(targets, self.num_classes, shape)
        focus = (heat - logits.sigmoid()).square() * weight[:, None]
        surprise = functional.binary_cross_entropy_with_logits(logits, heat, reduction="none")
        heat_loss = (focus * surprise).sum()
        num_objects = sum(len(target["labels"]) for target in targets)

        near = heat.amax(dim=1)
        near = near * (near > 0.3)  # [B, P]
        box_loss = ((1 - _iou(boxes, best)) * near).sum() / near.sum().clamp(min=1)
        return heat_loss / max(num_objects, 1) + BOX_WEIGHT * box_loss

    def _maps(self, images: Tensor) -> tuple[Tensor, Tensor, tuple[int, int]]:
        """Logits of the heat map [B, K, P], boxes [B, P, 4], and (rows, columns) of the cells."""
        fine = self.fine(images - 0.5)
        coarse = functional.interpolate(self.coarse(fine), scale_factor=2.0)
        out = self.head(self.join(torch.cat([fine, coarse], dim=1)))
        shape = (out.shape[2], out.shape[3])
        logits, sides = out.flatten(2).split([self.num_classes, 4], dim=1)
        near, far = (STRIDE * functional.softplus(sides.transpose(1, 2))).chunk(2, dim=-1)
        centres = _centres(shape, out.device)
        return logits, torch.cat([centres - near, centres + far], dim=-1), shape


def _block(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    convolution = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))


def _centres(shape: tuple[int, int], device: torch.device) -> Tensor:
    """Middle (x, y) of every cell in pixels, [P, 2]."""
    down, right = ((torch.arange(n, device=device) + 0.5) * STRIDE for n in shape)
    return torch.cartesian_prod(down, right).flip(1)


def _iou(a: Tensor, b: Tensor) -> Tensor:
    """IoU of boxes [..., 4] with the boxes in the same places, [...]."""
    low, high = torch.maximum(a[..., :2], b[..., :2]), torch.minimum(a[..., 2:], b[..., 2:])
    shared = (high - low).clamp(min=0).prod(dim=-1)
    areas = [(box[..., 2:] - box[..., :2]).prod(dim=-1) for box in (a, b)]
    return shared / (areas[0] + areas[1] - shared).clamp(min=1e-6)


def _encode(
    targets: list[dict[str, Any]], num_classes: int, shape: tuple[int, int]
) -> tuple[Tensor, Tensor, Tensor]:
    """What the maps should be: heat [B, K, P], the box of the nearest object [B, P, 4], and the
    weight of each cell [B, P], 0 inside a crowd, where nobody knows which centres there are.
    """
    # Every image gets M objects; the last one is always padding, with label -1.
    boxes = functional.pad(
        pad_sequence([t["boxes"] for t in targets], batch_first=True), (0, 0, 0, 1)
    )
    crowd = functional.pad(pad_sequence([t["iscrowd"] for t in targets], batch_first=True), (0, 1))
    labels = pad_sequence([t["labels"] + 1 for t in targets], batch_first=True)
    labels = functional.pad(labels, (0, 1)) - 1
    low, high = boxes[:, :, None, :2], boxes[:, :, None, 2:]  # [B, M, 1, 2]
    cells = _centres(shape, boxes.device)

    middle = (((low + high) / 2 / STRIDE).floor() + 0.5) * STRIDE
    away = (cells - middle) / ((high - low) / 8).clamp(min=1)  # [B, M, P, 2]
    bump = (-away.square().sum(dim=-1) / 2).exp() * ((labels >= 0) & ~crowd)[..., None]
    is_class = labels[..., None] == torch.arange(num_classes, device=labels.device)
    heat = (bump[:, :, None] * is_class[..., None]).amax(dim=1)
    best = boxes.gather(1, bump.argmax(dim=1)[..., None].expand(-1, -1, 4))
    in_crowd = ((cells > low) & (cells < high)).all(dim=-1) & crowd[..., None]
    return heat, best, torch.maximum(1.0 - in_crowd.any(dim=1).float(), heat.amax(dim=1))
