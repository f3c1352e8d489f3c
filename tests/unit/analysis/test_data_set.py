"""Statistics of data sets against plain loops over the objects."""

from __future__ import annotations

import json
import math
import statistics as plain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.support import shared_data

from torch_vocmetrics import InputError, io
from torch_vocmetrics.analysis import dataset_statistics
from torch_vocmetrics.cli import main

NAMES = ["cat", "dog", "owl"]


def targets_of(seed: int, box_format: str) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    targets = []
    for row in range(12):
        count = int(rng.integers(0, 6))
        start, size = rng.integers(0, 50, (count, 2)), rng.integers(1, 200, (count, 2))
        rest = start + size if box_format == "xyxy" else size
        target = {
            "boxes": torch.tensor(np.concatenate([start, rest], 1).astype(float)),
            "labels": torch.tensor(rng.choice([3, 7], count)),
            "difficult": torch.tensor(rng.random(count) < 0.2),
        }
        if row % 2:
            target["iscrowd"] = (rng.random(count) < 0.2).tolist()
            target["area"] = torch.tensor(
                np.where(rng.random(count) < 0.5, np.nan, rng.integers(1, 20000, count))
            )
            target["image_size"] = (300, 400)
        if row % 3:
            target["visibility"] = torch.tensor(rng.choice([0.1, 0.2, 0.5, 0.65, 0.9, 1.0], count))
            target["occlusion"] = torch.tensor(rng.integers(0, 3, count))
        targets.append(target)
    return targets


@pytest.mark.parametrize("inclusive", [False, True])
@pytest.mark.parametrize("box_format", ["xyxy", "xywh"])
def test_counts_by_plain_loops(box_format: str, inclusive: bool) -> None:
    targets = targets_of(5, box_format)
    found = dataset_statistics(
        targets,
        NAMES,
        label_ids=[3, 7, 9],
        box_format=box_format,
        inclusive_pixels=inclusive,
    )
    more = 1 if inclusive and box_format == "xyxy" else 0
    objects, flagged = [], {"difficult": [0, 0, 0], "iscrowd": [0, 0, 0]}
    for image, target in enumerate(targets):
        for row, box in enumerate(target["boxes"].tolist()):
            label = {3: 0, 7: 1}[int(target["labels"][row])]
            flags = [key for key in flagged if key in target and bool(target[key][row])]
            for key in flags:
                flagged[key][label] += 1
            if flags:
                continue
            width, height = box[2], box[3]
            if box_format == "xyxy":
                width, height = box[2] - box[0] + more, box[3] - box[1] + more
            area = float(target["area"][row]) if "area" in target else math.nan
            area = width * height if math.isnan(area) else area
            share = area / (300 * 400) if "image_size" in target else math.nan
            visible = float(target["visibility"][row]) if "visibility" in target else math.nan
            level = int(target["occlusion"][row]) if "occlusion" in target else -1
            objects.append((image, label, width, height, area, share, visible, level))
    columns = list(zip(*objects, strict=True))
    for name, column in zip(
        ("label", "width", "height", "area", "image_share", "visibility", "occlusion"), columns[1:],
        strict=True,
    ):  # fmt: skip
        np.testing.assert_array_equal(getattr(found, name).numpy(), column)
    assert found.num_objects.tolist() == [columns[1].count(k) for k in range(3)]
    assert found.num_images.tolist() == [
        len({one[0] for one in objects if one[1] == k}) for k in range(3)
    ]
    assert found.num_difficult.tolist() == flagged["difficult"]
    assert found.num_crowd.tolist() == flagged["iscrowd"]
    assert found.objects_per_image.tolist() == [columns[0].count(i) for i in range(12)]
    assert found.classes_per_image.tolist() == [
        len({one[1] for one in objects if one[0] == i}) for i in range(12)
    ]
    heights = [one[3] for one in objects if one[1] == 1]
    assert found.median_height[1].item() == plain.median(heights)
    assert math.isnan(found.median_area[2].item())
    summary = found.summary()
    aspects = [math.log(one[2] / one[3]) for one in objects]
    assert summary["log_mean_aspect"] == pytest.approx(math.exp(sum(aspects) / len(aspects)))
    assert summary["objects"] == len(objects)
    small = sum(one[4] <= 1024 for one in objects) / len(objects)
    large = sum(one[4] > 9216 for one in objects) / len(objects)
    assert (summary["share_small"], summary["share_large"]) == (small, large)
    assert summary["share_small"] + summary["share_medium"] + large == pytest.approx(1)
    known = [one[6] for one in objects if not math.isnan(one[6])]
    for name, share in (
        ("unoccluded", sum(v == 1 for v in known)),
        ("partial", sum(0.65 <= v < 1 for v in known)),
        ("heavy", sum(0.2 <= v < 0.65 for v in known)),
        ("full", sum(v < 0.2 for v in known)),
    ):
        assert summary[f"share_{name}"] == share / len(known)
    levels = [one[7] for one in objects if one[7] >= 0]
    assert summary["share_occlusion_1"] == levels.count(1) / len(levels)
    assert summary["height_p50"] == plain.median([one[3] for one in objects])


