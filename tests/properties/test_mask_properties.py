"""Masks: fast path = reference = pycocotools on random edge cases, in every form of input."""

from __future__ import annotations

import dataclasses
import itertools
import os
from typing import Any

import numpy as np
import pytest
import torch
from helpers.mask_problems import FORMS, judge_masks, mask_problem
from helpers.support import Problem, differences, evaluate_by_metric

from torch_vocmetrics import DetectionAP, reference
from torch_vocmetrics.metrics import record_state
from torch_vocmetrics.ops import masks as ops
from torch_vocmetrics.protocols import load_protocol

CASES = int(os.environ.get("VOCMETRICS_FUZZ", "0")) or 150
PROTOCOLS = ("coco2017_segm", "coco2017_segm_box_area")


@pytest.mark.parametrize("name", PROTOCOLS)
def test_metric_is_reference_and_pycocotools(name: str) -> None:
    protocol = load_protocol(f"detection/{name}")
    for seed in range(CASES):
        problem = mask_problem(seed)
        fast: Any = evaluate_by_metric(protocol, *problem[:2], **problem.kwargs)
        plain = reference.evaluate(protocol, *problem[:2], **problem.kwargs)
        assert not differences(fast, plain), f"seed {seed}"
        for array, wanted in judge_masks(protocol, problem).items():
            found = getattr(fast, array).numpy()
            assert np.array_equal(found, wanted, equal_nan=True), f"seed {seed}: {array}"


def test_any_rules_by_masks() -> None:
    """Rules that COCO does not have, with masks: strict, best only, first of equals, wide words."""
    base = load_protocol("detection/coco2017_segm")
    variants: list[dict[str, Any]] = [
        {"comparison": ">"},
        {"candidates": "best", "equal_overlaps": "first"},
        {"iou_thresholds": tuple(np.linspace(0.05, 1.0, 20).tolist())},
        {"reusable_flags": (), "overlap_of_detection_area_flags": ()},
        {"max_detections": (2, 3)},
        {
            "interpolation": "all_points",
            "mean_over": "classes_with_positives",
            "precision_epsilon": 0.0,
        },
    ]
    for seed in range(CASES):
        protocol = dataclasses.replace(base, **variants[seed % len(variants)])
        problem = mask_problem(seed)
        fast = evaluate_by_metric(protocol, *problem[:2], **problem.kwargs)
        plain = reference.evaluate(protocol, *problem[:2], **problem.kwargs)
        assert not differences(fast, plain), f"seed {seed}"


@pytest.mark.parametrize("form", FORMS)
def test_one_form_as_another(form: str) -> None:
    """The same masks give the same bits in whichever form they come."""
    protocol = load_protocol("detection/coco2017_segm")
    for seed in range(max(CASES // 5, 20)):
        mixed = mask_problem(seed, forms=(form,))
        whole = mask_problem(seed, forms=("bool",))
        results = [evaluate_by_metric(protocol, *p[:2], **p.kwargs) for p in (mixed, whole)]
        assert not differences(*results), f"seed {seed}"


def test_boxes_and_masks_in_one_pass() -> None:
    for seed in range(max(CASES // 5, 20)):
        problem = mask_problem(seed)
        metric = DetectionAP(["coco2017", "coco2017_segm"], **problem.kwargs)
        both = metric.update(*problem[:2]).compute()
        for name, result in both.items():
            alone = evaluate_by_metric(name, *problem[:2], **problem.kwargs)
            assert not differences(alone, result), f"seed {seed}: {name}"


def test_boxes_are_not_looked_at() -> None:
    """Masks alone: without boxes, and with boxes that lie elsewhere, the numbers are the same."""
    for seed in range(max(CASES // 5, 20)):
        problem = mask_problem(seed)
        wanted = evaluate_by_metric("coco2017_segm", *problem[:2], **problem.kwargs)
        bare = [[{k: v for k, v in one.items() if k != "boxes"} for one in s] for s in problem[:2]]
        far = [
            [one | {"boxes": one["boxes"].reshape(-1, 4) + 1000.0} for one in side]
            for side in problem[:2]
        ]
        for sides in (bare, far):
            got = evaluate_by_metric("coco2017_segm", *sides, **problem.kwargs)
            assert not differences(wanted, got), f"seed {seed}"
        plain = reference.evaluate("coco2017_segm", *bare, **problem.kwargs)
        assert not differences(wanted, plain), f"seed {seed}"


def batches(problem: Problem, rng: np.random.Generator) -> list[tuple[Any, Any]]:
    count = len(problem.detections)
    bounds = [0, *np.sort(rng.integers(0, count + 1, 2)).tolist(), count]
    return [(problem[0][a:b], problem[1][a:b]) for a, b in itertools.pairwise(bounds)]


def test_splits_merges_and_small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches, merges, chunks of a few bytes and workspaces of a few masks change nothing."""
    for seed in range(max(CASES // 5, 20)):
        problem = mask_problem(seed)
        whole = evaluate_by_metric("coco2017_segm", *problem[:2], **problem.kwargs)
        parts = batches(problem, np.random.default_rng(seed))
        with monkeypatch.context() as patch:
            patch.setattr(record_state, "CHUNK_MASK_BYTES", 100)
            patch.setattr(ops, "WORKSPACE_BYTES", 200)
            patch.setattr(ops, "TILE_BYTES", 200)
            split = DetectionAP("coco2017_segm", **problem.kwargs)
            pieces = []
            for part in parts:
                split.update(*part)
                pieces.append(DetectionAP("coco2017_segm", **problem.kwargs).update(*part))
            merged = pieces[-1].merge(*pieces[:-1])
            for metric in (split, merged):
                assert not differences(whole, metric.compute()), f"seed {seed}"


@pytest.mark.parametrize(("height", "width"), [(5, 7), (3, 64), (4, 65), (6, 200), (1, 1), (0, 5)])
def test_packing_on_the_device_is_packing_on_the_host(height: int, width: int) -> None:
    generator = torch.Generator().manual_seed(height * width)
    masks = torch.rand(5, height, width, generator=generator) > 0.4
    words = ops.pack_masks(masks)
    assert words.shape == (5, height, -(-width // 64))
    bits = np.unpackbits(words.numpy().view(np.uint8), axis=-1, bitorder="little")
    assert np.array_equal(bits[:, :, :width], masks.numpy())
    assert not bits[:, :, width:].any()
    assert torch.equal(ops.mask_areas(words), masks.sum((1, 2)))
    if height:
        assert torch.equal(ops._pack_on_device(masks), words)
        assert torch.equal(ops._pack_on_device(masks.to(torch.uint8) * 255), words)
        assert torch.equal(ops._count_bits_on_device(words.flatten(1)), masks.sum((1, 2)))


def test_common_pixels_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three pairs at a time: 2 rows of 2 words have 32 bytes."""
    monkeypatch.setattr(ops, "WORKSPACE_BYTES", 100)
    masks = torch.rand(4, 2, 70, generator=torch.Generator().manual_seed(0)) > 0.4
    words = ops.pack_masks(masks)
    i, j = torch.cartesian_prod(torch.arange(4), torch.arange(4)).T
    wanted = (masks[i] & masks[j]).sum((1, 2))
    assert torch.equal(ops._common_on_device(words, words, i, j), wanted)
    assert torch.equal(ops.common_pixels(words, words, i, j), wanted)
