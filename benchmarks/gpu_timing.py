"""Times on a device: medians and spreads by CUDA events, beside a copy of the device's memory."""

from __future__ import annotations

import contextlib
import dataclasses
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from torch_vocmetrics import DetectionAP
from torch_vocmetrics.matching import chunk as matching

COPIED_BYTES = 2**30
Feed = Callable[..., Any]
Call = tuple[Any, Any, int, int]


@contextlib.contextmanager
def without_kernel() -> Iterator[None]:
    """Inside, the host matches, as where Triton is missing."""
    with mock.patch.object(matching, "kernel_takes", return_value=False):
        yield


def captured_matches(feed: Feed, batches: Any) -> list[Call]:
    """The arguments of every call of the matcher while a metric is fed and flushed (COCO)."""
    calls: list[Call] = []
    original = matching.match_word

    def spy(*arguments: Any) -> Any:
        calls.append(arguments)  # type: ignore[arg-type]
        return original(*arguments)

    with mock.patch.object(matching, "match_word", spy):
        feed(batches, ("coco2017",)).state_dict()
    return calls


def timed(work: Callable[[], Any], device: torch.device, repeats: int) -> dict[str, Any]:
    """Milliseconds of ``work``: by events on CUDA, by the clock elsewhere; two runs come first."""
    for _ in range(2):
        work()
    runs: list[float] = []
    host: list[float] = []
    for _ in range(repeats):
        if device.type == "cuda":
            torch.cuda.synchronize()
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begun = time.perf_counter()
            start.record()
            work()
            end.record()
            host.append((time.perf_counter() - begun) * 1e3)
            torch.cuda.synchronize()
            runs.append(start.elapsed_time(end))
        else:
            begun = time.perf_counter()
            work()
            runs.append((time.perf_counter() - begun) * 1e3)
    found = {"by": "CUDA events" if device.type == "cuda" else "clock of the host"}
    return found | spread(runs) | ({"host_median_ms": statistics.median(host)} if host else {})


def spread(runs: list[float]) -> dict[str, Any]:
    """Median, and what nine of ten runs lie within."""
    ordered = sorted(runs)
    tenth = len(ordered) // 10
    return {
        "runs": len(runs),
        "median_ms": statistics.median(ordered),
        "low_ms": ordered[tenth],
        "high_ms": ordered[-1 - tenth],
    }


def all_times(
    inputs: dict[str, Any], feed: Feed, device: torch.device, repeats: int
) -> dict[str, Any]:
    """``update`` by form of input, flush, ``compute``, the kernel, the host path and a copy."""
    found: dict[str, Any] = {}
    for name, batches in inputs.items():
        found[f"update of a batch, {name}"] = timed(update_of(batches), device, repeats)
    packed = inputs["packed"]
    found["flush of a chunk"] = flush(packed, device, repeats)
    whole = max(2, repeats // 4)
    found["whole workload"] = timed(lambda: feed(packed, ("coco2017",)).compute(), device, whole)
    metric = feed(packed, ("coco2017",))
    metric.state_dict()
    found["compute"] = timed(metric.compute, device, whole)
    with without_kernel():
        found["flush of a chunk, matched by the host"] = flush(packed, device, repeats)
    if device.type == "cuda":
        bandwidth = copy_bandwidth(device, repeats)
        found["copy"] = bandwidth
        found["kernel"] = kernel(feed, packed, device, repeats, bandwidth["bytes_per_second"])
    return found


def update_of(batches: Any) -> Callable[[], Any]:
    """A batch after the other; a new metric before a chunk is full, so that nothing is matched."""
    state = {"metric": DetectionAP("coco2017", num_classes=80), "place": 0}

    def work() -> None:
        if state["place"] % 15 == 0:
            state["metric"].reset()
        state["metric"].update(*batches[state["place"] % len(batches)])
        state["place"] += 1

    return work


def flush(batches: Any, device: torch.device, repeats: int) -> dict[str, Any]:
    """Matching one chunk of what fits: packed before, dropped after."""
    metric: Any = DetectionAP("coco2017", num_classes=80)
    pending: tuple[Any, ...] = ()
    for predictions, targets in batches:
        metric.update(predictions, targets)
        if metric._accumulated.num_images:  # that batch has filled the chunk
            break
        pending = metric._accumulated.pending

    def work() -> None:
        nothing = metric.reset()._accumulated
        metric._flushed(dataclasses.replace(nothing, pending=pending))

    rows = sum(len(batch.detections.scores) for batch in pending)
    return timed(work, device, repeats) | {"detections": rows}


def copy_bandwidth(device: torch.device, repeats: int) -> dict[str, Any]:
    """Of a copy from the device's memory to itself, reading and writing counted."""
    source = torch.zeros(COPIED_BYTES, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    found = timed(lambda: target.copy_(source), device, repeats)
    return found | {"bytes_per_second": 2 * COPIED_BYTES / (found["median_ms"] / 1e3)}


def kernel(
    feed: Feed, batches: Any, device: torch.device, repeats: int, bandwidth: float
) -> dict[str, Any]:
    """The kernel alone on the fullest chunk, and its traffic as a share of a copy's."""
    calls = [call for call in captured_matches(feed, batches) if call[0].group.is_cuda]
    if not calls:
        raise AssertionError("no chunk was matched on the device")
    rows, *rest = max(calls, key=lambda call: call[0].group.shape[0])
    found = timed(lambda: matching.match_word(rows, *rest), device, repeats)
    moved = sum(one.numel() * one.element_size() for one in rows if isinstance(one, Tensor))
    moved += 2 * rows.group.numel() * rows.group.element_size()
    rate = moved / (found["median_ms"] / 1e3)
    return found | {
        "detections": rows.group.shape[0],
        "bytes": moved,
        "bytes_per_second": rate,
        "share_of_copy": rate / bandwidth,
    }
