"""The look-alike of COCOeval beside pycocotools' own: fixtures, cases, real data, and its ways."""

from __future__ import annotations

import contextlib
import copy
import doctest
import io
import pickle
import sys
import types
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from helpers.coco_pairs import (
    Pair,
    as_coco,
    load_results,
    random_pair,
    run_evaluation,
    same_evaluations,
)
from helpers.support import coco_case_parts, load_cases, load_fixture, name_of, shared_data
from pycocotools import cocoeval
from pycocotools.coco import COCO

from torch_vocmetrics import VocMetricsWarning
from torch_vocmetrics.integrations import pycocotools as module
from torch_vocmetrics.integrations.pycocotools import OFFICIAL, COCOeval, patch_pycocotools

PLAIN = Pair(
    as_coco(
        [{"id": 5, "height": 60, "width": 60}, {"id": 2, "height": 60, "width": 60}],
        [{"id": 3}, {"id": 1}],
        [
            {"id": 1, "image_id": 5, "category_id": 3, "bbox": [0, 0, 40, 40], "iscrowd": 0,
             "area": 1600.0},
            {"id": 2, "image_id": 2, "category_id": 1, "bbox": [0, 0, 20, 20], "iscrowd": 1,
             "area": 400.0},
        ],
    ),
    COCO(), "bbox", {}, "",
)  # fmt: skip
FOUND = [
    {"image_id": 5, "category_id": 3, "bbox": [0, 0, 40, 30], "score": 0.5},
    {"image_id": 5, "category_id": 1, "bbox": [0, 0, 40, 40], "score": 0.5},
    {"image_id": 2, "category_id": 1, "bbox": [0, 0, 10, 10], "score": 0.9},
    {"image_id": 2, "category_id": 3, "bbox": [0, 0, 10, 10], "score": 0.5},
]


def plain_pair(**params: Any) -> Pair:
    return PLAIN._replace(found=load_results(PLAIN.truth, FOUND), params=params)


def both(pair: Pair) -> tuple[COCOeval, Any]:
    """Ours and pycocotools' own, compared."""
    (found, printed), (wanted, lines) = (run_evaluation(k, pair) for k in (COCOeval, OFFICIAL))
    assert same_evaluations(found, wanted) == []
    assert printed == lines
    return found, wanted


def quietly(judge: Any, *steps: str) -> Any:
    with contextlib.redirect_stdout(io.StringIO()):
        for step in steps:
            getattr(judge, step)()
    return judge


# Every input that there is --------------------------------------------------------------------


def fixture_pair(case: dict[str, Any]) -> Pair:
    images = [{"id": one} for one in case["images"]]
    gt = [{"id": n, "iscrowd": 0} | one for n, one in enumerate(case["gt"], 1)]
    for one in gt:
        one.setdefault("area", one["bbox"][2] * one["bbox"][3])
    truth = as_coco(images, [{"id": one} for one in case["categories"]], gt)
    params = {"maxDets": case["max_dets"]} if "max_dets" in case else {}
    return Pair(truth, load_results(truth, case["dt"]), "bbox", params, "")


@pytest.mark.parametrize("case", load_fixture("coco"), ids=name_of)
@pytest.mark.parametrize("use_categories", [1, 0])
def test_fixtures(case: dict[str, Any], use_categories: int) -> None:
    pair = fixture_pair(case)
    found, _ = both(pair._replace(params=pair.params | {"useCats": use_categories}))
    assert found._metric is not None
    if use_categories:
        assert np.array_equal(found.stats, list(case["expected"]["stats"].values()))


@pytest.mark.parametrize("case", load_cases("COCO bbox"), ids=name_of)
def test_cases(case: dict[str, Any]) -> None:
    ids, categories, gt, dt = coco_case_parts(case["input"])
    names = {"images": ids, "categories": categories, "gt": gt, "dt": dt}
    pair = fixture_pair(copy.deepcopy(names))
    found, wanted = both(pair._replace(params=case["input"].get("params", {})))
    assert found.eval["counts"] == wanted.eval["counts"]


@pytest.mark.parametrize("case", load_cases("COCO segm"), ids=name_of)
def test_cases_of_masks(case: dict[str, Any]) -> None:
    given = copy.deepcopy(case["input"])
    height, width = given["image_size_hw"]
    images = [{"id": n, "height": height, "width": width} for n in range(1, given["images"] + 1)]
    truth = as_coco(images, [{"id": one} for one in given["category_ids"]], given["gt"])
    found, _ = both(Pair(truth, load_results(truth, given["dt"]), "segm", {}, ""))
    assert found._metric is not None


