"""Eight ranks, of which one is killed or hangs at a chosen step; run as a program of its own.

``python tests/distributed/faults.py FOLDER`` prints a table of steps and outcomes, and writes
``faults.json``: for each step what every survivor saw and after how many seconds, and whether a
rerun from the state files gives the bits of one process. Ranks are forked, so that torch is
imported once.
"""

from __future__ import annotations

import datetime
import json
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from distributed.registry import SUBJECTS, images

from torch_vocmetrics import Metric, StateError

RANKS, IMAGES, TIMEOUT, PATIENCE = 8, 40, 15, 150
STEPS: dict[str, tuple[str, str, int]] = {
    "gather: before compute": ("none", "", 0),
    "gather: header": ("none", "all_gather", 1),
    "gather: states": ("none", "all_gather", 2),
    "class: before compute": ("class", "", 0),
    "class: header": ("class", "all_gather", 1),
    "class: image ids": ("class", "all_gather", 3),
    "class: counts": ("class", "all_gather", 8),
    "class: exchange begins": ("class", "all_to_all_single", 1),
    "class: exchange": ("class", "all_to_all_single", 4),
    "class: curves": ("class", "all_gather", 9),
    "class: hangs in the exchange": ("class", "all_to_all_single", 4),
}
"""The way, the collective before which the victim is killed, and which of its calls that is."""


def share(rank: int) -> Metric[Any]:
    metric = SUBJECTS["detection_found"].new()
    for image in images(SUBJECTS["detection_found"], IMAGES, ids=True)[rank::RANKS]:
        metric.update(*image)
    return metric


def dies_before(name: str, number: int, *, hangs: bool) -> None:
    """End this process by SIGKILL instead of the ``number``-th call of a collective.

    If it hangs instead, it ends long after the timeout of the group.
    """
    original: Callable[..., Any] = getattr(dist, name)
    calls = iter(range(1, 10**6))

    def call(*args: Any, **kwargs: Any) -> Any:
        if next(calls) == number:
            time.sleep(3 * TIMEOUT if hangs else 0)
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*args, **kwargs)

    setattr(dist, name, call)


def rank_of(rank: int, folder: Path, way: str, kill: tuple[str, int, bool] | None) -> None:
    """One rank: keep its state, compute, and write down what came of it."""
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/store",
        rank=rank,
        world_size=RANKS,
        timeout=datetime.timedelta(seconds=TIMEOUT),
    )
    path = folder.parent / f"shard{rank}.npz"
    metric = Metric.from_states(path) if kill is None else share(rank).save_state(path)
    dist.barrier()
    if kill is not None and kill[0]:
        dies_before(*kill[:2], hangs=kill[2])
    elif kill is not None:
        os.kill(os.getpid(), signal.SIGKILL)
    start = time.monotonic()
    try:
        seen = text_of(metric.compute(shard_by=way))
    except StateError as error:
        seen = f"StateError: {error.what}"
    outcome = {"seen": seen, "seconds": time.monotonic() - start}
    (folder / f"{rank}.json").write_text(json.dumps(outcome))


def text_of(results: Any) -> str:
    """Every bit of the numbers of several results."""
    numbers = {name: result.to_dict() for name, result in results.items()}
    counts = {name: result.true_positives.tolist() for name, result in results.items()}
    return repr([numbers, counts])


def run(folder: Path, way: str, kill: tuple[str, int, bool] | None, victim: int) -> list[Any]:
    """What each rank saw; None where it left nothing. All ranks end within ``PATIENCE`` seconds."""
    folder.mkdir()
    children = []
    for rank in range(RANKS):
        child = os.fork()
        if child == 0:
            signal.alarm(PATIENCE)  # the default of SIGALRM ends a rank that hangs
            try:
                own = kill if rank == victim else ("barrier", 10**6, False) if kill else None
                rank_of(rank, folder, way, own)
            finally:
                sys.stdout.flush()
                os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    paths = [folder / f"{rank}.json" for rank in range(RANKS)]
    return [json.loads(path.read_text()) if path.exists() else None for path in paths]


def faults(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """For each step what the ranks saw, and what a rerun from their state files gives."""
    wanted = text_of(share(0).merge(*(share(rank) for rank in range(1, RANKS))).compute())
    for number, (step, (way, collective, call)) in enumerate(STEPS.items()):
        victim = number % RANKS
        kill = (collective, call, "hangs" in step)
        seen = run(folder / f"{number}", way, kill, victim)
        again = run(folder / f"{number}-again", way, None, -1)
        same = all(one is not None and one["seen"] == wanted for one in again)
        yield step, {"victim": victim, "seen": seen, "rerun is the same": same}


def main() -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    folder, found = Path(sys.argv[1]), {}
    print("| one of 8 ranks is killed | survivors that raise | seconds | rerun |")
    print("| --- | --- | --- | --- |")
    for step, outcome in faults(folder):
        found[step] = outcome
        left = [one for rank, one in enumerate(outcome["seen"]) if rank != outcome["victim"]]
        raised = [one for one in left if one and "a rank was lost" in one["seen"]]
        slowest = max((one["seconds"] for one in raised), default=0.0)
        rerun = "same bits" if outcome["rerun is the same"] else "OTHER"
        print(f"| {step} | {len(raised)} of {RANKS - 1} | {slowest:.1f} | {rerun} |", flush=True)
    (folder / "faults.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
