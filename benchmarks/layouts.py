"""Time of LayoutAP on 100,000 layouts in packed tensors, on one thread, with parity beside it.

Prints one line a protocol and exits with 1 if a median of five runs is not under two seconds, or if
a sample of the workload does not give the reference's result.
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import Any

import numpy as np
import torch

from torch_vocmetrics import LayoutAP, load_protocol, reference
from torch_vocmetrics.protocols import LayoutProtocol

LAYOUTS, PERSONS_AN_IMAGE, LAYOUTS_A_PERSON = 100_000, 2, 5
LIMIT_S, RUNS, SAMPLE_IMAGES = 2.0, 5, 60
PROTOCOLS = ("voc2007", "voc2008", "voc2009", "voc2010")


def workload(images: int, rules: LayoutProtocol) -> tuple[dict[str, Any], dict[str, Any]]:
    """Persons with a head, two hands and two feet, and layouts some pixels off, all packed."""
    rng = np.random.default_rng(7)
    persons = images * PERSONS_AN_IMAGE
    layouts = persons * LAYOUTS_A_PERSON
    boxes = np.tile(np.array([[1.0, 1, 100, 300], [150, 1, 250, 300]]), (images, 1))
    parts = np.array([[40.0, 1, 60, 30], [1, 120, 20, 140], [80, 120, 99, 140],
                      [20, 270, 40, 299], [60, 270, 80, 299]])  # fmt: skip
    true = np.repeat(boxes[:, None, :2], 5, axis=1).repeat(2, axis=2)[..., [0, 2, 1, 3]] + parts
    true = true.reshape(persons, 5, 4)
    who = np.repeat(np.arange(persons), LAYOUTS_A_PERSON)
    found = true[who] + rng.integers(-3, 4, size=(layouts, 5, 4))
    index = np.tile([1, 2], images)
    columns = {
        "boxes": (boxes[who], boxes),
        "object_index": (index[who], index),
        "part_boxes": (found.reshape(-1, 4), true.reshape(-1, 4)),
        "part_labels": (np.tile([0, 1, 1, 2, 2], layouts), np.tile([0, 1, 1, 2, 2], persons)),
        "part_counts": (np.full(layouts, 5), np.full(persons, 5)),
    }
    unused = "object_index" if rules.persons == "detected" else "boxes"
    sides: list[dict[str, Any]] = [
        {key: torch.from_numpy(pair[side]) for key, pair in columns.items() if key != unused}
        for side in (0, 1)
    ]
    sides[0]["scores"] = torch.from_numpy(rng.random(layouts))
    sides[0]["counts"] = [PERSONS_AN_IMAGE * LAYOUTS_A_PERSON] * images
    sides[1]["counts"] = [PERSONS_AN_IMAGE] * images
    return sides[0], sides[1]


def unpacked(side: dict[str, Any]) -> list[dict[str, Any]]:
    """One dict an image, as the reference takes it."""
    counts = side["counts"]
    parts = [int(part.sum()) for part in side["part_counts"].split(counts)]
    columns = {
        key: values.split(parts if key in ("part_boxes", "part_labels") else counts)
        for key, values in side.items()
        if key != "counts"
    }
    return [{key: values[i] for key, values in columns.items()} for i in range(len(counts))]


def parity(rules: LayoutProtocol) -> bool:
    layouts, persons = workload(SAMPLE_IMAGES, rules)
    fast = LayoutAP(rules).update(layouts, persons).compute()
    slow = reference.evaluate_layout(rules, unpacked(layouts), unpacked(persons))
    equal = torch.equal(fast.average_precision, slow.average_precision)
    curves = zip(fast.curves, slow.curves, strict=True)
    return equal and all(
        torch.equal(a.recall, b.recall) and torch.equal(a.precision, b.precision) for a, b in curves
    )


def main() -> int:
    torch.set_num_threads(1)
    images = LAYOUTS // (PERSONS_AN_IMAGE * LAYOUTS_A_PERSON)
    good = True
    for name in PROTOCOLS:
        rules = load_protocol(name, LayoutProtocol)
        inputs = workload(images, rules)
        times = []
        for _ in range(RUNS):
            start = time.perf_counter()
            result = LayoutAP(rules).update(*inputs).compute()
            times.append(time.perf_counter() - start)
        median, equal = statistics.median(times), parity(rules)
        good &= median < LIMIT_S and equal
        print(
            f"{name:22} {LAYOUTS:,} layouts  median {median:.3f} s  best {min(times):.3f} s  "
            f"limit {LIMIT_S:g} s  parity {'equal' if equal else 'DIFFERS'}  {result.to_dict()}"
        )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
