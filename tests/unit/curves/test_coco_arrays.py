"""The dense arrays of a COCO result are made when they are read, and not before."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch

from torch_vocmetrics import DetectionAP
from torch_vocmetrics.curves import coco_means, ranking
from torch_vocmetrics.ops.sums import maximum_from_here
from torch_vocmetrics.results.numbers import mean_of_defined
from torch_vocmetrics.testing import differences


def result(seed: int = 0) -> Any:
    """Of 30 images of three classes, the last of which has no object."""
    rng = torch.Generator().manual_seed(seed)
    metric: Any = DetectionAP("coco2017", num_classes=3)
    for _ in range(30):
        corner = torch.randint(0, 60, (12, 2), generator=rng).float()
        boxes = torch.cat([corner, corner + torch.randint(8, 80, (12, 2), generator=rng)], 1)
        labels = torch.randint(0, 2, (12,), generator=rng)
        scores = torch.randint(0, 9, (12,), generator=rng) / 8
        shifted = boxes[:5] + torch.randint(-3, 4, (5, 4), generator=rng)
        shifted[:, 2:] = torch.maximum(shifted[:, 2:], shifted[:, :2])
        found = torch.cat([shifted, boxes[5:]])
        metric.update(
            [{"boxes": found, "scores": scores, "labels": labels}],
            [{"boxes": boxes[:5], "labels": labels[:5]}],
        )
    return metric.compute()


def is_made(found: Any, name: str) -> bool:
    return isinstance(vars(found)[name], torch.Tensor)


def test_numbers_make_no_arrays() -> None:
    found = result()
    found.to_dict()
    assert found.mean_precision(iou_threshold=0.75, area="small") >= 0
    assert not is_made(found, "precision")
    assert not is_made(found, "scores")
    assert found.scores.shape == found.precision.shape == (10, 101, 3, 4, 3)
    assert found.precision is found.precision
    assert is_made(found, "precision")


def test_numbers_are_means_of_the_arrays() -> None:
    found = result()
    for t, threshold in enumerate(found.protocol.iou_thresholds):
        for a, area in enumerate(one.name for one in found.protocol.area_ranges):
            mean = found.mean_precision(iou_threshold=threshold, area=area)
            dense = found.precision[..., a, -1]
            assert not list(differences(mean_of_defined(dense[t]), mean))
            assert not list(differences(mean_of_defined(dense), found.mean_precision(area=area)))
    for k, value in enumerate(found.average_precision.tolist()[:2]):
        assert value == mean_of_defined(found.precision[:, :, k, 0, -1])
    assert found.average_precision[2].isnan()
    assert found.precision[:, :, 2].isnan().all()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_copies_before_and_after_reading(copied: Any) -> None:
    found = result()
    early = copied(found)
    assert not is_made(early, "precision")
    assert not list(differences(found, early))
    assert not list(differences(found, copied(found)))


def test_rankings_that_are_larger_than_the_arrays_are_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = result()
    monkeypatch.setattr(ranking.Ranking, "num_bytes", property(lambda _: 10**12))
    made = result()
    grid = vars(made)["precision"].func.__self__
    assert not grid._rankings
    assert vars(kept)["precision"].func.__self__._rankings
    assert not list(differences(kept, made))


@pytest.mark.parametrize("block", [2**15, 1])
def test_numbers_read_from_the_arrays_are_the_same(
    monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    wanted = result()
    monkeypatch.setattr(coco_means, "BLOCK_ROWS", block)
    monkeypatch.setattr(ranking.Ranker, "ranking_bytes", 10**12)
    monkeypatch.setattr(coco_means, "at_largest_limit", None)  # one pass is enough
    found = result()
    assert vars(found)["precision"].func.__self__.is_made
    assert not list(differences(wanted, found))
    for name in ("true_positives", "false_positives", "recall", "precision", "scores"):
        mine, other = (getattr(one, name).double().nan_to_num(-1.0) for one in (found, wanted))
        assert torch.equal(mine, other), name


def test_bytes_of_rankings_are_known_before() -> None:
    known: list[int] = []
    of: Any = vars(ranking.Ranker)["ranking_bytes"].fget
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            ranking.Ranker, "ranking_bytes", property(lambda one: known.append(of(one)) or of(one))
        )
        found = result()
    ((_, kept),) = vars(found)["precision"].func.__self__._rankings
    assert known == pytest.approx([kept.num_bytes], rel=0.01)  # one detection has two matches


def test_bytes_of_a_ranking() -> None:
    grid = vars(result())["precision"].func.__self__
    ((_, first),) = grid._rankings
    detections, matched = first.scores.shape[0], first.matched.shape[0]
    assert detections == 360
    # float32 score, two limits, area ranges; row and two words of lanes
    assert first.num_bytes == detections * (4 + 2 + 1) + matched * 24


def test_maximum_from_here() -> None:
    values = torch.tensor([[1.0, 0, 5], [3, 0, 1], [2, 4, 0]])
    wanted = [[3.0, 4, 5], [3, 4, 1], [2, 4, 0]]
    assert maximum_from_here(values).tolist() == wanted
