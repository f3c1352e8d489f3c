"""Tensors of rows with named columns, labels as floats, and rows of unknown labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from helpers.generator import random_problem
from torch import Tensor

from torch_vocmetrics import DetectionAP, InputError, LogAverageMissRate, load_protocol, reference

COCO = load_protocol("coco2017")
FOUND = ("boxes", "scores", "labels")
TRUE = ("labels", "boxes", "iscrowd")


def rows_of(image: dict[str, Any], names: tuple[str, ...], number: int = 0) -> Tensor:
    """The columns of one image side by side."""
    count = len(image["labels"])
    columns = []
    for name in names:
        missing = torch.full((count,), number if name == "image" else 0)
        values = torch.as_tensor(image.get(name, missing)).double()
        columns.append(values.reshape(count, 4 if name == "boxes" else 1))
    return torch.cat(columns, 1)


def problem_of(seed: int) -> tuple[list[Any], list[Any], dict[str, Any]]:
    """A random problem with crowds, without ids, areas and other flags."""
    problem = random_problem(seed, COCO)
    found = [{key: rows[key] for key in FOUND} for rows in problem.detections]
    true = [{key: rows[key] for key in TRUE if key in rows} for rows in problem.ground_truths]
    return found, true, problem.kwargs


def numbers(metric: Any) -> str:
    return repr(metric.compute().to_dict())


@pytest.mark.parametrize("seed", range(8))
def test_tensors_of_rows_are_dicts(seed: int) -> None:
    """In a list, and all images in one tensor whose rows come in any order of images."""
    found, true, kwargs = problem_of(seed)
    wanted = repr(reference.evaluate(COCO, found, true, **kwargs).to_dict())
    named = {"prediction_columns": FOUND, "target_columns": list(TRUE)}
    metric = DetectionAP(COCO, **named, **kwargs)
    metric.update([rows_of(r, FOUND) for r in found], tuple(rows_of(r, TRUE) for r in true))
    assert numbers(metric) == wanted
    names = ("scores", "image", "labels", "boxes")
    mixed = [
        (place, i, row)
        for i, image in enumerate(found)
        for place, row in enumerate(rows_of(image, names, i))
    ]
    mixed.sort(key=lambda entry: entry[:2])
    flat = torch.stack([row for *_, row in mixed]) if mixed else torch.zeros(0)
    one = DetectionAP(COCO, prediction_columns=names, **kwargs).update(flat, true)
    assert numbers(one) == wanted
    targets = torch.cat([rows_of(r, ("image", *TRUE), i) for i, r in enumerate(true)]).numpy()
    other = DetectionAP(COCO, target_columns=("image", *TRUE), **kwargs).update(found, targets)
    assert numbers(other) == wanted


def test_ids_and_sizes_stand_beside_rows() -> None:
    """YOLO's targets: image, label, and fractions of the image."""
    targets = torch.tensor([[1, 0, 0.5, 0.5, 0.5, 0.5], [0, 1, 0.25, 0.5, 0.25, 0.5]])
    given = {"rows": targets, "image_id": [7, 8], "image_size": [(100, 200), (50, 50)]}
    metric = DetectionAP(
        COCO,
        num_classes=2,
        box_format=("xyxy", "cxcywhn"),
        prediction_columns=FOUND,
        target_columns=("image", "labels", "boxes"),
    )
    predictions = [
        torch.tensor([[25.0, 25, 75, 75, 0.9, 1]]),
        torch.tensor([[12.5, 12.5, 37.5, 37.5, 0.8, 0]]),
    ]
    result = metric.update(predictions, given).compute()
    assert result.headline == pytest.approx(1)
    assert metric.state_dict()["image_ids"] == [7, 8]
    flat = torch.cat([torch.tensor([[0.0], [1.0]]), torch.cat(predictions)], 1)
    both = DetectionAP(
        COCO,
        num_classes=2,
        box_format=("xyxy", "cxcywhn"),
        prediction_columns=("image", *FOUND),
        target_columns=("image", "labels", "boxes"),
    )
    assert numbers(both.update(flat, given)) == repr(result.to_dict())
    alone = [{"rows": predictions[0], "image_id": 7}, {"rows": torch.zeros(0), "image_id": 8}]
    metric.reset().update(alone, given)
    assert metric.num_images == 2
    with pytest.raises(InputError, match="prediction 0, key 'image_id': differs"):
        metric.update([alone[0] | {"image_id": 9}, alone[1]], given)


