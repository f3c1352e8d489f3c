"""``vocmetrics view``: boxes, parts and label images, by class or by outcome."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from torch_vocmetrics.cli import main
from torch_vocmetrics.drawing import (
    OUTCOME_STYLES,
    Box,
    class_colors,
    corners_of,
    draw_boxes,
    enlarged,
)
from torch_vocmetrics.io import (
    VocAnnotation,
    VocLayout,
    VocObject,
    VocPart,
    write_annotation,
    write_detections,
    write_image_set,
    write_label_map,
    write_layouts,
)

CAT, DOG, COW = (11.0, 11.0, 40.0, 40.0), (50.0, 20.0, 90.0, 60.0), (5.0, 50.0, 45.0, 75.0)
HEAD = VocPart(name="head", box=(5.0, 5.0, 25.0, 25.0))
GREEN, RED, YELLOW, GREY, BLUE = (
    OUTCOME_STYLES[name].color for name in ("true", "false", "missed", "ignored", "truth")
)


@pytest.fixture
def kit(tmp_path: Path) -> Path:
    """Image a with a cat, a difficult dog and a cow; b without objects; detections of cats.

    Of the detections one is right, two are wrong, of which one is in b; the dog is found.
    """
    folder = tmp_path / "kit"
    for name in ("Annotations", "ImageSets/Main", "ImageSets/Layout", "JPEGImages", "results"):
        (folder / name).mkdir(parents=True)
    objects = (
        VocObject(name="cat", box=CAT),
        VocObject(name="dog", box=DOG, difficult=True),
        VocObject(name="cow", box=COW),
        VocObject(name="person", box=(1.0, 1.0, 30.0, 70.0), parts=(HEAD,)),
    )
    for image_id, own in (("a", objects), ("b", ())):
        one = VocAnnotation(image_size=(80, 100), objects=own, filename=f"{image_id}.jpg")
        write_annotation(folder / "Annotations" / f"{image_id}.xml", one)
        Image.new("RGB", (100, 80), "white").save(folder / "JPEGImages" / f"{image_id}.png")
    write_image_set(folder / "ImageSets" / "Main" / "test.txt", ["a", "b"])
    write_image_set(folder / "ImageSets" / "Layout" / "test.txt", [("a", 4)])
    rows = [("a", 0.9, CAT), ("a", 0.8, CAT), ("b", 0.7, DOG)]
    write_detections(folder / "results" / "comp3_det_test_cat.txt", rows)
    write_detections(folder / "results" / "comp3_det_test_dog.txt", [("a", 0.6, DOG)])
    for name in ("cow", "person"):
        write_detections(folder / "results" / f"comp3_det_test_{name}.txt", [])
    layout = VocLayout(image_id="a", confidence=0.5, parts=(HEAD,), object_index=4)
    write_layouts(folder / "results" / "layout.xml", [layout])
    return folder


def run(*argv: object) -> int:
    return main([str(one) for one in argv])


def view(kit: Path, out: Path, *more: object) -> int:
    return run("view", kit, "--output", out, *more)


def results(kit: Path) -> tuple[object, ...]:
    return ("--detections", kit / "results" / "comp3_det_test_{class}.txt")


def colors_in(path: Path) -> set[tuple[int, ...]]:
    with Image.open(path) as image:
        return set(map(tuple, np.asarray(image.convert("RGB")).reshape(-1, 3).tolist()))


def drawn(path: Path, corners: tuple[float, ...], color: tuple[int, ...], first: int = 1) -> int:
    """How many pixels of the outline of a box, whose first pixel has a number, are of a color."""
    with Image.open(path) as image:
        pixels = np.asarray(image.convert("RGB"))
    left, top, right, bottom = (round(value) - first for value in corners)
    edges = [
        pixels[top, left : right + 1],
        pixels[bottom, left : right + 1],
        pixels[top : bottom + 1, left],
        pixels[top : bottom + 1, right],
    ]
    return int(sum((edge == color).all(axis=1).sum() for edge in edges))


def around(corners: tuple[float, ...]) -> int:
    left, top, right, bottom = corners
    return int(2 * (right - left + 1) + 2 * (bottom - top + 1))


def test_annotations_have_a_color_for_every_class_of_the_data(kit: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert view(kit, out) == 0
    # VOC's order of the classes that the data have.
    cat, cow, dog, person = class_colors(4)
    assert drawn(out / "a.png", CAT, cat) > 0.5 * around(CAT)
    assert drawn(out / "a.png", COW, cow) > 0.6 * around(COW)  # text may cover some of it
    assert 0.3 * around(DOG) < drawn(out / "a.png", DOG, dog) < 0.7 * around(DOG), "dashed"
    assert person in colors_in(out / "a.png")
    assert colors_in(out / "b.png") == {(255, 255, 255)}
    assert view(kit, out, "--classes", "cow", "--force") == 0
    assert drawn(out / "a.png", COW, class_colors(1)[0]) > 0.6 * around(COW)
    assert drawn(out / "a.png", CAT, (255, 255, 255)) > 0.8 * around(CAT)


def test_classes_that_the_protocol_does_not_have_are_drawn(kit: Path, tmp_path: Path) -> None:
    (kit / "Annotations" / "b.xml").unlink()
    other = VocObject(name="unicorn", box=CAT)
    one = VocAnnotation(image_size=(80, 100), objects=(other,), filename="b.jpg")
    write_annotation(kit / "Annotations" / "b.xml", one)
    assert view(kit, tmp_path / "out") == 0
    assert drawn(tmp_path / "out" / "b.png", CAT, class_colors(5)[4]) > 0.8 * around(CAT)


def test_outcomes(kit: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert view(kit, out, *results(kit), "--outcomes") == 0
    seen = colors_in(out / "a.png")
    assert {GREEN, YELLOW, GREY} <= seen
    assert BLUE not in seen
    assert drawn(out / "a.png", DOG, GREY) > 0.3 * around(DOG), "the dog is difficult"
    assert drawn(out / "a.png", COW, YELLOW) > 0.3 * around(COW), "the cow is missed"
    assert drawn(out / "a.png", CAT, GREEN) > 0.5 * around(CAT), "above its duplicate"
    assert drawn(out / "b.png", DOG, RED) > 0.6 * around(DOG)
    assert view(kit, out, *results(kit), "--outcomes", "--truth", "--force") == 0
    assert BLUE in colors_in(out / "a.png")
    more = ("--outcomes", "--min-score", "0.85", "--force")
    assert view(kit, out, *results(kit), *more) == 0
    assert RED not in colors_in(out / "b.png")
    assert view(kit, out, *results(kit), "--outcomes", "--min-score", "0.95", "--force") == 0
    assert GREEN not in colors_in(out / "a.png")
    assert drawn(out / "a.png", CAT, YELLOW) > 0.3 * around(CAT), "nothing finds the cat any more"


def test_detections_and_true_positives(kit: Path, tmp_path: Path) -> None:
    every, right = tmp_path / "every", tmp_path / "right"
    cat, _, dog, _ = class_colors(4)
    assert view(kit, every, *results(kit), "--truth") == 0
    assert drawn(every / "b.png", DOG, cat) > 0.6 * around(DOG), "a detection of a cat"
    assert drawn(every / "a.png", DOG, dog) > 0.6 * around(DOG)
    assert drawn(every / "a.png", COW, class_colors(4)[1]) > 0.3 * around(COW), "truth beside"
    argv = (*results(kit), "--true-positives")
    assert view(kit, right, *argv) == 0
    assert drawn(right / "a.png", CAT, GREEN) > 0.6 * around(CAT)
    assert colors_in(right / "b.png") == {(255, 255, 255)}
    assert view(kit, right, *argv) == 2, "files are not overwritten"
    assert view(kit, right, *argv, "--min-score", "0.95", "--images", "a", "--force") == 0
    assert colors_in(right / "a.png") == {(255, 255, 255)}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--true-positives",), "--true-positives: needs --detections"),
        (("--outcomes",), "--outcomes: needs --detections"),
        (("--truth",), "--truth: needs --detections"),
        (("--images", "zebra"), "not in the image set, got zebra"),
        (("--image-set", "val"), "no image set 'val'; there are test"),
        (("--protocol", "classification/voc2012"), "has no boxes to draw, got classification"),
        (("--device", "tpu", "--protocol", "layout/none"), "unknown protocol"),
    ],
)
def test_refusals(
    kit: Path, tmp_path: Path, more: tuple[str, ...], words: str, capsys: Any
) -> None:
    assert view(kit, tmp_path / "out", *more) == 2
    assert words in capsys.readouterr().err


def test_missing_and_broken_images_are_named_and_the_rest_goes_on(
    kit: Path, tmp_path: Path, capsys: Any
) -> None:
    out = tmp_path / "out"
    (kit / "JPEGImages" / "a.png").write_bytes(b"no image")
    assert view(kit, out) == 0
    error = capsys.readouterr().err
    assert "warning" in error
    assert "a.png: not an image" in error
    assert "1 images written" in error
    assert [path.name for path in out.iterdir()] == ["b.png"]
    (kit / "JPEGImages" / "a.png").unlink()
    assert view(kit, out, "--force") == 0
    assert "no such image, got a.jpg" in capsys.readouterr().err
    (kit / "JPEGImages" / "b.png").unlink()
    assert view(kit, out, "--force") == 2
    assert "none of the images could be drawn" in capsys.readouterr().err


def coco_files(folder: Path) -> list[str]:
    """An image whose name is only in the file, with an object found and an object missed."""
    ground_truth = {
        "images": [{"id": 7, "file_name": "photo.png"}],
        "categories": [{"id": 4, "name": "traffic light"}, {"id": 8, "name": "dog"}],
        "annotations": [
            {"id": 1, "image_id": 7, "category_id": 8, "bbox": [10, 10, 20, 20], "area": 400},
            {"id": 2, "image_id": 7, "category_id": 4, "bbox": [40, 40, 20, 30], "area": 600},
        ],
    }
    found = [{"image_id": 7, "category_id": 8, "bbox": [10, 10, 20, 20], "score": 0.5}]
    (folder / "gt.json").write_text(json.dumps(ground_truth))
    (folder / "dt.json").write_text(json.dumps(found))
    (folder / "pictures").mkdir()
    Image.new("RGB", (100, 80), "white").save(folder / "pictures" / "photo.png")
    return ["view", str(folder / "gt.json"), "--image-folder", str(folder / "pictures")]


def test_coco(tmp_path: Path) -> None:
    argv, out = coco_files(tmp_path), tmp_path / "out"
    assert run(*argv, "--output", out) == 0
    light, dog = class_colors(2)
    assert drawn(out / "7.png", (10, 10, 30, 30), dog, first=0) > 60
    assert drawn(out / "7.png", (40, 40, 60, 70), light, first=0) > 60
    more = ("--detections", tmp_path / "dt.json", "--outcomes", "--force")
    assert run(*argv, "--output", out, *more) == 0
    assert drawn(out / "7.png", (10, 10, 30, 30), GREEN, first=0) > 60
    assert drawn(out / "7.png", (40, 40, 60, 70), YELLOW, first=0) > 30


def test_pedestrians(tmp_path: Path) -> None:
    """KAIST's files: image ids are numbers, boxes are xywh."""
    truth = {
        "images": [{"id": 0, "im_name": "set06/V000/I00019", "height": 80, "width": 100}],
        "categories": [{"id": 1, "name": "person"}],
        "annotations": [
            {
                "id": k,
                "image_id": 0,
                "category_id": 1,
                "bbox": [10 + 40 * k, 5, 25, 60],
                "height": 60,
                "occlusion": 0,
                "ignore": 0,
            }
            for k in range(2)
        ],
    }
    (tmp_path / "gt.json").write_text(json.dumps(truth))
    found = [{"image_id": 0, "category_id": 1, "bbox": [10, 5, 25, 60], "score": 0.9}]
    (tmp_path / "dt.json").write_text(json.dumps(found))
    name = "set06/V000/I00019.png"
    (tmp_path / "set06" / "V000").mkdir(parents=True)
    Image.new("RGB", (100, 80), "white").save(tmp_path / name)
    Image.new("RGB", (100, 80), "white").save(tmp_path / "0.png")
    argv = ["view", tmp_path / "gt.json", "--protocol", "miss_rate/kaist", "--output"]
    out = tmp_path / "out"
    assert run(*argv, out) == 0
    (path,) = out.rglob("*.png")
    color = class_colors(1)[0]
    assert drawn(path, (10, 5, 35, 65), color, first=0) > 100
    more = ("--detections", tmp_path / "dt.json", "--outcomes", "--force")
    assert run(*argv, out, *more) == 0
    assert drawn(path, (10, 5, 35, 65), GREEN, first=0) > 100
    assert drawn(path, (50, 5, 75, 65), YELLOW, first=0) > 50