FAKE = ("coco_val2014_fake100", "instances_val2014_100.json")
TINY = "coco_val2017_tiny"
PENNFUDAN = ("coco_detectron2_instances", "pennfudan_gt.json")
REAL = {
    "fake100 boxes": (*FAKE, "instances_val2014_fakebbox100_results.json", "bbox"),
    "fake100 masks": (*FAKE, "instances_val2014_fakesegm100_results.json", "segm"),
    "tiny80": (TINY, "coco_tiny80_gt.json", "coco_tiny80_fastestdet_dt.json", "bbox"),
    "mini79": (TINY, "coco_mini79_gt.json", "coco_mini79_fastestdet_dt.json", "bbox"),
    "pennfudan masks": (*PENNFUDAN, "pennfudan_dt.json", "segm"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("use_categories", [1, 0])
def test_real_data(name: str, use_categories: int) -> None:
    folder, truth, found, iou_type = REAL[name]
    with contextlib.redirect_stdout(io.StringIO()):
        gt = COCO(str(shared_data(folder) / truth))
        dt = gt.loadRes(str(shared_data(folder) / found))
    ours, _ = both(Pair(gt, dt, iou_type, {"useCats": use_categories}, ""))
    assert ours._metric is not None
    if name == "fake100 boxes" and use_categories:
        assert float(f"{ours.stats[0]:.5f}") == 0.50458


def test_each_way_of_random_pairs_is_taken() -> None:
    taken = set()
    for seed in range(60):
        pair = random_pair(seed)
        taken.add((pair.iou_type, both(pair)[0]._metric is not None))
    assert taken == {(kind, fast) for kind in ("bbox", "segm") for fast in (True, False)}


# What pycocotools itself evaluates ------------------------------------------------------------

STRANGE: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any], str]] = {
    "id 0": ({"id": 0}, {}, {}, "annotation id 0"),
    "NaN score": ({}, {"score": float("nan")}, {}, "scores"),
    "negative width": ({}, {"bbox": [9, 9, -2, 3], "area": -6}, {}, "boxes"),
    "area of its own": ({}, {"area": 9e4}, {}, "area of the box"),
    "area on a bound": ({}, {"bbox": [0, 0, 33, 31], "area": 1024.0}, {}, "area of the box"),
    "NaN area": ({"area": float("nan")}, {}, {}, "NaN"),
    "falling thresholds": ({}, {}, {"iouThrs": np.array([0.9, 0.5])}, "iou_thresholds"),
    "falling levels": ({}, {}, {"recThrs": np.array([0.9, 0.5])}, "recall_levels"),
    "a limit twice": ({}, {}, {"maxDets": [1, 1, 9]}, "max_detections"),
    "no images": ({}, {}, {"imgIds": []}, "imgIds"),
    "no categories": ({}, {}, {"catIds": []}, "catIds"),
}


@pytest.mark.parametrize("name", STRANGE)
def test_strange_input_goes_to_pycocotools_with_a_reason(name: str) -> None:
    annotation, result, params, reason = STRANGE[name]
    pair = plain_pair(**params)
    pair = pair._replace(truth=copy.deepcopy(pair.truth))
    next(iter(pair.truth.anns.values())).update(annotation)
    next(iter(pair.found.anns.values())).update(result)
    with contextlib.redirect_stdout(io.StringIO()):
        pair.truth.createIndex()
    ours, _ = both(pair)
    assert ours._metric is None
    judge = COCOeval(pair.truth, pair.found, "bbox")
    vars(judge.params).update(params)
    with pytest.warns(VocMetricsWarning, match=f"pycocotools itself.*{reason}"):
        quietly(judge, "evaluate")


def test_detection_of_id_0() -> None:
    pair = plain_pair()
    pair.found.dataset["annotations"][0]["id"] = 0
    quietly(pair.found, "createIndex")
    assert both(pair)[0]._metric is None


def test_annotation_ids_that_occur_twice() -> None:
    """pycocotools evaluates the later annotation twice and the earlier one never."""
    pair = plain_pair()
    truth = copy.deepcopy(pair.truth)
    truth.dataset["annotations"].append(
        {"id": 1, "image_id": 5, "category_id": 3, "bbox": [3, 0, 40, 40], "iscrowd": 0,
         "area": 1600.0}
    )  # fmt: skip
    quietly(truth, "createIndex")
    assert both(pair._replace(truth=truth))[0]._metric is not None


def test_keypoints() -> None:
    keypoints = [x for n in range(17) for x in (n, 2 * n, 2)]
    truth, found = (
        as_coco(
            [{"id": 1}],
            [{"id": 1}],
            [
                {"id": 1, "image_id": 1, "category_id": 1, "bbox": [0, 0, 16, 32], "iscrowd": 0,
                 "area": 512.0, "num_keypoints": 17, "keypoints": keypoints, "score": 0.5}
            ],
        )
        for _ in range(2)
    )  # fmt: skip
    (ours, _), (wanted, _) = (
        run_evaluation(kind, Pair(truth, found, "keypoints", {"maxDets": [20, 20, 20]}, ""))
        for kind in (COCOeval, OFFICIAL)
    )
    assert same_evaluations(ours, wanted) == []
    assert ours.stats[0] == pytest.approx(1.0)


# Its ways -------------------------------------------------------------------------------------


def test_examples_run() -> None:
    outcome = doctest.testmod(module)
    assert outcome.attempted > 5
    assert outcome.failed == 0


