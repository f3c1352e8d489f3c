"""The life of a metric: update, compute, reset, merge, save, load, move, copy."""

from __future__ import annotations

import copy
import dataclasses
import io
import math
import pickle
import warnings
from typing import Any

import pytest
import torch

from torch_vocmetrics import (
    DetectionAP,
    InputError,
    Metric,
    StateError,
    VocMetricsWarning,
    load_protocol,
    transfer,
)
from torch_vocmetrics.lanes import Lanes
from torch_vocmetrics.metrics import base, record_state
from torch_vocmetrics.tables.record_checks import RecordRules, check_records
from torch_vocmetrics.tables.records import DETECTION_COLUMNS, MATCH_COLUMNS, MatchRecords

PROTOCOLS = ["voc2007", "voc2012", "coco2017"]


def scene(seed: int, *, image_id: int | str | None = None, ties: bool = True) -> tuple[Any, Any]:
    """A random image of two classes with crowded boxes and few distinct scores."""
    rng = torch.Generator().manual_seed(seed)
    n, m = (int(torch.randint(0, 12, (1,), generator=rng)) for _ in range(2))

    def boxes(count: int) -> torch.Tensor:
        corner = torch.randint(0, 20, (count, 2), generator=rng).float()
        return torch.cat([corner, corner + torch.randint(4, 30, (count, 2), generator=rng)], 1)

    scores = torch.randint(0, 5, (n,), generator=rng) / 4 if ties else torch.rand(n, generator=rng)
    found = {
        "boxes": boxes(n),
        "scores": scores,
        "labels": torch.randint(0, 2, (n,), generator=rng),
    }
    true = {
        "boxes": boxes(m),
        "labels": torch.randint(0, 2, (m,), generator=rng),
        "difficult": torch.rand(m, generator=rng) < 0.2,
        "iscrowd": torch.rand(m, generator=rng) < 0.2,
    }
    return found, true if image_id is None else true | {"image_id": image_id}


def batch(seeds: range | list[int], **options: Any) -> tuple[list[Any], list[Any]]:
    scenes = [scene(seed, image_id=seed if options.get("ids") else None) for seed in seeds]
    return [found for found, _ in scenes], [true for _, true in scenes]


def new() -> Any:
    return DetectionAP(PROTOCOLS, class_names=["a", "b"])


def bits(metric: Any) -> list[Any]:
    """Everything that a metric computes, comparable by ==."""
    values: list[Any] = []
    for result in metric.compute().values():
        values += [str(result.to_dict()), result.num_images, result.num_detections]
        for field in dataclasses.fields(result):
            value = getattr(result, field.name)
            if isinstance(value, torch.Tensor):
                values.append(str(value.tolist()))
        for row in getattr(result, "curves", ()):
            values += [
                str((c.recall.tolist(), c.precision.tolist(), c.scores.tolist())) for c in row
            ]
    return values


def test_update_returns_the_metric_and_compute_can_be_repeated() -> None:
    metric = new()
    assert metric.update(*batch(range(5))) is metric
    first = bits(metric)
    assert bits(metric) == first
    metric.update(*batch(range(5, 9)))
    assert bits(metric) != first
    assert bits(metric) == bits(new().update(*batch(range(9))))


def test_compute_before_update_is_undefined_and_warns() -> None:
    with pytest.warns(VocMetricsWarning, match="before update"):
        results = new().compute()
    for result in results.values():
        assert math.isnan(result.headline)
        assert all(math.isnan(value) for value in result.to_dict().values())
        assert result.num_positives.tolist() == [0, 0]
        assert result.true_positives.sum() == result.false_positives.sum() == 0
        assert result.num_images == result.num_detections == result.num_classes_averaged == 0
        assert "null" in result.to_json()


def test_reset_forgets_everything() -> None:
    metric = new().update(*batch(range(4), ids=True))
    metric.compute()
    assert metric.reset() is metric
    metric.update(*batch(range(4, 7)))
    assert bits(metric) == bits(new().update(*batch(range(4, 7))))


@pytest.mark.parametrize("ids", [False, True])
def test_merge_adds_and_leaves_the_others_alone(ids: bool) -> None:
    first, second, third = (
        new().update(*batch(seeds, ids=ids)) for seeds in (range(3), range(3, 5), range(5, 9))
    )
    before = bits(second), bits(third)
    assert first.merge(second, new(), third) is first
    assert bits(first) == bits(new().update(*batch(range(9), ids=ids)))
    assert (bits(second), bits(third)) == before
    assert bits(new().merge(second)) == before[0]


