"""Match records = plain loops = pycocotools in every image of a metric that has seen thousands.

A case is one metric and many small images, and each image is compared as a problem of its own: what
became of each detection in every lane (matched, neither, ignored), its score, and how many objects
count. So a second covers more problems than the campaign ``problems``, which evaluates each of its
own to the end.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from helpers import oracle
from helpers.generator import random_coco_protocol, random_protocol
from helpers.image_problems import ImageProblems, detection_images, pedestrian_images
from helpers.pedestrian_generator import random_protocol as random_miss_rate_protocol
from helpers.support import Problem

from torch_vocmetrics import DetectionAP, LogAverageMissRate
from torch_vocmetrics.lanes import Lanes, area_position, column
from torch_vocmetrics.metrics import record_state
from torch_vocmetrics.protocols import (
    DetectionProtocol,
    MissRateProtocol,
    load_protocol,
    protocol_names,
)
from torch_vocmetrics.reference.jaccard import jaccard_counts
from torch_vocmetrics.reference.matching import IGNORED, TRUE_POSITIVE, evaluate_image
from torch_vocmetrics.reference.miss_rate import cut, match_picture
from torch_vocmetrics.reference.pedestrians import read_pictures
from torch_vocmetrics.reference.reading import read_images
from torch_vocmetrics.tables.records import MatchRecords

from .campaign import Campaign
from .portions import random_portions

IMAGES = 1000
"""Images of a case."""
IMAGES_OF_PYCOCOTOOLS = 500
"""Of a case that pycocotools evaluates, whose loops take the most time."""


class Records(NamedTuple):
    """Match records with a column for each lane.

    Attributes:
        image: [N] of each detection.
        score: [N] float64.
        outcome: [N, lanes] 1 for a true positive, -1 for an ignored detection, otherwise 0.
        counted: [M, lanes] bool, whether an object counts.
        table: the records themselves.
    """

    image: np.ndarray
    score: np.ndarray
    outcome: np.ndarray
    counted: np.ndarray
    table: MatchRecords


def records_of(
    metric: DetectionAP[Any] | LogAverageMissRate[Any], images: ImageProblems, seed: int
) -> Records:
    """What the metric has recorded after one update or several, in either form of input.

    Chunks are of a random size, so that images are matched together and apart.
    """
    rng = np.random.default_rng([seed, 43])
    cuts = np.sort(rng.integers(0, len(images) + 1, int(rng.integers(0, 4))))
    bounds = [0, *cuts.tolist(), len(images)]
    chunk_rows = int(rng.choice([50, 500, record_state.CHUNK_ROWS]))
    with (
        random_portions(rng, smallest=64),
        mock.patch.object(record_state, "CHUNK_ROWS", chunk_rows),
    ):
        for first, last in itertools.pairwise(bounds):
            form = images.packed if rng.random() < 0.5 else images.lists
            metric.update(*form(slice(first, last)))
        table = metric._joined().whole[0]
    lanes = Lanes.of(metric.protocols[0])
    outcome = np.zeros((table.num_detections, lanes.num_areas * lanes.num_thresholds), np.int8)
    counted = np.zeros((len(table.ground_truth_image), outcome.shape[1]), bool)
    for lane in range(outcome.shape[1]):
        area, threshold = divmod(lane, lanes.num_thresholds)
        place = lanes.position(area, threshold)
        ignored = column(table.out_of_range, area_position(area))
        positive = column(table.match_true_positive, place)
        in_lane = positive | column(table.match_ignored, place)
        ignored[table.match_detection[in_lane]] = ~positive[in_lane]
        matched = table.match_detection[positive].numpy()
        outcome[ignored.numpy(), lane] = IGNORED
        outcome[matched, lane] = TRUE_POSITIVE
        counted[:, lane] = column(table.ground_truth_counted, place).numpy()
    return Records(table.image.numpy(), table.score.double().numpy(), outcome, counted, table)


class Comparison(NamedTuple):
    """Says of which image two arrays are unequal, and shows the image."""

    protocol: DetectionProtocol | MissRateProtocol
    images: ImageProblems

    def same(
        self, what: str, fast: np.ndarray, plain: np.ndarray, image: Sequence[int] | np.ndarray
    ) -> None:
        """Raise AssertionError unless the rows are equal; ``image`` [rows] is that of each."""
        assert len(fast) == len(plain), f"{what}: {len(fast)} rows for {len(plain)}"
        unequal = (fast != plain).reshape(len(fast), -1).any(axis=1)
        if unequal.any():
            row = int(np.argmax(unequal))
            number = int(image[row])
            detections, targets = self.images.lists(slice(number, number + 1))
            raise AssertionError(
                f"{what} of image {number}: {fast[row].tolist()} for {plain[row].tolist()}\n"
                f"{int(unequal.sum())} of {len(fast)} rows are unequal\n"
                f"detections = {_plain(detections)}\ntargets = {_plain(targets)}\n"
                f"arguments = {self.images.kwargs}\nprotocol = {self.protocol}"
            )


def _plain(images: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {key: value.tolist() if hasattr(value, "tolist") else value for key, value in one.items()}
        for one in images
    ]


# Detection ----------------------------------------------------------------------------------------


def compare_detection(
    protocol: DetectionProtocol, seed: int, count: int, box_format: str | None = None
) -> Records:
    """The metric and the plain loops of the reference."""
    images = detection_images(seed, count, protocol, box_format)
    fast = records_of(DetectionAP(protocol, **images.kwargs), images, seed)
    labels, box_format = images.kwargs["label_ids"], images.kwargs["box_format"]
    classes = {label: k for k, label in enumerate(labels)}
    plain = read_images(protocol, *images.lists(), classes, box_format)
    outcomes: list[tuple[int, ...]] = []
    scores: list[float] = []
    owners: list[int] = []
    positives = np.zeros((len(labels), count, len(protocol.area_ranges)), dtype=np.int64)
    for k in range(len(labels)):
        for i, image in enumerate(plain):
            sides = image.detections[k], image.ground_truths[k]
            if not any(sides):
                continue
            by_area = [evaluate_image(*sides, area, protocol) for area in protocol.area_ranges]
            outcomes += zip(*(row for one in by_area for row in one.outcomes), strict=True)
            scores += [detection.score for detection in by_area[0].detections]
            owners += [i] * len(by_area[0].detections)
            positives[k, i] = [one.num_positives for one in by_area]
    comparison = Comparison(protocol, images)
    comparison.same("image", fast.image, np.array(owners, dtype=np.int64), owners)
    comparison.same("score", fast.score, np.array(scores, dtype=float), owners)
    wanted = np.array(outcomes, dtype=np.int8).reshape(fast.outcome.shape)
    comparison.same("outcome", fast.outcome, wanted, owners)
    counted = np.zeros((len(labels), count, fast.outcome.shape[1]), dtype=np.int64)
    rows = fast.table.ground_truth_label.long().numpy(), fast.table.ground_truth_image.numpy()
    np.add.at(counted, rows, fast.counted)
    for k in range(len(labels)):
        wanted = np.repeat(positives[k], len(protocol.thresholds), axis=1)
        comparison.same("objects that count", counted[k], wanted, range(count))
    return fast


def compare_pycocotools(protocol: DetectionProtocol, seed: int) -> int:
    """The metric, the plain loops and ``COCOeval.evalImgs``."""
    fast = compare_detection(protocol, seed, IMAGES_OF_PYCOCOTOOLS, "xywh")
    images = detection_images(seed, IMAGES_OF_PYCOCOTOOLS, protocol, "xywh")
    problem = Problem(*images.lists(), images.kwargs)
    comparison = Comparison(protocol, images)
    judged = oracle.evaluate_problem(protocol, problem).evalImgs
    shape = (len(images.kwargs["label_ids"]), len(protocol.area_ranges), len(images))
    cells = np.array([*judged, None], dtype=object)[:-1].reshape(shape)
    outcomes, owners = [], []
    counted = np.zeros_like(fast.counted)
    lanes = Lanes.of(protocol)
    for by_area in cells:
        for i in range(len(images)):
            if by_area[0, i] is None:
                continue
            rows = []
            for a, cell in enumerate(by_area[:, i]):
                matched = (cell["dtMatches"] > 0) & ~cell["dtIgnore"]
                rows.append(np.where(cell["dtIgnore"], IGNORED, matched))
                objects = np.array(cell["gtIds"], dtype=np.int64) - 1
                of_area = slice(a * lanes.num_thresholds, (a + 1) * lanes.num_thresholds)
                counted[objects, of_area] = cell["gtIgnore"][:, None] == 0
            outcomes.append(np.concatenate(rows).T)
            owners += [i] * len(outcomes[-1])
    wanted = np.concatenate([np.zeros((0, fast.outcome.shape[1])), *outcomes])
    comparison.same("outcome by pycocotools", fast.outcome, wanted, owners)
    owner = fast.table.ground_truth_image.tolist()
    comparison.same("what counts by pycocotools", fast.counted, counted, owner)
    return len(images)


# Miss rates ---------------------------------------------------------------------------------------


def compare_miss_rate(protocol: MissRateProtocol, seed: int) -> int:
    """The metric and the plain loops of the reference, subset by subset."""
    images = pedestrian_images(seed, IMAGES)
    fast = records_of(LogAverageMissRate(protocol, **images.kwargs), images, seed)
    pictures = read_pictures(protocol, *images.lists(), {0: 0}, images.kwargs["box_format"])
    comparison = Comparison(protocol, images)
    for s, subset in enumerate(protocol.subsets):
        matched = [match_picture(picture, subset, protocol) for picture in pictures]
        wanted = [(i, d.score, d.outcome) for i, (rows, _) in enumerate(matched) for d in rows]
        kept = fast.outcome[:, s] != IGNORED
        rows = np.stack([fast.image, fast.score, fast.outcome[:, s]], axis=1)[kept]
        comparison.same(
            f"image, score and outcome in {subset.name}",
            rows,
            np.array(wanted, dtype=float).reshape(-1, 3),
            [i for i, _, _ in wanted],
        )
        counted = np.bincount(
            fast.table.ground_truth_image.numpy(), fast.counted[:, s], len(images)
        )
        positives = np.array([number for _, number in matched])
        comparison.same(f"objects that count in {subset.name}", counted, positives, range(IMAGES))
    if protocol.jaccard_scores:
        assert fast.table.image_counts is not None
        plain = [
            jaccard_counts(picture._replace(detections=cut(picture, protocol)), protocol)
            for picture in pictures
        ]
        found = fast.table.image_counts.numpy()
        comparison.same("counts of the Jaccard index", found, np.array(plain), range(IMAGES))
    return len(images)


def _shipped(name: str) -> Callable[[int], int]:
    protocol = load_protocol(f"detection/{name}", DetectionProtocol)
    return lambda seed: len(compare_detection(protocol, seed, IMAGES).table.image_sizes)


def _any_rules(seed: int) -> int:
    return compare_detection(random_protocol(seed), seed, IMAGES).table.num_images


def _coco(seed: int) -> int:
    shipped = load_protocol("detection/coco2017", DetectionProtocol)
    return compare_pycocotools(shipped if seed % 2 else random_coco_protocol(seed), seed)


def _miss_rate(name: str) -> Callable[[int], int]:
    shipped = load_protocol(f"miss_rate/{name}", MissRateProtocol)
    # A number of images that the benchmark has matters to its curves, and to no image.
    protocol = dataclasses.replace(shipped, num_images=0)
    return lambda seed: compare_miss_rate(protocol, seed)


def _any_miss_rate(seed: int) -> int:
    return compare_miss_rate(random_miss_rate_protocol(seed), seed)


KINDS: dict[str, Callable[[int], int]] = {
    **{name: _shipped(name) for name in ("voc2006", "voc2007", "voc2010", "coco2017")},
    "any rules of detection": _any_rules,
    "COCO's rules, and pycocotools": _coco,
    **{name: _miss_rate(name) for name in protocol_names("miss_rate")},
    "any rules of miss rates": _any_miss_rate,
}


def case(seed: int) -> Counter[str]:
    """One metric of some thousand images; the kinds take turns."""
    kind = list(KINDS)[seed % len(KINDS)]
    return Counter({kind: KINDS[kind](seed // len(KINDS))})


CAMPAIGN = Campaign(
    "images", "images whose match records differ from plain loops or pycocotools", case, 2
)
