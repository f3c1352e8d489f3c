"""Every format of a file that the package reads: whole files to damage, and what reads them."""

from __future__ import annotations

import functools
import json
import re
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from helpers.support import shared_file
from PIL import Image

from torch_vocmetrics import DetectionAP, LogAverageMissRate, Metric, io, load_protocol
from torch_vocmetrics.cli.pictures import find_picture, read_picture
from torch_vocmetrics.io.image_names import ImageIndex
from torch_vocmetrics.io.voc_results import read_results
from torch_vocmetrics.protocols import config_root

from .mutations import (
    Damage,
    bytes_damaged,
    json_damaged,
    matlab_damaged,
    png_damaged,
    words_damaged,
)

LARGEST_SEED = 35_000


class Format(NamedTuple):
    """A format of a file.

    Attributes:
        name: of the file, with its ending.
        damage: what is done to whole files.
        seeds: gives whole files.
        read: reads a file, and gives what it read to a metric where that is what it is read for.
    """

    name: str
    damage: Damage
    seeds: Callable[[], list[bytes]]
    read: Callable[[Path], object]


@functools.cache
def members(pattern: str, most: int = 4) -> list[bytes]:
    """Small files of the fixtures' trees whose name fits a pattern."""
    path = shared_file("fixtures", "trees.zip")
    if not path.is_file():
        return []
    with zipfile.ZipFile(path) as archive:
        sizes = {one.filename: one.file_size for one in archive.infolist()}
        names = [name for name in sorted(sizes) if re.search(pattern, name)]
        small = [name for name in names if 0 < sizes[name] <= LARGEST_SEED]
        return [archive.read(name) for name in small[:: max(1, len(small) // most)]]


def written(name: str, write: Callable[[Path], object]) -> bytes:
    """The bytes of a file that a function writes."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / name)
        return (Path(folder) / name).read_bytes()


# Whole files --------------------------------------------------------------------------------------

BOX = (3.0, 4.0, 20.5, 30.0)
HEAD = io.VocPart(name="head", box=BOX)
ANNOTATION = io.VocAnnotation(
    image_size=(40, 60),
    filename="a.jpg",
    objects=(
        io.VocObject(name="cat", box=BOX, difficult=True),
        io.VocObject(
            name="person", box=BOX, parts=(HEAD,), actions={"running": True}, point=(1.0, 2.0)
        ),
    ),
)
PLAIN = io.VocAnnotation(image_size=(40, 60), objects=(io.VocObject(name="cat", box=BOX),))
SQUARE = [3.0, 4.0, 20.5, 4.0, 20.5, 30.0, 3.0, 30.0]
RUNS = {"size": [40, 60], "counts": [100, 50, 2250]}
COCO = {
    "images": [{"id": k, "height": 40, "width": 60, "file_name": f"{k}.jpg"} for k in (1, 2)],
    "categories": [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}],
    "annotations": [
        {"id": 1, "image_id": 1, "category_id": 1, "bbox": [3, 4, 17.5, 26], "area": 455.0,
         "iscrowd": 0, "segmentation": [SQUARE], "ignore": 0, "vis_ratio": 0.9, "height": 26},
        {"id": 2, "image_id": 2, "category_id": 2, "bbox": [3, 4, 17.5, 26], "area": 50,
         "iscrowd": 1, "segmentation": RUNS, "ignore": 0, "vis_ratio": 1.0, "height": 26},
    ],
}  # fmt: skip
RESULTS = [
    {"image_id": 1, "category_id": 1, "bbox": [3, 4, 17, 26], "score": 0.9, "segmentation": RUNS},
    {"image_id": 2, "category_id": 2, "bbox": [3, 4, 17, 26], "score": 1, "segmentation": [SQUARE]},
]
PERSONS = {
    "ID": "a",
    "gtboxes": [
        {"tag": "person", "fbox": [3, 4, 17, 26], "extra": {"ignore": 0}},
        {"tag": "mask", "fbox": [3, 4, 17, 26], "extra": {"ignore": 1}},
    ],
}
FOUND = {"ID": "a", "height": 40, "width": 60, "dtboxes": [{"box": [3, 4, 17, 26], "score": 0.5}]}


def as_json(content: object) -> Callable[[], list[bytes]]:
    return lambda: [json.dumps(content).encode()]


def lines(text: str, pattern: str = "") -> Callable[[], list[bytes]]:
    return lambda: [text.encode(), *(members(pattern) if pattern else [])]


def pngs() -> list[bytes]:
    labels = np.arange(60, dtype=np.uint8).reshape(6, 10) % 21
    wide = labels.astype(np.int64) * 500
    palette = written("a.png", lambda path: io.write_label_map(path, labels))
    deep = written("a.png", lambda path: io.write_label_map(path, wide))
    return [palette, deep, *members(r"\.png$")]


def images() -> list[bytes]:
    pixels = np.random.default_rng(0).integers(0, 255, (24, 32, 3), dtype=np.uint8)
    streams = [BytesIO(), BytesIO()]
    for stream, form in zip(streams, ("JPEG", "PNG"), strict=True):
        Image.fromarray(pixels).save(stream, format=form)
    return [stream.getvalue() for stream in streams]


def state() -> list[bytes]:
    rows = {"boxes": torch.tensor([BOX]), "labels": torch.tensor([0])}
    metric = DetectionAP("coco2017", num_classes=2)
    metric.update([rows | {"scores": torch.tensor([0.5])}], [rows | {"image_id": 3}])
    return [written("a.npz", metric.save_state)]


def matlab() -> list[bytes]:
    """A cell of a structure with a table of numbers, as CityPersons has them, compressed."""

    def element(kind: int, data: bytes) -> bytes:
        return struct.pack("<II", kind, len(data)) + data + bytes(-len(data) % 8)

    def matrix(kind: int, shape: tuple[int, int], rest: bytes, name: bytes = b"") -> bytes:
        flags, axes = struct.pack("<II", kind, 0), struct.pack("<2i", *shape)
        return element(14, element(6, flags) + element(5, axes) + element(1, name) + rest)

    numbers = struct.pack("<20d", *[1, 2] * 10)
    table = matrix(6, (2, 10), element(9, numbers))
    names = struct.pack("<HHi", 5, 4, 8) + element(1, b"bbs".ljust(8, b"\0"))
    packed = zlib.compress(matrix(1, (1, 1), matrix(2, (1, 1), names + table), b"anno"))
    header = b"MATLAB 5.0".ljust(124) + b"\x00\x01IM"
    return [header + struct.pack("<II", 15, len(packed)) + packed]


# Readers ------------------------------------------------------------------------------------------


@functools.cache
def truth(kind: str) -> Any:
    """Ground truth of whole files, to read damaged detections with."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "gt"
        if kind == "odgt":
            path.write_text(json.dumps(PERSONS))
            return io.read_crowdhuman_ground_truths(path, {"a": (40, 60)})
        path.write_text(json.dumps(COCO))
        if kind == "pedestrians":
            return io.read_pedestrian_json(path)
        return io.read_coco_ground_truths(path, masks=True)


def evaluate_coco(predictions: Any, truths: io.GroundTruthFile) -> object:
    metric = DetectionAP(
        "coco2017_segm", class_names=truths.class_names, label_ids=truths.label_ids,
        box_format="xywh",
    )  # fmt: skip
    return metric.update(predictions, truths.targets).compute()


def coco_truth(path: Path) -> object:
    # Entries at fault are left out: what remains is read in any case that is not refused.
    found = io.read_coco_ground_truths(path, masks=True, on_fault="skip")
    predictions = [
        {key: one[key] for key in ("boxes", "labels", "masks")}
        | {"scores": torch.full((len(one["labels"]),), 0.5)}
        for one in found.targets
    ]
    return evaluate_coco(predictions, found)


def coco_results(path: Path) -> object:
    found = io.read_coco_detections(path, truth("coco"), masks=True, on_fault="skip")
    return evaluate_coco(found.predictions, truth("coco"))


def miss_rates(predictions: Any, truths: io.GroundTruthFile, protocol: str) -> object:
    metric = LogAverageMissRate(protocol, box_format="xywh")
    return metric.update(predictions, truths.targets).compute()


def without_detections(truths: io.GroundTruthFile, protocol: str) -> object:
    none = {"boxes": torch.zeros(0, 4), "scores": torch.zeros(0), "labels": torch.zeros(0).long()}
    return miss_rates([none] * len(truths.targets), truths, protocol)


def pedestrian_truth(path: Path) -> object:
    return without_detections(io.read_pedestrian_json(path), "citypersons2017")


def pedestrian_results(path: Path) -> object:
    found = io.read_pedestrian_detections(path, truth("pedestrians"))
    return miss_rates(found.predictions, truth("pedestrians"), "citypersons2017")


def odgt_truth(path: Path) -> object:
    found = io.read_crowdhuman_ground_truths(path, {"a": (40, 60)})
    return without_detections(found, "crowdhuman2018")


def odgt_results(path: Path) -> object:
    io.read_crowdhuman_sizes(path)
    found = io.read_crowdhuman_detections(path, truth("odgt"))
    return miss_rates(found.predictions, truth("odgt"), "crowdhuman2018")


def video(path: Path) -> object:
    folder = path.parent / "set00"
    folder.mkdir(exist_ok=True)
    path.replace(folder / "V000.vbb")
    found = io.read_caltech_ground_truths(path.parent, step=1)
    return without_detections(found, "caltech2012")


def video_results(path: Path) -> object:
    (path.parent / "set00").mkdir(exist_ok=True)
    (path.parent / "set00" / "V000.vbb").write_bytes(members(r"\.vbb$", 1)[0])
    (path.parent / "results" / "set00").mkdir(parents=True, exist_ok=True)
    path.replace(path.parent / "results" / "set00" / "V000.txt")
    found = io.read_caltech_ground_truths(path.parent, step=1)
    detections = io.read_caltech_detections(path.parent / "results", path.parent, step=1)
    return miss_rates(detections.predictions, found, "caltech2012")


def any_image(path: Path) -> object:
    folder = path.parent / "JPEGImages"
    folder.mkdir(exist_ok=True)
    target = path.replace(folder / "a.jpg")
    return io.read_image_size(target), read_picture(find_picture(path.parent, "a"))


def conditions(path: Path) -> object:
    return io.read_bb_gt_objects(path, io.Conditions(squarify=(3, 0.41), height_range=(1.0, 50.0)))


def _protocols() -> list[bytes]:
    """A protocol of each task."""
    tasks = sorted((config_root() / "protocols").iterdir())
    return [min(task.glob("*.toml")).read_bytes() for task in tasks]


VIDEOS = r"\.vbb$"
SETS = "000001 1\n000002 -1\n000003 0\n"
ROWS = "a 0.9 1 2 3 4\nb 0.5 1.5 2 30 4\n"
FRAMES = "1,3,4,17,26,0.5\n2 3 4 17 26 0.4\n"
BB_GT = "% bbGt version=3\nperson 1 2 3 4 0 0 0 0 0 0 0\npeople 1 2 3 4 1 1 2 3 2 0 30\n"

FORMATS = (
    Format(
        "annotation.xml",
        words_damaged,
        lambda: [
            written("a.xml", lambda path: io.write_annotation(path, ANNOTATION)),
            *members("Annotations.*xml$"),
        ],
        io.read_annotation,
    ),
    Format(
        "annotation.txt",
        words_damaged,
        lambda: [written("a.txt", lambda path: io.write_annotation(path, PLAIN))],
        io.read_annotation,
    ),
    Format(
        "layouts.xml",
        words_damaged,
        lambda: [
            written(
                "a.xml",
                lambda path: io.write_layouts(
                    path, [io.VocLayout(image_id="a", confidence=0.5, parts=(HEAD,), box=BOX)]
                ),
            ),
            *members("layout.*results.*xml$"),
        ],
        io.read_layouts,
    ),
    Format("set.txt", words_damaged, lines("a\nb 1\n", "Main/test.txt"), io.read_image_set),
    Format("cat_set.txt", words_damaged, lines(SETS, "ImageSets/Main/.*_.*txt"), io.read_class_set),
    Format("objects.txt", words_damaged, lines("a 1\nb 2\n"), io.read_object_set),
    Format(
        "scores.txt",
        words_damaged,
        lines("a 0.5\nb NaN\na -Inf\n"),
        lambda path: io.read_scores(path, {"a": 0, "b": 1}),
    ),
    Format(
        "results.txt",
        words_damaged,
        lines(ROWS),
        lambda path: read_results(path, ImageIndex(["a", "b"])),
    ),
    Format("gt.json", json_damaged, as_json(COCO), coco_truth),
    Format("instances.json", json_damaged, as_json(COCO), io.voc_from_coco),
    Format("dt.json", json_damaged, as_json(RESULTS), coco_results),
    Format("pedestrians.json", json_damaged, as_json(COCO), pedestrian_truth),
    Format("pedestrian_results.json", json_damaged, as_json(RESULTS), pedestrian_results),
    Format("gt.odgt", json_damaged, as_json(PERSONS), odgt_truth),
    Format("dt.odgt", json_damaged, as_json(FOUND), odgt_results),
    Format("V000.vbb", matlab_damaged, lambda: members(VIDEOS) or matlab(), video),
    Format("anno.mat", matlab_damaged, matlab, io.read_citypersons_mat),
    Format("bb_gt.txt", words_damaged, lines(BB_GT, r"gt/I.*\.txt$"), conditions),
    Format(
        "indexed.txt",
        words_damaged,
        lines(FRAMES),
        lambda path: io.read_indexed_detections(path, truth("coco")),
    ),
    Format("map.png", png_damaged, pngs, io.read_label_map),
    Format("image.jpg", bytes_damaged, images, any_image),
    Format("protocol.toml", words_damaged, _protocols, load_protocol),
    Format("state.npz", bytes_damaged, state, lambda path: Metric.from_states(path).compute()),
    *([Format("V000.txt", words_damaged, lines(FRAMES), video_results)] if members(VIDEOS) else []),
)
