"""``python -m mutation [WORD ...] [--jobs N]``, run in ``tests``: plant patches, list survivors.

Every worker has a copy of the tree. First all tests that the patches name run without any patch and
must pass. Then each patch is put into its file, the tests that it names run until the first
failure, and the file is restored. A failure, or no end, means that the mistake was noticed. Words
choose the patches of files whose path holds one of them. The exit status is 1 if a patch survives
that is not marked as equivalent, 2 if the tests fail by themselves or a patch does not apply.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from mutation.patches import PACKAGE, TESTS, Patch, load_patches
from mutation.worker import FAILED, NO_END, PASSED

TREE = (PACKAGE, "configs", "tests", "benchmarks", "pyproject.toml", "README.md")
WORDS = {PASSED: "SURVIVES", FAILED: "noticed", NO_END: "no end"}


def copy_of_tree(folder: Path) -> Path:
    """What the tests need, in a folder of its own."""
    for name in TREE:
        source = TESTS.parent / name
        if source.is_dir():
            shutil.copytree(source, folder / name)
        else:
            folder.mkdir(exist_ok=True)
            shutil.copyfile(source, folder / name)
    return folder


class Worker:
    """A process that runs tests in a tree of its own (see ``mutation.worker``)."""

    def __init__(self, tree: Path) -> None:
        self.tree = copy_of_tree(tree)
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join((str(tree), str(tree / "tests"))),
            "OMP_NUM_THREADS": "1",
            "VOCMETRICS_SHARED": str(tree / "tests" / "golden"),
        }
        argv = [sys.executable, "-m", "mutation.worker", str(tree)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            argv, cwd=tree, env=environment, stdin=pipe, stdout=pipe, text=True
        )

    def ask(self, number: int | None, tests: Sequence[str]) -> tuple[str, float, str]:
        """How the tests ended with a patch in the tree, in which time, and the end of the output.

        Args:
            number: of the patch; None for none.
            tests: what to run.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps([number, tests]), file=self.process.stdin, flush=True)
        ended, seconds = json.loads(self.process.stdout.readline())
        return ended, seconds, (self.tree / "output").read_text(errors="replace")[-3000:]


class Answer(NamedTuple):
    """A question to a worker, and what it found."""

    number: int | None
    tests: Sequence[str]
    ended: str
    seconds: float
    output: str


class Workers:
    """Some workers; each question goes to the next that is idle."""

    def __init__(self, folder: Path, jobs: int) -> None:
        self.all = [Worker(folder / str(job)) for job in range(jobs)]
        self.idle: SimpleQueue[Worker] = SimpleQueue()
        for worker in self.all:
            self.idle.put(worker)

    def _ask(self, number: int | None, tests: Sequence[str]) -> Answer:
        worker = self.idle.get()
        try:
            return Answer(number, tests, *worker.ask(number, tests))
        finally:
            self.idle.put(worker)

    def ask(self, questions: Sequence[tuple[int | None, Sequence[str]]]) -> Iterator[Answer]:
        """The answers as they come."""
        with ThreadPoolExecutor(len(self.all)) as pool:
            for answer in as_completed([pool.submit(self._ask, *each) for each in questions]):
                yield answer.result()


@contextmanager
def some_workers(jobs: int) -> Iterator[Workers]:
    """Workers, which end with the block."""
    with tempfile.TemporaryDirectory() as folder:
        workers = Workers(Path(folder), jobs)
        try:
            yield workers
        finally:
            for worker in workers.all:
                worker.process.communicate()


def wrong_patches(patches: Sequence[Patch]) -> list[str]:
    """Why some patches cannot be planted."""
    wrong = []
    for patch in patches:
        try:
            patch.applied((TESTS.parent / PACKAGE / patch.file).read_text(encoding="utf-8"))
        except ValueError as error:
            wrong.append(str(error))
    return wrong


def tests_pass(patches: Sequence[Patch], workers: Workers) -> bool:
    """Whether all tests that the patches name pass without any patch."""
    named = sorted({name for patch in patches for name in patch.tests})
    alone = [name for name in named if name.split("::")[0] not in named or "::" not in name]
    sound = True
    for answer in workers.ask([(None, [name]) for name in alone]):
        print(f"unpatched {answer.ended:7} {answer.seconds:6.1f} s  {answer.tests[0]}", flush=True)
        if answer.ended != PASSED:
            print(answer.output, flush=True)
            sound = False
    return sound


def table_of(patches: Sequence[Patch], left: Sequence[Patch]) -> str:
    """How many patches of each part of the package were noticed."""
    lines = [f"{'part':24} {'patches':>7} {'noticed':>7} {'equivalent':>10} {'survivors':>9}"]
    part_of = {patch: patch.file.partition("/")[0].removesuffix(".py") for patch in patches}
    equivalent = Counter(part_of[patch] for patch in left if patch.equivalent)
    alive = Counter(part_of[patch] for patch in left if not patch.equivalent)
    counts = Counter(part_of.values())
    for part in [*sorted(counts), "all"]:
        total, same, bad = (
            sum(one.values()) if part == "all" else one[part] for one in (counts, equivalent, alive)
        )
        lines.append(f"{part:24} {total:7} {total - same - bad:7} {same:10} {bad:9}")
    return "\n".join(lines)


def main() -> int:
    """Plant the chosen patches; 1 if one survives that should not."""
    parser = argparse.ArgumentParser(prog="mutation", description="Plant small mistakes.")
    parser.add_argument("words", nargs="*", metavar="WORD", help="parts of the paths of files")
    parser.add_argument("--jobs", type=int, default=2, help="patches that are tested at once")
    options = parser.parse_args()
    started = time.monotonic()
    patches = [
        patch
        for patch in load_patches()
        if not options.words or any(word in patch.file for word in options.words)
    ]
    numbers = {patch: number for number, patch in enumerate(load_patches())}
    if wrong := wrong_patches(patches):
        print("\n".join(wrong), file=sys.stderr)
        return 2
    left = []
    with some_workers(options.jobs) as workers:
        if not tests_pass(patches, workers):
            print("tests fail without any patch: mend that first", file=sys.stderr)
            return 2
        everything = load_patches()
        for answer in workers.ask([(numbers[patch], patch.tests) for patch in patches]):
            assert answer.number is not None
            patch = everything[answer.number]
            print(f"{WORDS[answer.ended]:8} {answer.seconds:6.1f} s  {patch}", flush=True)
            if answer.ended == PASSED:
                left.append(patch)
    print(f"\n{table_of(patches, left)}\n\nsurvivors:")
    for patch in left:
        print(f"  {patch}\n    {patch.equivalent or 'NOT EXPLAINED: write a test that fails'}")
    print(f"\n{(time.monotonic() - started) / 60:.1f} minutes with {options.jobs} workers")
    return int(any(not patch.equivalent for patch in left))


if __name__ == "__main__":
    raise SystemExit(main())
