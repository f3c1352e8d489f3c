"""Rules that no other quick test kept: each test here fails for a mistake that was planted."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from torch_vocmetrics import (
    ClassificationAP,
    DetectionAP,
    InputError,
    LayoutAP,
    LogAverageMissRate,
    MeanIoU,
    StateError,
    VocMetricsWarning,
    io,
    load_protocol,
)
from torch_vocmetrics.io.bb_gt import read_bb_gt_objects
from torch_vocmetrics.io.voc_annotations import VocAnnotation, VocObject
from torch_vocmetrics.io.voc_coco import coco_from_voc
from torch_vocmetrics.ops import ordering
from torch_vocmetrics.ops.boxes import box_table
from torch_vocmetrics.ops.confusion import LabelTable, count_pairs
from torch_vocmetrics.protocols import MissRateProtocol
from torch_vocmetrics.ragged import GroundTruths
from torch_vocmetrics.states import blocks, files

BOX = [10.0, 10.0, 40.0, 40.0]
FAR = [110.0, 10.0, 140.0, 40.0]


def prediction(boxes: Any = (BOX,), scores: Any = (0.9,), **more: Any) -> dict[str, Any]:
    rows = {
        "boxes": torch.tensor([list(box) for box in boxes], dtype=torch.float64).reshape(-1, 4),
        "scores": torch.tensor(list(scores), dtype=torch.float64),
        "labels": torch.zeros(len(scores), dtype=torch.int64),
    }
    return rows | more


def target(boxes: Any = (BOX,), **more: Any) -> dict[str, Any]:
    rows = {
        "boxes": torch.tensor([list(box) for box in boxes], dtype=torch.float64).reshape(-1, 4),
        "labels": torch.zeros(len(boxes), dtype=torch.int64),
    }
    return rows | more


# Orders ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_ties_stay_where_keys_do_not_fit_one_word(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sort that devices use: by group, falling score, then as the rows came."""
    monkeypatch.setattr(ordering, "_by_packed_keys", lambda *_: None)
    group = torch.tensor([1, 0, 1, 0, 1, 0])
    scores = torch.tensor([0.5, 0.25, 0.5, 0.25, 0.75, math.inf], dtype=dtype)
    assert ordering.rank_order(group, scores, (), 2).tolist() == [5, 1, 3, 4, 0, 2]


def test_score_at_recall_0_is_that_of_the_first_detection() -> None:
    """COCOeval.accumulate: ``inds = searchsorted(rc, recThrs)`` is 0 there, hit or miss.

    Of one false positive every other level is behind the end, so that its score stays 0.
    """
    result: Any = DetectionAP("coco2017", num_classes=1).update([prediction([FAR])], [target()])
    scores = result.compute().scores
    assert 0.9 in scores.unique().tolist()
    assert set(scores[~scores.isnan()].unique().tolist()) == {0.0, 0.9}


def test_scores_of_levels_that_the_last_detection_reaches() -> None:
    """``ss[ri] = dtScoresSorted[pi]``: one true positive of one object reaches every level."""
    result: Any = DetectionAP("coco2017", num_classes=1).update([prediction()], [target()])
    scores = result.compute().scores
    assert scores[~scores.isnan()].unique().tolist() == [0.9]


def test_curves_of_two_classes() -> None:
    """Class 0: a true positive of .9. Class 1: a false positive of .8, then a true one of .7."""
    rows = prediction([BOX, FAR, BOX], [0.9, 0.8, 0.7], labels=torch.tensor([0, 1, 1]))
    metric = DetectionAP("voc2012", num_classes=2)
    result: Any = metric.update([rows], [target([BOX, BOX], labels=torch.tensor([0, 1]))]).compute()
    first, second = result.curves[0]
    assert first.scores.tolist() == [0.9]
    assert second.scores.tolist() == [0.8, 0.7]
    assert second.precision.tolist() == [0.0, 0.5]
    assert result.average_precision.tolist() == [1.0, 0.5]


