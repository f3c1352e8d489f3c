"""The Triton kernel: interpreted against the plain path, compiled without a card.

Interpreting is decided when Triton is imported, so each runs in a process of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

pytest.importorskip("triton", reason="Triton is not to be had on this platform")

PROGRAMS = Path(__file__).parent / "kernel_programs"


def run(program: str, *arguments: str, interpret: bool) -> Any:
    environment = os.environ | {"TRITON_INTERPRET": "1" if interpret else "0"}
    done = subprocess.run(
        [sys.executable, str(PROGRAMS / program), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_interpreted_kernel_is_the_plain_path() -> None:
    """Every random and directed input: the same bits; enough of them to mean something."""
    report = run("interpret.py", "50", interpret=True)
    assert report["differing"] == []
    assert report["detections"] > 800
    assert report["true_positives"] > 100
    assert report["ignored"] > 300
    assert report["contested"] > 50


@pytest.mark.parametrize(
    "mutation", ["first", "strict", "reusable", "iou for crowds", "one shape", "used"]
)
def test_a_wrong_kernel_would_be_found(mutation: str) -> None:
    report = run("interpret.py", "12", mutation, interpret=True)
    assert report["differing"], f"the inputs do not tell {mutation!r}"


def test_kernel_compiles_for_ampere_and_hopper(capsys: pytest.CaptureFixture[str]) -> None:
    """No fused multiply-add and no float32 in float64 arithmetic, nothing spilled."""
    rows = run("compile.py", interpret=False)
    assert {row["capability"] for row in rows} == {80, 90}
    for row in rows:
        assert row["fma"] == 0, row
        assert row["float32"] == 0, row
        assert row["divisions"] > 0, row
        assert row["local_bytes"] == row["stack_bytes"] == 0, row
        assert row["registers"] <= 255, row
    with capsys.disabled():
        print(
            "\nkernel registers (sm/objects/best only/two shapes):",
            *(describe(row) for row in rows),
        )


def describe(row: dict[str, Any]) -> str:
    kind = f"{row['capability']}/{row['size']}/{row['best_only']:d}/{row['two_shapes']:d}"
    return f"{kind}={row['registers']}"
