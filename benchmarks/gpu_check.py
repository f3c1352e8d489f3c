"""One check of a CUDA device in under five minutes: the same bits as the CPU, no waiting, times.

Needs torch and the package alone: ``python -m benchmarks.gpu_check``. With ``--device cpu`` the
script runs to its end without a device, and says of every part that needs one that it was not run.

Every part must end as passed for the whole to be called a success; a part that could not be run, or
that compared nothing, never counts as one.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks import gpu_metrics, gpu_timing, machine
from benchmarks.bits import Comparison, compare_metrics
from benchmarks.fixtures import FIXTURES, Problem, fixture_problems
from benchmarks.workloads import COCO_IMAGES, Image, Workload, coco_shaped
from torch_vocmetrics import DetectionAP

PASSED, FAILED, NOT_RUN = "passed", "failed", "not run"
BATCH = 32
PROTOCOLS = ("coco2017", "voc2007")
Batches = list[tuple[Any, Any]]


class Setting(NamedTuple):
    """What every part works on."""

    device: torch.device
    workload: Workload
    repeats: int
    cases: int | None = None

    @property
    def on_cuda(self) -> bool:
        return self.device.type == "cuda"


class CannotRunError(Exception):
    """A part that needs what is not there."""


def moved(images: Sequence[Image], device: torch.device) -> list[Image]:
    return [{key: value.to(device) for key, value in one.items()} for one in images]


def packed(images: Sequence[Image], device: torch.device) -> dict[str, Any]:
    rows: dict[str, Any] = {
        key: torch.cat([one[key] for one in images]).to(device) for key in images[0]
    }
    return rows | {"counts": [one["labels"].shape[0] for one in images]}


def dense(images: Sequence[Image], device: torch.device) -> dict[str, Any]:
    return {key: torch.stack([one[key] for one in images]).to(device) for key in images[0]}


def forms(setting: Setting) -> dict[str, Batches]:
    """The workload in batches of 32, in every form of input."""
    device, batches = setting.device, setting.workload.batches(BATCH)
    return {
        "list": [(moved(p, device), moved(t, device)) for p, t in batches],
        "list, targets on the host": [(moved(p, device), t) for p, t in batches],
        "packed": [(packed(p, device), packed(t, device)) for p, t in batches],
        "dense": [(dense(p, device), packed(t, device)) for p, t in batches],
    }


def fed(batches: Batches, protocols: Sequence[str] = PROTOCOLS) -> Any:
    metric: Any = DetectionAP(list(protocols), num_classes=80)
    for predictions, targets in batches:
        metric.update(predictions, targets)
    return metric


# Parts --------------------------------------------------------------------------------------------


def same_on_fixtures(setting: Setting, name: str) -> Comparison:
    """Every case of a fixture: records and results have the CPU's bits."""
    total = Comparison()
    for problem in fixture_problems(name)[: setting.cases]:
        host = evaluated(problem, torch.device("cpu"), torch.device("cpu"))
        for targets_on in {torch.device("cpu"), setting.device}:
            other = evaluated(problem, setting.device, targets_on)
            total += compare_metrics(problem.name, host, other, setting.device)
    return total


def evaluated(problem: Problem, predictions_on: torch.device, targets_on: torch.device) -> Any:
    metric: Any = DetectionAP(problem.protocols, **problem.options)
    predictions = moved(problem.predictions, predictions_on)
    return metric.update(predictions, moved(problem.targets, targets_on))


def same_on_workload(setting: Setting) -> Comparison:
    """The workload under COCO's and VOC's rules in every form of input."""
    host = fed(setting.workload.batches(BATCH))
    total = Comparison()
    for name, batches in forms(setting).items():
        total += compare_metrics(name, host, fed(batches), setting.device)
    return total


def kernel_was_used(setting: Setting) -> dict[str, Any]:
    """CUDA matches by the kernel, not by way of the host."""
    needs_cuda(setting)
    calls = gpu_timing.captured_matches(fed, forms(setting)["packed"])
    on_device = [rows for rows, *_ in calls if rows.group.is_cuda]
    if not calls or len(on_device) < len(calls):
        raise AssertionError(f"{len(on_device)} of {len(calls)} chunks were matched on the device")
    return {"chunks": len(calls)}


