"""The command line: what it prints, what it writes, how it fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from torch_vocmetrics import __version__, load_protocol
from torch_vocmetrics.cli import main

OBJECT = (
    "<object><name>{name}</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>10</xmax>"
    "<ymax>10</ymax></bndbox></object>"
)


@pytest.fixture
def kit(tmp_path: Path) -> Path:
    """Two images; a dog found, a person missed, and a results file for two of 20 classes."""
    (tmp_path / "ImageSets" / "Main").mkdir(parents=True)
    (tmp_path / "ImageSets" / "Main" / "val.txt").write_text("000001\n000002\n")
    (tmp_path / "Annotations").mkdir()
    for image_id, name in (("000001", "dog"), ("000002", "person")):
        text = f"<annotation>{OBJECT.format(name=name)}</annotation>"
        (tmp_path / "Annotations" / f"{image_id}.xml").write_text(text)
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "comp4_det_val_dog.txt").write_text(
        "000002 0.9 1 1 10 10\n000001 0.8 1 1 10 10\n"
    )
    (tmp_path / "results" / "comp4_det_val_cat.txt").write_text("")
    return tmp_path


@pytest.fixture
def coco(tmp_path: Path) -> Path:
    """An instances file of one image and two categories, and its results."""
    box = [0, 0, 10, 10]
    ground_truth = {
        "images": [{"id": 1}],
        "categories": [{"id": 4, "name": "traffic light"}, {"id": 8, "name": "dog"}],
        "annotations": [{"id": 1, "image_id": 1, "category_id": 8, "bbox": box}],
    }
    results = [{"image_id": 1, "category_id": 8, "bbox": box, "score": 0.5}]
    (tmp_path / "gt.json").write_text(json.dumps(ground_truth))
    (tmp_path / "dt.json").write_text(json.dumps(results))
    return tmp_path


def voc(kit: Path, *more: str, protocol: str = "detection/voc2007") -> list[str]:
    pattern = str(kit / "results" / "comp4_det_val_{class}.txt")
    given = ["--ground-truth", str(kit), "--image-set", "val", "--detections", pattern]
    return ["evaluate", protocol, *given, *more]


def of_coco(folder: Path, *more: str, protocol: str = "detection/coco2017") -> list[str]:
    given = ["--ground-truth", str(folder / "gt.json"), "--detections", str(folder / "dt.json")]
    return ["evaluate", protocol, *given, *more]


def as_json(capsys: pytest.CaptureFixture[str], argv: list[str]) -> dict[str, Any]:
    assert main([*argv, "--json", "-"]) == 0
    return json.loads(capsys.readouterr().out, parse_constant=pytest.fail)


def test_table(kit: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(voc(kit, "--classes", "cat,dog,person")) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["detection/voc2007", "2 images, 2 detections"]
    assert [line.split() for line in lines[3:]] == [
        ["class", "positives", "detections", "TP@0.5", "FP@0.5", "ignored", "AP"],
        ["cat", "0", "0", "0", "0", "0", "not", "in", "the", "mean"],
        ["dog", "1", "2", "1", "1", "0", "0.5000"],
        ["person", "1", "0", "0", "0", "0", "0.0000"],
        ["mean", "over", "2", "classes", "0.2500"],
    ]
    assert len({len(line) for line in lines[3:]}) == 1


def test_json(kit: Path, capsys: pytest.CaptureFixture[str]) -> None:
    got = as_json(capsys, voc(kit, "--classes", "cat,dog,person,sofa"))
    assert got["protocol"] == "detection/voc2007"
    assert len(got["fingerprint"]) == 64
    names = [entry["class_name"] for entry in got["classes"]]
    assert names == ["cat", "dog", "person", "sofa"]
    assert got["classes"][1] == {
        "class_name": "dog",
        "average_precision": 0.5000000000000001,
        "num_positives": 1,
        "num_detections": 2,
        "true_positives": [1],
        "false_positives": [1],
        "ignored": [0],
    }
    assert got["not_entered"] == ["person", "sofa"]
    assert (got["num_images"], got["num_classes_averaged"]) == (2, 2)
    assert got["summary"]["mAP"] == got["mean_average_precision"] == 0.5000000000000001 / 2
    assert got["summary"]["AP/dog"] == 0.5000000000000001


def test_undefined_is_null_and_a_word(coco: Path, capsys: pytest.CaptureFixture[str]) -> None:
    got = as_json(capsys, of_coco(coco))
    full = 0.9999999999999998  # 1 / (1 + numpy.spacing(1)), as pycocotools has it
    assert [entry["average_precision"] for entry in got["classes"]] == [None, full]
    assert got["summary"]["APs"] == full
    assert got["summary"]["APl"] is None
    assert got["not_entered"] == []
    assert main(of_coco(coco)) == 0
    assert "undefined" in capsys.readouterr().out


def test_a_file_and_quiet(kit: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "out.json"
    (kit / "results" / "comp4_det_val_person.txt").touch()
    assert main(voc(kit, "--json", str(path), "--quiet")) == 0
    assert capsys.readouterr() == ("", "")
    assert json.loads(path.read_text())["summary"]["mAP"] == 0.5000000000000001 / 2


def test_other_thresholds_and_limits(coco: Path, capsys: pytest.CaptureFixture[str]) -> None:
    got = as_json(capsys, of_coco(coco, "--iou-thresholds", ".5,.75", "--max-detections", "2,5"))
    assert got["iou_thresholds"] == [0.5, 0.75]
    assert got["protocol"] == "detection/coco2017 (own rules)"
    assert {"AR2", "AR5", "AP75"} <= got["summary"].keys()
    assert got["classes"][1]["true_positives"] == [1, 1]


def test_files_of_one_kind_by_rules_of_the_other(
    kit: Path, coco: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert as_json(capsys, of_coco(coco, protocol="voc2010"))["summary"]["mAP"] == 1.0
    by_coco = as_json(capsys, voc(kit, "--classes", "cat,dog", protocol="coco2017"))
    assert by_coco["classes"][1]["true_positives"] == [1] * 10
    assert by_coco["classes"][0]["average_precision"] is None


def test_a_choice_of_categories(coco: Path, capsys: pytest.CaptureFixture[str]) -> None:
    got = as_json(capsys, of_coco(coco, "--classes", "traffic light"))
    assert [entry["class_name"] for entry in got["classes"]] == ["traffic light"]
    assert got["num_detections"] == 0


def test_the_classes_are_those_of_the_year(kit: Path, capsys: pytest.CaptureFixture[str]) -> None:
    got = as_json(capsys, voc(kit, protocol="voc2006"))
    assert len(got["classes"]) == 10
    assert "sofa" not in got["not_entered"]


def test_a_protocol_file(kit: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shipped = Path(__file__).parents[3] / "configs" / "protocols" / "detection" / "voc2007.toml"
    text = shipped.read_text().replace('["voc2007", "voc2008", "voc2009"]', '["mine"]')
    path = tmp_path / "mine.toml"
    path.write_text(text.replace("iou_thresholds = [0.5]", "iou_thresholds = [0.3]"))
    got = as_json(capsys, voc(kit, protocol=str(path)))
    assert (got["protocol"], got["iou_thresholds"]) == ("detection/mine (own rules)", [0.3])
    assert main(["protocols", str(path)]) == 0
    assert "iou_thresholds = [0.3]" in capsys.readouterr().out


def test_protocols(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["protocols"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert any(line.startswith("detection/voc2012 ") for line in listed)
    assert main(["protocols", "--json"]) == 0
    entries = json.loads(capsys.readouterr().out)
    assert [line.split()[0] for line in listed] == [entry["name"] for entry in entries]
    for entry in entries:
        assert main(["protocols", entry["name"], "--json"]) == 0
        shown = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
        assert (shown["name"], shown["title"]) == (entry["name"], entry["title"])
        assert main(["protocols", entry["name"]]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert f"headline: {shown['headline']}" == lines[1]
        assert max(map(len, lines)) < 190  # the widest table
        assert shown["rules"].keys() == shown["sources"].keys()
        assert all(shown["sources"].values())


def test_the_rules_of_a_protocol_are_legible(capsys: pytest.CaptureFixture[str]) -> None:
    """Area ranges and subsets are tables, long lists are cut, and the headline is named."""
    assert main(["protocols", "coco2017"]) == 0
    coco = capsys.readouterr().out
    assert "headline: mean average precision at IoU 0.5 to 0.95 (10), area range all\n" in coco
    table = coco.split("area_ranges =\n")[1].splitlines()[:5]
    assert [line.split() for line in table] == [
        ["name", "lower", "upper"],
        ["all", "0", "1e+10"],
        ["small", "0", "1024"],
        ["medium", "1024", "9216"],
        ["large", "9216", "1e+10"],
    ]
    levels = coco.split("recall_levels = ")[1].split("]")[0] + "]"
    assert json.loads(levels) == list(load_protocol("coco2017").recall_levels)
    assert main(["protocols", "miss_rate/kaist"]) == 0
    kaist = capsys.readouterr().out.splitlines()
    assert kaist[1] == "headline: log-average miss rate of the first subset, Reasonable-all"
    assert "0.01778279410038923, 0.03162277660168379" in "\n".join(kaist)
    (night,) = (line for line in kaist if line.split()[:1] == ["Reasonable-night"])
    assert "[55, 1e+10]" in night
    assert "[[1455, 2252]]" in night
    for name, words in {
        "voc2007": "mean average precision at IoU 0.5, area range all",
        "segmentation/voc2012": "mean intersection over union over all classes",
        "segmentation/voc2007": "mean pixel recall over all classes",
        "segmentation/cityscapes": "mean intersection over union over classes that occur",
        "classification/voc2006": "mean area under the ROC curve",
        "layout/voc2010": "mean average precision over parts",
        "layout/voc2007": "average precision of whole layouts",
    }.items():
        assert main(["protocols", name]) == 0
        assert capsys.readouterr().out.splitlines()[1] == f"headline: {words}"


def test_a_warning_is_a_line(coco: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (
        (coco / "gt.json")
        .read_text()
        .replace('"annotations": [{"id": 1', '"annotations": [{"id": 0')
    )
    (coco / "gt.json").write_text(text)
    assert main(of_coco(coco)) == 0
    error = capsys.readouterr().err
    assert error.startswith("vocmetrics: warning: ")
    assert error.count("\n") == 1


def failure(capsys: pytest.CaptureFixture[str], argv: list[str]) -> str:
    assert main(argv) == 2
    out, error = capsys.readouterr()
    assert out == ""
    return error


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--image-set", "test"], "no image set 'test'; there are val"),
        (["--classes", "sofa"], "none of the 1 classes has a results file"),
        (["--classes", "dog,dog"], "distinct names with commas between"),
        (["--detections", "dog.txt"], "write {class} where the class stands"),
        (["--ground-truth", "gt.xml"], "neither a folder nor a .json file"),
        (["--ground-truth", "none.json"], "none.json: No such file or directory"),
        (["--iou-thresholds", "x"], "numbers with commas between, got 'x'"),
        (["--iou-thresholds", "2"], "iou_thresholds must be a list of 1 or more rising numbers"),
        (["--max-detections", "0"], "max_detections must be distinct positive integers"),
        (["--device", "tpu"], "--device: must be cpu, cuda or cuda:N, got 'tpu'"),
        (["--device", "cuda:99"], "--device: no such device"),
        (["--json", "no/such/folder/out.json"], "the folder does not exist"),
        (["--max-file-size", "0"], "a whole number from 1 to 999999999, got '0'"),
        (["--max-file-size", "1" + 30 * "0"], "a whole number from 1 to 999999999"),
    ],
)
def test_failures_are_one_sentence(
    kit: Path, capsys: pytest.CaptureFixture[str], more: list[str], said: str
) -> None:
    error = failure(capsys, voc(kit, *more))
    assert said in error
    assert error.splitlines()[-1].startswith("vocmetrics")
    assert "Traceback" not in error


def test_other_failures(kit: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "near names: detection/voc2007" in failure(capsys, voc(kit, protocol="voc207"))
    assert "no.toml" in failure(capsys, voc(kit, protocol="no.toml"))
    assert "near names" in failure(capsys, ["protocols", "voc207"])
    assert "required" in failure(capsys, ["evaluate"])
    (kit / "Annotations" / "000002.xml").write_text("<!DOCTYPE x><annotation/>")
    assert "000002.xml, line 1: document types" in failure(capsys, voc(kit))


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"vocmetrics {__version__}\n"
    assert main(["evaluate", "--help"]) == 0
    assert "{class}" in capsys.readouterr().out


def test_progress_is_shown_after_a_while(
    kit: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(0, 10_000, 4))
    monkeypatch.setattr("torch_vocmetrics.cli.progress.time.monotonic", lambda: next(clock))
    assert main(voc(kit)) == 0
    assert "of 2 annotations read\n" in capsys.readouterr().err
    assert main(voc(kit, "--quiet")) == 0
    assert " of 2 " not in capsys.readouterr().err


def test_letters_that_steer_a_terminal_are_spelt_out(
    coco: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (coco / "gt.json").read_text().replace("traffic light", r"\u001b[31m\ud800")
    (coco / "gt.json").write_text(text)
    assert main(of_coco(coco)) == 0
    assert r"\x1b[31m\ud800 " in capsys.readouterr().out


def test_python_dash_m_and_a_closed_pipe(kit: Path) -> None:
    root = Path(__file__).parents[3]
    environment = os.environ | {"PYTHONPATH": str(root)}
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "torch_vocmetrics", "protocols"],
        stdout=writer,
        stderr=subprocess.PIPE,
        env=environment,
        check=False,
        text=True,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_package_loads_neither_readers_nor_command() -> None:
    code = (
        "import sys, torch_vocmetrics as t; "
        "print([m for m in sys.modules if m.startswith((t.__name__ + '.io', t.__name__ + '.cli'))])"
    )
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        check=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(root)},
    )
    assert done.stdout == "[]\n"
