"""A metric on several streams, by doubles: who waits for whom, and which tensors are recorded."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from helpers.host_backed_cuda import DeviceTensor, host_backed_cuda, moved

from torch_vocmetrics import ClassificationAP, DetectionAP, MeanIoU
from torch_vocmetrics.metrics import streams


class Stream:
    """A stream that notes for which others it was made to wait."""

    def __init__(self, name: str, log: list[tuple[str, str]]) -> None:
        self.name, self.log = name, log

    def wait_stream(self, other: Stream) -> None:
        self.log.append((self.name, other.name))


class Cards:
    """Cards with streams, of which one is current."""

    def __init__(self) -> None:
        self.waits: list[tuple[str, str]] = []
        self.recorded: list[tuple[int, str]] = []
        self.named = {name: Stream(name, self.waits) for name in ("main", "side")}
        self.current = self.named["main"]

    def use(self, name: str) -> None:
        self.current = self.named[name]


@pytest.fixture
def cards(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cards]:
    made = Cards()
    monkeypatch.setattr(streams, "current_stream", lambda device: made.current)
    monkeypatch.setattr(
        DeviceTensor,
        "record_stream",
        lambda self, stream: made.recorded.append((id(self.host), stream.name)),
        raising=False,
    )
    with host_backed_cuda():
        yield made


def images() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    masks = torch.zeros((2, 8, 70), dtype=torch.bool)
    masks[:, 2:5, 3:60] = True
    rows = {"masks": masks, "labels": torch.tensor([0, 1])}
    return [moved(rows | {"scores": torch.tensor([0.5, 0.25])})], [moved(rows)]


def test_a_side_stream_waits_for_the_stream_of_the_updates(cards: Cards) -> None:
    metric: Any = DetectionAP("coco2017_segm", num_classes=2).update(*images())
    metric.update(*images())
    assert cards.waits == []
    pending = vars(metric)["_accumulated"].pending
    held = {id(one.host) for one in streams.tensors_of(pending)}
    words = {id(one.words.host) for batch in pending for one in batch.detections.masks}
    assert words < held
    cards.use("side")
    result = metric.compute()
    assert set(cards.waits) == {("side", "main")}
    assert held <= {number for number, name in cards.recorded if name == "side"}
    cards.waits.clear()
    metric.compute()
    assert cards.waits == []  # the state is the side stream's now
    cards.use("main")
    metric.update(*images())
    assert set(cards.waits) == {("main", "side")}
    assert result.headline == 1.0


@pytest.mark.parametrize("name", ["pixels", "scores"])
def test_every_metric_follows_the_current_stream(cards: Cards, name: str) -> None:
    maps, scores = torch.randint(0, 3, (2, 4, 5)), torch.rand(4, 3)
    metric: Any = MeanIoU("voc2012", num_classes=3)
    arguments = moved((maps, maps))
    if name == "scores":
        metric = ClassificationAP("voc2012", num_classes=3)
        arguments = moved((scores, scores > 0.5))
    metric.update(*arguments)
    cards.use("side")
    metric.update(*arguments).compute()
    assert set(cards.waits) == {("side", "main")}
    assert cards.recorded


def test_copies_and_pickles_have_no_stream(cards: Cards) -> None:
    metric: Any = MeanIoU("voc2012", num_classes=3)
    metric.update(*moved((torch.zeros(1, 4, 5).long(), torch.zeros(1, 4, 5).long())))
    assert vars(metric)["_stream"] is cards.current
    assert "_stream" not in metric.__getstate__()
    assert "_stream" not in vars(pickle.loads(pickle.dumps(MeanIoU("voc2012", num_classes=3))))
    assert copy.copy(metric).num_images == 1


def test_on_the_host_there_are_no_streams() -> None:
    metric: Any = MeanIoU("voc2012", num_classes=3)
    metric.update(torch.zeros(1, 4, 5).long(), torch.zeros(1, 4, 5).long())
    assert "_stream" not in vars(metric)
