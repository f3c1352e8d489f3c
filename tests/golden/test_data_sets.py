"""Real detectors on real images: published numbers, by the command that a user would type."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.support import BITS_OF_A_MEAN, same, shared_data

from torch_vocmetrics import DetectionAP, io, load_dataset
from torch_vocmetrics.cli import main

VOC_CLASSES = load_dataset("voc2007").class_names
STATS = ["AP", "AP50", "AP75", "APs", "APm", "APl"]
STATS += ["AR1", "AR10", "AR100", "ARs", "ARm", "ARl"]


def evaluate(out: Path, protocol: str, ground_truth: Path, detections: Any, *more: str) -> Any:
    """The JSON that ``vocmetrics evaluate`` writes."""
    argv = ["evaluate", f"detection/{protocol}", "--ground-truth", str(ground_truth)]
    argv += ["--detections", str(detections), "--json", str(out), "--quiet", *more]
    assert main(argv) == 0
    return json.loads(out.read_text())


def by_class(report: dict[str, Any], key: str) -> dict[str, Any]:
    return {entry["class_name"]: entry[key] for entry in report["classes"]}


def unzip(archive: Path, folder: Path, image_ids: set[str] | None = None) -> None:
    """Extract an archive, or the members named after some images."""
    with zipfile.ZipFile(archive) as opened:
        names = opened.namelist()
        chosen = [name for name in names if image_ids is None or Path(name).stem in image_ids]
        opened.extractall(folder, chosen)


def save_json(path: Path, content: object) -> Path:
    path.write_text(json.dumps(content))
    return path


# VOC2007 test -------------------------------------------------------------------------------------


def read_json(*parts: str) -> Any:
    return json.loads(shared_data(*parts).read_text())


@pytest.fixture(scope="session")
def voc2007(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The kit's folder with the test set, and each detector's folder of results beside it."""
    folder = tmp_path_factory.mktemp("voc2007")
    annotations = shared_data("voc_annotations")
    unzip(annotations / "VOC2007_test_Annotations.zip", folder)
    unzip(annotations / "VOC2007_ImageSets.zip", folder, {"test"})
    for archive in shared_data("voc2007_test_detections").glob("*.zip"):
        unzip(archive, folder)
    return folder / "VOC2007"


def results_of(detector: str, kit: Path) -> Path:
    return kit.parent / detector / "comp4_det_test_{class}.txt"


def test_published_average_precision(voc2007: Path, tmp_path: Path) -> None:
    published = read_json("voc2007_test_detections", "published.json")
    for detector, numbers in published.items():
        pattern = results_of(detector, voc2007)
        got = evaluate(tmp_path / "out.json", "voc2007", voc2007, pattern)
        assert by_class(got, "average_precision") == numbers["published_ap_voc07"]
        # The published mean is NumPy's, whose order of summing is not part of any protocol.
        assert got["mean_average_precision"] == numbers["published_map_voc07"]


def test_published_curves(voc2007: Path) -> None:
    """Recall and precision after each group of equal scores: inside one, the published order is
    that of an unstable sort."""
    truth = io.read_voc_ground_truths(voc2007, "test", class_names=VOC_CLASSES)
    metric = DetectionAP("voc2007", class_names=VOC_CLASSES)
    for path in shared_data("voc2007_test_detections").glob("*_published_pr.npz"):
        pattern = str(results_of(path.stem.removesuffix("_published_pr"), voc2007))
        found = io.read_voc_detections(io.find_results(pattern, VOC_CLASSES), truth)
        metric.reset()
        result: Any = metric.update(found.predictions, truth.targets).compute()
        published = np.load(path)
        for name, curve in zip(VOC_CLASSES, result.curves[0], strict=True):
            scores = curve.scores.numpy()
            last = np.append(scores[1:] != scores[:-1], True)
            recall, precision = published[f"{name}_rec"], published[f"{name}_prec"]
            assert len(recall) == len(scores)
            assert np.array_equal(curve.recall.numpy()[last], recall[last]), name
            # The Python port divides by at least one epsilon, which moves no quotient here.
            assert np.array_equal(curve.precision.numpy()[last], precision[last]), name


def ties_decide(curve: Any) -> bool:
    """Whether some equal scores stand for hits and misses, so that their order moves the curve."""
    scores, recall = curve.scores.numpy(), curve.recall.numpy()
    group = np.cumsum(np.append(0, scores[1:] != scores[:-1]))
    hits = np.bincount(group, np.diff(recall, prepend=0.0) > 0)
    return bool(((hits > 0) & (hits < np.bincount(group))).any())


