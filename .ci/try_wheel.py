"""Use the installed wheel from outside the checkout: configs inside, metric and CLI at work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import torch

import torch_vocmetrics
from torch_vocmetrics import DetectionAP, load_dataset, protocol_names
from torch_vocmetrics.protocols import TASKS, config_root

site = Path(sys.argv[1]).resolve()
package = Path(torch_vocmetrics.__file__).resolve()
if site not in package.parents or site not in config_root().resolve().parents:
    sys.exit(f"not the wheel: {package}, {config_root()}")
lacking = [task for task in TASKS if not protocol_names(task)]
if lacking or not (package.parent / "py.typed").is_file() or not load_dataset("coco2017"):
    sys.exit(f"the wheel lacks files: {lacking or 'py.typed'}")

box, one = torch.tensor([[10.0, 10.0, 50.0, 50.0]]), torch.tensor([0])
found = {"boxes": box, "scores": torch.tensor([0.9]), "labels": one}
results = DetectionAP(["voc2007", "voc2012", "coco2017"], num_classes=1).update(
    [found], [{"boxes": box, "labels": one}]
)
if min(result.headline for result in results.compute().values()) < 0.999:
    sys.exit("a perfect detection is not perfect")

listed = subprocess.run(
    [sys.executable, "-m", "torch_vocmetrics", "protocols"],
    check=True,
    capture_output=True,
    text=True,
)
if "detection/voc2007" not in listed.stdout:
    sys.exit("the command line lists no protocols")
print(f"wheel: {package.parent.name} {torch_vocmetrics.__version__} works outside the checkout")
