"""Every shipped protocol file loads, names its sources, and holds what it must."""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path

import numpy as np
import pytest

from torch_vocmetrics import ProtocolError, load_dataset, load_protocol, protocol_names
from torch_vocmetrics.protocols import (
    ProtocolFile,
    config_root,
    dataset_of,
    files,
    protocol_file,
    protocol_title,
)

FILES = sorted((config_root() / "protocols").glob("*/*.toml"))


# Files and names of each task.
COUNTS = {
    "action": (1, 3),
    "classification": (5, 13),
    "detection": (10, 18),
    "layout": (10, 15),
    "miss_rate": (9, 9),
    "segmentation": (4, 8),
}


@pytest.mark.parametrize("task", sorted({path.parent.name for path in FILES}))
def test_all_files_were_found(task: str) -> None:
    mine = [path for path in FILES if path.parent.name == task]
    names = [name for path in mine for name in tomllib.loads(path.read_text())["names"]]
    assert len(set(names)) == len(names)
    assert sorted(names) == protocol_names(task)
    assert (len(mine), len(names)) == COUNTS[task]


def test_every_task_has_files() -> None:
    assert {path.parent.name for path in FILES} == set(COUNTS)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_each_file_is_complete_and_cited(path: Path) -> None:
    entry = ProtocolFile.read(path)
    assert entry.task == path.parent.name
    assert entry.title
    assert set(entry.sources) == set(entry.rules)
    assert all(source.strip() for source in entry.sources.values())
    for name in entry.names:
        protocol = load_protocol(f"{entry.task}/{name}")
        assert protocol.name == name
        assert protocol_title(protocol) == f"{entry.task}/{name}"
        assert protocol.rules == entry.protocol(entry.names[0]).rules


def test_equal_rules_are_one_file() -> None:
    prints = [ProtocolFile.read(path).protocol("x").fingerprint for path in FILES]
    assert len(set(prints)) == len(prints)


def test_coco_numbers_are_float64_linspace() -> None:
    coco = load_protocol("detection/coco2017")
    assert list(coco.iou_thresholds) == np.linspace(0.5, 0.95, 10).tolist()
    assert list(coco.recall_levels) == np.linspace(0.0, 1.0, 101).tolist()
    assert coco.precision_epsilon == np.spacing(1)
    assert coco.iou_threshold_ceiling == 1 - 1e-10


def test_eleven_point_grids() -> None:
    running = np.arange(0, 1.1, 0.1).tolist()
    assert list(load_protocol("detection/voc2007").recall_levels) == running
    tenths = [i / 10 for i in range(11)]
    assert list(load_protocol("detection/voc2006_exact_tenths").recall_levels) == tenths
    colon = list(load_protocol("detection/voc2009_matlab_colon").recall_levels)
    assert [a != b for a, b in zip(colon, tenths, strict=True)].count(True) == 1
    assert colon[3] == running[3] != tenths[3]


def test_unknown_names_come_with_near_ones() -> None:
    with pytest.raises(ProtocolError, match="near names: detection/voc2007"):
        load_protocol("detection/voc_2007")


def _broken(tmp_path: Path, *changes: tuple[str, str]) -> Path:
    text = (config_root() / "protocols" / "detection" / "coco2017.toml").read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / "own.toml"
    path.write_text(text)
    return path


def test_all_mistakes_are_reported_at_once(tmp_path: Path) -> None:
    path = _broken(
        tmp_path,
        ('comparison = ">="', 'comparison = "=>"'),
        ('candidates = "all"\n', ""),
        ("max_detections = [1, 10, 100]", "max_detection = [1, 10, 100]"),
        ('["small", 0.0, 1024.0]', '["small", 1024.0, 0.0]'),
        ('source = "pycocotools 2.0.11 cocoeval.py COCOeval.accumulate and summarize"', ""),
    )
    with pytest.raises(ProtocolError) as caught:
        load_protocol(path)
    text = str(caught.value)
    for word in (
        "own.toml",
        "comparison must be one of >=, >",
        "lacks candidates",
        "unknown key 'max_detection' (did you mean max_detections?)",
        "lacks max_detections",
        "area_ranges must be",
        "[average] names no source",
    ):
        assert word in text


def test_a_task_may_be_left_out() -> None:
    assert load_protocol("coco2017") is load_protocol("detection/coco2017")
    assert load_protocol("voc2012") is load_protocol("detection/voc2012")
    assert load_protocol("cityscapes").task == "segmentation"
    assert load_protocol("voc2009_file_order").task == "layout"
    with pytest.raises(ProtocolError, match="near names: detection/coco2017"):
        load_protocol("coco_2017")
    for value in (None, 7, ["coco2017"]):
        with pytest.raises(ProtocolError, match="protocol: must be the name of a protocol"):
            load_protocol(value)  # type: ignore[call-overload]