@pytest.mark.parametrize(("protocol", "key"), [("voc2007", "voc07"), ("voc2012", "voc12")])
def test_recomputed_average_precision(
    protocol: str, key: str, voc2007: Path, tmp_path: Path
) -> None:
    """The recomputed values sorted equal scores as NumPy's unstable sort left them: only where
    hits and misses share a score may the two differ, and then by little."""
    recomputed = read_json("voc2007_test_detections", "recomputed.json")
    truth = io.read_voc_ground_truths(voc2007, "test", class_names=VOC_CLASSES)
    for detector, numbers in recomputed.items():
        pattern = results_of(detector, voc2007)
        got = evaluate(tmp_path / "out.json", protocol, voc2007, pattern)
        found = io.read_voc_detections(io.find_results(str(pattern), VOC_CLASSES), truth)
        metric = DetectionAP(protocol, class_names=VOC_CLASSES)
        result: Any = metric.update(found.predictions, truth.targets).compute()
        decided = [ties_decide(curve) for curve in result.curves[0]]
        assert not all(decided)
        # Areas were summed in pairs there, in the order of VOCap.m here.
        tolerances = [5e-5 if tied else 1e-14 if key == "voc12" else 0.0 for tied in decided]
        for entry, tolerance in zip(got["classes"], tolerances, strict=True):
            value = numbers[key][entry["class_name"]]
            assert same(entry["average_precision"], value, tolerance), (detector, entry)
        # A class moves the mean of K by a K-th of what it moves itself; 1e-15 is for its rounding.
        allowed = sum(tolerances) / len(tolerances) + 1e-15
        assert same(got["mean_average_precision"], numbers[f"map_{key}"], allowed)
        assert by_class(got, "num_detections") == numbers["n_det"]
        assert by_class(got, "average_precision") == {
            name: float(value)
            for name, value in zip(VOC_CLASSES, result.average_precision, strict=True)
        }
        assert got["num_images"] == 4952


# VOC2007 + VOC2012 --------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def split(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The split's images of both years in one folder, and one results file per class."""
    folder = tmp_path_factory.mktemp("split")
    source = shared_data("voc0712_split_detections")
    image_ids = (source / "image_ids.txt").read_text().split()
    (folder / "Annotations").mkdir()
    for archive in shared_data("voc_annotations").glob("*_Annotations.zip"):
        unzip(archive, folder / "unzipped", set(image_ids))
    for path in (folder / "unzipped").glob("*/Annotations/*.xml"):
        shutil.move(path, folder / "Annotations" / path.name)
    (folder / "ImageSets" / "Main").mkdir(parents=True)
    (folder / "ImageSets" / "Main" / "split.txt").write_text("\n".join(image_ids))
    save_results_by_class(source / "yolox_detections.zip", folder)
    return folder


def save_results_by_class(archive: Path, folder: Path) -> None:
    """Files of one image, with rows of class, score and box, become files of one class."""
    lines: dict[str, list[str]] = defaultdict(list)
    with zipfile.ZipFile(archive) as opened:
        for name in sorted(opened.namelist()):
            for line in opened.read(name).decode().splitlines():
                class_name, rest = line.split(maxsplit=1)
                lines[class_name].append(f"{Path(name).stem} {rest}")
    for class_name, rows in lines.items():
        (folder / f"yolox_{class_name}.txt").write_text("\n".join(rows))


def test_yolox_on_a_split_of_two_years(split: Path, tmp_path: Path) -> None:
    published = read_json("voc0712_split_detections", "yolox_published.json")
    got = evaluate(
        tmp_path / "out.json", "voc2012", split, split / "yolox_{class}.txt", "--image-set", "split"
    )
    assert got["not_entered"] == []
    printed = {
        name: round(100 * value, 2) for name, value in by_class(got, "average_precision").items()
    }
    assert printed == published["ap"]
    assert round(100 * got["mean_average_precision"], 2) == published["mAP"]
    assert by_class(got, "num_positives") == published["ground_truth"]
    for entry in got["classes"]:
        counts = published["detections"][entry["class_name"]]
        assert entry["num_detections"] == counts["nd"]
        assert entry["true_positives"] == [counts["tp"]]
        # What is no true positive was printed as false: detections of difficult objects, too.
        assert entry["false_positives"][0] <= counts["fp"] == counts["nd"] - counts["tp"]


# COCO ---------------------------------------------------------------------------------------------


def stats(report: dict[str, Any]) -> list[float]:
    return [report["summary"][key] for key in STATS]


def per_category(expected: dict[str, Any]) -> list[Any]:
    """APs by rising category id; the keys read ``name#id``."""
    ids = {key: int(key.rsplit("#", 1)[1]) for key in expected}
    return [expected[key] for key in sorted(expected, key=ids.__getitem__)]


def check_pycocotools(got: dict[str, Any], expected: dict[str, Any]) -> None:
    assert same(stats(got), expected["stats"], BITS_OF_A_MEAN)
    by_id = per_category(expected["per_category_AP"])
    assert [entry["average_precision"] for entry in got["classes"]] == by_id


