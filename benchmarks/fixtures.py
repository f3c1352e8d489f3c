"""The golden fixtures of detection as inputs: no oracle is needed to compare two devices."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks.workloads import Image
from torch_vocmetrics import load_protocol
from torch_vocmetrics.protocols import DetectionProtocol

FIXTURES = ("voc_det", "coco")
FOLDER = Path(__file__).resolve().parents[1] / "tests" / "golden" / "fixtures"


class Problem(NamedTuple):
    """One case under one or more protocols."""

    name: str
    protocols: list[DetectionProtocol]
    options: dict[str, Any]
    predictions: list[Image]
    targets: list[Image]


def fixture_problems(name: str) -> list[Problem]:
    cases = json.loads((FOLDER / f"{name}.json").read_text())["cases"]
    return [(_voc if name == "voc_det" else _coco)(case) for case in cases]


def _rows(boxes: list[Any], **columns: tuple[list[Any], torch.dtype]) -> Image:
    rows = {key: torch.tensor(values, dtype=dtype) for key, (values, dtype) in columns.items()}
    return {"boxes": torch.tensor(boxes, dtype=torch.float64).reshape(-1, 4), **rows}


def _voc(case: dict[str, Any]) -> Problem:
    """The case under the rules of every year that it is for."""
    number = {name: k for k, name in enumerate(case["classes"])}
    lines = [
        (place, number[name], image, score, box)
        for name in case["classes"]
        for place, (image, score, *box) in enumerate(case["detections"].get(name, []))
    ]
    predictions, targets = [], []
    for image in case["images"]:
        mine = [line for line in lines if line[2] == image["id"]]
        objects = [one for one in image["objects"] if one["class"] in number]
        predictions.append(
            _rows(
                [box for *_, box in mine],
                scores=([line[3] for line in mine], torch.float64),
                labels=([line[1] for line in mine], torch.int64),
                order=([line[0] for line in mine], torch.int64),
            )
        )
        targets.append(
            _rows(
                [one["bbox"] for one in objects],
                labels=([number[one["class"]] for one in objects], torch.int64),
                difficult=([bool(one["difficult"]) for one in objects], torch.bool),
            )
        )
    rules: list[Any] = [load_protocol(f"detection/voc{year}") for year in case["years"]]
    rules = [dataclasses.replace(one, iou_thresholds=(case["minoverlap"],)) for one in rules]
    return Problem(case["name"], rules, {"class_names": case["classes"]}, predictions, targets)


def _coco(case: dict[str, Any]) -> Problem:
    predictions, targets = [], []
    for image in case["images"]:
        mine = [one for one in case["dt"] if one["image_id"] == image]
        objects = [one for one in case["gt"] if one["image_id"] == image]
        predictions.append(
            _rows(
                [one["bbox"] for one in mine],
                scores=([one["score"] for one in mine], torch.float64),
                labels=([one["category_id"] for one in mine], torch.int64),
            )
        )
        targets.append(
            _rows(
                [one["bbox"] for one in objects],
                labels=([one["category_id"] for one in objects], torch.int64),
                iscrowd=([bool(one.get("iscrowd", 0)) for one in objects], torch.bool),
                ignore=([bool(one.get("ignore", 0)) for one in objects], torch.bool),
                area=([one.get("area", math.nan) for one in objects], torch.float64),
            )
        )
    shipped: Any = load_protocol("detection/coco2017")
    rules = dataclasses.replace(shipped, max_detections=tuple(sorted(case["max_dets"])))
    categories = sorted(case["categories"])
    options = {"num_classes": len(categories), "label_ids": categories, "box_format": "xywh"}
    return Problem(case["name"], [rules], options, predictions, targets)
