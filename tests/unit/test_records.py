"""Public records: which detection matched which ground truth, by hand and against plain loops."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

from torch_vocmetrics import DetectionAP, InputError, LogAverageMissRate, StateError, load_protocol
from torch_vocmetrics.inputs.keys import (
    DETECTION,
    KEYS,
    PREDICTION,
    TARGET,
    Key,
    keys_of,
    register_key,
)
from torch_vocmetrics.inputs.numbers import FLOATING
from torch_vocmetrics.matching import chunk as chunks
from torch_vocmetrics.matching import register_overlap
from torch_vocmetrics.matching.greedy import Matches
from torch_vocmetrics.metrics import recorded
from torch_vocmetrics.protocols.overlaps import OVERLAP_NAMES

LEFT, RIGHT, FAR = [0.0, 0.0, 10.0, 10.0], [4.0, 0.0, 14.0, 10.0], [50.0, 50.0, 60.0, 60.0]


def rows(boxes: list[list[float]], labels: list[int], **more: Any) -> dict[str, Any]:
    return {"boxes": torch.tensor(boxes), "labels": torch.tensor(labels)} | more


def test_a_detection_may_match_two_ground_truths_at_different_thresholds() -> None:
    """COCO: the first detection takes LEFT at 0.5 alone, so the second one has UP there instead.

    IoU of the first detection with LEFT 75 / 125 = 0.6, with UP 60 / 140 < 0.5. Of the second one
    with LEFT 95 / 100, with UP 80 / 115 = 0.6956...
    """
    up = [0.0, -2.0, 10.0, 8.0]
    first, second = [2.5, 0.0, 12.5, 10.0], [0.0, 0.0, 10.0, 9.5]
    found = rows([second, first], [0, 0], scores=torch.tensor([0.8, 0.9]))
    true = rows([up, LEFT], [0, 0], image_id="a")
    rules = dataclasses.replace(load_protocol("detection/coco2017"), iou_thresholds=(0.5, 0.9))
    records = DetectionAP(rules, num_classes=1).update([found], [true]).records()
    assert records is not None
    assert records.image_ids == ("a",)
    assert records.detections.score.tolist() == [pytest.approx(0.9), pytest.approx(0.8)]
    assert records.matches.detection.tolist() == [0, 1, 1]
    assert records.matches.ground_truth.tolist() == [1, 0, 1]
    wanted = [0.6, 80 / 115, 0.95]
    assert records.matches.overlap.tolist() == pytest.approx(wanted, abs=1e-7)
    low, high = (records.outcomes(records.lane_index(value)) for value in (0.5, 0.9))
    assert low.ground_truth.tolist() == [1, 0]
    assert high.ground_truth.tolist() == [-1, 1]
    assert high.true_positive.tolist() == [False, True]
    assert high.false_positive.tolist() == [True, False]
    assert records.counted(records.lane_index(0.5)).tolist() == [True, True]
    # Both are of 95 and 100 square pixels, which is small; matched or not, they are out of "large".
    large = records.outcomes(records.lane_index(0.9, "large"))
    assert large.ignored.tolist() == [True, True]
    assert records.ground_truths.index.tolist() == [0, 1]


def test_diagnostics_name_the_best_objects() -> None:
    """Own class: RIGHT; other classes: LEFT, since the crowd and the difficult do not take part."""
    found = rows([LEFT, FAR], [1, 0], scores=torch.tensor([0.5, 0.9]))
    true = rows([RIGHT, LEFT, LEFT, FAR], [1, 0, 1, 1], iscrowd=torch.tensor([0, 0, 1, 0]))
    metric = DetectionAP("coco2017", num_classes=2, diagnostics=True)
    records = metric.update([found, found], [true, true]).records()
    assert records is not None
    table = records.detections
    assert table.index is not None
    assert (table.label.tolist(), table.image.tolist()) == ([0, 0, 1, 1], [0, 1, 0, 1])
    assert table.index.tolist() == [1, 1, 0, 0]
    assert table.best_overlap is not None
    assert table.best_overlap.tolist() == pytest.approx([0, 0, 60 / 140, 60 / 140], abs=1e-7)
    assert table.best_ground_truth is not None
    assert table.best_ground_truth.tolist() == [-1, -1, 0, 4]
    assert table.best_other_ground_truth is not None
    assert table.best_other_ground_truth.tolist() == [3, 7, 1, 5]
    assert DetectionAP("coco2017", num_classes=2).update([found], [true]).records() is not None
    plain = DetectionAP("coco2017", num_classes=2).update([found], [true])
    with pytest.raises(StateError, match="diagnostics"):
        plain.merge(metric)
    assert metric.compute().headline == plain.merge(plain).compute().headline


def test_records_survive_states_and_repeats(tmp_path: Any) -> None:
    found = rows([LEFT, FAR], [0, 0], scores=torch.tensor([0.5, 0.9]))
    true = rows([RIGHT, LEFT], [0, 0])
    metric = DetectionAP("voc2007", num_classes=1, diagnostics=True)
    for image_id in (7, 3, 7):
        metric.update([found], [true | {"image_id": image_id}])
    with pytest.warns(UserWarning, match="1 repeated image"):
        records = metric.records()
    assert records is not None
    assert records.image_ids == (7, 3)
    assert records.matches.ground_truth.tolist() == [1, 3]
    metric.save_state(tmp_path / "state.npz")
    read = DetectionAP.from_states(tmp_path / "state.npz")
    with pytest.warns(UserWarning, match="1 repeated image"):
        again = read.records()
    assert again is not None
    for one, other in zip(records.to_pandas().values(), again.to_pandas().values(), strict=True):
        assert one.equals(other)


def test_lanes_have_names() -> None:
    records = DetectionAP("coco2017", num_classes=1).update([], []).records()
    assert records is not None
    assert len(records.lanes) == 40
    assert records.lanes[0] == ("all", 0.5)
    assert records.lanes[records.lane_index(0.95, "small")].area == "small"
    with pytest.raises(InputError, match="must be one of all, small, medium, large"):
        records.lane_index(0.5, "tiny")
    with pytest.raises(InputError, match=r"must be one of 0\.5, 0\.55"):
        records.lane_index(0.42)
    both = DetectionAP(["coco2017", "voc2007"], num_classes=1).update([], [])
    with pytest.raises(InputError, match="must be one of coco2017, voc2007"):
        both.records()
    assert repr(both.records("voc2007")).startswith("Records(detection/voc2007: 0 images")
    pedestrians = LogAverageMissRate("caltech2012").update([], []).records()
    assert pedestrians is not None
    assert pedestrians.lanes[0].area == pedestrians.protocol.subsets[0].name  # type: ignore[union-attr]


def test_a_made_up_overlap_from_outside() -> None:
    """1 / (1 + distance of the left edges): an overlap of points that no box overlap gives."""

    def nearness(detections: Any, ground_truths: Any, pairs: Any, over_area: Any) -> Any:
        del over_area
        first = detections.boxes[pairs.detection, 0].double()
        second = ground_truths.boxes[pairs.ground_truth, 0].double()
        return 1 / (1 + (first - second).abs())

    register_overlap("nearness", nearness)
    try:
        rules = dataclasses.replace(
            load_protocol("detection/voc2012"), overlap_of="nearness", comparison=">="
        )
        found = rows([FAR, LEFT], [0, 0], scores=torch.tensor([0.9, 0.8]))
        true = rows([[51.0, 0.0, 52.0, 1.0], [2.0, 90.0, 3.0, 91.0]], [0, 0])
        metric = DetectionAP(rules, num_classes=1, diagnostics=True).update([found], [true])
        records = metric.records()
    finally:
        OVERLAP_NAMES.discard("nearness")
    assert records is not None
    assert records.matches.overlap.tolist() == [0.5]  # 1/3 is below the threshold
    assert records.detections.best_ground_truth is not None
    assert records.detections.best_ground_truth.tolist() == [0, 1]


def test_a_made_up_key_from_outside() -> None:
    """Angles [N] of both sides: overlap 1 where they are equal, 0.25 where one is missing."""

    def same_angle(detections: Any, ground_truths: Any, pairs: Any, over_area: Any) -> Any:
        del over_area
        first = detections.extra["angles"][pairs.detection]
        second = ground_truths.extra["angles"][pairs.ground_truth]
        return torch.where((first < 0) | (second < 0), 0.25, (first == second).double())

    key = Key("angles", (PREDICTION, TARGET), (DETECTION,), FLOATING, missing=-1)
    register_key(key)
    register_overlap("same_angle", same_angle)
    try:
        rules = dataclasses.replace(load_protocol("detection/voc2012"), overlap_of="same_angle")
        angles = torch.tensor([30.0, 45.0])
        found = rows([LEFT, FAR], [0, 0], scores=torch.tensor([0.9, 0.8]), angles=angles)
        turned = rows([RIGHT, LEFT], [0, 0], angles=angles.flip(0))
        metric = DetectionAP(rules, num_classes=1)
        metric.update([found, found], [turned, rows([LEFT], [0])])
        records = metric.records()
        with pytest.raises(InputError, match="prediction 0, key 'angles': must have one entry per"):
            metric.update([found | {"angles": angles[:1]}], [turned])
        with pytest.raises(InputError, match="must be a new key of rows"):
            register_key(key)
    finally:
        del KEYS["angles"]
        keys_of.cache_clear()
        OVERLAP_NAMES.discard("same_angle")
    assert records is not None
    assert records.matches.ground_truth.tolist() == [1, 0]
    assert records.outcomes(0).true_positive.tolist() == [True, True, False, False]


def test_a_full_match_table_is_matched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that says that its table was too small: the host matches, with the same records."""
    found = rows([LEFT, FAR], [0, 0], scores=torch.tensor([0.5, 0.9]))
    true = rows([RIGHT, LEFT], [0, 0])
    metric = DetectionAP("coco2017", num_classes=1).update([found], [true])
    wanted = repr(metric.compute().to_dict())
    calls = []
    original = recorded.match_chunk

    def full(protocol: Any, chunk: Any, **kwargs: Any) -> chunks.MatchedChunk:
        done = original(protocol, chunk, **kwargs)
        calls.append(chunk)
        records, nothing = done.records, torch.zeros(0, dtype=torch.int64)
        lost = dataclasses.replace(
            records,
            match_detection=nothing,
            match_ground_truth=nothing.int(),
            match_overlap=nothing.float(),
            match_true_positive=nothing.reshape(0, 1),
            match_ignored=nothing.reshape(0, 1),
        )
        return chunks.MatchedChunk(lost, torch.ones(1, dtype=torch.int32))

    monkeypatch.setattr(recorded, "match_chunk", full)
    again = DetectionAP("coco2017", num_classes=1).update([found], [true])
    assert repr(again.compute().to_dict()) == wanted
    assert len(calls) == 1
    assert again._accumulated.unread == ()


def test_matches_of_several_portions() -> None:
    empty = torch.zeros(0, dtype=torch.int64)
    one = Matches(empty, empty, empty.float(), empty, empty)
    assert Matches.cat([one]) is one
    assert Matches.cat([one, one]).detection.tolist() == []
