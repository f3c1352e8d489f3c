"""``python -m mutation [WORD ...] [--jobs N]``, run in ``tests``: plant patches, list survivors.

Every worker has a copy of the tree. A patch is put into one file, the tests that it names run until
the first failure, and the file is restored. A failure, or no answer in time, means that the mistake
was noticed; without any patch the tests must pass, which is seen to first. Words choose the patches
of files whose path holds one of them. The exit status is 1 if a patch survives that is not marked
as equivalent, 2 if the tests fail by themselves.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import SimpleQueue

from mutation.patches import PACKAGE, TESTS, load_patches

NO_PATCH = -1
TREE = (PACKAGE, "configs", "tests", "benchmarks", "pyproject.toml", "README.md")


def copy_of_tree(folder: Path) -> Path:
    """What the tests need, in a folder of its own."""
    for name in TREE:
        source = TESTS.parent / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            folder.mkdir(exist_ok=True)
            shutil.copyfile(source, folder / name)
    return folder


def start_worker(tree: Path) -> subprocess.Popen[str]:
    """A process that answers numbers of patches (see ``mutation.worker``)."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join((str(tree), str(tree / "tests"))),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "VOCMETRICS_SHARED": str(tree / "tests" / "golden"),
    }
    argv = [sys.executable, "-m", "mutation.worker", str(tree)]
    pipe = subprocess.PIPE
    return subprocess.Popen(argv, cwd=tree, env=environment, stdin=pipe, stdout=pipe, text=True)


def answers(numbers: Sequence[int], jobs: int) -> Iterator[tuple[int, bool, int]]:
    """Each number of a patch, whether a test noticed it, and in how many seconds, as they come."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        workers = [start_worker(copy_of_tree(Path(folder) / str(job))) for job in range(jobs)]
        idle: SimpleQueue[subprocess.Popen[str]] = SimpleQueue()
        for worker in workers:
            idle.put(worker)

        def ask(number: int) -> tuple[int, bool, int]:
            worker = idle.get()
            try:
                assert worker.stdin is not None
                assert worker.stdout is not None
                print(number, file=worker.stdin, flush=True)
                told, noticed, seconds = worker.stdout.readline().split()
            finally:
                idle.put(worker)
            return int(told), noticed == "1", int(seconds)

        try:
            for answer in as_completed([pool.submit(ask, number) for number in numbers]):
                yield answer.result()
        finally:
            for worker in workers:
                worker.communicate()


def main() -> int:
    """Plant the chosen patches; 1 if one survives that should not."""
    parser = argparse.ArgumentParser(prog="mutation", description="Plant small mistakes.")
    parser.add_argument("words", nargs="*", metavar="WORD", help="parts of the paths of files")
    parser.add_argument("--jobs", type=int, default=2, help="patches that are tested at once")
    options = parser.parse_args()
    patches = load_patches()
    chosen = [
        number
        for number, patch in enumerate(patches)
        if not options.words or any(word in patch.file for word in options.words)
    ]
    ((_, broken, _),) = answers([NO_PATCH], 1)
    if broken:
        print("the tests fail without any patch: run them by themselves", file=sys.stderr)
        return 2
    left = []
    for number, noticed, seconds in answers(chosen, options.jobs):
        word = "noticed" if noticed else "SURVIVES"
        print(f"{word:8} {seconds:4} s  {patches[number]}", flush=True)
        if not noticed:
            left.append(patches[number])
    print(f"\n{len(chosen)} patches, {len(left)} survivors")
    for patch in left:
        print(
            f"  {patch}\n    {patch.equivalent or 'NOT EXPLAINED: write a test that fails for it'}"
        )
    return int(any(not patch.equivalent for patch in left))


if __name__ == "__main__":
    raise SystemExit(main())
