"""Run the kernels of masks in Triton's interpreter beside plain operations; prints JSON.

Argument: the name of a rule that a kernel is to get wrong.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import torch

from torch_vocmetrics.kernels import masks as kernels
from torch_vocmetrics.ops import mask_stacks

SIZES = ((5, 64), (3, 1), (7, 65), (4, 130), (1, 63), (9, 128), (2, 200))
KINDS = (
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16,
    torch.bfloat16, torch.float32, torch.float64,
)  # fmt: skip


def stacks(rng: torch.Generator, kind: torch.dtype) -> list[torch.Tensor]:
    """Masks of several images: none, one, many; of all sizes around a word; views of others."""
    made = []
    for number, (height, width) in enumerate(SIZES):
        count = number % 4
        if kind.is_floating_point:
            values = torch.rand((count, height, width), generator=rng).to(kind)
            values[torch.rand(values.shape, generator=rng) < 0.2] = 0.5
            if number == 5:
                values[:, 2, -1] = torch.nan
        else:
            values = torch.randint(-2, 3, (count, height, width), generator=rng)
            values = values.clamp(min=0).to(kind) if kind == torch.uint8 else values.to(kind)
        made.append(values)
    wide = torch.rand((3, 8, 100), generator=rng) * 2 - 0.5
    wide = wide.to(kind) if kind.is_floating_point else (wide > 0.5).to(kind)
    # Rows and masks with gaps between them.
    return [*made, wide[:, 1:7, 3:80], wide[::2], torch.ones((1, 3, 70)).to(kind)]


def packing(report: dict[str, Any], mutation: str) -> None:
    for number, kind in enumerate(KINDS):
        rng = torch.Generator().manual_seed(number)
        given, probable = stacks(rng, kind), kind.is_floating_point
        wanted = mask_stacks._packed_one_by_one(given, probable)
        if mutation == "at half":
            given = [torch.where(one == 0.5, 1, one) if probable else one for one in given]
        if mutation == "sign":
            given = [one.clamp(min=0) if kind == torch.int64 else one for one in given]
        got = kernels.pack(given, probable)
        got = (*got[:2], (got[2] > 0).long())
        same = all(torch.equal(a, b) for a, b in zip(wanted, got, strict=True))
        report["differing"] += [] if same else [f"packing {kind}"]
        report["bits"] += int(wanted[1].sum())


def decoding(report: dict[str, Any], mutation: str) -> None:
    """Run lengths of random masks, runs of length 0 among them, and full and empty masks."""
    rng = np.random.default_rng(3)
    runs, sizes, dense = [], [], []
    for number, (height, width) in enumerate(SIZES * 3):
        mask = rng.random((height, width)) < (0.1, 0.5, 0.97)[number % 3]
        mask |= number % 5 == 4
        mask &= number % 7 != 6
        flat = mask.T.reshape(-1)  # down the columns
        changes = np.flatnonzero(np.diff(flat)) + 1
        lengths = np.diff(np.concatenate(([0], changes, [flat.size])))
        lengths = np.concatenate(([0], lengths)) if flat[0] else lengths
        if number % 2:  # as no encoder writes, but files may have
            lengths = np.concatenate((lengths[:1], [0, 0], lengths[1:]))
        runs.append(lengths)
        sizes += [height, width]
        dense.append(torch.from_numpy(mask)[None])
    ends = torch.from_numpy(np.concatenate([np.cumsum(one) for one in runs]))
    words, areas, _ = mask_stacks._packed_one_by_one(dense, False)
    if mutation == "one pixel later":
        ends = ends + 1
    counts = [len(one) for one in runs]
    for name, decode in (("plain", mask_stacks._decoded_one_by_one), ("kernel", kernels.decode)):
        got = decode(ends, counts, sizes)
        if not (torch.equal(got[0], words) and torch.equal(got[1], areas)):
            report["differing"].append(f"decoding, {name}")


def comparing(report: dict[str, Any], mutation: str) -> None:
    """Pairs of masks: shuffled rows, several classes, crowds, empty masks, no masks at all."""
    for seed in range(4):
        rng = torch.Generator().manual_seed(seed)
        counts = [(3, 2), (0, 2), (4, 0), (1, 1), (5, 3)]
        first, second, labels, others = [], [], [], []
        for image, ((n, m), (height, width)) in enumerate(zip(counts, SIZES, strict=False)):
            size = (700, 64) if image == 4 and seed == 0 else (height, width)
            for side, many in ((first, n), (second, m)):
                dense = torch.rand((many, *size), generator=rng) < 0.5
                dense[1:2] = False
                side.append(mask_stacks.pack_masks(dense))
            labels.append(torch.randint(0, 2, (n,), generator=rng))
            others.append(torch.randint(0, 2, (m,), generator=rng))
        areas = [
            torch.cat([mask_stacks.mask_areas(one) for one in side]).double()
            for side in (first, second)
        ]
        crowd = torch.rand(len(areas[1]), generator=rng) < 0.3
        columns = [torch.cat(labels), torch.cat(others), crowd, *areas]
        wanted = mask_stacks._overlaps_one_by_one(first, second, *columns)
        if mutation == "crowds":
            columns[2] = ~crowd
        if mutation == "areas":
            columns[3] = columns[3].flip(0)
        if mutation == "classes":
            columns[0] = torch.zeros_like(columns[0])
        got = kernels.overlaps(first, second, *columns)
        report["differing"] += [] if torch.equal(got, wanted) else [f"comparing {seed}"]
        report["meeting"] += int((wanted > 0).sum())


def main() -> None:
    mutation = (sys.argv[1:] or [""])[0]
    report: dict[str, Any] = {"differing": [], "bits": 0, "meeting": 0}
    for part in (packing, decoding, comparing):
        part(report, mutation)
    print(json.dumps(report))


main()
