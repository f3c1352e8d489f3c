"""Reports as HTML: what is in them, that text does no harm, and that nothing is loaded."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from torch_vocmetrics import (
    ClassificationAP,
    DetectionAP,
    InputError,
    LayoutAP,
    LogAverageMissRate,
    MeanIoU,
    analysis,
)
from torch_vocmetrics.cli import main
from torch_vocmetrics.cli.report import folder_hash
from torch_vocmetrics.report import compare, report
from torch_vocmetrics.report.page import Section, cell, page, table_view

pytest.importorskip("jinja2", reason="reports need the extra report")
pytest.importorskip("matplotlib", reason="reports need the extra report")

SCRIPT = "<script>alert(1)</script>"
QUOTED = "a\"b'c><img src=x onerror=alert(2)>"
VOID = {"meta", "link", "img", "br"}


class Parsed(HTMLParser):
    """A page as tables, texts and attributes; tags must be closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.texts: list[str] = []
        self._caption, self._rows, self._inside = "", list[list[str]](), ""
        self.feed(text)
        self.close()
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self._rows, self._caption = [], ""
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th"):
            self._rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> without its begin"
        assert self.open.pop() == tag
        if tag == "table":
            self.tables[self._caption] = self._rows

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        if "caption" in self.open:
            self._caption += data
        elif self.open and self.open[-1] in ("td", "th"):
            self._rows[-1][-1] += data

    def attributes(self, name: str) -> list[str]:
        return [attributes[name] for _, attributes in self.tags if name in attributes]


def detector(seed: int = 0, protocol: str = "voc2007", **options: Any) -> Any:
    """A metric after random images; one class and one image have names that attack the page."""
    generator = torch.Generator().manual_seed(seed)
    names = [SCRIPT, "cat & dog", "cow"]
    metric: Any = DetectionAP(protocol, class_names=names, diagnostics=True, **options)
    objects = torch.Generator().manual_seed(99)
    for image in range(14):
        corner = torch.randint(0, 200, (9, 2), generator=objects)
        boxes = torch.cat([corner, corner + torch.randint(20, 90, (9, 2), generator=objects)], 1)
        labels = torch.randint(3, (9,), generator=objects)
        moved = boxes[:7] + torch.randint(0, 15, (7, 1), generator=generator)
        found = torch.where(torch.rand(7, generator=generator) < 0.2, 0, labels[:7])
        scores = torch.rand(7, generator=generator)
        name = QUOTED if image == 0 else f"image {image}"
        prediction = {"boxes": moved, "labels": found, "scores": scores}
        metric.update([prediction], [{"boxes": boxes, "labels": labels, "image_id": name}])
    return metric


def picture(_: object) -> Image.Image:
    return Image.new("RGB", (900, 500), "green")


@pytest.fixture(scope="module")
def html() -> str:
    return report(detector(), picture=picture, files={QUOTED: "0" * 64}, num_resamples=20)


@pytest.fixture(scope="module")
def parsed(html: str) -> Parsed:
    return Parsed(html)


def check_page(text: str) -> Parsed:
    """What holds of every page."""
    found = Parsed(text)
    assert text.startswith("<!DOCTYPE html>")
    ids = found.attributes("id")
    assert len(set(ids)) == len(ids)
    links = found.attributes("href")
    assert {link[1:] for link in links if link.startswith("#")} == set(ids), "every part is linked"
    assert all(link.startswith(("#", "data:,")) for link in links)
    assert all(source.startswith("data:image/") for source in found.attributes("src"))
    assert sum(tag == "script" for tag, _ in found.tags) == 1
    assert not [name for _, attributes in found.tags for name in attributes if name[:2] == "on"]
    images = [attributes for tag, attributes in found.tags if tag == "img"]
    assert all(one["alt"] and int(one["width"]) and int(one["height"]) for one in images)
    for caption, rows in found.tables.items():
        assert len({len(row) for row in rows}) == 1, caption
    return found


def test_the_page_is_sound(html: str) -> None:
    found = check_page(html)
    headings = {"summary", "curves", "classes", "errors", "confusion", "images", "missed"}
    assert headings | {"false-positives", "provenance"} == set(found.attributes("id"))


