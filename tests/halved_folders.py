"""Golden tests on folders of which half of the fixtures and cases were removed.

    python tests/halved_folders.py [SEED ...]

The tests over handed material must hold on any folder of the same form: they count nothing and name
no case. For every seed a copy of the folder named by ``VOCMETRICS_SHARED`` is made, in which about
half of the cases of every file, and every fourth file, are missing, and the golden tests run on it.
Real data stays as it is and is left out of the run.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).resolve().parent
LISTS = ("cases", "acfTest", "bbLoad", "bbApply", "curves", "annotations")
"""Lists of a fixture whose elements stand for themselves."""


def halved(entries: list[object], draw: random.Random) -> list[object]:
    """About half of the entries, in their order."""
    return [entry for entry in entries if draw.random() < 0.5]


def halve_fixture(path: Path, draw: random.Random) -> None:
    """Remove about half of the cases of a fixture."""
    content = json.loads(path.read_text())
    for name in LISTS:
        if isinstance(content.get(name), list):
            content[name] = halved(content[name], draw)
    path.write_text(json.dumps(content))


def halve_lines(path: Path, draw: random.Random) -> None:
    """Remove about half of the lines of a file of cases."""
    path.write_text("".join(f"{line}\n" for line in halved(path.read_text().splitlines(), draw)))


def halve_folder(source: Path, target: Path, seed: int) -> None:
    """Copy fixtures and cases, about half of them, and link the data."""
    draw = random.Random(seed)
    for name in ("fixtures", "cases"):
        (target / name).mkdir(parents=True)
        for path in sorted((source / name).iterdir()):
            if path.suffix == ".md" or draw.random() < 0.25:
                continue
            copy = Path(shutil.copyfile(path, target / name / path.name))
            if path.suffix == ".json":
                halve_fixture(copy, draw)
            elif path.suffix == ".jsonl":
                halve_lines(copy, draw)
    if (source / "data").is_dir():
        (target / "data").symlink_to(source / "data")


def run_golden_tests(shared: Path) -> int:
    """The exit status of pytest: 0, or 5 if nothing at all is left to test."""
    tests = [str(path) for path in sorted((TESTS / "golden").glob("test_*.py"))]
    tests = [path for path in tests if "data" not in Path(path).stem]
    tests += [str(TESTS / "unit" / "io"), str(TESTS / "distributed" / "test_ranks.py")]
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    environment = os.environ | {"VOCMETRICS_SHARED": str(shared)}
    return subprocess.run(argv, cwd=TESTS.parent, env=environment, check=False).returncode


def main(seeds: list[str]) -> int:
    """Run every seed; 1 if any of them fails."""
    beside = TESTS.parent.parent / "shared"
    source = Path(
        os.environ.get("VOCMETRICS_SHARED", beside if beside.is_dir() else TESTS / "golden")
    )
    failed = []
    for seed in map(int, seeds or ["1", "2", "3"]):
        with tempfile.TemporaryDirectory() as folder:
            halve_folder(source, Path(folder), seed)
            if run_golden_tests(Path(folder)) not in (0, 5):
                failed.append(seed)
    print(f"seeds that failed: {failed or 'none'}")
    return bool(failed)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
