"""What the tests share: where the data is, how cases become inputs, who is to be tested.

Cases are read from whatever folder is there; nothing here or in the tests names one by its id.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

import torch_vocmetrics
from torch_vocmetrics import reference
from torch_vocmetrics.protocols import AreaRange, DetectionProtocol, load_protocol
from torch_vocmetrics.results import DetectionResult

_TESTS = Path(__file__).resolve().parents[1]


def _root() -> Path:
    """The folder of fixtures and cases, and maybe data."""
    if os.environ.get("VOCMETRICS_SHARED"):
        return Path(os.environ["VOCMETRICS_SHARED"])
    beside = _TESTS.parent.parent / "shared"
    return beside if beside.is_dir() else _TESTS / "golden"


def shared_file(*parts: str) -> Path:
    """A file of ``fixtures`` or ``cases``."""
    return _root().joinpath(*parts)


def shared_data(*parts: str) -> Path:
    """A folder or file of real data; skips where it is missing."""
    path = _root().joinpath("data", *parts)
    if not path.exists():
        pytest.skip(f"no {path.name} among the real data of VOCMETRICS_SHARED")
    return path


def shared_tree(folder: Path, *prefixes: str) -> Path:
    """``folder`` with the members of trees.zip under the prefixes; skips where there are none."""
    path = shared_file("fixtures", "trees.zip")
    if path.is_file():
        with zipfile.ZipFile(path) as archive:
            chosen = [name for name in archive.namelist() if name.startswith(prefixes)]
            archive.extractall(folder, chosen)
        if chosen:
            return folder
    pytest.skip(f"no {' or '.join(prefixes)} in trees.zip")


def existing(path: Path) -> Path:
    """The path; skips where handed material has no such file or folder."""
    if not path.exists():
        pytest.skip(f"no {path.name} among the handed material")
    return path


# Inputs -------------------------------------------------------------------------------------------


class Problem(NamedTuple):
    """What an evaluator takes."""

    detections: list[dict[str, Any]]
    ground_truths: list[dict[str, Any]]
    kwargs: dict[str, Any]


_DTYPES = {
    "boxes": torch.float64, "scores": torch.float64, "area": torch.float64, "labels": torch.int64,
    "order": torch.int64, "difficult": torch.bool, "iscrowd": torch.bool, "ignore": torch.bool,
}  # fmt: skip


def rows(**columns: list[Any]) -> dict[str, Any]:
    """Columns of one image as tensors."""
    one = {key: torch.tensor(values, dtype=_DTYPES[key]) for key, values in columns.items()}
    one["boxes"] = one["boxes"].reshape(-1, 4)
    return one


def as_nested_list(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value


def load_fixture(name: str) -> list[dict[str, Any]]:
    """The cases of ``fixtures/<name>.json``; none where there is no such file."""
    path = shared_file("fixtures", f"{name}.json")
    return json.loads(path.read_text())["cases"] if path.is_file() else []


def load_extra(name: str, key: str) -> list[dict[str, Any]]:
    """Another list of ``fixtures/<name>.json``; none where it is not there."""
    path = shared_file("fixtures", f"{name}.json")
    return json.loads(path.read_text()).get(key, []) if path.is_file() else []


def load_cases(protocol: str) -> list[dict[str, Any]]:
    """The lines of ``cases/cases.jsonl`` whose ``protocol`` this is."""
    path = shared_file("cases", "cases.jsonl")
    lines = path.read_text().splitlines() if path.is_file() else []
    cases = [json.loads(line) for line in lines if line.strip()]
    return [case for case in cases if case["protocol"] == protocol]


def name_of(case: dict[str, Any]) -> str:
    return str(case.get("name") or case.get("id"))


def voc_fixture(case: dict[str, Any]) -> Problem:
    """A case of voc_det.json; a row's place in its results file breaks ties."""
    classes = case["classes"]
    found: dict[str, dict[str, list[Any]]] = {
        image["id"]: {"boxes": [], "scores": [], "labels": [], "order": []}
        for image in case["images"]
    }
    for k, name in enumerate(classes):
        for place, (image_id, score, *box) in enumerate(case["detections"].get(name, [])):
            for key, value in zip(found[image_id], (box, score, k, place), strict=True):
                found[image_id][key].append(value)
    there = []
    for image in case["images"]:
        objects = [one for one in image["objects"] if one["class"] in classes]
        target = rows(
            boxes=[one["bbox"] for one in objects],
            labels=[classes.index(one["class"]) for one in objects],
            difficult=[bool(one["difficult"]) for one in objects],
        )
        there.append(target | {"image_id": image["id"]})
    return Problem([rows(**one) for one in found.values()], there, {"class_names": classes})


