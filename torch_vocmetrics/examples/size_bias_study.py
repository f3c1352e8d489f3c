"""Whether a detector loses because it is worse, or because it misses small objects.

    python -m torch_vocmetrics.examples.size_bias_study

Two detectors see the same synthetic images. The even one finds seven of ten objects of any size.
The biased one finds nine of ten objects that cover 1 % of their image or more, and one of ten
smaller ones. Both make the same number of errors. The script shows their average precision when
objects below a limit are made difficult, so that they count neither way, with the p-value of a
paired bootstrap over the images, and asserts for five seeds what must hold:

* without a limit the biased detector loses;
* from a limit of 1 % of the image on it wins;
* neither is by chance: p < 0.05 without a limit and at 1 %.

Source: Everingham et al., The PASCAL Visual Object Classes (VOC) Challenge, IJCV 2010, figure 26.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from torch_vocmetrics import DetectionAP, analysis

Image = dict[str, Any]

HEIGHT, WIDTH = 375, 500
BIAS_BELOW = 0.01
LIMITS = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1)
CLASS_NAMES = ("car", "person")


@dataclasses.dataclass(frozen=True)
class Detector:
    """A detector that finds objects with a chance that depends on their size alone."""

    small: float
    large: float

    def chance(self, share: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The chance to find objects that cover these shares of their image."""
        return np.where(share < BIAS_BELOW, self.small, self.large)


DETECTORS = {"even": Detector(0.7, 0.7), "biased": Detector(0.1, 0.9)}


def make_targets(count: int, rng: np.random.Generator) -> list[Image]:
    """Images with objects that cover 0.05 % to 20 % of them, each in a cell of its own."""
    targets = []
    for image_id in range(count):
        cells = rng.permutation(4)[: int(rng.integers(1, 5))]
        share = np.exp(rng.uniform(np.log(0.0005), np.log(0.2), cells.size))
        side = np.sqrt(share * HEIGHT * WIDTH)
        corner = np.stack([cells % 2 * WIDTH / 2, cells // 2 * HEIGHT / 2], axis=1)
        boxes = np.concatenate([corner, corner + side[:, None]], axis=1)
        targets.append(
            {
                "boxes": torch.from_numpy(boxes),
                "labels": torch.from_numpy(rng.integers(0, len(CLASS_NAMES), cells.size)),
                "image_id": image_id,
                "image_size": (HEIGHT, WIDTH),
                "area": torch.from_numpy(side**2),
            }
        )
    return targets


def detect(targets: Sequence[Image], detector: Detector, rng: np.random.Generator) -> list[Image]:
    """Slightly moved boxes of the objects that are found, and two errors an image."""
    predictions = []
    for target in targets:
        boxes, share = target["boxes"].numpy(), target["area"].numpy() / (HEIGHT * WIDTH)
        found = rng.random(len(boxes)) < detector.chance(share)
        side = boxes[:, 2:] - boxes[:, :2]
        moved = boxes + np.tile(side, 2) * rng.normal(0, 0.05, boxes.shape)
        # Errors lie to the right of the image, where no object is.
        corner = rng.uniform(0, 300, (2, 2)) + np.array([2 * WIDTH, 0])
        errors = np.concatenate([corner, corner + rng.uniform(20, 150, (2, 1))], axis=1)
        labels = np.concatenate(
            [target["labels"].numpy()[found], rng.integers(0, len(CLASS_NAMES), 2)]
        )
        scores = np.concatenate([rng.beta(4, 2, int(found.sum())), rng.beta(2, 4, 2)])
        predictions.append(
            {
                "boxes": torch.from_numpy(np.concatenate([moved[found], errors])),
                "scores": torch.from_numpy(scores),
                "labels": torch.from_numpy(labels),
            }
        )
    return predictions


def metrics_of(targets: list[Image], seed: int) -> dict[str, DetectionAP[Any]]:
    """Each detector's metric on the same images."""
    metrics = {}
    for number, (name, detector) in enumerate(DETECTORS.items()):
        rng = np.random.default_rng([seed, number])
        metric = DetectionAP("voc2012", class_names=list(CLASS_NAMES), diagnostics=True)
        metrics[name] = metric.update(detect(targets, detector, rng), targets)
    return metrics


def p_value(targets: list[Image], seed: int, limit: float, num_resamples: int) -> float:
    """Of the difference of the two detectors where objects below a limit are difficult."""
    least = limit * HEIGHT * WIDTH
    limited = [{**target, "difficult": target["area"] < least} for target in targets]
    first, second = metrics_of(limited, seed).values()
    result = analysis.paired_bootstrap(first, second, num_resamples=num_resamples)
    return float(result.p_value_of("mAP"))


def study(seed: int, images: int, num_resamples: int) -> list[tuple[float, float, float, float]]:
    """For each limit: the limit, AP of the even and of the biased detector, and the p-value."""
    targets = make_targets(images, np.random.default_rng(seed))
    curves = [
        analysis.sweep_smallest_size(metric, LIMITS, relative=True).mean.tolist()
        for metric in metrics_of(targets, seed).values()
    ]
    values = [p_value(targets, seed, limit, num_resamples) for limit in LIMITS]
    return list(zip(LIMITS, *curves, values, strict=True))


def check(rows: Sequence[tuple[float, float, float, float]]) -> None:
    """Raise AssertionError unless the biased detector loses at first and wins from 1 % on."""
    for limit, even, biased, p in rows:
        if limit == 0:
            assert biased < even, "without a limit the biased detector must lose"
        if limit >= BIAS_BELOW:
            assert biased > even, f"with a limit of {limit:g} the biased detector must win"
        if limit in (0, BIAS_BELOW):
            assert p < 0.05, f"the difference with a limit of {limit:g} must not be by chance"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the study and print a table for each seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=400, help="in each set [400]")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--resamples", type=int, default=500, help="of the bootstrap [500]")
    options = parser.parse_args(argv)
    for seed in options.seeds:
        rows = study(seed, options.images, options.resamples)
        print(f"seed {seed}\nobjects from   even  biased  p-value")
        for limit, even, biased, p in rows:
            print(f"{limit:12.1%}  {even:.3f}   {biased:.3f}   {p:.3f}")
        check(rows)
    print("without a limit the biased detector loses; from 1 % of the image on it wins")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
