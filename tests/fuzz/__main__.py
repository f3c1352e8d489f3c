"""``python -m fuzz [NAME ...] [--minutes N | --cases N] [--first SEED]``, run in ``tests``."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

import torch

from fuzz.campaign import Campaign, Report, campaigns, run

SECONDS_APART = 60
"""Between two lines of progress."""

SEEDS_APART = 10**9
"""``--seed`` times this is the seed of the first case, so that two runs share no case."""


def main() -> int:
    """Run the campaigns; 1 if any of them found a fault."""
    known = campaigns()
    parser = argparse.ArgumentParser(prog="fuzz", description="Search for faults at random.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(known)}")
    parser.add_argument("--minutes", type=float, default=5.0, help="of all campaigns together")
    parser.add_argument("--cases", type=int, help="of each campaign, in place of a time")
    parser.add_argument("--seed", type=int, default=0, help="another number makes other cases")
    parser.add_argument("--first", type=int, help="the seed of the first case itself")
    options = parser.parse_args()
    names = options.names or list(known)
    if unknown := set(names) - known.keys():
        parser.error(f"no campaign {', '.join(sorted(unknown))}")
    first = options.seed * SEEDS_APART if options.first is None else options.first
    seconds = None if options.cases is not None else 60 * options.minutes / len(names)
    torch.set_num_threads(1)
    reports = []
    for name in names:
        reports.append(
            run(
                known[name],
                first=first,
                cases=options.cases,
                seconds=seconds,
                after_case=progress(known[name]),
            )
        )
        show(known[name], reports[-1])
    return int(any(report.findings for report in reports))


def progress(campaign: Campaign) -> Callable[[Report], None]:
    """Print the counts so far on standard error, but not after every case."""
    printed = time.monotonic()

    def after_case(report: Report) -> None:
        nonlocal printed
        if time.monotonic() - printed >= SECONDS_APART:
            printed = time.monotonic()
            print(f"{campaign.name}: {summary(report)}", file=sys.stderr, flush=True)

    return after_case


def summary(report: Report) -> str:
    """Cases, problems, findings and time in one line."""
    cases, problems = report.cases + len(report.findings), sum(report.counts.values())
    counted = (
        f"{cases} cases" if problems == report.cases else f"{cases} cases, {problems} problems"
    )
    return f"{counted} in {report.seconds:.0f} s, {len(report.findings)} findings"


def show(campaign: Campaign, report: Report) -> None:
    """Print the counts, and every finding with the command that repeats it."""
    print(f"{campaign.name}: {campaign.looks_for}")
    print(f"  {summary(report)}")
    for kind, count in sorted(report.counts.items()):
        print(f"  {count:9d}  {kind}")
    for seed, error in report.findings.items():
        print(f"  FINDING, repeat: python -m fuzz {campaign.name} --first {seed} --cases 1")
        print("    " + error.replace("\n", "\n    "))
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
