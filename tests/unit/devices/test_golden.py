"""Official values on the device branches: tests of ``tests/golden`` on the stand-in.

``pytest -p helpers.on_stand_in tests/golden`` runs all of them, which takes half an hour.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

TESTS = Path(__file__).resolve().parents[2]
# Not a divisor of how many tests of each case there are, so that all kinds are met.
ONE_IN = {
    "test_classification": 5,
    "test_coco_detection": 31,
    "test_voc_detection": 31,
    "test_segmentation": 3,
    "test_segm_cases": 3,
    "test_layout": 19,
    "test_crowdhuman": 7,
    "test_bbgt": 31,
    "test_citypersons": 7,
}


@pytest.mark.parametrize("name", ONE_IN)
def test_official_values_on_the_device_branches(name: str) -> None:
    environment = os.environ | {"ON_STAND_IN_EVERY": str(ONE_IN[name])}
    environment["PYTHONPATH"] = os.pathsep.join([str(TESTS), *sys.path])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
         "-p", "helpers.on_stand_in",
         str(TESTS / "golden" / f"{name}.py")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
    counted = re.search(r"'on the device': (\d+)", done.stdout)
    assert counted is not None
    assert int(counted[1]) > 0
    assert re.search(r"\d+ passed", done.stdout)
