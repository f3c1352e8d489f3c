"""From files to numbers: CPU seconds and peak memory, beside hotcoco and beside an earlier version.

Two COCO files are written, an instances file and a results file of 100 detections an image, and two
of masks for each form in which ground truth has them. Each evaluator reads them in a process of its
own, in alternation, with its library imported before the clock starts; all numbers must be equal.
Where the real VOC2007 test set is there (see :mod:`workloads`), its XML and results are read as
well, and ``--before`` names a checkout of an earlier version to compare with. Exit code 1 if
numbers differ or a limit is missed.
"""

# ruff: noqa: PLC0415 - each process loads its own library and no other
from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.competitors import NUMBERS, PeakMemory
from benchmarks.workloads import COCO_IMAGES, VOC_RESULTS, coco_shaped, shared_data

TIME_LIMIT, MASKS_LIMIT, MEMORY_LIMIT, BEFORE_LIMIT = 1.2, 0.8, 3.0, 0.5
TRUTH, RESULTS = "instances.json", "results.json"
CHUNK = 512
MASK_IMAGES = 1200
Row = dict[str, Any]


def write_coco(folder: Path, images: int) -> None:
    """An instances file and a results file, boxes in hundredths of a pixel."""
    workload = coco_shaped(images)
    listed = [
        {"id": i + 1, "file_name": f"{i + 1:012d}.jpg", "height": 480, "width": 640}
        for i in range(images)
    ]
    objects: list[Row] = []
    results: list[Row] = []
    for number, (found, true) in enumerate(
        zip(workload.predictions, workload.targets, strict=True), 1
    ):
        columns = (true["labels"], true["area"].double(), true["iscrowd"].int())
        for box, label, area, crowd in zip(_boxes(true), *_lists(*columns), strict=True):
            one = {"id": len(objects) + 1, "image_id": number, "category_id": label + 1}
            objects.append(one | {"bbox": box, "area": round(area, 2), "iscrowd": crowd})
        columns = (found["labels"], found["scores"].double())
        for box, label, score in zip(_boxes(found), *_lists(*columns), strict=True):
            one = {"image_id": number, "category_id": label + 1, "bbox": box}
            results.append(one | {"score": round(score, 6)})
    names = [{"id": k + 1, "name": f"class {k}"} for k in range(workload.num_classes)]
    content = {"images": listed, "annotations": objects, "categories": names}
    (folder / TRUTH).write_text(json.dumps(content))
    (folder / RESULTS).write_text(json.dumps(results))


def write_masks(folder: Path, images: int, form: str) -> None:
    """The same of masks: those of the ground truth in a form, of results as run lengths."""
    # Here, since an earlier version that is compared has other benchmarks.
    from benchmarks.run_lengths import SIZES, data_set, in_form

    scenes = SIZES[1]._replace(images=images)
    predictions, targets = scenes.rows()
    for true in targets:
        true["masks"] = in_form(true["masks"], form)
    truth, results = data_set(predictions, targets, scenes.classes)
    (folder / TRUTH).write_text(json.dumps(truth, default=bytes.decode))
    (folder / RESULTS).write_text(json.dumps(results, default=bytes.decode))


def _boxes(image: Row) -> list[list[float]]:
    corners = image["boxes"].double().tolist()
    return [[round(v, 2) for v in (x1, y1, x2 - x1, y2 - y1)] for x1, y1, x2, y2 in corners]


def _lists(*columns: Any) -> list[list[Any]]:
    return [column.tolist() for column in columns]


def unpack_voc(folder: Path) -> bool:
    """VOC2007 test and a detector's results; False where they are not to be had."""
    data = shared_data()
    if data is None:
        return False
    for archive in (
        data / "voc_annotations" / "VOC2007_test_Annotations.zip",
        data / "voc_annotations" / "VOC2007_ImageSets.zip",
        data / "voc2007_test_detections" / f"{VOC_RESULTS}.zip",
    ):
        with zipfile.ZipFile(archive) as opened:
            opened.extractall(folder)
    return True


# Evaluators, each in a process of its own ---------------------------------------------------------


def ours(folder: Path) -> list[float]:
    from torch_vocmetrics import io as files

    truth = files.read_coco_ground_truths(folder / TRUTH)
    found = files.read_coco_detections(folder / RESULTS, truth)
    numbers = _updated("coco2017", truth, found).to_dict()
    return [numbers[name] for name in NUMBERS]


