"""The matcher against the rule as a loop, in all its forms; lanes, pairs, orders and overlaps."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from torch_vocmetrics import DetectionAP, load_protocol
from torch_vocmetrics.lanes import (
    BITS,
    Lanes,
    column,
    in_area,
    inside_areas,
    lanes_of_areas,
    packed_areas,
)
from torch_vocmetrics.matching import greedy
from torch_vocmetrics.matching.pairs import candidate_pairs, is_among
from torch_vocmetrics.ops.boxes import (
    box_columns,
    intersection_over_area,
    intersection_over_union,
    pair_intersections,
)
from torch_vocmetrics.ops.ordering import rank_in_group, rank_order


def random_candidates(
    seed: int,
) -> tuple[greedy.CandidatePairs, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Pairs of a few groups with random bits, few distinct overlaps, and exclusive bits.

    Of an odd seed, the overlap does not depend on whether the object counts.
    """
    rng = torch.Generator().manual_seed(seed)

    def whole(high: int, size: int) -> torch.Tensor:
        return torch.randint(0, high, (size,), generator=rng)

    detections, objects = 12, 8
    group = whole(3, detections).sort().values
    object_group = whole(3, objects)
    pairs = candidate_pairs(group, object_group)
    size = pairs.detection.shape[0]
    counted = whole(16, size)
    ignored = whole(16, size) & ~counted
    thin = whole(3, size) > 0
    exclusive = whole(16, objects)
    overlap, ignore_overlap = whole(4, size) / 4, whole(4, size) / 4
    return (
        greedy.CandidatePairs(
            pairs.detection,
            pairs.ground_truth,
            overlap,
            overlap if seed % 2 else ignore_overlap,
            counted * thin,
            ignored * thin,
        ),
        group,
        exclusive,
        whole(16, detections),
    )


def loop(
    pairs: greedy.CandidatePairs,
    exclusive: torch.Tensor,
    out: torch.Tensor,
    *,
    best: bool,
    last: bool,
    reclaim: bool,
) -> tuple[list[int], list[int]]:
    """The rule of the matcher as a plain loop."""
    rows = list(zip(*(values.tolist() for values in pairs), strict=True))
    positive, ignored = [0] * out.shape[0], [0] * out.shape[0]
    taken = [0] * exclusive.shape[0]
    for detection in range(out.shape[0]):
        remaining = 15
        sign = -1 if last else 1
        mine = sorted((row for row in rows if row[0] == detection), key=lambda row: sign * row[1])
        if best:
            mine = sorted(mine, key=lambda row: -row[2])[:1]
        for outcome, overlap, bits in ((positive, 2, 4), (ignored, 3, 5)):
            for row in sorted(mine, key=lambda row: -row[overlap]):
                claim = remaining & row[bits] & (-1 if reclaim else ~taken[row[1]])
                stale = claim & taken[row[1]]
                taken[row[1]] |= claim & int(exclusive[row[1]])
                remaining &= ~claim
                outcome[detection] |= claim & ~stale
                ignored[detection] |= stale
        ignored[detection] |= remaining & int(out[detection])
    return positive, ignored


def match_in_portions(
    size: int,
    pairs: greedy.CandidatePairs,
    group: torch.Tensor,
    exclusive: torch.Tensor,
    out: torch.Tensor,
    rules: dict[str, bool],
) -> list[torch.Tensor]:
    """``size`` detections at a time; a group may be cut."""
    taken, outcomes = torch.zeros_like(exclusive), []
    for start in range(0, len(group), size):
        part = slice(start, start + size)
        mine = (pairs.detection >= start) & (pairs.detection < start + size)
        some = pairs.rows(mine.nonzero().squeeze(1))
        some = some._replace(detection=some.detection - start)
        columns = {"group": group[part], "exclusive": exclusive}
        found = greedy.match(some, taken, **columns, **rules)
        outcomes.append(of_detections(found, out[part]))
    return [torch.cat(bits) for bits in zip(*outcomes, strict=True)]