def voc_case(case: dict[str, Any]) -> Problem:
    """A "VOC detection" line of cases.jsonl."""
    given = case["input"]
    gt, dt = given["gt"], given["dt"]
    names = sorted({str(_first(one, "class", "category", default="0")) for one in (*gt, *dt)})
    ids = _image_ids(given["images"], [one["image"] for one in (*gt, *dt)])
    formats = {_box(one, "xyxy")[1] for one in (*gt, *dt)} or {"xyxy"}
    assert len(formats) == 1, "boxes of one form"

    def label(one: dict[str, Any]) -> int:
        return names.index(str(_first(one, "class", "category", default="0")))

    detections, ground_truths = [], []
    for image_id in ids:
        mine = [(place, one) for place, one in enumerate(dt) if one["image"] == image_id]
        detections.append(
            rows(
                boxes=[_box(one, "xyxy")[0] for _, one in mine],
                scores=[_first(one, "score", "conf", "confidence") for _, one in mine],
                labels=[label(one) for _, one in mine],
                order=[place for place, _ in mine],
            )
        )
        objects = [one for one in gt if one["image"] == image_id]
        target = rows(
            boxes=[_box(one, "xyxy")[0] for one in objects],
            labels=[label(one) for one in objects],
            difficult=[bool(one.get("difficult", False)) for one in objects],
        )
        ground_truths.append(target | {"image_id": image_id})
    kwargs = {"class_names": names or ["0"], "box_format": formats.pop()}
    return Problem(detections, ground_truths, kwargs)


def coco_problem(
    image_ids: Sequence[Any],
    category_ids: Sequence[int],
    gt: Sequence[dict[str, Any]],
    dt: Sequence[dict[str, Any]],
    *,
    with_ids: bool = True,
) -> Problem:
    """COCO annotations as inputs; the boxes stay ``xywh``."""
    detections, ground_truths = [], []
    for image_id in image_ids:
        mine = [one for one in dt if one["image_id"] == image_id]
        detections.append(
            rows(
                boxes=[one["bbox"] for one in mine],
                scores=[one["score"] for one in mine],
                labels=[one["category_id"] for one in mine],
            )
        )
        objects = [one for one in gt if one["image_id"] == image_id]
        target = rows(
            boxes=[one["bbox"] for one in objects],
            labels=[one["category_id"] for one in objects],
            iscrowd=[bool(one.get("iscrowd", 0)) for one in objects],
            ignore=[bool(one.get("ignore", 0)) for one in objects],
            area=[one.get("area", math.nan) for one in objects],
        )
        ground_truths.append(target | ({"image_id": image_id} if with_ids else {}))
    kwargs = {
        "class_names": [str(one) for one in category_ids],
        "label_ids": list(category_ids),
        "box_format": "xywh",
    }
    return Problem(detections, ground_truths, kwargs)


def coco_fixture(case: dict[str, Any]) -> Problem:
    """A case of coco.json."""
    return coco_problem(case["images"], sorted(case["categories"]), case["gt"], case["dt"])


def coco_case_parts(given: dict[str, Any]) -> tuple[list[Any], list[int], list[Any], list[Any]]:
    """Image ids, category ids, gt and dt of a "COCO bbox" line of cases.jsonl."""
    gt, dt = given["gt"], given["dt"]
    ids = _image_ids(given["images"], [one["image_id"] for one in (*gt, *dt)])
    mentioned = {one["category_id"] for one in (*gt, *dt)}
    return ids, sorted(given.get("category_ids") or mentioned), gt, dt


def coco_case(case: dict[str, Any]) -> Problem:
    return coco_problem(*coco_case_parts(case["input"]))


def coco_protocol(params: Mapping[str, Any]) -> DetectionProtocol:
    """COCO's protocol with the parameters of a COCOeval, by their names there."""
    rules = load_protocol("detection/coco2017")
    changes: dict[str, Any] = {}
    for key, field in (("iouThrs", "iou_thresholds"), ("recThrs", "recall_levels"),
                       ("maxDets", "max_detections")):  # fmt: skip
        if key in params:
            changes[field] = tuple(params[key])
    if "areaRng" in params:
        shipped = [area.name for area in rules.area_ranges]
        names = params.get("areaRngLbl", shipped)
        changes["area_ranges"] = tuple(
            AreaRange(names[a] if a < len(names) else f"area{a}", *map(float, bounds))
            for a, bounds in enumerate(params["areaRng"])
        )
    unknown = params.keys() - {"iouThrs", "recThrs", "maxDets", "areaRng", "areaRngLbl"}
    assert not unknown, f"no key of a protocol for {unknown}"
    return dataclasses.replace(rules, **changes)


