"""A machine as busy as validation finds it: data loaders beside, and more threads than needed."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple


class Situation(NamedTuple):
    """How a benchmark is run.

    Attributes:
        busy: processes that spin beside it.
        threads: what ``OMP_NUM_THREADS`` and torch say in every process that is measured.
    """

    busy: int = 0
    threads: int = 1


IDLE = Situation()
SITUATIONS = {
    "idle": IDLE,
    "busy": Situation(busy=os.cpu_count() or 1, threads=os.cpu_count() or 1),
    "16 threads": Situation(threads=16),
}


@contextmanager
def spinners(count: int) -> Iterator[None]:
    """``count`` processes that keep a core busy each, until the context ends."""
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_spin, daemon=True) for _ in range(count)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.terminate()
            process.join()


def _spin() -> None:
    number = 0
    while True:
        number ^= 1