def test_dicts_stay_dicts_where_columns_are_named() -> None:
    found, true, kwargs = problem_of(3)
    metric = DetectionAP(COCO, prediction_columns=FOUND, target_columns=TRUE, **kwargs)
    wanted = repr(reference.evaluate(COCO, found, true, **kwargs).to_dict())
    assert numbers(metric.update(found, iter(true))) == wanted
    mixed = [rows_of(r, FOUND) if i % 2 else r for i, r in enumerate(found)]
    assert numbers(metric.reset().update(mixed, true)) == wanted


ROW = torch.tensor([[0.0, 0.0, 9.0, 9.0, 0.9, 1.0]])
TARGET = {"boxes": ROW[:, :4], "labels": [1]}
LIST: dict[str, Any] = {"prediction_columns": FOUND}
FLAT: dict[str, Any] = {"prediction_columns": ("image", *FOUND)}


def of_image(value: float) -> Tensor:
    return torch.cat([torch.tensor([[value]]), ROW], 1)


@pytest.mark.parametrize(
    ("options", "predictions", "sentence"),
    [
        ({}, [ROW], r"predictions\[0\]: must be a dict, got Tensor; .*columns=\('boxes', "),
        ({}, ROW, "predictions: must be a list .*; .*prediction_columns="),
        (LIST, ROW, "needs a column with the index .*name it 'image'"),
        (
            LIST,
            [ROW[:, :5]],
            r"0: must have shape \[N, 6\]: boxes \(4\), scores, labels, got \(1, 5",
        ),
        (LIST, [ROW[0]], r"must have shape \[N, 6\]"),
        (LIST, ["a"], "prediction 0: must be a tensor of numbers"),
        (FLAT, ROW, r"must have shape \[N, 7\]: image, boxes"),
        (FLAT, of_image(1), "row 0: column 'image' must be whole numbers from 0 to 0, got 1.0"),
        (FLAT, of_image(0.5), "got 0.5"),
        (FLAT, of_image(-1), "got -1.0"),
        (FLAT, of_image(torch.nan), "got nan"),
    ],
)
def test_wrong_tensors(options: Any, predictions: Any, sentence: str) -> None:
    metric = DetectionAP(COCO, num_classes=2, **options)
    with pytest.raises(InputError, match=sentence):
        metric.update(predictions, [TARGET])
    assert metric.num_images == 0


def test_two_tensors_do_not_say_how_many_images_there_are() -> None:
    metric = DetectionAP(
        COCO, num_classes=2, prediction_columns=("image", *FOUND), target_columns=("image", *TRUE)
    )
    with pytest.raises(InputError, match="how many images there are is not known"):
        metric.update(torch.zeros(0, 7), torch.zeros(0, 7))


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (
            "boxes scores labels",
            "must be a list of distinct names among boxes, scores",
        ),
        (("boxes", "scores"), "must name labels"),
        (("boxes",), "must name labels and scores"),
        (("boxes", "scores", "labels", "score"), "must be a list of distinct names"),
        (("boxes", "boxes", "scores", "labels"), "must be a list of distinct names"),
        ((), "must be a list of distinct names"),
        (("boxes", "scores", "labels", 3), "must be a list of distinct names"),
        (("boxes", "scores", "labels", "order"), "must be a list of distinct names"),
    ],
)
def test_wrong_names_of_columns(names: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=f"prediction_columns: {sentence}"):
        DetectionAP(COCO, num_classes=2, prediction_columns=names)


def test_pedestrians_as_tensors() -> None:
    target = torch.tensor([[100.0, 100, 141, 200, 0, 0], [300, 100, 341, 200, 0, 1]])
    metric = LogAverageMissRate(
        "caltech2012", prediction_columns=FOUND, target_columns=("boxes", "labels", "ignore")
    )
    found = torch.tensor([[100.0, 100, 141, 200, 0.9, 0], [300, 100, 341, 200, 0.8, 0]])
    result = metric.update([found], [target]).compute()
    assert result.headline < 1e-9
    assert result.num_positives.max() == 1


# Labels as floats ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_labels_may_be_whole_floats(dtype: torch.dtype) -> None:
    found, true, kwargs = problem_of(5)
    wanted = repr(reference.evaluate(COCO, found, true, **kwargs).to_dict())
    for side in (found, true):
        for rows in side:
            rows["labels"] = rows["labels"].to(dtype)
    assert numbers(DetectionAP(COCO, **kwargs).update(found, true)) == wanted
    lists = [r | {"labels": r["labels"].double().tolist()} for r in found]
    assert numbers(DetectionAP(COCO, **kwargs).update(lists, true)) == wanted


