"""What a campaign is, and how its cases are run, counted and reported."""

from __future__ import annotations

import importlib
import itertools
import pkgutil
import signal
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

import fuzz

CASE_SECONDS = 120
"""A case that takes longer is a finding."""


@dataclass(frozen=True)
class Campaign:
    """A search for faults of one kind.

    Attributes:
        name: the name of its module.
        looks_for: what a case checks, in one line.
        case: runs the case of a seed and returns the kind under which it is counted, or how many
            problems of each kind it was. Whatever it raises is a finding. Equal seeds give equal
            cases.
        quick: how many cases the test suite runs.
    """

    name: str
    looks_for: str
    case: Callable[[int], str | Counter[str]]
    quick: int = 20


@dataclass
class Report:
    """What came of a campaign.

    Attributes:
        cases: how many were run without a finding.
        counts: problems by kind, as ``Campaign.case`` named it.
        findings: the traceback of each seed whose case raised.
        seconds: how long it took.
    """

    cases: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    findings: dict[int, str] = field(default_factory=dict)
    seconds: float = 0.0


class Overtime(BaseException):
    """A case took longer than ``CASE_SECONDS``; no ``except Exception`` swallows it."""


def campaigns() -> dict[str, Campaign]:
    """All campaigns of the package by name."""
    modules = (
        importlib.import_module(f"fuzz.{info.name}")
        for info in pkgutil.iter_modules(fuzz.__path__)
        if not info.name.startswith(("_", "test_"))
    )
    found = [module.CAMPAIGN for module in modules if hasattr(module, "CAMPAIGN")]
    return {campaign.name: campaign for campaign in found}


def run(
    campaign: Campaign,
    *,
    first: int = 0,
    cases: int | None = None,
    seconds: float | None = None,
    most_findings: int = 5,
    after_case: Callable[[Report], None] = lambda report: None,
) -> Report:
    """Run the cases of the seeds from ``first`` on.

    Args:
        campaign: what to run.
        first: the seed of the first case.
        cases: how many cases; None for as many as the time allows.
        seconds: no case begins after so many seconds; None for no limit.
        most_findings: the campaign ends after so many.
        after_case: called after every case with what there is so far.
    """
    report, start = Report(), time.monotonic()
    for seed in itertools.count(first) if cases is None else range(first, first + cases):
        if seconds is not None and time.monotonic() - start >= seconds:
            break
        try:
            with _limited(CASE_SECONDS), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                kind = campaign.case(seed)
            report.counts.update([kind] if isinstance(kind, str) else kind)
            report.cases += 1
        except (Exception, Overtime):
            report.findings[seed] = traceback.format_exc()
            if len(report.findings) >= most_findings:
                break
        finally:
            report.seconds = time.monotonic() - start
        after_case(report)
    return report


@contextmanager
def _limited(seconds: int) -> Iterator[None]:
    """Interrupt Python code after so many seconds."""

    def stop(signum: int, frame: FrameType | None) -> None:
        raise Overtime(f"the case took longer than {seconds} s")

    previous = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)
