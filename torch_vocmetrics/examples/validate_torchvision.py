"""Detection models of torchvision as they are, Mask R-CNN's masks included; weights are random.

``python -m torch_vocmetrics.examples.validate_torchvision --models maskrcnn_resnet50_fpn``
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torchvision.models import get_model

from torch_vocmetrics import DetectionAP, DetectionResult

from .scenes import CLASS_NAMES, SIZE, Scene, make_scenes

MODELS = (
    "fasterrcnn_mobilenet_v3_large_320_fpn",
    "ssdlite320_mobilenet_v3_large",
    "maskrcnn_resnet50_fpn",
)
LABEL_IDS = [1, 2, 3]  # torchvision keeps 0 for the background


def target_of(scene: Scene) -> dict[str, Any]:
    """A scene's target as torchvision wants it to train: labels from 1, and masks [M, H, W]."""
    rows = torch.arange(len(scene.target["labels"]))  # type: ignore[arg-type]
    labels = scene.target["labels"] + 1
    return scene.target | {"labels": labels, "masks": scene.owner == rows[:, None, None]}


@torch.inference_mode()
def validate(model: nn.Module, scenes: Sequence[Scene]) -> dict[str, DetectionResult]:
    """COCO's numbers for boxes, and for masks if the model has them (probabilities, above 0.5)."""
    has_masks = getattr(getattr(model, "roi_heads", None), "mask_head", None) is not None
    protocols = ["coco2017", "coco2017_segm"] if has_masks else ["coco2017"]
    metric = DetectionAP(protocols, class_names=CLASS_NAMES, label_ids=LABEL_IDS)
    device = next(model.parameters()).device
    model.eval()
    for start in range(0, len(scenes), 4):
        batch = scenes[start : start + 4]
        images: list[Tensor] = [scene.image.to(device) for scene in batch]
        metric.update(model(images), [target_of(scene) for scene in batch])
    return metric.compute()


def run(options: argparse.Namespace) -> dict[str, dict[str, DetectionResult]]:
    """Validate each model and print its headlines."""
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    scenes = make_scenes(options.scenes, seed=(0, 0))
    results = {}
    for name in options.models:
        sizes = {} if name.startswith("ssd") else {"min_size": SIZE, "max_size": SIZE}
        plain = {"weights": None, "weights_backbone": None, "num_classes": 1 + len(CLASS_NAMES)}
        results[name] = validate(get_model(name, **plain, **sizes).to(device), scenes)
        for protocol, result in results[name].items():
            print(f"{name}: {protocol} AP {result.headline!r}, {result.num_detections} detections")
    return results


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--scenes", type=int, default=8)
    run(parser.parse_args(arguments))


if __name__ == "__main__":
    main()
