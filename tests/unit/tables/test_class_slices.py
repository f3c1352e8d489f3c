"""What is exchanged between ranks: slices of classes, arrangements of images, digests of copies."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pytest
import torch
from distributed.registry import SUBJECTS, images

from torch_vocmetrics import DetectionAP, StateError, VocMetricsWarning
from torch_vocmetrics.distributed.classes import owners
from torch_vocmetrics.tables.class_slices import (
    RANKED_DETECTIONS,
    RANKED_MATCHES,
    ClassSlices,
    classes_of_images,
    starts_of_classes,
)
from torch_vocmetrics.tables.columns import refuse_partial_order
from torch_vocmetrics.tables.digests import digest_of_detections, digest_of_truth, starts_of_truth
from torch_vocmetrics.tables.records import MatchRecords
from torch_vocmetrics.tables.repeats import arranged


def records(numbers: range, *, ids: bool = True) -> MatchRecords:
    metric = DetectionAP("coco2017", num_classes=5, label_ids=range(5))
    for image in images(SUBJECTS["detection_found"], numbers.stop, ids=ids)[numbers.start :]:
        metric.update(*image)
    return metric._joined().whole[0]


# Owners -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(30))
def test_every_class_has_one_owner_and_loads_are_even(seed: int) -> None:
    chance = random.Random(seed)
    ranks = chance.randint(1, 9)
    counts = [int(chance.paretovariate(1) * 10) for _ in range(chance.randint(1, 90))]
    owned = owners(counts, ranks)
    assert len(owned) == ranks
    assert sorted(label for classes in owned for label in classes) == list(range(len(counts)))
    assert all(classes == sorted(classes) for classes in owned)
    loads = [sum(counts[label] for label in classes) for classes in owned]
    assert max(loads) <= sum(counts) / ranks + max(counts)


def test_classes_without_rows_are_shared_out() -> None:
    assert owners([0, 0, 0, 0], 2) == [[0, 2], [1, 3]]
    assert owners([5], 3) == [[0], [], []]
    assert owners([9, 1, 1, 8], 2) == [[0, 2], [1, 3]] or owners([9, 1, 1, 8], 2) == [
        [0],
        [1, 2, 3],
    ]


# Slices -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "runs", [[[0, 2], [1, 3, 4]], [[3], [0, 1, 2, 4]], [[0, 1, 2, 3, 4]], [[], [1, 2, 4], [0, 3]]]
)
def test_slices_are_the_records_of_their_classes(runs: list[list[int]]) -> None:
    """Rows of each run, read off the joined records by a plain loop."""
    parts = [records(range(5)), records(range(5, 6)), records(range(6, 14))]
    whole = MatchRecords.cat(parts)
    slices = ClassSlices(parts)
    order = [label for run in runs for label in run]
    columns = {
        name: slices.column(name, order, runs) for name in (*RANKED_DETECTIONS[:3], *RANKED_MATCHES)
    }
    first = matches = 0
    for run in runs:
        rows = [
            row for label in run for row in range(len(whole.label)) if whole.label[row] == label
        ]
        for name in RANKED_DETECTIONS[:3]:
            mine = columns[name][first : first + len(rows)]
            assert torch.equal(mine, getattr(whole, name)[torch.tensor(rows, dtype=torch.int64)])
        first += len(rows)
        of_row: dict[int, list[int]] = {}
        for match, row in enumerate(whole.match_detection.tolist()):
            of_row.setdefault(row, []).append(match)
        pairs = [(place, match) for place, row in enumerate(rows) for match in of_row.get(row, [])]
        for place, match in pairs:
            assert columns["match_detection"][matches] == place
            for name in RANKED_MATCHES[1:]:
                assert torch.equal(columns[name][matches], getattr(whole, name)[match])
            matches += 1
    assert first == whole.num_detections
    assert matches == len(whole.match_detection) > 0


def test_starts_of_classes() -> None:
    table = records(range(13))
    starts = starts_of_classes(table)
    assert "order" not in starts
    assert "ground_truth_label" not in starts
    counts = table.class_counts.tolist()
    assert starts["score"] == [sum(counts[:label]) for label in range(6)]
    label = table.label[table.match_detection]
    wanted = [int((label < one).sum()) for one in range(6)]
    assert starts["match_overlap"] == wanted
    assert wanted[1] < wanted[2] < wanted[3]


def test_records_of_classes_can_be_cut() -> None:
    table = records(range(13))
    names = (*RANKED_DETECTIONS[:3], *RANKED_MATCHES)
    columns = {name: getattr(table, name) for name in names}
    bare = classes_of_images(columns, table.class_counts, table.num_images)
    keep = torch.arange(13) % 3 > 0
    cut, wanted = bare.keep_images(keep), table.keep_images(keep)
    for name in ("class_counts", *names):
        assert torch.equal(getattr(cut, name), getattr(wanted, name)), name


def test_partial_order_is_refused() -> None:
    for given in ([], [True], [False, False], [True, True]):
        refuse_partial_order(given)
    with pytest.raises(StateError, match="some detections have an order"):
        refuse_partial_order([True, False])


# Arrangements -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(60))
def test_arranged_as_a_plain_loop_does(seed: int) -> None:
    chance = random.Random(seed)
    states = [chance.randint(0, 6) for _ in range(chance.randint(1, 5))]
    kind: Any = chance.choice([int, str, None])
    pool = [kind(chance.randint(0, 12)) for _ in range(8)] if kind else []
    ids = [chance.choice(pool) for _ in range(sum(states))] if kind else []
    rows = [(n, s) for s, size in enumerate(states) for n in range(size)]
    arrival = sorted(range(len(rows)), key=lambda row: rows[row])
    first: dict[Any, int] = {}
    copies = []
    for row in arrival:
        name = ids[row] if ids else row
        if name in first:
            copies.append([row, first[name]])
        first.setdefault(name, row)
    found = arranged(ids, states)
    assert found.copies.tolist() == copies
    kept = [row for row in range(len(rows)) if row not in {copy for copy, _ in copies}]
    assert found.kept.nonzero().flatten().tolist() == kept
    by_position = sorted(kept, key=lambda row: int(found.positions[row]))
    wanted = sorted(kept, key=lambda row: ids[row]) if ids else arrival
    assert by_position == wanted
    assert sorted(found.positions.tolist()) == list(range(len(rows)))


def test_copies_are_compared() -> None:
    found = arranged([5, 7, 5, 7], [2, 2])
    same = torch.tensor([1, 2, 1, 2])
    found.check_truth(same, [5, 7, 5, 7])
    with pytest.raises(StateError, match="image_id 7: the same image came with different ground"):
        found.check_truth(torch.tensor([1, 2, 1, 3]), [5, 7, 5, 7])
    with pytest.warns(VocMetricsWarning, match="2 repeated images .* of 1 of them"):
        found.warn_of_copies(torch.tensor([1, 2, 9, 2]))


# Digests ------------------------------------------------------------------------------------------


def test_digests_do_not_depend_on_where_an_image_stands() -> None:
    table = records(range(13))
    for place in range(13):
        alone = records(range(place, place + 1))
        assert digest_of_truth(alone)[0] == digest_of_truth(table)[place]
        assert digest_of_detections(alone)[0] == digest_of_detections(table)[place]
    filled = digest_of_detections(table)[table.image.unique().long()]
    assert len(filled.unique()) == len(filled) > 5


def test_digests_of_classes_add_up() -> None:
    table = records(range(13))
    starts = starts_of_truth(table)
    total = torch.zeros(13, dtype=torch.int64)
    names = (*RANKED_DETECTIONS[:3], *RANKED_MATCHES, "match_ground_truth", "match_overlap")
    for label in range(5):
        rows = slice(*starts_of_classes(table)["score"][label : label + 2])
        matches = slice(*starts_of_classes(table)["match_overlap"][label : label + 2])
        columns = {
            name: getattr(table, name)[matches if name.startswith("match") else rows]
            for name in names
        }
        columns["match_detection"] = columns["match_detection"] - rows.start
        part = classes_of_images(columns, table.class_counts[label : label + 1], 13)
        total += digest_of_detections(part, label, starts)
    assert torch.equal(total, digest_of_detections(table))


@pytest.mark.parametrize(
    "name",
    [
        "score", "out_of_range", "match_overlap", "match_true_positive", "match_ignored",
        "ground_truth_label", "ground_truth_area", "ground_truth_counted",
    ],
)  # fmt: skip
def test_every_column_is_in_a_digest(name: str) -> None:
    """One entry changes the digest of its image and of no other."""
    table = records(range(13))
    column = getattr(table, name)
    row = len(column) // 2
    changed = column.clone()
    changed[row] += 1
    other = dataclasses.replace(table, **{name: changed})
    of_truth = name.startswith("ground_truth")
    digest = digest_of_truth if of_truth else digest_of_detections
    owner = table.ground_truth_image if of_truth else table.image
    row = int(table.match_detection[row]) if name.startswith("match") else row
    differing = (digest(table) != digest(other)).nonzero().flatten().tolist()
    assert differing == [int(owner[row])]


def test_the_order_of_detections_counts() -> None:
    """Two detections of an image and class change places in all but their score."""
    table = records(range(13))
    group = table.label * 13 + table.image
    at = table.match_detection
    row = next(
        row
        for row in range(len(group) - 1)
        if group[row] == group[row + 1] and int((at == row).sum()) != int((at == row + 1).sum())
    )
    other = torch.where(at == row, row + 1, torch.where(at == row + 1, row, at))
    changed = dataclasses.replace(table, match_detection=other)
    differing = digest_of_detections(table) != digest_of_detections(changed)
    assert differing.nonzero().flatten().tolist() == [int(table.image[row])]


def test_the_order_of_unmatched_detections_counts() -> None:
    table = records(range(13))
    group = table.label * 13 + table.image
    row = next(
        row
        for row in range(len(group) - 1)
        if group[row] == group[row + 1] and table.score[row] != table.score[row + 1]
    )
    order = torch.arange(len(group))
    order[[row, row + 1]] = order[[row + 1, row]]
    swapped = {name: getattr(table, name)[order] for name in ("score", "out_of_range")}
    changed = dataclasses.replace(table, **swapped)
    differing = digest_of_detections(table) != digest_of_detections(changed)
    assert differing.nonzero().flatten().tolist() == [int(table.image[row])]


def test_the_order_of_rows_counts_and_the_type_of_scores_does_not() -> None:
    table = records(range(13))
    wide = dataclasses.replace(table, score=table.score.double())
    assert torch.equal(digest_of_detections(table), digest_of_detections(wide))
    negative = dataclasses.replace(table, score=torch.where(table.score == 0, -0.0, table.score))
    assert torch.equal(digest_of_detections(table), digest_of_detections(negative))
    swapped = dataclasses.replace(table, ground_truth_area=table.ground_truth_area.flip(0))
    assert not torch.equal(digest_of_truth(table), digest_of_truth(swapped))
    row = next(
        n
        for n in range(len(table.ground_truth_image) - 1)
        if table.ground_truth_image[n] == table.ground_truth_image[n + 1]
        and table.ground_truth_area[n] != table.ground_truth_area[n + 1]
    )
    area = table.ground_truth_area.clone()
    area[[row, row + 1]] = area[[row + 1, row]]
    other = dataclasses.replace(table, ground_truth_area=area)
    assert int((digest_of_truth(table) != digest_of_truth(other)).sum()) == 1
