"""One of eight ranks is lost at every step: the others say so in time, and a rerun is the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from distributed.faults import RANKS, STEPS, TIMEOUT

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).with_name("faults.py")
ROOT = PROGRAM.parents[2]
SPARE = 30  # seconds beside the timeout, on a busy machine


def test_survivors_raise_and_a_rerun_gives_the_same_bits(tmp_path: Path) -> None:
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "tests")))
    done = subprocess.run(
        [sys.executable, PROGRAM, tmp_path],
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": paths},
        stdout=subprocess.PIPE, text=True, check=True, timeout=600,
    )  # fmt: skip
    print(done.stdout)
    found = json.loads((tmp_path / "faults.json").read_text())
    assert list(found) == list(STEPS)
    for step, outcome in found.items():
        for rank, one in enumerate(outcome["seen"]):
            if rank == outcome["victim"]:
                assert one is None, step
                continue
            assert one is not None, f"{step}: rank {rank} hung"
            assert "a rank was lost, or did not come in time" in one["seen"], (step, rank)
            assert one["seconds"] < TIMEOUT + SPARE, (step, rank)
        assert outcome["rerun is the same"], step
    assert RANKS == 8
