"""Curves of classes that were computed apart are those of one pass."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import torch

from torch_vocmetrics import DetectionAP, StateError
from torch_vocmetrics.curves.class_curves import ClassCurves, class_curves, detail_bytes
from torch_vocmetrics.curves.detection_result import Totals, detection_result, result_of_curves
from torch_vocmetrics.curves.ranking import Ranker
from torch_vocmetrics.lanes import Lanes
from torch_vocmetrics.states.plain import from_bytes, to_bytes
from torch_vocmetrics.testing import differences

K = 7


def ranker(name: str, seed: int = 0, images: int = 30) -> tuple[Any, Ranker]:
    rng = torch.Generator().manual_seed(seed)

    def rows(count: int) -> dict[str, Any]:
        corner = torch.randint(0, 20, (count, 2), generator=rng).float()
        size = torch.randint(4, 60, (count, 2), generator=rng)
        labels = torch.randint(1, K, (count,), generator=rng)  # the last class has nothing
        return {"boxes": torch.cat([corner, corner + size], 1), "labels": labels}

    found = [
        rows(12) | {"scores": torch.randint(0, 9, (12,), generator=rng) / 8} for _ in range(images)
    ]
    true = [rows(6) | {"image_id": number} for number in range(images)]
    metric = DetectionAP(name, num_classes=K, label_ids=range(1, K + 1))
    metric.update(found, true)
    protocol = metric.protocols[0]
    parts = metric._distinct()[0]
    return protocol, Ranker(parts, Lanes.of(protocol), K, protocol.max_detections[:-1])


class Classes:
    """A ranker that knows of some classes only."""

    def __init__(self, whole: Ranker, classes: range) -> None:
        self._whole, self._classes = whole, classes
        self.num_classes = len(classes)
        self.device, self.score_dtype = whole.device, whole.score_dtype
        self.num_images = whole.num_images
        self.class_counts = whole.class_counts[classes.start : classes.stop]
        self.ranking_bytes = whole.ranking_bytes

    def blocks(self, most: int, each: int = 0) -> list[range]:
        return [range(self.num_classes)]

    def ranked(self, classes: range) -> Any:
        return self._whole.ranked(self._classes)


@pytest.mark.parametrize("images", [30, 0])
@pytest.mark.parametrize("name", ["coco2017", "voc2007", "voc2012"])
def test_apart_and_together(name: str, images: int) -> None:
    protocol, whole = ranker(name, images=images)
    names = tuple(map(str, range(K)))
    wanted = detection_result(protocol, whole, names)
    totals = Totals(whole.num_images, whole.num_detections, whole.num_positives)
    parts = []
    for classes in (range(4, K), range(1), range(1, 4)):
        some: Any = Classes(whole, classes)
        sent = to_bytes(class_curves(protocol, some).columns())
        parts.append(ClassCurves.read(from_bytes(sent)))
    joined = ClassCurves.joined(parts, [3, 4, 5, 6, 0, 1, 2])
    result = result_of_curves(protocol, joined, totals, names)
    assert not list(differences(wanted, result))
    size = detail_bytes(protocol, K, whole.num_detections, whole.score_dtype)
    details = [tensor for key, tensor in joined.columns()["details"].items() if key != "rows"]
    assert size == sum(one.numel() * one.element_size() for one in details)


@pytest.mark.parametrize("name", ["coco2017", "voc2007"])
def test_numbers_without_the_whole_curves(name: str) -> None:
    protocol, whole = ranker(name)
    names = tuple(map(str, range(K)))
    totals = Totals(whole.num_images, whole.num_detections, whole.num_positives)
    bare = ClassCurves.joined([class_curves(protocol, whole, details=False)], range(K))
    result: Any = result_of_curves(protocol, bare, totals, names)
    result = pickle.loads(pickle.dumps(result))
    wanted = detection_result(protocol, whole, names)
    assert not list(differences(wanted.to_dict(), result.to_dict()))
    assert torch.equal(wanted.true_positives, result.true_positives)
    with pytest.raises(StateError, match=r'more than 64 MiB, .*compute\(shard_by="none"\)'):
        _ = result.curves[0] if name == "voc2007" else result.precision
    with pytest.raises(StateError, match="64 MiB"):
        _ = list(result.curves) if name == "voc2007" else result.scores
    assert isinstance(repr(result), str)
