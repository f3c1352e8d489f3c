"""How much `from torch_vocmetrics import *` adds to `import torch`: at most 0.1 s (median of 7)."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys

LIMIT = 0.1
CODE = """
import time, torch
start = time.perf_counter()
from torch_vocmetrics import *
print(time.perf_counter() - start)
"""


def measure() -> float:
    # With byte code, as any second import has it: the first run writes it.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    run = subprocess.run(
        [sys.executable, "-c", CODE], env=environment, check=True, capture_output=True
    )
    return float(run.stdout)


def main() -> int:
    added = statistics.median([measure() for _ in range(8)][1:])
    print(f"torch_vocmetrics adds {added:.3f} s to import torch (limit {LIMIT} s)")
    return int(added > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
