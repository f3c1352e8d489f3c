"""Names from files: no path that is read or written leaves its folder, no name adds a row."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from torch_vocmetrics import FileFormatError, io, load_protocol
from torch_vocmetrics.cli import main
from torch_vocmetrics.io.names import check_row_name, path_inside

SQUARE = (1.0, 1.0, 4.0, 4.0)
LEAVING = ["../evil", "../../evil", "a/../../evil", "..", "/evil", "link/evil", "loop/evil"]
NOT_TEXT = ["a\0b", "a\x1b[31m", "\ud800", ""]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a link to the folder above it, and a link to itself."""
    inner = tmp_path / "inner"
    (inner / "sub").mkdir(parents=True)
    (inner / "link").symlink_to(tmp_path)
    (inner / "loop").symlink_to("loop")
    return inner


@pytest.mark.parametrize("name", [*LEAVING, *NOT_TEXT])
@pytest.mark.parametrize("to_write", [False, True])
def test_no_name_leads_out_of_the_folder(folder: Path, name: str, to_write: bool) -> None:
    with pytest.raises(FileFormatError, match=r"inner: .* leads out of the folder"):
        path_inside(folder, name, to_write=to_write)


@pytest.mark.parametrize("name", ["a.xml", "..a", "a..b", "sub/a.xml", "ä b", "a:b", "-x"])
@pytest.mark.parametrize("to_write", [False, True])
def test_other_names_are_taken(folder: Path, name: str, to_write: bool) -> None:
    assert path_inside(folder, name, to_write=to_write) == folder / name


@pytest.mark.parametrize("to_write", [False, True])
def test_absolute_names_are_refused_wherever_they_lead(folder: Path, to_write: bool) -> None:
    with pytest.raises(FileFormatError, match="leads out of the folder"):
        path_inside(folder, str(folder / "a.xml"), to_write=to_write)


def test_links_to_a_file_are_read_and_never_written_through(folder: Path) -> None:
    outside = folder.parent / "outside.xml"
    outside.write_text("")
    (folder / "a.xml").symlink_to(outside)
    (folder / "b.xml").symlink_to(folder / "sub" / "b.xml")
    assert path_inside(folder, "a.xml") == folder / "a.xml"
    with pytest.raises(FileFormatError, match="a symbolic link leads out"):
        path_inside(folder, "a.xml", to_write=True)
    assert path_inside(folder, "b.xml", to_write=True) == folder / "b.xml"
    # The folder itself may be a link: the user gave it.
    whole = folder.parent / "whole"
    whole.symlink_to(folder)
    assert path_inside(whole, "c.xml", to_write=True) == whole / "c.xml"


