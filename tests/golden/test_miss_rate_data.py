"""Real detectors on KAIST and CityPersons: published numbers; real ground truth of Caltech."""

from __future__ import annotations

import json
import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.pedestrians import differences, evaluate_by_metric, evaluate_by_reference
from helpers.support import same, shared_data

from torch_vocmetrics import io, load_protocol
from torch_vocmetrics.cli import main
from torch_vocmetrics.protocols import MissRateProtocol

KAIST = {
    f"Reasonable-{name}": name for name in ("all", "day", "night", "campus", "road", "downtown")
} | {name: name for name in ("Reasonable_small", "Reasonable_occ=heavy", "All")}
# Percent, whose product with 100 rounds once more.
PERCENT = 2e-14


def read_json(*parts: str) -> Any:
    return json.loads(shared_data(*parts).read_text())


def evaluate(out: Path, protocol: str, ground_truth: Path, detections: Path, *more: str) -> Any:
    """The numbers that ``vocmetrics evaluate`` writes, in percent."""
    argv = ["evaluate", f"miss_rate/{protocol}", "--ground-truth", str(ground_truth)]
    argv += ["--detections", str(detections), "--json", str(out), "--quiet", *more]
    assert main(argv) == 0
    report = json.loads(out.read_text())
    return {key.removeprefix("LAMR/"): 100 * v for key, v in report["summary"].items()}


# KAIST --------------------------------------------------------------------------------------------

MADE_BY = {"INSANet": "kaist_python", "MBNet": "kaist"}


@pytest.mark.parametrize("detector", MADE_BY)
def test_kaist_published(detector: str, tmp_path: Path) -> None:
    """Every published value under the protocol that made it, to the printed digit."""
    folder = shared_data("kaist_pedestrian")
    published = read_json("kaist_pedestrian", "expected.json")["published_percent"][detector]
    assert len(published) >= 3
    got = evaluate(
        tmp_path / "out.json",
        MADE_BY[detector],
        folder / "KAIST_annotation.json",
        folder / f"{detector}_result.txt",
    )
    for name, value in published.items():
        assert round(got[f"Reasonable-{name}"], 2) == value, name


@pytest.mark.parametrize("detector", MADE_BY)
def test_kaist_recomputed(detector: str, tmp_path: Path) -> None:
    """All nine subsets, to the last digits, and by both protocols."""
    folder = shared_data("kaist_pedestrian")
    expected = read_json("kaist_pedestrian", "expected.json")
    paths = (folder / "KAIST_annotation.json", folder / f"{detector}_result.txt")
    exact = evaluate(tmp_path / "out.json", "kaist", *paths)
    key = next(name for name in expected if name.startswith("recomputed_percent_exact_refs"))
    for name, value in expected[key][detector].items():
        assert same(exact[f"Reasonable-{name}"], value, PERCENT), name
    rounded = evaluate(tmp_path / "out.json", "kaist_python", *paths)
    compared = 0
    for subset, name in KAIST.items():
        values = expected["recomputed_percent"][detector][name]
        if "drop_images_without_detections" in values:
            wanted = values["drop_images_without_detections"]
            assert same(rounded[subset], wanted, PERCENT), subset
            compared += 1
    assert compared == 6


def test_kaist_text_annotations_say_what_the_json_says(tmp_path: Path) -> None:
    """The persons of the 2,252 bbGt files are the objects that the JSON does not ignore."""
    folder = shared_data("kaist_pedestrian")
    with zipfile.ZipFile(folder / "bbGt_annotations_test_all.zip") as archive:
        archive.extractall(tmp_path)
    first = next(tmp_path.rglob("*.txt"))
    text = io.read_bb_gt_ground_truths(first.parent, io.Conditions(labels=("person",)))
    read = io.read_pedestrian_json(folder / "KAIST_annotation.json")
    assert len(text.targets) == len(read.targets) == 2252
    persons = 0
    for one, other in zip(text.targets, read.targets, strict=True):
        counted = other["boxes"][~other["ignore"]]
        assert sorted(one["boxes"].tolist()) == sorted(counted.tolist())
        persons += len(counted)
    assert persons > 2000


# CityPersons --------------------------------------------------------------------------------------

SCRIPT = {"citypersons2017": {}, "citypersons_derived": {"Heavy": "Heavy_0_65"}}


@pytest.mark.parametrize("protocol", SCRIPT)
@pytest.mark.parametrize("truth", ["val_gt.json", "anno_val.mat"])
def test_citypersons(protocol: str, truth: str, tmp_path: Path) -> None:
    """ACSP in all subsets of both protocols, from either form of the ground truth."""
    expected = read_json("citypersons", "expected.json")
    detector = next(iter(expected["recomputed_percent"]))
    folder = shared_data("citypersons")
    got = evaluate(tmp_path / "out.json", protocol, folder / truth, folder / f"{detector}.json")
    rules = load_protocol(f"miss_rate/{protocol}", MissRateProtocol)
    assert list(got) == list(rules.subset_names)
    for name, value in got.items():
        wanted = expected["recomputed_percent"][detector][SCRIPT[protocol].get(name, name)]
        assert same(value, wanted, PERCENT), name
    if protocol == "citypersons_derived":
        published = expected["published_percent"][detector]
        for name in ("Reasonable", "Heavy_0_65", "Partial", "Bare"):
            key = name.removesuffix("_0_65")
            assert round(got[key], 1) == published[name], name
        assert [round(value, 3) for value in got.values()] == [
            9.267, 46.345, 8.663, 5.618, 3.459, 5.660,
        ]  # fmt: skip