def test_is_one_of_pycocotools() -> None:
    judge = COCOeval(iouType="bbox")
    assert isinstance(judge, OFFICIAL)
    assert dict(judge.evalImgs) == judge.ious == judge.eval == {}
    with pytest.raises(Exception, match="accumulate"):
        judge.summarize()
    with pytest.raises(Exception, match="not supported"):
        COCOeval(iouType="panoptic")
    assert COCOeval().params.iouType == "segm"


def test_deprecated_use_segm() -> None:
    pair = plain_pair(useSegm=0)._replace(iou_type="segm")
    ours, _ = both(pair)
    assert ours._metric is not None
    assert ours.params.iouType == "bbox"


@pytest.mark.parametrize("use_categories", [1, 0])
def test_tables_of_each_image(use_categories: int) -> None:
    ours, wanted = both(plain_pair(useCats=use_categories, maxDets=[1, 2, 3]))
    numbers = ours.stats.copy()
    np.testing.assert_equal(ours.evalImgs, wanted.evalImgs)
    np.testing.assert_equal(ours.ious, wanted.ious)
    quietly(ours, "accumulate", "summarize")
    assert np.array_equal(ours.stats, numbers)


def test_evaluate_again_after_a_change() -> None:
    pair = plain_pair()
    ours = run_evaluation(COCOeval, pair)[0]
    before = ours.evalImgs
    ours.params.catIds = [3]
    quietly(ours, "evaluate", "accumulate", "summarize")
    wanted = run_evaluation(OFFICIAL, pair._replace(params={"catIds": [3]}))[0]
    assert same_evaluations(ours, wanted) == []
    assert len(ours.evalImgs) == len(before) / 2


@pytest.mark.parametrize(
    "change", [{"recThrs": np.linspace(0, 1, 5)}, {"maxDets": [1, 10]}, {"catIds": [3]}]
)
def test_accumulate_with_other_parameters(change: dict[str, Any]) -> None:
    judges = [run_evaluation(kind, plain_pair())[0] for kind in (COCOeval, OFFICIAL)]
    for judge in judges:
        changed = copy.deepcopy(judge.params)
        vars(changed).update(change)
        with contextlib.redirect_stdout(io.StringIO()):
            judge.accumulate(changed)
    assert same_evaluations(*judges) == []


def test_set_tables_are_accumulated() -> None:
    """As torchvision's evaluator does with those of all ranks."""
    pair = plain_pair()
    wanted = run_evaluation(OFFICIAL, pair)[0]
    judge = COCOeval(pair.truth, pair.found, "bbox")
    judge.evalImgs = list(wanted.evalImgs)
    judge._paramsEval = copy.deepcopy(judge.params)
    quietly(judge, "accumulate", "summarize")
    assert same_evaluations(judge, wanted) == []
    evaluated = run_evaluation(COCOeval, pair)[0]
    evaluated.evalImgs = [None] * len(wanted.evalImgs)
    quietly(evaluated, "accumulate")
    assert (evaluated.eval["recall"] == -1).all()


def test_copies_and_pickles() -> None:
    ours = run_evaluation(COCOeval, plain_pair())[0]
    for one in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        quietly(one, "accumulate", "summarize")
        assert same_evaluations(one, ours) == []


def test_annotations_are_left_as_they_are() -> None:
    pair = plain_pair()
    before = copy.deepcopy((pair.truth.anns, pair.found.anns))
    quietly(COCOeval(pair.truth, pair.found, "bbox"), "evaluate", "accumulate")
    assert (pair.truth.anns, pair.found.anns) == before


def test_no_warning_where_nothing_is_strange() -> None:
    pair = plain_pair()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        judge = COCOeval(pair.truth, pair.found, "bbox")
        quietly(judge, "evaluate", "accumulate", "summarize")
    assert judge._metric is not None, "pycocotools itself evaluates what is strange"


# The patch ------------------------------------------------------------------------------------


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Iterator[types.ModuleType]:
    """A module that has imported the class by its name."""
    module = types.ModuleType("some_program")
    module.Judge = official = cocoeval.COCOeval
    monkeypatch.setitem(sys.modules, "some_program", module)
    yield module
    assert cocoeval.COCOeval is module.Judge is official is not COCOeval


def test_patch_reaches_every_module_and_is_undone(program: types.ModuleType) -> None:
    with pytest.raises(ValueError, match="inside"), patch_pycocotools() as patch:  # noqa: PT012
        assert cocoeval.COCOeval is program.Judge is COCOeval
        with patch_pycocotools():
            pass
        assert cocoeval.COCOeval is COCOeval
        assert patch is not None
        raise ValueError("inside")


def test_patch_without_a_block(program: types.ModuleType) -> None:
    official = program.Judge
    program.Ours = COCOeval
    patch = patch_pycocotools()
    assert program.Judge is COCOeval
    patch.undo()
    assert program.Judge is official
    assert program.Ours is COCOeval
    patch.undo()


def test_tables_under_the_patch_are_pycocotools_own() -> None:
    with patch_pycocotools():
        ours = run_evaluation(cocoeval.COCOeval, plain_pair())[0]
        tables = ours.evalImgs
    assert type(ours) is COCOeval
    np.testing.assert_equal(tables, run_evaluation(OFFICIAL, plain_pair())[0].evalImgs)
