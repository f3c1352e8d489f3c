"""Parts of ``gpu_check`` for every metric and kernel; needs the folder ``tests`` beside it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from benchmarks.bits import Comparison, compare
from torch_vocmetrics import DetectionAP, MeanIoU
from torch_vocmetrics.ops import label_tallies, mask_stacks
from torch_vocmetrics.ops.confusion import LabelTable

ROOT = Path(__file__).resolve().parents[1]
IMAGES = 24
LAUNCHES = 20


def moved(value: Any, device: torch.device) -> Any:
    return tree_map(lambda one: one.to(device) if isinstance(one, Tensor) else one, value)


def every_metric(setting: Any) -> Comparison:
    """All metrics on small images: states and results have the CPU's bits."""
    from distributed.registry import SUBJECTS, images  # noqa: PLC0415

    total = Comparison()
    for name, subject in SUBJECTS.items():
        host, there = subject.new(), subject.new()
        for image in images(subject, IMAGES, ids=True):
            host.update(*image)
            there.update(*moved(image, setting.device))
        total += same(name, host, there)
    return total


def same(name: str, host: Any, there: Any) -> Comparison:
    found = compare(f"{name}: state", host.state_dict(), moved(there.state_dict(), CPU))
    return found + compare(f"{name}: result", host.compute(), there.compute())


CPU = torch.device("cpu")


def no_metric_waits(setting: Any) -> dict[str, Any]:
    """``update`` of every metric while every operation that waits is an error."""
    from distributed.registry import SUBJECTS, images  # noqa: PLC0415

    updates = 0
    for _ in range(2):  # the first round compiles kernels and fills allocators
        for subject in SUBJECTS.values():
            batches = [moved(one, setting.device) for one in images(subject, IMAGES, ids=False)]
            metric: Any = subject.new()
            torch.cuda.synchronize()
            with refusing_waits():
                for batch in batches:
                    metric.update(*batch)
            updates += len(batches)
    return {"updates": updates, "metrics": len(SUBJECTS)}


@contextlib.contextmanager
def refusing_waits() -> Iterator[None]:
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def boxes_of(count: int, rng: torch.Generator) -> Tensor:
    corner = torch.randint(0, 900, (count, 2), generator=rng).float()
    return torch.cat([corner, corner + torch.randint(4, 200, (count, 2), generator=rng)], 1)


def crowded(count: int, kind: torch.dtype = torch.float32) -> tuple[Any, Any]:
    """An image of so many objects and 300 detections near them, with an id and a size."""
    rng = torch.Generator().manual_seed(count)
    boxes, labels = boxes_of(count, rng), torch.randint(0, 3, (count,), generator=rng)
    which = torch.randint(0, count, (300,), generator=rng)
    found = boxes[which] + torch.randint(-9, 10, (300, 4), generator=rng) * 1.0
    found[:, 2:] = torch.maximum(found[:, 2:], found[:, :2] + 1)
    scores = torch.randint(0, 50, (300,), generator=rng) / 50
    target = {"boxes": boxes.to(kind), "labels": labels, "image_id": torch.tensor(count)}
    target["image_size"] = torch.tensor([1200, 1200])
    return [{"boxes": found.to(kind), "labels": labels[which], "scores": scores}], [target]


def special_cases(setting: Any) -> Comparison:
    """128 to 1,025 objects, half boxes, ids on the device, deterministic mode, side streams."""
    total = Comparison()
    for name, batches in {
        "many objects": [crowded(count) for count in (128, 129, 512, 1024, 1025)],
        "half boxes": [crowded(20, torch.float16), crowded(21, torch.float16)],
    }.items():
        host, there = (DetectionAP(["coco2017", "voc2012"], num_classes=3) for _ in range(2))
        for batch in batches:
            host.update(*batch)
            there.update(*moved(batch, setting.device))
        total += same(name, host, there)
        if setting.on_cuda:
            total += compare(
                f"{name}: side stream", host.compute(), on_side_stream(batches, setting)
            )
            torch.use_deterministic_algorithms(True)
            try:
                again = DetectionAP(["coco2017", "voc2012"], num_classes=3)
                for batch in batches:
                    again.update(*moved(batch, setting.device))
                total += compare(f"{name}: deterministic", host.compute(), again.compute())
            finally:
                torch.use_deterministic_algorithms(False)
    return total


