"""Compile every kernel for several generations of cards; print what each uses as JSON."""

from __future__ import annotations

import json
from typing import Any

from compiling import GENERATIONS, compiled

from torch_vocmetrics.kernels import confusion, masks
from torch_vocmetrics.matching.greedy_cuda import match_kernel, warps_of

FLOAT64 = ("boxes", "object_boxes", "regions", "epsilon", "thresholds", "overlaps")
SIZES = ("num_detections", "num_objects", "num_thresholds")


def greedy(
    capability: int,
    size: int,
    *,
    best_only: bool = False,
    two_shapes: bool = False,
    known: bool = False,
) -> dict[str, Any]:
    constants = {
        "size": size,
        "inclusive": best_only,
        "strict": False,
        "best_only": best_only,
        "last_wins": not best_only,
        "two_shapes": two_shapes,
        "used_matches": two_shapes,
        "known_overlaps": known,
    }
    types = dict.fromkeys(match_kernel.arg_names, "*i64") | dict.fromkeys(SIZES, "i32")
    types |= dict.fromkeys(FLOAT64, "*fp64") | {"over_area": "*i1"}
    types |= {"overflow": "*i32", "match_overlap": "*fp32"}
    what = f"{size} objects" + " VOC" * best_only + " pedestrians" * two_shapes + " masks" * known
    used = compiled(match_kernel, types, constants, capability, warps_of(size))
    return {"what": what} | used


def tally(capability: int, prediction: str, cells: int) -> dict[str, Any]:
    logits = prediction in ("bf16", "fp32", "fp64")
    types = dict.fromkeys(confusion.tally_kernel.arg_names, "i64")
    types |= dict.fromkeys(("num_classes", "truth_last", "last", "copies"), "i32")
    types |= dict.fromkeys(("table", "truth_table", "counts"), "*i64")
    types |= {"prediction": f"*{prediction}", "truth": "*u8"}
    constants = {"logits": logits, "cells": cells, "block": confusion.BLOCK}
    used = compiled(confusion.tally_kernel, types, constants, capability, confusion.warps_of(cells))
    return {"what": f"{prediction}, {cells} cells"} | used


def packing(capability: int, kind: str) -> dict[str, Any]:
    types = dict.fromkeys(masks.pack_kernel.arg_names, "*i64") | {"like": f"*{kind}"}
    constants = {"probabilities": kind != "u8", "block": masks.BLOCK}
    return {"what": kind} | compiled(masks.pack_kernel, types, constants, capability, masks.WARPS)


def decoding(capability: int) -> dict[str, Any]:
    types = dict.fromkeys(masks.decode_kernel.arg_names, "*i64") | {"steps": "i32"}
    constants = {"block": masks.BLOCK}
    used = compiled(masks.decode_kernel, types, constants, capability, masks.WARPS)
    return {"what": "run lengths"} | used


def comparing(capability: int) -> dict[str, Any]:
    types = dict.fromkeys(masks.overlap_kernel.arg_names, "*i64")
    types |= {"over_area": "*i1"} | dict.fromkeys(("areas", "object_areas", "overlaps"), "*fp64")
    used = compiled(masks.overlap_kernel, types, {"block": masks.PAIR_BLOCK}, capability, 4)
    return {"what": "pairs"} | used


rows = []
for sm in GENERATIONS:
    rows += [greedy(sm, size) for size in (16, 64, 256, 512, 1024)]
    rows += [greedy(sm, size, two_shapes=True) for size in (512, 1024)]
    rows += [greedy(sm, 32, known=True)]
    rows += [greedy(sm, 32, best_only=True), greedy(sm, 32, two_shapes=True)]
    rows += [tally(sm, "bf16", cells) for cells in (512, 4096, 32768, 0)]
    rows += [tally(sm, "fp32", 1024), tally(sm, "i64", 512), tally(sm, "u8", 32768)]
    rows += [packing(sm, kind) for kind in ("u8", "bf16", "fp32")]
    rows += [decoding(sm), comparing(sm)]
print(json.dumps(rows))
