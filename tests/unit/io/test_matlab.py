"""MATLAB files: values as MATLAB means them, and no damage that is more than an error."""

from __future__ import annotations

import io as streams
import random
import struct
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from torch_vocmetrics import FileFormatError
from torch_vocmetrics.io import read_citypersons_mat, read_vbb
from torch_vocmetrics.io.matlab import load_matlab

DOUBLE, TEXT, CELL, STRUCTURE = 6, 4, 1, 2


def header(order: str = "<") -> bytes:
    return (
        b"MATLAB 5.0".ljust(124)
        + struct.pack(f"{order}H", 0x0100)
        + struct.pack(f"{order}H", 0x4D49)
    )


def element(kind: int, data: bytes, order: str = "<") -> bytes:
    return struct.pack(f"{order}II", kind, len(data)) + data + bytes(-len(data) % 8)


def matrix(
    kind: int, shape: tuple[int, ...], rest: bytes, name: bytes = b"", order: str = "<"
) -> bytes:
    flags = element(6, struct.pack(f"{order}II", kind, 0), order)
    axes = element(5, struct.pack(f"{order}{len(shape)}i", *shape), order)
    return element(14, flags + axes + element(1, name, order) + rest, order)


def doubles(*values: float, order: str = "<", name: bytes = b"") -> bytes:
    """A row of numbers."""
    numbers = element(9, struct.pack(f"{order}{len(values)}d", *values), order)
    return matrix(DOUBLE, (1, len(values)), numbers, name, order)


def text(value: str) -> bytes:
    return matrix(TEXT, (1, len(value)), element(4, value.encode("utf-16-le")))


def structure(shape: tuple[int, ...], names: list[str], *values: bytes, name: bytes = b"") -> bytes:
    fields = b"".join(one.encode().ljust(8, b"\0") for one in names)
    # The length of a name is in the form for up to four bytes.
    length = struct.pack("<HHi", 5, 4, 8)
    return matrix(STRUCTURE, shape, length + element(1, fields) + b"".join(values), name)


def cell(*values: bytes) -> bytes:
    return matrix(CELL, (1, len(values)), b"".join(values))


NAMES = ["id", "pos", "occl", "posv"]


def track(number: float, *box: float, occluded: float = 0.0) -> tuple[bytes, ...]:
    return doubles(number), doubles(*box), doubles(occluded), doubles(0, 0, 0, 0)


