"""Which detections outside the evaluated range of heights should count? The study of Caltech.

    python -m torch_vocmetrics.examples.filtering_study

Objects of at least 50 pixels count. A detection of another height may be removed before matching
("strict"; "expanded r" keeps [50 / r, inf)), after it if it matched nothing ("post"), or never
("none"). On synthetic frames the script shows what each does to three detectors, and asserts what
must hold:

* a detector that is tuned to the range scores the same under every strategy;
* expanded filtering with r = 1 is strict filtering;
* a perfect detector gives the floor: 0 without one, 1e-10 with acfTest's;
* 17,160 boxes a frame of 42 and 46 pixels, scored below all others, improve the number under post
  filtering alone, since it forgets those that matched nothing;
* standardised widths make the number independent of the width of the annotations.

Source: Dollar et al., Pedestrian Detection: An Evaluation of the State of the Art, PAMI 2012.
"""

from __future__ import annotations

import argparse
import dataclasses
import resource
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from torch_vocmetrics import LogAverageMissRate, load_protocol

from ..protocols import MissRateProtocol

Frame = dict[str, Any]

WIDTH, HEIGHT, LEAST = 640, 480, 50
RATIO = 0.41
EXPANSIONS = (1.0, 1.1, 1.25, 1.5)
GRID = (132, 65)
"""Columns and rows of boxes at each of two heights: 17,160 boxes."""


def strategies(base: MissRateProtocol) -> dict[str, MissRateProtocol]:
    """The protocol under every way of filtering, for objects of at least 50 pixels."""
    reasonable = base.subsets[0]
    ways = {}
    for r in EXPANSIONS:
        subset = reasonable._replace(filter_expansion=r)
        ways[f"expanded {r:g}"] = dataclasses.replace(base, subsets=(subset,))
    for name, rule in (("post", "after_matching"), ("none", "none")):
        ways[name] = dataclasses.replace(base, subsets=(reasonable,), detection_filter=rule)
    return ways


def frames(count: int, rng: np.random.Generator, ratio: float = RATIO) -> list[Frame]:
    """Persons of 30 to 140 pixels with feet on the ground, and a region to ignore in each frame."""
    made = []
    for _ in range(count):
        number = int(rng.integers(2, 6))
        height = np.exp(rng.uniform(np.log(30), np.log(140), number))
        centre = rng.uniform(60, WIDTH - 160, number)
        top = rng.uniform(150, 300, number)
        boxes = np.stack([centre - ratio * height / 2, top, ratio * height, height], axis=1)
        region = [[WIDTH - 90.0, 200.0, 60.0, 120.0]]
        made.append(
            {
                "boxes": torch.from_numpy(np.concatenate([boxes, region])),
                "labels": torch.zeros(number + 1, dtype=torch.int64),
                "ignore": torch.tensor([False] * number + [True]),
            }
        )
    return made


def detections(boxes: np.ndarray, scores: np.ndarray) -> Frame:
    """Detections of one frame."""
    return {
        "boxes": torch.from_numpy(boxes.astype(np.float64)),
        "scores": torch.from_numpy(scores.astype(np.float64)),
        "labels": torch.zeros(len(boxes), dtype=torch.int64),
    }


def detector(
    truth: Sequence[Frame], rng: np.random.Generator, *, tuned: bool, spread: float = 0.05
) -> list[Frame]:
    """Finds most persons a little beside their place, and fewer than one false box a frame.

    Args:
        truth: the frames.
        rng: where errors come from.
        tuned: report only what is at least 50 pixels high.
        spread: standard deviation of its boxes, as a part of their sides.
    """
    found = []
    for number, frame in enumerate(truth):
        boxes = frame["boxes"].numpy()
        near = boxes[rng.random(len(boxes)) < 0.75]
        near = near + rng.normal(0, spread, near.shape) * near[:, [2, 3, 2, 3]]
        false = np.array([[rng.uniform(50, 500), 20, 30, rng.uniform(35, 100)]])
        false = false[: int(number % 5 < 3)]
        rows = np.concatenate([near, false])
        scores = np.concatenate([rng.beta(4, 2, len(near)), rng.beta(2, 3, len(false))]) + 0.1
        kept = rows[:, 3] >= LEAST if tuned else np.ones(len(rows), bool)
        found.append(detections(rows[kept], scores[kept]))
    return found


def flood() -> np.ndarray:
    """17,160 boxes of 42 and 46 pixels all over a frame, from its upper left corner on."""
    boxes = []
    for height in (42.0, 46.0):
        x = np.linspace(0, WIDTH - RATIO * height, GRID[0])
        y = np.linspace(0, HEIGHT - height, GRID[1])
        left, top = (values.ravel() for values in np.meshgrid(x, y))
        size = np.full_like(left, height)
        boxes.append(np.stack([left, top, RATIO * size, size], axis=1))
    return np.concatenate(boxes)


def flooded(found: Sequence[Frame]) -> list[Callable[[], Frame]]:
    """The detections with the flood after them, made one frame at a time."""
    extra = detections(flood(), np.zeros(2 * GRID[0] * GRID[1]))
    return [
        lambda one=one: {key: torch.cat([one[key], extra[key]]) for key in one}  # type: ignore[misc]
        for one in found
    ]


