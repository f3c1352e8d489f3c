"""Launches and waits of every path on a device, counted without one; needs the folder ``tests``.

Operations as a dispatch mode sees them, without views and empty allocations. Beside each count is
what the launches alone would cost at 5 microseconds each. Host times are not measured: the stand-in
takes a hundred times as long as a device would.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import torch
from helpers.host_backed_cuda import host_backed_cuda, moved

from benchmarks.workloads import coco_shaped
from torch_vocmetrics import ClassificationAP, DetectionAP, MeanIoU

MICROSECONDS = 5


def measured(*, few: bool) -> dict[str, tuple[int, int]]:
    """Launches and waits by path; ``few`` for half as many images."""
    images = 32 if few else 64
    found: dict[str, tuple[int, int]] = {}
    with host_backed_cuda() as counts:

        def note(name: str, work: Callable[[], Any]) -> None:
            counts.reset()
            work()
            found[name] = (counts.launches, len(counts.waits))

        _boxes(images, note)
        _masks(images // 4, note)
        _maps(images // 4, note)
        scores, signs = moved((torch.rand(images, 20), torch.rand(images, 20) < 0.2))
        classes = ClassificationAP("voc2012", num_classes=20)
        note("update, classification", lambda: classes.update(scores, signs))
    return found


def _boxes(images: int, note: Callable[[str, Callable[[], Any]], None]) -> None:
    predictions, targets = coco_shaped(images).batches(images)[0]
    there: Any = DetectionAP("coco2017", num_classes=80)
    found, true = moved(predictions), moved(targets)
    there.update(found, true)  # what the first batch alone is checked for
    note("update, dicts of 32 images", lambda: there.update(found, true))
    note("update, dicts, targets on the host", lambda: there.update(found, targets))
    packed = {key: torch.cat([one[key] for one in found]) for key in found[0]}
    counted = packed | {"counts": [len(one["labels"]) for one in found]}
    note("update, packed", lambda: there.update(counted, targets))
    dense = {key: torch.stack([one[key] for one in found]) for key in found[0]}
    note("update, dense", lambda: there.update(dense, targets))
    note("flush of a chunk", lambda: _flush(there))
    note("compute, COCO", there.compute)


def _masks(images: int, note: Callable[[str, Callable[[], Any]], None]) -> None:
    rng = torch.Generator().manual_seed(0)
    predictions, targets = [], []
    for _ in range(images):
        masks = torch.rand((9, 24, 70), generator=rng) > 0.5
        labels = torch.randint(0, 3, (9,), generator=rng)
        predictions.append({"masks": masks, "labels": labels, "scores": torch.rand(9)})
        targets.append({"masks": masks[:4], "labels": labels[:4]})
    metric: Any = DetectionAP("coco2017_segm", num_classes=3)
    found, true = moved(predictions), moved(targets)
    note("update, masks of 32 images", lambda: metric.update(found, true))
    metric.update(found, true)
    note("flush of masks", lambda: _flush(metric))


def _maps(images: int, note: Callable[[str, Callable[[], Any]], None]) -> None:
    logits, truth = moved((torch.rand(images, 21, 8, 9), torch.randint(1, 22, (images, 8, 9))))
    metric = MeanIoU("voc2012", num_classes=21, label_ids=range(1, 22))
    metric.update(logits, truth)
    note("update, mean IoU from logits", lambda: metric.update(logits, truth))
    note("update, mean IoU from label maps", lambda: metric.update(truth, truth))


def _flush(metric: Any) -> None:
    metric._accumulated = metric._flushed(metric._accumulated)


def main() -> None:
    print(f"{'path':40} {'launches':>9} {'waits':>6} {'us':>6}")
    for name, (launches, waits) in measured(few=True).items():
        print(f"{name:40} {launches:9} {waits:6} {launches * MICROSECONDS:6}")


if __name__ == "__main__":
    main()
