"""``--save-state`` on shards and ``vocmetrics merge``: the whole, or a reason."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from torch_vocmetrics import DetectionAP
from torch_vocmetrics.cli import main


def coco_files(folder: Path, images: range) -> list[str]:
    """Ground truth and detections of some of twelve images, with many ties of score."""
    truth: list[dict[str, Any]] = []
    found: list[dict[str, Any]] = []
    for image in images:
        for place in range(image % 4):
            box = [10 * place, 5 * image, 40, 30 + image]
            truth.append({"image_id": image, "category_id": 1 + place % 2, "bbox": box})
            near = [box[0] + image % 5, *box[1:]]
            found.append(truth[-1] | {"bbox": near, "score": (image * 5 + place) % 3 / 2})
        found.append({"image_id": image, "category_id": 1, "bbox": [0, 0, 9, 9], "score": 0.5})
    name = f"{images.start}_{images.stop}_{images.step}"
    ground_truth = {
        "images": [{"id": image} for image in images],
        "categories": [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}],
        "annotations": [one | {"id": number + 1} for number, one in enumerate(truth)],
    }
    paths = (folder / f"gt_{name}.json", folder / f"dt_{name}.json")
    for path, content in zip(paths, (ground_truth, found), strict=True):
        path.write_text(json.dumps(content))
    return ["--ground-truth", str(paths[0]), "--detections", str(paths[1])]


def evaluated(capsys: pytest.CaptureFixture[str], *argv: str) -> dict[str, Any]:
    assert main([*argv, "--json", "-"]) == 0
    return json.loads(capsys.readouterr().out)


def shards(folder: Path, parts: list[range]) -> list[str]:
    paths = []
    for number, images in enumerate(parts):
        paths.append(str(folder / f"state_{number}.npz"))
        given = coco_files(folder, images)
        argv = ["evaluate", "detection/coco2017", *given, "--save-state", paths[-1], "--quiet"]
        assert main(argv) == 0
    return paths


@pytest.mark.parametrize(
    "parts",
    [
        [range(12)],
        [range(5), range(5, 12)],
        [range(0, 12, 3), range(1, 12, 3), range(2, 12, 3)],
        [range(1), range(1, 12)],
        [range(8), range(4, 12)],
    ],
    ids=["whole", "blocks", "strides", "uneven", "overlapping"],
)
def test_shards_give_the_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], parts: list[range]
) -> None:
    whole = evaluated(capsys, "evaluate", "detection/coco2017", *coco_files(tmp_path, range(12)))
    paths = shards(tmp_path, parts)
    for order in itertools.permutations(paths):
        capsys.readouterr()
        assert main(["merge", *order, "--json", "-"]) == 0
        out, err = capsys.readouterr()
        got = json.loads(out)
        assert got["summary"] == whole["summary"]
        assert (got["num_images"], got["num_states"]) == (12, len(parts))
        assert got["fingerprint"] == whole["fingerprint"]
        assert ("4 repeated images were dropped" in err) == (parts[0] == range(8))
    assert main(["merge", *paths]) == 0
    merged = capsys.readouterr().out
    assert main(["evaluate", "detection/coco2017", *coco_files(tmp_path, range(12))]) == 0
    assert merged == capsys.readouterr().out


def test_merged_states_merge_further(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = shards(tmp_path, [range(4), range(4, 8), range(8, 12)])
    between = str(tmp_path / "between.npz")
    assert main(["merge", *paths[:2], "--save-state", between, "--quiet"]) == 0
    twice = evaluated(capsys, "merge", between, paths[2])
    once = evaluated(capsys, "merge", *paths)
    assert twice["summary"] == once["summary"]


def test_several_protocols_in_one_state(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "state.npz")
    DetectionAP(["voc2007", "coco2017"], class_names=["a"]).update([], []).save_state(path)
    got = evaluated(capsys, "merge", path)
    names = [one["protocol"] for one in got["results"]]
    assert names == ["detection/voc2007", "detection/coco2017"]
    assert main(["merge", path]) == 0
    assert "detection/coco2017\n0 images, 0 detections\n" in capsys.readouterr().out


def test_refusals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (path,) = shards(tmp_path, [range(3)])
    other = str(tmp_path / "other.npz")
    DetectionAP("voc2007", class_names=["cat", "dog"]).save_state(other)
    text = tmp_path / "text"
    text.write_text("mAP 0.5")
    missing = str(tmp_path / "missing")
    for argv, words in (
        (["merge", path, other], f"{other}: the states are of different protocols"),
        (["merge", str(text)], f"{text}: not a state file of torch_vocmetrics"),
        (["merge", missing], f"{missing}: No such file"),
        (["merge", path, "--save-state", f"{missing}/x"], "the folder does not exist"),
    ):
        assert main(argv) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert words in err
        assert len(err.splitlines()) == 1


@pytest.mark.parametrize("path", ["/dev/full", "/dev/null"])
def test_a_state_goes_to_a_plain_file_only(
    path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = coco_files(tmp_path, range(3))
    assert main(["evaluate", "detection/coco2017", *given, "--save-state", path]) == 2
    printed = capsys.readouterr()
    assert f"--save-state {path}: only a plain file can be replaced" in printed.err
    assert not printed.out