def test_only_the_scripts_of_the_page_may_run(html: str) -> None:
    (policy,) = (
        attributes["content"]
        for tag, attributes in Parsed(html).tags
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert "default-src 'none'" in policy
    script = html.split("<script>")[1].split("</script>", maxsplit=1)[0]
    digest = hashlib.sha256(script.encode()).digest()
    assert f"'sha256-{base64.b64encode(digest).decode()}'" in policy


def test_names_are_text(html: str, parsed: Parsed) -> None:
    assert SCRIPT not in html
    assert "<img src=x" not in html
    words = [text for table in parsed.tables.values() for row in table for text in row]
    assert SCRIPT in words
    assert QUOTED in words


def test_numbers_are_those_of_the_result(parsed: Parsed) -> None:
    metric = detector()
    result = metric.compute()
    summary = parsed.tables["Numbers of the whole"]
    assert summary[1][:2] == ["mAP", f"{result.headline:.4f}"]
    lower, upper = map(float, summary[1][2].split(" to "))
    assert lower < result.headline < upper
    bootstrap = analysis.bootstrap(metric, num_resamples=20)["mAP"]
    assert (lower, upper) == pytest.approx((bootstrap.lower, bootstrap.upper), abs=5e-5)
    head, *rows, mean = parsed.tables["3 rows, which the headings sort"]
    assert head[:3] == ["class", "AP", "95% interval"]
    for k, row in enumerate(rows):
        of_class = dict(zip(head, row, strict=True))
        assert of_class["class"] == result.class_names[k]
        assert of_class["AP"] == f"{float(result.average_precision[k]):.4f}"
        counts = [int(of_class[key]) for key in ("TP@0.5", "FP@0.5", "ignored", "detections")]
        assert sum(counts[:3]) == counts[3] == int(result.num_detections_by_class[k])
    assert mean[:2] == ["mean over 3", f"{result.headline:.4f}"]


def test_errors_images_and_missed_objects_are_those_of_the_analyses(parsed: Parsed) -> None:
    metric = detector()
    errors = analysis.error_kinds(metric)
    kinds = {row[0]: row[1:] for row in parsed.tables["Errors by kind"][1:]}
    for kind, count, cost in zip(errors.kind, errors.count, errors.cost, strict=True):
        assert kinds[kind] == [f"{int(count):,}", f"{float(cost):.4f}"]
    false = analysis.false_positives(metric)
    shown = parsed.tables["By falling score"][1:]
    assert [row[0] for row in shown] == list(map(str, false.image_id[:20]))
    assert [float(row[2]) for row in shown] == pytest.approx(false.score[:20].tolist(), abs=5e-5)
    missed = analysis.missed_objects(metric)
    rows = parsed.tables["By falling area in square pixels"][1:]
    areas = [int(row[2].replace(",", "")) for row in rows]
    assert areas == sorted((round(float(area)) for area in missed.area), reverse=True)[:20]
    worst = [float(row[1]) for row in parsed.tables["Worst images by F1"][1:]]
    assert worst == sorted(worst)


def test_confusions_are_between_different_classes(parsed: Parsed) -> None:
    metric = detector()
    score = analysis.score_curves(metric).best_common().score[0]
    matrix = analysis.confusion_matrix(metric, score=float(score))
    classes, wanted = len(matrix.names) - 1, {}
    for row in range(classes):
        for column in range(classes):
            if row != column and matrix.counts[row, column]:
                key = (matrix.names[row], matrix.names[column])
                wanted[key] = int(matrix.counts[row, column])
    rows = parsed.tables["The most frequent confusions"][1:]
    assert {(row[0], row[1]): int(row[2]) for row in rows} == wanted
    assert [int(row[2]) for row in rows] == sorted(wanted.values(), reverse=True)


def test_every_rule_has_its_source(parsed: Parsed) -> None:
    rules = detector().compute().protocol
    rows = {row[0]: row[1:] for row in parsed.tables["Rules"][1:]}
    assert rows.keys() == rules.rules.keys()
    assert "VOCevaldet" in rows["comparison"][1]
    facts = dict(parsed.tables["Versions and files"][1:])
    assert facts["fingerprint of the rules"] == rules.fingerprint
    assert facts[QUOTED] == "0" * 64
    own = Parsed(report(detector(iou_thresholds=[0.3]), num_resamples=0))
    sources = {row[0]: row[2] for row in own.tables["Rules"][1:]}
    assert sources["iou_thresholds"] == "own rules"
    assert "VOCevaldet" in sources["comparison"]
    assert "95% interval" not in own.tables["Numbers of the whole"][0]


@pytest.mark.slow
def test_pictures_are_small_and_few(html: str) -> None:
    pictures = re.findall(r"data:image/jpeg;base64,[^\"]*\" width=\"(\d+)\" height=\"(\d+)\"", html)
    assert len(pictures) == 12 + 6 + 6
    assert set(pictures) == {("640", "356")}
    assert "legend" in html
    without = report(detector(), num_resamples=0)
    assert "image/jpeg" not in without
    assert "rgb(255, 255, 0)" not in without, "a legend without pictures"
    assert len(without) < 1_000_000


def other_metrics() -> dict[str, Any]:
    generator = torch.Generator().manual_seed(3)
    scores = torch.rand(50, 2, generator=generator)
    classified: Any = ClassificationAP("voc2007", class_names=["cat", SCRIPT])
    classified.update(scores, (scores > 0.4).long() * 2 - 1)
    pixels = torch.randint(4, (2, 9, 9), generator=generator)
    segmented: Any = MeanIoU("voc2012_present_classes", class_names=["a", "b", SCRIPT, "d"])
    segmented.update(pixels, pixels.roll(1, 1))
    person = {"part_boxes": [[1, 1, 9, 9]], "part_labels": [0], "part_counts": [1]}
    person |= {"object_index": [1]}
    layout = LayoutAP("voc2012").update([person | {"scores": [0.5]}], [person])
    people: Any = LogAverageMissRate("caltech2012", diagnostics=True)
    box = [[10.0, 10.0, 40.0, 90.0], [200.0, 10.0, 240.0, 110.0]]
    target = {"boxes": box, "labels": [0, 0], "image_id": QUOTED}
    people.update([{"boxes": box[:1], "labels": [0], "scores": [0.9]}], [target])
    empty: Any = DetectionAP("coco2017", class_names=["a"], diagnostics=True)
    plain: Any = DetectionAP("coco2017", class_names=["a", "b"])
    plain.update([{"boxes": box[:1], "labels": [0], "scores": [7.0]}], [target])
    return {
        "classification": classified,
        "segmentation": segmented,
        "layout": layout,
        "pedestrians": people,
        "coco": detector(protocol="coco2017"),
        "empty": empty,
        "without diagnostics": plain,
    }


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:compute.. came before update")
@pytest.mark.parametrize("name", list(other_metrics()))
def test_other_metrics(name: str) -> None:
    metric = other_metrics()[name]
    found = check_page(report(metric, num_resamples=10))
    result = metric.compute()
    value = "undefined" if math.isnan(result.headline) else f"{result.headline:.4f}"
    assert value in found.texts
    assert "Rules" in found.tables
    if name == "without diagnostics":
        assert "errors" not in found.attributes("id")


def test_two_detectors(tmp_path: Path) -> None:
    metrics = detector(0), detector(1)
    path = tmp_path / "compare.html"
    text = compare(
        *metrics, path, names=(SCRIPT, "new"), pictures=(picture, picture), num_resamples=20
    )
    assert path.read_text() == text
    found = check_page(text)
    first, second = (metric.compute() for metric in metrics)
    paired = analysis.paired_bootstrap(metrics[1], metrics[0], num_resamples=20)
    head, whole = found.tables["Numbers of the whole"]
    assert head[:4] == ["number", SCRIPT, "new", "difference"]
    change = second.headline - first.headline
    numbers = [first.headline, second.headline, change]
    assert whole[1:4] == [f"{number:.4f}" for number in numbers]
    assert whole[5] == f"{paired.p_value_of('mAP'):.4f}"
    for what, count in (("Classes", 3), ("Images", None)):
        rows = found.tables[f"{what} by the size of the change"][1:]
        sizes = [abs(float(row[3])) for row in rows]
        assert sizes == sorted(sizes, reverse=True)
        assert len(sizes) == (count or len(sizes)) > 0
    assert f"{change:+.4f}" in found.texts
    assert f"new minus {SCRIPT}, each number with its interval" in found.attributes("alt")


@pytest.mark.filterwarnings("ignore:compute.. came before update")
def test_what_cannot_be_compared_or_reported() -> None:
    with pytest.raises(InputError, match="the protocols differ"):
        compare(detector(), detector(protocol="coco2017"))
    both: Any = DetectionAP(["voc2007", "coco2017"], class_names=["a"])
    with pytest.raises(InputError, match="a report is about one protocol, got voc2007, coco2017"):
        report(both)
    with pytest.raises(InputError, match="a comparison is about one protocol"):
        compare(both, both)


@pytest.mark.parametrize(("module", "extra"), [("jinja2", "report"), ("matplotlib", "plots")])
def test_without_a_library_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, module: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError, match=rf"pip install 'torch_vocmetrics\[{extra}\]'"):
        report(detector(), num_resamples=0)


