"""Real masks and label maps: published numbers, by the command that a user would type."""

from __future__ import annotations

import csv
import json
import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.support import BITS_OF_A_MEAN, same, shared_data

from torch_vocmetrics import MeanIoU, io, load_dataset, reference
from torch_vocmetrics.cli import main

STATS = ("AP", "AP50", "AP75", "APs", "APm", "APl", "AR1", "AR10", "AR100", "ARs", "ARm", "ARl")
VOC_CLASSES = load_dataset("voc2007").class_names


def evaluate(out: Path, protocol: str, truth: Path, found: Any, *more: str) -> Any:
    argv = ["evaluate", protocol, "--ground-truth", str(truth), "--detections", str(found)]
    assert main([*argv, "--json", str(out), "--quiet", *more]) == 0
    return json.loads(out.read_text())


def read_json(*parts: str) -> Any:
    return json.loads(shared_data(*parts).read_text())


def unzip(archive: Path, folder: Path) -> None:
    with zipfile.ZipFile(archive) as opened:
        opened.extractall(folder)


def check_pycocotools(got: dict[str, Any], expected: dict[str, Any]) -> None:
    assert same([got["summary"][key] for key in STATS], expected["stats"], BITS_OF_A_MEAN)
    by_id = sorted(expected["per_category_AP"], key=lambda key: int(key.rsplit("#", 1)[1]))
    wanted = [expected["per_category_AP"][key] for key in by_id]
    assert [entry["average_precision"] for entry in got["classes"]] == wanted


# Instances ----------------------------------------------------------------------------------------


def test_official_fake_masks(tmp_path: Path) -> None:
    folder = shared_data("coco_val2014_fake100")
    truth = folder / "instances_val2014_100.json"
    found = folder / "instances_val2014_fakesegm100_results.json"
    got = evaluate(tmp_path / "out.json", "detection/coco2017_segm", truth, found)
    expected = read_json("coco_val2014_fake100", "expected.json")
    check_pycocotools(got, expected["pycocotools"]["segm"])
    printed = [round(got["summary"][key], 3) for key in STATS]
    assert printed == expected["published"]["segm"]


@pytest.mark.parametrize(
    ("name", "gt", "dt"),
    [
        ("objects51_a", "objects51_gt_a.json", "objects51_dt_a.json"),
        ("pennfudan", "pennfudan_gt.json", "pennfudan_dt.json"),
    ],
)
@pytest.mark.parametrize(
    ("protocol", "key"),
    [("coco2017_segm", "removed"), ("coco2017_segm_box_area", "kept")],
)
def test_detectron2_masks(
    name: str, gt: str, dt: str, protocol: str, key: str, tmp_path: Path
) -> None:
    folder = shared_data("coco_detectron2_instances")
    got = evaluate(tmp_path / "out.json", f"detection/{protocol}", folder / gt, folder / dt)
    expected = read_json("coco_detectron2_instances", "expected.json")[name]
    check_pycocotools(got, expected["pycocotools"][f"segm_bbox_field_{key}"])
    if key == "removed":
        printed = expected["published_AP_AP50_AP75_APs_APm_APl_percent"]["segm"]
        assert same([100 * got["summary"][stat] for stat in STATS[:6]], printed, 0.0005)


def test_detectron2_boxes_and_masks_in_one_pass() -> None:
    from torch_vocmetrics import DetectionAP  # noqa: PLC0415

    folder = shared_data("coco_detectron2_instances")
    truth = io.read_coco_ground_truths(folder / "pennfudan_gt.json", masks=True)
    found = io.read_coco_detections(folder / "pennfudan_dt.json", truth, masks=True)
    metric = DetectionAP(
        ["coco2017", "coco2017_segm"],
        class_names=truth.class_names,
        label_ids=truth.label_ids,
        box_format=truth.box_format,
    )
    results = metric.update(found.predictions, truth.targets).compute()
    expected = read_json("coco_detectron2_instances", "expected.json")["pennfudan"]["pycocotools"]
    for protocol, key in (("coco2017", "bbox"), ("coco2017_segm", "segm_bbox_field_removed")):
        shown = results[protocol].to_dict()
        numbers = [shown[stat] for stat in STATS]
        assert same(numbers, expected[key]["stats"], BITS_OF_A_MEAN), protocol


# Label maps ---------------------------------------------------------------------------------------


def published_matrix(path: Path) -> tuple[tuple[str, ...], np.ndarray]:
    rows = list(csv.reader(path.read_text().splitlines()))
    return tuple(rows[0][1:]), np.array([list(map(int, row[1:])) for row in rows[1:]])


def test_91_pairs(tmp_path: Path) -> None:
    folder = shared_data("segmentation_pairs")
    unzip(folder / "blackrot91.zip", tmp_path)
    names, matrix = published_matrix(folder / "blackrot91_published_confusion.csv")
    got = evaluate(
        tmp_path / "out.json",
        "segmentation/voc2012",
        tmp_path / "gt",
        tmp_path / "pred",
        "--classes",
        ",".join(names),
    )
    assert got["num_images"] == 91
    assert got["confusion_matrix"] == matrix.tolist()
    expected = read_json("segmentation_pairs", "expected.json")["blackrot91"]
    assert same(got["headline"], expected["miou"] / 100, 1e-15)
    assert same([one["iou"] for one in got["classes"]], np.array(expected["iou"]) / 100, 1e-15)
    assert round(got["headline"], 7) == 0.9098353