def test_citypersons_forms_agree() -> None:
    """The JSON and the MATLAB annotations hold the same boxes, flags and fractions."""
    folder = shared_data("citypersons")
    text = io.read_pedestrian_json(folder / "val_gt.json")
    matlab = io.read_citypersons_mat(folder / "anno_val.mat")
    assert text.image_ids == matlab.image_ids
    for one, other in zip(text.targets, matlab.targets, strict=True):
        assert same(one["boxes"], other["boxes"])
        assert one["ignore"].tolist() == other["ignore"].tolist()
        visible = [target["visibility"][~one["ignore"]] for target in (one, other)]
        assert same(*visible, 1e-12)  # the JSON holds twelve digits


# Caltech ------------------------------------------------------------------------------------------


def caltech_targets(seed: int) -> list[dict[str, Any]]:
    """The new annotations of 4,024 test images; a fraction of 0.8 and more is unoccluded.

    They know no partial occlusion and one ratio of width to height, so some are changed.
    """
    rng = np.random.default_rng(seed)
    read = io.read_pedestrian_json(shared_data("caltech") / "caltech_test_new_annotations.json")
    for target in read.targets:
        visible = target["visibility"]
        partly = torch.from_numpy(rng.random(len(visible)) < 0.1) & (visible >= 0.8)
        visible = torch.where(visible >= 0.8, math.nan, visible)
        target["visibility"] = torch.where(partly, 0.7, visible)
        wide = torch.from_numpy(rng.random(len(visible)) < 0.1)
        target["boxes"][wide, 2] *= 1.5
    return read.targets


def perturbed(targets: list[dict[str, Any]], seed: int) -> list[dict[str, Any]]:
    """Detections near the truth, some twice, some missing, and others anywhere."""
    rng = np.random.default_rng(seed)
    detections = []
    for target in targets:
        boxes = target["boxes"].numpy()
        near = boxes[rng.random(len(boxes)) < 0.8]
        near = np.concatenate([near, near[rng.random(len(near)) < 0.2]])
        near = near + rng.normal(0, 0.08, near.shape) * near[:, [2, 3, 2, 3]]
        height = rng.uniform(20, 160, rng.poisson(1.0))
        far = np.stack(
            [rng.uniform(0, 600, height.size), rng.uniform(100, 300, height.size),
             0.41 * height, height], 1,
        )  # fmt: skip
        rows = np.concatenate([near, far])
        rows[:, 2:] = np.maximum(rows[:, 2:], 1.0)
        scores = np.concatenate([rng.beta(4, 2, len(near)), rng.beta(2, 4, len(far))])
        detections.append(
            {
                "boxes": torch.from_numpy(rows),
                "scores": torch.from_numpy(np.round(scores, 2)),
                "labels": torch.zeros(len(rows), dtype=torch.int64),
            }
        )
    return detections


def test_caltech_fast_is_reference_in_all_18_subsets() -> None:
    targets = caltech_targets(2016)
    assert len(targets) == 4024
    detections = perturbed(targets, 2016)
    fast = evaluate_by_metric("caltech2012", detections, targets, box_format="xywh")
    assert len(fast.subset_names) == 18
    assert (fast.num_positives > 0).all(), dict(
        zip(fast.subset_names, fast.num_positives.tolist(), strict=True)
    )
    assert ((fast.log_average_miss_rate > 0) & (fast.log_average_miss_rate < 1)).all()
    plain = evaluate_by_reference("caltech2012", detections, targets, box_format="xywh")
    assert not differences(fast, plain)


def test_caltech_counts_of_dbeval() -> None:
    """dbEval's cached ground truth counts as many objects as its README says."""
    scipy_io = pytest.importorskip("scipy.io")
    counts = {"Reasonable": 847, "All": 3003, "Occ=heavy": 231}
    for name, count in counts.items():
        content = scipy_io.loadmat(str(shared_data("caltech") / f"gt-{name}.mat"))
        tables = content["gt"].ravel()
        assert tables.size == 4024
        rows = [row for table in tables for row in table.reshape(-1, 5)]
        assert sum(row[4] == 0 for row in rows) == count
        # What dbEval let count, counts in no subset of smaller heights, and the rest is ignored.
        targets = [
            {
                "boxes": torch.from_numpy(table.reshape(-1, 5)[:, :4].astype(np.float64)),
                "labels": torch.zeros(len(table.reshape(-1, 5)), dtype=torch.int64),
                "ignore": torch.from_numpy(table.reshape(-1, 5)[:, 4] != 0),
            }
            for table in tables
        ]
        none = {
            "boxes": torch.zeros(0, 4),
            "scores": torch.zeros(0),
            "labels": torch.zeros(0).long(),
        }
        result = evaluate_by_metric(
            "caltech_acftest", [none] * len(targets), targets, box_format="xywh"
        )
        assert int(result.num_positives[0]) == count
        assert result.headline == 1.0
