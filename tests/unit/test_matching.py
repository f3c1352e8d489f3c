"""The matcher against the rule as a loop, in all its forms; lanes, pairs, orders and overlaps."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from torch_vocmetrics import DetectionAP, load_protocol
from torch_vocmetrics.matching import greedy
from torch_vocmetrics.matching.lanes import BITS, Lanes, column, in_range_bits, passing_bits
from torch_vocmetrics.matching.pairs import candidate_pairs
from torch_vocmetrics.ops.boxes import (
    box_columns,
    intersection_over_area,
    intersection_over_union,
    pair_intersections,
)
from torch_vocmetrics.ops.ordering import rank_in_group, rank_order


def random_candidates(
    seed: int,
) -> tuple[greedy.Candidates, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Pairs of a few groups with random bits, few distinct overlaps, and exclusive bits."""
    rng = torch.Generator().manual_seed(seed)

    def whole(high: int, size: int) -> torch.Tensor:
        return torch.randint(0, high, (size,), generator=rng)

    detections, objects = 12, 8
    group = whole(3, detections).sort().values
    object_group = whole(3, objects)
    pairs = candidate_pairs(group, object_group)
    size = pairs.detection.shape[0]
    counted = torch.stack([whole(16, size), whole(16, size)], 1)
    ignored = torch.stack([whole(16, size), whole(16, size)], 1) & ~counted
    thin = (whole(3, size) > 0).unsqueeze(1)
    exclusive = torch.stack([whole(16, objects), whole(16, objects)], 1)
    return (
        greedy.Candidates(
            pairs.detection,
            pairs.ground_truth,
            whole(4, size) / 4,
            whole(4, size) / 4,
            counted * thin,
            ignored * thin,
        ),
        group,
        exclusive,
        torch.stack([whole(16, detections), whole(16, detections)], 1),
    )


def loop(
    pairs: greedy.Candidates, exclusive: torch.Tensor, out: torch.Tensor, *, best: bool, last: bool
) -> tuple[list[list[int]], list[list[int]]]:
    """The rule of the matcher as a plain loop."""
    rows = list(zip(*(values.tolist() for values in pairs), strict=True))
    positive, ignored = ([[0, 0] for _ in range(out.shape[0])] for _ in range(2))
    for word in range(2):
        taken = [0] * exclusive.shape[0]
        for detection in range(out.shape[0]):
            remaining = 15
            mine = [row for row in rows if row[0] == detection]
            sign = -1 if last else 1
            mine.sort(key=lambda row: sign * row[1])
            if best:
                mine = sorted(mine, key=lambda row: -row[2])[:1]
            for counts, overlap, bits in ((True, 2, 4), (False, 3, 5)):
                for row in sorted(mine, key=lambda row: -row[overlap]):
                    claim = remaining & row[bits][word] & ~taken[row[1]]
                    taken[row[1]] |= claim & int(exclusive[row[1], word])
                    remaining &= ~claim
                    (positive if counts else ignored)[detection][word] |= claim
            ignored[detection][word] |= remaining & int(out[detection, word])
    return positive, ignored


@pytest.mark.parametrize("best", [False, True])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("sequential_below", [0, 10**9])
def test_matcher_is_the_loop(
    best: bool, last: bool, sequential_below: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(greedy, "SEQUENTIAL_BELOW", sequential_below)
    contested = 0
    for seed in range(60):
        pairs, group, exclusive, out = random_candidates(seed)
        got = greedy.match(
            pairs,
            group=group,
            exclusive=exclusive,
            out_of_range=out,
            best_only=best,
            last_wins=last,
        )
        wanted = loop(pairs, exclusive, out, best=best, last=last)
        assert (got.true_positive.tolist(), got.ignored.tolist()) == wanted, f"seed {seed}"
        contested += any(map(any, wanted[0]))
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
    places = [lanes.place(area, threshold) for area in range(4) for threshold in range(17)]
    assert places == [divmod(lane, BITS) for lane in range(68)]
    assert sum(lanes.threshold_bits()[-1]) == 2**63 - 1 + 2**5 - 1
    bits = torch.tensor([lanes.mask([(3, 16)])])
    assert [bool(column(bits, place)) for place in places].index(True) == 67


def test_passing_and_range_bits_are_closed() -> None:
    coco = load_protocol("detection/coco2017")
    lanes = Lanes.of(coco)
    overlap = torch.tensor([0.5, 0.6, 0.8999999999999999, 1.0], dtype=torch.float64)
    first_area = [
        sum(
            bool(column(passing_bits(overlap, coco, lanes)[i : i + 1], lanes.place(0, t)))
            for t in range(10)
        )
        for i in range(4)
    ]
    assert first_area == [1, 3, 9, 10]
    strict = dataclasses.replace(coco, comparison=">")
    assert passing_bits(overlap[:1], strict, lanes).tolist() == [[0]]
    area = torch.tensor([1024.0, 1025.0], dtype=torch.float64)
    held = in_range_bits(area, coco, lanes)
    of_areas = [
        [bool(column(held[i : i + 1], lanes.place(a, 0))) for a in range(4)] for i in range(2)
    ]
    assert of_areas == [[True, True, True, False], [True, False, True, False]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rank_order_is_stable_and_zero_has_no_sign(dtype: torch.dtype) -> None:
    scores = torch.tensor([0.0, -0.0, 1.0, -1.0, 0.0, 1.0, 3e38, -3e38, 1e-45], dtype=dtype)
    group = torch.tensor([1, 1, 1, 1, 0, 0, 1, 1, 1])
    rows = sorted(range(9), key=lambda i: (int(group[i]), -float(scores[i])))
    assert rank_order(group, scores, None).tolist() == rows
    order = torch.tensor([5, 4, 0, 0, 0, 0, 0, 0, 0])
    assert rank_order(group, scores, order).tolist() == [5, 4, 6, 2, 8, 1, 0, 3, 7]
    far = group * 2**40
    assert rank_order(far, scores, None).tolist() == rows


def test_rank_in_group() -> None:
    assert rank_in_group(torch.tensor([0, 0, 3, 3, 3, 9])).tolist() == [0, 1, 0, 1, 2, 0]
    assert rank_in_group(torch.zeros(0, dtype=torch.int64)).tolist() == []


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