def on_side_stream(batches: Any, setting: Any) -> Any:
    """``update`` on one stream, ``compute`` on another, with other work in between."""
    metric: Any = DetectionAP(["coco2017", "voc2012"], num_classes=3)
    inputs = [moved(batch, setting.device) for batch in batches]
    torch.cuda.synchronize()
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    with torch.cuda.stream(first):
        for batch in inputs:
            metric.update(*batch)
    with torch.cuda.stream(second):
        return metric.compute()


# Kernels ------------------------------------------------------------------------------------------


def kernels(setting: Any) -> Comparison:
    """Every kernel on larger inputs than the interpreter takes, beside the operator on the CPU."""
    total = Comparison()
    for name, (operator, arguments) in kernel_inputs().items():
        total += compare(
            name, operator(*arguments), moved(operator(*moved(arguments, setting.device)), CPU)
        )
    return total


def kernel_inputs() -> dict[str, tuple[Callable[..., Any], Any]]:
    rng = torch.Generator().manual_seed(1)
    found: dict[str, tuple[Callable[..., Any], Any]] = {}
    for K in (21, 150, 256):
        table = LabelTable.of({k: k for k in range(K)}, K + 1)
        rest = (table.indices, table.indices, table.lowest - 1, table.lowest - 1, K)
        truth = torch.randint(0, K, (4, 256, 320), generator=rng)
        truth[:, :128] = 0
        maps = torch.randint(0, K, (4, 256, 320), generator=rng)
        found[f"label maps, {K} classes"] = (label_tallies._tally, (maps, truth, *rest))
        logits = torch.randn((2, K, 128, 160), generator=rng)
        found[f"logits, {K} classes"] = (
            label_tallies._tally,
            (logits, truth[:2, :128, :160].contiguous(), *rest),
        )
        half = logits.bfloat16()
        found[f"half logits, {K} classes"] = (
            label_tallies._tally,
            (half, truth[:2, :128, :160].contiguous(), *rest),
        )
    dense = [torch.rand((n, 480, 640), generator=rng) for n in (30, 0, 5)]
    masks = [one > 0.6 for one in dense]
    found["packing"] = (mask_stacks._pack, (masks, False))
    found["packing probabilities"] = (mask_stacks._pack, (dense, True))
    words = [mask_stacks.pack_masks(one) for one in masks]
    areas = torch.cat([mask_stacks.mask_areas(one) for one in words]).double()
    labels, crowd = torch.randint(0, 2, (35,), generator=rng), torch.rand(35, generator=rng) < 0.2
    arguments = (words, words, labels, labels, crowd, areas, areas)
    found["overlaps of masks"] = (mask_stacks._overlaps, arguments)
    ends = torch.arange(0, 480 * 640 + 1, 16).repeat(8)
    found["run lengths"] = (mask_stacks._decode, (ends, [len(ends) // 8] * 8, [480, 640] * 8))
    return found


def kernel_times(setting: Any) -> dict[str, Any]:
    """Microseconds of a launch, 20 launches between two events, and the share of copy bandwidth."""
    source = torch.zeros(2**28, dtype=torch.uint8, device=setting.device)
    target = torch.empty_like(source)
    rate = 2 * source.numel() / microseconds(lambda: target.copy_(source))
    found: dict[str, Any] = {"copy": {"bytes_per_us": rate}}
    for name, (operator, arguments) in kernel_inputs().items():
        there = moved(arguments, setting.device)
        took = microseconds(lambda operator=operator, there=there: operator(*there))
        size = sum(one.numel() * one.element_size() for one in tensors(there))
        found[name] = {"us": took, "bytes": size, "share_of_copy": size / took / rate}
    return found


def tensors(value: Any) -> list[Tensor]:
    return [one for one in torch.utils._pytree.tree_leaves(value) if isinstance(one, Tensor)]


def microseconds(work: Callable[[], Any]) -> float:
    for _ in range(3):
        work()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    for _ in range(LAUNCHES):
        work()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) * 1e3 / LAUNCHES


def launches(setting: Any) -> dict[str, int]:
    """Kernels and copies that the profiler sees in one ``update`` of 32 crowded images."""
    from torch.profiler import ProfilerActivity, profile  # noqa: PLC0415

    found = {}
    batch = [rows * 32 for rows in moved(crowded(8), setting.device)]
    logits = torch.randn((8, 21, 64, 64), device=setting.device)
    truth = torch.randint(0, 21, (8, 64, 64), device=setting.device)
    for name, metric, arguments in (
        ("boxes", DetectionAP("coco2017", num_classes=3), batch),
        ("logits", MeanIoU("voc2012", num_classes=21), (logits, truth)),
    ):
        for _ in range(3):
            metric.update(*arguments)  # type: ignore[arg-type]
        with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as seen:
            metric.update(*arguments)  # type: ignore[arg-type]
            torch.cuda.synchronize()
        events = [one for one in seen.events() if one.device_type == torch.autograd.DeviceType.CUDA]
        found[name] = len(events)
    return found


def peers(setting: Any) -> dict[str, Any]:
    """The confusion matrix of torchmetrics on the card: the same counts, and the time of both."""
    from torchmetrics.classification import MulticlassConfusionMatrix  # noqa: PLC0415

    logits = torch.randn((8, 21, 256, 256), device=setting.device)
    truth = torch.randint(0, 21, (8, 256, 256), device=setting.device)
    theirs: Any = MulticlassConfusionMatrix(21, validate_args=False).to(setting.device)
    mine = MeanIoU("voc2012", num_classes=21)
    theirs.update(logits, truth)
    mine.update(logits, truth)
    equal = torch.equal(theirs.compute().cpu().long(), mine.compute().confusion_matrix)
    if not equal:
        raise AssertionError("torchmetrics counts otherwise")
    return {
        "torchmetrics_us": microseconds(lambda: theirs.update(logits, truth)),
        "ours_us": microseconds(lambda: mine.update(logits, truth)),
    }


# In processes of their own ------------------------------------------------------------------------


def risky(name: str) -> dict[str, Any]:
    """What may end a process, in one of its own."""
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu_metrics", name],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    if done.returncode:
        raise AssertionError(done.stderr[-2000:])
    return {"seconds": time.perf_counter() - start, "said": done.stdout[-500:]}


def second_card() -> None:
    """A metric on ``cuda:1`` while ``cuda:0`` is current."""
    batch = crowded(40)
    host = DetectionAP("coco2017", num_classes=3).update(*batch).compute()
    there = DetectionAP("coco2017", num_classes=3).update(*moved(batch, torch.device("cuda:1")))
    assert not compare("second card", host, there.compute()).differing
    maps = torch.randint(0, 3, (2, 64, 64))
    pixels = MeanIoU("voc2012", num_classes=3).update(*moved((maps, maps), torch.device("cuda:1")))
    assert int(pixels.compute().confusion_matrix.sum()) == maps.numel()


def nccl() -> None:
    """``compute`` in a group of one rank under NCCL."""
    import torch.distributed as dist  # noqa: PLC0415

    dist.init_process_group("nccl", init_method="tcp://127.0.0.1:29511", rank=0, world_size=1)
    batch = crowded(40)
    metric = DetectionAP("coco2017", num_classes=3).update(*moved(batch, torch.device("cuda:0")))
    state = metric._synced(None, None, None)
    assert state is not None
    host = DetectionAP("coco2017", num_classes=3).update(*batch).compute()
    assert not compare("NCCL", host, state.compute(sync=False)).differing
    dist.destroy_process_group()


def faults() -> None:
    """A NaN box and an unknown label are named by ``compute``; the device goes on."""
    for key, value in (("boxes", torch.nan), ("labels", 99)):
        found, true = moved(crowded(9), torch.device("cuda"))
        found[0][key][5] = value
        metric = DetectionAP("coco2017", num_classes=3).update(found, true)
        said = ""
        try:
            metric.compute()
        except ValueError as error:
            said = str(error)
        if "row 5" not in said:
            raise AssertionError(f"the fault of {key} is not named: {said!r}")
    torch.cuda.synchronize()


if __name__ == "__main__":
    {"second card": second_card, "NCCL": nccl, "faults": faults}[sys.argv[1]]()
    print("done")
