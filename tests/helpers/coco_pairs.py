"""Random ``COCO`` objects and parameters, as programs hand them to ``COCOeval``, by seed."""

from __future__ import annotations

import contextlib
import copy
import io
import warnings
from typing import Any, NamedTuple

import numpy as np
from pycocotools import mask as api
from pycocotools.coco import COCO

from helpers.mask_problems import _near, _shape

Rng = np.random.Generator

SIZES = ((20, 10), (20, 20), (32, 32), (96, 96), (60, 60), (1, 1))
CANVASES = ((24, 20), (40, 65), (100, 120))


class Pair(NamedTuple):
    """What an evaluation is made of.

    Attributes:
        truth, found: annotations and results.
        iou_type: ``"bbox"`` or ``"segm"``.
        params: attributes to be set before ``evaluate``.
        strange: what the pair has that pycocotools alone evaluates; empty if nothing.
    """

    truth: COCO
    found: COCO
    iou_type: str
    params: dict[str, Any]
    strange: str


def random_pair(seed: int) -> Pair:
    """A few images with boxes or masks; one pair of ten has something strange."""
    rng = np.random.default_rng([seed, 41])
    iou_type = "segm" if rng.random() < 0.35 else "bbox"
    images = [
        {"id": int(i), "height": int(height), "width": int(width)}
        for i in rng.choice(60, int(rng.integers(1, 7)), replace=False)
        for height, width in [CANVASES[int(rng.integers(len(CANVASES)))]]
    ]
    ids = rng.choice(90, int(rng.integers(1, 5)), replace=False).tolist()
    categories = [{"id": int(one), "name": f"c{one}"} for one in ids]
    annotations, results = [], []
    for image in images:
        there, seen = _image(rng, image, ids, iou_type)
        annotations += there
        results += seen
    numbers = rng.permutation(len(annotations)) + 1
    for number, one in zip(numbers.tolist(), annotations, strict=True):
        one["id"] = number
    strange = _make_strange(rng, annotations, results) if rng.random() < 0.1 else ""
    truth = as_coco(images, categories, annotations)
    if iou_type == "segm" and rng.random() < 0.4:
        for one in results:
            del one["bbox"]
    found = load_results(truth, results)
    if strange == "area of its own" and found.anns:
        next(iter(found.anns.values()))["area"] = 5e9
    return Pair(truth, found, iou_type, random_params(rng, images, ids), strange)


def _image(rng: Rng, image: dict[str, Any], ids: list[int], iou_type: str) -> tuple[Any, Any]:
    size = image["height"], image["width"]
    make = (lambda: _shape(rng, size)) if iou_type == "segm" else (lambda: _box(rng))
    near = (
        (lambda one: _near(rng, one)) if iou_type == "segm" else (lambda one: _near_box(rng, one))
    )
    there = [make() for _ in range(int(rng.integers(0, 7)))]
    seen = [
        near(there[int(rng.integers(len(there)))]) if there and rng.random() < 0.75 else make()
        for _ in range(int(rng.integers(0, 12)))
    ]
    pool = ids if rng.random() < 0.7 else ids[:1]
    common = {"image_id": image["id"]}
    annotations = []
    for one in there:
        shown = common | {"category_id": int(rng.choice(pool))}
        shown |= _shown(rng, one, iou_type, plain=True)
        shown["iscrowd"] = int(rng.random() < 0.2)
        areas = [100.0, 1024.0, 1025.0, 9216.0, float(shown["bbox"][2] * shown["bbox"][3])]
        annotations.append(shown | {"area": float(rng.choice(areas))})
    scores = rng.choice([0.1, 0.5, 0.5, 0.9, -0.0, 0.0, rng.random()], len(seen)).tolist()
    results = [
        common | {"category_id": int(rng.choice(pool)), "score": s, **_shown(rng, one, iou_type)}
        for one, s in zip(seen, scores, strict=True)
    ]
    return annotations, results


def _box(rng: Rng) -> list[float]:
    width, height = SIZES[int(rng.integers(len(SIZES)))]
    left, top = rng.integers(0, 5, 2) * rng.choice([1, 5, 40])
    return [float(left), float(top), float(width), float(height)]


def _near_box(rng: Rng, box: list[float]) -> list[float]:
    """The same box, a part of it whose IoU is a threshold, or the box moved a little."""
    left, top, width, height = box
    kind = rng.random()
    if kind < 0.3:
        return box
    if kind < 0.65:
        return [left, top, width * float(rng.integers(4, 21)) / 20, height]
    shift = rng.integers(-5, 6, 2).tolist()
    return [left + shift[0] / 3, top + shift[1], width, height]


