"""Detection against its peers: seconds and peak memory from tensors to the final numbers.

Each competitor runs in a process of its own and in turn with ours, so that a slower moment of the
machine falls on both. Its numbers are compared with ours in the same run. After a warm-up on a few
images the first run of a process measures memory; it is not timed, but for those so slow that it is
their only one. Exit code 1 if numbers differ, or if the whole workload was run and a limit is
missed.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import torch

from benchmarks import machine
from benchmarks.competitors import COMPETITORS, NUMBERS, load_workload, version_of
from benchmarks.workloads import COCO_IMAGES, shared_data

MEBI = 2**20
ENOUGH_PAIRS = 3
OURS, OURS_VOC, LOOP = "ours", "ours (VOC2007)", "Python loop (VOC2007)"
OURS_VOC_BY_BATCHES = "ours by batches (VOC2007)"
TORCHMETRICS_FASTER = "torchmetrics + faster-coco-eval"
PEERS = [name for name in COMPETITORS if "VOC2007" not in name and name != OURS]
SEVEN = 7


class Worker:
    """A competitor in a process of its own, which runs when it is told to."""

    def __init__(self, name: str, workload: Path) -> None:
        self.name = name
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.competitors", name, str(workload)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).resolve().parents[1],
        )
        self._answer()

    def measure(self) -> dict[str, Any]:
        return self._ask("measure 1")

    def run(self, threads: int) -> dict[str, Any]:
        return self._ask(f"run {threads}")

    def updates(self, threads: int, batch: int) -> dict[str, Any]:
        """Mean seconds of ``update`` in batches of a size, matching of the last chunk included."""
        return self._ask(f"updates {threads} {batch}")

    def _ask(self, line: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        print(line, file=self._process.stdin, flush=True)
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            _, errors = self._process.communicate()
            raise RuntimeError(f"{self.name} ended: {errors[-2000:]}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()


class Verdict(NamedTuple):
    """A measured value beside its limit; ``passed`` is None where it was not measured."""

    what: str
    measured: float | None
    limit: float
    unit: str

    @property
    def passed(self) -> bool | None:
        return None if self.measured is None else self.measured <= self.limit

    def line(self) -> str:
        word = {True: "ok    ", False: "MISSED", None: "not run"}[self.passed]
        got = "-" if self.measured is None else f"{self.measured:.4g}"
        return f"{word} {self.what}: {got} (limit {self.limit:.4g} {self.unit})".rstrip()

    def as_dict(self) -> dict[str, Any]:
        return {**self._asdict(), "passed": self.passed}


def difference(mine: Sequence[float], theirs: Sequence[float]) -> float:
    """Largest difference of two rows of numbers; undefined beside a number is infinite."""
    largest = 0.0
    for a, b in zip(mine, theirs, strict=True):
        if math.isnan(a) != math.isnan(b):
            return math.inf
        largest = max(largest, 0.0 if math.isnan(a) else abs(a - b))
    return largest


THREADS = (1, 2)


def against(ours: Worker, first: dict[str, Any], theirs: Worker, pairs: int) -> Any:
    """One competitor's entry of the results: memory and parity of its first run, then pairs.

    Ours has one thread in half of the pairs and two in the others; the faster half stands.
    """
    competitor = COMPETITORS[theirs.name]
    start = theirs.measure()
    most = min(pairs, competitor.most_pairs or pairs)
    runs: dict[int, list[tuple[float, float]]] = {threads: [] for threads in THREADS}
    for _ in range(most):
        for threads, times in runs.items():
            mine = ours.run(threads)["seconds"]
            times.append((mine, start["seconds"] if most == 1 else theirs.run(1)["seconds"]))
    medians = {n: [statistics.median(side) for side in zip(*runs[n], strict=True)] for n in THREADS}
    threads = min(THREADS, key=lambda threads: medians[threads][0])
    apart = difference(first["numbers"], start["numbers"])
    return {
        "version": version_of(theirs.name),
        "pairs": most,
        "threads": threads,
        "seconds": medians[threads][1],
        "ours_seconds": medians[threads][0],
        "time_ratio": statistics.median(mine / other for mine, other in runs[threads]),
        "peak_bytes": start["peak_bytes"],
        "memory_ratio": first["peak_bytes"] / max(start["peak_bytes"], 1),
        "difference": apart,
        "tolerance": competitor.tolerance,
        "parity": apart <= competitor.tolerance,
        "rival": competitor.rival,
        "runs_ours_theirs": {str(threads): times for threads, times in runs.items()},
    }


def compare(name: str, workload: str, images: int, peers: Sequence[str], pairs: int) -> Any:
    """Ours under ``name`` against peers on one workload."""
    content: dict[str, Any] = {"workload": workload, "images": images}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "workload.pt"
        torch.save(tuple(load_workload(workload, images)), path)
        return content | evaluations(name, path, peers, pairs)


def evaluations(name: str, path: Path, peers: Sequence[str], pairs: int) -> dict[str, Any]:
    """What all competitors make of one workload in a file."""
    content: dict[str, Any] = {"peers": {}}
    with Worker(name, path) as ours:
        first = ours.measure()
        content["ours"] = {
            "peak_bytes": first["peak_bytes"],
            "memory_is": first["memory"],
            "numbers": first["numbers"],
        }
        for peer in peers:
            if version_of(peer) is None:
                print(f"{peer}: not installed, left out")
                continue
            with Worker(peer, path) as theirs:
                content["peers"][peer] = against(ours, first, theirs, pairs)
            print(row(peer, content["peers"][peer], first["peak_bytes"]), flush=True)
        if name == OURS:
            content["updates"] = {
                str(batch): statistics.median(ours.updates(1, batch)["seconds"] for _ in range(3))
                for batch in (32, 1)
            }
    return content


HEADER = (
    f"{'':32} {'pairs':>5} {'threads':>7} {'ours s':>8} {'theirs s':>9} {'ratio':>7} "
    f"{'ours MiB':>9} {'theirs':>7} {'ratio':>6}  numbers"
)


def row(peer: str, entry: dict[str, Any], our_peak: int) -> str:
    apart = entry["difference"]
    equal = "equal" if apart == 0 else f"differ by {apart:.1e}"
    if not entry["parity"]:
        equal += f", MORE than {entry['tolerance']:.0e}"
    return (
        f"{peer:32} {entry['pairs']:5} {entry['threads']:7} {entry['ours_seconds']:8.3f} "
        f"{entry['seconds']:9.3f} "
        f"{entry['time_ratio']:7.4f} {our_peak / MEBI:9.0f} {entry['peak_bytes'] / MEBI:7.0f} "
        f"{entry['memory_ratio']:6.2f}  {equal}"
    )


def coco_verdicts(content: dict[str, Any]) -> list[Verdict]:
    peers = content["peers"]
    rivals = {name: entry for name, entry in peers.items() if entry["rival"]}
    fastest = max(rivals, key=lambda name: rivals[name]["time_ratio"], default=None)
    leanest = min(peers, key=lambda name: peers[name]["peak_bytes"], default=None)
    common = peers.get(TORCHMETRICS_FASTER)
    updates = content["updates"]
    return [
        Verdict(
            f"time over that of the fastest peer ({fastest})",
            rivals[fastest]["time_ratio"] if fastest else None,
            0.6,
            "",
        ),
        Verdict(
            f"time over that of {TORCHMETRICS_FASTER}",
            common["time_ratio"] if common else None,
            1 / 25,
            "",
        ),
        Verdict(
            f"peak memory over that of the leanest peer ({leanest})",
            peers[leanest]["memory_ratio"] if leanest else None,
            0.5,
            "",
        ),
        Verdict("update of 32 images of 100 boxes", updates["32"] * 1e3, 4.0, "ms"),
        Verdict("update of one image", updates["1"] * 1e3, 0.5, "ms"),
    ]


def voc_verdicts(content: dict[str, Any]) -> list[Verdict]:
    loop = content["peers"].get(LOOP)
    return [
        Verdict(
            "time on real VOC2007 detections over that of a Python loop",
            loop["time_ratio"] if loop else None,
            1 / 50,
            "",
        )
    ]


def report(content: dict[str, Any], verdicts: list[Verdict], *, judged: bool) -> bool:
    """Print what came out and keep it in ``content``; False if something is wrong."""
    content |= {
        "machine": machine.description(),
        "judged": judged,
        "verdicts": [verdict.as_dict() for verdict in verdicts],
    }
    for verdict in verdicts:
        print(verdict.line())
    if not judged:
        print("the limits are those of the whole workload; here they are not judged")
    parity = all(entry["parity"] for entry in content["peers"].values())
    if not parity:
        print("MISSED parity: numbers differ by more than is known")
    return parity and not (judged and any(verdict.passed is False for verdict in verdicts))


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=COCO_IMAGES, help="of the made workload")
    parser.add_argument("--pairs", type=int, default=SEVEN, help="runs of each, interleaved")
    parser.add_argument("--peers", nargs="*", default=PEERS, choices=PEERS, metavar="PEER")
    parser.add_argument("--only", choices=("coco", "voc"), help="one of the two workloads")
    parser.add_argument("--json", type=Path, help="one file in place of those among the results")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parsed(arguments)
    judged = options.images == COCO_IMAGES and options.pairs >= ENOUGH_PAIRS
    contents, good = {}, True
    if options.only != "voc":
        print(f"{options.images} COCO-shaped images; numbers: {' '.join(NUMBERS)}\n{HEADER}")
        content = compare(OURS, "coco", options.images, options.peers, options.pairs)
        good &= report(content, coco_verdicts(content), judged=judged)
        contents[f"coco_shaped_{options.images}"] = content
    if options.only != "coco":
        if shared_data() is None:
            print("no real VOC2007 detections beside this checkout: not run")
        else:
            print(f"\nreal detections on VOC2007 test\n{HEADER}")
            content = compare(OURS_VOC, "voc", 0, [LOOP, OURS_VOC_BY_BATCHES], options.pairs)
            good &= report(content, voc_verdicts(content), judged=options.pairs >= ENOUGH_PAIRS)
            contents["voc2007_test"] = content
    if options.json:
        machine.save(options.json, contents)
    else:
        for name, content in contents.items():
            machine.save(machine.results_path(name, "cpu"), content)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
