"""How much `import torch_vocmetrics` adds to `import torch`: at most 0.1 s (median of 7)."""

from __future__ import annotations

import statistics
import subprocess
import sys

LIMIT = 0.1
CODE = """
import time, torch
start = time.perf_counter()
import torch_vocmetrics
print(time.perf_counter() - start)
"""


def main() -> int:
    seconds = [
        float(subprocess.run([sys.executable, "-c", CODE], check=True, capture_output=True).stdout)
        for _ in range(7)
    ]
    added = statistics.median(seconds)
    print(f"import torch_vocmetrics adds {added:.3f} s to import torch (limit {LIMIT} s)")
    return int(added > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
