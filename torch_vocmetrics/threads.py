"""Independent work on the host, side by side: torch's operations let other threads run.

A single operation is shared out among threads only where it is large, and sorting or selecting not
at all; whole chunks of images and blocks of classes are better parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

T = TypeVar("T")
R = TypeVar("R")


def num_threads(device: torch.device) -> int:
    """How many parts of work on a device are done at a time: on the host what torch may use."""
    return torch.get_num_threads() if device.type == "cpu" else 1


def side_by_side(work: Callable[[T], R], parts: Sequence[T], device: torch.device) -> list[R]:
    """``[work(part) for part in parts]``, in threads if the work is on the host."""
    threads = min(num_threads(device), len(parts))
    if threads < 2:
        return [work(part) for part in parts]
    inference = torch.is_inference_mode_enabled()

    def in_thread(part: T) -> R:
        with torch.inference_mode(inference), torch.no_grad():
            return work(part)

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(in_thread, parts))