def test_merge_order_plays_no_part_with_ids() -> None:
    parts = [new().update(*batch(seeds, ids=True)) for seeds in (range(3), range(3, 9))]
    wanted = bits(new().update(*batch(range(9), ids=True)))
    assert bits(copy.deepcopy(parts[1]).merge(parts[0])) == wanted
    assert bits(new().update(*batch(list(range(9))[::-1], ids=True))) == wanted


def test_merge_refuses_other_rules_and_loses_nothing() -> None:
    metric = DetectionAP("voc2007", num_classes=2).update(*batch(range(3), ids=True))
    before = metric.compute().to_dict()
    others = [
        DetectionAP("voc2012", num_classes=2),
        DetectionAP("voc2007", num_classes=3),
        DetectionAP(
            dataclasses.replace(load_protocol("detection/voc2007"), comparison=">"), num_classes=2
        ),
    ]
    for other in others:
        with pytest.raises(StateError, match="merge: the states are of different"):
            metric.merge(other)
    with pytest.raises(StateError, match="some images have an image_id and others have none"):
        metric.merge(DetectionAP("voc2007", num_classes=2).update(*batch(range(3, 5))))
    assert metric.compute().to_dict() == before
    same_rules = DetectionAP("voc2009", num_classes=2).update(*batch(range(3, 5), ids=True))
    assert metric.merge(same_rules).compute().num_images == 5


@pytest.mark.parametrize("ids", [False, True])
def test_state_goes_through_a_file(ids: bool) -> None:
    metric = new().update(*batch(range(6), ids=ids))
    file = io.BytesIO()
    torch.save(metric.state_dict(), file)
    file.seek(0)
    other = new().load_state_dict(torch.load(file, weights_only=True))
    assert bits(other) == bits(metric)
    rest = batch(range(6, 9), ids=ids)
    assert bits(other.update(*rest)) == bits(metric.update(*rest))


def test_unused_state_goes_through_too() -> None:
    with pytest.warns(VocMetricsWarning):
        new().load_state_dict(new().state_dict()).compute()


@pytest.mark.parametrize(
    "damage",
    [
        lambda s: s.pop("records"),
        lambda s: s.update(schema=99),
        lambda s: s.update(fingerprints=["x"]),
        lambda s: s["records"][0].pop("score"),
        lambda s: s["records"][0].update(score=torch.zeros(1)),
        lambda s: s["records"][0].update(image=s["records"][0]["image"] + 100),
        lambda s: s.update(image_ids=[1]),
    ],
)
def test_damaged_states_are_refused(damage: Any) -> None:
    metric = new().update(*batch(range(6)))
    state, before = copy.deepcopy(metric.state_dict()), bits(metric)
    damage(state)
    with pytest.raises(StateError, match="load_state_dict"):
        metric.load_state_dict(state)
    with pytest.raises(StateError, match="load_state_dict"):
        metric.load_state_dict([])
    assert bits(metric) == before


def test_copies_and_pickles_are_independent() -> None:
    metric = new().update(*batch(range(4)))
    copies = [copy.deepcopy(metric), pickle.loads(pickle.dumps(metric))]
    for other in copies:
        assert bits(other) == bits(metric)
        other.update(*batch(range(4, 6)))
        assert bits(other) != bits(metric)


def test_to_keeps_the_numbers() -> None:
    metric = new().update(*batch(range(4)))
    assert metric.to("cpu") is metric
    assert bits(metric) == bits(new().update(*batch(range(4))))


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def state(metric: Metric) -> list[dict[str, Any]]:
        tables: list[dict[str, Any]] = metric.state_dict()["records"]
        return [{n: None if c is None else c.tolist() for n, c in one.items()} for one in tables]

    whole = new().update(*batch(range(40)))
    wanted, tables = bits(whole), state(whole)
    for rows, pairs in ((1, 2**22), (2**16, 1), (50, 300)):
        monkeypatch.setattr(record_state, "CHUNK_ROWS", rows)
        monkeypatch.setattr(record_state, "CHUNK_PAIRS", pairs)
        metric = new()
        for seed in range(40):
            metric.update(*batch([seed]))
        assert bits(metric) == wanted
    assert len(metric._accumulated.tables[0]) > 1
    assert state(metric) == tables, "a state is one table, in one order"
    assert len(metric._accumulated.tables[0]) == 1
    assert bits(metric) == wanted


