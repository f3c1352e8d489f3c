"""Images and classes are worked on in parts, which change nothing."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

from torch_vocmetrics import DetectionAP
from torch_vocmetrics.curves import class_curves, coco_means
from torch_vocmetrics.curves.ranking import Ranker
from torch_vocmetrics.lanes import Lanes
from torch_vocmetrics.metrics import record_state
from torch_vocmetrics.ops.selection import rows_where, take
from torch_vocmetrics.ragged import Detections, GroundTruths, even_shares
from torch_vocmetrics.tables.records import MatchRecords


def images(count: int) -> tuple[list[Any], list[Any]]:
    """Crowded images of three classes with few distinct scores, some of them empty."""
    rng = torch.Generator().manual_seed(0)

    def rows(n: int) -> dict[str, torch.Tensor]:
        corner = torch.randint(0, 20, (n, 2), generator=rng).float()
        extent = torch.randint(4, 30, (n, 2), generator=rng)
        boxes = torch.cat([corner, corner + extent], 1)
        return {"boxes": boxes, "labels": torch.randint(0, 3, (n,), generator=rng)}

    sizes = torch.randint(0, 15, (count, 2), generator=rng).tolist()
    found = [rows(n) for n, _ in sizes]
    for one in found:
        one["scores"] = torch.randint(0, 5, (len(one["labels"]),), generator=rng) / 4
    return found, [rows(m) for _, m in sizes]


def tensors(result: Any) -> list[tuple[str, Any]]:
    fields = ((f.name, getattr(result, f.name)) for f in dataclasses.fields(result))
    return [(name, value.tolist()) for name, value in fields if isinstance(value, torch.Tensor)]


@pytest.mark.parametrize("protocol", ["coco2017", "voc2007"])
def test_shares_and_blocks_change_nothing(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found, true = images(120)

    def numbers() -> str:
        metric = DetectionAP(protocol, num_classes=3).update(found, true)
        return str(tensors(metric.compute()))

    wanted = numbers()
    for rows, block in ((200, 2**15), (200, 50), (200, 1), (1, 60)):
        monkeypatch.setattr(record_state, "CHUNK_ROWS", rows)
        monkeypatch.setattr(class_curves, "BLOCK_ROWS", block)
        monkeypatch.setattr(coco_means, "BLOCK_ROWS", block)
        assert numbers() == wanted, (rows, block)


def test_blocks_of_classes() -> None:
    counts = torch.tensor([0, 5, 3, 9, 0, 2])
    records = dataclasses.replace(
        MatchRecords.empty(Lanes(1, 1), 6), class_counts=counts, image=torch.zeros(19)
    )
    ranker = Ranker([records], Lanes(1, 1), 6)
    assert ranker.blocks(8) == [range(3), range(3, 4), range(4, 6)]
    assert ranker.blocks(9) == [range(3), range(3, 5), range(5, 6)]
    each = [range(1), range(1, 2), range(2, 3), range(3, 4), range(4, 6)]
    assert ranker.blocks(8, each=3) == each
    assert ranker.blocks(1) == [range(2), range(2, 3), range(3, 4), range(4, 6)]


def test_large_classes_are_read_in_portions() -> None:
    portions = coco_means._portions
    assert portions(4, 3, 12) == [(range(4), range(3))]
    assert portions(4, 3, 11) == [(range(area, area + 1), range(3)) for area in range(4)]
    few = portions(2, 2, 0)
    assert [(areas[0], limits[0]) for areas, limits in few] == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_scores_of_two_types_are_widened() -> None:
    """A first part without detections has the default type, later ones float64."""
    found, true = images(40)
    found = [one | {"scores": one["scores"].double() + 1e-12} for one in found]
    whole = DetectionAP("coco2017", num_classes=3).update(found, true).compute()
    empty = {"boxes": [], "scores": [], "labels": []}
    metric = DetectionAP("coco2017", num_classes=3).update([empty], [{"boxes": [], "labels": []}])
    metric.to("cpu")  # a part of its own
    parts = metric.update(found, true).compute()
    assert parts.scores.dtype == torch.float64
    assert str(tensors(parts)[3:]) == str(tensors(whole)[3:])


def test_even_shares() -> None:
    none = [0, 0, 0, 0]
    assert even_shares([5, 5, 5, 5], none, 2) == [slice(0, 2), slice(2, 4)]
    assert even_shares(none, [5, 5, 5, 5], 2) == [slice(0, 2), slice(2, 4)]
    assert even_shares([5, 5, 5, 5], none, 0) == [slice(0, 4)]
    assert even_shares([0, 0, 0], [0, 0, 0], 2) == [slice(0, 3)]
    assert even_shares([100, 1, 1], [0, 0, 0], 3) == [slice(0, 1), slice(1, 3)]
    assert even_shares([7], [1], 4) == [slice(0, 1)]
    assert even_shares([1, 1, 50], [0, 0, 50], 2) == [slice(0, 3)]


def test_rows_of_some_images() -> None:
    counts, rows = (2, 0, 3), torch.arange(5)
    boxes = rows.unsqueeze(1).expand(5, 4).double()
    found = Detections(counts, boxes, rows.double(), rows, rows, "xyxy").images(slice(1, 3))
    assert found.counts == (0, 3)
    for column in (found.scores, found.labels, found.order, found.boxes[:, 0]):
        assert column is not None
        assert column.tolist() == [2, 3, 4]
    true = GroundTruths(
        counts, boxes, rows, rows.byte(), rows.double(), "xyxy", visibility=rows.double()
    ).images(slice(0, 1))
    assert true.counts == (2,)
    for column in (true.labels, true.flags, true.area, true.boxes[:, 3], true.visibility):
        assert column is not None
        assert column.tolist() == [0, 1]
    assert true.occlusion is None


@pytest.mark.parametrize("shape", [(5,), (5, 1), (5, 2)])
def test_take(shape: tuple[int, ...]) -> None:
    table, rows = torch.arange(5 * len(shape)).reshape(5, -1)[:, : shape[-1]], torch.tensor([3, 0])
    table = table.expand(shape) if len(shape) == 2 else table[:, 0]
    assert torch.equal(take(table, rows), table[rows])


def test_rows_where() -> None:
    mask = torch.tensor([False, True, True, False, True])
    assert rows_where(mask).tolist() == [1, 2, 4]
    assert rows_where(mask[::2]).tolist() == [1, 2]
    assert rows_where(mask[:0]).tolist() == []
