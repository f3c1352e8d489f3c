"""How the command shows results: formats, order, colours, counts that add up, progress."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from torch_vocmetrics import DetectionAP, InputError, LogAverageMissRate
from torch_vocmetrics.cli import main
from torch_vocmetrics.cli.arguments import SUBCOMMANDS
from torch_vocmetrics.cli.progress import Progress
from torch_vocmetrics.cli.render import aligned
from torch_vocmetrics.results import Table
from torch_vocmetrics.results.result_table import Column, ResultTable

TWELVE = ["AP", "AP50", "AP75", "APs", "APm", "APl", "AR1", "AR10", "AR100", "ARs", "ARm", "ARl"]


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Two images: cat has a true and a false positive, dog|x is missed, cow has no object.

    The crowd of cats absorbs one detection, which is ignored.
    """
    box, far, crowd = [0, 0, 40, 40], [200, 200, 40, 40], [100, 0, 90, 90]
    names = ["cat", "dog|x", "cow"]
    truth = [
        {"id": 1, "image_id": 1, "category_id": 1, "bbox": box, "iscrowd": 0, "area": 1600},
        {"id": 2, "image_id": 1, "category_id": 1, "bbox": crowd, "iscrowd": 1, "area": 8100},
        {"id": 3, "image_id": 2, "category_id": 2, "bbox": box, "iscrowd": 0, "area": 1600},
    ]
    ground_truth = {
        "images": [{"id": 1}, {"id": 2}],
        "categories": [{"id": place + 1, "name": name} for place, name in enumerate(names)],
        "annotations": truth,
    }
    found = [
        {"image_id": 1, "category_id": 1, "bbox": box, "score": 0.9},
        {"image_id": 1, "category_id": 1, "bbox": crowd, "score": 0.8},
        {"image_id": 2, "category_id": 1, "bbox": far, "score": 0.7},
    ]
    (tmp_path / "gt.json").write_text(json.dumps(ground_truth))
    (tmp_path / "dt.json").write_text(json.dumps(found))
    return [
        "evaluate",
        "coco2017",
        "--ground-truth",
        str(tmp_path / "gt.json"),
        "--detections",
        str(tmp_path / "dt.json"),
    ]


def printed(capsys: pytest.CaptureFixture[str], argv: list[str]) -> list[str]:
    assert main(argv) == 0
    return capsys.readouterr().out.splitlines()


def test_twelve_numbers_stand_above_the_classes(files: list[str], capsys: Any) -> None:
    lines = printed(capsys, files)
    assert lines[:3] == ["detection/coco2017", "2 images, 3 detections", ""]
    assert [line.split()[0] for line in lines[3:15]] == TWELVE
    assert lines[3].split() == ["AP", "0.5000"]  # the mean of cat, 1, and of dog, 0
    assert lines[15] == ""
    assert [line.split() for line in lines[16:]] == [
        ["class", "positives", "detections", "TP@0.5", "FP@0.5", "ignored", "AP"],
        ["cat", "1", "3", "1", "1", "1", "1.0000"],
        ["dog|x", "1", "0", "0", "0", "0", "0.0000"],
        ["cow", "0", "0", "0", "0", "0", "not", "in", "the", "mean"],
        ["mean", "over", "2", "classes", "0.5000"],
    ]


@pytest.mark.parametrize(
    ("more", "names"),
    [
        (["--sort", "AP"], ["cat", "dog|x", "cow"]),
        (["--sort", "ap", "--ascending"], ["dog|x", "cat", "cow"]),
        (["--sort", "class"], ["cat", "cow", "dog|x"]),
        (["--sort", "class", "--ascending"], ["dog|x", "cow", "cat"]),
        (["--sort", "tp@0.5", "--top", "1"], ["cat"]),
        (["--sort", "num_positives", "--top", "2"], ["cat", "dog|x"]),
        (["--top", "9"], ["cat", "dog|x", "cow"]),
    ],
)
def test_order(files: list[str], capsys: Any, more: list[str], names: list[str]) -> None:
    lines = printed(capsys, [*files, *more])
    rows = [line.split()[0] for line in lines[17:]]
    assert rows == [*names, "mean"]
    assert lines[-1].split()[-1] == "0.5000"  # the mean is that of all classes


def test_an_unknown_column_is_refused(files: list[str], capsys: Any) -> None:
    assert main([*files, "--sort", "F1"]) == 2
    error = capsys.readouterr().err
    assert "no column 'F1'; the columns are class, positives, detections, TP@0.5" in error


def test_csv(files: list[str], capsys: Any) -> None:
    rows = list(csv.DictReader(printed(capsys, [*files, "--format", "csv", "--sort", "AP"])))
    assert [row["class"] for row in rows] == ["cat", "dog|x", "cow"]
    assert rows[0]["protocol"] == "detection/coco2017"
    assert float(rows[0]["average_precision"]) == pytest.approx(1, abs=1e-12)
    assert rows[2]["average_precision"] == "nan"
    counts = [(row["true_positives"], row["false_positives"], row["ignored"]) for row in rows]
    assert counts == [("1", "1", "1"), ("0", "0", "0"), ("0", "0", "0")]