def test_official_fake_results(tmp_path: Path) -> None:
    folder = shared_data("coco_val2014_fake100")
    got = evaluate(
        tmp_path / "out.json",
        "coco2017",
        folder / "instances_val2014_100.json",
        folder / "instances_val2014_fakebbox100_results.json",
    )
    expected = read_json("coco_val2014_fake100", "expected.json")
    check_pycocotools(got, expected["pycocotools"]["bbox"])
    assert [round(value, 3) for value in stats(got)] == expected["published"]["bbox"]


@pytest.mark.parametrize("name", ["tiny80", "mini79"])
def test_small_detector_on_val2017(name: str, tmp_path: Path) -> None:
    folder = shared_data("coco_val2017_tiny")
    got = evaluate(
        tmp_path / "out.json",
        "coco2017",
        folder / f"coco_{name}_gt.json",
        folder / f"coco_{name}_fastestdet_dt.json",
    )
    check_pycocotools(got, read_json("coco_val2017_tiny", "expected_pycocotools.json")[name])


@pytest.mark.parametrize(
    ("name", "gt", "dt"),
    [
        ("objects51_a", "objects51_gt_a.json", "objects51_dt_a.json"),
        ("pennfudan", "pennfudan_gt.json", "pennfudan_dt.json"),
    ],
)
def test_detectron2(name: str, gt: str, dt: str, tmp_path: Path) -> None:
    folder = shared_data("coco_detectron2_instances")
    got = evaluate(tmp_path / "out.json", "coco2017", folder / gt, folder / dt)
    expected = read_json("coco_detectron2_instances", "expected.json")[name]
    check_pycocotools(got, expected["pycocotools"]["bbox"])
    printed = expected["published_AP_AP50_AP75_APs_APm_APl_percent"]["bbox"]
    assert same([100 * value for value in stats(got)[:6]], printed, 0.0005)


# Other evaluators' samples ------------------------------------------------------------------------


def sample(name: str, folder: Path) -> Path:
    unzip(shared_data("evaluator_samples") / f"{name}.zip", folder)
    return folder


def save_as_coco(truths: Path, detections: Path, folder: Path) -> tuple[Path, Path]:
    """Text rows ``class x y width height``, with a score in detections, as COCO's two files."""
    stems = sorted(path.stem for path in truths.glob("*.txt"))
    content: dict[str, list[Any]] = {
        "images": [{"id": stem} for stem in stems],
        "categories": [{"id": 0, "name": "object"}],
        "annotations": [],
    }
    results = []
    for stem in stems:
        for line in (truths / f"{stem}.txt").read_text().splitlines():
            name, *box = line.split()
            assert name == "object"
            entry = {"image_id": stem, "category_id": 0, "bbox": [float(one) for one in box]}
            content["annotations"].append(entry)
        for line in (detections / f"{stem}.txt").read_text().splitlines():
            _, score, *box = line.split()
            entry = {"image_id": stem, "category_id": 0, "bbox": [float(one) for one in box]}
            results.append(entry | {"score": float(score)})
    gt = save_json(folder / "gt.json", content)
    return gt, save_json(folder / "dt.json", results)


def test_object_detection_metrics(tmp_path: Path) -> None:
    here = sample("padilla_odm", tmp_path) / "samples" / "sample_2"
    files = save_as_coco(here / "groundtruths", here / "detections", tmp_path)
    published = {"voc2007": (0.2684, 0.2683983), "voc2012": (0.2456, 0.2456867)}
    for protocol, (printed, exact) in published.items():
        got = evaluate(tmp_path / "out.json", protocol, *files, "--iou-thresholds", "0.3")
        assert same(got["mean_average_precision"], exact, 5e-8)
        assert same(got["mean_average_precision"], printed, 1e-4)
        assert got["classes"][0]["num_positives"] == 15
        assert got["num_detections"] == 24


REVIEW = {
    "voc2007": [0.3333333333, 0.2683982683, 0.0303030303, 0.0],
    "voc2012": [0.3371980676, 0.2456866804, 0.0222222222, 0.0],
}


@pytest.mark.parametrize("protocol", REVIEW)
def test_review_case_1(protocol: str, tmp_path: Path) -> None:
    here = sample("padilla_review", tmp_path) / "tests" / "test_case_1"
    files = save_as_coco(here / "gts", here / "dets", tmp_path)
    for threshold, value in zip((0.1, 0.3, 0.5, 0.75), REVIEW[protocol], strict=True):
        got = evaluate(tmp_path / "out.json", protocol, *files, "--iou-thresholds", str(threshold))
        assert same(got["mean_average_precision"], value, 1e-10)


def test_review_coco(tmp_path: Path) -> None:
    here = sample("padilla_review", tmp_path) / "tests" / "test_coco_eval"
    got = evaluate(
        tmp_path / "out.json",
        "coco2017",
        here / "gts" / "sampled_gts_bbox_area.json",
        here / "cocoapi_results.json",
    )
    asserted = [0.503647, 0.696973, 0.571667, 0.593252, 0.557991, 0.489363]
    asserted += [0.386813, 0.593680, 0.595353, 0.654764, 0.603130, 0.553744]
    assert same(stats(got), asserted, 1e-6)