def _shown(rng: Rng, shape: Any, iou_type: str, *, plain: bool = False) -> dict[str, Any]:
    """The keys of a box, or of a mask: compressed, or ``plain`` run lengths or a polygon."""
    if iou_type == "bbox":
        return {"bbox": shape}
    rle = api.encode(np.asfortranarray(shape, dtype=np.uint8))
    box = [float(one) for one in api.toBbox(rle)]
    if plain and rng.random() < 0.3:
        return {"bbox": box, "segmentation": {"size": rle["size"], "counts": _counts(shape)}}
    if plain and rng.random() < 0.1:
        left, top, width, height = box
        corners = [left, top, left, top + height, left + width, top + height, left + width, top]
        return {"bbox": box, "segmentation": [corners]}
    return {"bbox": box, "segmentation": rle}


def _counts(mask: Any) -> list[int]:
    flat = np.concatenate([[0], np.asarray(mask, dtype=np.int8).flatten(order="F")])
    changes = np.flatnonzero(np.diff(flat))
    return np.diff(np.concatenate([[0], changes, [flat.size - 1]])).tolist()


def _make_strange(rng: Rng, annotations: list[Any], results: list[Any]) -> str:
    """Change one row to what this package does not evaluate; what that is."""
    kind = str(rng.choice(["id 0", "NaN score", "area of its own", "negative width"]))
    if kind == "id 0" and annotations:
        annotations[int(rng.integers(len(annotations)))]["id"] = 0
    elif kind == "NaN score" and results:
        results[int(rng.integers(len(results)))]["score"] = float("nan")
    elif kind == "negative width" and results:
        results[int(rng.integers(len(results)))]["bbox"][2] *= -1
    return kind


def random_params(rng: Rng, images: list[Any], ids: list[int]) -> dict[str, Any]:
    """Parameters as users change them; often none."""
    params: dict[str, Any] = {}
    if rng.random() < 0.5:
        return params
    if rng.random() < 0.3:
        params["useCats"] = 0
    if rng.random() < 0.3:
        params["imgIds"] = rng.choice([one["id"] for one in images], 3).tolist()
    if rng.random() < 0.3:
        count = int(rng.integers(1, len(ids) + 1))
        params["catIds"] = [*rng.choice(ids, count, replace=False).tolist(), 977]
    if rng.random() < 0.3:
        choices = ([100, 1, 10], [1, 2, 3], [5], [300, 10, 1], [3, 3, 100])
        params["maxDets"] = choices[int(rng.integers(len(choices)))]
    if rng.random() < 0.3:
        thresholds = np.sort(rng.choice(np.arange(1, 21), int(rng.integers(1, 8)), False)) / 20
        params["iouThrs"] = thresholds[::-1] if rng.random() < 0.2 else thresholds
    if rng.random() < 0.3:
        levels = (np.linspace(0, 1, 11), np.array([0.5]), np.array([0.9, 0.1, 0.3]))
        params["recThrs"] = levels[int(rng.integers(len(levels)))]
    if rng.random() < 0.3:
        params["areaRng"] = [[0, 1e10], [0, 400], [400, float("inf")]]
        params["areaRngLbl"] = ["all", "small", "rest"]
    return params


# pycocotools' objects -----------------------------------------------------------------------------


def as_coco(images: list[Any], categories: list[Any], annotations: list[Any]) -> COCO:
    """A ``COCO`` object of these lists."""
    coco = COCO()
    coco.dataset = {"images": images, "categories": categories, "annotations": annotations}
    with contextlib.redirect_stdout(io.StringIO()):
        coco.createIndex()
    return coco


def load_results(truth: COCO, results: list[Any]) -> COCO:
    """What ``loadRes`` gives; it fails on an empty list."""
    if not results:
        return as_coco(truth.dataset["images"], truth.dataset["categories"], [])
    with contextlib.redirect_stdout(io.StringIO()):
        return truth.loadRes(copy.deepcopy(results))


def run_evaluation(kind: Any, pair: Pair) -> tuple[Any, str]:
    """An evaluation after ``summarize`` of objects of its own, and what that printed."""
    judge = kind(copy.deepcopy(pair.truth), copy.deepcopy(pair.found), pair.iou_type)
    for name, value in pair.params.items():
        setattr(judge.params, name, copy.deepcopy(value))
    printed = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        judge.evaluate()
        judge.accumulate()
    with contextlib.redirect_stdout(printed):
        if len(judge.params.maxDets) >= 3:  # pycocotools' summary reads the third limit
            judge.summarize()
    return judge, printed.getvalue()


def same_evaluations(one: Any, other: Any) -> list[str]:
    """Names of what differs in ``eval`` and ``stats``, in any bit."""
    names = ("precision", "recall", "scores", "counts")
    found = [
        name
        for name in names
        if not np.array_equal(one.eval[name], other.eval[name], equal_nan=True)
        or np.asarray(one.eval[name]).dtype != np.asarray(other.eval[name]).dtype
    ]
    return found + (["stats"] if not np.array_equal(one.stats, other.stats) else [])