def metric_of_matrix(names: tuple[str, ...], matrix: np.ndarray) -> MeanIoU:
    """A metric that has seen one image with these counts."""
    K = len(names)
    counts = np.concatenate([matrix, np.zeros((K, 1), dtype=np.int64)], axis=1).reshape(-1)
    state = MeanIoU("voc2012", class_names=names).state_dict()
    cell = torch.from_numpy(np.flatnonzero(counts).astype(np.int32))
    state["counts"] = {
        "rows": torch.tensor([len(cell)], dtype=torch.int32),
        "cell": cell,
        "count": torch.from_numpy(counts[counts > 0]),
    }
    state |= {"num_images": 1, "updated": True}
    return MeanIoU("voc2012", class_names=names).load_state_dict(state)


@pytest.mark.parametrize(
    "path", ["pspnet_mobilenetv2", "deeplabv3plus_mobilenetv2", "deeplabv3plus_xception"]
)
def test_published_confusion_matrices(path: str) -> None:
    folder = shared_data("segmentation_pairs")
    names, matrix = published_matrix(folder / f"voc2012_{path}_published_confusion.csv")
    assert len(names) == 21
    result = metric_of_matrix(names, matrix).compute()
    expected = read_json("segmentation_pairs", "expected.json")
    wanted = expected[f"voc2012_{path}_from_published_confusion"]
    assert np.array_equal(result.confusion_matrix.numpy(), matrix)
    # The values there are percentages that another program rounded once more.
    assert same(result.headline, wanted["miou"] / 100, 1e-14)
    assert same(result.iou, np.array(wanted["iou"]) / 100, 1e-14)
    assert same(result.pixel_accuracy, wanted["pixel_accuracy"] / 100, 1e-14)
    if path == "pspnet_mobilenetv2":
        assert round(result.headline, 6) == 0.795742


def test_voc2012_predictions(tmp_path: Path) -> None:
    """Real predictions for 34 images of VOC2012: recomputed matrices, and plain loops."""
    expected = read_json("segmentation_pairs", "expected.json")
    unzip(shared_data("segmentation_pairs") / "voc2012_predictions.zip", tmp_path)
    unzip(shared_data("voc_segmentation") / "VOC2012_Segmentation_val.zip", tmp_path)
    truth = tmp_path / "VOC2012" / "SegmentationClass"
    for folder in (path for path in tmp_path.iterdir() if path.name != "VOC2012"):
        paths = sorted(folder.glob("*.png"))
        key = next(k for k in expected if folder.name in k and "recomputed" in k)
        found = [io.read_label_map(path) for path in paths]
        true = [io.read_label_map(truth / path.name) for path in paths]
        for protocol in ("voc2012", "voc2012_present_classes"):
            fast = MeanIoU(protocol).update(found, true).compute()
            plain = reference.evaluate_segmentation(protocol, found, true)
            assert torch.equal(fast.confusion_matrix, plain.confusion_matrix)
            assert fast.confusion_matrix.tolist() == expected[key]["confusion"]
            wanted = [math.nan if v is None else v / 100 for v in expected[key]["iou"]]
            assert same(fast.iou, wanted, 1e-14)
            assert same(fast.iou, plain.iou)
            assert same(fast.headline, plain.headline)


@pytest.fixture(scope="module")
def painted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """VOC2007's segmentation test images, painted from the boxes of a detector."""
    folder = tmp_path_factory.mktemp("painted")
    data = shared_data()
    unzip(data / "voc_segmentation" / "VOC2007_Segmentation.zip", folder)
    unzip(data / "voc_annotations" / "VOC2007_ImageSets.zip", folder)
    with zipfile.ZipFile(data / "voc2007_test_detections" / "yolov2_htt1084_260ep.zip") as opened:
        opened.extractall(folder)
    listed = io.read_image_set(folder / "VOC2007/ImageSets/Segmentation/test.txt")
    kept = folder / "results"
    kept.mkdir()
    for path in folder.glob("*/comp4_det_test_*.txt"):  # only rows of the segmentation images
        rows = [r for r in path.read_text().splitlines(keepends=True) if r.split()[0] in listed]
        (kept / path.name).write_text("".join(rows))
    argv = ["paint", "--images", str(folder / "VOC2007"), "--output", str(folder / "out")]
    argv += ["--detections", str(kept / "comp4_det_test_{class}.txt"), "--confidence", "0.3"]
    assert main([*argv, "--quiet"]) == 0
    return folder


def test_painted_class_maps(painted: Path, tmp_path: Path) -> None:
    kit = painted / "VOC2007"
    pairs = io.pair_label_images(kit, painted / "out" / "SegmentationClass", "test")
    images = list(io.read_label_pairs(pairs))
    assert len(images) == 210
    for protocol in ("voc2007", "voc2012"):
        found = painted / "out" / "SegmentationClass"
        got = evaluate(tmp_path / "out.json", f"segmentation/{protocol}", kit, found)
        plain = reference.evaluate_segmentation(
            protocol, [one[1] for one in images], [one[2] for one in images]
        )
        assert got["confusion_matrix"] == plain.confusion_matrix.tolist()
        assert got["headline"] == plain.headline
        assert 0.3 < plain.headline < 0.9
        values = plain.to_dict()
        assert got["summary"] == {k: None if math.isnan(v) else v for k, v in values.items()}
