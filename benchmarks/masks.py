"""Mask AP against its peers: seconds and peak memory from the same bool tensors to the numbers.

One image at a time is drawn into one buffer of 100 detections and 7 objects of 480 x 640, and every
competitor takes it from there, in a process of its own; drawing is not timed. Run lengths are made
by each library's own encoder. Exit code 1 if numbers differ or a limit is missed.
"""

# ruff: noqa: PLC0415 - a competitor loads its own library and no other
from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import io
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import torch

from benchmarks import machine
from benchmarks.competitors import NUMBERS, PeakMemory

MEBI = 2**20
HEIGHT, WIDTH, FOUND, TRUE, CLASSES = 480, 640, 100, 7, 10
TIME_LIMIT, MEMORY_LIMIT = 0.5, 64
Image = dict[str, Any]


def draw(mask: torch.Tensor, centre: np.ndarray, radii: np.ndarray) -> None:
    """An ellipse, drawn in the rectangle that holds it."""
    low = np.maximum(centre - radii, 0).astype(int)
    high = np.minimum(centre + radii + 1, (HEIGHT, WIDTH)).astype(int)
    y, x = np.ogrid[low[0] : high[0], low[1] : high[1]]
    inside = ((y - centre[0]) / radii[0]) ** 2 + ((x - centre[1]) / radii[1]) ** 2 <= 1
    mask[low[0] : high[0], low[1] : high[1]] = torch.from_numpy(inside)


class Scenes:
    """Images in turn, drawn by another process into the same shared buffers.

    So what drawing leaves in the heap is not taken for memory of the competitor.
    """

    def __init__(self) -> None:
        self.found = torch.zeros((FOUND, HEIGHT, WIDTH), dtype=torch.bool).share_memory_()
        self.true = torch.zeros((TRUE, HEIGHT, WIDTH), dtype=torch.bool).share_memory_()
        context = torch.multiprocessing.get_context("fork")
        self._end, theirs = context.Pipe()
        context.Process(target=self._serve, args=(theirs,), daemon=True).start()

    def _serve(self, end: Any) -> None:
        while True:
            end.send(self._draw(end.recv()))

    def image(self, number: int) -> tuple[Image, Image]:
        """Prediction and target number ``number``; those before it are gone."""
        self._end.send(number)
        scores, guess, labels, area, crowd = map(torch.from_numpy, self._end.recv())
        return (
            {"masks": self.found, "scores": scores, "labels": guess},
            {"masks": self.true, "labels": labels, "area": area, "iscrowd": crowd},
        )

    def _draw(self, number: int) -> tuple[np.ndarray, ...]:
        rng = np.random.default_rng([number, 7])
        self.found.zero_(), self.true.zero_()
        centres = rng.uniform((40, 40), (HEIGHT - 40, WIDTH - 40), (TRUE, 2))
        radii = np.exp(rng.normal(3.7, 0.6, (TRUE, 2))).clip(4, 200)
        labels = rng.integers(0, CLASSES, TRUE)
        owner = rng.integers(0, TRUE, FOUND)
        noise = rng.random(FOUND) * 0.6
        near = rng.random(FOUND) < 0.6
        for k in range(TRUE):
            draw(self.true[k], centres[k], radii[k])
        for n, k in enumerate(owner):
            centre = centres[k] + rng.normal(0, 0.4, 2) * noise[n] * radii[k]
            size = radii[k] * np.exp(rng.normal(0, 0.4, 2) * noise[n])
            if not near[n]:
                centre = rng.uniform((0, 0), (HEIGHT - 1, WIDTH - 1))
            draw(self.found[n], centre, np.maximum(size, 2))
        guess = np.where(rng.random(FOUND) < 0.8, labels[owner], rng.integers(0, CLASSES, FOUND))
        scores = (1 - noise) * near * 0.7 + rng.random(FOUND) * 0.3
        area = self.true.sum((1, 2)).double().numpy()
        return scores.astype(np.float32), guess, labels, area, rng.random(TRUE) < 0.02


# Competitors --------------------------------------------------------------------------------------


class Ours:
    package, tolerance = "torch_vocmetrics", 0.0

    def __init__(self) -> None:
        from torch_vocmetrics import DetectionAP

        self.metric: Any = DetectionAP("coco2017_segm", num_classes=CLASSES)

    def update(self, found: Image, true: Image) -> None:
        self.metric.update([found], [true])

    def compute(self) -> list[float]:
        numbers = self.metric.compute().to_dict()
        return [numbers[name] for name in NUMBERS]