def test_the_path_that_reads_no_values_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then every detection is a candidate, and those beyond a limit are left out at the end."""
    limits = dataclasses.replace(
        load_protocol("detection/coco2017"), name="three", max_detections=(1, 3)
    )

    def state() -> list[dict[str, Any]]:
        metric = DetectionAP([*PROTOCOLS, limits], num_classes=2).update(*batch(range(30)))
        tables: list[dict[str, Any]] = metric.state_dict()["records"]
        return [{n: None if c is None else c.tolist() for n, c in one.items()} for one in tables]

    wanted = state()
    monkeypatch.setattr(transfer, "FREE_TO_READ", set())
    assert state() == wanted


def test_full_chunks_are_matched_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_state, "CHUNK_ROWS", 20)
    metric = new()
    for seed in range(40):
        metric.update(*batch([seed]))
        assert metric._accumulated.fill.rows < 20 + 24
    assert len(metric._accumulated.tables[0]) > 5


def test_repeated_images_are_dropped_with_a_warning() -> None:
    metric = new().update(*batch(range(5), ids=True))
    wanted = bits(metric)
    found, true = batch(range(1, 3), ids=True)
    assert found[0]["scores"].numel()
    found[0]["scores"] = found[0]["scores"] + 1
    metric.update(found, true)
    with pytest.warns(VocMetricsWarning, match=r"2 repeated images were dropped .* of 1 of them"):
        got = bits(metric)
    assert got == wanted


def test_unequal_ground_truth_of_an_image_is_an_error() -> None:
    metric = new().update(*batch(range(5), ids=True))
    found, true = scene(3, image_id=3)
    true["labels"] = 1 - true["labels"]
    metric.update([found], [true])
    for _ in range(2):
        with pytest.raises(StateError, match=r"image_id 3: .*was reset\(\) forgotten"):
            metric.compute()


def test_generated_ids_are_never_repeats() -> None:
    metric = new().update(*batch([1, 1, 1]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert metric.compute()["voc2007"].num_images == 3


def test_string_ids_sort_as_text() -> None:
    scenes = {name: scene(number) for number, name in enumerate(["b", "a10", "a9", "c"])}

    def of(names: list[str]) -> Any:
        pairs = [(scenes[name][0], scenes[name][1] | {"image_id": name}) for name in names]
        return new().update([p for p, _ in pairs], [t for _, t in pairs])

    in_order = sorted(scenes)
    plain = new().update([scenes[n][0] for n in in_order], [scenes[n][1] for n in in_order])
    assert bits(of(list(scenes))) == bits(of(in_order)) == bits(plain)


def test_order_breaks_ties_whatever_the_images() -> None:
    box = torch.tensor([[0.0, 0, 10, 10]])
    one = torch.tensor([0])
    found = [{"boxes": box, "scores": torch.tensor([0.5]), "labels": one} for _ in range(2)]
    true = [{"boxes": torch.zeros(0, 4), "labels": one[:0]}, {"boxes": box, "labels": one}]
    by_image = DetectionAP("voc2012", num_classes=1).update(found, true).compute()
    assert by_image.headline == 0.5
    ordered = [
        rows | {"order": torch.tensor([line])} for rows, line in zip(found, (7, 3), strict=True)
    ]
    by_line = DetectionAP("voc2012", num_classes=1).update(ordered, true).compute()
    assert by_line.headline == 1.0


def test_one_rank_alone_needs_no_collective(monkeypatch: pytest.MonkeyPatch) -> None:
    metric = new().update(*batch(range(3)))
    wanted = bits(metric)
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda group=None: 0)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda group=None: 1)
    monkeypatch.setattr(base, "sync", lambda *_, **__: pytest.fail("a collective"))
    assert bits(metric) == wanted
    assert metric.compute(dst=0)["voc2007"].num_images == 3
    with pytest.raises(InputError, match="dst: must be a rank of the group, got 1; give rank 0"):
        metric.compute(dst=1)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda group=None: 2)
    assert metric.compute(sync=False)["voc2007"].num_images == 3
    monkeypatch.setattr(torch.distributed, "get_rank", lambda group=None: -1)
    with pytest.raises(StateError, match="not in the process group"):
        metric.compute()


def test_records_are_9_bytes_a_detection_and_32_a_match() -> None:
    metric = DetectionAP("coco2017", num_classes=2).update(*batch(range(30)))
    records = metric._joined().whole[0]

    def size(names: tuple[str, ...]) -> int:
        columns = [one for name in names if (one := getattr(records, name)) is not None]
        return sum(column.element_size() * column[0].numel() for column in columns)

    assert size(DETECTION_COLUMNS) == 9
    assert size(MATCH_COLUMNS) == 32
    assert 0 < records.match_detection.shape[0] < records.num_detections


def test_compact_keeps_outcomes_and_no_more() -> None:
    """By hand: a table as a kernel leaves it, with unused rows and two rows of one pair.

    Detections 0 to 2 are of class 5, 3 and 4 of class 6. Detection 2 is the second of its image and
    class, beyond a limit of 1.
    """
    lanes = Lanes(2, 2)
    whole = dataclasses.replace(
        MatchRecords.empty(lanes, 7),
        image_sizes=torch.full((2, 2), -1, dtype=torch.int32),
        ground_truth_image=torch.tensor([0, 1, 1], dtype=torch.int32),
        ground_truth_label=torch.tensor([5, 5, 6], dtype=torch.int32),
        ground_truth_area=torch.tensor([1.0, 2.0, 3.0]).double(),
        ground_truth_counted=torch.tensor([[3], [7], [12]]),
        class_counts=torch.tensor([0, 0, 0, 0, 0, 3, 2]),
        image=torch.tensor([0, 1, 1, 0, 1], dtype=torch.int32),
        score=torch.tensor([0.5, 0.6, 0.7, 0.8, 0.9]),
        out_of_range=torch.zeros(5, 1, dtype=torch.uint8),
        match_detection=torch.tensor([4, 1, 1, 0, 2]),
        match_ground_truth=torch.tensor([2, 1, 1, 0, 1], dtype=torch.int32),
        match_overlap=torch.tensor([0.5, 0.75, 0.75, 1.0, 0.5]),
        match_true_positive=torch.tensor([[4], [1], [0], [3], [4]]),
        match_ignored=torch.tensor([[2], [0], [8], [0], [0]]),
    )
    compact = whole.compact(1)
    assert (compact.label.tolist(), compact.image.tolist()) == ([5, 5, 6, 6], [0, 1, 0, 1])
    assert compact.match_detection.tolist() == [0, 1, 3]
    assert compact.match_ground_truth.tolist() == [0, 1, 2]
    assert compact.match_overlap.tolist() == [1.0, 0.75, 0.5]
    assert compact.match_true_positive.flatten().tolist() == [3, 1, 4]
    assert compact.match_ignored.flatten().tolist() == [0, 8, 2]
    again = compact.compact(1)
    assert again.match_ignored.tolist() == compact.match_ignored.tolist()
    turned = compact.in_order(torch.tensor([1, 0]))
    assert (turned.label.tolist(), turned.image.tolist()) == ([5, 5, 6, 6], [0, 1, 0, 1])
    assert turned.ground_truth_label.tolist() == [5, 6, 5]
    assert turned.match_detection.tolist() == [0, 1, 2]
    assert turned.match_ground_truth.tolist() == [0, 2, 1]
    assert turned.match_ignored.flatten().tolist() == [8, 0, 2]
    rules = RecordRules(7, lanes, falling_scores=False)
    check_records(turned, rules)
    with pytest.raises(ValueError, match="not ordered by class and image"):
        check_records(dataclasses.replace(turned, image=turned.image.flip(0)), rules)
    second = compact.keep_images(torch.tensor([False, True]))
    assert (second.label.tolist(), second.match_detection.tolist()) == ([5, 6], [0, 1])
    assert second.match_ground_truth.tolist() == [0, 1]
    assert second.match_ignored.flatten().tolist() == [8, 2]


def test_equal_order_falls_back_to_the_images_whatever_the_batches() -> None:
    box, one = torch.tensor([[0.0, 0, 10, 10]]), torch.tensor([0])
    rows = {"boxes": box, "scores": torch.tensor([0.5]), "labels": one, "order": one}
    empty = {"boxes": torch.zeros(0, 4), "labels": one[:0]}
    pairs = [(rows, {"boxes": box, "labels": one, "image_id": 1}), (rows, empty | {"image_id": 2})]
    for order in (pairs, pairs[::-1]):
        metric = DetectionAP("voc2012", num_classes=1)
        for found, true in order:
            metric.update([found], [true])
        assert metric.compute().headline == 1.0