def score(
    protocol: MissRateProtocol, found: Sequence[Any], truth: Sequence[Frame]
) -> tuple[float, float]:
    """Log-average miss rate, and the false positives per image at which the curve ends."""
    metric = LogAverageMissRate(protocol, box_format="xywh")
    for one, target in zip(found, truth, strict=True):
        metric.update([one() if callable(one) else one], [target])
    result = metric.compute()
    fppi = result.curves[0].fppi
    return result.headline, float(fppi[-1]) if len(fppi) else 0.0


def by_strategy(found: Sequence[Any], truth: Sequence[Frame]) -> dict[str, float]:
    """The number of a detector under every strategy."""
    ways = strategies(load_protocol("miss_rate/caltech2012", MissRateProtocol))
    values = {name: score(rules, found, truth)[0] for name, rules in ways.items()}
    if not any(map(callable, found)):
        high = [one["boxes"][:, 3] >= LEAST for one in found]
        kept = [
            {key: column[rows] for key, column in one.items()}
            for one, rows in zip(found, high, strict=True)
        ]
        values = {"strict": score(ways["none"], kept, truth)[0], **values}
        assert values["strict"] == values["expanded 1"], "r = 1 is strict filtering"
    return values


def study_filtering(count: int, seed: int) -> None:
    """Compare strategies on a general, a range-tuned and a flooded detector."""
    truth = frames(count, np.random.default_rng(seed))
    general = detector(truth, np.random.default_rng(seed + 1), tuned=False)
    tuned = detector(truth, np.random.default_rng(seed + 1), tuned=True)
    rules = strategies(load_protocol("miss_rate/caltech2012", MissRateProtocol))["none"]
    assert score(rules, tuned, truth)[1] < 1, "the curve must end before 1 FPPI"
    rows = {"general": by_strategy(general, truth), "range-tuned": by_strategy(tuned, truth)}
    assert len(set(rows["range-tuned"].values())) == 1, "every strategy gives one number"
    start = time.perf_counter()
    rows["flooded"] = {
        "strict": rows["range-tuned"]["strict"],
        **by_strategy(flooded(tuned), truth),
    }
    spent = time.perf_counter() - start
    changed = {
        name for name, value in rows["flooded"].items() if value != rows["range-tuned"][name]
    }
    assert changed == {"post"}, f"only post filtering may change, but {changed} did"
    assert rows["flooded"]["post"] < rows["range-tuned"]["post"]
    print(f"{'detector':12}", *(f"{name:>13}" for name in rows["general"]))
    for name, values in rows.items():
        print(f"{name:12}", *(f"{value:13.4f}" for value in values.values()))
    boxes = count * 2 * GRID[0] * GRID[1]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"flooded: {boxes:,} boxes on {count} frames under each of {len(EXPANSIONS) + 2} "
        f"strategies in {spent:.1f} s; peak memory of the process {peak:,.0f} MiB"
    )


def study_perfect(count: int, seed: int) -> None:
    """A perfect detector gives the floor."""
    truth = frames(count, np.random.default_rng(seed))
    perfect = [detections(one["boxes"].numpy(), np.ones(len(one["labels"]))) for one in truth]
    none = score(load_protocol("miss_rate/caltech2012", MissRateProtocol), perfect, truth)[0]
    floored = score(load_protocol("miss_rate/caltech_acftest", MissRateProtocol), perfect, truth)[0]
    assert none == 0.0
    assert abs(floored / 1e-10 - 1) < 1e-12, "exp of a mean of logarithms rounds"
    print(f"\nperfect detector: {none:g} without a floor, {floored:.3g} with acfTest's")


def study_widths(count: int, seed: int) -> None:
    """Annotate the same persons narrower and wider; standardise all, some, or no boxes."""
    base = load_protocol("miss_rate/caltech2012", MissRateProtocol)
    base = dataclasses.replace(base, subsets=base.subsets[:1])
    rules = {
        "as annotated": dataclasses.replace(base, standardised=()),
        "standardised, not ignored ones": base,
        "standardised, ignored ones too": dataclasses.replace(
            base, standardised=("detections", "objects", "ignored_objects")
        ),
    }
    print(f"\n{'width / height':32}", *(f"{ratio:8.2f}" for ratio in (0.34, 0.41, 0.50)))
    values: dict[str, list[float]] = {}
    for name, protocol in rules.items():
        values[name] = []
        for ratio in (0.34, 0.41, 0.50):
            truth = frames(count, np.random.default_rng(seed), ratio)
            found = detector(
                frames(count, np.random.default_rng(seed)),
                np.random.default_rng(seed + 1),
                tuned=False,
                spread=0.14,
            )
            values[name].append(score(protocol, found, truth)[0])
        print(f"{name:32}", *(f"{value:8.4f}" for value in values[name]))
    for name, numbers in values.items():
        if name.endswith("too"):
            assert len(set(numbers)) == 1, "standardised widths do not depend on the annotation"
    assert len(set(values["as annotated"])) > 1


def main(argv: Sequence[str] | None = None) -> int:
    """Run the study.

    Args:
        argv: the arguments; None takes those of the process.
    """
    parser = argparse.ArgumentParser(description="how to filter detections by height")
    parser.add_argument("--frames", type=int, default=100, metavar="N", help="how many [100]")
    parser.add_argument("--seed", type=int, default=2012, help="of the synthetic frames [2012]")
    args = parser.parse_args(argv)
    study_filtering(args.frames, args.seed)
    study_perfect(args.frames, args.seed)
    study_widths(max(args.frames, 50), args.seed)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
