"""Classification, layout and the kit's files on the whole of VOC2007, against the reference."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.challenges import unequal
from helpers.support import shared_data

from torch_vocmetrics import (
    ClassificationAP,
    LayoutAP,
    io,
    load_dataset,
    load_protocol,
    protocol_names,
    reference,
)
from torch_vocmetrics.cli import main

VOC_CLASSES = load_dataset("voc2007").class_names
IMAGES = {"trainval": 5011, "test": 4952}
OBJECTS = {"trainval": 12608, "test": 12032}
PERSONS_WITH_PARTS = {"trainval": 439, "test": 441}


@pytest.fixture(scope="session")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The annotations and image sets of VOC2007."""
    folder = tmp_path_factory.mktemp("kit")
    for archive in sorted(shared_data("voc_annotations").glob("VOC2007_*.zip")):
        with zipfile.ZipFile(archive) as opened:
            opened.extractall(folder)
    return folder / "VOC2007"


@pytest.fixture(scope="session")
def annotations(kit: Path) -> dict[str, io.VocAnnotation]:
    """Every annotation of VOC2007 by image id."""
    return {p.stem: io.read_annotation(p) for p in sorted((kit / "Annotations").glob("*.xml"))}


def image_set(kit: Path, name: str, task: str = "Main") -> tuple[str, ...]:
    return io.read_image_set(kit / "ImageSets" / task / f"{name}.txt")


def test_statistics(kit: Path, capsys: Any) -> None:
    """9,963 images and 24,640 objects in all, as the kit's documentation counts them."""
    assert main(["statistics", str(kit), "--image-set", *IMAGES, "--json"]) == 0
    counts = json.loads(capsys.readouterr().out)
    assert {name: one["num_images"] for name, one in counts.items()} == IMAGES
    assert {name: one["num_objects"] for name, one in counts.items()} == OBJECTS
    assert sum(OBJECTS.values()) == 24640
    for name, one in counts.items():
        for label in VOC_CLASSES:
            listed = io.read_class_set(kit / "ImageSets" / "Main" / f"{label}_{name}.txt")
            assert one["images"][label] == sum(value == 1 for value in listed.values())


def test_statistics_of_other_tasks(kit: Path, capsys: Any) -> None:
    for task, wanted in (("Layout", PERSONS_WITH_PARTS), ("Segmentation", None)):
        argv = ["statistics", str(kit), "--task", task, "--image-set", "trainval", "test"]
        assert main([*argv, "--json"]) == 0
        counts = json.loads(capsys.readouterr().out)
        for name, one in counts.items():
            assert one["num_images"] == len(image_set(kit, name, task))
            if wanted is not None:
                assert one["objects"] == {"person": wanted[name]}
    assert main(["statistics", str(kit), "--image-set", "test"]) == 0
    table = capsys.readouterr().out.splitlines()
    assert len(table) == 22
    assert table[-1].split() == ["total", "4952", "12032"]


def test_labels_follow_from_the_annotations(
    kit: Path, annotations: dict[str, io.VocAnnotation]
) -> None:
    for name in IMAGES:
        ids = image_set(kit, name)
        for label in VOC_CLASSES:
            listed = io.read_class_set(kit / "ImageSets" / "Main" / f"{label}_{name}.txt")
            assert tuple(listed) == ids
            for image_id, value in listed.items():
                flags = [o.difficult for o in annotations[image_id].objects if o.name == label]
                assert value == (-1 if not flags else 0 if all(flags) else 1)


def test_every_annotation_is_written_as_it_was(
    kit: Path, annotations: dict[str, io.VocAnnotation], tmp_path: Path
) -> None:
    """Objects, XML, objects: to the byte, but for what the kit's own files vary in."""
    assert len(annotations) == sum(IMAGES.values())
    path, same = tmp_path / "a.xml", 0
    chosen = dict(list(annotations.items())[::5])
    for image_id, one in chosen.items():
        io.write_annotation(path, one)
        same += path.read_bytes() == (kit / "Annotations" / f"{image_id}.xml").read_bytes()
        assert io.read_annotation(path) == one
    assert same > 0.9 * len(chosen)


def test_voc_to_coco_and_back(kit: Path, tmp_path: Path, capsys: Any) -> None:
    source, back = tmp_path / "coco.json", tmp_path / "back"
    assert main(["convert", str(kit), str(source), "--image-set", "test"]) == 0
    assert main(["convert", str(source), str(back), "--image-set", "test"]) == 0
    assert "4952 images" in capsys.readouterr().err
    argv = ["statistics", "--image-set", "test", "--json"]
    assert main([*argv, str(kit)]) == 0
    wanted = capsys.readouterr().out
    assert main([*argv, str(back)]) == 0
    assert capsys.readouterr().out == wanted
    for image_id in image_set(kit, "test"):
        a, b = (
            io.read_annotation(folder / "Annotations" / f"{image_id}.xml") for folder in (kit, back)
        )
        assert a.image_size == b.image_size
        assert [o.box for o in a.objects] == [o.box for o in b.objects]
        for key in ("name", "difficult", "truncated", "occluded", "view"):
            assert [getattr(o, key) for o in a.objects] == [getattr(o, key) for o in b.objects]


