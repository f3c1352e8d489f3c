"""Damaged files of every format: a result, or one error in one line, within memory and time.

Files are read in a child process, which may take ``CHILD_BYTES`` beside what it has and
``CHILD_SECONDS`` a file. A signal, another exception, and a sentence of several lines are findings.
"""

from __future__ import annotations

import functools
import os
import random
import resource
import signal
import tempfile
import traceback
from pathlib import Path

from torch_vocmetrics import VocMetricsError

from .campaign import Campaign
from .formats import FORMATS, Format

CHILD_BYTES = 2**30
CHILD_SECONDS = 20
FILES = 20  # of one case
_READ = "\nread: "


@functools.cache
def _seeds(number: int) -> list[bytes]:
    return FORMATS[number].seeds()


def _case(seed: int) -> str:
    """Damage and read ``FILES`` files of one format; the kind says the format."""
    chance = random.Random(seed)
    number = seed % len(FORMATS)
    form, whole = FORMATS[number], _seeds(number)
    check(form, [form.damage(chance, chance.choice(whole)) for _ in range(FILES)])
    return form.name


def check(form: Format, files: list[bytes]) -> None:
    """Read files in a child process.

    Raises:
        AssertionError: if the child dies, or a reader does anything but read or refuse.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report"
        status = _in_child(form, files, Path(folder), report)
        said = report.read_text(encoding="utf-8", errors="replace")
    if status != 0:
        signal_number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        raise AssertionError(
            f"{form.name}, file {said.count(_READ)}: signal {signal_number}\n{said}"
        )


def outcome(form: Format, path: Path) -> str:
    """Read a file.

    Raises:
        AssertionError: if the sentence of an error is none.
    """
    try:
        form.read(path)
    except VocMetricsError as error:
        said = str(error)
    except OSError as error:  # no such file, or a name that no file system has
        said = str(error)
    else:
        return "a result"
    assert said.isprintable(), said
    assert 0 < len(said) < 10_000, len(said)
    return "an error"


def _in_child(form: Format, files: list[bytes], folder: Path, report: Path) -> int:
    """The wait status of a child that reads the files; what it says is in ``report``."""
    report.write_text("")
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    try:
        with report.open("a", encoding="utf-8", errors="replace") as says:
            try:
                _limit_memory()
                for number, data in enumerate(files):
                    inner = folder / f"{number}"
                    inner.mkdir()
                    (inner / form.name).write_bytes(data)
                    signal.signal(signal.SIGALRM, signal.SIG_DFL)
                    signal.alarm(CHILD_SECONDS)
                    says.write(f"{_READ}{outcome(form, inner / form.name)}")
                    says.flush()
            except BaseException:
                says.write("\n" + traceback.format_exc())
                says.flush()
                os._exit(1)
    finally:
        os._exit(0)


def _limit_memory() -> None:
    """Let this process take ``CHILD_BYTES`` beside the addresses that it has."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    most = pages * resource.getpagesize() + CHILD_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


CAMPAIGN = Campaign(
    name="damage",
    looks_for=f"damaged files of {len(FORMATS)} formats are read or refused, {FILES} a case",
    case=_case,
    quick=len(FORMATS),
)