def test_false_positives_outside_the_images_of_a_subset() -> None:
    """KAIST's subsets are places among the images: the false positive is in the second image."""
    rules = load_protocol("miss_rate/kaist", MissRateProtocol)
    day, night = rules.subsets[1:3]
    subsets = (day._replace(images=((0, 1),)), night._replace(images=((1, 2),)))
    rules = dataclasses.replace(rules, num_images=2, subsets=subsets)
    person = [10.0, 10.0, 40.0, 100.0]
    metric = LogAverageMissRate(rules)
    metric.update([prediction([person])] * 2, [target([person]), target([])])
    result = metric.compute()
    assert result.num_positives.tolist() == [1, 0]
    assert result.true_positives.tolist() == [1, 0]
    assert result.false_positives.tolist() == [0, 1]
    assert result.num_images_of_subset.tolist() == [1, 1]


# Boxes and masks ------------------------------------------------------------------------------


def test_boxes_by_their_center() -> None:
    """Center (10, 10), 4 wide, 6 high: from (8, 7) to (12, 13)."""
    box = torch.tensor([[10.0, 10.0, 4.0, 6.0]])
    table = box_table(box, "cxcywh", inclusive=False)
    assert table.flatten().tolist() == [8, 7, 12, 13, 24]


def test_masks_without_boxes_have_no_scale() -> None:
    """25 objects: enough to ask whether their boxes are fractions, if they had any."""
    masks = torch.ones(25, 4, 40, dtype=torch.bool)
    rows = {"masks": masks, "labels": torch.zeros(25, dtype=torch.int64)}
    metric = DetectionAP("coco2017_segm", num_classes=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metric.update([rows | {"scores": torch.ones(25)}], [rows])
    assert metric.compute().headline > 0.99


def test_visible_boxes_of_some_batches() -> None:
    """Rows of a batch without visible boxes get boxes that are not given."""
    zeros = torch.zeros(1)
    given = GroundTruths(
        (1,), torch.zeros(1, 4), zeros.long(), zeros.byte(), zeros, "xyxy", torch.ones(1, 4)
    )
    joined = GroundTruths.cat([given, dataclasses.replace(given, visible_boxes=None)])
    assert joined.visible_boxes is not None
    assert joined.visible_boxes[0].tolist() == [1, 1, 1, 1]
    assert joined.visible_boxes[1:].isnan().tolist() == [[True] * 4]


# Label maps -----------------------------------------------------------------------------------


@pytest.mark.parametrize("label", [127, 128, 255])
def test_labels_around_half_a_byte(label: int) -> None:
    """A prediction of 128 needs the bins of whole bytes."""
    rows = LabelTable.of({0: 0, 1: 1}, 2)
    columns = LabelTable.of({0: 0, label: 1}, 2)
    truth = torch.tensor([[[0, 1, 1]]], dtype=torch.uint8)
    predicted = torch.tensor([[[label, label, 0]]], dtype=torch.uint8)
    counts = count_pairs(truth, predicted, rows, columns)
    assert counts[0, :2, :2].tolist() == [[0, 1], [1, 1]]


def test_a_wrong_label_in_the_second_map_is_named() -> None:
    maps = [torch.tensor([[0, 1]]), torch.tensor([[0], [9]])]
    with pytest.raises(InputError, match=r"target 1, pixel \(row 1, column 0\).*got 9"):
        MeanIoU("voc2012", num_classes=3).update([maps[0], maps[1].clamp(max=1)], maps)


# Repeated images ------------------------------------------------------------------------------


def warning_of(metric: Any) -> tuple[str, Any]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = metric.compute()
    (text,) = [str(w.message) for w in caught if issubclass(w.category, VocMetricsWarning)]
    return text, result


def test_how_many_copies_differ_is_said() -> None:
    """Three copies beside their first image, of which two have another prediction."""
    detection = DetectionAP("voc2007", num_classes=1)
    for image, score in (("a", 0.9), ("a", 0.8), ("a", 0.9), ("b", 0.5), ("b", 0.4)):
        detection.update([prediction(scores=[score])], [target(image_id=image)])
    assert "3 repeated images were dropped" in warning_of(detection)[0]
    assert "of 2 of them differed" in warning_of(detection)[0]
    moved = DetectionAP("voc2007", num_classes=1)  # of boxes only the outcome is kept
    for box in (BOX, FAR, BOX):
        moved.update([prediction([box])], [target(image_id="a")])
    assert "of 1 of them differed" in warning_of(moved)[0]
    classes = ClassificationAP("voc2007", num_classes=2)
    for image, score in (("a", 0.9), ("a", 0.8), ("a", 0.9), ("b", 0.5), ("b", 0.4)):
        table = torch.tensor([[score, math.nan]]), torch.tensor([[1, -1]])
        classes.update(*table, image_ids=[image])
    assert "of 2 of them differed" in warning_of(classes)[0]
    maps = MeanIoU("voc2012", num_classes=3)
    truth = torch.tensor([[[0, 1]]])
    for image, label in (("a", 1), ("a", 2), ("a", 1), ("b", 1), ("b", 0)):
        maps.update(torch.tensor([[[0, label]]]), truth, image_ids=[image])
    assert "of 2 of them differed" in warning_of(maps)[0]


def test_the_first_copy_over_all_states_is_kept(tmp_path: Path) -> None:
    """By place in the file, then by file: image "x" is first in the second file."""
    first, second = (DetectionAP("voc2012", num_classes=1) for _ in range(2))
    first.update([prediction([FAR]), prediction([FAR])], [target(image_id=i) for i in ("a", "x")])
    second.update([prediction()], [target(image_id="x")])
    paths = [tmp_path / "first.npz", tmp_path / "second.npz"]
    for metric, path in zip((first, second), paths, strict=True):
        metric.save_state(path)
    _, result = warning_of(DetectionAP.from_states(*paths))
    assert result.true_positives.tolist() == [[1]]


# Inputs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocols", [["voc2007", "coco2017"], ["coco2017", "voc2007"]])
def test_inverted_boxes_beside_a_protocol_that_refuses_them(protocols: list[str]) -> None:
    inverted = [40.0, 40.0, 10.0, 10.0]
    with pytest.raises(InputError, match="inverted"):
        DetectionAP(protocols, num_classes=1).update([prediction([inverted])], [target()])
    DetectionAP("voc2007", num_classes=1).update([prediction([inverted])], [target()])


def test_masks_of_both_sides_fill_a_chunk() -> None:
    """A mask of 64 pixels is one word of 8 bytes."""
    metric = DetectionAP("coco2017_segm", num_classes=1)
    mask = torch.ones(1, 8, 8, dtype=torch.bool)
    one = {"labels": [0], "masks": mask}
    metric.update([one | {"scores": [0.5]}], [one])
    once = metric._accumulated.fill.mask_bytes
    metric.update([one | {"scores": [0.5]}], [{"labels": [], "masks": mask[:0]}])
    assert metric._accumulated.fill.mask_bytes - once == once // 2 > 0


def test_counts_of_parts_are_not_negative() -> None:
    """[3, -1] adds up to the two parts that there are."""
    rows = {
        "part_boxes": [[1, 1, 9, 9], [1, 1, 9, 9]],
        "part_labels": [0, 1],
        "part_counts": [3, -1],
        "object_index": [1, 2],
    }
    fine = rows | {"part_counts": [1, 1]}
    for layout, person in ((rows, fine), (fine, rows)):
        with pytest.raises(InputError, match="part_counts"):
            LayoutAP("voc2012").update([layout | {"scores": [0.5, 0.5]}], [person])


# Files ----------------------------------------------------------------------------------------


def test_later_layouts_of_a_person_are_skipped_where_only_the_first_counts() -> None:
    rules = dataclasses.replace(load_protocol("layout/voc2008"), attempts="first_only")
    parts = {
        "part_boxes": [[30, 1, 60, 40], [1, 80, 20, 99]],
        "part_labels": [0, 1],
        "part_counts": [2],
    }
    person = parts | {"object_index": [1]}
    layouts = {key: values * 3 for key, values in parts.items()}
    layouts |= {"object_index": [1, 1, 1], "scores": [0.9, 0.8, 0.7]}
    result = LayoutAP(rules).update([layouts], [person]).compute()
    # The first layout is right. The other two are neither true nor false positives.
    assert result.true_positives.tolist() == [1]
    assert result.false_positives.tolist() == [0]


def test_crowdhuman_ties_fall_by_the_order_of_the_annotations(tmp_path: Path) -> None:
    """``for ID in self.images`` walks the images as the annotations list them: "b" before "a"."""
    box = {
        "tag": "person",
        "fbox": [10, 10, 20, 40],
        "vbox": [10, 10, 20, 40],
        "hbox": [1, 1, 2, 2],
    }
    size = {"height": 100, "width": 100}
    truth, found = tmp_path / "gt.odgt", tmp_path / "dt.odgt"
    truth.write_text("".join(json.dumps({"ID": i, "gtboxes": [box]}) + "\n" for i in "ba"))
    lines = [
        {"ID": "a", "dtboxes": [{"box": [10, 10, 20, 40], "score": 0.5}]} | size,
        {"ID": "b", "dtboxes": [{"box": [60, 10, 20, 40], "score": 0.5}]} | size,
    ]
    found.write_text("".join(json.dumps(line) + "\n" for line in lines))
    there = io.read_crowdhuman_ground_truths(truth, io.read_crowdhuman_sizes(found))
    read = io.read_crowdhuman_detections(found, there)
    order = {
        str(image): int(rows["order"][0])
        for image, rows in zip(there.image_ids, read.predictions, strict=True)
    }
    assert order["b"] < order["a"]


def test_only_persons_of_pedestrian_json_exist(tmp_path: Path) -> None:
    """Category 1 is the person; rows of others are neither objects nor detections."""
    truth, found = tmp_path / "gt.json", tmp_path / "dt.json"
    objects = [
        {"image_id": 1, "category_id": c, "bbox": [10 * c, 10, 20, 60], "height": 60, "id": c}
        for c in (1, 2, 3)
    ]
    truth.write_text(json.dumps({"images": [{"id": 1}], "annotations": objects}))
    rows = [
        {"image_id": 1, "category_id": c, "bbox": [10 * c, 10, 20, 60], "score": 0.5}
        for c in (2, 1, 3)
    ]
    found.write_text(json.dumps(rows))
    there = io.read_pedestrian_json(truth)
    assert there.targets[0]["boxes"].tolist() == [[10, 10, 20, 60]]
    read = io.read_pedestrian_detections(found, there)
    assert read.predictions[0]["boxes"].tolist() == [[10, 10, 20, 60]]


def test_an_angle_of_exactly_half_a_turn(tmp_path: Path) -> None:
    """bbLoad: ``if(v>180), v=v-360; end``: 180 stays, 181 becomes -179."""
    path = tmp_path / "one.txt"
    row = "person 10 10 20 40 0 0 0 0 0 0 {}\n"
    path.write_text("% bbGt version=3\n" + "".join(row.format(angle) for angle in (180, 181, -180)))
    read = read_bb_gt_objects(path, io.Conditions(angle_range=(180.0, 180.0)))
    assert read.ignored.tolist() == [False, True, False]
    read = read_bb_gt_objects(path, io.Conditions(angle_range=(-179.0, 0.0)))
    assert read.ignored.tolist() == [True, False, True]


def test_difficult_objects_stay_ignored_in_coco() -> None:
    one = VocObject(name="cat", box=(1.0, 1.0, 9.0, 9.0), difficult=True)
    other = dataclasses.replace(one, difficult=False)
    written = coco_from_voc(
        [("a", VocAnnotation(image_size=(9, 9), objects=(one, other)))], ["cat"]
    )
    assert [row["ignore"] for row in written["annotations"]] == [1, 0]
    assert [row["difficult"] for row in written["annotations"]] == [1, 0]


# States ---------------------------------------------------------------------------------------


def test_states_of_other_ids_or_order_do_not_merge() -> None:
    def metric(**more: Any) -> DetectionAP[Any]:
        order = more.pop("order", None)
        given = {} if order is None else {"order": torch.tensor(order)}
        made = DetectionAP("voc2007", num_classes=1)
        return made.update([prediction(**given)], [target(**more)])

    with pytest.raises(StateError, match="int in one place and str in another"):
        metric(image_id=1).merge(metric(image_id="a"))
    with pytest.raises(StateError, match="have an image_id and others have none"):
        metric(image_id=1).merge(metric())
    with pytest.raises(StateError, match="have an order and others have none"):
        metric(image_id=1, order=[0]).merge(metric(image_id=2))


def test_infinite_scores_survive_a_state(tmp_path: Path) -> None:
    metric = DetectionAP("voc2007", num_classes=1)
    metric.update([prediction([BOX, FAR], [math.inf, -math.inf])], [target()])
    metric.save_state(tmp_path / "state.npz")
    read = DetectionAP("voc2007", num_classes=1).load_state(tmp_path / "state.npz")
    assert read.compute().curves[0][0].scores.tolist() == [math.inf, -math.inf]
    assert DetectionAP.from_states(tmp_path / "state.npz").compute().headline > 0.99


def test_matches_rise_in_a_state() -> None:
    metric = DetectionAP("voc2007", num_classes=1)
    state = metric.update([prediction([BOX, FAR], [0.9, 0.8])], [target([BOX, FAR])]).state_dict()
    broken = copy.deepcopy(state)
    for rows in (value for value in broken.values() if isinstance(value, list)):
        for one in rows:
            if isinstance(one, dict) and "match_detection" in one:
                for name in ("match_detection", "match_ground_truth", "match_true_positive"):
                    one[name] = one[name].flip(0)
    assert repr(broken) != repr(state)
    with pytest.raises(StateError):
        DetectionAP("voc2007", num_classes=1).load_state_dict(broken)
    DetectionAP("voc2007", num_classes=1).load_state_dict(state)


def test_states_of_equal_names_and_other_rules_are_refused() -> None:
    """The fingerprint is compared, not the name."""
    rules = load_protocol("detection/voc2007")
    other = dataclasses.replace(rules, iou_thresholds=(0.6,))
    state = DetectionAP(rules, num_classes=1).update([prediction()], [target()]).state_dict()
    with pytest.raises(StateError, match="different protocols"):
        DetectionAP(other, num_classes=1).load_state_dict(state)
    with pytest.raises(StateError, match="different protocols"):
        DetectionAP(other, num_classes=1).merge(DetectionAP(rules, num_classes=1))


def test_a_forged_fingerprint_is_found() -> None:
    """The rules in the file must be those whose fingerprint the state has."""
    rules = load_protocol("detection/voc2007")
    saved = [{"task": rules.task, "name": rules.name, "rules": files._as_json(rules.rules)}]
    assert files.protocols_of({"fingerprints": [rules.fingerprint]}, saved, "x")
    with pytest.raises(StateError, match="another fingerprint"):
        files.protocols_of({"fingerprints": ["0" * 64]}, saved, "x")


def test_the_digest_covers_type_and_shape() -> None:
    """Equal bytes under another type or shape are another file."""
    array = np.arange(6, dtype=np.int64)
    digests = {
        str(blocks.described(one, "a")["sha256"])
        for one in (array, array.view(np.float64), array.reshape(2, 3), array.reshape(3, 2))
    }
    assert len(digests) == 4
    assert blocks.described(array, "a")["sha256"] != blocks.described(array, "b")["sha256"]