def test_cells() -> None:
    assert cell(1234) == ("1,234", 1234.0, True)
    assert cell(0.12345) == ("0.1235", 0.12345, True)
    assert cell(math.nan) == ("undefined", "", True)
    assert cell("x\x1b[2J") == (r"x\x1b[2J", "x\x1b[2J", False)
    view = table_view("c", {"a": ["x", "y"], "b": [1, 2]}, most=1)
    assert [[one.text for one in row] for row in view.rows] == [["x", "1"]]
    text = page(SCRIPT, [(SCRIPT, SCRIPT)], [Section("a", SCRIPT, SCRIPT), Section("b", "empty")])
    assert SCRIPT not in text
    assert "#b" not in text


# The commands -------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Instances and results of two detectors, of which the second misses the dog."""
    box = [10, 10, 20, 20]
    truth = {
        "images": [{"id": 1, "file_name": "one.png"}, {"id": 2, "file_name": "two.png"}],
        "categories": [{"id": 4, "name": SCRIPT}, {"id": 8, "name": "dog"}],
        "annotations": [
            {"id": 1, "image_id": 1, "category_id": 8, "bbox": box, "area": 400},
            {"id": 2, "image_id": 2, "category_id": 4, "bbox": box, "area": 400},
        ],
    }
    found = [
        {"image_id": 1, "category_id": 8, "bbox": box, "score": 0.9},
        {"image_id": 2, "category_id": 4, "bbox": box, "score": 0.8},
    ]
    (tmp_path / "gt.json").write_text(json.dumps(truth))
    (tmp_path / "good.json").write_text(json.dumps(found))
    (tmp_path / "poor.json").write_text(json.dumps(found[1:]))
    (tmp_path / "images").mkdir()
    Image.new("RGB", (60, 40), "white").save(tmp_path / "images" / "one.png")
    return ["--ground-truth", str(tmp_path / "gt.json"), "--resamples", "10"]


