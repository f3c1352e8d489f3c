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
import os
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
from benchmarks.load import IDLE, SITUATIONS, Situation, spinners
from benchmarks.shapes import ONE_BY_ONE, SHAPES
from benchmarks.workloads import COCO_IMAGES, shared_data

MEBI = 2**20
ENOUGH_PAIRS = 3
MANY_IMAGES = 10_000
OURS, OURS_VOC, LOOP = "ours", "ours (VOC2007)", "Python loop (VOC2007)"
OURS_VOC_BY_BATCHES = "ours by batches (VOC2007)"
TORCHMETRICS_FASTER = "torchmetrics + faster-coco-eval"
PEERS = [name for name in COMPETITORS if "VOC2007" not in name and name != OURS]
SEVEN = 7


class Worker:
    """A competitor in a process of its own, which runs when it is told to."""

    def __init__(self, name: str, workload: Path, threads: int = 1) -> None:
        self.name, self._threads = name, threads
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.competitors", name, str(workload)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).resolve().parents[1],
            env={**os.environ, "OMP_NUM_THREADS": str(threads), "RAYON_NUM_THREADS": str(threads)},
        )
        self._answer()

    def measure(self) -> dict[str, Any]:
        return self._ask(f"measure {self._threads}")

    def run(self) -> dict[str, Any]:
        return self._ask(f"run {self._threads}")

    def updates(self, batch: int) -> dict[str, Any]:
        """Mean seconds of ``update`` in batches of a size, matching of the last chunk included."""
        return self._ask(f"updates {self._threads} {batch}")

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


def against(ours: Worker, first: dict[str, Any], theirs: Worker, pairs: int) -> Any:
    """One competitor's entry of the results: memory and parity of its first run, then pairs."""
    competitor = COMPETITORS[theirs.name]
    start = theirs.measure()
    most = min(pairs, competitor.most_pairs or pairs)
    runs = [(ours.run(), start if most == 1 else theirs.run()) for _ in range(most)]
    seconds = [(mine["seconds"], other["seconds"]) for mine, other in runs]
    apart = difference(first["numbers"], start["numbers"])
    return {
        "version": version_of(theirs.name),
        "pairs": most,
        "seconds": statistics.median(other for _, other in seconds),
        "ours_seconds": statistics.median(mine for mine, _ in seconds),
        "cpu_seconds": statistics.median(other["cpu_seconds"] for _, other in runs),
        "ours_cpu_seconds": statistics.median(mine["cpu_seconds"] for mine, _ in runs),
        "time_ratio": statistics.median(mine / other for mine, other in seconds),
        "peak_bytes": start["peak_bytes"],
        "memory_ratio": first["peak_bytes"] / max(start["peak_bytes"], 1),
        "difference": apart,
        "tolerance": competitor.tolerance,
        "parity": apart <= competitor.tolerance,
        "rival": competitor.rival,
        "runs_ours_theirs": seconds,
    }


def compare(
    name: str,
    workload: str,
    images: int,
    peers: Sequence[str],
    pairs: int,
    situation: Situation = IDLE,
) -> Any:
    """Ours under ``name`` against peers on one workload, all in the same situation."""
    content: dict[str, Any] = {"workload": workload, "images": images}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "workload.pt"
        torch.save(tuple(load_workload(workload, images)), path)
        with spinners(situation.busy):
            return content | evaluations(name, path, peers, pairs, situation.threads)


def evaluations(
    name: str, path: Path, peers: Sequence[str], pairs: int, threads: int
) -> dict[str, Any]:
    """What all competitors make of one workload in a file."""
    content: dict[str, Any] = {"peers": {}}
    with Worker(name, path, threads) as ours:
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
            with Worker(peer, path, threads) as theirs:
                content["peers"][peer] = against(ours, first, theirs, pairs)
            print(row(peer, content["peers"][peer], first["peak_bytes"]), flush=True)
        if name == OURS:
            content["updates"] = {
                str(batch): statistics.median(ours.updates(batch)["seconds"] for _ in range(3))
                for batch in (32, 1)
            }
    return content


HEADER = (
    f"{'':32} {'pairs':>5} {'CPU s':>7} {'ours s':>8} {'theirs s':>9} {'ratio':>7} "
    f"{'ours MiB':>9} {'theirs':>7} {'ratio':>6}  numbers"
)


