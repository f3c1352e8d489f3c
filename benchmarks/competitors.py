"""The evaluators that are compared, each as a function from tensors to COCO's twelve numbers.

Every function takes the same per-image dicts of tensors and is written as its library documents the
fastest way from arrays; converting the tensors is part of the work. Run as a module this is one
competitor in a process of its own, which answers the lines of :mod:`benchmarks.detection`.
"""

# ruff: noqa: PLC0415 - each competitor imports its own library in its own process

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import importlib.metadata
import io
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from benchmarks.shapes import SHAPES
from benchmarks.voc_loop import voc_loop
from benchmarks.workloads import Image, Packed, Workload, coco_shaped, voc2007_detections

NUMBERS = ["AP", "AP50", "AP75", "APs", "APm", "APl"]
NUMBERS += ["AR1", "AR10", "AR100", "ARs", "ARm", "ARl"]
BATCH = 32

Numbers = list[float]
Evaluate = Callable[[Any], Numbers]


def _nan_for_minus_one(values: Sequence[float]) -> Numbers:
    return [float("nan") if value == -1 else float(value) for value in values]


# The tensors as arrays ----------------------------------------------------------------------------


def _flat(images: Sequence[Image], key: str) -> Tensor:
    return torch.cat([one[key] for one in images])


def _image_ids(images: Sequence[Image], first: int = 1) -> NDArray[np.int64]:
    counts = [one["labels"].shape[0] for one in images]
    return np.repeat(np.arange(first, first + len(images)), counts)


def _xywh(images: Sequence[Image]) -> NDArray[np.float64]:
    """Widths and heights are differences of float64, as every evaluator here takes them."""
    boxes = _flat(images, "boxes").double()
    boxes[:, 2:] -= boxes[:, :2]
    return boxes.numpy()


def _rows_of_seven(images: Sequence[Image], first: int = 1) -> NDArray[np.float64]:
    """[N, 7] float64: image id, x, y, w, h, score, category id."""
    rows = np.empty((sum(one["scores"].shape[0] for one in images), 7))
    rows[:, 0] = _image_ids(images, first)
    rows[:, 1:5] = _xywh(images)
    rows[:, 5] = _flat(images, "scores").numpy()
    rows[:, 6] = _flat(images, "labels").numpy() + 1
    return rows


def _annotations(images: Sequence[Image], first: int = 1, first_id: int = 1) -> list[Any]:
    """Ground truth as COCO's dicts; annotation ids start at 1, since 0 means unmatched."""
    columns = (
        _image_ids(images, first).tolist(),
        (_flat(images, "labels") + 1).tolist(),
        _xywh(images).tolist(),
        _flat(images, "area").tolist(),
        _flat(images, "iscrowd").long().tolist(),
    )
    return [
        {
            "id": number,
            "image_id": image,
            "category_id": label,
            "bbox": box,
            "area": area,
            "iscrowd": crowd,
        }
        for number, (image, label, box, area, crowd) in enumerate(
            zip(*columns, strict=True), first_id
        )
    ]


def _image_dicts(first: int, count: int) -> list[Any]:
    return [{"id": i, "width": 640, "height": 480} for i in range(first, first + count)]


def _categories(workload: Workload) -> list[Any]:
    return [{"id": k + 1, "name": str(k)} for k in range(workload.num_classes)]


def _data_set(workload: Workload) -> dict[str, Any]:
    return {
        "info": {},
        "images": _image_dicts(1, len(workload.targets)),
        "categories": _categories(workload),
        "annotations": _annotations(workload.targets),
    }


def _result_dicts(workload: Workload) -> list[Any]:
    columns = (
        _image_ids(workload.predictions).tolist(),
        (_flat(workload.predictions, "labels") + 1).tolist(),
        _xywh(workload.predictions).tolist(),
        _flat(workload.predictions, "scores").tolist(),
    )
    return [
        {"image_id": image, "category_id": label, "bbox": box, "score": score}
        for image, label, box, score in zip(*columns, strict=True)
    ]


# The evaluators -----------------------------------------------------------------------------------


