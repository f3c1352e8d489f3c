"""Cases of pedestrian benchmarks as inputs, and the two evaluators that must agree on them."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

import torch_vocmetrics
from helpers.support import Problem, same
from torch_vocmetrics import io, reference
from torch_vocmetrics.protocols import MissRateProtocol, load_protocol
from torch_vocmetrics.reference.miss_rate import match_picture
from torch_vocmetrics.reference.pedestrians import read_pictures

SCALED_IN_HEIGHT = ("HOG",)
"""Algorithms of the fixtures whose boxes dbEval scales by 100/128."""


def found(rows: list[list[float]]) -> dict[str, Any]:
    """Detections [x, y, w, h, score] of one image."""
    table = torch.tensor(rows, dtype=torch.float64).reshape(-1, 5)
    labels = torch.zeros(len(rows), dtype=torch.int64)
    return {"boxes": table[:, :4], "scores": table[:, 4], "labels": labels}


def true(boxes: list[list[float]], ignore: list[Any], **more: Any) -> dict[str, Any]:
    """Objects of one image."""
    columns = {
        "boxes": torch.tensor(boxes, dtype=torch.float64).reshape(-1, 4),
        "labels": torch.zeros(len(boxes), dtype=torch.int64),
        "ignore": torch.tensor([bool(value) for value in ignore], dtype=torch.bool),
    }
    for key, values in more.items():
        if key == "visible_boxes":
            columns[key] = torch.tensor(values, dtype=torch.float64).reshape(-1, 4)
        elif key == "visibility":
            columns[key] = torch.tensor(values, dtype=torch.float64)
        else:
            columns[key] = values
    return columns


def bbgt_fixture(case: dict[str, Any]) -> Problem:
    """A case of bbgt.json: gt rows [x, y, w, h, ignore], dt rows [x, y, w, h, score]."""
    targets = [true([row[:4] for row in gt], [row[4] for row in gt]) for gt in case["gt"]]
    return Problem([found(dt) for dt in case["dt"]], targets, {"box_format": "xywh"})


def caltech_fixture(case: dict[str, Any], algorithm: str) -> Problem:
    """A case of caltech_dbeval.json; detections are scaled in height where dbEval does so."""
    kept = ("person", "person?", "people", "ignore")
    targets, frames = [], case["frames"]
    for rows in frames:
        rows = [row for row in rows if case["labels"][row[0] - 1] in kept]  # noqa: PLW2901
        names = [case["labels"][row[0] - 1] for row in rows]
        targets.append(
            true(
                [row[1:5] for row in rows],
                [name != "person" for name in names],
                visible_boxes=[row[5:9] for row in rows],
            )
        )
    by_frame: list[list[list[float]]] = [[] for _ in frames]
    for frame, *row in case["dets"][algorithm]:
        by_frame[int(frame) - 1].append(row)
    detections = [found(rows) for rows in by_frame]
    if algorithm in SCALED_IN_HEIGHT:
        for one in detections:
            one["boxes"] = io.scale_height(one["boxes"], 100 / 128, "xywh")
    return Problem(detections, targets, {"box_format": "xywh"})


def citypersons_fixture(case: dict[str, Any]) -> Problem:
    """A case of citypersons.json."""
    detections, targets = [], []
    for image_id in case["images"]:
        dt = [one for one in case["dt"] if one["image_id"] == image_id]
        gt = [one for one in case["gt"] if one["image_id"] == image_id]
        detections.append(found([[*one["bbox"], one["score"]] for one in dt]))
        targets.append(
            true(
                [one["bbox"] for one in gt],
                [one["ignore"] for one in gt],
                visibility=[one["vis_ratio"] for one in gt],
            )
            | {"image_id": image_id}
        )
    return Problem(detections, targets, {"box_format": "xywh"})


def crowdhuman_fixture(case: dict[str, Any]) -> Problem:
    """A case of crowdhuman.json; image sizes are (width, height) there."""
    detections, targets = [], []
    for image in case["images"]:
        gt, (width, height) = image["gt"], image["size"]
        detections.append(found(image["dt"]))
        ignore = [bool(one["mask"]) or bool(one["ignore"]) for one in gt]
        target = true([one["fbox"] for one in gt], ignore)
        targets.append(target | {"image_id": image["id"], "image_size": (height, width)})
    return Problem(detections, targets, {"box_format": "xywh"})


# Evaluators ---------------------------------------------------------------------------------------


def evaluate_by_metric(
    protocol: str | MissRateProtocol,
    detections: list[dict[str, Any]],
    targets: list[dict[str, Any]],
    **kwargs: Any,
) -> Any:
    """The metric, in one update."""
    metric = torch_vocmetrics.LogAverageMissRate(protocol, **kwargs)
    return metric.update(detections, targets).compute()


def evaluate_by_reference(
    protocol: str | MissRateProtocol,
    detections: list[dict[str, Any]],
    targets: list[dict[str, Any]],
    **kwargs: Any,
) -> Any:
    """The plain loops."""
    if isinstance(protocol, str):
        protocol = load_protocol(protocol, MissRateProtocol)
    return reference.evaluate(protocol, detections, targets, **kwargs)


def outcomes_by_metric(
    protocol: MissRateProtocol, problem: Problem
) -> tuple[list[list[list[int]]], list[list[int]]]:
    """[S][images] outcomes 1 and 0 of detections that are not ignored, and counts of objects."""
    metric = torch_vocmetrics.LogAverageMissRate(protocol, **problem.kwargs)
    records = metric.update(problem.detections, problem.ground_truths)._joined().whole[0]
    found, counts = [], []
    for s in range(len(protocol.subsets)):
        rows: list[list[int]] = [[] for _ in range(records.num_images)]
        outcomes = {
            row: (positive[0] >> s & 1, ignored[0] >> s & 1)
            for row, positive, ignored in zip(
                records.match_detection.tolist(),
                records.match_true_positive.tolist(),
                records.match_ignored.tolist(),
                strict=True,
            )
            if (positive[0] | ignored[0]) >> s & 1
        }
        for row, image in enumerate(records.image.tolist()):
            beyond = int(records.out_of_range[row, s // 8]) >> s % 8 & 1
            positive, ignored = outcomes.get(row, (0, beyond))
            if not ignored:
                rows[image].append(positive)
        counted = [0] * records.num_images
        for image, counts_here in zip(
            records.ground_truth_image.tolist(),
            (records.ground_truth_counted[:, 0] >> s & 1).tolist(),
            strict=True,
        ):
            counted[image] += counts_here
        found.append(rows)
        counts.append(counted)
    return found, counts


def outcomes_by_reference(
    protocol: MissRateProtocol, problem: Problem
) -> tuple[list[list[list[int]]], list[list[int]]]:
    """The same by the plain loops."""
    pictures = read_pictures(
        protocol, problem.detections, problem.ground_truths, {0: 0}, problem.kwargs["box_format"]
    )
    matched = [[match_picture(one, s, protocol) for one in pictures] for s in protocol.subsets]
    found = [[[row.outcome for row in rows] for rows, _ in images] for images in matched]
    return found, [[count for _, count in images] for images in matched]


each_evaluator = pytest.mark.parametrize(
    "evaluate", [evaluate_by_reference, evaluate_by_metric], ids=["reference", "metric"]
)
each_outcome = pytest.mark.parametrize(
    "outcomes_of", [outcomes_by_reference, outcomes_by_metric], ids=["reference", "metric"]
)


def differences(one: Any, other: Any) -> list[str]:
    """Names of the fields in which two results differ in any bit (NaN equals NaN)."""
    assert type(one) is type(other)
    found = []
    for field in dataclasses.fields(one):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if field.name == "curves":
            for s, (x, y) in enumerate(zip(a, b, strict=True)):
                for name in ("fppi", "recall", "precision", "scores"):
                    if not same(getattr(x, name).double(), getattr(y, name).double()):
                        found.append(f"curves[{s}].{name}")
        elif isinstance(a, torch.Tensor | float):
            if isinstance(a, torch.Tensor) and a.dtype != b.dtype:
                found.append(f"{field.name}: {a.dtype} and {b.dtype}")
            if not same(a, b):
                found.append(field.name)
        elif a != b:
            found.append(field.name)
    return found