def update_waits_for_nothing(setting: Setting) -> dict[str, Any]:
    """``update``, flush included, while every operation that waits is an error."""
    needs_cuda(setting)
    found = {}
    inputs = forms(setting)
    for batches in inputs.values():  # compiles the kernel, fills the allocators
        fed(batches)
    torch.cuda.synchronize()
    try:
        torch.cuda.set_sync_debug_mode("error")
        guard_works(setting.device)
        for name, batches in inputs.items():
            metric = fed(batches)
            state = metric._accumulated  # no public name says how often it flushed
            flushed = len(state.tables[0]) if state.num_images else 0
            found[name] = {"updates": len(batches), "flushes": flushed}
    finally:
        torch.cuda.set_sync_debug_mode("default")
    if not all(entry["flushes"] for entry in found.values()):
        raise CannotRunError(f"too few images for a flush: {found}")
    return found


def guard_works(device: torch.device) -> None:
    """The debug mode must refuse what waits, or its silence would mean nothing."""
    try:
        torch.ones(1, device=device).sum().item()
    except RuntimeError:
        return
    raise AssertionError("the debug mode let item() through")


def host_path_is_the_same(setting: Setting) -> Comparison:
    """Without the kernel the host matches: the same bits."""
    needs_cuda(setting)
    batches = forms(setting)["packed"]
    with gpu_timing.without_kernel():
        host = fed(batches)
        calls = gpu_timing.captured_matches(fed, batches)
    if any(rows.group.is_cuda for rows, *_ in calls):
        raise AssertionError("the kernel ran although it was taken away")
    return compare_metrics("host path", host, fed(batches), setting.device)


def times(setting: Setting) -> dict[str, Any]:
    """Medians and spreads; on CUDA by events."""
    inputs = forms(setting)
    found = gpu_timing.all_times(inputs, fed, setting.device, setting.repeats)
    missing = [name for name, entry in found.items() if not entry.get("runs", 1)]
    if missing:
        raise AssertionError(f"no runs of {', '.join(missing)}")
    return found


def needs_cuda(setting: Setting) -> None:
    if not setting.on_cuda:
        raise CannotRunError("needs a CUDA device")


def on_cuda(part: Callable[[Setting], Any]) -> Callable[[Setting], Any]:
    """A part that says nothing without a device."""

    def checked(setting: Setting) -> Any:
        needs_cuda(setting)
        try:
            return part(setting)
        except ModuleNotFoundError as error:
            raise CannotRunError(str(error)) from None

    return checked


def second_card(_: Setting) -> dict[str, Any]:
    if torch.cuda.device_count() < 2:
        raise CannotRunError("needs a second card")
    return gpu_metrics.risky("second card")


PARTS: dict[str, Callable[[Setting], Any]] = {
    **{
        f"same bits on the fixture {name}": lambda s, name=name: same_on_fixtures(s, name)
        for name in FIXTURES
    },
    "same bits on the workload": same_on_workload,
    "chunks are matched by the kernel": kernel_was_used,
    "update waits for nothing": update_waits_for_nothing,
    "same bits by way of the host": host_path_is_the_same,
    "same bits of every metric": gpu_metrics.every_metric,
    "same bits in special cases": gpu_metrics.special_cases,
    "no metric waits in update": on_cuda(gpu_metrics.no_metric_waits),
    "same bits of every kernel": on_cuda(gpu_metrics.kernels),
    "times of kernels": on_cuda(gpu_metrics.kernel_times),
    "launches": on_cuda(gpu_metrics.launches),
    "peers": on_cuda(gpu_metrics.peers),
    "faults": on_cuda(lambda _: gpu_metrics.risky("faults")),
    "NCCL": on_cuda(lambda _: gpu_metrics.risky("NCCL")),
    "second card": on_cuda(second_card),
    "times": times,
}
MAY_BE_MISSING = ("peers", "second card")
"""Parts that need what a machine with a card may lack."""