def ours(workload: Workload) -> Numbers:
    """Batch by batch, as a validation loop has them."""
    from torch_vocmetrics import DetectionAP

    metric: Any = DetectionAP("coco2017", num_classes=workload.num_classes)
    for predictions, targets in workload.batches(workload.batch):
        metric.update(predictions, targets)
    numbers = metric.compute().to_dict()
    return [numbers[name] for name in NUMBERS]


def hotcoco_streaming(workload: Workload) -> Numbers:
    """``StreamingEval`` batch by batch, with (N, 7) arrays of detections."""
    import hotcoco

    metric = hotcoco.StreamingEval(_categories(workload), "bbox")
    first = first_id = 1
    for predictions, targets in workload.batches(workload.batch):
        annotations = _annotations(targets, first, first_id)
        images = _image_dicts(first, len(targets))
        metric.update(images, annotations, _rows_of_seven(predictions, first))
        first, first_id = first + len(targets), first_id + len(annotations)
    return _summarized(metric.finalize())


def hotcoco_arrays(workload: Workload) -> Numbers:
    """``COCO.from_arrays`` and the whole set at once."""
    import hotcoco

    targets = workload.targets
    truth = hotcoco.COCO.from_arrays(
        _image_dicts(1, len(targets)),
        _categories(workload),
        _image_ids(targets),
        _flat(targets, "labels").numpy() + 1,
        _xywh(targets),
        area=_flat(targets, "area").numpy(),
        iscrowd=_flat(targets, "iscrowd").numpy(),
    )
    found = truth.load_res(_rows_of_seven(workload.predictions))
    evaluator = hotcoco.COCOeval(truth, found, "bbox")
    evaluator.evaluate()
    return _summarized(evaluator)


def _summarized(evaluator: Any) -> Numbers:
    evaluator.accumulate()
    with contextlib.redirect_stdout(io.StringIO()):
        evaluator.summarize()
    return _nan_for_minus_one(evaluator.stats)


def _by_cocoeval(
    coco: Any, cocoeval: Any, workload: Workload, found: Any, **options: Any
) -> Numbers:
    with contextlib.redirect_stdout(io.StringIO()):
        truth = coco(_data_set(workload)) if coco.__module__ != "pycocotools.coco" else coco()
        if not truth.dataset:
            truth.dataset = _data_set(workload)
            truth.createIndex()
        evaluator = cocoeval(truth, truth.loadRes(found), "bbox", **options)
        evaluator.evaluate()
        evaluator.accumulate()
        evaluator.summarize()
    return _nan_for_minus_one(list(evaluator.stats)[: len(NUMBERS)])


def ultrafast(workload: Workload) -> Numbers:
    from ultrafast_pycocotools import COCO, COCOeval

    return _by_cocoeval(COCO, COCOeval, workload, _rows_of_seven(workload.predictions))


def faster_coco_eval(workload: Workload) -> Numbers:
    """Results as a list of dicts, which is faster than the array it turns into one."""
    from faster_coco_eval import COCO, COCOeval_faster

    return _by_cocoeval(COCO, COCOeval_faster, workload, _result_dicts(workload))


def pycocotools(workload: Workload) -> Numbers:
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    return _by_cocoeval(COCO, COCOeval, workload, _result_dicts(workload))


def vernier(workload: Workload) -> Numbers:
    """``CocoDataset.from_arrays``, an (N, 7) array of detections, two threads."""
    from vernier.instance import Bbox, CocoDataset, Evaluator

    targets = workload.targets
    count = len(targets)
    labels = _flat(targets, "labels").numpy()
    truth = CocoDataset.from_arrays(
        {
            "id": np.arange(1, count + 1),
            "width": np.full(count, 640),
            "height": np.full(count, 480),
        },
        {
            "id": np.arange(1, labels.size + 1),
            "image_id": _image_ids(targets),
            "category_id": labels + 1,
            "bbox": _xywh(targets),
            "area": _flat(targets, "area").double().numpy(),
            "iscrowd": _flat(targets, "iscrowd").numpy(),
        },
        _categories(workload),
    )
    evaluator = Evaluator(iou=Bbox(), parity_mode="strict")
    found = _rows_of_seven(workload.predictions)
    summary = evaluator.evaluate(truth, found, num_threads=os.cpu_count())
    return _nan_for_minus_one(summary.stats)


