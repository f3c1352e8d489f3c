"""Pairs of one image are made in portions: as many as the constant says, and the same bits."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers.mask_problems import mask_problem
from helpers.support import evaluate_by_metric

from torch_vocmetrics import DetectionAP, LogAverageMissRate, Metric
from torch_vocmetrics.matching import pairs
from torch_vocmetrics.matching.pairs import PairRuns
from torch_vocmetrics.testing import same

pytestmark = pytest.mark.slow

DETECTIONS, OBJECTS = 60, 9


def scene(seed: int) -> tuple[list[Any], list[Any]]:
    """One image whose boxes crowd around a few objects, some of them ignored, and a small one."""
    rng = torch.Generator().manual_seed(seed)

    def boxes(count: int) -> torch.Tensor:
        corner = torch.randint(0, 25, (count, 2), generator=rng).double()
        size = torch.tensor([[41.0, 100.0]]) + torch.randint(0, 20, (count, 2), generator=rng)
        return torch.cat([corner, corner + size], 1)

    found, true = [], []
    for detections, objects in ((DETECTIONS, OBJECTS), (2, 1), (0, 3), (3, 0)):
        scores = torch.randint(0, 20, (detections,), generator=rng) / 20
        labels = torch.zeros(detections, dtype=torch.int64)
        found.append({"boxes": boxes(detections), "scores": scores, "labels": labels})
        target = {"boxes": boxes(objects), "labels": torch.zeros(objects, dtype=torch.int64)}
        target["ignore"] = torch.rand(objects, generator=rng) < 0.3
        target["iscrowd"] = target["ignore"] & (torch.rand(objects, generator=rng) < 0.5)
        true.append(target | {"image_size": (480, 640)})
    return found, true


def metric(name: str) -> Metric[Any]:
    if name in ("coco2017", "voc2007", "voc2006"):
        return DetectionAP(name, num_classes=1)
    return LogAverageMissRate(name)


@pytest.mark.parametrize(
    "name", ["coco2017", "voc2007", "voc2006", "caltech2012", "citypersons2017", "crowdhuman2018"]
)
@pytest.mark.parametrize("most", [1, 7, 100])
def test_portions_change_no_bit(name: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(6):
        inputs = scene(seed)
        wanted = metric(name).update(*inputs).compute()
        with monkeypatch.context() as patch:
            patch.setattr(pairs, "MOST_PAIRS", most)
            sizes = record_sizes(patch)
            same(wanted, metric(name).update(*inputs).compute(), f"portions of {most}, seed {seed}")
        assert len(sizes) > DETECTIONS * OBJECTS / 3 / max(most, OBJECTS)
        assert max(sizes) <= max(most, OBJECTS)  # one detection with all objects is not cut


@pytest.mark.parametrize("most", [1, 7])
def test_portions_of_masks_change_no_bit(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(20):
        problem = mask_problem(seed)
        wanted = evaluate_by_metric("coco2017_segm", *problem[:2], **problem.kwargs)
        with monkeypatch.context() as patch:
            patch.setattr(pairs, "MOST_PAIRS", most)
            sizes = record_sizes(patch)
            got = evaluate_by_metric("coco2017_segm", *problem[:2], **problem.kwargs)
        same(wanted, got, f"portions of {most}, seed {seed}")
        assert max(sizes) <= max(most, 4)  # a detection meets at most four objects


def record_sizes(patch: pytest.MonkeyPatch) -> list[int]:
    """How many pairs were made each time."""
    made, sizes = PairRuns.pairs, []

    def recorded(runs: PairRuns, *args: Any) -> Any:
        portion = made(runs, *args)
        sizes.append(portion.detection.shape[0])
        return portion

    patch.setattr(PairRuns, "pairs", recorded)
    return sizes


def test_portions_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Detections of 2, 3, 0, 4 and 1 objects."""
    groups = torch.tensor([0, 1, 2, 3, 4])
    objects = torch.tensor([0, 0, 1, 1, 1, 3, 3, 3, 3, 4])
    runs = PairRuns.of(groups, objects)
    for most, wanted in {
        10: [(0, 5)],
        5: [(0, 3), (3, 5)],
        4: [(0, 1), (1, 3), (3, 4), (4, 5)],
        1: [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)],
    }.items():
        monkeypatch.setattr(pairs, "MOST_PAIRS", most)
        portions = runs.portions()
        assert [(part.start, part.stop) for part in portions] == wanted, most
        detections = [runs.pairs(part).detection + part.start for part in portions]
        assert torch.cat(detections).tolist() == [0, 0, 1, 1, 1, 3, 3, 3, 3, 4]
        ground_truths = [runs.pairs(part).ground_truth for part in portions]
        assert torch.cat(ground_truths).tolist() == list(range(10))
    nothing = PairRuns.of(groups[:0], objects)
    assert nothing.portions() == [slice(0, 0)]