def of_detections(found: greedy.Matches, out: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Lanes of the true and of the ignored detections, of which ``out`` are ignored unmatched."""
    positive = torch.zeros_like(out).index_add_(0, found.detection, found.true_positive)
    ignored = torch.zeros_like(out).index_add_(0, found.detection, found.ignored)
    return positive, ignored | (out & ~(positive | ignored))


@pytest.mark.parametrize("best", [False, True])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("reclaim", [False, True])
@pytest.mark.parametrize("sequential_below", [0, 10**9])
def test_matcher_is_the_loop(
    best: bool, last: bool, reclaim: bool, sequential_below: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(greedy, "SEQUENTIAL_BELOW", sequential_below)
    contested = 0
    for seed in range(60):
        pairs, group, exclusive, out = random_candidates(seed)
        rules = {"best_only": best, "last_wins": last, "used_matches": reclaim}
        wanted = loop(pairs, exclusive, out, best=best, last=last, reclaim=reclaim)
        for size in (1, 5, 12):
            got = match_in_portions(size, pairs, group, exclusive, out, rules)
            assert tuple(bits.tolist() for bits in got) == wanted, f"seed {seed}, {size}"
        contested += any(wanted[0])
    assert contested > 50, "the random cases must have matches"


def test_more_lanes_than_a_word_holds() -> None:
    """COCO with 17 thresholds in 4 area ranges: 68 lanes, two words, no other outcome."""
    coco = load_protocol("detection/coco2017")
    many = tuple(0.5 + i / 40 for i in range(17))
    wide = dataclasses.replace(coco, iou_thresholds=many)
    assert Lanes.of(wide).words == 2
    rng = torch.Generator().manual_seed(0)
    corner = torch.randint(0, 30, (60, 2), generator=rng).float()
    boxes = torch.cat([corner, corner + torch.randint(10, 40, (60, 2), generator=rng)], 1)
    found = {"boxes": boxes[:30], "scores": torch.rand(30, generator=rng), "labels": [0] * 30}
    true = {"boxes": boxes[30:], "labels": [0] * 30, "iscrowd": [i % 5 == 0 for i in range(30)]}
    together = DetectionAP(wide, num_classes=1).update([found], [true]).compute()
    for t, threshold in enumerate(many):
        alone = dataclasses.replace(coco, iou_thresholds=(threshold,))
        result = DetectionAP(alone, num_classes=1).update([found], [true]).compute()
        torch.testing.assert_close(
            together.precision[t], result.precision[0], rtol=0, atol=0, equal_nan=True
        )
    assert together.true_positives.sum() > 20


def test_lanes_place_and_mask() -> None:
    lanes = Lanes(4, 17)
    places = [lanes.position(area, threshold) for area in range(4) for threshold in range(17)]
    assert places == [divmod(lane, BITS) for lane in range(68)]
    assert sum(lanes.mask([(a, t) for a in range(4) for t in range(17)])) == 2**63 - 1 + 2**5 - 1
    by_threshold = [lanes.threshold_bits(threshold) for threshold in range(17)]
    assert [sum(words) for words in zip(*by_threshold, strict=True)] == [2**63 - 1, 2**5 - 1]
    bits = torch.tensor([lanes.mask([(3, 16)])])
    assert [bool(column(bits, place)) for place in places].index(True) == 67


def test_area_ranges_are_closed() -> None:
    coco = load_protocol("detection/coco2017")
    area = torch.tensor([1024.0, 1025.0], dtype=torch.float64)
    assert torch.stack(inside_areas(area, coco), dim=1).tolist() == [
        [True, True, True, False],
        [True, False, True, False],
    ]


@pytest.mark.parametrize(("areas", "thresholds"), [(4, 10), (4, 17), (1, 1), (9, 1), (18, 4)])
def test_area_ranges_stand_for_all_of_their_lanes(areas: int, thresholds: int) -> None:
    lanes, rng = Lanes(areas, thresholds), torch.Generator().manual_seed(0)
    held = torch.randint(0, 2, (areas, 50), generator=rng, dtype=torch.bool)
    packed = packed_areas(list(held))
    assert packed.shape == (50, lanes.area_bytes)
    bits = lanes_of_areas(packed, lanes)
    for area in range(areas):
        assert torch.equal(in_area(packed, area), held[area])
        for threshold in range(thresholds):
            assert torch.equal(column(bits, lanes.position(area, threshold)), held[area])
    assert (bits >= 0).all()


@pytest.mark.parametrize(("comparison", "passed"), [(">=", [1, 3, 9, 10]), (">", [0, 2, 8, 10])])
def test_thresholds_are_compared_in_float64(comparison: str, passed: list[int]) -> None:
    rules = dataclasses.replace(load_protocol("detection/coco2017"), comparison=comparison)
    for width, number in zip((50, 60, 90, 100), passed, strict=True):
        true = {"boxes": [[0, 0, 100, 100]], "labels": [0]}
        found = {"boxes": [[0, 0, width, 100]], "labels": [0], "scores": [0.5]}
        result = DetectionAP(rules, num_classes=1).update([found], [true]).compute()
        # 0.9 is above the ninth threshold, 0.8999999999999999, as pycocotools has it.
        expected = number + (width == 90 and comparison == ">")
        assert int(result.true_positives.sum()) == expected


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rank_order_is_stable_and_zero_has_no_sign(dtype: torch.dtype) -> None:
    scores = torch.tensor([0.0, -0.0, 1.0, -1.0, 0.0, 1.0, 3e38, -3e38, 1e-45], dtype=dtype)
    group = torch.tensor([1, 1, 1, 1, 0, 0, 1, 1, 1])
    rows = sorted(range(9), key=lambda i: (int(group[i]), -float(scores[i])))
    assert rank_order(group, scores, (), 2).tolist() == rows
    order = torch.tensor([5, 4, 0, 0, 0, 0, 0, 0, 0])
    assert rank_order(group, scores, (order,), 2).tolist() == [5, 4, 6, 2, 8, 1, 0, 3, 7]
    far = group * 2**40
    assert rank_order(far, scores, (None,), 2**41).tolist() == rows


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", ["ties", "close", "far", "any"])
def test_rank_order_is_sorted(dtype: torch.dtype, kind: str) -> None:
    """Keys that fit one sort and keys that do not, ties in order and out of order."""
    for seed in range(60):
        rng = torch.Generator().manual_seed(seed)
        n, groups = seed % 40, 1 + seed % 5
        scores = torch.randn(n, generator=rng, dtype=torch.float64)
        if kind == "ties":
            scores = scores.round()
        elif kind == "close":
            scores = 1 + scores * 1e-15
        elif kind == "far":
            scores = scores * torch.tensor([1e30, 1e-30]).double()[torch.arange(n) % 2]
        scores = scores.to(dtype)
        group = torch.randint(0, groups, (n,), generator=rng)
        wide = torch.randint(-(2**62), 2**62, (n,), generator=rng)
        for ties in ((), (torch.arange(n),), (wide,), (wide % 3, wide)):
            wanted = sorted(
                range(n),
                key=lambda i: (int(group[i]), -float(scores[i]), *(int(t[i]) for t in ties), i),
            )
            assert rank_order(group, scores, ties, groups).tolist() == wanted
            assert rank_order(group.int(), scores, ties, groups).tolist() == wanted
            assert rank_order(group + 2**41, scores, ties, 2**42).tolist() == wanted


def test_is_among_near_and_far_groups() -> None:
    for step in (1, 2**40):
        groups, wanted = torch.tensor([0, 0, 2, 3, 7]) * step, torch.tensor([7, 2, 2]) * step
        assert is_among(groups, wanted).tolist() == [False, False, True, False, True]
    assert is_among(groups, groups[:0]).tolist() == [False] * 5
    assert is_among(groups[:0], groups).tolist() == []


def test_rank_in_group() -> None:
    assert rank_in_group(torch.tensor([0, 0, 3, 3, 3, 9])).tolist() == [0, 1, 0, 1, 2, 0]
    assert rank_in_group(torch.zeros(0, dtype=torch.int64)).tolist() == []


@pytest.mark.parametrize("step", [1, 2**40])
def test_candidate_pairs_are_all_pairs_of_equal_groups(step: int) -> None:
    """By detection, then by object, in groups that follow one another and in some far apart."""
    rng = torch.Generator().manual_seed(0)
    for found, true in ((30, 20), (30, 0), (0, 20), (1, 1)):
        group = torch.randint(-1, 6, (found,), generator=rng) * step
        object_group = torch.randint(0, 5, (true,), generator=rng) * step
        pairs = candidate_pairs(group, object_group)
        wanted = (group[:, None] == object_group[None, :]).nonzero().unbind(1)
        assert [column.tolist() for column in pairs] == [column.tolist() for column in wanted]


def test_overlaps_by_hand() -> None:
    first = torch.tensor([[1.0, 1, 10, 10], [1, 1, 10, 10], [0, 0, 0, 0], [5, 5, 4, 9]])
    second = torch.tensor([[1.0, 1, 10, 5], [11, 1, 20, 10], [0, 0, 0, 0], [5, 5, 9, 9]])
    wanted = {True: [0.5, 0.0, 1.0, 0.0], False: [36 / 81, 0.0, 0.0, 0.0]}
    for inclusive, values in wanted.items():
        a, b = (box_columns(boxes, "xyxy", inclusive=inclusive) for boxes in (first, second))
        inter = pair_intersections(a, b, inclusive=inclusive)
        assert intersection_over_union(inter, a.area, b.area).tolist() == values
    big, small = torch.tensor([[0.0, 0, 100, 100]]), torch.tensor([[90.0, 0, 20, 10]])
    a, b = (box_columns(boxes, "xywh", inclusive=False) for boxes in (small, big))
    assert intersection_over_area(pair_intersections(a, b, inclusive=False), a.area).tolist() == [
        0.5
    ]


def test_boxes_keep_their_format() -> None:
    """25.6 x 40 is exactly "small" as xywh; its width from corners would not be."""
    box = torch.tensor([[100.3, 7.1, 25.6, 40.0]], dtype=torch.float64)
    assert box_columns(box, "xywh", inclusive=False).area.item() == 25.6 * 40.0
    centre = torch.tensor([[10.0, 20.0, 4.0, 8.0]])
    columns = [values.item() for values in box_columns(centre, "cxcywh", inclusive=False)]
    assert columns == [8.0, 16.0, 12.0, 24.0, 32.0]
