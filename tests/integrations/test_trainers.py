"""Each example runs with the real library, and the trainer's number is the metric's own."""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.metadata
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import torch_vocmetrics
from torch_vocmetrics.examples.loaders import validate_alone
from torch_vocmetrics.examples.scenes import CLASS_NAMES, make_scenes

TRAIN, VALIDATION = 128, 37
OPTIONS = argparse.Namespace(train_scenes=TRAIN, validation_scenes=VALIDATION, devices=1)
SIZES = ["--train-scenes", str(TRAIN), "--validation-scenes", str(VALIDATION)]
EXAMPLES = Path(torch_vocmetrics.__file__).parent / "examples"
NUMBER = r"([0-9.e-]+)"


def example(name: str, package: str) -> ModuleType:
    """The example's module; the test is skipped if the trainer is not installed."""
    try:
        version = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{package} is not installed: it comes with the extra trainers")
    print(f"{package} {version}")
    return importlib.import_module(f"torch_vocmetrics.examples.{name}")


def validation_scenes() -> list[Any]:
    return make_scenes(VALIDATION, seed=(0, 0))


def run_alone(*arguments: str, **variables: str) -> str:
    """What a program prints; it ends with all its children if it takes too long."""
    with subprocess.Popen(
        [sys.executable, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"} | variables,
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=100)
        except subprocess.TimeoutExpired:
            process.terminate()  # torchrun ends its workers, which are in sessions of their own
            process.wait(30)
            os.killpg(process.pid, signal.SIGKILL)
            raise
    assert process.returncode == 0, output
    return output


def torchrun(module: str) -> str:
    command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    return run_alone(*command, "-m", f"torch_vocmetrics.examples.{module}", *SIZES)


@pytest.fixture(autouse=True)
def _one_thread() -> Any:
    """Small convolutions are faster so, and as the processes of torchrun have it."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_torchrun() -> None:
    print(f"torch {torch.__version__}")
    output = torchrun("train_with_torchrun")
    words = f"{VALIDATION} images, mAP {NUMBER}"
    together = re.findall(rf"rank \d of 2: {words}", output)
    (alone,) = re.findall(f"rank 0 alone: {words}", output)
    assert len(together) == 2, output
    assert together[0] == together[1]
    assert float(alone) == pytest.approx(float(together[0]), rel=1e-3)
    assert float(alone) > 0


# Lightning's own reading of torch's tree specs.
@pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning")
def test_lightning() -> None:
    module = example("train_with_lightning", "lightning")
    example("train_with_lightning", "torchmetrics")
    trained, logged = module.run(OPTIONS)
    alone = validate_alone(trained.model, validation_scenes())
    assert logged["val/mAP_2007"] == pytest.approx(alone.headline, rel=1e-6)
    assert set(logged) >= {"val/AP", "val/mAP_2007", "val/mAP_2012"}
    assert alone.headline > 0


def test_lightning_on_two_processes() -> None:
    example("train_with_lightning", "lightning")
    program = "torch_vocmetrics.examples.train_with_lightning"
    output = run_alone("-m", program, "--devices", "2", *SIZES)
    rows = re.findall(r"rank \d of 2: (\{[^{}]*\})", output)
    assert len(rows) == 2, output
    assert rows[0] == rows[1]
    assert "1 repeated images were dropped" in output  # 37 images on two ranks
    assert float(re.findall(rf"'val/mAP_2007': {NUMBER}", rows[0])[0]) > 0


def test_accelerate() -> None:
    module = example("train_with_accelerate", "accelerate")
    model, result = module.run(OPTIONS)
    assert result.num_images == VALIDATION
    assert result.headline == validate_alone(model, validation_scenes()).headline
    assert result.headline > 0


def test_accelerate_on_two_processes() -> None:
    example("train_with_accelerate", "accelerate")
    output = torchrun("train_with_accelerate")
    rows = re.findall(rf"process \d of 2: {VALIDATION} images, mAP {NUMBER}", output)
    assert len(rows) == 2, output
    assert rows[0] == rows[1]
    assert float(rows[0]) > 0


def test_transformers() -> None:
    module = example("train_with_transformers", "transformers")
    model, numbers = module.run(OPTIONS)
    alone = validate_alone(model, validation_scenes())
    assert numbers["eval_mAP"] == alone.headline > 0
    assert {f"eval_AP/{name}" for name in CLASS_NAMES} <= set(numbers)


def test_ignite() -> None:
    module = example("train_with_ignite", "pytorch-ignite")
    model, numbers = module.run(OPTIONS)
    alone = validate_alone(model, validation_scenes())
    assert numbers == alone.to_dict()
    assert numbers["mAP"] > 0


def test_torchvision() -> None:
    module = example("validate_torchvision", "torchvision")
    results = module.run(argparse.Namespace(models=module.MODELS, scenes=4))
    assert set(results["maskrcnn_resnet50_fpn"]) == {"coco2017", "coco2017_segm"}
    for by_protocol in results.values():
        for result in by_protocol.values():
            assert result.num_images == 4
            assert result.num_detections > 0
            assert 0 <= result.headline < 0.1


def test_torchvision_masks_are_probabilities() -> None:
    """The target's own masks, given in the form of Mask R-CNN, are right."""
    module = example("validate_torchvision", "torchvision")

    class Oracle(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(1))
            self.roi_heads = torch.nn.Module()
            self.roi_heads.mask_head = torch.nn.Identity()
            self.scenes = iter(make_scenes(4, seed=(0, 0)))

        def forward(self, images: list[torch.Tensor]) -> list[dict[str, torch.Tensor]]:
            targets = [module.target_of(next(self.scenes)) for _ in images]
            return [
                {
                    "boxes": target["boxes"],
                    "labels": target["labels"],
                    "scores": torch.ones(len(target["labels"])),
                    "masks": target["masks"][:, None] * 0.4 + 0.3,
                }
                for target in targets
            ]

    results = module.validate(Oracle(), make_scenes(4, seed=(0, 0)))
    for result in results.values():
        assert result.headline == pytest.approx(1.0)


def ultralytics_environment(folder: Path) -> dict[str, str]:
    """No settings in the home directory, no look at the network."""
    return {"YOLO_CONFIG_DIR": str(folder), "YOLO_OFFLINE": "true", "YOLO_VERBOSE": "false"}


def test_ultralytics(tmp_path: Path) -> None:
    """In a process of its own: the package replaces functions of torch, PIL and OpenCV."""
    pytest.importorskip("cv2")
    try:
        print(f"ultralytics {importlib.metadata.version('ultralytics')}")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("ultralytics is not installed: it comes with the extra trainers")
    output = run_alone("-c", ULTRALYTICS_PROGRAM, **ultralytics_environment(tmp_path))
    assert "as expected" in output


ULTRALYTICS_PROGRAM = """
import argparse, torch
from torch_vocmetrics import DetectionAP
from torch_vocmetrics.examples import train_with_ultralytics as example
from torch_vocmetrics.examples.scenes import CLASS_NAMES

options = argparse.Namespace(
    model="yolo11n.yaml", epochs=2, train_scenes=32, validation_scenes=9
)
history = example.run(options)
assert len(history) == 3, history  # two epochs, and the best weights at the end
assert all(0 <= numbers["AP50"] <= 1 for numbers in history)

# A validator's batch: two images of 60 x 80 made to fit 64 x 64, and the boxes as they are.
ratio_pad = ((0.8, 0.8), (0.0, 8.0))
batch = dict(
    img=torch.zeros(2, 3, 64, 64), batch_idx=torch.tensor([0.0, 0.0, 1.0]),
    cls=torch.tensor([[0.0], [2.0], [1.0]]), ori_shape=[(60, 80)] * 2, ratio_pad=[ratio_pad] * 2,
    bboxes=torch.tensor([[0.5, 0.5, 0.25, 0.25], [0.25, 0.5, 0.25, 0.5], [0.5, 0.5, 0.5, 0.5]]),
    im_file=["a.png", "b.png"],
)
predictions = [
    dict(bboxes=torch.tensor([[24.0, 24, 40, 40], [8, 16, 24, 48]]),
         conf=torch.tensor([0.9, 0.8]), cls=torch.tensor([0.0, 2.0])),
    dict(bboxes=torch.tensor([[16.0, 16, 48, 48]]), conf=torch.ones(1), cls=torch.ones(1)),
]
detections, targets = example.in_original_pixels(predictions, batch)
assert detections[0]["boxes"][0].tolist() == [30.0, 20.0, 50.0, 40.0]
metric = DetectionAP("coco2017", class_names=CLASS_NAMES).update(detections, targets)
assert abs(metric.compute().headline - 1) < 1e-12
print("as expected")
"""


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("train_with_*.py")), ids=lambda p: p.stem)
def test_examples_are_small_and_say_what_they_do(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 120
    nodes = ast.parse(text).body
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            assert ast.get_docstring(node), node.name
    assert f"torch_vocmetrics.examples.{path.stem}" in (ast.get_docstring(ast.parse(text)) or "")


def test_packages_load_none_of_these() -> None:
    names = ["lightning", "torchmetrics", "accelerate", "transformers", "ignite", "ultralytics"]
    code = f"import sys, torch_vocmetrics; print(set({names}) & set(sys.modules))"
    assert run_alone("-c", code).strip() == "set()"
