"""Boxes that are fractions of the image are noticed, soon and once."""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any

import pytest
import torch
from helpers.fake_cuda import fake_cuda

from torch_vocmetrics import DetectionAP, InputError, LayoutAP, VocMetricsWarning
from torch_vocmetrics.inputs import box_scale
from torch_vocmetrics.inputs.box_scale import ENOUGH_BOXES, BoxScale


def images(count: int, largest: float, **more: Any) -> tuple[list[Any], list[Any]]:
    """``count`` images of one box that reaches up to ``largest``."""
    box = torch.tensor([[0.1, 0.2, 0.5, 1.0]]) * largest
    rows = {"boxes": box, "labels": torch.tensor([0])}
    return [rows | {"scores": torch.tensor([0.5])}] * count, [rows | more] * count


def new(protocol: str = "voc2007") -> Any:
    return DetectionAP(protocol, num_classes=1)


def said(metric: Any, *batch: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        metric.update(*batch)
    return [str(one.message) for one in caught]


@pytest.mark.parametrize("protocol", ["voc2007", "coco2017"])
def test_fractions_are_warned_of_once_a_side(protocol: str) -> None:
    metric = new(protocol)
    assert not said(metric, *images(ENOUGH_BOXES - 1, 1.5))
    sentences = said(metric, *images(1, 1.0))
    assert [one.split(" lie ")[0] for one in sentences] == [
        "all 20 boxes of the predictions so far",
        "all 20 boxes of the targets so far",
    ]
    assert all("multiply x by the width and y by the height" in one for one in sentences)
    assert not said(metric, *images(40, 1.0))
    assert not said(metric.reset(), *images(40, 1.0))


def test_one_side_alone_is_named() -> None:
    found, true = images(ENOUGH_BOXES, 1.0)[0], images(ENOUGH_BOXES, 100.0)[1]
    (sentence,) = said(new(), found, true)
    assert "predictions" in sentence


def test_pixels_are_known_from_a_single_box_and_never_checked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    below = BoxScale("targets").after(torch.tensor([[-0.1, 0.0, 1.0, 1.0]]), None)
    assert below.known
    metric = new()
    assert not said(metric, *images(1, 1.6))
    monkeypatch.setattr(box_scale, "on_host", lambda boxes: 1 / 0)
    assert not said(metric, *images(40, 1.0))
    assert not said(metric.reset(), *images(40, 1.0))


def test_sizes_of_images_make_it_an_error_that_loses_nothing() -> None:
    metric = new().update(*images(5, 1.0, image_size=(480, 640)))
    before = metric.state_dict()["num_images"]
    with pytest.warns(VocMetricsWarning, match="predictions"):  # noqa: SIM117
        with pytest.raises(InputError, match=r"targets, key 'boxes': must be pixels.*width"):
            metric.update(*images(ENOUGH_BOXES, 1.0, image_size=torch.tensor([480, 640])))
    assert metric.state_dict()["num_images"] == before
    tiny = images(ENOUGH_BOXES, 1.0, image_size=(2, 2))
    with pytest.warns(VocMetricsWarning, match="look like fractions"):
        new().update(*tiny)
    with pytest.warns(VocMetricsWarning, match="look like fractions"):
        new().update(*(tiny[0], [*tiny[1][1:], tiny[1][0] | {"image_size": (480, 640)}]))


def test_masks_without_boxes_and_layouts() -> None:
    masks = torch.ones(1, 8, 8, dtype=torch.bool)
    rows = {"masks": masks, "labels": torch.tensor([0])}
    metric = DetectionAP("coco2017_segm", num_classes=1)
    assert not said(metric, [rows | {"scores": [0.5]}] * 30, [rows] * 30)
    part = {"part_boxes": [[0.1, 0.2, 0.5, 0.5]] * 3, "part_labels": [0, 1, 2], "part_counts": [3]}
    person = part | {"object_index": [1]}
    sentences = said(LayoutAP("voc2012"), [person | {"scores": [0.5]}] * 7, [person] * 7)
    assert len(sentences) == 2


def on_no_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CPU that passes for a device that must not be waited for."""
    monkeypatch.setattr(box_scale, "on_host", lambda boxes: False)


def test_boxes_on_a_device_are_told_by_compute(monkeypatch: pytest.MonkeyPatch) -> None:
    on_no_host(monkeypatch)
    metric = new()
    assert not said(metric, *images(ENOUGH_BOXES, 1.0))
    pickle.loads(pickle.dumps(copy.deepcopy(metric)))
    with pytest.warns(VocMetricsWarning, match="boxes of the (predictions|targets)") as caught:
        metric.compute()
    assert len(caught) == 2
    assert metric.compute().num_images == ENOUGH_BOXES
    pixels = new()
    assert not said(pixels, *images(1, 1.0))
    assert not said(pixels, *images(ENOUGH_BOXES, 3.0))
    assert pixels.compute().num_images == 1 + ENOUGH_BOXES


def test_sizes_of_images_on_a_device_raise_until_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    metric = new()
    monkeypatch.setattr(box_scale, "on_host", lambda boxes: boxes.dim() < 2)
    metric.update(*images(ENOUGH_BOXES, 1.0, image_size=(480, 640)))
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(InputError, match="must be pixels"):
                metric.compute()


def test_the_check_does_not_wait_for_a_device() -> None:
    with fake_cuda():
        scale = BoxScale("targets")
        for _ in range(4):
            scale = scale.after(torch.zeros(9, 4, device="cuda"), [(480, 640)])
        assert len(scale.unread) == 3  # enough were seen
        sizes = torch.zeros((2, 2), device="cuda")
        assert not BoxScale("targets").after(torch.zeros(9, 4, device="cuda"), sizes).large_images
