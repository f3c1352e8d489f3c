"""Label images of colours, void labels and label ids, by readers and by the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from torch_vocmetrics import FileFormatError, MeanIoU, VocMetricsWarning, io
from torch_vocmetrics.cli import main

CVAT = """# label:color_rgb:parts:actions
background:0,0,0::
cat:250,50,83::
ignored:224,224,192::
dog:1,2,3::
"""
BLACK, CAT, DOG, VOID = (0, 0, 0), (250, 50, 83), (1, 2, 3), (224, 224, 192)


def save(folder: Path, pixels: Any, name: str = "a.png") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.array(pixels, np.uint8)).save(folder / name)
    return folder / name


def write(folder: Path, text: str = CVAT) -> Path:
    path = folder / "labelmap.txt"
    path.write_text(text)
    return path


def test_colors_of_a_list(tmp_path: Path) -> None:
    image = save(tmp_path, [[BLACK, CAT, DOG, VOID]])
    colors = io.read_label_colors(write(tmp_path))
    assert colors.class_names == ("background", "cat", "dog")
    assert io.read_label_map(image, colors=colors).tolist() == [[0, 1, 2, 255]]
    colors = io.read_label_colors(write(tmp_path), ["dog", "background", "cat"], void_label=-1)
    assert io.read_label_map(image, colors=colors).tolist() == [[1, 2, 0, -1]]
    colors = io.read_label_colors(write(tmp_path), ["background", "cat"])
    with pytest.raises(FileFormatError, match=r"a\.png, pixel \(row 0, column 2\): the colour of"):
        io.read_label_map(image, colors=colors)


def test_colors_of_voc_without_a_list(tmp_path: Path) -> None:
    labels = [[0, 1, 20, 255]]
    image = save(tmp_path, io.voc_colormap()[np.array(labels)])
    assert io.read_label_map(image).tolist() == labels
    image = save(tmp_path, [[BLACK, CAT]])
    with pytest.raises(
        FileFormatError, match=r"column 1\): the colour .* VOC's colours, got \(250"
    ):
        io.read_label_map(image)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cat:1,2", "line 1: not a colour, got 'cat:1,2'"),
        ("\ncat:1,2,256", "line 2: not a colour"),
        ("cat 1 2 3", "line 1: not a colour"),
        (":1,2,3", "line 1: not a colour"),
        ("a:1,2,3\na:1,2,4", "line 2: the name is given twice"),
        ("a:1,2,3\nb:1,2,3", "line 2: the colour is given twice"),
    ],
)
def test_bad_lists(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(FileFormatError, match=said):
        io.read_label_colors(write(tmp_path, text))
    with pytest.raises(FileFormatError, match="no colour of class 'cot'; near names: cat"):
        io.read_label_colors(write(tmp_path), ["cot"])


def test_targets_with_a_channel() -> None:
    labels = torch.tensor([[[0, 1]], [[1, 0]]])
    wanted = MeanIoU("voc2012", num_classes=2).update(labels, labels).compute()
    for targets in (labels[:, None], list(labels[:, None])):
        for predictions in (labels, labels[:, None]):
            got = MeanIoU("voc2012", num_classes=2).update(predictions, targets).compute()
            assert got.confusion_matrix.equal(wanted.confusion_matrix)


def evaluate(folder: Path, *more: str) -> int:
    argv = ["evaluate", "segmentation/voc2012_present_classes", "--ground-truth"]
    argv += [str(folder / "gt"), "--detections", str(folder / "dt"), "--quiet"]
    return main([*argv, "--json", str(folder / "out.json"), *more])


def matrix(folder: Path) -> list[list[int]]:
    return json.loads((folder / "out.json").read_text())["confusion_matrix"]


def test_the_command_reads_colours(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(tmp_path / "gt", [[BLACK, CAT, VOID]])
    save(tmp_path / "dt", [[BLACK, DOG, CAT]])
    colors = str(write(tmp_path))
    assert evaluate(tmp_path, "--label-colors", colors) == 0
    assert matrix(tmp_path) == [[1, 0, 0], [0, 0, 1], [0, 0, 0]]
    assert evaluate(tmp_path) == 2
    assert "--label-colors" in (said := capsys.readouterr().err)
    assert "damaged" not in said


def test_void_and_label_ids(tmp_path: Path) -> None:
    save(tmp_path / "gt", [[0, 7, 9, 3]])
    save(tmp_path / "dt", [[0, 7, 7, 0]])
    argv = ("--classes", "a,b", "--label-ids", "0,7")
    assert evaluate(tmp_path, *argv, "--void", "9,3") == 0
    assert matrix(tmp_path) == [[1, 0], [0, 1]]
    assert evaluate(tmp_path, *argv, "--void", "9") == 2


def test_reduce_zero_label(tmp_path: Path) -> None:
    save(tmp_path / "gt", [[0, 1, 2, 255]])
    save(tmp_path / "dt", [[0, 0, 0, 1]])
    assert evaluate(tmp_path, "--classes", "a,b", "--reduce-zero-label") == 0
    assert matrix(tmp_path) == [[1, 0], [1, 0]]
    assert evaluate(tmp_path, "--classes", "a,b,c") == 0
    assert matrix(tmp_path) == [[1, 0, 0], [1, 0, 0], [1, 0, 0]]


def test_masks_of_black_and_white_are_pointed_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(tmp_path / "gt", [[0] * 100, [255] * 100])
    save(tmp_path / "dt", [[0] * 100, [0] * 100])
    argv = ("--classes", "a,b")
    assert evaluate(tmp_path, *argv) == 0
    assert "hold 0 and 255 alone, and 255 is void" in capsys.readouterr().err
    assert evaluate(tmp_path, *argv, "--label-ids", "0,255", "--void=-1") == 0
    assert matrix(tmp_path) == [[100, 0], [100, 0]]
    save(tmp_path / "gt", [[0, 1]], "b.png")
    save(tmp_path / "dt", [[0, 1]], "b.png")
    capsys.readouterr()
    assert evaluate(tmp_path, *argv) == 0
    assert capsys.readouterr().err == ""


def test_images_at_fault_are_skipped_on_request(tmp_path: Path) -> None:
    for side in ("gt", "dt"):
        save(tmp_path / side, [[0, 1]])
        save(tmp_path / side, [[0, 1]], "b.png")
    (tmp_path / "dt" / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    pairs = io.pair_label_images(tmp_path / "gt", tmp_path / "dt")
    with pytest.raises(FileFormatError, match=r"dt/a\.png"):
        list(io.read_label_pairs(pairs))
    with pytest.warns(VocMetricsWarning, match="1 entry is at fault and left out"):
        assert [one[0] for one in io.read_label_pairs(pairs, on_fault="skip")] == ["b"]
