"""Every metric on the stand-in, operators as their kernels in the interpreter; prints JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from distributed.registry import SUBJECTS, images
from helpers.host_backed_cuda import host_backed_cuda, moved

IMAGES = 4


def numbers(result: Any) -> list[Any]:
    parts = result.values() if isinstance(result, dict) else [result]
    return [repr(item) for part in parts for item in part.to_dict().items()]


report: dict[str, Any] = {"differing": [], "metrics": 0, "kernels": {}}
for name, subject in SUBJECTS.items():
    host, there = subject.new(), subject.new()
    with host_backed_cuda(kernels=True) as counts:
        for image in images(subject, IMAGES, ids=True):
            host.update(*image)
            there.update(*moved(image))
        if numbers(there.compute()) != numbers(host.compute()):
            report["differing"].append(name)
    report["metrics"] += 1
    for operator, number in counts.operators.items():
        if operator.startswith("torch_vocmetrics."):
            report["kernels"][operator] = report["kernels"].get(operator, 0) + number
print(json.dumps(report))
