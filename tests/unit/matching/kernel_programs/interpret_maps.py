"""Run the kernel of label maps in Triton's interpreter beside plain operations.

Argument: the name of a rule that the kernel is to get wrong. Prints one line of JSON.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch

from torch_vocmetrics.kernels import confusion
from torch_vocmetrics.ops import label_tallies
from torch_vocmetrics.ops.confusion import LabelTable

INTEGERS = (
    torch.uint8, torch.int8, torch.int16, torch.uint16, torch.int32, torch.uint32, torch.int64,
    torch.uint64, torch.bool,
)  # fmt: skip
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def tables(num_classes: int, *, void_predictions: bool) -> tuple[LabelTable, LabelTable]:
    """Columns and rows: labels 3 apart, void 1, as no data set has them."""
    classes = {3 * k: k for k in range(num_classes)}
    void = {1: num_classes, 255: num_classes}
    rows = LabelTable.of(classes | void, num_classes + 1)
    columns = LabelTable.of(classes | void if void_predictions else classes, num_classes + 1)
    return columns, rows


def labels_of(rng: torch.Generator, kind: torch.dtype, num_classes: int, *, bad: bool) -> Any:
    """[2, 9, 150] labels: mostly one class, as real maps are; maybe some that mean nothing."""
    known = torch.tensor([*range(0, 3 * num_classes, 3), 1, 255])
    maps = known[torch.randint(0, len(known), (2, 9, 150), generator=rng)]
    maps[torch.rand(maps.shape, generator=rng) < 0.6] = 0
    if bad:
        odd = torch.tensor([2, 4, -1, -(2**40), 2**40, 256, 3 * num_classes])
        where = torch.rand(maps.shape, generator=rng) < 0.01
        maps = torch.where(where, odd[torch.randint(0, len(odd), maps.shape, generator=rng)], maps)
    if kind == torch.bool:
        return maps == 0
    return maps.to(kind)


def logits_of(rng: torch.Generator, kind: torch.dtype, num_classes: int, *, bad: bool) -> Any:
    """[2, K, 9, 150] logits with many ties, both zeros and infinities; maybe a NaN."""
    logits = torch.randint(-2, 3, (2, num_classes, 9, 150), generator=rng).to(kind)
    pick = torch.rand(logits.shape, generator=rng)
    logits[pick < 0.05] = -torch.inf
    logits[pick > 0.98] = torch.inf
    logits[(pick > 0.5) & (logits == 0)] = -0.0
    logits[:, :, 0] = -torch.inf  # rows without any finite logit
    if bad:
        logits[pick > 0.9999] = torch.nan
    return logits


def cases() -> Any:
    """Each with its name: every number type, layouts of memory, numbers of classes, faults."""
    for number, kind in enumerate((*INTEGERS, *FLOATS)):
        rng = torch.Generator().manual_seed(number)
        make = logits_of if kind.is_floating_point else labels_of
        for bad in (False, True):
            K = 2 if kind == torch.bool else 7
            yield (
                f"{kind} {bad}",
                make(rng, kind, K, bad=bad),
                labels_of(rng, torch.int64, K, bad=bad),
                K,
            )
    rng = torch.Generator().manual_seed(99)
    for K in (1, 22, 40, 200):  # from one histogram of 512 cells to none
        yield (
            f"{K} classes",
            labels_of(rng, torch.int64, K, bad=False),
            labels_of(rng, torch.int64, K, bad=False),
            K,
        )
        yield (
            f"{K} channels",
            logits_of(rng, torch.float32, K, bad=False),
            labels_of(rng, torch.uint8 if K < 80 else torch.int64, K, bad=False),
            K,
        )
    last = logits_of(rng, torch.float32, 5, bad=False).contiguous(memory_format=torch.channels_last)
    truth = labels_of(rng, torch.int16, 5, bad=False)
    yield "channels last", last, truth, 5
    yield (
        "columns",
        labels_of(rng, torch.int16, 5, bad=False).transpose(1, 2),
        truth.transpose(1, 2),
        5,
    )
    yield "every other", last[:, :, ::2, ::3], truth[:, ::2, ::3], 5
    yield "cropped", last[:, :, 1:4, 5:50], truth[:, 1:4, 5:50], 5
    yield "one row", last[:, :, :1], truth[:, :1], 5
    yield "one image", last[:1], truth[:1], 5


def wrong(mutation: str, arguments: list[Any]) -> list[Any]:
    if mutation == "last":  # of equal logits
        arguments[0] = arguments[0].flip(1) if arguments[0].is_floating_point() else arguments[0]
    if mutation == "below":
        arguments[5] += 1
    if mutation == "void":
        arguments[3] = arguments[3].clamp(max=arguments[6] - 1)
    return arguments


def main() -> None:
    mutation = (sys.argv[1:] or [""])[0]
    report: dict[str, Any] = {"differing": [], "cases": 0, "pixels": 0, "faults": 0}
    for number, (name, prediction, truth, K) in enumerate(cases()):
        columns, rows = tables(K, void_predictions=number % 3 == 0)
        arguments = [prediction, truth, columns.indices, rows.indices]
        arguments += [columns.lowest - 1, rows.lowest - 1, K]
        wanted = label_tallies._on_host(*arguments)
        got = confusion.tally(*wrong(mutation, arguments))
        bad, others = (label_tallies.faults(one) for one in (wanted, got))
        # Of several faults of an image the first counts; a pixel may have two.
        first = [one.long().argmax(1)[one.any(1)].tolist() for one in (bad, others)]
        sound = ~bad.any(1)
        same = torch.equal(bad.any(1), others.any(1)) and first[0] == first[1]
        if not (same and torch.equal(wanted[sound], got[sound])):
            report["differing"].append(name)
        report["cases"] += 1
        report["pixels"] += int(label_tallies.by_cell(wanted).sum())
        report["faults"] += int(bad.any(1).sum())
    print(json.dumps(report))


main()