def row(peer: str, entry: dict[str, Any], our_peak: int) -> str:
    apart = entry["difference"]
    equal = "equal" if apart == 0 else f"differ by {apart:.1e}"
    if not entry["parity"]:
        equal += f", MORE than {entry['tolerance']:.0e}"
    return (
        f"{peer:32} {entry['pairs']:5} {entry['ours_cpu_seconds']:7.3f} "
        f"{entry['ours_seconds']:8.3f} {entry['seconds']:9.3f} "
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


def fastest(content: dict[str, Any]) -> str:
    """The rival that takes the least time."""
    rivals = {name: one["seconds"] for name, one in content["peers"].items() if one["rival"]}
    return min(rivals, key=lambda name: rivals[name])


def shape_verdicts(name: str, content: dict[str, Any]) -> list[Verdict]:
    rival = fastest(content)
    limit = 1.0 if SHAPES[name].batch == ONE_BY_ONE else 0.6
    ratio = content["peers"][rival]["time_ratio"]
    memory = max(one["memory_ratio"] for one in content["peers"].values())
    return [
        Verdict(f"{name}: time over that of {rival}", ratio, limit, ""),
        Verdict(f"{name}: memory over that of the leanest", memory, 0.6, ""),
    ]


def run_shapes(options: argparse.Namespace) -> tuple[dict[str, Any], bool]:
    """A table of every shape, and the rows of the README."""
    contents, good, lines = {}, True, []
    for name in options.shapes:
        print(f"\n{name}\n{HEADER}")
        pairs = min(options.pairs, 3) if SHAPES[name].images > MANY_IMAGES else options.pairs
        peers = [peer for peer in options.peers if COMPETITORS[peer].rival]
        content = compare(OURS, name, options.images or SHAPES[name].images, peers, pairs)
        judged = options.images is None and options.pairs >= ENOUGH_PAIRS
        verdicts = shape_verdicts(name, content) if content["peers"] else []
        good &= report(content, verdicts, judged=judged)
        contents[name] = content
        if content["peers"]:
            entry = content["peers"][rival := fastest(content)]
            lines.append(
                f"| {name} | {entry['ours_seconds']:.3f} | {entry['seconds']:.3f} ({rival}) "
                f"| {entry['time_ratio']:.2f} |"
            )
    print("\n| shape | ours, s | fastest peer, s | ratio |\n|---|---|---|---|", *lines, sep="\n")
    return {"shapes": contents}, good


def run_situations(options: argparse.Namespace) -> tuple[dict[str, Any], bool]:
    """The COCO-shaped workload idle, beside spinning processes, and with many threads."""
    situations = dict(SITUATIONS)
    if options.busy is not None:
        situations = {"idle": IDLE, f"busy {options.busy}": Situation(options.busy, options.busy)}
    peers = [peer for peer in options.peers if COMPETITORS[peer].rival]
    contents, good, lines, base = {}, True, [], math.nan
    for name, situation in situations.items():
        print(f"\n{name}\n{HEADER}")
        images = options.images or COCO_IMAGES
        content = compare(OURS, "coco", images, peers, options.pairs, situation)
        if not content["peers"]:
            continue
        entry = content["peers"][rival := fastest(content)]
        base = entry["ours_cpu_seconds"] if name == "idle" else base
        limit = 0.35 if situation.busy else 0.55
        verdicts = [
            Verdict(f"{name}: time over that of {rival}", entry["time_ratio"], limit, ""),
            Verdict(f"{name}: CPU over idle", entry["ours_cpu_seconds"] / base, 1.3, ""),
        ]
        judged = images == COCO_IMAGES and options.pairs >= ENOUGH_PAIRS
        good &= report(content, verdicts, judged=judged)
        contents[name] = content
        lines.append(
            f"| {name} | {entry['ours_seconds']:.3f} | {entry['ours_cpu_seconds']:.3f} "
            f"| {entry['seconds']:.3f} ({rival}) | {entry['time_ratio']:.2f} |"
        )
    head = (
        "\n| situation | ours, s | ours, CPU s | fastest peer, s | ratio |\n|---|---|---|---|---|"
    )
    print(head, *lines, sep="\n")
    return {"situations": contents}, good


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, help="at most so many of each made workload")
    parser.add_argument("--pairs", type=int, default=SEVEN, help="runs of each, interleaved")
    parser.add_argument("--peers", nargs="*", default=PEERS, choices=PEERS, metavar="PEER")
    parser.add_argument(
        "--only",
        choices=("coco", "voc", "shapes", "situations"),
        help="one part; without it all, half an hour",
    )
    parser.add_argument(
        "--busy", type=int, metavar="N", help="situations: idle, and beside N spinning processes"
    )
    parser.add_argument("--shapes", nargs="*", default=list(SHAPES), choices=SHAPES)
    parser.add_argument("--json", type=Path, help="one file in place of those among the results")
    return parser.parse_args(arguments)


def run_coco(options: argparse.Namespace) -> tuple[dict[str, Any], bool]:
    images = options.images or COCO_IMAGES
    judged = images == COCO_IMAGES and options.pairs >= ENOUGH_PAIRS
    print(f"{images} COCO-shaped images; numbers: {' '.join(NUMBERS)}\n{HEADER}")
    content = compare(OURS, "coco", images, options.peers, options.pairs)
    good = report(content, coco_verdicts(content), judged=judged)
    return {f"coco_shaped_{images}": content}, good


def run_voc(options: argparse.Namespace) -> tuple[dict[str, Any], bool]:
    if shared_data() is None:
        print("no real VOC2007 detections beside this checkout: not run")
        return {}, True
    print(f"\nreal detections on VOC2007 test\n{HEADER}")
    content = compare(OURS_VOC, "voc", 0, [LOOP, OURS_VOC_BY_BATCHES], options.pairs)
    good = report(content, voc_verdicts(content), judged=options.pairs >= ENOUGH_PAIRS)
    return {"voc2007_test": content}, good


PARTS = {
    "coco": run_coco,
    "voc": run_voc,
    "shapes": run_shapes,
    "situations": run_situations,
}


def main(arguments: Sequence[str] | None = None) -> int:
    options = parsed(arguments)
    contents, good = dict[str, Any](), True
    for part in [options.only] if options.only else PARTS:
        found, passed = PARTS[part](options)
        contents |= found
        good &= passed
    if options.json:
        machine.save(options.json, contents)
    else:
        for name, content in contents.items():
            machine.save(machine.results_path(name, "cpu"), content)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
