"""Tables that a kernel has written become the tables of the host; faults name the right image."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from distributed.registry import SUBJECTS, images
from helpers.host_backed_cuda import host_backed_cuda, moved

from torch_vocmetrics import DetectionAP, load_protocol
from torch_vocmetrics.errors import InputError
from torch_vocmetrics.tables.compaction import compacted
from torch_vocmetrics.tables.records import MATCH_COLUMNS, MatchRecords


def records() -> MatchRecords:
    metric: Any = DetectionAP("coco2017", num_classes=2)
    for image in images(SUBJECTS["detection"], 90, ids=True):
        metric.update(*image)
    metric.state_dict()
    found: MatchRecords = metric._accumulated.whole[0]
    return found


def as_a_kernel_writes(part: MatchRecords, seed: int) -> MatchRecords:
    """Lanes of a pair in two rows, unused rows between them, rows in any order."""
    rng = torch.Generator().manual_seed(seed)
    size = part.match_detection.shape[0]
    split = torch.randint(0, 2**40, (size, 1), generator=rng)
    columns: dict[str, Any] = {}
    order = torch.randperm(2 * size + 7, generator=rng)
    for name in MATCH_COLUMNS:
        column = getattr(part, name)
        first, second = column, column
        if name in ("match_true_positive", "match_ignored"):
            first, second = column & split, column & ~split
        unused = torch.full_like(column[:7], -1 if name == "match_detection" else 0)
        columns[name] = torch.cat([first, second, unused]).index_select(0, order)
    return dataclasses.replace(part, **columns)


@pytest.mark.parametrize("seed", range(3))
def test_rows_of_a_pair_are_joined_and_unused_ones_go(seed: int) -> None:
    wanted = records()
    assert wanted.match_detection.shape[0] > 20
    parts = [as_a_kernel_writes(wanted, seed), as_a_kernel_writes(wanted, seed + 9)]
    with host_backed_cuda() as counts:
        there = [part.to(torch.device("cuda")) for part in parts]
        flag = torch.ones(2, dtype=torch.int32).to("cuda")
        counts.reset()
        found, flags = compacted(there, [None, None], [flag])
        assert len(counts.waits) == 1
        assert flags[0].tolist() == [1, 1]
        for one in found:
            for name in MATCH_COLUMNS:
                assert torch.equal(getattr(one, name).host, getattr(wanted, name)), name


def test_detections_beyond_the_limit_go() -> None:
    rules = dataclasses.replace(
        load_protocol("detection/coco2017"), name="three", max_detections=(1, 3)
    )
    host, there = (DetectionAP(rules, num_classes=2) for _ in range(2))
    with host_backed_cuda():
        for image in images(SUBJECTS["detection"], 20, ids=True):
            host.update(*image)
            there.update(*moved(image))
        mine, theirs = (one.state_dict()["records"][0] for one in (host, there))
        assert theirs["score"].shape[0] == mine["score"].shape[0]
        assert torch.equal(theirs["image"].host, mine["image"])
        assert torch.equal(theirs["match_detection"].host, mine["match_detection"])
        assert torch.equal(theirs["class_counts"].host, mine["class_counts"])


@pytest.mark.parametrize("ids_on", ["cpu", "cuda"])
def test_a_fault_is_named_by_its_image_among_all_batches(ids_on: str) -> None:
    boxes = torch.tensor([[1.0, 1, 5, 5], [2.0, 2, 6, 6]])
    rows = {"boxes": boxes, "labels": torch.tensor([0, 1])}
    with host_backed_cuda():
        metric = DetectionAP("coco2017", num_classes=2)
        for number in range(3):
            found = [rows | {"scores": torch.tensor([0.5, 0.25])} for _ in range(2)]
            if number == 2:
                found[1] = found[1] | {"scores": torch.tensor([0.5, torch.nan])}
            ids = [torch.tensor(10 * number + image) for image in range(2)]
            true = [moved(rows) | {"image_id": moved(one, ids_on)} for one in ids]
            metric.update(moved(found), true)
        with pytest.raises(InputError, match=r"prediction 5 \(image_id 21\), row 1: the score"):
            metric.compute()
