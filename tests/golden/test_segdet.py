"""Painted segmentations, VOC's colours, and label images of every kind."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.support import existing, load_extra, load_fixture, name_of, shared_file, shared_tree
from PIL import Image

from torch_vocmetrics import FileFormatError, InputError, io
from torch_vocmetrics.cli import main

CASES = load_fixture("voc_segdet")
PAINTINGS = {"2007": "class_order", "2008": "increasing_confidence"}


def threshold(case: dict[str, Any]) -> float:
    return -np.inf if case["confidence"] == "none" else float(case["confidence"])


def sizes(case: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """Height and width; the fixture says width and height."""
    return {one["id"]: (one["size"][1], one["size"][0]) for one in case["images"]}


def save_results(case: dict[str, Any], folder: Path) -> dict[str, Path]:
    files = {}
    for name, rows in case["detections"].items():
        files[name] = folder / f"comp3_det_test_{name}.txt"
        files[name].write_text("".join(" ".join(map(repr, row)) + "\n" for row in rows))
        files[name].write_text(files[name].read_text().replace("'", ""))
    return files


@pytest.mark.parametrize("year", PAINTINGS)
@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_painted_images(case: dict[str, Any], year: str, tmp_path: Path) -> None:
    wanted = np.load(existing(shared_file("fixtures", "voc_segdet.npz")))
    painted = list(
        io.create_segmentations_from_detections(
            save_results(case, tmp_path),
            sizes(case),
            class_names=case["classes"],
            painting=PAINTINGS[year],
            image_ids=case["seg_set"],
            confidence=threshold(case),
        )
    )
    assert [one.image_id for one in painted] == case["expected"][year]["written"]
    for one in painted:
        for kind, image in (("cls", one.classes), ("inst", one.instances)):
            official = wanted[f"{name_of(case)}/{year}/{kind}/{one.image_id}"]
            assert image.dtype == official.dtype
            assert np.array_equal(image, official), (one.image_id, kind)


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_the_command_on_the_folders_of_the_kits(case: dict[str, Any], tmp_path: Path) -> None:
    """``trees.zip`` holds image sets and results; images of the right size are put beside them."""
    prefix = f"segdet/{name_of(case)}/"
    shared_tree(tmp_path, prefix)
    wanted = np.load(existing(shared_file("fixtures", "voc_segdet.npz")))
    trees = sorted((tmp_path / prefix).iterdir())
    assert trees
    for tree in trees:
        (tree / "JPEGImages").mkdir()
        for image_id, (height, width) in sizes(case).items():
            Image.new("RGB", (width, height)).save(tree / "JPEGImages" / f"{image_id}.jpg")
        year = "2007" if tree.name == "y2007" else "2008"
        out = tree / "painted"
        argv = ["paint", "--images", str(tree), "--output", str(out), "--image-set", "test"]
        argv += ["--detections", str(tree / "results" / "comp3_det_test_{class}.txt")]
        argv += ["--classes", ",".join(case["classes"]), "--painting", PAINTINGS[year]]
        argv += ["--quiet"]
        if np.isfinite(threshold(case)):
            argv += [f"--confidence={threshold(case)}"]
        assert main(argv) == 0
        for kind, folder in (("cls", "SegmentationClass"), ("inst", "SegmentationObject")):
            found = {path.stem: path for path in (out / folder).glob("*.png")}
            assert sorted(found) == sorted(case["expected"][year]["written"])
            for image_id, path in found.items():
                official = wanted[f"{name_of(case)}/{year}/{kind}/{image_id}"]
                assert np.array_equal(io.read_label_map(path).numpy(), official)


def test_colormap() -> None:
    wanted = load_extra("voc_misc", "colormap_rgb")
    if not wanted:
        pytest.skip("no colour map among the fixtures")
    assert io.voc_colormap().tolist() == wanted
    assert io.voc_colormap(21).tolist() == wanted[:21]


def test_unknown_painting_and_unknown_image(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x 0.5 1 1 2 2\n")
    with pytest.raises(InputError, match="painting"):
        list(io.create_segmentations_from_detections({}, {}, class_names=[], painting="2009"))
    with pytest.raises(FileFormatError, match="line 1"):
        list(
            io.create_segmentations_from_detections(
                {"a": tmp_path / "a.txt"}, {"y": (2, 2)}, class_names=["a"]
            )
        )


# Label images -------------------------------------------------------------------------------------


@pytest.mark.parametrize("top", [1, 255, 256, 65535])
def test_labels_survive_a_file(top: int, tmp_path: Path) -> None:
    labels = torch.from_numpy(np.linspace(0, top, 35).astype(np.int64).reshape(5, 7))
    io.write_label_map(tmp_path / "map.png", labels)
    assert torch.equal(io.read_label_map(tmp_path / "map.png").long(), labels)
    if top < 256:
        with Image.open(tmp_path / "map.png") as image:
            assert image.mode == "P"
            assert image.getpalette() == io.voc_colormap().ravel().tolist()


def test_grey_and_one_bit_images(tmp_path: Path) -> None:
    array = np.array([[0, 1], [1, 0]], dtype=np.uint8)
    Image.fromarray(array * 200).save(tmp_path / "grey.png")
    Image.fromarray(array.astype(bool)).save(tmp_path / "bit.png")
    assert io.read_label_map(tmp_path / "grey.png").tolist() == (array * 200).tolist()
    assert io.read_label_map(tmp_path / "bit.png").tolist() == array.tolist()


def test_what_is_no_label_image(tmp_path: Path) -> None:
    Image.new("RGB", (3, 2), (250, 50, 83)).save(tmp_path / "colour.png")
    with pytest.raises(FileFormatError, match="the colour of a pixel"):
        io.read_label_map(tmp_path / "colour.png")
    (tmp_path / "text.png").write_text("no image")
    with pytest.raises(FileFormatError, match="not an image"):
        io.read_label_map(tmp_path / "text.png")
    Image.new("L", (300, 200)).save(tmp_path / "large.png")
    with pytest.raises(FileFormatError, match="300 x 200"):
        io.read_label_map(tmp_path / "large.png", max_pixels=59_999)
    whole = (tmp_path / "large.png").read_bytes()
    (tmp_path / "cut.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FileFormatError, match=r"cut\.png"):
        io.read_label_map(tmp_path / "cut.png")
    with pytest.raises(FileNotFoundError):
        io.read_label_map(tmp_path / "none.png")
    with pytest.raises(InputError):
        io.write_label_map(tmp_path / "x.png", torch.tensor([[-1]]))


def test_a_bomb_is_refused(tmp_path: Path) -> None:
    """A header that promises more pixels than any label image has; nothing is decoded."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        size, checksum = len(data), zlib.crc32(kind + data)
        return struct.pack(">I", size) + kind + data + struct.pack(">I", checksum)

    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 0, 0, 0, 0)
    content = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header)
    content += chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    (tmp_path / "bomb.png").write_bytes(content)
    with pytest.raises(FileFormatError, match=r"bomb\.png"):
        io.read_label_map(tmp_path / "bomb.png")