def test_markdown(files: list[str], capsys: Any) -> None:
    text = "\n".join(printed(capsys, [*files, "--format", "markdown"]))
    title, summary, rows = text.split("\n\n")
    assert title == "**detection/coco2017**: 2 images, 3 detections"
    assert summary.splitlines()[0] == f"| {' | '.join(TWELVE)} |"
    assert rows.splitlines()[1] == f"| --- |{' ---: |' * 6}"
    assert rows.splitlines()[3].startswith(r"| dog\|x | 1 | 0 |")
    assert {line.replace(r"\|", "").count("|") for line in rows.splitlines()} == {8}


def test_json_is_what_the_file_has(files: list[str], tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "out.json"
    lines = printed(capsys, [*files, "--format", "json", "--json", str(path)])
    assert "\n".join(lines) == path.read_text().rstrip("\n")
    content = json.loads(path.read_text(), parse_constant=pytest.fail)
    cat = content["classes"][0]
    for t, threshold in enumerate(content["iou_thresholds"]):
        outcomes = [cat[key][t] for key in ("true_positives", "false_positives", "ignored")]
        assert sum(outcomes) == cat["num_detections"] == 3, threshold
    assert content["headline"] == content["summary"]["AP"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("variables", "colored"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
    ids=str,
)
def test_colors_on_a_terminal(
    files: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: Any,
    variables: dict[str, str],
    colored: bool,
) -> None:
    plain = printed(capsys, files)
    assert "\033" not in "\n".join(plain)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    assert main(files) == 0
    shown = terminal.getvalue()
    assert ("\033[1m" in shown) == colored  # heads and means
    assert ("\033[2mnot in the mean\033[0m" in shown) == colored
    for code in ("\033[0m", "\033[1m", "\033[2m"):
        shown = shown.replace(code, "")
    assert shown.splitlines() == plain, "colours change no width"


def test_errors_and_warnings_are_colored_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert main(["protocols", "voc207"]) == 2
    assert terminal.getvalue().startswith("\033[31mvocmetrics: error:\033[0m unknown protocol")


def test_true_false_and_ignored_are_all_detections() -> None:
    """For random problems under rules that ignore by flag, by area and by subset."""
    generator = torch.Generator().manual_seed(0)
    for protocol in ("voc2007", "coco2017"):
        metric: Any = DetectionAP(protocol, num_classes=3)
        for image in range(5):
            size = torch.rand(40, 2, generator=generator) * 100 + 1
            corner = torch.rand(40, 2, generator=generator) * 30
            boxes = torch.cat([corner, corner + size], dim=1)
            labels = torch.randint(3, (40,), generator=generator)
            scores = torch.rand(40, generator=generator)
            flags = torch.rand(20, generator=generator) < 0.4
            target = {"boxes": boxes[:20] + 1, "labels": labels[:20], "image_id": image}
            target |= {"difficult": flags, "iscrowd": flags}
            metric.update([{"boxes": boxes, "labels": labels, "scores": scores}], [target])
        result = metric.compute()
        total = result.true_positives + result.false_positives + result.ignored
        assert (total == result.num_detections_by_class).all()
        assert result.ignored.sum() > 0
        assert int(result.num_detections_by_class.sum()) == result.num_detections == 200
    box = [[10.0, 10.0, 30.0, 70.0], [200.0, 10.0, 205.0, 25.0]]
    people: Any = LogAverageMissRate("caltech2012")
    rows = {"boxes": box, "labels": [0, 0]}
    result = people.update([rows | {"scores": [0.9, 0.8]}], [rows]).compute()
    assert (result.true_positives + result.false_positives + result.ignored == 2).all()
    assert result.ignored.unique().numel() > 1


def test_help_has_an_example_of_every_command(capsys: Any) -> None:
    for name, subcommand in SUBCOMMANDS.items():
        assert main([name, "--help"]) == 0
        text = capsys.readouterr().out
        assert f"\nExample:\n  vocmetrics {name} " in text
        assert subcommand.example.splitlines()[0] in text


@pytest.mark.parametrize(("done", "left"), [(1, "20 s"), (10, "1 s"), (11, ""), (0, "")])
def test_remaining_time(monkeypatch: pytest.MonkeyPatch, done: int, left: str) -> None:
    """After two seconds; a terminal has a bar, which is cleared at the end."""
    times = iter([0.0, 10.0, 12.0])
    monkeypatch.setattr("torch_vocmetrics.cli.progress.time.monotonic", lambda: next(times))
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with Progress(quiet=False) as progress:
        progress("images matched", 0, 11)
        terminal.truncate(0)
        progress("images matched", done, 11)
        full = 24 * done // 11
        bar = f"[{'#' * full}{'.' * (24 - full)}]"
        expected = f"{bar} {done} of 11 images matched{f', {left} left' if left else ''}"
        assert terminal.getvalue().replace("\0", "") == f"\r\033[K{expected}"
    assert terminal.getvalue().endswith("\r\033[K")


@pytest.mark.parametrize(("seconds", "said"), [(59, "59 s"), (61, "2 min"), (7260, "2 h 1 min")])
def test_remaining_minutes_and_hours(
    monkeypatch: pytest.MonkeyPatch, capsys: Any, seconds: int, said: str
) -> None:
    times = iter([0.0, 0.0, seconds])
    monkeypatch.setattr("torch_vocmetrics.cli.progress.time.monotonic", lambda: next(times))
    progress = Progress(quiet=False)
    progress("files read", 0, 2)
    progress("files read", 1, 2)
    assert capsys.readouterr().err == f"1 of 2 files read, {said} left\n"


def test_merge_evaluates_on_a_device_and_shows_in_every_format(tmp_path: Path, capsys: Any) -> None:
    path = str(tmp_path / "state.npz")
    DetectionAP(["voc2007", "coco2017"], class_names=["a", "b"]).update([], []).save_state(path)
    rows = list(csv.reader(printed(capsys, ["merge", path, "--format", "csv", "--top", "1"])))
    assert [row[:2] for row in rows] == [
        ["protocol", "class"],
        ["detection/voc2007", "a"],
        ["detection/coco2017", "a"],
    ]
    assert main(["merge", path, "--device", "cuda:99"]) == 2
    assert "--device: no such device" in capsys.readouterr().err
    assert len(json.loads("".join(printed(capsys, ["merge", path, "--format", "json"])))) == 1


@pytest.mark.parametrize(
    ("task", "protocol", "results"),
    [
        ("Main", "detection", "comp3_det_test_{class}.txt"),
        ("Main", "classification", "comp1_cls_test_{class}.txt"),
        ("Action", "action", "comp9_action_test_{class}.txt"),
        ("Layout", "layout", "comp7_layout_test.xml"),
        ("Segmentation", "segmentation", ""),
    ],
)
def test_a_missing_image_set_lists_those_there_are(
    tmp_path: Path, capsys: Any, task: str, protocol: str, results: str
) -> None:
    lists = tmp_path / "ImageSets" / task
    lists.mkdir(parents=True)
    for name in ("train", "val"):
        (lists / f"{name}.txt").write_text("a\n")
        (lists / f"running_{name}.txt").write_text("a 1\n")
    (tmp_path / "Annotations").mkdir()
    (tmp_path / "SegmentationClass").mkdir()
    if results.endswith(".xml"):
        (tmp_path / results).write_text("<results></results>")
    argv = ["evaluate", f"{protocol}/voc2012", "--ground-truth", str(tmp_path)]
    assert main([*argv, "--detections", str(tmp_path / results), "--image-set", "none"]) == 2
    error = capsys.readouterr().err
    assert "no image set 'none'" in error
    assert "there are train, val" in error


# The table itself ---------------------------------------------------------------------------------

TABLE = ResultTable(
    title="a <b>",
    counts={"images": 2},
    row_kind="class",
    names=("x", "<script>alert(1)</script>"),
    columns=(
        Column("n", "count", (3, 4)),
        Column("ap", "AP", (0.5, float("nan")), of_mean=True),
        Column("curve", "", (1, 2), data=([1.0], [float("nan")])),
    ),
    is_averaged=(True, False),
    mean={"ap": 0.5},
    num_averaged=1,
    summary={"AP": 0.5, "A<B": float("nan")},
)


def test_cells_and_rows() -> None:
    assert TABLE.cells() == [
        ("class", "count", "AP"),
        ("x", "3", "0.5000"),
        ("<script>alert(1)</script>", "4", "not in the mean"),
        ("mean over 1 classes", "", "0.5000"),
    ]
    assert TABLE.rows()[1] == {"name": TABLE.names[1], "n": 4, "ap": None, "curve": [None]}
    with pytest.raises(InputError, match="no column 'curves'"):
        TABLE.sorted_by("curves")
    assert TABLE.sorted_by("count").rows()[0]["curve"] == [None]


def test_html_of_a_table_is_escaped() -> None:
    text = TABLE.to_html()
    assert "<script" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "a &lt;b&gt;" in text
    assert "A&lt;B" in text
    assert text.count("<tr>") == text.count("</tr>") == 6


def test_aligned_columns() -> None:
    assert aligned([("a", "1"), ("bc", "10")]) == ["a    1", "bc  10"]


@dataclasses.dataclass(frozen=True, eq=False)
class Rows(Table):
    name: tuple[str, ...]
    value: torch.Tensor
    count: torch.Tensor
    level: float


def test_notebooks_show_the_first_rows_of_an_analysis() -> None:
    names = ("<b>x</b>", *map(str, range(39)))
    rows = Rows(names, torch.full((40,), 0.25), torch.arange(40), 0.95)
    text = rows._repr_html_()
    assert "<td>&lt;b&gt;x&lt;/b&gt;</td><td>0.2500</td><td>0</td>" in text
    assert text.count("<tr>") == 31
    assert "10 rows more" in text
    assert "level" not in text