@pytest.mark.parametrize(
    "name", ["a b ", "a\nb 1", " a", "", "a\x1b", "a\u2028b", "a\t1", "\ud800"]
)
def test_no_name_adds_a_column_or_a_row(name: str, tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    writers: list[Callable[[], None]] = [
        lambda: io.write_image_set(path, [name]),
        lambda: io.write_image_set(path, [(name, 1)]),
        lambda: io.write_class_set(path, {name: 1}),
        lambda: io.write_scores(path, {(name, 1): 0.5}),
        lambda: io.write_detections(path, [(name, 0.5, SQUARE)]),
        lambda: check_row_name(name, "here") and None,
    ]
    for write in writers:
        with pytest.raises(FileFormatError, match="a name must be a single line"):
            write()
        assert not path.exists()


def test_no_text_breaks_a_file(tmp_path: Path) -> None:
    """What is written is read back equal, or is refused."""
    cat = io.VocObject(name="cat", box=SQUARE)
    hostile: list[tuple[str, Any]] = [
        ("a.xml", {"filename": "a\x1bb"}),
        ("a.xml", {"filename": "\ud800"}),
        ("a.xml", {"database": "\0"}),
        ("a.xml", {"objects": (io.VocObject(name="cat", box=SQUARE, actions={"a><b": True}),)}),
        ("a.txt", {"filename": 'a"\nObjects with ground truth : 9'}),
        ("a.txt", {"database": "a\nb"}),
        ("a.txt", {"objects": (io.VocObject(name='cat"', box=SQUARE),)}),
    ]
    for name, fields in hostile:
        one = io.VocAnnotation(**{"image_size": (9, 9), "objects": (cat,), **fields})
        with pytest.raises(FileFormatError):
            io.write_annotation(tmp_path / name, one)
        assert not (tmp_path / name).exists()
    one = io.VocAnnotation(image_size=(9, 9), objects=(cat,), filename="<a>&amp;\"'.jpg")
    io.write_annotation(tmp_path / "b.xml", one)
    assert io.read_annotation(tmp_path / "b.xml") == one
    with pytest.raises(FileFormatError, match="XML cannot hold"):
        io.write_layouts(
            tmp_path / "c.xml", [io.VocLayout(image_id="\x1b", confidence=0.5, parts=())]
        )


# The command and the readers of a kit -------------------------------------------------------------

WORDS = [name for name in LEAVING if name not in ("..", "loop/evil")]  # "...xml" is a plain name


@pytest.fixture
def kit(tmp_path: Path) -> Path:
    """A kit in a folder of its own, and beside it what hostile names lead to."""
    kit = tmp_path / "here" / "kit"
    for name in ("Main", "Segmentation", "Layout"):
        (kit / "ImageSets" / name).mkdir(parents=True)
    one = io.VocAnnotation(image_size=(8, 8), objects=(io.VocObject(name="cat", box=SQUARE),))
    for name in ("Annotations", "JPEGImages", "SegmentationClass", "results"):
        (kit / name).mkdir()
        (kit / name / "link").symlink_to(tmp_path)
    for place in (kit.parent, tmp_path, kit, Path(tmp_path / "here")):
        io.write_annotation(place / "evil.xml", one)
        Image.new("RGB", (8, 8)).save(place / "evil.jpg")
        io.write_label_map(place / "evil.png", np.zeros((8, 8), np.uint8))
    (kit / "results" / "comp3_det_test_cat.txt").write_text("")
    (kit / "results" / "layout.xml").write_text("<results/>")
    return kit


def files_of(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", WORDS)
def test_commands_with_hostile_ids_write_and_read_nothing_outside(
    kit: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for task in ("Main", "Segmentation", "Layout"):
        (kit / "ImageSets" / task / "test.txt").write_text(f"{name}\n")
    out = kit.parent / "out"
    out.mkdir()
    (out / "link").symlink_to(kit.parent.parent)
    pattern = str(kit / "results" / "comp3_det_test_{class}.txt")
    before = files_of(kit.parent.parent)
    layout = ("evaluate", "layout/voc2007", "--detections", str(kit / "results" / "layout.xml"))
    masks = ("evaluate", "segmentation/voc2012", "--detections", str(out))
    boxes = ("evaluate", "detection/voc2007", "--detections", pattern)
    for argv in (
        ("view", str(kit), "--output", str(out)),
        ("view", str(kit), "--output", str(out), "--detections", pattern),
        ("paint", "--images", str(kit), "--detections", pattern, "--output", str(out)),
        ("convert", str(kit), str(out / "a.json")),
        ("statistics", str(kit), "--image-set", "test"),
        ("statistics", str(kit), "--image-set", "test", "--task", "Layout"),
        *((*command, "--ground-truth", str(kit)) for command in (layout, masks, boxes)),
    ):
        assert main([*argv]) == 2, argv
        said = capsys.readouterr().err
        assert said.startswith("vocmetrics: error: "), argv
        assert "out of the folder" in said or argv[0] == "paint", said
    assert files_of(kit.parent.parent) == before


def test_painting_and_converting_write_through_no_link(
    kit: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    io.write_label_map(kit / "SegmentationClass" / "a.png", np.zeros((8, 8), np.uint8))
    Image.new("RGB", (8, 8)).save(kit / "JPEGImages" / "a.jpg")
    (kit / "ImageSets" / "Segmentation" / "test.txt").write_text("a\n")
    target = kit.parent / "kept.txt"
    target.write_text("kept")
    out = kit.parent / "out"
    for part in ("SegmentationClass", "Annotations"):
        (out / part).mkdir(parents=True)
    (out / "SegmentationClass" / "a.png").symlink_to(target)
    (out / "Annotations" / "a.xml").symlink_to(target)
    pattern = str(kit / "results" / "comp3_det_test_{class}.txt")
    assert main(["paint", "--images", str(kit), "--detections", pattern, "--output", str(out)]) == 2
    assert "a symbolic link leads out" in capsys.readouterr().err
    (kit / "ImageSets" / "Main" / "test.txt").write_text("a\n")
    one = io.VocAnnotation(image_size=(8, 8), objects=())
    io.write_annotation(kit / "Annotations" / "a.xml", one)
    (out / "a.png").symlink_to(target)
    assert main(["view", str(kit), "--output", str(out)]) == 2
    assert "a symbolic link leads out" in capsys.readouterr().err
    coco = {"images": [{"id": 1, "file_name": "a.jpg"}], "annotations": [], "categories": []}
    (kit.parent / "gt.json").write_text(json.dumps(coco))
    assert main(["convert", str(kit.parent / "gt.json"), str(out)]) == 2
    assert "a symbolic link leads out" in capsys.readouterr().err
    assert main(["convert", str(kit.parent / "gt.json"), str(out), "--image-set", "../../x"]) == 2
    assert target.read_text() == "kept"


@pytest.mark.parametrize("name", ["../../evil.jpg", "..", "/evil.jpg", "a\nb.jpg", "a b.jpg"])
def test_file_names_of_coco_stay_in_the_folder(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    coco = {"images": [{"id": 1, "file_name": name}], "annotations": [], "categories": []}
    (tmp_path / "gt.json").write_text(json.dumps(coco))
    code = main(["convert", str(tmp_path / "gt.json"), str(tmp_path / "in" / "out")])
    written = set(tmp_path.rglob("*.xml"))
    if code == 0:
        folder = tmp_path / "in" / "out" / "Annotations"
        assert written == {folder / f"{Path(name).stem}.xml"}
    else:
        assert not written
        assert capsys.readouterr().err.count("\n") == 1


def test_classes_are_no_folders(tmp_path: Path) -> None:
    (tmp_path / "a_evil.txt").write_text("")
    for name in ("../evil", "/evil", "x/evil", "..", "\0"):
        with pytest.raises(FileFormatError):
            io.find_results(str(tmp_path / "sub" / "{class}.txt"), [name])
    with pytest.raises(FileFormatError, match="leads out of the folder"):
        io.read_voc_classification(tmp_path, "test", {"../../evil": tmp_path / "a_evil.txt"})


def test_pairs_of_label_images_stay_in_their_folders(kit: Path) -> None:
    (kit / "ImageSets" / "Segmentation" / "val.txt").write_text("../evil\n")
    with pytest.raises(FileFormatError, match="leads out of the folder"):
        io.pair_label_images(kit, kit / "results", "val")
    (kit / "ImageSets" / "Segmentation" / "val.txt").write_text("link/evil\n")
    (kit.parent / "found" / "link").mkdir(parents=True)
    io.write_label_map(kit.parent / "found" / "link" / "evil.png", np.zeros((8, 8), np.uint8))
    with pytest.raises(FileFormatError, match="SegmentationClass: a symbolic link leads out"):
        io.pair_label_images(kit, kit.parent / "found", "val")
    (kit / "ImageSets" / "Layout" / "val.txt").write_text("../evil 1\n")
    protocol = load_protocol("layout/voc2009")
    with pytest.raises(FileFormatError, match="leads out of the folder"):
        io.read_voc_layouts(kit, "val", kit / "results" / "layout.xml", protocol)
