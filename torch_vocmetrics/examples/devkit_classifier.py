"""The development kit's classifier: which classes an image shows, comp1 results, evaluated twice.

``python -m torch_vocmetrics.examples.devkit_classifier --output VOC2007``
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from torch_vocmetrics import ClassificationAP, io

from . import devkit
from .scenes import CLASS_NAMES, Scene, make_scenes


class Classifier(nn.Module):
    """A few convolutions; a class is there if any place says so."""

    def __init__(self) -> None:
        super().__init__()
        sizes = (3, 16, 32, 64)
        layers: list[nn.Module] = []
        for inputs, outputs in zip(sizes, sizes[1:], strict=False):
            convolution = nn.Conv2d(inputs, outputs, 3, stride=2, padding=1, bias=False)
            layers += [convolution, nn.BatchNorm2d(outputs), nn.ReLU()]
        self.body = nn.Sequential(*layers, nn.Conv2d(64, 64, 3, padding=1), nn.ReLU())
        self.head = nn.Conv2d(64, len(CLASS_NAMES), 1)

    def forward(self, images: Tensor) -> Tensor:
        """[B, K] logits."""
        logits: Tensor = self.head(self.body(images - 0.5))
        return logits.amax(dim=(2, 3))


def labels_of(scene: Scene) -> Tensor:
    """[K] 1 where the class is there, -1 where not, 0 where only difficult objects of it are."""
    labels, difficult = (torch.as_tensor(scene.target[key]) for key in ("labels", "difficult"))
    found = torch.full((len(CLASS_NAMES),), -1)
    found[labels[difficult]] = 0
    found[labels[~difficult]] = 1
    return found


def train(scenes: Sequence[Scene], epochs: int) -> Classifier:
    """A classifier that has seen these scenes some times; difficult ones teach nothing."""
    torch.manual_seed(0)
    model = Classifier()
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    for _ in range(epochs):
        for rows in torch.randperm(len(scenes)).split(16):
            images = torch.stack([scenes[row].image for row in rows])
            labels = torch.stack([labels_of(scenes[row]) for row in rows])
            loss = functional.binary_cross_entropy_with_logits(
                model(images), (labels > 0).float(), weight=(labels != 0).float()
            )
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return model.eval()


def program(
    folder: Path, options: argparse.Namespace
) -> tuple[dict[str, float], dict[str, float]]:
    """The numbers of the command and those of the metric object."""
    model = train(make_scenes(options.train_scenes, seed=(0, 1)), options.epochs)
    scenes = make_scenes(options.scenes, seed=(0, 0))
    ids = devkit.image_ids(scenes)
    with torch.inference_mode():
        scores = model(torch.stack([scene.image for scene in scenes]))
    labels = torch.stack([labels_of(scene) for scene in scenes])

    devkit.write_kit(folder, scenes)
    for k, name in enumerate(CLASS_NAMES):
        listed = folder / "ImageSets" / "Main" / f"{name}_test.txt"
        io.write_class_set(listed, dict(zip(ids, labels[:, k].tolist(), strict=True)))
        results = folder / "results" / f"comp1_cls_test_{name}.txt"
        io.write_scores(results, dict(zip(ids, scores[:, k].tolist(), strict=True)))
    files = devkit.evaluate_files(
        "classification/voc2007",
        *("--ground-truth", folder, "--classes", devkit.CLASSES),
        *("--detections", folder / "results" / "comp1_cls_test_{class}.txt"),
    )

    metric = ClassificationAP("voc2007", class_names=CLASS_NAMES)
    return files, metric.update(scores, labels, ids).compute().to_dict()


def main(arguments: Sequence[str] | None = None) -> dict[str, float]:
    """Run, and exit with an error if files and tensors differ."""
    return devkit.run_program(__doc__, program, arguments)


if __name__ == "__main__":
    main()
