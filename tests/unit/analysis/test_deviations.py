"""Each deviation does what its phrase says, on two images by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from torch_vocmetrics import DetectionAP, load_protocol
from torch_vocmetrics.analysis.deviations import Deviation, Images, deviations

KNOWN = {one.name: one for one in deviations()}


def images(box_format: str = "xyxy", **changes: Any) -> Images:
    tensor = torch.tensor
    prediction = {
        "boxes": tensor([[-1.5, 2.25, 10.75, 20.125], [5.0, 5, 300, 500]], dtype=torch.float64),
        "scores": tensor([0.123456, 0.04], dtype=torch.float64),
        "labels": tensor([0, 1]),
        "order": tensor([1, 0]),
    }
    target = {
        "boxes": tensor([[0.0, 2, 10, 20], [0, 0, 50, 100]], dtype=torch.float64),
        "labels": tensor([0, 1]),
        "difficult": tensor([False, True]),
        "iscrowd": tensor([True, False]),
        "area": tensor([7.0, 9.0], dtype=torch.float64),
        "image_size": (200, 100),
        "image_id": 5,
    }
    empty = {k: v[:0] if isinstance(v, torch.Tensor) else v for k, v in target.items()}
    nothing = {k: v[:0] for k, v in prediction.items()}
    more = ({**empty, "image_id": 6}, {**target, "image_id": 7})
    return Images((prediction, prediction, nothing), (target | changes, *more), box_format)


def after(name: str, given: Images | None = None) -> Images:
    change = KNOWN[name].images
    assert change is not None
    changed = change(images() if given is None else given)
    assert changed is not None
    return changed


def test_every_deviation_has_a_name_and_one_function() -> None:
    assert len(KNOWN) == len(deviations())
    for one in deviations():
        assert sum(part is not None for part in (one.rules, one.images, one.mean)) == 1
        assert one.family


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("scores rounded to 1 decimals", 0.1),
        ("scores rounded to 4 decimals", 0.1235),
        ("scores in half precision", float(np.float16(0.123456))),
    ],
)
def test_scores(name: str, expected: float) -> None:
    assert after(name).predictions[0]["scores"][0].item() == expected
    assert images().predictions[0]["scores"][0].item() == 0.123456


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("boxes rounded to whole pixels", [-2.0, 2, 11, 20]),
        ("boxes cut to whole pixels", [-1.0, 2, 10, 20]),
        ("boxes rounded to 1 decimals", [-1.5, 2.2, 10.8, 20.1]),
        ("predicted boxes moved by +1 pixel in x and y", [-0.5, 3.25, 11.75, 21.125]),
        ("right and lower edges of predicted boxes moved by -1 pixel", [-1.5, 2.25, 9.75, 19.125]),
        ("predicted boxes clipped to the image", [0.0, 2.25, 10.75, 20.125]),
        ("boxes of both sides divided by the image size", [-0.015, 0.01125, 0.1075, 0.100625]),
    ],
)
def test_boxes(name: str, expected: list[float]) -> None:
    assert after(name).predictions[0]["boxes"][0].tolist() == pytest.approx(expected, abs=1e-12)


def test_boxes_of_other_formats() -> None:
    wide = images("xywh")
    moved = after("predicted boxes moved by -1 pixel in x and y", wide)
    assert moved.predictions[0]["boxes"][0].tolist() == [-2.5, 1.25, 10.75, 20.125]
    longer = after("right and lower edges of predicted boxes moved by +1 pixel", wide)
    assert longer.predictions[0]["boxes"][0].tolist() == [-1.5, 2.25, 11.75, 21.125]
    clipped = after("predicted boxes clipped to the image", wide)
    assert clipped.predictions[0]["boxes"].tolist() == [[0, 2.25, 9.25, 20.125], [5, 5, 95, 195]]
    centred = images("cxcywh")
    for name in (
        "predicted boxes clipped to the image",
        "right and lower edges of predicted boxes moved by +1 pixel",
    ):
        change = KNOWN[name].images
        assert change is not None
        assert change(centred) is None


def test_both_sides_of_normalised_and_rounded_boxes() -> None:
    scaled = after("boxes of both sides divided by the image size")
    assert scaled.targets[0]["boxes"][0].tolist() == [0, 0.01, 0.1, 0.1]
    assert not {"area", "image_size"} & set(scaled.targets[0])
    moved = after("predicted boxes moved by +1 pixel in x and y")
    assert torch.equal(moved.targets[0]["boxes"], images().targets[0]["boxes"])


def test_rows_and_images_left_out() -> None:
    few = after("detections with scores below 0.05 left out")
    assert [len(one["labels"]) for one in few.predictions] == [1, 1, 0]
    assert few.predictions[0]["order"].tolist() == [1]
    assert after("difficult objects left out").targets[0]["labels"].tolist() == [0]
    assert after("crowds left out").targets[0]["labels"].tolist() == [1]
    assert [one["image_id"] for one in after("images without objects left out").targets] == [5, 7]
    kept = after("images without detections left out")
    assert [one["image_id"] for one in kept.targets] == [5, 6]
    repeated = after("first images repeated by a sampler of 2 processes")
    assert len(repeated.targets) == len(repeated.predictions) == 4
    assert all("image_id" not in one for one in repeated.targets)
    assert len(after("first images repeated by a sampler of 8 processes").targets) == 8


def test_other_columns() -> None:
    assert "area" not in after("areas of objects taken from their boxes").targets[0]
    assert "order" not in after("ties of score by image, not by line of a file").predictions[0]
    one = after("all classes as one")
    assert one.predictions[0]["labels"].tolist() == one.targets[0]["labels"].tolist() == [0, 0]


def test_what_does_not_apply() -> None:
    bare = {"boxes": torch.zeros(1, 4), "labels": torch.zeros(1, dtype=torch.int64)}
    plain = Images(({**bare, "scores": torch.ones(1)},), (bare,), "xyxy")
    for name in (
        "difficult objects left out", "crowds left out", "areas of objects taken from their boxes",
        "images without objects left out", "all classes as one",
        "boxes of both sides divided by the image size", "predicted boxes clipped to the image",
        "ties of score by image, not by line of a file",
    ):  # fmt: skip
        change = KNOWN[name].images
        assert change is not None
        assert change(plain) is None, name


def changed(name: str, protocol: str) -> Any:
    rules = KNOWN[name].rules
    assert rules is not None
    return rules(load_protocol(protocol))


def test_rules() -> None:
    assert changed("overlaps must exceed the threshold (> for >=)", "voc2007").comparison == ">"
    assert changed("difficult objects count", "voc2007").ignored_flags == ()
    assert changed("crowds count", "coco2017").overlap_of_detection_area_flags == ()
    assert changed("at most 10 detections of an image and class", "voc2007").max_detections == (10,)
    assert changed("any number of detections", "coco2017").max_detections == ()
    thresholds = changed("IoU thresholds in float32", "coco2017").iou_thresholds
    assert thresholds == tuple(np.linspace(0.5, 0.95, 10).astype(np.float32).tolist())
    assert len(changed("IoU thresholds 0.50:0.95", "voc2012").iou_thresholds) == 10
    assert changed("average over 11 recall levels", "coco2017").precision_epsilon == 0
    assert changed("average over 101 recall levels", "voc2012").recall_levels[-1] == 1


def test_means() -> None:
    """Class a has one object, found at rank 2; class b has three, one found; class c none."""
    far, near = [200.0, 200, 209, 209], [0.0, 0, 9, 9]
    rest = [[30.0, 0, 39, 9], [60.0, 0, 69, 9]]
    metric = DetectionAP("voc2012", class_names=["a", "b", "c"])
    metric.update(
        [{"boxes": [far, near, near], "scores": [0.9, 0.8, 0.7], "labels": [0, 0, 1]}],
        [{"boxes": [near, near, *rest], "labels": [0, 1, 1, 1]}],
    )
    result = metric.compute()

    def mean(name: str) -> float:
        one: Deviation = KNOWN[name]
        assert one.mean is not None
        return one.mean(result)

    assert result.headline == pytest.approx((1 / 2 + 1 / 3) / 2)
    assert mean("missing classes count as 0 in the mean") == pytest.approx((1 / 2 + 1 / 3) / 3)
    assert mean("missing classes count as 1 in the mean") == pytest.approx((1 / 2 + 4 / 3) / 3)
    assert mean("mean weighted by the objects of each class") == pytest.approx((1 / 2 + 1) / 4)
    assert mean("precision not interpolated") == pytest.approx((1 / 2 + 1 / 3) / 2)
    assert not math.isnan(mean("precision not interpolated"))