def ours_masks(folder: Path) -> list[float]:
    from torch_vocmetrics import io as files

    kinds = {"boxes": False, "masks": True}
    truth = files.read_coco_ground_truths(folder / TRUTH, **kinds)
    found = files.read_coco_detections(folder / RESULTS, truth, **kinds)
    numbers = _updated("coco2017_segm", truth, found).to_dict()
    return [numbers[name] for name in NUMBERS]


def ours_voc(folder: Path) -> list[float]:
    from torch_vocmetrics import io as files
    from torch_vocmetrics.protocols import load_dataset

    names = load_dataset("voc2007").class_names
    truth = files.read_voc_ground_truths(folder / "VOC2007", "test", class_names=names)
    pattern = str(folder / VOC_RESULTS / "comp4_det_test_{class}.txt")
    found = files.read_voc_detections(files.find_results(pattern, names), truth)
    result = _updated("voc2007", truth, found)
    return [result.mean_average_precision, *result.average_precision.tolist()]


def _updated(protocol: str, truth: Any, found: Any) -> Any:
    from torch_vocmetrics import DetectionAP

    metric: Any = DetectionAP(
        protocol,
        class_names=truth.class_names,
        label_ids=truth.label_ids,
        box_format=truth.box_format,
    )
    for start in range(0, len(truth.targets), CHUNK):
        part = slice(start, start + CHUNK)
        metric.update(found.predictions[part], truth.targets[part])
    return metric.compute()


def hotcoco(folder: Path, kind: str = "bbox") -> list[float]:
    import hotcoco as library

    truth = library.COCO(str(folder / TRUTH))
    evaluator = library.COCOeval(truth, truth.load_res(str(folder / RESULTS)), kind)
    evaluator.evaluate()
    evaluator.accumulate()
    with contextlib.redirect_stdout(io.StringIO()):
        evaluator.summarize()
    stats = list(evaluator.stats)[: len(NUMBERS)]
    return [float("nan") if value == -1 else float(value) for value in stats]


def hotcoco_masks(folder: Path) -> list[float]:
    return hotcoco(folder, "segm")


EVALUATORS: dict[str, tuple[Callable[[Path], list[float]], str]] = {
    "ours": (ours, "torch_vocmetrics.io"),
    "ours, without msgspec": (ours, "torch_vocmetrics.io"),
    "hotcoco": (hotcoco, "hotcoco"),
    "ours, masks": (ours_masks, "torch_vocmetrics.io"),
    "hotcoco, masks": (hotcoco_masks, "hotcoco"),
    "ours, VOC2007 test": (ours_voc, "torch_vocmetrics.io"),
    "before, VOC2007 test": (ours_voc, "torch_vocmetrics.io"),
}


def work(name: str, folder: Path, few: Path) -> Row:
    """One evaluation in this process, after one of few images that loads what is loaded late."""
    import importlib

    import torch

    warnings.simplefilter("ignore")
    if name.endswith("without msgspec"):
        sys.modules["msgspec"] = None  # type: ignore[assignment]
    torch.set_num_threads(1)
    evaluate, module = EVALUATORS[name]
    importlib.import_module(module)
    (ours if "VOC" in name else evaluate)(few)
    memory, start, cpu = PeakMemory(), time.perf_counter(), time.process_time()
    numbers = evaluate(folder)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    return {
        "seconds": seconds,
        "cpu_seconds": cpu,
        "peak_bytes": memory.above(),
        "numbers": [None if number != number else number for number in numbers],  # noqa: PLR0124
    }


