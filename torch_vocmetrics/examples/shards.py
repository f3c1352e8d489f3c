"""A data set in shards, each of which any machine can evaluate: a state file is all it leaves."""

from __future__ import annotations

from pathlib import Path

import torch

from torch_vocmetrics import DetectionAP

from .detector import TinyDetector
from .loaders import scene_loader
from .scenes import CLASS_NAMES, make_scenes


def trained_detector() -> TinyDetector:
    """A detector of fixed weights, in place of one that is loaded from a file."""
    torch.manual_seed(0)
    return TinyDetector(len(CLASS_NAMES)).eval()


@torch.inference_mode()
def evaluate_shard(shard: int, num_shards: int, num_scenes: int, folder: str) -> str:
    """Evaluate every ``num_shards``-th scene and give the path of the state file.

    An engine may run a shard again, after a lost machine or only to be sure: the file appears whole
    or not at all, and has the same content.
    """
    scenes = make_scenes(num_scenes, seed=(0, 0))[shard::num_shards]
    model, metric = trained_detector(), DetectionAP("voc2007", class_names=CLASS_NAMES)
    for images, targets in scene_loader(scenes):
        metric.update(model(images), targets)
    path = Path(folder, f"shard_{shard}.npz")
    metric.save_state(path)
    return str(path)