def _torchmetrics(workload: Workload, backend: str) -> Numbers:
    from torchmetrics.detection import MeanAveragePrecision

    metric = MeanAveragePrecision(box_format="xyxy", iou_type="bbox", backend=backend)
    metric.warn_on_many_detections = False
    for predictions, targets in workload.batches(workload.batch):
        metric.update(predictions, targets)
    with contextlib.redirect_stdout(io.StringIO()):
        found = metric.compute()
    areas = ("small", "medium", "large")
    keys = ["map", "map_50", "map_75", *(f"map_{name}" for name in areas)]
    keys += ["mar_1", "mar_10", "mar_100", *(f"mar_{name}" for name in areas)]
    return _nan_for_minus_one([float(found[key]) for key in keys])


def torchmetrics_faster(workload: Workload) -> Numbers:
    return _torchmetrics(workload, "faster_coco_eval")


def torchmetrics_pycocotools(workload: Workload) -> Numbers:
    return _torchmetrics(workload, "pycocotools")


def ours_voc(packed: Packed) -> Numbers:
    """VOC2007's rules, all images at once."""
    return _voc_numbers(packed.num_classes, [(packed.predictions, packed.targets)])


def ours_voc_by_batches(workload: Workload) -> Numbers:
    """VOC2007's rules, by batches of 32."""
    return _voc_numbers(workload.num_classes, workload.batches(workload.batch))


def _voc_numbers(num_classes: int, batches: Sequence[Any]) -> Numbers:
    from torch_vocmetrics import DetectionAP

    metric: Any = DetectionAP("voc2007", num_classes=num_classes)
    for predictions, targets in batches:
        metric.update(predictions, targets)
    result = metric.compute()
    return [result.mean_average_precision, *result.average_precision.tolist()]


class Competitor(NamedTuple):
    """An evaluator, what is imported before memory is measured, and how it may differ.

    Attributes:
        tolerance: how far its numbers may be from ours, for a reason that is known.
        most_pairs: of a slow one; with a single pair its first run is the timed one.
        rival: whether the limit of time is over it; whole arrays of a data set are shown beside.
        packed: whether it takes :class:`Packed` tensors.
    """

    evaluate: Evaluate
    modules: tuple[str, ...]
    package: str
    tolerance: float = 1e-12
    most_pairs: int | None = None
    rival: bool = False
    packed: bool = False


# torchmetrics has float32 thresholds and recall levels, and gives float32 numbers.
_FLOAT32 = 1e-3
COMPETITORS = {
    "ours": Competitor(ours, ("torch_vocmetrics",), "torch_vocmetrics"),
    "hotcoco StreamingEval": Competitor(hotcoco_streaming, ("hotcoco",), "hotcoco", rival=True),
    "hotcoco arrays": Competitor(hotcoco_arrays, ("hotcoco",), "hotcoco"),
    "ultrafast-pycocotools": Competitor(
        ultrafast, ("ultrafast_pycocotools",), "ultrafast-pycocotools", rival=True
    ),
    "vernier": Competitor(vernier, ("vernier.instance",), "vernier", rival=True),
    "faster-coco-eval": Competitor(
        faster_coco_eval, ("faster_coco_eval",), "faster-coco-eval", rival=True
    ),
    "pycocotools": Competitor(
        pycocotools, ("pycocotools.coco", "pycocotools.cocoeval"), "pycocotools", most_pairs=1
    ),
    "torchmetrics + faster-coco-eval": Competitor(
        torchmetrics_faster,
        ("torchmetrics.detection", "faster_coco_eval"),
        "torchmetrics",
        _FLOAT32,
        most_pairs=3,
    ),
    "torchmetrics + pycocotools": Competitor(
        torchmetrics_pycocotools,
        ("torchmetrics.detection", "pycocotools.coco", "pycocotools.cocoeval"),
        "torchmetrics",
        _FLOAT32,
        most_pairs=1,
    ),
    "ours (VOC2007)": Competitor(ours_voc, ("torch_vocmetrics",), "torch_vocmetrics", packed=True),
    "ours by batches (VOC2007)": Competitor(
        ours_voc_by_batches, ("torch_vocmetrics",), "torch_vocmetrics"
    ),
    "Python loop (VOC2007)": Competitor(voc_loop, (), "numpy", packed=True),
}