# Layout -------------------------------------------------------------------------------------------


def perturbed(
    annotations: dict[str, io.VocAnnotation], image_ids: tuple[str, ...]
) -> Iterator[io.VocLayout]:
    """Three estimates of each person with parts, each worse than the one before."""
    rng = np.random.default_rng(441)

    def moved(box: io.voc_annotations.Box, amount: float) -> Any:
        return tuple(np.round(np.array(box) + rng.normal(scale=amount, size=4), 1).tolist())

    for image_id in image_ids:
        for index, one in enumerate(annotations[image_id].objects, 1):
            for amount in (1.0, 4.0, 12.0) if one.parts else ():
                parts = [
                    io.VocPart(name=part.name, box=moved(part.box, amount)) for part in one.parts
                ]
                kept = [parts[i] for i in rng.permutation(len(parts))]
                yield io.VocLayout(
                    image_id=image_id,
                    confidence=round(float(rng.random()), 2),
                    parts=tuple(kept[1:] if len(kept) > 2 and rng.random() < 0.1 else kept),
                    object_index=index,
                    box=moved(one.box, amount),
                )


def test_layout(kit: Path, annotations: dict[str, io.VocAnnotation], tmp_path: Path) -> None:
    """441 test persons and 1,323 estimates of them, written, read and evaluated by every year."""
    ids = image_set(kit, "test", "Layout")
    estimates = list(perturbed(annotations, ids))
    assert len(estimates) == 3 * PERSONS_WITH_PARTS["test"]
    results = tmp_path / "comp5_layout_test.xml"
    io.write_layouts(results, estimates)
    assert io.read_layouts(results) == estimates
    folder = tmp_path / "kit"
    (folder / "ImageSets" / "Layout").mkdir(parents=True)
    (folder / "Annotations").symlink_to(kit / "Annotations")
    pairs = sorted({(one.image_id, one.object_index or 0) for one in estimates})
    io.write_image_set(folder / "ImageSets" / "Layout" / "given.txt", pairs)
    io.write_image_set(folder / "ImageSets" / "Layout" / "detected.txt", list(ids))
    by_rules = {load_protocol(f"layout/{n}").fingerprint: n for n in protocol_names("layout")}
    for name in by_rules.values():
        rules = load_protocol(f"layout/{name}")
        file = io.read_voc_layouts(folder, rules.persons, results, rules)
        wanted = reference.evaluate_layout(rules, file.layouts, file.persons)
        got = LayoutAP(rules).update(file.layouts, file.persons).compute()
        assert not unequal(got, wanted), name
        assert 0 < got.headline < 1
        if rules.unit == "layout":
            assert int(got.num_positives[0]) == PERSONS_WITH_PARTS["test"]
        else:
            assert int(got.num_positives.sum()) == 1512
        halves = [LayoutAP(rules) for _ in range(2)]
        for place in range(0, len(ids), 50):
            part = slice(place, place + 50)
            halves[place // 50 % 2].update(file.layouts[part], file.persons[part])
        assert not unequal(halves[1].merge(halves[0]).compute(), wanted), name


# Classification -----------------------------------------------------------------------------------


def test_classification_by_the_highest_detection(kit: Path, tmp_path: Path) -> None:
    """The score of an image and class is that of the detector's best box there, -inf without."""
    detector = "yolov2_htt1084_260ep"
    with zipfile.ZipFile(shared_data("voc2007_test_detections") / f"{detector}.zip") as opened:
        opened.extractall(tmp_path)
    results = {}
    for name in VOC_CLASSES:
        best: dict[Any, float] = {}
        rows = (tmp_path / detector / f"comp4_det_test_{name}.txt").read_text().split("\n")
        for image_id, score, *_ in (row.split() for row in rows if row):
            best[image_id] = max(best.get(image_id, -np.inf), float(score))
        results[name] = tmp_path / f"comp2_cls_test_{name}.txt"
        io.write_scores(results[name], best)
    file = io.read_voc_classification(kit, "test", results)
    assert file.scores.shape == (IMAGES["test"], 20)
    assert torch.isneginf(file.scores).any()
    for name in protocol_names("classification"):
        wanted = reference.evaluate_classification(
            f"classification/{name}", file.scores, file.targets, class_names=VOC_CLASSES
        )
        metric = ClassificationAP(name, class_names=VOC_CLASSES)
        for part in range(0, IMAGES["test"], 1000):
            rows_of = slice(part, part + 1000)
            metric.update(file.scores[rows_of], file.targets[rows_of])
        assert not unequal(metric.compute(), wanted), name
        assert 0.5 < wanted.headline < 1
    out = tmp_path / "out.json"
    argv = ["evaluate", "classification/voc2007", "--ground-truth", str(kit), "--quiet"]
    argv += ["--detections", str(tmp_path / "comp2_cls_test_{class}.txt"), "--json", str(out)]
    assert main(argv) == 0
    values = json.loads(out.read_text())["classes"]
    wanted = reference.evaluate_classification("voc2007", file.scores, file.targets)
    assert [one["average_precision"] for one in values] == wanted.average_precision.tolist()