def video(*objects: bytes, count: float = 2.0) -> bytes:
    """Two frames: one with these objects, one without."""
    frame = structure((1, len(objects) // len(NAMES)), NAMES, *objects)
    lists = cell(frame, element(14, b""))
    labels = cell(text("person"), text("people"))
    names = ["nFrame", "objLbl", "objLists"]
    return structure((1, 1), names, doubles(count), labels, lists, name=b"A")


@pytest.mark.parametrize("packed", [False, True])
def test_a_video_by_hand(tmp_path: Path, packed: bool) -> None:
    content = video(*track(2, 10, 20, 30.5, 40), *track(1, 1, 2, 3, 4, occluded=1))
    if packed:
        data = zlib.compress(content)
        content = struct.pack("<II", 15, len(data)) + data
    path = tmp_path / "V000.vbb"
    path.write_bytes(header() + content)
    frames = read_vbb(path)
    assert [len(one) for one in frames] == [2, 0]
    first, second = frames[0]
    assert (first.number, first.label, first.occluded) == (2, "people", False)
    assert first.box.tolist() == [10, 20, 30.5, 40]
    assert (second.number, second.label, second.occluded) == (1, "person", True)


@pytest.mark.parametrize(
    ("objects", "count"),
    [
        (track(float("inf"), 1, 2, 3, 4), 2.0),
        (track(float("nan"), 1, 2, 3, 4), 2.0),
        (track(1.5, 1, 2, 3, 4), 2.0),
        (track(3, 1, 2, 3, 4), 2.0),
        (track(0, 1, 2, 3, 4), 2.0),
        (track(1, 1, 2, 3, float("inf")), 2.0),
        (track(1, 1, 2, 3, float("nan")), 2.0),
        (track(1, 1, 2, 3), 2.0),
        (track(1, 1, 2, 3, 4), float("inf")),
        (track(1, 1, 2, 3, 4), float("nan")),
        (track(1, 1, 2, 3, 4), 3.0),
        ((text("1"), *track(1, 1, 2, 3, 4)[1:]), 2.0),
        ((element(14, b""), *track(1, 1, 2, 3, 4)[1:]), 2.0),
        ((cell(doubles(1)), *track(1, 1, 2, 3, 4)[1:]), 2.0),
    ],
)
def test_values_that_are_no_video(tmp_path: Path, objects: tuple[bytes, ...], count: float) -> None:
    path = tmp_path / "V000.vbb"
    path.write_bytes(header() + video(*objects, count=count))
    with pytest.raises(FileFormatError, match=r"V000\.vbb: (not an annotated video|the number of)"):
        read_vbb(path)


def test_both_byte_orders_and_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.mat"
    for order in "<>":
        numbers = element(3, struct.pack(f"{order}6h", 1, 2, 3, 4, 5, -6), order)
        path.write_bytes(header(order) + matrix(DOUBLE, (2, 3), numbers, b"x", order))
        assert load_matlab(path)["x"].tolist() == [[1, 3, 5], [2, 4, -6]]


def test_values_equal_those_of_scipy(tmp_path: Path) -> None:
    """Arrays, text, cells and structures that SciPy writes come back as SciPy reads them."""
    scipy_io = pytest.importorskip("scipy.io")
    cells = np.empty((2, 2), object)
    cells[:] = [[np.arange(6.0).reshape(2, 3), "text"], [np.zeros((0, 0)), {"a": 1, "b": "c"}]]
    content = {
        "numbers": np.arange(24, dtype=np.int16).reshape(2, 3, 4),
        "flags": np.array([[True, False]]),
        "cells": cells,
        "text": "h\u00e9",
        "complex": np.array([[1j]]),
    }
    for compress in (False, True):
        path = tmp_path / "a.mat"
        scipy_io.savemat(str(path), content, do_compression=compress)
        got, expected = load_matlab(path), scipy_io.loadmat(str(path))
        assert np.array_equal(got["numbers"], expected["numbers"])
        assert np.array_equal(got["flags"], expected["flags"])
        assert got["text"] == expected["text"][0]
        assert got["complex"] is None
        assert got["cells"].shape == (2, 2)
        assert np.array_equal(got["cells"][0, 0], expected["cells"][0, 0])
        assert got["cells"][0, 1] == "text"
        assert got["cells"][1, 0].size == 0
        one = got["cells"][1, 1][0, 0]
        assert one["a"].tolist() == [[1]]
        assert one["b"] == "c"


def read_all(path: Path) -> int:
    """How many readers refuse a file; anything but a result or a FileFormatError is raised."""
    refused = 0
    for read in (load_matlab, read_vbb, read_citypersons_mat):
        try:
            read(path)
        except FileFormatError as error:
            said = str(error)
        else:
            continue
        assert str(path) in said
        refused += 1
    return refused


def test_damage_is_an_error(tmp_path: Path) -> None:
    """Every cut, and every byte changed, of a whole file."""
    path = tmp_path / "V000.vbb"
    whole = header() + video(*track(2, 10, 20, 30.5, 40))
    random.seed(0)
    for place in range(0, len(whole), 7):
        path.write_bytes(whole[:place])
        assert read_all(path) > 0
    for place in range(120, len(whole), 3):
        for value in (0xFF, random.randrange(256)):
            path.write_bytes(whole[:place] + bytes([value]) + whole[place + 1 :])
            read_all(path)


@pytest.mark.parametrize(
    "content",
    [
        matrix(DOUBLE, (2**16, 2**15), b"", b"x"),
        matrix(CELL, (2**15, 2**15), b"", b"x"),
        matrix(CELL, (1, 2**21), bytes(2**21), b"x"),
        structure((1, 2**21), [], bytes(2**21), name=b"x"),
        matrix(DOUBLE, (-1, -1), element(9, bytes(8)), b"x"),
        matrix(DOUBLE, (1,), element(9, bytes(8)), b"x"),
        matrix(DOUBLE, (1,) * 64, element(9, bytes(8)), b"x"),
        matrix(DOUBLE, (1, 2), element(9, bytes(8)), b"x"),
        matrix(DOUBLE, (1, 1), element(99, bytes(8)), b"x"),
        matrix(TEXT, (1, 1), element(16, b"\xff"), b"x"),
        matrix(STRUCTURE, (1, 1), element(5, bytes(4)) + element(1, b"a"), b"x"),
        struct.pack("<II", 15, 4) + b"abcd",
        struct.pack("<II", 14, 2**32 - 1),
    ],
)
def test_sizes_are_compared_with_the_bytes(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.mat"
    path.write_bytes(header() + content)
    tracemalloc.start()
    with pytest.raises(FileFormatError, match=r"a\.mat: a damaged MATLAB file"):
        load_matlab(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**24


def nested(depth: int) -> bytes:
    content = doubles(1)
    for _ in range(depth):
        content = cell(content)
    return content


def test_depth_and_growth_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "a.mat"
    path.write_bytes(header() + nested(16))
    load_matlab(path)
    path.write_bytes(header() + nested(17))
    with pytest.raises(FileFormatError, match="16 in each other"):
        load_matlab(path)
    packed = zlib.compress(bytes(2**24))
    bomb = header() + (struct.pack("<II", 15, len(packed)) + packed) * 4
    path.write_bytes(bomb)
    with pytest.raises(FileFormatError, match="compressed parts are larger than the limit"):
        load_matlab(path, max_bytes=2**20)
    with pytest.raises(FileFormatError, match="larger than the limit of 1,000 bytes"):
        load_matlab(path, max_bytes=1000)


def test_other_files(tmp_path: Path) -> None:
    path = tmp_path / "a.mat"
    for content in (b"", b"text", bytes(200), b"MATLAB 7.3 MAT-file".ljust(200), header()[:126]):
        path.write_bytes(content)
        with pytest.raises(FileFormatError, match="not a MATLAB file of version 5"):
            load_matlab(path)
    path.write_bytes(header())
    assert load_matlab(path) == {}


def test_numpy_saves_are_no_matlab_files(tmp_path: Path) -> None:
    stream: Any = streams.BytesIO()
    np.savez(stream, a=np.zeros(100))
    path = tmp_path / "a.mat"
    path.write_bytes(stream.getvalue())
    assert read_all(path) == 3