def version_of(name: str) -> str | None:
    """The installed version of a competitor; None if it is not there."""
    package = COMPETITORS[name].package
    if package == "torch_vocmetrics":
        return str(importlib.import_module(package).__version__)
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


# One competitor in a process of its own -----------------------------------------------------------


class PeakMemory:
    """The most memory of the process above what it held before, in bytes.

    Linux resets the high-water mark of resident memory on demand. Elsewhere the mark of the whole
    life of the process serves, which misses what stays below an earlier peak.
    """

    def __init__(self) -> None:
        gc.collect()
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
        try:
            Path("/proc/self/clear_refs").write_text("5")
            self.way = "high-water mark of resident memory, reset before the run"
        except OSError:
            self.way = "ru_maxrss, which no one resets"
        self._before = self._mark()

    @staticmethod
    def _mark() -> int:
        with contextlib.suppress(OSError):
            for line in Path("/proc/self/status").read_text().splitlines():
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    def above(self) -> int:
        return self._mark() - self._before


def load_workload(name: str, images: int) -> Workload:
    """A workload by name; of ``images`` images at most, where it is made."""
    if name == "coco":
        return coco_shaped(images)
    if name in SHAPES:
        return SHAPES[name].workload(name, images)
    workload = voc2007_detections()
    if workload is None:
        raise FileNotFoundError("no real VOC2007 detections beside this checkout")
    return workload


def run(competitor: Competitor, workload: Workload | Packed) -> dict[str, Any]:
    """One evaluation, from the tensors to the numbers; what was left before is collected first."""
    gc.collect()
    start, cpu = time.perf_counter(), time.process_time()
    numbers = competitor.evaluate(workload)
    return {
        "seconds": time.perf_counter() - start,
        "cpu_seconds": time.process_time() - cpu,
        "numbers": numbers,
    }


def measured(competitor: Competitor, workload: Workload | Packed) -> dict[str, Any]:
    """One evaluation and its memory; it must find all of it anew, which takes time."""
    peak = PeakMemory()
    return {**run(competitor, workload), "peak_bytes": peak.above(), "memory": peak.way}


def updates(workload: Workload, batch: int) -> dict[str, Any]:
    """Mean seconds of an ``update`` of ours, the matching of the last chunk included."""
    from torch_vocmetrics import DetectionAP

    batches = workload.batches(batch)
    metric: Any = DetectionAP("coco2017", num_classes=workload.num_classes)
    start = time.perf_counter()
    for predictions, targets in batches:
        metric.update(predictions, targets)
    metric.to("cpu")  # matches what is pending
    return {"seconds": (time.perf_counter() - start) / len(batches)}


def first_images(workload: Workload) -> Workload:
    """A few images: evaluating them loads what libraries load late, on no one's account."""
    return workload._replace(
        predictions=workload.predictions[:BATCH], targets=workload.targets[:BATCH]
    )


def settle_allocator() -> None:
    """Bring the allocator where training leaves it.

    glibc takes blocks from the system, and gives them back, above thresholds that rise with the
    largest block that was ever freed. Below them each run finds its memory anew, which no process
    does that has trained.
    """
    large = np.empty(16 * 2**20, dtype=np.uint8)
    del large


def serve(name: str, path: str) -> None:
    """Answer lines on stdin by one JSON line each, until stdin ends.

    The workload is read from a file, so that its making leaves no holes in the heap: what then
    lands in which of them is chance, of several MiB.

    ``measure <threads>`` evaluates and says how much memory that took, ``run <threads>`` evaluates,
    ``updates <threads> <batch>`` times the updates of ours; threads are torch's: peers bring thread
    pools of their own.
    """
    competitor = COMPETITORS[name]
    settle_allocator()
    for module in competitor.modules:
        importlib.import_module(module)
    whole = Workload(*torch.load(path))
    few, workload = first_images(whole), whole
    if competitor.packed:
        few, workload = few.packed(), whole.packed()
    answers, sys.stdout = sys.stdout, sys.stderr
    competitor.evaluate(few)
    print(json.dumps({"ready": name}), file=answers, flush=True)
    for line in sys.stdin:
        verb, threads, *more = line.split()
        torch.set_num_threads(int(threads))
        if verb == "updates":
            answer = updates(workload, int(*more))
        else:
            answer = {"measure": measured, "run": run}[verb](competitor, workload)
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2])