def test_histograms() -> None:
    target = {"boxes": [[0, 0, 10, n] for n in (5, 10, 20, 40)], "labels": [0, 0, 0, 0]}
    found = dataset_statistics([target, {"boxes": [], "labels": []}], ["cat"])
    assert found.histogram("height", [0, 10, 20, 40]).tolist() == [0.25, 0.25, 0.5]
    assert found.histogram("objects_per_image", [0, 1, 5]).tolist() == [0.5, 0.5]
    assert found.histogram("image_share", [0, 1]).tolist() == [0.0]
    with pytest.raises(InputError, match="name: must be one of objects_per_image"):
        found.histogram("num_images", [0, 1])
    with pytest.raises(InputError, match="rising numbers"):
        found.histogram("height", [1, 1])


def test_visible_boxes() -> None:
    target = {
        "boxes": [[0, 0, 10, 10], [0, 0, 10, 10]],
        "labels": [0, 0],
        "visible_boxes": [[0, 0, 0, 0], [0, 0, 10, 3]],
    }
    found = dataset_statistics([target], ["person"], box_format="xywh")
    assert found.visibility.tolist() == [1.0, 0.3]


def test_what_cannot_be_counted() -> None:
    with pytest.raises(InputError, match="target 0: label is not among the classes, got 4"):
        dataset_statistics([{"boxes": [[0, 0, 1, 1]], "labels": [4]}], ["cat"])
    with pytest.raises(InputError, match="box_format: must be one of xyxy"):
        dataset_statistics([{"boxes": [[0, 0, 1, 1]], "labels": [0]}], ["cat"], box_format="ltrb")


def test_no_images() -> None:
    found = dataset_statistics([], ["cat"])
    assert found.num_objects.tolist() == [0]
    assert math.isnan(found.summary()["objects_per_image"])


def test_the_command(tmp_path: Path, capsys: Any) -> None:
    truth = {
        "images": [{"id": 1, "height": 100, "width": 100}, {"id": 2, "height": 100, "width": 100}],
        "categories": [{"id": 8, "name": "dog"}],
        "annotations": [
            {"id": 1, "image_id": 1, "category_id": 8, "bbox": [0, 0, 20, 40]},
            {"id": 2, "image_id": 1, "category_id": 8, "bbox": [0, 0, 20, 40], "iscrowd": 1},
        ],
    }
    (tmp_path / "gt.json").write_text(json.dumps(truth))
    assert main(["statistics", str(tmp_path / "gt.json")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["dog", "1", "1", *lines[1].split()[3:4], "1", "0", "40", "800"]
    assert "log_mean_aspect 0.5" in " ".join(" ".join(lines).split())
    assert main(["statistics", str(tmp_path / "gt.json"), "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["num_objects"] == [1]
    assert content["summary"]["images_without_objects"] == 1
    assert content["summary"]["share_partial"] is None
    for row in truth["annotations"]:
        row |= {"category_id": 1, "ignore": row.get("iscrowd", 0), "vis_ratio": 0.7}
    (tmp_path / "persons.json").write_text(json.dumps(truth))
    assert main(["statistics", str(tmp_path / "persons.json"), "--pedestrians", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert (content["num_objects"], content["num_ignored"]) == ([1], [1])
    assert content["summary"]["share_partial"] == 1
    assert main(["statistics", str(tmp_path / "none.json")]) == 2
    (tmp_path / "boxes").mkdir()
    (tmp_path / "boxes" / "a.txt").write_text(
        "% bbGt version=3\nperson 1 2 10 40 0 0 0 0 0 0 0\nperson 1 2 10 20 0 0 0 0 0 1 0\n"
    )
    assert main(["statistics", str(tmp_path / "boxes"), "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert (content["num_objects"], content["num_ignored"]) == ([1], [1])


def test_citypersons() -> None:
    """Zhang et al. 2017 fix the aspect ratio of full bodies at 0.41."""
    truth = io.read_pedestrian_json(shared_data("citypersons") / "val_gt.json")
    found = dataset_statistics(truth.targets, truth.class_names, box_format="xywh")
    assert found.summary()["log_mean_aspect"] == pytest.approx(0.41, abs=0.005)
