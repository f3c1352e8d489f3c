"""``python -m mutation.worker TREE``: plant patches in a tree, by the numbers that come on stdin.

The worker imports what is slow to import and has no mistakes planted in it (torch, NumPy, pytest),
and forks a process for the tests of every patch. So the package and the tests are imported anew
each time, and no patch sees what another left behind.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from mutation.patches import PACKAGE, Patch, load_patches

SECONDS = 900
"""Time that one run of tests gets."""


def run_tests(tree: Path, tests: Sequence[str]) -> int:
    """The exit status of pytest in a process of its own; -1 where it does not end in time."""
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        silence = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(silence, stream)
        os.chdir(tree)
        argv = ["-x", "-q", "-p", "no:cacheprovider"]
        os._exit(int(pytest.main(argv + [str(tree / "tests" / name) for name in tests])))
    for _ in range(SECONDS * 20):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -1


def is_noticed(patch: Patch, tree: Path) -> bool:
    """Whether a test fails, or does not end in time, with the patch in the tree."""
    path = tree / PACKAGE / patch.file
    source = path.read_text(encoding="utf-8")
    try:
        path.write_text(patch.applied(source), encoding="utf-8")
        return run_tests(tree, patch.tests) != 0
    finally:
        path.write_text(source, encoding="utf-8")


def main() -> None:
    """Answer every number with a line: the number, 1 if the patch was noticed, the seconds.

    The number -1 stands for no patch, and for all tests that any patch names.
    """
    tree = Path(sys.argv[1])
    assert not any(name.split(".")[0] == PACKAGE for name in sys.modules)
    assert np.zeros(1).size == torch.zeros(1).numel()  # both are loaded, once for all patches
    sys.path[:] = [str(tree), str(tree / "tests"), *sys.path]
    for name in [name for name in sys.modules if name.split(".")[0] == "mutation"]:
        del sys.modules[name]  # tests import it from the tree
    patches = load_patches()
    for line in sys.stdin:
        started = time.monotonic()
        if int(line) < 0:
            named = {name.split("::")[0] for patch in patches for name in patch.tests}
            noticed = run_tests(tree, sorted(named)) != 0
        else:
            noticed = is_noticed(patches[int(line)], tree)
        print(int(line), int(noticed), f"{time.monotonic() - started:.0f}", flush=True)


if __name__ == "__main__":
    main()
