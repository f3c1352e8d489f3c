"""Scenes as a data loader gives them: a stack of images, and a target for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.utils.data import DataLoader, Sampler

from torch_vocmetrics import DetectionAP, DetectionResult

from .detector import TinyDetector
from .scenes import CLASS_NAMES, Scene

Batch = tuple[Tensor, list[dict[str, Any]]]


def scene_loader(
    scenes: Sequence[Scene], batch_size: int = 8, sampler: Sampler[int] | None = None
) -> DataLoader[Scene]:
    """Batches of images [B, 3, H, W] and B targets, in order unless a sampler says otherwise."""
    return DataLoader(
        scenes,  # type: ignore[arg-type]  # a sequence is all that a loader asks for
        batch_size=batch_size,
        sampler=sampler,
        collate_fn=collate,
    )


def collate(scenes: Sequence[Scene]) -> Batch:
    """Stack the images; targets stay one dict an image, since their sizes differ."""
    return torch.stack([scene.image for scene in scenes]), [dict(scene.target) for scene in scenes]


def on_device(targets: list[dict[str, Any]], device: torch.device) -> list[dict[str, Any]]:
    """Targets for a loss on a device; a metric takes them from wherever they are."""
    return [
        {k: v.to(device) if isinstance(v, Tensor) else v for k, v in target.items()}
        for target in targets
    ]


class LossModel(nn.Module):
    """The detector as wrappers want it: ``forward`` gives the loss if there are targets."""

    def __init__(self) -> None:
        super().__init__()
        self.detector = TinyDetector(len(CLASS_NAMES))

    def forward(self, images: Tensor, targets: list[dict[str, Any]] | None = None) -> Any:
        """The loss where targets are given, else detections."""
        if targets is None:
            return self.detector(images)
        return self.detector.loss(images, targets)


def share_buffers(model: nn.Module) -> None:
    """Take rank 0's running means of batch norm, which each rank has counted by itself.

    Without this the ranks validate different models, whatever the metric.
    """
    if distributed.is_available() and distributed.is_initialized():
        for buffer in model.buffers():
            distributed.broadcast(buffer, src=0)


@torch.inference_mode()
def validate_alone(model: nn.Module, scenes: Sequence[Scene]) -> DetectionResult:
    """What one process gives for all scenes: what the trainers' numbers must equal."""
    metric = DetectionAP("voc2007", class_names=CLASS_NAMES)
    model.eval()
    device = next(model.parameters()).device
    for images, targets in scene_loader(scenes):
        metric.update(model(images.to(device)), targets)
    return metric.compute(sync=False)