def test_the_command_report(files: list[str], tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "report.html"
    argv = ["report", "coco2017", *files, "--detections", str(tmp_path / "good.json")]
    argv += ["--output", str(out), "--images", str(tmp_path / "images")]
    assert main(argv) == 0
    printed = capsys.readouterr()
    assert printed.out == f"{out}\n"
    assert "no such image, got two.png" in printed.err, "it is named, and the page goes on"
    text = out.read_text()
    found = check_page(text)
    assert "image/jpeg" in text
    facts = dict(found.tables["Versions and files"][1:])
    for name in ("gt.json", "good.json"):
        digest = hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()
        assert facts[str(tmp_path / name)] == digest
    assert "coco2017: good" in found.texts
    assert main(argv) == 2
    assert "the file exists" in capsys.readouterr().err
    assert main([*argv, "--force", "--title", SCRIPT, "--quiet"]) == 0
    assert SCRIPT not in out.read_text()
    assert capsys.readouterr().out == ""


def test_the_command_compare(files: list[str], tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "compare.html"
    pair = [str(tmp_path / "good.json"), str(tmp_path / "poor.json")]
    assert main(["compare", "coco2017", *pair, *files, "--output", str(out)]) == 0
    assert capsys.readouterr().out == f"good 1.0000 and poor 0.5000\n{out}\n"
    found = check_page(out.read_text())
    assert "-0.5000" in found.texts
    assert main(["compare", "coco2017", *pair, *files, "--output", str(tmp_path / "no" / "x")]) == 2
    assert "the folder does not exist" in capsys.readouterr().err


def test_the_hash_of_a_folder_is_that_of_all_annotations(tmp_path: Path) -> None:
    folder = tmp_path / "Annotations"
    folder.mkdir()
    (folder / "a.xml").write_text("1")
    (folder / "a.jpg").write_text("image")
    first = folder_hash(tmp_path)
    (folder / "a.jpg").write_text("another image")
    assert folder_hash(tmp_path) == first
    (folder / "a.xml").write_text("2")
    assert folder_hash(tmp_path) != first
    (folder / "a.xml").write_text("1")
    (folder / "a.xml").rename(folder / "b.xml")
    assert folder_hash(tmp_path) != first