def test_an_ambiguous_name_asks_for_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = {"layout/own": Path("a"), "segmentation/own": Path("b")}
    monkeypatch.setattr(files, "_shipped", lambda: shipped)
    with pytest.raises(ProtocolError, match="write layout/own or segmentation/own"):
        load_protocol("own")


def test_protocol_names_of_all_tasks() -> None:
    everything = protocol_names()
    assert {name.split("/")[0] for name in everything} == set(COUNTS)
    assert all(load_protocol(name).name == name.split("/")[1] for name in everything)
    with pytest.raises(ProtocolError, match="unknown task 'detections'; the tasks are action, "):
        protocol_names("detections")


@pytest.mark.parametrize("text", ["", "schema = 1", "not toml at all ["])
def test_files_that_are_no_protocol(tmp_path: Path, text: str) -> None:
    path = tmp_path / "own.toml"
    path.write_text(text)
    with pytest.raises(ProtocolError, match=r"own\.toml"):
        load_protocol(path)


def test_own_file_and_replace(tmp_path: Path) -> None:
    own = load_protocol(_broken(tmp_path, ('"coco2017"', '"mine"')))
    coco = load_protocol("detection/coco2017")
    assert own.name == "mine"
    assert own.fingerprint == coco.fingerprint
    changed = dataclasses.replace(coco, max_detections=(300, 3))
    assert changed.max_detections == (3, 300)
    assert changed.fingerprint != coco.fingerprint
    assert protocol_title(changed) == "detection/coco2017 (own rules)"
    with pytest.raises(ProtocolError, match="iou_thresholds must be a list of 1 or more rising"):
        dataclasses.replace(coco, iou_thresholds=(0.5, 1.5))
    with pytest.raises(ProtocolError, match="recall_levels must not be empty"):
        dataclasses.replace(coco, recall_levels=())


def test_names_share_a_file_and_a_fingerprint() -> None:
    prints = {load_protocol(f"detection/voc{year}").fingerprint for year in (2007, 2008, 2009)}
    assert len(prints) == 1
    assert protocol_file("detection/voc2008").names == ("voc2007", "voc2008", "voc2009")


def test_datasets() -> None:
    sizes = {name: len(load_dataset(name).class_names) for name in ("voc2006", "voc2007")}
    assert sizes == {"voc2006": 10, "voc2007": 20}
    coco = load_dataset("coco2017")
    assert len(coco.class_names) == len(set(coco.label_ids)) == 80
    assert load_dataset("voc2012") == load_dataset("voc2007")
    assert load_dataset("voc2012_action") == load_dataset("voc2011_action")
    for name in ("coco", "voc2007.toml", "../datasets/voc2007", None):
        with pytest.raises(ProtocolError, match=r"known: .*coco2017, voc2006, voc2007"):
            load_dataset(name)  # type: ignore[arg-type]


def test_every_protocol_of_classes_has_the_classes_of_one_data_set() -> None:
    listed = [
        name
        for path in sorted((config_root() / "datasets").glob("*.toml"))
        for name in tomllib.loads(path.read_text()).get("protocols", ())
    ]
    tasks = ("action", "classification", "detection")
    assert sorted(listed) == [name for name in protocol_names() if name.split("/")[0] in tasks]
    sizes = {name: len(_classes_of(name)) for name in listed}
    assert sizes["detection/coco2017_segm"] == 80
    assert {size for name, size in sizes.items() if "voc2006" in name} == {10}
    assert {size for name, size in sizes.items() if name.startswith("action")} == {9, 11}
    assert dataset_of(load_protocol("layout/voc2012")) is None
    assert dataset_of(dataclasses.replace(load_protocol("coco2017"), name="own")) is None


def _classes_of(name: str) -> tuple[str, ...]:
    dataset = dataset_of(load_protocol(name))
    assert dataset is not None
    return dataset.class_names


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("coco2017", {"precision_epsilon": 0.0}),
        ("voc2007", {"precision_epsilon": 1e-9}),
        ("coco2017", {"iou_threshold_ceiling": 0.0}),
        ("coco2017", {"iou_threshold_ceiling": -1.0}),
    ],
)
def test_rules_that_do_not_hold_together(name: str, change: dict[str, float]) -> None:
    with pytest.raises(ProtocolError, match=next(iter(change))):
        dataclasses.replace(load_protocol(f"detection/{name}"), **change)
