"""The table of input keys: what it says is what packing does and what ``update`` documents."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

from torch_vocmetrics import DetectionAP, InputError, LayoutAP, LogAverageMissRate
from torch_vocmetrics.inputs import keys
from torch_vocmetrics.inputs.keys import KEYS, PREDICTION, TABLE, TARGET, keys_of
from torch_vocmetrics.inputs.numbers import FLAG
from torch_vocmetrics.protocols import FLAGS
from torch_vocmetrics.ragged import OPTIONAL_COLUMNS

METRICS: dict[str, Any] = {
    "detection": DetectionAP("coco2017", num_classes=1),
    "miss_rate": LogAverageMissRate("caltech2012"),
    "layout": LayoutAP("voc2007"),
}
BOX = [[10.0, 10.0, 50.0, 150.0]]
MINIMUM = {
    "boxes": BOX,
    "scores": [0.5],
    "labels": [0],
    "part_boxes": BOX,
    "part_labels": [0],
    "part_counts": [1],
}


def test_flags_and_optional_columns_are_rows_of_the_table() -> None:
    assert [key.name for key in TABLE if key.kind is FLAG] == list(FLAGS)
    assert set(OPTIONAL_COLUMNS) <= keys_of("miss_rate", TARGET).names
    assert len(KEYS) == len(TABLE)


def arguments(task: str) -> tuple[str, str]:
    """What the documentation of ``update`` says of the first and of the second argument."""
    text = " ".join(METRICS[task].update.__doc__.split())
    first, second = ("layouts:", "persons:") if task == "layout" else ("predictions:", "targets:")
    start, middle = text.index(first), text.index(second)
    return text[start:middle], text[middle : text.index("Either may be one dict")]


@pytest.mark.parametrize("task", METRICS)
@pytest.mark.parametrize("side", [PREDICTION, TARGET])
def test_update_documents_the_keys_of_the_table(task: str, side: str) -> None:
    words = arguments(task)[side == TARGET]
    for key in keys_of(task, side).keys:
        assert f"``{key.name}``" in words, key.name
        if key.shape:
            assert re.search(rf"``{key.name}`` \[[NMP], {key.shape[0]}\]", words), key.name
    if side == PREDICTION:
        assert "``difficult``" not in words


@pytest.mark.parametrize("task", METRICS)
@pytest.mark.parametrize("side", [PREDICTION, TARGET])
def test_near_names_of_every_key_are_refused(task: str, side: str) -> None:
    known = keys_of(task, side)
    rows = [
        {name: MINIMUM[name] for name in keys_of(task, each, "object_index").required}
        for each in (PREDICTION, TARGET)
    ]
    METRICS[task].reset().update([rows[0]], [rows[1]])
    for key in known.keys:
        for near in key.near:
            images = [dict(one) for one in rows]
            image = images[side == TARGET]
            image[near] = image.pop(key.name, None)
            with pytest.raises(InputError, match=f"'{near}' is not known; name it '{key.name}'"):
                METRICS[task].update([images[0]], [images[1]])
    assert METRICS[task].state_dict()["num_images"] == 1


def test_a_missing_key_has_the_value_of_the_table() -> None:
    from torch_vocmetrics.inputs.packing import ImageList  # noqa: PLC0415

    given = {"boxes": torch.tensor(BOX), "area": torch.tensor([7.0]), "occlusion": [2]}
    side = ImageList([given, {"boxes": torch.tensor(BOX)}], "target", "xyxy")
    assert side.column("area").nan_to_num(-5.0).tolist() == [7.0, -5.0]
    assert side.column("occlusion").tolist() == [2, 0]


def test_a_new_key_is_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    made_up = keys.Key("depth", (TARGET,), ("detection",), keys.FLOATING, missing=-1.0, near=("z",))
    monkeypatch.setattr(keys, "TABLE", (*TABLE, made_up))
    monkeypatch.setitem(KEYS, "depth", made_up)
    keys_of.cache_clear()
    try:
        from torch_vocmetrics.inputs.packing import ImageList  # noqa: PLC0415

        side = ImageList([{"boxes": BOX, "depth": [3]}, {"boxes": BOX}], "target", "xyxy")
        assert side.column("depth").tolist() == [3.0, -1.0]
        target = {"boxes": BOX, "labels": [0], "z": [1.0]}
        with pytest.raises(InputError, match="name it 'depth'"):
            DetectionAP("coco2017", num_classes=1).update(
                [{"boxes": BOX, "scores": [0.5], "labels": [0]}], [target]
            )
    finally:
        keys_of.cache_clear()
