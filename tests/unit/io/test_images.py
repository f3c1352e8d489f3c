"""Images from strangers: what a file holds decides, and nothing large is read for nothing."""

from __future__ import annotations

import os
import struct
import threading
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from torch_vocmetrics import FileFormatError, InputError, io
from torch_vocmetrics.cli.pictures import find_picture, read_picture
from torch_vocmetrics.io.files import read_bytes, read_text


def chunk(kind: bytes, data: bytes) -> bytes:
    checksum = struct.pack(">I", zlib.crc32(kind + data))
    return struct.pack(">I", len(data)) + kind + data + checksum


def png(width: int, height: int, bits: int, color: int, rows: bytes, *extra: bytes) -> bytes:
    """A PNG of packed rows, each with a filter byte of 0 before it."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, color, 0, 0, 0))
    palette = chunk(b"PLTE", bytes(3 * 2 ** min(bits, 8))) if color == 3 else b""
    data = chunk(b"IDAT", zlib.compress(rows))
    return b"".join([b"\x89PNG\r\n\x1a\n", header, *extra, palette, data, chunk(b"IEND", b"")])


@pytest.mark.parametrize("color", [0, 3])
@pytest.mark.parametrize(
    ("bits", "row", "labels"),
    [
        (1, b"\x00\xa0", [1, 0, 1]),
        (2, b"\x00\x1b\x40", [0, 1, 2, 3, 1]),
        (4, b"\x00\x0f\x7a", [0, 15, 7, 10]),
        (8, b"\x00\x00\xff\x11\x55", [0, 255, 17, 85]),
    ],
)
def test_labels_are_those_of_the_file_at_every_depth(
    tmp_path: Path, bits: int, color: int, row: bytes, labels: list[int]
) -> None:
    path = tmp_path / "map.png"
    path.write_bytes(png(len(labels), 1, bits, color, row))
    assert io.read_label_map(path).tolist() == [labels]


@pytest.mark.parametrize("form", ["JPEG", "BMP", "TIFF", "GIF"])
def test_the_content_decides_and_not_the_name(tmp_path: Path, form: str) -> None:
    path = tmp_path / "map.png"
    Image.fromarray(np.zeros((9, 9), np.uint8)).save(path, format=form)
    with pytest.raises(FileFormatError, match=r"map\.png: not an image; .* whose content is PNG"):
        io.read_label_map(path)


@pytest.mark.parametrize("kind", [b"tEXt", b"zTXt", b"iTXt", b"iCCP", b"teSt"])
def test_large_text_is_refused_unread(tmp_path: Path, kind: bytes) -> None:
    path = tmp_path / "map.png"
    path.write_bytes(png(1, 1, 8, 0, bytes(2), chunk(kind, b"a\0" + bytes(2**24))))
    for read in (io.read_label_map, io.read_image_size):
        with pytest.raises(FileFormatError, match=r"more text and other data .* than the limits"):
            read(path)
    path.write_bytes(png(1, 1, 8, 0, bytes(2), *[chunk(b"teSt", b"")] * 2**16))
    with pytest.raises(FileFormatError, match="the image has more chunks"):
        io.read_label_map(path)


def test_sizes_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "JPEGImages" / "a.png"
    path.parent.mkdir()
    path.write_bytes(png(10**9, 10**9, 8, 0, bytes(2)))
    for read in (io.read_label_map, io.read_image_size):
        with pytest.raises(FileFormatError, match=r"a\.png: "):
            read(path)
    with pytest.raises(FileFormatError, match=r"a\.png: "):
        read_picture(find_picture(tmp_path, "a"))
    for size in ((10**9, 10**9), (0, 5), (-1, 5), (2**13, 2**13 + 1)):
        painted = io.create_segmentations_from_detections({}, {"a": size}, class_names=["x"])
        with pytest.raises(InputError, match="image_sizes, image a: sizes must be above 0"):
            next(painted)
    monkeypatch.setattr("torch_vocmetrics.io.images.MAX_IMAGE_BYTES", 50)
    with pytest.raises(FileFormatError, match="larger than the limit of 50 bytes"):
        io.read_image_size(path)


def test_a_pipe_is_no_image(tmp_path: Path) -> None:
    path = tmp_path / "pipe.png"
    os.mkfifo(path)
    writer = threading.Thread(target=lambda: path.write_bytes(b""), daemon=True)
    writer.start()
    with pytest.raises(FileFormatError, match="not an image, got no plain file"):
        io.read_image_size(path)


def test_files_without_an_end_and_limits_without_sense(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="larger than the limit of 1,000 bytes"):
        read_bytes(Path("/dev/zero"), max_bytes=1000)
    (tmp_path / "a.txt").write_text("abc")
    assert read_text(tmp_path / "a.txt", max_bytes=10**30) == "abc"
    assert read_bytes(tmp_path / "a.txt", max_bytes=3) == b"abc"
    with pytest.raises(FileFormatError, match="limit of 2 bytes, got 3 bytes"):
        read_bytes(tmp_path / "a.txt", max_bytes=2)


def test_label_images_are_paired_by_name(tmp_path: Path) -> None:
    """Cityscapes: predictions begin with the id; elsewhere they have the name of the truth."""
    names = ("city/truth/a/x_1_gtFine_labelIds.png", "city/found/b/x_1_pred.png")
    for name in (*names, "plain/truth/y.png", "plain/found/c/y.png", "plain/found/y_2.png"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    city, plain = (
        io.pair_label_images(tmp_path / kind / "truth", tmp_path / kind / "found")
        for kind in ("city", "plain")
    )
    assert city == [("x_1", tmp_path / names[0], tmp_path / names[1])]
    truth, found = tmp_path / "plain/truth/y.png", tmp_path / "plain/found/c/y.png"
    assert plain == [("y", truth, found)]


def test_images_of_one_row_are_painted(tmp_path: Path) -> None:
    path = tmp_path / "cat.txt"
    path.write_text("a 0.5 2 1 3 1\n")
    (image,) = io.create_segmentations_from_detections(
        {"cat": path}, {"a": (1, 4)}, class_names=["cat"]
    )
    assert (image.classes != 0).tolist() == [[False, True, True, False]]