def ask(name: str, folder: Path, few: Path, checkout: Path) -> Row:
    argv = [sys.executable, str(Path(__file__).resolve()), "--run", name]
    argv += ["--folder", str(folder), "--few", str(few)]
    root = Path(__file__).resolve().parents[1]
    paths = [str(checkout), str(root), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
    ran = subprocess.run(argv, capture_output=True, text=True, check=False, env=environment)
    if ran.returncode:
        raise RuntimeError(f"{name} ended: {ran.stderr[-2000:]}")
    answer: Row = json.loads(ran.stdout.splitlines()[-1])
    return answer


# Judging ------------------------------------------------------------------------------------------


def compare(names: list[str], folder: Path, few: Path, pairs: int, before: Path | None) -> Row:
    """Runs in alternation, so that a slower moment falls on all."""
    root = Path(__file__).resolve().parents[1]
    runs: dict[str, list[Row]] = {name: [] for name in names}
    for _ in range(pairs):
        for name in names:
            checkout = before if name.startswith("before") and before else root
            runs[name].append(ask(name, folder, few, checkout))
    first = runs[names[0]][0]["numbers"]
    rows = {}
    for name, given in runs.items():
        ratios = [
            mine["cpu_seconds"] / one["cpu_seconds"]
            for mine, one in zip(runs[names[0]], given, strict=True)
        ]
        rows[name] = {
            "cpu_seconds": statistics.median(one["cpu_seconds"] for one in given),
            "seconds": statistics.median(one["seconds"] for one in given),
            "peak_bytes": statistics.median(one["peak_bytes"] for one in given),
            "ratio_of_ours": statistics.median(ratios),
            "equal": all(_equal(first, one["numbers"]) for one in given),
        }
    return rows


def _equal(first: list[float | None], second: list[float | None]) -> bool:
    pairs = zip(first, second, strict=True)
    return all(a is b or (a is not None and b is not None and abs(a - b) < 1e-12) for a, b in pairs)


def mask_files(folder: Path, images: int, pairs: int) -> tuple[Row, list[str]]:
    """Rows of files of masks in every form, and the limits that they miss."""
    from benchmarks.run_lengths import FORMS

    found: Row = {}
    missed: list[str] = []
    few = folder / "few masks"
    few.mkdir()
    write_masks(few, 2, FORMS[0])
    for form in FORMS:
        part = folder / form
        part.mkdir()
        write_masks(part, min(images, MASK_IMAGES), form)
        found[form] = rows = compare(["ours, masks", "hotcoco, masks"], part, few, pairs, None)
        show(f"Masks, ground truth as {form}", rows, size_of(part))
        if rows["hotcoco, masks"]["ratio_of_ours"] > MASKS_LIMIT:
            missed.append(f"masks, {form}: more than {MASKS_LIMIT} of hotcoco's CPU time")
        missed += [f"{name}: other numbers" for name, row in rows.items() if not row["equal"]]
    return found, missed


def size_of(folder: Path) -> int:
    return sum((folder / file).stat().st_size for file in (TRUTH, RESULTS))


def show(title: str, rows: Row, file_bytes: int) -> None:
    print(f"\n{title}, {file_bytes / 2**20:.0f} MiB\n")
    print("| evaluator | CPU s | wall s | ours / it (CPU) | peak / file | numbers |")
    print("|---|---|---|---|---|---|")
    for name, row in rows.items():
        print(
            f"| {name} | {row['cpu_seconds']:.2f} | {row['seconds']:.2f} | "
            f"{row['ratio_of_ours']:.2f} | {row['peak_bytes'] / file_bytes:.1f} | "
            f"{'equal' if row['equal'] else 'DIFFER'} |"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=COCO_IMAGES)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--before", type=Path, help="a checkout of an earlier version")
    parser.add_argument("--run", choices=EVALUATORS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--few", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.run:
        print(json.dumps(work(args.run, args.folder, args.few)))
        return 0
    missed: list[str] = []
    content: Row = {**machine.description(), "images": args.images}
    with tempfile.TemporaryDirectory() as name:
        folder, few = Path(name) / "all", Path(name) / "few"
        folder.mkdir(), few.mkdir()
        write_coco(folder, args.images)
        write_coco(few, 16)
        size = size_of(folder)
        names = ["ours", "ours, without msgspec", "hotcoco"]
        content["coco"] = rows = compare(names, folder, few, args.pairs, None)
        show("COCO's files", rows, size)
        if rows["hotcoco"]["ratio_of_ours"] > TIME_LIMIT:
            missed.append(f"more than {TIME_LIMIT} of hotcoco's CPU time")
        if rows["ours"]["peak_bytes"] > MEMORY_LIMIT * size:
            missed.append(f"memory above {MEMORY_LIMIT} times the files")
        missed += [f"{name}: other numbers" for name, row in rows.items() if not row["equal"]]
        content["masks"], more = mask_files(Path(name), args.images, args.pairs)
        missed += more
        if unpack_voc(folder):
            names = ["ours, VOC2007 test", *(["before, VOC2007 test"] if args.before else [])]
            content["voc2007_test"] = rows = compare(names, folder, few, args.pairs, args.before)
            files = [*folder.glob("VOC2007/Annotations/*.xml"), *folder.glob(f"{VOC_RESULTS}/*")]
            show("VOC2007 test", rows, sum(file.stat().st_size for file in files))
            if args.before and rows[names[1]]["ratio_of_ours"] > BEFORE_LIMIT:
                missed.append(f"VOC2007 test: more than {BEFORE_LIMIT} of the earlier CPU time")
    content["missed"] = missed
    machine.save(machine.results_path("files", "cpu"), content)
    print("\n" + ("\n".join(f"MISSED: {one}" for one in missed) or "all limits are met"))
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