class TorchMetrics:
    package, tolerance = "torchmetrics", 1e-3  # float32 thresholds and numbers

    def __init__(self) -> None:
        from torchmetrics.detection import MeanAveragePrecision

        self.metric = MeanAveragePrecision(iou_type="segm", backend="faster_coco_eval")

    def update(self, found: Image, true: Image) -> None:
        self.metric.update([found], [true])

    def compute(self) -> list[float]:
        with contextlib.redirect_stdout(io.StringIO()):
            got = self.metric.compute()
        areas = ("small", "medium", "large")
        keys = ["map", "map_50", "map_75", *(f"map_{name}" for name in areas)]
        keys += ["mar_1", "mar_10", "mar_100", *(f"mar_{name}" for name in areas)]
        return [float(got[key]) for key in keys]


class _CocoLike:
    """Run lengths by the library's encoder, then its COCO, loadRes and COCOeval."""

    package, tolerance = "", 1e-12

    def __init__(self) -> None:
        self.coco, self.cocoeval, self.api = self.load()
        self.found: list[Image] = []
        self.true: list[Image] = []
        self.images = 0

    def load(self) -> tuple[Any, Any, Any]:
        raise NotImplementedError

    def encode(self, masks: torch.Tensor) -> list[Image]:
        columns = np.asfortranarray(masks.numpy().view(np.uint8).transpose(1, 2, 0))
        encoded: list[Image] = self.api.encode(columns)
        return encoded

    def update(self, found: Image, true: Image) -> None:
        self.images += 1
        columns = (found["labels"].tolist(), found["scores"].tolist())
        for rle, label, score in zip(self.encode(found["masks"]), *columns, strict=True):
            entry = {"image_id": self.images, "category_id": label + 1, "score": score}
            self.found.append(entry | {"segmentation": rle})
        columns = (true["labels"].tolist(), true["area"].tolist(), true["iscrowd"].tolist())
        for rle, label, area, crowd in zip(self.encode(true["masks"]), *columns, strict=True):
            entry = {"id": len(self.true) + 1, "image_id": self.images, "category_id": label + 1}
            entry |= {"area": area, "iscrowd": int(crowd), "segmentation": rle}
            self.true.append(entry | {"bbox": [0.0, 0.0, 1.0, 1.0]})

    def compute(self) -> list[float]:
        ids = range(1, self.images + 1)
        content = {
            "info": {},
            "images": [{"id": i, "height": HEIGHT, "width": WIDTH} for i in ids],
            "categories": [{"id": k + 1, "name": str(k)} for k in range(CLASSES)],
            "annotations": self.true,
        }
        with contextlib.redirect_stdout(io.StringIO()):
            truth = self.data_set(content)
            judge = self.cocoeval(truth, truth.loadRes(self.found), "segm")
            judge.evaluate()
            judge.accumulate()
            judge.summarize()
        return [float(value) for value in list(judge.stats)[: len(NUMBERS)]]

    def data_set(self, content: Image) -> Any:
        return self.coco(content)


class PyCocoTools(_CocoLike):
    package = "pycocotools"

    def load(self) -> tuple[Any, Any, Any]:
        from pycocotools import mask
        from pycocotools.coco import COCO
        from pycocotools.cocoeval import COCOeval

        return COCO, COCOeval, mask

    def data_set(self, content: Image) -> Any:
        truth = self.coco()
        truth.dataset = content
        truth.createIndex()
        return truth


class FasterCocoEval(_CocoLike):
    package = "faster-coco-eval"

    def load(self) -> tuple[Any, Any, Any]:
        from faster_coco_eval import COCO, COCOeval_faster, mask

        return COCO, COCOeval_faster, mask


class HotCoco(_CocoLike):
    package = "hotcoco"

    def load(self) -> tuple[Any, Any, Any]:
        import hotcoco

        return hotcoco.COCO, hotcoco.COCOeval, hotcoco.mask

    def encode(self, masks: torch.Tensor) -> list[Image]:
        encoded: list[Image] = self.api.encode(masks.numpy().transpose(1, 2, 0))
        return encoded


class Ultrafast(_CocoLike):
    package = "ultrafast-pycocotools"

    def load(self) -> tuple[Any, Any, Any]:
        from ultrafast_pycocotools import COCO, COCOeval, mask

        return COCO, COCOeval, mask


