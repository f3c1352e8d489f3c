"""The benchmarks run and say what they did; nothing here is about time."""

from __future__ import annotations

import importlib
import importlib.util
import json
import multiprocessing
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PEER = "pycocotools"  # the one that is always installed
MACHINE = {"cpu", "cores", "system", "python", "torch", "numpy", "torch_vocmetrics"}
VERDICT = {"what", "measured", "limit", "unit", "passed"}
ENTRY = {
    "version", "pairs", "seconds", "ours_seconds", "cpu_seconds", "ours_cpu_seconds",
    "time_ratio", "peak_bytes", "memory_ratio",
    "difference", "tolerance", "parity", "rival", "runs_ours_theirs",
}  # fmt: skip

if not (ROOT / "benchmarks").is_dir():
    pytest.skip("the benchmarks are not beside the tests", allow_module_level=True)


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports a module of the benchmarks."""
    monkeypatch.syspath_prepend(str(ROOT))
    return lambda name: importlib.import_module(f"benchmarks.{name}")


def run(module: str, path: Path, *arguments: str) -> tuple[int, str, Any]:
    """Exit code, what was printed, and the results."""
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{module}", "--json", str(path), *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert path.exists(), done.stdout + done.stderr[-3000:]
    assert str(ROOT) not in path.read_text()
    return done.returncode, done.stdout, json.loads(path.read_text())


# The workload -------------------------------------------------------------------------------------


def test_workload_is_deterministic(benchmark: Any) -> None:
    make = benchmark("workloads").coco_shaped
    first, again, other = make(40), make(40), make(40, seed=1)
    for mine, same in ((first.predictions, again.predictions), (first.targets, again.targets)):
        for one, two in zip(mine, same, strict=True):
            assert one.keys() == two.keys()
            assert all(torch.equal(one[key], two[key]) for key in one)
    assert not torch.equal(first.predictions[0]["boxes"], other.predictions[0]["boxes"])


def test_workload_has_the_promised_shape(benchmark: Any) -> None:
    workload = benchmark("workloads").coco_shaped(1000)
    assert workload.num_detections == 100_000
    assert 0.8 * 7200 < workload.num_objects < 1.2 * 7200
    labels = torch.cat([one["labels"] for one in workload.targets])
    counts = torch.bincount(labels, minlength=80).sort(descending=True).values
    assert counts[0] > 10 * counts[40]
    boxes = torch.cat([one["boxes"] for one in workload.predictions])
    assert ((boxes[:, 2:] - boxes[:, :2]) > 0).all()
    crowds = torch.cat([one["iscrowd"] for one in workload.targets])
    assert 0 < int(crowds.sum()) < 0.03 * len(crowds)
    for one in workload.predictions:
        assert one["scores"].dtype == one["boxes"].dtype == torch.float32
        assert bool((one["scores"].diff() <= 0).all())


def test_workload_is_no_jitter_of_the_truth(benchmark: Any) -> None:
    """Most boxes are background; AP is that of a detector; scores tell overlap, but not all."""
    from torch_vocmetrics import DetectionAP  # noqa: PLC0415

    workload = benchmark("workloads").coco_shaped(400)
    metric: Any = DetectionAP("coco2017", num_classes=80)
    metric.update(workload.predictions, workload.targets)
    result = metric.compute()
    assert 0.2 < result.headline < 0.5
    assert int(result.true_positives[0].sum()) < 0.1 * workload.num_detections
    best, scores = [], []
    for found, true in zip(workload.predictions, workload.targets, strict=True):
        if len(true["labels"]):
            overlap = box_iou(found["boxes"], true["boxes"])
            best.append(overlap.max(dim=1).values)
            scores.append(found["scores"])
    correlation = np.corrcoef(torch.cat(best), torch.cat(scores))[0, 1]
    assert 0.4 < correlation < 0.95


def box_iou(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    low = torch.maximum(first[:, None, :2], second[None, :, :2])
    high = torch.minimum(first[:, None, 2:], second[None, :, 2:])
    inter = (high - low).clamp(min=0).prod(dim=2)
    areas = [(boxes[:, 2:] - boxes[:, :2]).prod(dim=1) for boxes in (first, second)]
    return inter / (areas[0][:, None] + areas[1][None] - inter)


def test_plain_loop_is_the_official_rule(benchmark: Any) -> None:
    """On boxes of two images: a hit, a second hit, a difficult one, a miss."""
    box, other = [1.0, 1, 10, 10], [50.0, 50, 60, 60]
    found = [box, box, other, [30.0, 30, 40, 40]]
    predictions = [
        {
            "boxes": torch.tensor(found, dtype=torch.float64),
            "scores": torch.tensor([0.9, 0.8, 0.7, 0.6], dtype=torch.float64),
            "labels": torch.zeros(4, dtype=torch.int64),
            "order": torch.arange(4),
        }
    ]
    targets = [
        {
            "boxes": torch.tensor([box, other], dtype=torch.float64),
            "labels": torch.zeros(2, dtype=torch.int64),
            "difficult": torch.tensor([False, True]),
        }
    ]
    workload = benchmark("workloads").Workload("two", predictions, targets, 1)
    competitors = benchmark("competitors")
    values = competitors.ours_voc(workload.packed())
    assert benchmark("voc_loop").voc_loop(workload.packed()) == values
    assert competitors.ours_voc_by_batches(workload) == values
    assert values[1] == pytest.approx(1.0)


# The runners --------------------------------------------------------------------------------------


def test_runner_with_two_competitors(tmp_path: Path) -> None:
    code, text, found = run(
        "detection", tmp_path / "out.json", "--images", "20", "--pairs", "1", "--only", "coco",
        "--peers", PEER, "hotcoco StreamingEval",
    )  # fmt: skip
    assert code == 0, text
    (content,) = found.values()
    assert content["machine"].keys() >= MACHINE
    assert not content["judged"]
    assert "not judged" in text
    assert PEER in content["peers"]
    for name, entry in content["peers"].items():
        assert entry.keys() == ENTRY
        assert entry["parity"], name
        assert name in text
        assert entry["seconds"] > 0
        assert entry["peak_bytes"] > 0
    assert len(content["ours"]["numbers"]) == 12
    assert all(verdict.keys() == VERDICT for verdict in content["verdicts"])
    assert len(content["verdicts"]) == 5


def test_every_shape_is_what_it_says(benchmark: Any) -> None:
    shapes = benchmark("shapes").SHAPES
    assert len(shapes) >= 8
    for name, shape in shapes.items():
        first, again = (shape.workload(name, 50) for _ in range(2))
        assert torch.equal(first.predictions[0]["boxes"], again.predictions[0]["boxes"])
        assert len(first.predictions) == len(first.targets) == min(shape.images, 50)
        assert first.batch == shape.batch
        assert first.num_objects > 0
        labels = torch.cat([one["labels"] for one in (*first.predictions, *first.targets)])
        assert 0 <= int(labels.min()) <= int(labels.max()) < shape.classes
        boxes = torch.cat([one["boxes"] for one in (*first.predictions, *first.targets)])
        assert bool((boxes[:, 2:] > boxes[:, :2]).all())
    empty = shapes["mostly empty images"].workload("empty", 2000)
    assert sum(len(one["labels"]) > 0 for one in empty.targets) < 200


def test_shapes_in_small(tmp_path: Path) -> None:
    names = ["few classes, few boxes", "near misses, images one by one"]
    code, text, found = run(
        "detection", tmp_path / "out.json", "--only", "shapes", "--shapes", *names,
        "--images", "8", "--pairs", "1", "--peers", "hotcoco StreamingEval",
    )  # fmt: skip
    assert code == 0, text
    assert list(found["shapes"]) == names


def test_situations_in_small(tmp_path: Path) -> None:
    """Processes spin beside the benchmark, and are gone behind it."""
    if importlib.util.find_spec("hotcoco") is None:
        pytest.skip("no rival is installed")
    code, text, found = run(
        "detection", tmp_path / "out.json", "--only", "situations", "--busy", "1",
        "--images", "8", "--pairs", "1", "--peers", "hotcoco StreamingEval",
    )  # fmt: skip
    assert code == 0, text
    assert list(found["situations"]) == ["idle", "busy 1"]
    assert "| busy 1 |" in text


def test_spinners_end(benchmark: Any) -> None:
    with benchmark("load").spinners(1):
        assert len(multiprocessing.active_children()) == 1
    assert not multiprocessing.active_children()


def test_situations_of_every_metric_in_small(tmp_path: Path) -> None:
    kinds = ["boxes", "masks", "mean IoU", "miss rate", "merged states"]
    code, text, found = run("situations", tmp_path / "out.json", "--images", "8", "--only", *kinds)
    assert code == 0, text
    assert list(found["rows"]) == kinds
    for row in found["rows"].values():
        assert row.keys() == {"idle", "busy", "16 threads"}
        assert all(one["equal"] for one in row.values())
    assert found["rows"]["mean IoU"]["idle"]["ratio"] > 0
    assert found["rows"]["miss rate"]["idle"]["ratio"] is None


def test_situations_name_what_is_missed(benchmark: Any) -> None:
    def row(ratio: float | None, cpu: float, *, equal: bool = True) -> dict[str, Any]:
        return {"ratio": ratio, "cpu_seconds": cpu, "equal": equal}

    misses = benchmark("situations").misses
    good = {"idle": row(0.55, 1.0), "busy": row(0.35, 1.3), "16 threads": row(9.0, 1.3)}
    assert not misses("boxes", good)
    assert not misses("boxes", {name: row(None, 1.0) for name in good})
    (missed,) = misses("boxes", good | {"busy": row(0.36, 1.0)})
    assert missed == "boxes, busy: 0.36 of the peer's seconds (0.35)"
    (missed,) = misses("boxes", good | {"16 threads": row(0.1, 1.31)})
    assert missed == "boxes: 1.31 of the CPU seconds idle (1.3)"
    (missed,) = misses("boxes", good | {"idle": row(0.1, 1.0, equal=False)})
    assert missed == "boxes, idle: other numbers"


def test_run_lengths_in_small(tmp_path: Path) -> None:
    pytest.importorskip("faster_coco_eval")
    code, text, found = run("run_lengths", tmp_path / "out.json", "--images", "2", "--rounds", "1")
    assert code == 0, text
    assert all(row["parity"] for row in found["rows"])


def test_numbers_that_differ_are_an_error(benchmark: Any) -> None:
    detection = benchmark("detection")
    assert detection.difference([0.5, float("nan")], [0.5, float("nan")]) == 0
    assert detection.difference([0.5], [0.25]) == 0.25
    assert detection.difference([0.5], [float("nan")]) == float("inf")
    content: Any = {"peers": {"x": {"parity": False}}}
    assert not detection.report(content, [], judged=False)
    missed = detection.Verdict("time", 2.0, 1.0, "s")
    good: Any = {"peers": {"x": {"parity": True}}}
    assert detection.report(good, [missed], judged=False)
    assert not detection.report(good, [missed], judged=True)


def test_scale_in_small(tmp_path: Path) -> None:
    code, text, found = run("scale", tmp_path / "out.json", "--sizes", "2000", "4000")
    assert code == 0, text
    assert [row["detections"] for row in found["rows"]] == [2000, 4000]
    assert all(row["state_bytes"] > 9 * row["detections"] for row in found["rows"])
    assert not found["judged"]
    assert len(found["verdicts"]) == 2


def test_gpu_check_on_the_cpu_claims_nothing(tmp_path: Path) -> None:
    arguments = ("--device", "cpu", "--images", "40", "--repeats", "1", "--cases", "4")
    code, text, found = run("gpu_check", tmp_path / "out.json", *arguments)
    assert code == 0, text
    assert found["machine"].keys() >= MACHINE
    assert found["success"] is False
    assert "NO SUCCESS" in text
    assert {part["status"] for part in found["parts"]} == {"not run"}
    details = [part["detail"] for part in found["parts"] if "arrays_compared" in str(part)]
    assert len(details) == 5
    assert all(detail["arrays_compared"] > 50 for detail in details)
    assert all(detail["differing"] == [] for detail in details)


def test_gpu_check_needs_every_part_to_pass(benchmark: Any) -> None:
    check = benchmark("gpu_check")
    entries = [{"part": name, "status": check.PASSED} for name in check.PARTS]
    assert check.conclusion(entries)[0]
    assert not check.conclusion(entries[:-1])[0]
    assert not check.conclusion(entries, cases=3)[0]
    for status in (check.NOT_RUN, check.FAILED):
        assert not check.conclusion([*entries[:-1], entries[-1] | {"status": status}])[0]
    setting = check.Setting(torch.device("cuda"), None, 1)
    bits = benchmark("bits")
    assert check.judged(bits.Comparison(), setting)["status"] == check.FAILED
    assert check.judged(bits.Comparison(1, 1, ["x"]), setting)["status"] == check.FAILED
    assert check.judged(bits.Comparison(1, 1, []), setting)["status"] == check.PASSED


@pytest.mark.skipif(torch.cuda.is_available(), reason="says what happens without a device")
def test_gpu_check_without_a_device_fails(
    benchmark: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert benchmark("gpu_check").main([]) == 2
    assert "NO SUCCESS" in capsys.readouterr().out


def test_bits_tell_signs_shapes_and_types(benchmark: Any) -> None:
    bits = benchmark("bits")
    zero = {"x": torch.zeros(2), "y": (1.0, "a", None)}
    assert bits.compare("same", zero, {"x": torch.zeros(2), "y": (1.0, "a", None)}).differing == []
    for other in (
        {"x": -torch.zeros(2), "y": (1.0, "a", None)},
        {"x": torch.zeros(1, 2), "y": (1.0, "a", None)},
        {"x": torch.zeros(2).int(), "y": (1.0, "a", None)},
        {"x": torch.zeros(2), "y": (float(np.nextafter(1, 2)), "a", None)},
        {"x": torch.zeros(2)},
    ):
        assert bits.compare("other", zero, other).differing


def test_bootstrap_says_what_it_measured(benchmark: Any, tmp_path: Path) -> None:
    benchmark("bootstrap").main(
        ["--resamples", "3", "--images", "20", "--json", str(tmp_path / "out.json")]
    )
    content = json.loads((tmp_path / "out.json").read_text())
    assert set(content["machine"]) == MACHINE
    assert all(set(verdict) == VERDICT for verdict in content["verdicts"])
    assert content["rows"][0]["detections"] == 2000
    assert content["rows"][0]["difference"] < 1e-12


# Past one machine ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "arguments", "words"),
    [
        ("sharding", ["--ranks", "2", "--detections", "2000", "--runs", "1"], "| 2 |"),
        ("merge", ["--files", "2", "--detections", "2000", "--whole"], "| in memory |"),
        ("soak", ["--epochs", "10"], "slope"),
    ],
)
def test_past_one_machine(module: str, arguments: list[str], words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{module}", *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert words in done.stdout, done.stderr[-3000:]