# The whole ----------------------------------------------------------------------------------------


def run_part(name: str, part: Callable[[Setting], Any], setting: Setting) -> dict[str, Any]:
    """One entry of the results."""
    start = time.perf_counter()
    entry: dict[str, Any] = {"part": name, "status": FAILED}
    try:
        found = part(setting)
    except CannotRunError as reason:
        entry |= {"status": NOT_RUN, "reason": str(reason)}
    except Exception as error:
        entry |= {"reason": f"{type(error).__name__}: {error}"}
        traceback.print_exc()
    else:
        entry |= judged(found, setting)
    entry["seconds"] = round(time.perf_counter() - start, 3)
    return entry


def judged(found: Any, setting: Setting) -> dict[str, Any]:
    """The status that what a part found deserves."""
    if isinstance(found, Comparison):
        detail = found.as_dict()
        if found.differing:
            return {"status": FAILED, "reason": "bits differ", "detail": detail}
        if not found.compared:
            return {"status": FAILED, "reason": "nothing was compared", "detail": detail}
    else:
        detail = found
    if not setting.on_cuda:
        reason = "ran on the CPU alone, which says nothing of a device"
        return {"status": NOT_RUN, "reason": reason, "detail": detail}
    return {"status": PASSED, "detail": detail}


def conclusion(entries: Sequence[dict[str, Any]], cases: int | None = None) -> tuple[bool, str]:
    """Whether every part passed, with all cases of the fixtures, and a sentence."""
    counts = {
        status: sum(entry["status"] == status for entry in entries)
        for status in (PASSED, FAILED, NOT_RUN)
    }
    complete = cases is None and [entry["part"] for entry in entries] == list(PARTS)
    success = complete and all(
        one["status"] == PASSED or (one["status"] == NOT_RUN and one["part"] in MAY_BE_MISSING)
        for one in entries
    )
    words = ", ".join(f"{count} {status}" for status, count in counts.items())
    return success, f"{'SUCCESS' if success else 'NO SUCCESS'}: {words}"


def device_description(device: torch.device) -> dict[str, Any]:
    if device.type != "cuda":
        return {"device": "none"}
    import triton  # noqa: PLC0415 - where there is a device there is Triton

    return {
        "device": torch.cuda.get_device_name(device),
        "capability": list(torch.cuda.get_device_capability(device)),
        "cuda": torch.version.cuda,
        "triton": triton.__version__,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--images", type=int, default=COCO_IMAGES)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--cases", type=int, help="of each fixture; then there is no success")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    device = torch.device(options.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        print("NO SUCCESS: torch finds no CUDA device, nothing was run")
        return 2
    start = time.perf_counter()
    setting = Setting(device, coco_shaped(options.images), options.repeats, options.cases)
    entries = []
    for name, part in PARTS.items():
        entries.append(run_part(name, part, setting))
        print(f"{entries[-1]['status']:8} {name} ({entries[-1]['seconds']} s)", flush=True)
        if "reason" in entries[-1]:
            print(f"         {entries[-1]['reason']}")
        saved(entries, options, setting, start)  # so that a crash loses no part before it
    content = saved(entries, options, setting, start)
    print(content["conclusion"])
    failed = any(entry["status"] == FAILED for entry in entries)
    return 0 if content["success"] or (device.type == "cpu" and not failed) else 1


def saved(
    entries: Sequence[dict[str, Any]], options: Any, setting: Setting, start: float
) -> dict[str, Any]:
    """Write what is known so far, and give it."""
    success, sentence = conclusion(entries, setting.cases)
    content = {
        "machine": machine.description() | device_description(setting.device),
        "images": options.images,
        "cases": options.cases,
        "success": success,
        "conclusion": sentence,
        "seconds": round(time.perf_counter() - start, 1),
        "parts": entries,
    }
    path = machine.results_path("gpu_check", slug(content["machine"]["device"]))
    machine.save(options.json or path, content)
    return content


def slug(name: str) -> str:
    """A name fit for a file."""
    return "".join(letter.lower() if letter.isalnum() else "-" for letter in name)


if __name__ == "__main__":
    sys.exit(main())
