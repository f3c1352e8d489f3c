"""Every kind of metric and the command beside a peer: idle, beside spinning processes, 16 threads.

    python -m benchmarks.situations

Each kind runs in a process of its own in each situation, in turn with its peer where there is one,
and both must find the same numbers. Exit code 1 if numbers differ or a limit is missed: of the
peer's seconds, and 1.3 times the CPU seconds that the kind takes idle with one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks import competitors, machine
from benchmarks.caltech_subsets import make_images
from benchmarks.confusion import K, by_numpy, scene
from benchmarks.files import RESULTS, TRUTH, write_coco
from benchmarks.load import SITUATIONS, spinners
from benchmarks.masks import apart
from benchmarks.run_lengths import SIZES, data_set, ours, theirs
from benchmarks.workloads import coco_shaped
from torch_vocmetrics import DetectionAP, LogAverageMissRate, MeanIoU, Metric

CPU_LIMIT = 1.3
RATIO_LIMITS = {"idle": 0.55, "busy": 0.35}
ENOUGH_IMAGES = 1000
TOLERANCE = 1e-12
ROOT = Path(__file__).resolve().parents[1]


class Work(NamedTuple):
    """What is timed.

    Attributes:
        ours: the whole work, which gives its numbers.
        peer: that of the peer; None where there is none, or it is not installed.
    """

    ours: Callable[[], Any]
    peer: Callable[[], Any] | None = None


def boxes(images: int) -> Work:
    workload = coco_shaped(images)
    peer = competitors.hotcoco_streaming if find_spec("hotcoco") else None
    return Work(
        lambda: competitors.ours(workload), None if peer is None else lambda: peer(workload)
    )


def masks(images: int) -> Work:
    """As run lengths, which faster-coco-eval takes as dicts that it adds to."""
    scenes = SIZES[1]._replace(images=max(images // 20, 1))
    predictions, targets = scenes.rows()
    content = json.dumps(data_set(predictions, targets, scenes.classes), default=bytes.decode)
    peer = None if find_spec("faster_coco_eval") is None else lambda: theirs(*json.loads(content))
    return Work(lambda: ours(predictions, targets, scenes.classes), peer)


def label_maps(images: int) -> Work:
    pairs = [scene(number) for number in range(max(images // 30, 1))]
    predicted, truth = (torch.from_numpy(np.stack(side)) for side in zip(*pairs, strict=True))

    def run() -> Any:
        metric = MeanIoU("voc2012", num_classes=K).update(predicted, truth)
        return metric.compute().confusion_matrix.flatten().tolist()

    return Work(run, lambda: by_numpy(pairs).ravel().tolist())


def miss_rate(images: int) -> Work:
    rows = make_images(images, 0)
    return Work(
        lambda: [
            *LogAverageMissRate("caltech2012", box_format="xywh")
            .update(*rows)
            .compute()
            .to_dict()
            .values()
        ]
    )


def states(images: int) -> Work:
    """What a rank does to the states of all ranks."""
    metric: Any = DetectionAP("coco2017", num_classes=80)
    workload = coco_shaped(images)
    metric.update(workload.predictions, workload.targets)
    parts: list[Metric[Any]] = [metric] * 4

    def run() -> Any:
        merged = DetectionAP("coco2017", num_classes=80).merge(*parts)
        return [len(merged.state_dict())]

    return Work(run)


def command(images: int) -> Work:
    """``vocmetrics evaluate`` and ``coco eval`` from files to JSON, with the start of Python."""
    folder = tempfile.TemporaryDirectory()
    write_coco(Path(folder.name), images)
    own = ["-m", "torch_vocmetrics", "evaluate", "coco2017", "--format", "json"]

    def files(*options: str) -> list[str]:
        paths = (str(Path(folder.name) / name) for name in (TRUTH, RESULTS))
        return [word for pair in zip(options, paths, strict=True) for word in pair]

    def run() -> Any:
        said = json.loads(_output([sys.executable, *own, *files("--ground-truth", "--detections")]))
        return [said["summary"][name] for name in competitors.NUMBERS]

    def peer() -> Any:
        script = "import sys; from hotcoco.cli import main; sys.argv[0] = 'coco'; main()"
        arguments = ["eval", "--json", *files("--gt", "--dt")]
        said = json.loads(_output([sys.executable, "-c", script, *arguments]))
        return [said["metrics"][name] for name in competitors.NUMBERS]

    return Work(run, peer if find_spec("hotcoco") else None)


def _output(arguments: list[str]) -> str:
    return subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, check=True).stdout


KINDS = {
    "boxes": boxes,
    "masks": masks,
    "mean IoU": label_maps,
    "miss rate": miss_rate,
    "merged states": states,
    "command": command,
}


def measure(kind: str, images: int, threads: int, rounds: int = 4) -> dict[str, Any]:
    """Medians of some runs in turn with the peer, after one that warms up."""
    torch.set_num_threads(threads)
    work = KINDS[kind](images)
    cpu, seconds, ratios = [], [], []
    equal = True
    for _ in range(rounds):
        numbers, wall, used = _timed(work.ours)
        cpu.append(used)
        seconds.append(wall)
        if work.peer is not None:
            others, wall, _ = _timed(work.peer)
            ratios.append(seconds[-1] / wall)
            equal = equal and apart(numbers, others) <= TOLERANCE
    return {
        "cpu_seconds": statistics.median(cpu[1:]),
        "seconds": statistics.median(seconds[1:]),
        "ratio": statistics.median(ratios[1:]) if ratios else None,
        "equal": equal,
    }


def _timed(run: Callable[[], Any]) -> tuple[list[float], float, float]:
    """Numbers, seconds, and CPU seconds of this process and of those that it waited for."""
    start, before = time.perf_counter(), _cpu()
    numbers = [float("nan") if one is None else float(one) for one in run()]
    return numbers, time.perf_counter() - start, _cpu() - before


def _cpu() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def ask(kind: str, images: int, threads: int) -> dict[str, Any]:
    """:func:`measure` in a process of its own."""
    arguments = ["--kind", kind, "--images", str(images), "--threads", str(threads)]
    number = str(threads)
    environment = {**os.environ, "OMP_NUM_THREADS": number, "RAYON_NUM_THREADS": number}
    argv = [sys.executable, "-m", "benchmarks.situations", *arguments]
    ran = subprocess.run(
        argv, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    if ran.returncode:
        raise RuntimeError(f"{kind} ended: {ran.stderr[-2000:]}")
    answer: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return answer


def misses(kind: str, row: dict[str, dict[str, Any]]) -> list[str]:
    """What a kind misses of its limits."""
    missed = [f"{kind}, {name}: other numbers" for name, one in row.items() if not one["equal"]]
    for name, one in row.items():
        limit = RATIO_LIMITS.get(name)
        if limit is not None and one["ratio"] is not None and one["ratio"] > limit:
            missed.append(f"{kind}, {name}: {one['ratio']:.2f} of the peer's seconds ({limit})")
    most = most_over_idle(row)
    if most > CPU_LIMIT:
        missed.append(f"{kind}: {most:.2f} of the CPU seconds idle ({CPU_LIMIT})")
    return missed


def most_over_idle(row: dict[str, dict[str, Any]]) -> float:
    return float(
        max(one["cpu_seconds"] for one in row.values()) / max(row["idle"]["cpu_seconds"], 1e-9)
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", choices=KINDS, nargs="+", default=list(KINDS))
    parser.add_argument("--kind", choices=KINDS, help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, default=1, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.kind:
        print(json.dumps(measure(options.kind, options.images, options.threads)))
        return 0
    rows: dict[str, dict[str, dict[str, Any]]] = {kind: {} for kind in options.only}
    for name, situation in SITUATIONS.items():
        with spinners(situation.busy):
            for kind in options.only:
                rows[kind][name] = ask(kind, options.images, situation.threads)
    titles = [f"{name}: ours / peer | CPU s" for name in SITUATIONS]
    print("| kind |", " | ".join(titles), "| most CPU over idle |")
    print("|---" * (2 * len(SITUATIONS) + 2) + "|")
    missed: list[str] = []
    for kind, row in rows.items():
        missed += misses(kind, row)
        cells = [
            f"{'no peer' if one['ratio'] is None else format(one['ratio'], '.2f')} "
            f"| {one['cpu_seconds']:.3f}"
            for one in row.values()
        ]
        print(f"| {kind} |", " | ".join(cells), f"| {most_over_idle(row):.2f} |")
    print("\n" + ("\n".join(f"MISSED: {one}" for one in missed) or "all limits are met"))
    content = {"machine": machine.description(), "images": options.images, "missed": missed}
    content |= {"cpu_limit": CPU_LIMIT, "ratio_limits": RATIO_LIMITS, "rows": rows}
    machine.save(options.json or machine.results_path("situations_of_metrics", "cpu"), content)
    return int(bool(missed)) if options.images >= ENOUGH_IMAGES else 0


if __name__ == "__main__":
    sys.exit(main())
