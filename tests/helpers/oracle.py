"""Live pycocotools, fed with annotations or with the dicts that the metrics take."""

from __future__ import annotations

import contextlib
import io
import math
from typing import Any

import numpy as np
import torch
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from helpers.support import Problem, as_nested_list
from torch_vocmetrics.protocols import DetectionProtocol

STATS = ("AP", "AP50", "AP75", "APs", "APm", "APl", "AR1", "AR10", "AR100", "ARs", "ARm", "ARl")


def run_cocoeval(
    image_ids: list[Any],
    category_ids: list[int],
    gt: list[dict[str, Any]],
    dt: list[dict[str, Any]],
    params: dict[str, Any] | None = None,
    *,
    iou_type: str = "bbox",
) -> COCOeval:
    """COCOeval after ``evaluate`` and ``accumulate``; an empty list of detections is fine.

    Masks need ``segmentation`` on both sides, and detections then an ``area`` too.
    """
    images = [{"id": one} for one in image_ids]
    categories = [{"id": one, "name": str(one)} for one in category_ids]
    objects = [{"id": i + 1, "iscrowd": 0} | one for i, one in enumerate(gt)]
    for one in objects:
        one.setdefault("area", one["bbox"][2] * one["bbox"][3])
    # What COCO.loadRes adds, without its failure on an empty list.
    found = [
        {"area": one["bbox"][2] * one["bbox"][3]} | one | {"id": i + 1, "iscrowd": 0}
        for i, one in enumerate(dt)
    ]
    sides = []
    for records in (objects, found):
        side = COCO()
        side.dataset = {"images": images, "categories": categories, "annotations": records}
        side.annToRLE = lambda one: one["segmentation"]
        with contextlib.redirect_stdout(io.StringIO()):
            side.createIndex()
        sides.append(side)
    judge = COCOeval(*sides, iouType=iou_type)
    for name, value in (params or {}).items():
        setattr(judge.params, name, np.array(value) if name.endswith("Thrs") else value)
    with contextlib.redirect_stdout(io.StringIO()):
        judge.evaluate()
        judge.accumulate()
    return judge


def stats(judge: COCOeval) -> dict[str, float]:
    """The twelve numbers that pycocotools prints, -1 where undefined."""
    with contextlib.redirect_stdout(io.StringIO()):
        judge.summarize()
    return dict(zip(STATS, judge.stats.tolist(), strict=True))


def arrays(judge: COCOeval) -> dict[str, np.ndarray]:
    """``precision``, ``recall`` and ``scores`` with NaN for -1."""
    undefined = judge.eval["recall"] == -1
    return {
        "precision": np.where(judge.eval["precision"] == -1, math.nan, judge.eval["precision"]),
        "recall": np.where(undefined, math.nan, judge.eval["recall"]),
        # A score may well be -1, so it is the recall that says what is undefined.
        "scores": np.where(undefined[:, None], math.nan, judge.eval["scores"]),
    }


def judge_problem(protocol: DetectionProtocol, problem: Problem) -> dict[str, np.ndarray]:
    """The arrays of :func:`evaluate_problem`."""
    return arrays(evaluate_problem(protocol, problem))


def evaluate_problem(protocol: DetectionProtocol, problem: Problem) -> COCOeval:
    """What pycocotools makes of the dicts of a problem whose boxes are ``xywh``.

    Annotations are numbered from 1 in the order of the problem.
    """
    assert problem.kwargs["box_format"] == "xywh"
    category_ids = list(problem.kwargs["label_ids"])
    assert category_ids == sorted(category_ids), "pycocotools sorts the categories"
    image_ids, gt, dt = [], [], []
    for position, (found, there) in enumerate(
        zip(problem.detections, problem.ground_truths, strict=True)
    ):
        image_id = there.get("image_id", position)
        image_id = image_id.item() if isinstance(image_id, torch.Tensor) else image_id
        image_ids.append(image_id)
        rows = zip(*(as_nested_list(found[k]) for k in ("boxes", "scores", "labels")), strict=True)
        dt += [
            {"image_id": image_id, "bbox": box, "score": score, "category_id": label}
            for box, score, label in rows
        ]
        for j, box in enumerate(as_nested_list(there["boxes"])):
            one = {"image_id": image_id, "bbox": box, "category_id": int(there["labels"][j])}
            one["iscrowd"] = int(there["iscrowd"][j]) if "iscrowd" in there else 0
            one["area"] = float(there["area"][j]) if "area" in there else math.nan
            one["area"] = box[2] * box[3] if math.isnan(one["area"]) else one["area"]
            gt.append(one)
    params = {
        "iouThrs": protocol.iou_thresholds,
        "recThrs": protocol.recall_levels,
        "maxDets": list(protocol.max_detections),
        "areaRng": [[area.lower, area.upper] for area in protocol.area_ranges],
        "areaRngLbl": [area.name for area in protocol.area_ranges],
        "useCats": int(not protocol.class_agnostic),
    }
    return run_cocoeval(image_ids, category_ids, gt, dt, params)