def test_layouts(kit: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert view(kit, out, "--protocol", "layout/voc2012") == 0
    person, head = class_colors(9)[:2]
    assert drawn(out / "a.png", HEAD.box, head) > 0.5 * around(HEAD.box)
    assert drawn(out / "a.png", (1, 1, 30, 70), person) > 0.5 * around((1, 1, 30, 70))
    assert not (out / "b.png").exists(), "the set has image a alone"
    estimates = ("--detections", kit / "results" / "layout.xml", "--force")
    assert view(kit, out, "--protocol", "layout/voc2012", *estimates) == 0
    assert drawn(out / "a.png", HEAD.box, head) > 0.5 * around(HEAD.box)
    assert drawn(out / "a.png", (1, 1, 30, 70), person) == 0


def test_label_images(tmp_path: Path) -> None:
    kit, found = tmp_path / "kit", tmp_path / "found"
    for folder in (kit / "SegmentationClass", kit / "ImageSets" / "Segmentation", found):
        folder.mkdir(parents=True)
    truth = np.zeros((20, 30), np.uint8)
    truth[:, 10:] = 15
    truth[:, 28:] = 255
    predicted = truth.copy()
    predicted[:5] = 0
    write_label_map(kit / "SegmentationClass" / "x.png", truth)
    write_label_map(found / "x.png", predicted)
    (kit / "ImageSets" / "Segmentation" / "val.txt").write_text("x\n")
    argv = ["view", kit, "--protocol", "segmentation/voc2012", "--output"]
    assert run(*argv, tmp_path / "truth") == 0
    with Image.open(tmp_path / "truth" / "x.png") as image:
        assert image.size == (30, 20)
        assert image.getpixel((15, 3)) == (192, 128, 128)  # VOC's colour of a person
    out = tmp_path / "out"
    assert run(*argv, out, "--detections", found, "--outcomes") == 0
    with Image.open(out / "x.png") as image:
        assert image.size == (60, 20)
        outcome = [image.getpixel(at) for at in ((35, 3), (45, 3), (45, 10), (59, 3))]
    assert outcome == [GREEN, RED, GREEN, GREY]
    (kit / "JPEGImages").mkdir()
    Image.new("RGB", (30, 20), "white").save(kit / "JPEGImages" / "x.jpg")
    assert run(*argv, out, "--detections", found, "--force") == 0
    with Image.open(out / "x.png") as image:
        assert image.size == (90, 20)
        assert image.getpixel((3, 3)) == (255, 255, 255)
    assert run(*argv, out, "--images", "y") == 2


def test_drawing_is_loaded_by_view_alone() -> None:
    code = "import sys, torch_vocmetrics.cli; print({'torchvision', 'PIL'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


# Drawing ------------------------------------------------------------------------------------------


def test_boxes_are_cut_off_and_inverted_ones_left_out() -> None:
    image = Image.new("L", (40, 30), 255)
    boxes = [
        Box((-10, -10, 100, 100), "", RED),
        Box((20, 20, 10, 10), "inverted", GREEN),
        Box((5, 5, 5, 5), "", BLUE),
    ]
    pixels = np.asarray(draw_boxes(image, boxes))
    assert (pixels[0] == RED).all()
    assert (pixels[:, -1] == RED).all()
    assert not (pixels == GREEN).all(axis=2).any()
    assert (pixels == BLUE).all(axis=2).any()
    assert np.asarray(image).min() == 255, "the image itself stays as it is"


def test_text_stands_on_its_color_and_inside_the_image() -> None:
    image = Image.new("RGB", (200, 150), "white")
    drawn_image = draw_boxes(image, [Box((190, 2, 199, 100), "a long name 0.5", YELLOW)])
    pixels = np.asarray(drawn_image)
    behind = (pixels == YELLOW).all(axis=2)
    assert behind[:, :180].sum() > 200, "the text is moved to the left"
    assert (pixels.sum(axis=2) < 100).any(), "dark letters on yellow"


def test_formats_of_boxes() -> None:
    assert corners_of([(11, 21, 30, 40)], "xyxy", 1) == [(10, 20, 29, 39)]
    assert corners_of([(10, 20, 5, 6)], "xywh", 0) == [(10, 20, 15, 26)]
    assert corners_of([(10, 20, 4, 6)], "cxcywh", 0) == [(8, 17, 12, 23)]


def test_neighbouring_classes_differ_much() -> None:
    colors = np.array(class_colors(80), dtype=int)
    assert len({tuple(color) for color in colors.tolist()}) == 80
    assert np.abs(np.diff(colors, axis=0)).max(axis=1).min() > 60


def test_small_images_are_enlarged_with_their_boxes() -> None:
    image = Image.new("RGB", (40, 20), "white")
    image.putpixel((3, 4), RED)
    large, (box,) = enlarged(image, [Box((3, 4, 3, 4), "", GREEN)], 100)
    assert large.size == (120, 60)
    assert box.corners == (9, 12, 11, 14), "the pixels of the one pixel"
    assert {large.getpixel((x, y)) for x in (9, 11) for y in (12, 14)} == {RED}
    assert large.getpixel((12, 12)) == (255, 255, 255)
    assert enlarged(image, [], 40) == (image, [])
