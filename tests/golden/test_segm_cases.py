"""The mask lines of cases.jsonl, in every form of input, and pycocotools on the same lines."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from helpers import oracle
from helpers.mask_problems import FORMS, as_form
from helpers.support import (
    Evaluator,
    answers_of,
    each_evaluator,
    load_cases,
    name_of,
    nan_for_minus_one,
    same,
)
from pycocotools import mask as api

CASES = load_cases("COCO segm")
TOLERANCE = 5e-11  # the decimals of a case are rounded to ten digits


def decoded(rle: dict[str, Any]) -> np.ndarray:
    """By hand, from the definition: runs down the columns, outside first."""
    return api.decode({**rle, "counts": rle["counts"].encode()}).astype(bool)


def sides(case: dict[str, Any], form: str) -> tuple[list[Any], list[Any], dict[str, Any]]:
    given = case["input"]
    size = tuple(given["image_size_hw"])
    found, true = [], []
    for image_id in range(1, given["images"] + 1):
        mine = [one for one in given["dt"] if one["image_id"] == image_id]
        objects = [one for one in given["gt"] if one["image_id"] == image_id]
        found.append(
            {
                "masks": as_form([decoded(one["segmentation"]) for one in mine], size, form),
                "scores": torch.tensor([one["score"] for one in mine], dtype=torch.float64),
                "labels": torch.tensor([one["category_id"] for one in mine], dtype=torch.int64),
            }
        )
        true.append(
            {
                "masks": as_form([decoded(one["segmentation"]) for one in objects], size, form),
                "labels": torch.tensor([one["category_id"] for one in objects], dtype=torch.int64),
                "area": torch.tensor([one["area"] for one in objects], dtype=torch.float64),
                "iscrowd": torch.tensor([bool(one["iscrowd"]) for one in objects]),
                "image_id": image_id,
                "image_size": size,
            }
        )
    return found, true, {"label_ids": given["category_ids"]}


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
@each_evaluator
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_numbers(case: dict[str, Any], form: str, evaluate: Evaluator) -> None:
    found, true, kwargs = sides(case, form)
    result = evaluate("coco2017_segm", found, true, **kwargs).to_dict()
    wrong = [
        {
            name: result[name]
            for name in wanted.keys() & result.keys()
            if not same(result[name], nan_for_minus_one(wanted[name]), TOLERANCE)
        }
        for wanted in answers_of(case)
    ]
    assert {} in wrong, wrong


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_live_pycocotools_says_so(case: dict[str, Any]) -> None:
    given = copy.deepcopy(case["input"])
    for one in (*given["gt"], *given["dt"]):
        one["segmentation"]["counts"] = one["segmentation"]["counts"].encode()
        one["bbox"] = api.toBbox(one["segmentation"]).tolist()
        one.setdefault("area", float(api.area(one["segmentation"])))
    ids = list(range(1, given["images"] + 1))
    judge = oracle.run_cocoeval(
        ids, given["category_ids"], given["gt"], given["dt"], iou_type="segm"
    )
    stats = oracle.stats(judge)
    official = case["expected"].get("pycocotools_2.0.11", case["expected"])
    for name in official.keys() & stats.keys():
        assert same(stats[name], official[name], TOLERANCE), name