def answers_of(case: dict[str, Any]) -> list[dict[str, Any]]:
    """What a case lets us answer: the wanted default, else any of the modes, else what it says."""
    wanted = case["expected"].get("wanted", case["expected"])
    modes = [value for key, value in wanted.items() if key.startswith("mode_")]
    return [wanted["default"]] if "default" in wanted else modes or [wanted]


def matlab_vector(text: str) -> list[float]:
    """The numbers of a vector as MATLAB prints it: "[0 NaN]", "[0; 1]" or "1"."""
    return [
        float(word) for word in re.split(r"[\s,;]+", text.partition("(")[0].strip("[] ")) if word
    ]


def _image_ids(images: int | Sequence[Any], mentioned: Sequence[Any]) -> list[Any]:
    """Ids 1 .. n where a case only counts its images, and any that its rows name besides."""
    ids = list(range(1, images + 1)) if isinstance(images, int) else list(images)
    ids = [one["id"] if isinstance(one, dict) else one for one in ids]
    return ids + sorted(set(mentioned) - set(ids))


def _first(one: dict[str, Any], *keys: str, default: Any = None) -> Any:
    return next((one[key] for key in keys if key in one), default)


def _box(one: dict[str, Any], plain: str) -> tuple[list[float], str]:
    """Box and its form, which the key says; ``plain`` is the form of a bare ``bbox``."""
    key = next(key for key in one if re.fullmatch(r"b?box(_xyxy|_xywh|_cxcywh)?", key))
    return one[key], key.partition("_")[2] or plain


# Evaluators ---------------------------------------------------------------------------------------

Evaluator = Callable[..., DetectionResult]


def evaluate_by_metric(
    protocol: str | DetectionProtocol,
    detections: Sequence[dict[str, Any]],
    ground_truths: Sequence[dict[str, Any]],
    **kwargs: Any,
) -> DetectionResult:
    """:func:`torch_vocmetrics.reference.evaluate` by way of the metric, in one update."""
    metric = torch_vocmetrics.DetectionAP(protocol, **kwargs)
    return metric.update(list(detections), list(ground_truths)).compute()


evaluators: dict[str, Evaluator] = {
    "reference": reference.evaluate,
    "metric": evaluate_by_metric,
}
each_evaluator = pytest.mark.parametrize(
    "evaluate", list(evaluators.values()), ids=list(evaluators)
)


# Comparison ---------------------------------------------------------------------------------------


BITS_OF_A_MEAN = 0.0 if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else 2.0**-52
"""How far a mean may be from the same mean that an official program printed: ``numpy.mean`` of
NumPy 1.26 adds in another order than that of 2.0 and later, with which the numbers were made."""


def same(got: Tensor | float, wanted: Any, tolerance: float = 0.0) -> bool:
    """Whether two arrays agree; NaN equals NaN."""
    a, b = np.asarray(as_nested_list(got), float), np.asarray(as_nested_list(wanted), float)
    if a.shape != b.shape:
        return a.size == b.size == 0
    return bool(np.allclose(a, b, rtol=0.0, atol=tolerance, equal_nan=True))


def nan_for_minus_one(values: Any) -> np.ndarray:
    """pycocotools' undefined as NaN."""
    array = np.asarray(values, dtype=float)
    return np.where(array == -1, math.nan, array)


def differences(one: DetectionResult, other: DetectionResult) -> list[str]:
    """Names of the fields in which two results differ in any bit (NaN equals NaN)."""
    assert type(one) is type(other)
    found = []
    for field in dataclasses.fields(one):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if field.name == "curves":
            found += _curve_differences(a, b)
        elif isinstance(a, Tensor):
            if field.name == "scores":  # of the type in which the detections came
                a, b = a.double(), b.double()
            if a.dtype != b.dtype or not np.array_equal(a, b, equal_nan=a.is_floating_point()):
                found.append(field.name)
        elif isinstance(a, float) and math.isnan(a) and math.isnan(b):
            continue
        elif a != b:
            found.append(field.name)
    return found


def _curve_differences(one: Any, other: Any) -> list[str]:
    found = [] if [len(row) for row in one] == [len(row) for row in other] else ["curves"]
    for t, (row_a, row_b) in enumerate(zip(one, other, strict=False)):
        for k, (a, b) in enumerate(zip(row_a, row_b, strict=False)):
            for name in ("recall", "precision", "scores"):
                x, y = getattr(a, name), getattr(b, name)
                if name == "scores":  # of the type in which the detections came
                    x, y = x.double(), y.double()
                if x.dtype != y.dtype or not np.array_equal(x, y, equal_nan=True):
                    found.append(f"curves[{t}][{k}].{name}")
    return found
