"""``dataclasses.replace`` of protocols: every way to write a list, and every vocabulary checked."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from torch_vocmetrics import ProtocolError, load_protocol, protocol_names
from torch_vocmetrics.protocols import protocol_file, protocol_of_rules
from torch_vocmetrics.protocols.rules import rules_of

COCO = load_protocol("detection/coco2017")
CALTECH = load_protocol("miss_rate/caltech2012")
VOC_MAPS = load_protocol("segmentation/voc2012")
HALVES = (0.5, 0.75)
AREAS = (("all", 0.0, 1e10), ("tiny", 0.0, 64.0))


@pytest.mark.parametrize(
    ("protocol", "rule", "given", "wanted"),
    [
        (COCO, "iou_thresholds", [0.5, 0.75], HALVES),
        (COCO, "iou_thresholds", HALVES, HALVES),
        (COCO, "iou_thresholds", np.array(HALVES), HALVES),
        (COCO, "iou_thresholds", torch.tensor(HALVES, dtype=torch.float64), HALVES),
        (COCO, "iou_thresholds", [np.float64(0.5), 0.75], HALVES),
        (COCO, "iou_thresholds", {"linspace": [0.5, 0.75, 2]}, HALVES),
        (COCO, "recall_levels", np.linspace(0, 1, 3), (0.0, 0.5, 1.0)),
        (COCO, "max_detections", [100, 1, 10], (1, 10, 100)),
        (COCO, "max_detections", (np.int64(7), torch.tensor(3)), (3, 7)),
        (COCO, "max_detections", range(1, 3), (1, 2)),
        (COCO, "max_detections", torch.tensor([5]), (5,)),
        (COCO, "max_detections", None, ()),
        (COCO, "area_ranges", AREAS, AREAS),
        (COCO, "area_ranges", [list(entry) for entry in AREAS], AREAS),
        (COCO, "area_ranges", [["all", np.float64(0.0), np.float64(1e10)]], AREAS[:1]),
        (COCO, "area_ranges", [{"name": "all", "lower": 0.0, "upper": 1e10}], AREAS[:1]),
        (COCO, "area_ranges", [["all", None, None]], (("all", -np.inf, np.inf),)),
        (COCO, "ignored_flags", ["difficult"], ("difficult",)),
        (COCO, "ignored_flags", [], ()),
        (CALTECH, "max_detections", None, ()),
        (CALTECH, "bounds", None, ()),
        (CALTECH, "bounds", [5, 5, 635, 475], (5, 5, 635, 475)),
        (CALTECH, "num_images", None, 0),
        (CALTECH, "overlap_epsilon", None, 0.0),
        (CALTECH, "standardised", ["objects"], ("objects",)),
        (VOC_MAPS, "void_labels", [255, 0], (255, 0)),
        (VOC_MAPS, "void_labels", np.array([255]), (255,)),
        (VOC_MAPS, "void_labels", None, ()),
    ],
)
def test_every_way_to_write_a_list(protocol: Any, rule: str, given: Any, wanted: Any) -> None:
    changed = dataclasses.replace(protocol, **{rule: given})
    value = getattr(changed, rule)
    assert value == wanted
    assert type(value) is type(wanted)
    assert dataclasses.replace(protocol, **{rule: wanted}).fingerprint == changed.fingerprint
    assert hash(changed) == hash(dataclasses.replace(protocol, **{rule: wanted}))


WORDS = [
    (name, rule.name)
    for name in protocol_names()
    for rule in rules_of(type(load_protocol(name)))
    if isinstance(getattr(load_protocol(name), rule.name), str)
]


@pytest.mark.parametrize(("name", "rule"), WORDS)
def test_a_word_that_no_rule_knows_is_refused(name: str, rule: str) -> None:
    """``recal_grid`` computes nothing, in a variant or in a file."""
    protocol, content = load_protocol(name), protocol_file(name)
    for word in (getattr(protocol, rule).upper() + "x", "", None, 3, ["all"]):
        with pytest.raises(ProtocolError, match=rule):
            dataclasses.replace(protocol, **{rule: word})
        with pytest.raises(ProtocolError, match=rule):
            protocol_of_rules(content.task, "own", content.rules | {rule: word})


def test_lists_within_subsets_and_references() -> None:
    first = CALTECH.subsets[0]
    lists = first._replace(height=[50, np.inf], occlusion=None, images=None)
    table = first._replace(height=(50, np.inf), occlusion=(), images=())._asdict()
    a, b = (dataclasses.replace(CALTECH, subsets=[entry]) for entry in (lists, table))
    assert a.subsets == b.subsets
    assert a.subsets[0].height == (50, np.inf)
    assert a.fingerprint == b.fingerprint
    references = [{"name": entry.name, "fppi": list(entry.fppi)} for entry in CALTECH.references]
    assert dataclasses.replace(CALTECH, references=references) == CALTECH


@pytest.mark.parametrize(
    ("rule", "given", "sentence"),
    [
        (
            "iou_thresholds",
            "0.5",
            "iou_thresholds must be a list of 1 or more rising .*, got '0.5'",
        ),
        ("iou_thresholds", 0.5, "rising numbers in .*, got 0.5"),
        ("iou_thresholds", torch.tensor([0.5]), r"rising numbers in .*, got tensor\(\[0.5000\]\)"),
        (
            "iou_thresholds",
            np.float32([0.5]),
            r"rising numbers in .*, got array\(\[0.5\], dtype=float32\)",
        ),
        ("iou_thresholds", None, "rising numbers in .*, got None"),
        (
            "max_detections",
            100,
            "distinct positive .* in a list, None for no limit, got 100",
        ),
        ("max_detections", [[1]], "max_detections must be distinct positive integers"),
        ("max_detections", "100", "in a list, None for no limit, got '100'"),
        ("ignored_flags", "difficult", "must be a list of flags among .*, got 'difficult'"),
        ("area_ranges", ["all", 0.0, 1.0], r"must be a list of \[name, lower, upper\] triples"),
        ("area_ranges", "all", "must be a list of"),
    ],
)
def test_what_is_no_list_is_told_so(rule: str, given: Any, sentence: str) -> None:
    with pytest.raises(ProtocolError, match=sentence):
        dataclasses.replace(COCO, **{rule: given})


@pytest.mark.parametrize("name", sorted({n.split("/")[0]: n for n in protocol_names()}.values()))
def test_every_rule_is_checked(name: str) -> None:
    """No rule takes a word that no protocol has, nor a list of it."""
    protocol = load_protocol(name)
    for rule in rules_of(type(protocol)):
        for value in ("no such word", ["no such word"], object(), {"no": "word"}):
            if rule.name == "parts" and isinstance(value, list):
                continue  # names of one's own
            with pytest.raises(ProtocolError, match=rule.name):
                dataclasses.replace(protocol, **{rule.name: value})


def test_equal_rules_have_equal_fingerprints_after_reading() -> None:
    for name in protocol_names():
        protocol = load_protocol(name)
        as_lists = {
            key: list(value) if type(value) is tuple else value
            for key, value in protocol.rules.items()
        }
        assert dataclasses.replace(protocol, **as_lists).fingerprint == protocol.fingerprint