COMPETITORS: dict[str, type[Any]] = {
    "ours": Ours,
    "pycocotools": PyCocoTools,
    "faster-coco-eval": FasterCocoEval,
    "hotcoco": HotCoco,
    "ultrafast-pycocotools": Ultrafast,
    "torchmetrics + faster-coco-eval": TorchMetrics,
}


def work(name: str, images: int) -> dict[str, Any]:
    """One run of a competitor in this process."""
    torch.set_num_threads(1)
    scenes = Scenes()
    competitor = COMPETITORS[name]()
    for number in range(2):  # what is loaded at the first call is nobody's memory
        competitor.update(*scenes.image(number))
    competitor.compute()
    competitor = COMPETITORS[name]()
    memory, seconds = PeakMemory(), 0.0
    for number in range(images):
        found, true = scenes.image(number)
        start = time.perf_counter()
        competitor.update(found, true)
        seconds += time.perf_counter() - start
    start = time.perf_counter()
    numbers = competitor.compute()
    seconds += time.perf_counter() - start
    return {"seconds": seconds, "peak_bytes": memory.above(), "numbers": numbers}


def ask(name: str, images: int) -> dict[str, Any] | None:
    """A run in a process of its own; None if the library is not there."""
    package = COMPETITORS[name].package
    if package != "torch_vocmetrics":
        try:
            importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            return None
    argv = [sys.executable, str(Path(__file__).resolve()), "--run", name, "--images", str(images)]
    ran = subprocess.run(argv, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise RuntimeError(f"{name} ended: {ran.stderr[-2000:]}")
    answer: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return answer


def apart(mine: list[float], theirs: list[float]) -> float:
    values = (np.where(np.array(side) == -1, np.nan, side) for side in (mine, theirs))
    first, second = values
    if not np.array_equal(np.isnan(first), np.isnan(second)):
        return float("inf")
    return float(np.nanmax(np.abs(first - second)))


def judge(images: int, pairs: int) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, competitor in COMPETITORS.items():
        if name == "ours":
            continue
        runs = []
        for _ in range(pairs):  # in turn, so that a slower moment falls on both
            mine, theirs = ask("ours", images), ask(name, images)
            if theirs is None:
                print(f"{name}: not installed, left out")
                break
            assert mine is not None
            runs.append((mine, theirs))
        if runs:
            mine, theirs = runs[0]
            yield (
                name,
                {
                    "version": importlib.metadata.version(competitor.package),
                    "ours_seconds": statistics.median(one["seconds"] for one, _ in runs),
                    "seconds": statistics.median(other["seconds"] for _, other in runs),
                    "ratio": statistics.median(a["seconds"] / b["seconds"] for a, b in runs),
                    "ours_peak_bytes": max(one["peak_bytes"] for one, _ in runs),
                    "peak_bytes": max(other["peak_bytes"] for _, other in runs),
                    "difference": apart(mine["numbers"], theirs["numbers"]),
                    "tolerance": competitor.tolerance,
                },
            )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=500)
    parser.add_argument("--pairs", type=int, default=2)
    parser.add_argument("--run", choices=COMPETITORS, help="one run in this process")
    args = parser.parse_args()
    if args.run:
        print(json.dumps(work(args.run, args.images)))
        return 0
    peers = {}
    print(f"{args.images} images, {FOUND} masks against {TRUE} of {HEIGHT} x {WIDTH}, one thread")
    for name, entry in judge(args.images, args.pairs):
        peers[name] = entry
        print(
            f"{name:32} ours {entry['ours_seconds']:7.2f} s, theirs {entry['seconds']:7.2f} s, "
            f"ratio {entry['ratio']:.3f}; peak {entry['ours_peak_bytes'] / MEBI:.0f} and "
            f"{entry['peak_bytes'] / MEBI:.0f} MiB; numbers differ by {entry['difference']:.1e}",
            flush=True,
        )
    best = max(entry["ratio"] for entry in peers.values())
    memory = max(entry["ours_peak_bytes"] for entry in peers.values()) / MEBI
    equal = all(entry["difference"] <= entry["tolerance"] for entry in peers.values())
    print(f"time against the best peer: {best:.3f} (limit {TIME_LIMIT})")
    print(f"peak memory above the inputs: {memory:.0f} MiB (limit {MEMORY_LIMIT})")
    print(f"numbers equal: {equal}")
    content = machine.description() | {"images": args.images, "peers": peers}
    machine.save(machine.results_path("masks", "cpu"), content)
    return int(not (equal and best <= TIME_LIMIT and memory <= MEMORY_LIMIT))


if __name__ == "__main__":
    sys.exit(main())
