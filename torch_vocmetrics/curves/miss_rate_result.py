"""From match records to the result of a miss rate protocol."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import warn
from ..lanes import Lanes, lanes_of_areas, packed_areas
from ..protocols import MissRateProtocol
from ..results import CrowdMissRateResult, MissRateCurve, MissRateResult, as_tensor
from ..tables.records import MatchRecords
from .miss_rate import (
    FppiCurve,
    fppi_curve,
    jaccard_index,
    log_average,
    mean_precision,
    miss_rates,
    trapezoids,
)
from .ranking import image_positions, rank


def miss_rate_result(protocol: MissRateProtocol, records: MatchRecords) -> MissRateResult:
    """Curves, averages and counts of records without repeated images.

    Warns:
        VocMetricsWarning: naming subsets whose number the official code does not give.
    """
    records, images = _split_by_position(protocol, records)
    ranking = rank(records, Lanes.of(protocol), 1)
    curves = [
        fppi_curve(ranking, s, count, protocol) if count else fppi_curve(ranking, s, 1, protocol)
        for s, count in enumerate(images)
    ]
    positives = ranking.num_positives[:, 0].cpu()
    rates, averages, precisions = [], [], []
    for s, (subset, curve) in enumerate(zip(protocol.subsets, curves, strict=True)):
        values = miss_rates(curve, protocol.fppi_of(subset), protocol.curve_reading)
        undefined = protocol.without_positives == "undefined" and not positives[s]
        if undefined or not images[s]:
            values = np.full_like(values, math.nan)
        rates.append(values)
        averages.append(log_average(values, protocol))
        precisions.append(mean_precision(curve, protocol.recall_levels) if images[s] else math.nan)
    _warn_of_undefined(protocol, curves, averages)
    found = [int(curve.true_positives[-1]) if curve.fppi.size else 0 for curve in curves]
    common: dict[str, Any] = {
        "protocol": protocol,
        "log_average_miss_rate": as_tensor(np.array(averages)),
        "miss_rate": as_tensor(np.stack(rates)),
        "mean_precision": as_tensor(np.array(precisions)),
        "curves": tuple(_public(curve) for curve in curves),
        "num_positives": positives,
        "true_positives": as_tensor(np.array(found, dtype=np.int64)),
        "false_positives": as_tensor(
            np.array([c.fppi.size - n for c, n in zip(curves, found, strict=True)], dtype=np.int64)
        ),
        "num_images_of_subset": as_tensor(np.array(images, dtype=np.int64)),
        "num_images": records.num_images,
        "num_detections": ranking.scores.shape[0],
    }
    if not protocol.jaccard_scores:
        return MissRateResult(**common)
    return _crowd_result(protocol, records, curves[0], int(positives[0]), common)


def _crowd_result(
    protocol: MissRateProtocol,
    records: MatchRecords,
    curve: FppiCurve,
    positives: int,
    common: dict[str, Any],
) -> CrowdMissRateResult:
    counts = records.image_counts
    if counts is None:
        counts = as_tensor(np.zeros((0, len(protocol.jaccard_scores), 3), dtype=np.int32))
    counts = counts.cpu()
    if records.num_images:
        counts = counts.index_select(0, torch.argsort(_positions(records)).cpu())
    by_score = jaccard_index(counts.numpy(), protocol.jaccard_epsilon)
    return CrowdMissRateResult(
        **common,
        average_precision=trapezoids(curve) if positives else math.nan,
        jaccard_index=float(np.fmax.reduce(by_score)),
        jaccard_by_score=as_tensor(by_score),
        jaccard_counts=counts,
    )


def _public(curve: FppiCurve) -> MissRateCurve:
    fppi, recall, precision = map(as_tensor, (curve.fppi, curve.recall, curve.precision))
    return MissRateCurve(fppi, recall, precision, curve.scores)


def _split_by_position(
    protocol: MissRateProtocol, records: MatchRecords
) -> tuple[MatchRecords, list[int]]:
    """Take what lies outside the images of a subset out of its lane; images of each subset."""
    if not any(subset.images for subset in protocol.subsets):
        return records, [records.num_images] * len(protocol.subsets)
    lanes = Lanes.of(protocol)
    position = _positions(records)
    known = protocol.num_images in (0, records.num_images)
    if not known and records.num_images:
        names = [subset.name for subset in protocol.subsets if subset.images]
        warn(
            f"{', '.join(names)} are places among {protocol.num_images} images, but "
            f"{records.num_images} came: these subsets are NaN"
        )
    inside = [
        _within(position, subset.images if known else ((0, 0),))
        if subset.images
        else torch.ones_like(position, dtype=torch.bool)
        for subset in protocol.subsets
    ]
    areas = packed_areas([~one for one in inside])
    outside = lanes_of_areas(areas, lanes)
    image_of_match = records.image.index_select(0, records.match_detection)
    off = outside.index_select(0, image_of_match)
    split = dataclasses.replace(
        records,
        out_of_range=records.out_of_range | areas.index_select(0, records.image),
        match_true_positive=records.match_true_positive & ~off,
        match_ignored=records.match_ignored & ~off,
        ground_truth_counted=records.ground_truth_counted
        & ~outside.index_select(0, records.ground_truth_image),
    )
    return split, [int(one.sum()) for one in inside]


def _positions(records: MatchRecords) -> Tensor:
    """[I] int64: index of each image's id in sorted order; its row where no ids were given."""
    ids = records.image_ids or tuple(range(records.num_images))
    return image_positions(ids, records.device)


def _within(position: Tensor, spans: tuple[tuple[int, int], ...]) -> Tensor:
    """[I] bool: positions in any of the half-open ranges."""
    inside = torch.zeros_like(position, dtype=torch.bool)
    for first, end in spans:
        inside |= (position >= first) & (position < end)
    return inside


def _warn_of_undefined(
    protocol: MissRateProtocol, curves: list[FppiCurve], averages: list[float]
) -> None:
    """Name the subsets at which the official code stops, since its curve begins too late."""
    if protocol.curve_reading != "last_or_undefined":
        return
    names = [
        subset.name
        for subset, curve, value in zip(protocol.subsets, curves, averages, strict=True)
        if math.isnan(value) and curve.fppi.size and curve.fppi[0] > protocol.fppi_of(subset)[0]
    ]
    if names:
        warn(
            f"the first false positive of {', '.join(names)} lies above the lowest reference, "
            "where the official code stops: NaN"
        )
