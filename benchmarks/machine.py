"""What results say of the machine and the versions: nothing that names a place or a person."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

import torch_vocmetrics

RESULTS = Path(__file__).resolve().parent / "results"


def cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def description() -> dict[str, Any]:
    """Fields that every results file has."""
    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "torch_vocmetrics": torch_vocmetrics.__version__,
    }


def save(path: Path, content: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")


def results_path(workload: str, device: str) -> Path:
    """``<version>--<workload>--<device>.json`` among the results."""
    return RESULTS / f"{torch_vocmetrics.__version__}--{workload}--{device}.json"