@pytest.mark.parametrize("value", [0.5, -0.25, np.nan, np.inf, -np.inf, 1e300, 2.0**63, 1.0000001])
@pytest.mark.parametrize("options", [{"num_classes": 2}, {"label_ids": [7, 1]}])
def test_other_floats_are_unknown_labels(value: float, options: Any) -> None:
    metric = DetectionAP(COCO, **options)
    labels = torch.tensor([1.0, value], dtype=torch.float64)
    rows = {"boxes": ROW[:, :4].repeat(2, 1), "labels": labels}
    sentence = "row 1: the label is unknown, got .* of 2.*62 or more, or a fraction"
    with pytest.raises(InputError, match=f"prediction 0, {sentence}"):
        metric.update([rows | {"scores": [0.9, 0.8]}], [TARGET])
    with pytest.raises(InputError, match=f"target 0, {sentence}"):
        metric.update([None], [rows])


# Rows of unknown labels ---------------------------------------------------------------------------


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_rows_of_unknown_labels_are_dropped(seed: int, packed: bool) -> None:
    """The same as if somebody had left them out before."""
    found, true, kwargs = problem_of(seed)
    ids = kwargs.pop("label_ids")
    known = ids[: len(ids) // 2 + 1]
    kept = [
        [{k: v[torch.isin(r["labels"], torch.tensor(known))] for k, v in r.items()} for r in side]
        for side in ([r | {"boxes": r["boxes"].reshape(-1, 4)} for r in s] for s in (found, true))
    ]
    wanted = repr(reference.evaluate(COCO, *kept, label_ids=known, **kwargs).to_dict())
    metric = DetectionAP(COCO, label_ids=known, unknown_labels="drop", **kwargs)
    sides = [_packed(side) if packed else side for side in (found, true)]
    metric.update(*sides)
    assert numbers(metric) == wanted
    assert metric.num_images == len(true)


def _packed(images: list[Any]) -> dict[str, Any]:
    names = set().union(*images)
    rows = {name: torch.cat([_filled(image, name) for image in images]) for name in names}
    return rows | {"counts": [len(image["labels"]) for image in images]}


def _filled(image: dict[str, Any], name: str) -> Tensor:
    values = image.get(name, torch.zeros(len(image["labels"]), dtype=torch.bool))
    return values.reshape(-1, 4).double() if name == "boxes" else values


def test_padding_of_unknown_labels_may_hold_anything() -> None:
    boxes = torch.tensor([[0.0, 0, 9, 9], [torch.nan, 0, 0, -5]])
    rows = {"boxes": boxes, "labels": [1, -1]}
    metric = DetectionAP(COCO, num_classes=2, unknown_labels="drop")
    metric.update([rows | {"scores": [0.9, torch.nan]}], [rows | {"area": [81.0, -4.0]}])
    result = metric.compute()
    assert (result.num_detections, result.num_positives.tolist()) == (1, [0, 1])
    with pytest.raises(InputError, match="the score is NaN"):
        metric.update([rows | {"scores": [torch.nan, 0.9]}], [None])
    with pytest.raises(InputError, match="the label is unknown, got -1"):
        DetectionAP(COCO, num_classes=2).update([None], [TARGET | {"labels": [-1]}])


@pytest.mark.parametrize("as_runs", [False, True])
def test_masks_are_dropped_with_their_rows(as_runs: bool) -> None:
    mask_tools = pytest.importorskip("pycocotools.mask", reason="pycocotools reads run lengths")
    masks = torch.zeros(3, 8, 8, dtype=torch.bool)
    for row in range(3):
        masks[row, row : row + 4, :4] = True
    runs = [mask_tools.encode(np.asfortranarray(one.numpy().astype(np.uint8))) for one in masks]
    given = {"labels": [5, 0, 5], "masks": runs if as_runs else masks}
    metric = DetectionAP("coco2017_segm", num_classes=1, unknown_labels="drop")
    target = {"labels": [0], "masks": runs[1:2] if as_runs else masks[1:2]}
    metric.update([given | {"scores": [0.9, 0.8, 0.7]}], [target])
    assert metric.compute().headline == pytest.approx(1)
    metric.reset().update([target | {"scores": [0.8]}], [given])
    assert metric.compute().headline == pytest.approx(1)


def test_unknown_labels_must_be_error_or_drop() -> None:
    with pytest.raises(InputError, match="unknown_labels: must be one of error, drop, got 'warn'"):
        DetectionAP(COCO, num_classes=1, unknown_labels="warn")  # type: ignore[call-overload]
