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

import numpy as np
import pytest

pytestmark = pytest.mark.slow

triton = pytest.importorskip("triton", reason="Triton is not to be had on this platform")

if (
    tuple(map(int, triton.__version__.split(".")[:2])) < (3, 7)
    and np.lib.NumpyVersion(np.__version__) >= "2.4.0"
):
    pytest.skip(
        "the interpreter of Triton 3.6 and older fails beside NumPy 2.4 and newer",
        allow_module_level=True,
    )

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
    "mutation", ["first", "strict", "reusable", "iou for crowds", "one shape", "used", "came"]
)
def test_a_wrong_kernel_would_be_found(mutation: str) -> None:
    report = run("interpret.py", "12", mutation, interpret=True)
    assert report["differing"], f"the inputs do not tell {mutation!r}"


def test_interpreted_kernel_of_label_maps_is_the_plain_path() -> None:
    """Every number type and layout of memory, ties, both zeros, infinities, void and faults."""
    report = run("interpret_maps.py", interpret=True)
    assert report["differing"] == []
    assert report["cases"] > 35
    assert report["pixels"] > 50_000
    assert report["faults"] > 30


@pytest.mark.parametrize("mutation", ["last", "below", "void"])
def test_a_wrong_kernel_of_label_maps_would_be_found(mutation: str) -> None:
    report = run("interpret_maps.py", mutation, interpret=True)
    assert len(report["differing"]) > 5, f"the inputs do not tell {mutation!r}"


def test_interpreted_kernels_of_masks_are_the_plain_path() -> None:
    """Every number type and size around a word, gaps in memory, runs of length 0, crowds."""
    report = run("interpret_masks.py", interpret=True)
    assert report["differing"] == []
    assert report["bits"] > 30_000
    assert report["meeting"] > 15


@pytest.mark.parametrize(
    "mutation", ["at half", "sign", "one pixel later", "crowds", "areas", "classes"]
)
def test_a_wrong_kernel_of_masks_would_be_found(mutation: str) -> None:
    report = run("interpret_masks.py", mutation, interpret=True)
    assert report["differing"], f"the inputs do not tell {mutation!r}"


def test_every_metric_with_interpreted_kernels() -> None:
    """From input to result on a stand-in for a device, all operators as their kernels."""
    report = run("end_to_end.py", interpret=True)
    assert report["differing"] == []
    assert report["metrics"] > 10
    names = ("match_word", "tally_maps", "pack_masks", "mask_overlaps")
    assert all(report["kernels"][f"torch_vocmetrics.{name}"] > 0 for name in names)


def test_kernels_compile_for_three_generations(capsys: pytest.CaptureFixture[str]) -> None:
    """No fused multiply-add and no float32 in float64 arithmetic, nearly nothing spilled."""
    rows = run("compile.py", interpret=False)
    assert {row["capability"] for row in rows} == {80, 90, 100}
    for row in rows:
        assert row["fma"] == 0, row
        if row["kernel"] in ("match_kernel", "overlap_kernel"):
            # The overlap of a match is recorded in float32, and no other number is.
            assert row["float32"] <= (2 if row["kernel"] == "match_kernel" else 0), row
            assert (row["divisions"] > 0) != row["what"].endswith(" masks"), row
        assert row["local_bytes"] == 0, row
        # Of the largest histogram, with 32 warps of 64 registers a thread.
        assert row["stack_bytes"] <= (64 if row["kernel"] == "tally_kernel" else 0), row
        assert row["registers"] <= 255, row
        assert row["shared_bytes"] <= 160 * 1024, row
    with capsys.disabled():
        print("\nkernel: registers and shared bytes on sm_80, sm_90, sm_100")
        for name, what in dict.fromkeys((row["kernel"], row["what"]) for row in rows):
            same = [row for row in rows if (row["kernel"], row["what"]) == (name, what)]
            used = ", ".join(f"{row['registers']} and {row['shared_bytes']}" for row in same)
            print(f"  {name}, {what}, {same[0]['warps']} warps: {used}")
