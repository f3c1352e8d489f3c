"""``python -m mutation.worker TREE``: run tests with a patch or without, one line of stdin each.

The worker imports what is slow to import and has no mistakes planted in it (torch, NumPy, pytest),
and forks a process for the tests of every patch. So the package and the tests are imported anew
each time, and no patch sees what another left behind. Runs without a patch leave compiled files.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch

from mutation.patches import PACKAGE, load_patches

CPU_SECONDS = 120
"""Processor time that one run of tests gets: what others do on the machine does not count."""
SECONDS = 900
"""Time that one run of tests gets, should it sleep."""

PASSED, FAILED, NO_END = "passed", "failed", "no end"


def run_tests(tree: Path, tests: Sequence[str], *, keep_bytecode: bool) -> tuple[str, float]:
    """How the tests ended in a process of its own, and the seconds of processor time.

    What they printed is in the file ``output`` of the tree.
    """
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
        output = os.open(tree / "output", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream, target in ((0, os.open(os.devnull, os.O_RDONLY)), (1, output), (2, output)):
            os.dup2(target, stream)
        os.chdir(tree)
        sys.dont_write_bytecode = not keep_bytecode
        os.environ["PYTHONDONTWRITEBYTECODE"] = "" if keep_bytecode else "1"
        for name in tests:  # file by file, as most mistakes fail in the first
            argv = ["-x", "-q", "-p", "no:cacheprovider", str(tree / "tests" / name)]
            if code := int(pytest.main(argv)):
                os._exit(code)
        os._exit(0)
    latest = time.monotonic() + SECONDS
    done, status, usage = os.wait4(child, os.WNOHANG)
    while not done and time.monotonic() < latest:
        time.sleep(0.05)
        done, status, usage = os.wait4(child, os.WNOHANG)
    if not done:
        os.killpg(child, signal.SIGKILL)
        _, status, usage = os.wait4(child, 0)
    code = os.waitstatus_to_exitcode(status)
    ended = NO_END if code < 0 else FAILED if code else PASSED
    return ended, usage.ru_utime + usage.ru_stime


@contextmanager
def planted(tree: Path, number: int) -> Iterator[None]:
    """A patch in the tree.

    A file has another time with the patch and its own again without, so that its compiled form
    is used for the original only, also if two versions of one size are written within a second.
    """
    patch = load_patches()[number]
    path = tree / PACKAGE / patch.file
    source, original = path.read_text(encoding="utf-8"), path.stat().st_mtime
    try:
        path.write_text(patch.applied(source), encoding="utf-8")
        os.utime(path, (original + 10, original + 10))
        yield
    finally:
        path.write_text(source, encoding="utf-8")
        os.utime(path, (original, original))


def main() -> None:
    """Answer every ``[number of a patch or null, tests]`` with ``[how they ended, seconds]``."""
    tree = Path(sys.argv[1])
    assert not any(name.split(".")[0] == PACKAGE for name in sys.modules)
    assert np.zeros(1).size == torch.zeros(1).numel()  # both are loaded, once for all patches
    sys.path[:] = [str(tree), str(tree / "tests"), *sys.path]
    for line in sys.stdin:
        number, tests = json.loads(line)
        with nullcontext() if number is None else planted(tree, number):
            answer = run_tests(tree, tests, keep_bytecode=number is None)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
